package monitor

import "github.com/porestream/porestream/stream"

// advice is what a problem is called and what to do about it. Titles begin in lower
// case, as they stand within sentences too.
type advice struct{ title, do string }

// deadLetterAdvice names the entry of a reason code in the table.
func deadLetterAdvice(code string) string {
	if _, known := adviceTable()["dead letter: "+code]; known {
		return "dead letter: " + code
	}
	return "PorestreamDeadLetters"
}

func adviceOn(name string) advice { return adviceTable()[name] }

// adviceTable has an entry for every reason code of dead letters ("dead letter: " and
// the code), for every alert of deploy/prometheus/rules.yml, and for what else the
// page shows. docs/operate/operations.md describes each in more detail.
func adviceTable() map[string]advice {
	return map[string]advice{
		"dead letter: " + stream.CodeForeign: {"what somebody else has written is on the topic",
			"Find out who writes to the topic: only Porestream's own programs should have the right. The records change nothing; pore dlq ls shows them."},
		"dead letter: " + stream.CodeVersion: {"a newer Porestream has written them",
			"Update this processor to the newest version in use, then send the records back: pore dlq redrive --code version."},
		"dead letter: " + stream.CodeTruncated: {"the records are cut short",
			"Search for a program or a proxy between ingest and Kafka that cuts records. What was lost in them is shown as gaps; pore dlq show prints one."},
		"dead letter: " + stream.CodeChecksum: {"the records were damaged on their way",
			"Suspect memory, disks or the network of the brokers, and check their logs. The reads concerned are split at the gap; pore dlq show prints a record."},
		"dead letter: " + stream.CodePayload: {"the records are well wrapped but can't be read",
			"A program that is not Porestream's, or a faulty build, writes to the topic: find it by the record's origin (pore dlq show), stop it, and redrive what was wrong."},
		"dead letter: " + stream.CodeInvalid: {"the records contradict themselves",
			"See what they say with pore dlq show. If a device of your own pushes signal, its numbers are wrong; otherwise reference or versions of the processors may differ. Report it with the record if nothing explains it."},
		"dead letter: " + stream.CodeConflict: {"the records contradict earlier ones of the same read",
			"Two sources send one run, or a sender numbers its chunks anew: see that only one ingest has the run. The first record stands."},
		"dead letter: " + stream.CodeLate: {"the records came after what they belong to was finished",
			"Nothing if it stays at a few. If they come again and again, a sender is slower than --run-timeout or was away for too long: raise the timeout, and send the run again."},

		"PorestreamDown": {"a process is silent",
			"See whether it still runs and what the end of its log says, and start it again: it goes on where it stopped. Other processors take over its partitions within half a minute; signal waits in Kafka meanwhile."},
		"PorestreamNoConsumerGroup": {"nothing is being processed",
			"Start a processor with the stage, or see in the log of those that run why they get no partition: wrong --group or --topic-prefix, no rights, or Kafka away."},
		"PorestreamNotKeepingUp": {"signal comes in faster than it is basecalled",
			"Start another processor, or give a faster model or a GPU; more processors than partitions are idle. Nothing is lost: signal waits in Kafka for seven days."},
		"PorestreamLagOld": {"work waits in a topic",
			"If nothing is read at all, read the processors' logs for the stage that reads the topic. If it is read too slowly, start another processor. Mind the brokers' retention: seven days by default."},
		"PorestreamLagUnknown": {"it is not known what waits in a topic",
			"See whether the broker that leads the topic answers: its log, its disk, and the network between it and the processors. What waits is processed when it does."},
		"PorestreamLatencyHigh": {"calls come late",
			"See which stage is slow in the list of latencies, and whether work waits in a topic. A processor more, or a smaller --commit-interval, shortens it."},
		"PorestreamIngestLate": {"signal is sent late",
			"Ingest or Kafka is too slow: see whether ingest is short of CPU, and whether its link to the brokers is busy. What is late is not lost."},
		"PorestreamSpoolFilling": {"the spool fills up",
			"Kafka is away or too slow: see to the brokers. Until then the signal is on the disk of ingest; when the spool is full, live signal is lost."},
		"PorestreamSpoolFull": {"the spool has no space: live signal is lost",
			"Bring Kafka back, or give the spool more space (--spool-max, or free the disk). Sources that can wait do so; live ones lose signal, which is counted."},
		"PorestreamSignalMissing": {"signal is missing",
			"Reads are split where it is missing, never guessed. See with ingest status which source has gaps: for MinKNOW the machine or its network may be overloaded; for a device of your own see what it reports as lost."},
		"PorestreamDeadLetters": {"they can't be processed",
			"See them with pore dlq ls and pore dlq show; when the reason is gone, pore dlq redrive sends them back, once."},
		"PorestreamSourceFailed": {"a source of signal has failed and delivers nothing",
			"See the reason with ingest status or in its log. Most sources are tried again by themselves; a wrong setting, a token or a folder that is gone has to be put right."},
		"PorestreamNothingCallable": {"hardly any read maps to the reference: there is nothing to call variants from",
			"See whether --ref is the genome of the sample, and whether the model is for the run's chemistry: reads that are called wrongly map nowhere."},
		"CarriedOver": {"carry-over explains alleles of a sample",
			"They are marked CarryOver, and rules don't rest on them. The control that is named shows reads of its neighbours: let the run go on if it has few reads; repeat the sample from before the library before you act on such an allele."},
		"MotifMisread": {"reads of one strand get a motif wrong",
			"The alleles there are marked MotifArtifact, and no result. Most likely the bases are modified and the basecalling model doesn't know it: call the signal again with a newer model, or compare the reads of both strands (pileup) before you believe one."},
		"PorestreamPanelsDiffer": {"processors watch for different panels: some rules get no answer",
			"Start all processors with the same --panel files."},
		"PorestreamModelMismatch": {"reads come from a basecalling model that the variant model was not made for",
			"Their calls say so (ModelMismatch), and qualities may be too high or too low. Give a variant model for them (--variant-model), or call the reads with a basecalling model that it knows: its card and pore model ls list them. --strict-models refuses such reads."},
		"PorestreamSnapshotOld": {"the newest state of a stage is in no snapshot",
			"Results are right, but a restart has to repeat what came since. See the processor's log: mostly the right to write to the topic of state is missing, or Kafka is short of disk."},
		"PorestreamGroupUnstable": {"a stage loses its partitions to errors",
			"See the processor's log for the error that ends its generations. If it says that sessions time out, the machine is overloaded or --session-timeout is too short."},
		"PorestreamPartitionsChanged": {"the number of partitions of a topic has changed: results of runs under way can't be relied on",
			"Reads of one place are in two partitions, and no worker has all of them; so FINAL calls can't be relied on either. Process these runs anew under another prefix (pore replay --into), and restart the processors when no run is under way. Find out who adds partitions."},

		"SignalLost": {"live signal is lost: neither memory nor spool has space for it",
			"Bring Kafka back or make it faster, and run ingest with --spool on a disk with space: then signal outlives the outage."},
		"NoModel": {"reads are left out: their runs have no basecalling model",
			"See in the processors' logs which run it is and why: no rule of --models is for it, no model of --models-dir fits, or the model can't be loaded. Put that right and start the processor again, or wait a minute where it can't be loaded; pore replay calls the reads that were left out."},
		"ModelsMixed": {"a sample's reads come from several basecalling models",
			"Regions are evaluated by the model of most of their reads. If that was not meant, call all reads of the sample with one model and version, and attach them anew under another run."},
		"RunTimeout": {"a run was ended because nothing of it came any more",
			"See whether its ingest has died: started again, it goes on, and the run's calls are amended. --run-timeout says how long to wait."},
		"DeviceFails": {"a device could not compute a batch",
			"Batches are computed again, so nothing is lost. If it goes on, see the processor's log and the device's own (dmesg, nvidia-smi): out of memory is the usual reason."},
		"Unreadable": {"part of the picture can't be read",
			"The processor that serves this page may not read the topic, or Kafka is away: see its log, and give it the rights of the role page (pore acls --role page)."},
	}
}

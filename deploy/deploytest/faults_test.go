package deploytest

import (
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fault is something that goes wrong with running programs, and the alerts that must
// report it.
type fault struct {
	name   string
	alerts []string
	// run makes the fault, awaits the alerts, and puts it right.
	run func(l *lab)
}

// faults are in the order in which they are made.
func faults() []fault {
	return []fault{
		{"a source's address is in use", []string{"PorestreamSourceFailed"}, func(l *lab) {
			taken, err := new(net.ListenConfig).Listen(l.Context(), "tcp", "127.0.0.1:0")
			require.NoError(l, err)
			l.writeSources(taken.Addr().String())
			l.awaitFiring("PorestreamSourceFailed")
			require.NoError(l, taken.Close())
			l.awaitQuiet("PorestreamSourceFailed")
			l.writeSources("")
		}},
		{"records of another program on a topic", []string{"PorestreamDeadLetters"}, func(l *lab) {
			l.produce("signal", []byte("not a record of ours"))
			l.awaitFiring("PorestreamDeadLetters")
		}},
		{"a processor with other panels", []string{"PorestreamPanelsDiffer"}, func(l *lab) {
			l.watcher.end(syscall.SIGTERM)
			other := l.program("other-watcher", "processor", l.watching("watcher", l.panel(2))...)
			other.start()
			l.awaitFiring("PorestreamPanelsDiffer")
			other.end(syscall.SIGTERM)
			l.watcher.start()
		}},
		{"a variant model that is for other reads", []string{"PorestreamModelMismatch"}, func(l *lab) {
			l.processor.end(syscall.SIGTERM)
			other := l.program("other-processor", "processor",
				append(l.processing("processor", "basecall,variant,annotate", l.panel(1)), "--variant-model", l.strangeModel())...)
			other.start()
			l.awaitFiring("PorestreamModelMismatch")
			other.end(syscall.SIGTERM)
			l.processor.start()
		}},
		{"chunks of signal are dropped", []string{"PorestreamSignalMissing"}, func(l *lab) {
			l.device.drops.Store(true)
			l.awaitFiring("PorestreamSignalMissing")
			l.device.drops.Store(false)
		}},
		{"a run that the model was not made for", []string{"PorestreamNothingCallable"}, func(l *lab) {
			l.device.pauses.Store(true)
			stop := l.device.other(30, 200)
			l.awaitFiring("PorestreamNothingCallable")
			stop()
			l.device.pauses.Store(false)
		}},
		{"a processor is killed", []string{"PorestreamDown", "PorestreamNoConsumerGroup"}, func(l *lab) {
			l.processor.end(syscall.SIGKILL)
			l.awaitFiring("PorestreamDown", "PorestreamNoConsumerGroup")
			l.processor.start()
		}},
		{"more signal than a processor can take that gets a fraction of its machine", []string{"PorestreamNotKeepingUp", "PorestreamLatencyHigh"}, func(l *lab) {
			l.awaitLatency()
			// Prometheus still gets its answers. Reads pile up until those that are called
			// have waited for more than half a minute.
			faster := l.processor.throttle(0.15)
			l.device.speed.Store(20)
			l.awaitFiring("PorestreamNotKeepingUp", "PorestreamLatencyHigh")
			l.device.speed.Store(1)
			faster()
		}},
		{"too few replicas take what a stage calls", []string{"PorestreamLagOld"}, func(l *lab) {
			refusing := l.broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "calls", Err: kerr.NotEnoughReplicas, Count: -1})
			require.NoError(l, refusing.Wait(l.Context(), 1))
			l.device.pauses.Store(true)
			l.awaitFiring("PorestreamLagOld")
			refusing.Remove()
			l.device.pauses.Store(false)
		}},
		{"the broker that leads a topic answers no questions about it", []string{"PorestreamLagUnknown"}, func(l *lab) {
			refusing := l.broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets}, Topic: "calls", Err: kerr.NotLeaderForPartition, Count: -1})
			require.NoError(l, refusing.Wait(l.Context(), 1))
			l.awaitFiring("PorestreamLagUnknown")
			refusing.Remove()
		}},
		{"the right to write state is withdrawn", []string{"PorestreamSnapshotOld", "PorestreamGroupUnstable"}, func(l *lab) {
			refusing := l.broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "state", Err: kerr.TopicAuthorizationFailed, Count: -1})
			l.awaitFiring("PorestreamSnapshotOld", "PorestreamGroupUnstable")
			refusing.Remove()
		}},
		{"no broker answers", []string{"PorestreamSpoolFilling", "PorestreamSpoolFull", "PorestreamIngestLate"}, func(l *lab) {
			stop := l.device.other(2, 100_000)
			l.network.block()
			l.awaitFiring("PorestreamSpoolFilling", "PorestreamSpoolFull", "PorestreamIngestLate")
			stop()
			l.network.unblock()
		}},
		// The last, as nothing takes partitions away again.
		{"partitions are added to a topic under a run", []string{"PorestreamPartitionsChanged"}, func(l *lab) {
			l.resize("reads", 3)
			l.awaitFiring("PorestreamPartitionsChanged")
			l.processor.end(syscall.SIGTERM)
			l.processor.start()
		}},
	}
}

// The documentation lists for operators which fault each alert has been tested with.
func TestFaultsAreDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n| fault | alerts |\n|---|---|\n")
	for _, f := range faults() {
		fmt.Fprintf(&b, "| %s | %s |\n", f.name, strings.Join(f.alerts, ", "))
	}
	b.WriteString("\n")
	documented(t, "docs/operate/operations.md", "TestFaultsAreDocumented", "faults of alerts", b.String())
}

// An alert that no fault has caused may be one that nothing can cause.
func TestEveryAlertHasAFault(t *testing.T) {
	caused := make(map[string]bool)
	for _, f := range faults() {
		require.NotEmpty(t, f.alerts, f.name)
		for _, a := range f.alerts {
			caused[a] = true
		}
	}
	for _, r := range rules(t) {
		if r.Alert != "" {
			assert.True(t, caused[r.Alert], "no fault of the live test causes %s", r.Alert)
			delete(caused, r.Alert)
		}
	}
	assert.Empty(t, caused, "faults cause alerts that don't exist")
}

// faultsVariable has the live test run, which takes minutes, the programs in bin/ and
// Prometheus. It is a regular expression of the faults to make; deploy/check.sh sets it.
const faultsVariable = "PORESTREAM_TEST_FAULTS"

// TestAlertsReportFaults makes every fault on running programs. A real Prometheus with
// the shipped rules, in scaled time, must be silent before the first fault, report each
// fault, and be silent again when it is repaired.
func TestAlertsReportFaults(t *testing.T) {
	if os.Getenv(faultsVariable) == "" {
		t.Skip("takes minutes and needs Prometheus: deploy/check.sh sets ", faultsVariable)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	l := newLab(ctx, t)
	l.begin()
	only := regexp.MustCompile(os.Getenv(faultsVariable))
	l.device.speed.Store(4)
	l.awaitLatency()
	l.device.speed.Store(1)
	l.awaitQuiet(slices.Collect(alertNames(rules(t)))...)
	t.Logf("%5.1fs everything runs, and no alert fires", time.Since(l.began).Seconds())
	var caused []string
	for _, f := range faults() {
		if !only.MatchString(f.name) {
			continue
		}
		// Whatever the fault before has left is over.
		l.awaitSaved()
		l.awaitQuiet(f.alerts...)
		t.Logf("%5.1fs %s", time.Since(l.began).Seconds(), f.name)
		f.run(l)
		t.Logf("%5.1fs put right", time.Since(l.began).Seconds())
		caused = append(caused, f.alerts...)
	}
	l.awaitQuiet(caused...)
	t.Logf("%5.1fs all alerts are resolved", time.Since(l.began).Seconds())
}

func alertNames(all []rule) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, r := range all {
			if r.Alert != "" && !yield(r.Alert) {
				return
			}
		}
	}
}

// writeSources writes ingest's list: the device's push server and, where an address is
// given, one that listens there.
func (l *lab) writeSources(another string) {
	list := fmt.Sprintf(`kafka: {brokers: ["%s"]}
listen: %s
sources:
- {kind: serve, name: device, push_listen: "%s", spool: spool, spool_max: 4MiB, max_buffered: 4MiB, max_runs: 4}
`, l.network.addr(), l.addrs["ingest"], l.addrs["push"])
	if another != "" {
		list += fmt.Sprintf("- {kind: serve, name: spare, push_listen: \"%s\"}\n", another)
	}
	l.write("sources.yaml", list)
}

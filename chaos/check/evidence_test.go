package check_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/chaos/check"
	"github.com/porestream/porestream/chaos/history"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Partitions of the topics of the evidence.
var partitions = map[string]int32{"signal": 2, "reads": 3, "calls": 1, "variants": 2, "methylation": 2}

var theRun = &streampb.Run{Id: "run1", Sample: "s", SampleRate: 4000}

// log is the committed records of a cluster that is being made up.
type log struct {
	t       *testing.T
	records map[string][]stream.Record
	ends    map[string]int64
}

// put appends a record. Every one is a transaction of its own, so that offsets have gaps.
func (l *log) put(topic string, partition int32, key, value []byte, headers ...stream.Header) {
	where := fmt.Sprint(topic, partition)
	l.records[topic] = append(l.records[topic], stream.Record{Topic: topic, Partition: partition, Offset: l.ends[where], Key: key, Value: value, Headers: headers})
	l.ends[where] += 2
}

func (l *log) all(outs []stream.Out, err error) {
	require.NoError(l.t, err)
	for _, o := range outs {
		if o.Partition == stream.AnyPartition {
			o.Partition = stream.PartitionFor(o.Key, partitions[o.Topic])
		}
		l.put(o.Topic, o.Partition, o.Key, o.Value, o.Headers...)
	}
}

// marker puts the begin or end of the run by every source into every partition.
func (l *log) marker(topic string, sources int32, end bool, encode func(*streampb.Marker, bool) ([]byte, error)) {
	for source := range sources {
		mk := &streampb.Marker{Run: theRun, Source: uint32(source), Sources: uint32(sources)}
		value, err := encode(mk, end)
		l.all(stream.Broadcast(topic, partitions[topic], mk, end, value), err)
	}
}

func (l *log) chunk(read string, channel, number uint32) {
	samples := make([]int16, 4000)
	samples[0] = int16(number)
	value, err := stream.EncodeSignal(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: &streampb.SignalChunk{
		Run: theRun.Id, Channel: channel, ReadId: read, Number: number, FirstSample: uint64(number) * 4000, SampleCount: 4000,
		Vbz: vbz.Encode(nil, samples), EndOfRead: number == 2,
	}}})
	l.all([]stream.Out{{Topic: "signal", Partition: stream.AnyPartition, Key: stream.SignalKey(theRun.Id, channel), Value: value}}, err)
}

func (l *log) segment(read string, lastChunk int64) {
	value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_Segment{Segment: &streampb.Segment{
		Run: theRun.Id, Sample: "s", ReadId: read, Contig: "c", Start: 5, Ops: []byte{4 << 3}, Qualities: []byte{9, 9, 9, 9}, ReadLength: 4, LastChunkMs: lastChunk,
	}}})
	l.all([]stream.Out{{Topic: "reads", Partition: stream.AnyPartition, Key: stream.RegionKey("s", "c", 0), Value: value}}, err)
}

func aCall(revision uint64, status streampb.CallStatus) *streampb.Call {
	return &streampb.Call{Run: theRun.Id, Sample: "s", VrsId: "ga4gh:VA.x", Contig: "c", Pos: 7, Ref: "A", Alt: "C", Revision: revision, Status: status, Qual: 30, Depth: 9}
}

func (l *log) call(c *streampb.Call) {
	value, err := stream.EncodeCalls(&streampb.CallRecord{Body: &streampb.CallRecord_Call{Call: c}})
	l.all([]stream.Out{{Topic: "calls", Partition: 0, Key: stream.AlleleKey(c.Sample, c.VrsId), Value: value}}, err)
}

func (l *log) variant(c *streampb.Call) {
	out, err := event.FromCall(c, annotate.Annotation{}).Record("variants")
	l.all([]stream.Out{out}, err)
}

// counts puts a revision of a site's counts, of so many reads.
func (l *log) counts(revision uint64, status string, reads int) {
	s := methylation.Stretch{
		SchemaVersion: methylation.SchemaVersion, Run: theRun.Id, Sample: "s", Revision: revision, Status: status,
		Stretch: event.Stretch{Contig: "c", Pos: 1, End: 4096}, Code: "m", Thresholds: map[string]float64{"C": 0.7}, Sites: methylation.NewSites(),
	}
	s.Sites.Add(&pileup.Row{Pos: 6, Strand: pileup.Plus, Modified: reads - 1, Failed: 1})
	out, err := s.Record("methylation")
	l.all([]stream.Out{out}, err)
}

// contents makes up what a run in good order leaves. Revisions, which depend on the order of reads, begin with a given one.
func contents(t *testing.T, revision uint64, lastChunk int64) check.Contents {
	l := &log{t: t, records: make(map[string][]stream.Record), ends: make(map[string]int64)}
	l.marker("signal", 1, false, stream.SignalMarker)
	for number := range uint32(3) {
		l.chunk("r1", 1, number)
		l.chunk("r2", 2, number)
	}
	l.marker("signal", 1, true, stream.SignalMarker)
	l.marker("reads", partitions["signal"], false, stream.ReadsMarker)
	l.segment("r1", lastChunk)
	l.segment("r2", lastChunk)
	l.marker("reads", partitions["signal"], true, stream.ReadsMarker)
	l.marker("calls", partitions["reads"], false, stream.CallsMarker)
	for r := range revision {
		l.call(aCall(r+1, streampb.CallStatus_PROVISIONAL))
		l.variant(aCall(r+1, streampb.CallStatus_PROVISIONAL))
	}
	l.call(aCall(revision+1, streampb.CallStatus_FINAL))
	l.variant(aCall(revision+1, streampb.CallStatus_FINAL))
	l.marker("calls", partitions["reads"], true, stream.CallsMarker)
	for r := range revision {
		l.counts(r+1, methylation.Provisional, int(r)+2)
	}
	l.counts(revision+1, methylation.Final, int(revision)+1)
	for source := range partitions["reads"] {
		l.all(event.RunEndRecords("methylation", partitions["methylation"], &streampb.Marker{Run: theRun, Source: uint32(source), Sources: uint32(partitions["reads"])}))
	}
	for source := range partitions["calls"] {
		l.all(event.RunEndRecords("variants", partitions["variants"], &streampb.Marker{Run: theRun, Source: uint32(source), Sources: uint32(partitions["calls"])}))
	}
	c := check.Contents{
		Topics: stream.NewTopics(""), Records: l.records, VCF: map[string][]byte{"s": []byte("##fileformat\nc\t7\tA\tC\n")},
		Methylation: map[string][]byte{"s": []byte("c\t6\t7\tm\n")},
		Commits: []check.Commit{
			{Group: "g", Topic: "signal", Partition: 0, Offset: 4}, {Group: "g", Topic: "signal", Partition: 1, Offset: 1},
			{Group: "g", Topic: "signal", Partition: 0, Offset: 4}, {Group: "g", Topic: "signal", Partition: 0, Offset: 12},
		},
	}
	for topic, n := range partitions {
		for p := range n {
			end := l.ends[fmt.Sprint(topic, p)]
			c.Bounds = append(c.Bounds, check.Bounds{Topic: topic, Partition: p, Stable: end, End: end})
		}
	}
	return c
}

var limits = check.Limits{Stall: 30 * time.Second, FirstOutput: 40 * time.Second}

// aHistory is one in good order.
func aHistory() []history.Event {
	at := func(seconds int64, e history.Event) history.Event {
		e.At = seconds * 1000
		return e
	}
	sample := func(seconds int64, partition int32, offset, end int64) history.Event {
		return at(seconds, history.Event{Kind: history.Sample, Group: "g", Topic: "signal", Partition: partition, Offset: offset, End: end})
	}
	return []history.Event{
		at(0, history.Event{Kind: history.RunBegins}),
		sample(1, 0, -1, 0),
		sample(2, 0, -1, 4),
		sample(3, 0, 4, 4),
		sample(9, 0, 4, 12),
		at(10, history.Event{Kind: history.FaultBegins, Fault: 1, Name: "kill", Target: "processor-1"}),
		at(11, history.Event{Kind: history.ProcessExits, Name: "processor-1", PID: 7, Code: -9, Expected: true}),
		at(60, history.Event{Kind: history.FaultEnds, Fault: 1}),
		at(70, history.Event{Kind: history.Output, Topic: "reads", End: 1}),
		sample(75, 0, 12, 12),
		sample(75, 1, 1000, 1000),
		at(80, history.Event{Kind: history.SignalEnds}),
		at(90, history.Event{Kind: history.RunEnds}),
	}
}

// evidence is a run in good order: it took the reads in another order than the reference, which shows in the number of revisions and
// in times.
func evidence(t *testing.T) check.Evidence {
	run, reference := contents(t, 3, 111), contents(t, 1, 222)
	recomputed := make(check.Recomputed)
	for _, topic := range []string{"calls", "variants", "methylation"} {
		for _, rec := range run.Records[topic] {
			recomputed[topic] = append(recomputed[topic], stream.Out{Topic: topic, Partition: rec.Partition, Key: rec.Key, Value: rec.Value})
		}
	}
	return check.Evidence{
		Run: run, Reference: reference, History: aHistory(), Recomputed: recomputed,
		States: []check.Section{{Stage: "variant", Topic: "reads", Partition: 1, Name: "region", Restored: []byte("abc"), Replayed: []byte("abc")}},
	}
}

package check

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// mark is a run's begin or end as one source reports it to one partition.
type mark struct {
	run       string
	source    uint32
	partition int32
	end       bool
}

func (m mark) String() string {
	which := "begin"
	if m.end {
		which = "end"
	}
	return fmt.Sprintf("%s of run %s by source %d", which, m.run, m.source)
}

// markOf returns the marker in a record, and otherwise the run that the record is of, if it says so.
func markOf(topics stream.Topics, rec stream.Record) (mk *streampb.Marker, end bool, run string) {
	switch rec.Topic {
	case topics.Signal:
		if m, err := stream.DecodeSignal(rec.Value); err == nil {
			return eitherMarker(m.GetRunStart(), m.GetRunEnd(), m.GetChunk().GetRun())
		}
	case topics.Reads:
		if m, err := stream.DecodeReads(rec.Value); err == nil {
			return eitherMarker(m.GetRunStart(), m.GetRunEnd(), cmp.Or(m.GetSegment().GetRun(), m.GetPartial().GetRun(), m.GetWithdrawal().GetRun()))
		}
	case topics.Calls:
		if m, err := stream.DecodeCalls(rec.Value); err == nil {
			// Calls of a sample follow from the ends of all of its runs: their place is not checked.
			return eitherMarker(m.GetRunStart(), m.GetRunEnd(), "")
		}
	case topics.Variants, topics.Methylation:
		// Counts of a sample follow from the ends of all of its runs, as calls do.
		if _, e, err := event.Decode(rec); err == nil && e != nil {
			return &streampb.Marker{Run: &streampb.Run{Id: e.Run, Sample: e.Sample}, Source: e.Source, Sources: e.Sources}, true, ""
		}
	}
	return nil, false, ""
}

func eitherMarker(start, end *streampb.Marker, run string) (*streampb.Marker, bool, string) {
	if start != nil {
		return start, false, run
	}
	return end, end != nil, run
}

// checkMarkers checks that there is each run's begin and end by every source in every partition of the topics that pass them on.
func checkMarkers(r *report, run *Contents) {
	t := run.Topics
	runs := make(map[string]bool)
	for _, rec := range run.Records[t.Signal] {
		if mk, _, _ := markOf(t, rec); mk != nil {
			runs[mk.GetRun().GetId()] = true
		}
	}
	for _, flow := range []struct {
		topic   string
		sources int32
		begins  bool
	}{
		{t.Signal, 1, true},
		{t.Reads, run.partitions(t.Signal), true},
		{t.Calls, run.partitions(t.Reads), true},
		{t.Variants, run.partitions(t.Calls), false}, // a public topic has ends alone
		{t.Methylation, run.partitions(t.Reads), false},
	} {
		seen := make(map[mark]stream.Record)
		for _, rec := range run.Records[flow.topic] {
			mk, end, of := markOf(t, rec)
			if mk == nil {
				checkBehind(r, rec, of, flow.sources, seen)
				continue
			}
			m := mark{mk.GetRun().GetId(), mk.GetSource(), rec.Partition, end}
			if earlier, twice := seen[m]; twice {
				r.add(Markers, at(rec), m.String()+" is there twice", "first at offset %d", earlier.Offset)
				continue
			}
			if int32(mk.GetSources()) != flow.sources {
				r.add(Markers, at(rec), m.String()+" counts the sources wrong", "%d, but there are %d", mk.GetSources(), flow.sources)
			}
			seen[m] = rec
		}
		for id := range runs {
			checkMissing(r, flow.topic, id, flow.sources, run.partitions(flow.topic), flow.begins, seen)
		}
	}
}

// checkBehind reports a record of a run that all sources have ended in its partition.
func checkBehind(r *report, rec stream.Record, run string, sources int32, seen map[mark]stream.Record) {
	if run == "" {
		return
	}
	for source := range sources {
		if _, ended := seen[mark{run, uint32(source), rec.Partition, true}]; !ended {
			return
		}
	}
	r.add(Markers, at(rec), "a record of run "+run+" behind its end", "all of its %d sources had ended", sources)
}

func checkMissing(r *report, topic, run string, sources, partitions int32, begins bool, seen map[mark]stream.Record) {
	for partition := range partitions {
		for source := range sources {
			for _, end := range []bool{false, true} {
				m := mark{run, uint32(source), partition, end}
				if _, exists := seen[m]; !exists && (end || begins) {
					r.add(Markers, fmt.Sprintf("%s/%d", topic, partition), m.String()+" is missing", "%d markers are on the topic", len(seen))
				}
			}
		}
	}
}

// checkRevisions checks each key of the topics that hold revisions.
func checkRevisions(r *report, run *Contents) {
	for _, topic := range []string{run.Topics.Calls, run.Topics.Variants, run.Topics.Methylation} {
		last := make(map[string]uint64)
		where := make(map[string]stream.Record)
		for _, rec := range run.Records[topic] {
			key, revision, gapless, err := revisionOf(run.Topics, rec)
			if err != nil {
				r.add(Revisions, at(rec), "a record that can't be read", "%v", err)
				continue
			}
			if revision == 0 {
				continue
			}
			earlier, known := where[key]
			switch before := last[key]; {
			case known && earlier.Partition != rec.Partition:
				r.add(Revisions, at(rec), key+" is in two partitions", "before in %d", earlier.Partition)
			case revision == before:
				r.add(Revisions, at(rec), fmt.Sprintf("%s has revision %d twice", key, revision), "before at %s", at(earlier))
			case revision < before:
				r.add(Revisions, at(rec), fmt.Sprintf("%s goes back to revision %d", key, revision), "revision %d is at %s", before, at(earlier))
			case gapless && revision != before+1:
				r.add(Revisions, at(rec), fmt.Sprintf("%s jumps to revision %d", key, revision), "revision %d is the last before", before)
			}
			last[key], where[key] = max(last[key], revision), rec
		}
	}
}

// revisionOf returns the key and revision of a record, 0 for one that has none, and whether no revision is left out.
func revisionOf(topics stream.Topics, rec stream.Record) (key string, revision uint64, gapless bool, err error) {
	if rec.Topic == topics.Variants {
		v, _, err := event.Decode(rec)
		if v == nil || err != nil {
			return "", 0, false, err
		}
		// An event may skip numbers, to stay ahead of its call's.
		return string(rec.Key), v.Revision, false, nil
	}
	if rec.Topic == topics.Methylation {
		s, _, err := methylation.Decode(rec)
		if s == nil || err != nil {
			return "", 0, false, err
		}
		return string(rec.Key), s.Revision, true, nil
	}
	m, err := stream.DecodeCalls(rec.Value)
	switch {
	case err != nil:
		return "", 0, false, err
	case m.GetCall() != nil:
		return string(rec.Key), m.GetCall().GetRevision(), true, nil
	case m.GetCoverage() != nil:
		return string(rec.Key), m.GetCoverage().GetRevision(), true, nil
	}
	return "", 0, false, nil
}

// checkResult compares what a consumer is left with.
func checkResult(r *report, run, reference *Contents) {
	got, want := standing(r, run), standing(new(report), reference)
	for _, key := range slices.Sorted(maps.Keys(want)) {
		switch v, exists := got[key]; {
		case !exists:
			r.add(Result, run.Topics.Variants, key+" is missing", "of %d variants %d are there", len(want), len(got))
		case v != want[key]:
			r.add(Result, run.Topics.Variants, key+" differs", "%s", firstDifference(v, want[key]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, exists := want[key]; !exists {
			r.add(Result, run.Topics.Variants, key+" should not be there", "%s", got[key])
		}
	}
	checkFiles(r, Result, "VCF of sample ", "the bytes differ", run.VCF, reference.VCF)
}

// checkFiles compares the files of a run by what they are of with those that should be there; differ says what is wrong where their bytes do.
func checkFiles(r *report, check, what, differ string, got, want map[string][]byte) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !bytes.Equal(got[name], want[name]) {
			r.add(check, what+name, differ, "%s", firstDifference(string(got[name]), string(want[name])))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, exists := want[name]; !exists {
			r.add(check, what+name, "there should be none", "%d bytes", len(got[name]))
		}
	}
}

// standing folds the variants topic to its last revisions that are not retracted, without what the order of the reads decides: the
// number of the revision, when its last signal came and which of the sample's runs it was of.
func standing(r *report, c *Contents) map[string]string {
	latest := make(map[string]*event.Variant)
	for _, rec := range c.Records[c.Topics.Variants] {
		v, _, err := event.Decode(rec)
		if err != nil {
			r.add(Result, at(rec), "a record that can't be read", "%v", err)
			continue
		}
		if v != nil && (latest[string(rec.Key)] == nil || v.Revision > latest[string(rec.Key)].Revision) {
			latest[string(rec.Key)] = v
		}
	}
	documents := make(map[string]string)
	for key, v := range latest {
		if v.Status == streampb.CallStatus_RETRACTED.String() {
			continue
		}
		v.Revision, v.LastChunk, v.Run = 0, nil, ""
		if c.Successive && v.Status == streampb.CallStatus_AMENDED.String() {
			v.Status, v.Reason = streampb.CallStatus_FINAL.String(), ""
		}
		document, err := json.Marshal(v)
		if err != nil {
			r.add(Result, c.Topics.Variants, key+" can't be written", "%v", err)
			continue
		}
		documents[key] = string(document)
	}
	return documents
}

// firstDifference shows where two texts part.
func firstDifference(got, want string) string {
	const shown = 60
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	cut := func(s string) string {
		s = s[max(0, min(i, len(s))-shown/2):]
		return s[:min(len(s), shown)]
	}
	return fmt.Sprintf("from byte %d: %q, want %q", i, cut(got), cut(want))
}

// checkFunction compares the output topics of folding stages with what follows from their input, as multisets: how the outputs of
// several input partitions interleave is open. Of the topic of reads only what these stages write there is compared.
func checkFunction(r *report, run *Contents, recomputed Recomputed) {
	for _, topic := range slices.Sorted(maps.Keys(recomputed)) {
		balance := make(map[digest]int)
		describe := make(map[digest]string)
		partitions := run.partitions(topic)
		written := 0
		for _, out := range recomputed[topic] {
			p := out.Partition
			if p == stream.AnyPartition {
				p = stream.PartitionFor(out.Key, partitions)
			}
			d := outDigest(p, out.Key, out.Value)
			balance[d]--
			describe[d] = fmt.Sprintf("%s/%d key %q", topic, p, printable(out.Key))
		}
		for _, rec := range run.Records[topic] {
			if topic == run.Topics.Reads && !folded(rec) {
				continue
			}
			written++
			d := outDigest(rec.Partition, rec.Key, rec.Value)
			balance[d]++
			describe[d] = fmt.Sprintf("%s key %q", at(rec), printable(rec.Key))
		}
		wrong := make(map[string]int)
		for d, n := range balance {
			if n != 0 {
				wrong[describe[d]] += n
			}
		}
		for _, where := range slices.Sorted(maps.Keys(wrong)) {
			what := fmt.Sprintf("written %d times more than follows from the input", wrong[where])
			if wrong[where] < 0 {
				what = fmt.Sprintf("written %d times less than follows from the input", -wrong[where])
			}
			r.add(Function, where, what, "%d records on the topic, %d follow", written, len(recomputed[topic]))
		}
	}
}

// folded reports whether a record of the topic of reads was written by a stage that reads that topic.
func folded(rec stream.Record) bool {
	m, err := stream.DecodeReads(rec.Value)
	if err != nil {
		return false // another check says so
	}
	switch m.GetBody().(type) {
	case *streampb.ReadRecord_ModifiedCalls, *streampb.ReadRecord_ModifiedPlaces, *streampb.ReadRecord_ModifiedMotifs,
		*streampb.ReadRecord_ReadHaplotypes, *streampb.ReadRecord_HaplotypesKnown, *streampb.ReadRecord_CarryOverQuery, *streampb.ReadRecord_CarryOverReport:
		return true
	}
	return false
}

func outDigest(partition int32, key, value []byte) digest {
	h := sha256.New()
	fmt.Fprintf(h, "%d/%d/", partition, len(key))
	h.Write(key)
	h.Write(value)
	return digest(h.Sum(nil))
}

func printable(key []byte) string { return strings.ReplaceAll(string(key), "\x00", "·") }

func checkDeadLetters(r *report, run *Contents) {
	for _, rec := range run.Records[run.Topics.DeadLetters] {
		reason := "no reason"
		for _, h := range rec.Headers {
			if h.Key == stream.HeaderReason {
				reason = string(h.Value)
			}
		}
		r.add(DeadLetters, at(rec), "a record was taken for bad", "%s", reason)
	}
}

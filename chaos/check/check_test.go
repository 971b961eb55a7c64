package check_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/chaos/check"
	"github.com/porestream/porestream/chaos/history"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

func TestARunInGoodOrderHasNoViolations(t *testing.T) {
	require.Empty(t, check.Violations(evidence(t), limits))
}

// nth is the place of the nth record of a topic that is no marker, counted from 0.
func nth(e *check.Evidence, topic string, n int) int {
	for i, rec := range e.Run.Records[topic] {
		if !stream.IsMarkerKey(rec.Key) {
			if n == 0 {
				return i
			}
			n--
		}
	}
	panic("no such record")
}

// drop removes a record.
func drop(e *check.Evidence, topic string, i int) {
	e.Run.Records[topic] = slices.Delete(slices.Clone(e.Run.Records[topic]), i, i+1)
}

// again appends a record once more.
func again(e *check.Evidence, topic string, i int) {
	rec := e.Run.Records[topic][i]
	rec.Offset += 1000
	e.Run.Records[topic] = append(slices.Clone(e.Run.Records[topic]), rec)
}

func swap(e *check.Evidence, topic string, i, j int) {
	records := e.Run.Records[topic]
	records[i].Value, records[j].Value = records[j].Value, records[i].Value
}

// marker is the place of the nth marker of a topic; negative counts from the end.
func marker(e *check.Evidence, topic string, n int) int {
	var places []int
	for i, rec := range e.Run.Records[topic] {
		if stream.IsMarkerKey(rec.Key) {
			places = append(places, i)
		}
	}
	if n < 0 {
		n += len(places)
	}
	return places[n]
}

func withSegment(t *testing.T, rec *stream.Record, change func(*streampb.Segment)) {
	m, err := stream.DecodeReads(rec.Value)
	require.NoError(t, err)
	change(m.GetSegment())
	rec.Value, err = stream.EncodeReads(m)
	require.NoError(t, err)
}

func withCounts(t *testing.T, rec *stream.Record, change func(*methylation.Stretch)) {
	s, _, err := methylation.Decode(*rec)
	require.NoError(t, err)
	change(s)
	out, err := s.Record(rec.Topic)
	require.NoError(t, err)
	rec.Value = out.Value
}

// TestEveryViolationIsFound plants one violation at a time. Each must be reported under its promise with what, where and evidence.
func TestEveryViolationIsFound(t *testing.T) {
	for _, tt := range []struct {
		name  string
		plant func(t *testing.T, e *check.Evidence)
		want  check.Violation // Where and Evidence: a part of each
	}{
		{"a chunk twice", func(_ *testing.T, e *check.Evidence) { again(e, "signal", nth(e, "signal", 1)) },
			check.Violation{Check: check.Signal, What: "chunk 0 of read r2 of run run1 is there twice", Where: "signal/", Evidence: "first at offset 2"}},
		{"a chunk lost", func(_ *testing.T, e *check.Evidence) { drop(e, "signal", nth(e, "signal", 4)) },
			check.Violation{Check: check.Signal, What: "is missing", Where: "chunk 2 of read r1 of run run1", Evidence: "1 missing, 0 too many"}},
		{"chunks out of order", func(_ *testing.T, e *check.Evidence) { swap(e, "signal", nth(e, "signal", 0), nth(e, "signal", 2)) },
			check.Violation{Check: check.Signal, What: "chunk 1 of read r1 of run run1 is out of order", Where: "signal/", Evidence: "chunk 0 at sample 0 is next"}},
		{"a read in two partitions", func(_ *testing.T, e *check.Evidence) {
			i := nth(e, "signal", 2)
			e.Run.Records["signal"][i].Partition = 1 - e.Run.Records["signal"][i].Partition
		}, check.Violation{Check: check.Signal, What: "chunk 1 of read r1 of run run1 is in another partition than those before", Where: "signal/", Evidence: "they are in"}},
		{"a damaged chunk", func(_ *testing.T, e *check.Evidence) {
			rec := &e.Run.Records["signal"][nth(e, "signal", 0)]
			rec.Value = bytes.Clone(rec.Value)
			rec.Value[20] ^= 1
		}, check.Violation{Check: check.Signal, What: "a record that can't be read", Where: "signal/", Evidence: "checksum"}},
		{"a segment twice", func(_ *testing.T, e *check.Evidence) { again(e, "reads", nth(e, "reads", 0)) },
			check.Violation{Check: check.Reads, What: "alignment 0 of part 0 of read r1 of run run1 in region 0 of c is there twice", Where: "reads/", Evidence: "first at reads/"}},
		{"a segment twice with another time", func(t *testing.T, e *check.Evidence) {
			again(e, "reads", nth(e, "reads", 0))
			withSegment(t, &e.Run.Records["reads"][len(e.Run.Records["reads"])-1], func(s *streampb.Segment) { s.LastChunkMs = 5 })
		}, check.Violation{Check: check.Reads, What: "read r1 of run run1 in region 0 of c is there twice", Where: "reads/"}},
		{"a read never called", func(_ *testing.T, e *check.Evidence) { drop(e, "reads", nth(e, "reads", 1)) },
			check.Violation{Check: check.Reads, What: "is missing", Where: "read r2", Evidence: "1 missing"}},
		{"a read called otherwise", func(t *testing.T, e *check.Evidence) {
			withSegment(t, &e.Run.Records["reads"][nth(e, "reads", 1)], func(s *streampb.Segment) { s.Start = 6 })
		}, check.Violation{Check: check.Reads, What: "differs", Where: "read r2", Evidence: "1 different"}},
		{"a read that is not of the recording", func(t *testing.T, e *check.Evidence) {
			again(e, "reads", nth(e, "reads", 1))
			withSegment(t, &e.Run.Records["reads"][len(e.Run.Records["reads"])-1], func(s *streampb.Segment) { s.ReadId = "forged" })
		}, check.Violation{Check: check.Reads, What: "should not be there", Where: "read forged", Evidence: "1 too many"}},
		{"an end forgotten", func(_ *testing.T, e *check.Evidence) { drop(e, "reads", marker(e, "reads", -1)) },
			check.Violation{Check: check.Markers, What: "end of run run1 by source 1 is missing", Where: "reads/2", Evidence: "markers are on the topic"}},
		{"a begin forgotten", func(_ *testing.T, e *check.Evidence) { drop(e, "calls", marker(e, "calls", 0)) },
			check.Violation{Check: check.Markers, What: "begin of run run1 by source 0 is missing", Where: "calls/0"}},
		{"an end twice", func(_ *testing.T, e *check.Evidence) { again(e, "variants", marker(e, "variants", -1)) },
			check.Violation{Check: check.Markers, What: "end of run run1 by source 0 is there twice", Where: "variants/1"}},
		{"a segment behind the end", func(_ *testing.T, e *check.Evidence) {
			records := e.Run.Records["reads"]
			i := nth(e, "reads", 1)
			rec := records[i]
			e.Run.Records["reads"] = append(slices.Delete(slices.Clone(records), i, i+1), rec)
		}, check.Violation{Check: check.Markers, What: "a record of run run1 behind its end", Where: "reads/", Evidence: "2 sources"}},
		{"a revision of a call twice", func(_ *testing.T, e *check.Evidence) { again(e, "calls", nth(e, "calls", 3)) },
			check.Violation{Check: check.Revisions, What: "s/ga4gh:VA.x has revision 4 twice", Where: "calls/0", Evidence: "before at calls/0"}},
		{"a revision of a variant twice", func(_ *testing.T, e *check.Evidence) { again(e, "variants", nth(e, "variants", 3)) },
			check.Violation{Check: check.Revisions, What: "s/ga4gh:VA.x has revision 4 twice", Where: "variants/"}},
		{"revisions that go back", func(_ *testing.T, e *check.Evidence) {
			swap(e, "variants", nth(e, "variants", 0), nth(e, "variants", 1))
		},
			check.Violation{Check: check.Revisions, What: "s/ga4gh:VA.x goes back to revision 1", Where: "variants/", Evidence: "revision 2 is at"}},
		{"a revision left out", func(_ *testing.T, e *check.Evidence) { drop(e, "calls", nth(e, "calls", 1)) },
			check.Violation{Check: check.Revisions, What: "s/ga4gh:VA.x jumps to revision 3", Where: "calls/0", Evidence: "revision 1 is the last before"}},
		{"a variant lost", func(_ *testing.T, e *check.Evidence) {
			for range 4 {
				drop(e, "variants", nth(e, "variants", 0))
			}
		}, check.Violation{Check: check.Result, What: "s/ga4gh:VA.x is missing", Where: "variants", Evidence: "of 1 variants 0 are there"}},
		{"a variant never made final", func(_ *testing.T, e *check.Evidence) { drop(e, "variants", nth(e, "variants", 3)) },
			check.Violation{Check: check.Result, What: "s/ga4gh:VA.x differs", Where: "variants", Evidence: "PROVISIONAL"}},
		{"a variant amended", amend, check.Violation{Check: check.Result, What: "s/ga4gh:VA.x differs", Where: "variants", Evidence: "AMENDED"}},
		{"another VCF", func(_ *testing.T, e *check.Evidence) { e.Run.VCF["s"] = []byte("##fileformat\nc\t7\tA\tG\n") },
			check.Violation{Check: check.Result, What: "the bytes differ", Where: "VCF of sample s", Evidence: `from byte 19`}},
		{"a VCF of nobody", func(_ *testing.T, e *check.Evidence) { e.Run.VCF["t"] = nil },
			check.Violation{Check: check.Result, What: "there should be none", Where: "VCF of sample t"}},
		{"a revision of counts twice", func(_ *testing.T, e *check.Evidence) { again(e, "methylation", nth(e, "methylation", 0)) },
			check.Violation{Check: check.Revisions, What: "s/c/0/m goes back to revision 1", Where: "methylation/", Evidence: "revision 4 is at"}},
		{"a revision of counts left out", func(_ *testing.T, e *check.Evidence) { drop(e, "methylation", nth(e, "methylation", 1)) },
			check.Violation{Check: check.Revisions, What: "s/c/0/m jumps to revision 3", Where: "methylation/", Evidence: "revision 1 is the last before"}},
		{"a read lost between two revisions of counts", func(t *testing.T, e *check.Evidence) {
			withCounts(t, &e.Run.Records["methylation"][nth(e, "methylation", 2)], func(s *methylation.Stretch) { s.Sites.Modified[0] -= 2 })
		}, check.Violation{Check: check.Counts, What: "revision 3 of s/c/0/m has lost reads", Where: "methylation/", Evidence: "at 7+ 2 reads, in revision 2 3; 1 sites"}},
		{"counts never made final", func(_ *testing.T, e *check.Evidence) { drop(e, "methylation", nth(e, "methylation", 3)) },
			check.Violation{Check: check.Counts, What: "s/c/0/m was never made final", Where: "methylation", Evidence: "its last revision, 3, is PROVISIONAL"}},
		{"an end of counts forgotten", func(_ *testing.T, e *check.Evidence) { drop(e, "methylation", marker(e, "methylation", -1)) },
			check.Violation{Check: check.Markers, What: "end of run run1 by source 2 is missing", Where: "methylation/1"}},
		{"other counts", func(_ *testing.T, e *check.Evidence) { e.Run.Methylation["s"] = []byte("c\t6\t7\ta\n") },
			check.Violation{Check: check.Counts, What: "the bytes differ from those counted in a file", Where: "bedMethyl of s", Evidence: "from byte 6"}},
		{"counts of nobody", func(_ *testing.T, e *check.Evidence) { e.Run.Methylation["s, haplotype 1"] = nil },
			check.Violation{Check: check.Counts, What: "there should be none", Where: "bedMethyl of s, haplotype 1"}},
		{"counts that should have followed", func(_ *testing.T, e *check.Evidence) { drop(e, "methylation", nth(e, "methylation", 3)) },
			check.Violation{Check: check.Function, What: "written 1 times less than follows from the input", Where: "methylation/"}},
		{"a report of calls that follows from nothing", func(t *testing.T, e *check.Evidence) {
			value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_ModifiedCalls{ModifiedCalls: &streampb.ModifiedCalls{Sources: 3}}})
			require.NoError(t, err)
			e.Run.Records["reads"] = append(e.Run.Records["reads"], stream.Record{Topic: "reads", Offset: 1000, Key: stream.ModifiedCallsKey(0), Value: value})
			e.Recomputed["reads"] = nil
		}, check.Violation{Check: check.Function, What: "written 1 times more than follows from the input", Where: "reads/0", Evidence: "1 records on the topic, 0 follow"}},
		{"a call that follows from nothing", func(_ *testing.T, e *check.Evidence) {
			e.Recomputed["calls"] = e.Recomputed["calls"][:len(e.Recomputed["calls"])-1]
		},
			check.Violation{Check: check.Function, What: "written 1 times more than follows from the input", Where: "calls/0", Evidence: "records on the topic"}},
		{"a call that should have followed", func(_ *testing.T, e *check.Evidence) { drop(e, "calls", nth(e, "calls", 3)) },
			check.Violation{Check: check.Function, What: "written 1 times less than follows from the input", Where: "calls/0"}},
		{"a commit that goes back", func(_ *testing.T, e *check.Evidence) {
			e.Run.Commits = append(e.Run.Commits, check.Commit{Group: "g", Topic: "signal", Partition: 0, Offset: 11})
		}, check.Violation{Check: check.Offsets, What: "the committed offset goes back from 12 to 11", Where: "group g, signal/0", Evidence: "commit 5 of 5"}},
		{"a commit seen to go back", func(_ *testing.T, e *check.Evidence) { e.History[9].Offset = 3 },
			check.Violation{Check: check.Offsets, What: "the committed offset goes back from 4 to 3", Where: "group g, signal/0", Evidence: "seen 9s and 1m15s"}},
		{"records not processed", func(_ *testing.T, e *check.Evidence) { e.History[10].Offset = 5 },
			check.Violation{Check: check.Offsets, What: "not everything was processed", Where: "group g, signal/1", Evidence: "committed 5, and there is a record at offset"}},
		{"a dangling transaction", func(_ *testing.T, e *check.Evidence) { e.Run.Bounds[0].Stable-- },
			check.Violation{Check: check.Transactions, What: "a transaction is still open", Evidence: "last stable offset"}},
		{"another state", func(_ *testing.T, e *check.Evidence) { e.States[0].Restored = []byte("abd") },
			check.Violation{Check: check.State, What: "rebuilt from its snapshot it differs", Where: "variant stage, reads/1, section region", Evidence: "from byte 2"}},
		{"a run that does not end", func(_ *testing.T, e *check.Evidence) { e.History = e.History[:len(e.History)-1] },
			check.Violation{Check: check.Progress, What: "it has not come to its end", Where: "the whole run", Evidence: "everything on the topics was processed"}},
		{"a partition that stands still", func(_ *testing.T, e *check.Evidence) {
			for i := range e.History[9:] {
				e.History[9+i].At += 50_000
			}
		}, check.Violation{Check: check.Progress, What: "it stood still for 1m5s without a fault", Where: "group g, signal/0", Evidence: "from 9s to 2m5s; at most 30s"}},
		{"no output after a kill", func(_ *testing.T, e *check.Evidence) { e.History[8].Kind = history.Note; e.History[12].At = 200_000 },
			check.Violation{Check: check.Progress, What: "no output for 2m20s without a fault", Where: "fault 1, kill of processor-1", Evidence: "from 10s to 3m20s; at most 40s"}},
		{"a dead letter", func(_ *testing.T, e *check.Evidence) {
			e.Run.Records["dlq"] = []stream.Record{{Topic: "dlq", Offset: 3, Headers: []stream.Header{{Key: stream.HeaderReason, Value: []byte("checksum: bad")}}}}
		}, check.Violation{Check: check.DeadLetters, What: "a record was taken for bad", Where: "dlq/0 at offset 3", Evidence: "checksum: bad"}},
		{"a panic", func(_ *testing.T, e *check.Evidence) {
			e.History[6].Detail = "level=INFO\npanic: index out of range\ngoroutine 1"
		},
			check.Violation{Check: check.Processes, What: "panic: index out of range", Where: "processor-1, process 7", Evidence: "11s after the start"}},
		{"a process that does not stop", func(_ *testing.T, e *check.Evidence) {
			e.History[6] = history.Event{At: 11_000, Kind: history.StopsLate, Name: "processor-1", Detail: "not within 45s"}
		}, check.Violation{Check: check.Processes, What: "it did not stop when it was asked to", Where: "processor-1", Evidence: "not within 45s"}},
		{"an empty reference", func(_ *testing.T, e *check.Evidence) { e.Reference.Records["reads"] = nil },
			check.Violation{Check: check.Content, What: "the run without faults left nothing on the topic", Where: "reads"}},
		{"a reference without counts", func(_ *testing.T, e *check.Evidence) { e.Reference.Methylation = nil },
			check.Violation{Check: check.Content, What: "nothing was counted", Where: "bedMethyl"}},
		{"a reference of which no site was counted", func(_ *testing.T, e *check.Evidence) { e.Reference.Methylation["s"] = nil },
			check.Violation{Check: check.Content, What: "no base was counted", Where: "bedMethyl of s"}},
		{"a reference without a result", func(_ *testing.T, e *check.Evidence) { e.Reference.VCF = nil },
			check.Violation{Check: check.Content, What: "the run without faults has no result", Where: "VCF"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := evidence(t)
			tt.plant(t, &e)
			found := check.Violations(e, limits)
			contains := func(v check.Violation) bool {
				has := func(text, part string) bool { return bytes.Contains([]byte(text), []byte(part)) }
				return v.Check == tt.want.Check && has(v.What, tt.want.What) && has(v.Where, tt.want.Where) && has(v.Evidence, tt.want.Evidence) &&
					v.What != "" && v.Where != "" && v.Evidence != ""
			}
			require.True(t, slices.ContainsFunc(found, contains), "want %v among %v", tt.want, found)
		})
	}
}

func TestManyViolationsAreCounted(t *testing.T) {
	e := evidence(t)
	for range 20 {
		again(&e, "reads", nth(&e, "reads", 0))
	}
	found := check.Violations(e, limits)
	require.True(t, slices.ContainsFunc(found, func(v check.Violation) bool { return v.Check == check.Reads && v.What == "and 12 more" }), "%v", found)
	require.Less(t, len(found), 20)
}

// amend makes what stands at the end a revision of what was final before.
func amend(t *testing.T, e *check.Evidence) {
	out, err := event.FromCall(aCall(4, streampb.CallStatus_AMENDED), annotate.Annotation{}).Record("variants")
	require.NoError(t, err)
	e.Run.Records["variants"][nth(e, "variants", 3)].Value = out.Value
}

// Of runs one behind the other, the sample may have ended before the second began.
func TestSuccessiveRunsMayAmend(t *testing.T) {
	e := evidence(t)
	amend(t, &e)
	e.Run.Successive, e.Reference.Successive = true, true
	for _, v := range check.Violations(e, limits) {
		require.NotEqual(t, check.Result, v.Check, v.String())
	}
}

func TestFaultsAreMerged(t *testing.T) {
	at := func(seconds int64, kind history.Kind, fault int) history.Event {
		return history.Event{At: seconds * 1000, Kind: kind, Fault: fault}
	}
	got := check.Faults([]history.Event{
		at(1, history.FaultBegins, 1), at(2, history.FaultBegins, 2), at(3, history.FaultEnds, 1), at(5, history.FaultEnds, 2),
		at(8, history.FaultBegins, 3), at(9, history.Note, 0),
	})
	require.Equal(t, []check.Interval{{From: 1e9, To: 5e9}, {From: 8e9, To: 9e9}}, got)
}

func TestRecoveries(t *testing.T) {
	got := check.Recoveries(aHistory(), "signal")
	require.Equal(t, []check.Recovery{{Fault: 1, Name: "kill", Target: "processor-1", Interval: check.Interval{From: 10e9, To: 70e9}, First: true, Moved: 75e9}}, got)
}

func TestStalls(t *testing.T) {
	got := check.Stalls(aHistory())
	require.Equal(t, []check.Stall{
		{Where: "group g, signal/0", Interval: check.Interval{From: 9e9, To: 75e9}},
		{Where: "group g, signal/0", Interval: check.Interval{From: 2e9, To: 3e9}},
	}, got)
}

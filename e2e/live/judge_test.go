package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/ingest/minknow/minknowsim"
)

var snp = allele{"c", 150, "A", "G"}

// observed is a run of two reads on two channels, at ten samples a second and
// twice that pace. The second read makes the call possible; of the first, and of an
// open pore, the server has dropped chunks.
func observed() *observation {
	at := func(seconds float64) time.Time {
		return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
	}
	return &observation{
		layout: minknowsim.Layout{Run: "r", Rate: 10, Pace: 2, Started: 1000, Strands: []minknowsim.Strand{
			{ID: "a", Channel: 1, Start: 0, End: 100}, {ID: "b", Channel: 2, Start: 20, End: 200}, {ID: "z", Channel: 1, Start: 300, End: 400},
		}},
		dropped: []minknowsim.Dropped{
			{Channel: 1, Read: "a", Strand: true, Start: 60, End: 70}, {Channel: 1, Read: "a", Strand: true, Start: 50, End: 60},
			{Channel: 2, Read: "pore", Start: 210, End: 220},
		},
		samples: map[string]uint64{"a": 80, "b": 180, "z": 100},
		aligned: []segment{
			{"a", "c", 100, 300, 7, at(5.2)}, {"b", "c", 1000, 2000, 9, at(10.5)}, {"b", "c", 149, 150, 9, at(10.6)},
		},
		calls:   []call{{snp, "PROVISIONAL", 9, at(11)}, {snp, "STABLE", 9, at(19)}},
		events:  []annotated{{snp, "missense_variant p.Glu118Lys cI", at(11.5)}},
		losses:  map[uint32]loss{1: {1, 20}, 2: {1, 10}},
		counted: counters{Gaps: 2, Samples: 30},
		called:  []allele{snp},
	}
}

func TestEvaluate(t *testing.T) {
	r := evaluate([]allele{snp}, observed())
	require.Empty(t, r.failures(false, 2*time.Second))
	require.Equal(t, []firstOne{{Variant: "c:150 A>G", Status: "PROVISIONAL", Read: "b", Call: 1, Event: 1.5, ToCome: 1, Minute: 10.0 / 60, Does: "missense_variant p.Glu118Lys cI"}}, r.Variants)
	require.Equal(t, 3, r.Reads.Played)
	require.Equal(t, 2, r.Reads.Aligned)
	require.InDelta(t, 0.2, r.Reads.P50, 1e-6)
	require.InDelta(t, 0.6, r.Reads.P99, 1e-6)
	require.Equal(t, loss{2, 30}, r.Losses.Dropped)
	require.Equal(t, loss{2, 30}, r.Losses.Counted)
	var text strings.Builder
	require.NoError(t, r.print(&text))
	require.Contains(t, text.String(), "c:150 A>G")
	require.Contains(t, text.String(), "missense_variant p.Glu118Lys cI")
	require.NotContains(t, text.String(), "scores")
}

// TestEventTimes: an event counts from its call, one that brings the scores of the one before from that, and final ones, which wait for theirs, not.
func TestEventTimes(t *testing.T) {
	at := func(seconds float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(seconds * 1e9)) }
	call := func(key, status string, signal int64, read float64) revised {
		return revised{key, status, signal, at(read)}
	}
	event := func(key string, number uint64, status string, signal int64, read float64, scored bool) published {
		return published{call(key, status, signal, read), number, scored}
	}
	seen := &observation{
		revised: []revised{
			call("a", "PROVISIONAL", 1, 1), call("b", "PROVISIONAL", 2, 2), call("a", "STABLE", 4, 4), call("b", "PROVISIONAL", 3, 4.5), call("b", "PROVISIONAL", 3, 5),
			call("b", "FINAL", 3, 6),
		},
		published: []published{
			event("a", 1, "PROVISIONAL", 1, 1.5, false),
			event("b", 1, "PROVISIONAL", 2, 2.25, false),
			event("a", 2, "PROVISIONAL", 1, 3.5, true), // a's scores
			event("a", 4, "STABLE", 4, 4.75, true),     // scores are known
			event("a", 6, "STABLE", 4, 5, true),        // a neighbour changes what it does
			event("b", 3, "PROVISIONAL", 3, 5.5, true), // scored before the event before was out
			event("b", 5, "PROVISIONAL", 3, 6, true),   // another call of the same reads
			event("b", 7, "FINAL", 3, 9, true),
		},
	}
	r := new(report)
	r.eventTimes(seen)
	require.Equal(t, times{N: 1, P50: 2, P99: 2, Max: 2}, r.Scores)
	require.Equal(t, times{N: 5, P50: 0.75, P99: 1, Max: 1}, r.Events)
	var text strings.Builder
	require.NoError(t, r.print(&text))
	require.Contains(t, text.String(), "5 revisions of calls, from when one could be read until its annotated event could: median 0.75 s")
	require.Contains(t, text.String(), "1 events were followed by one with a network's scores: median 2.00 s later")
}

// Each thing that a run must show is missed if it isn't so.
func TestFailures(t *testing.T) {
	other := allele{"c", 151, "A", "G"}
	for _, tt := range []struct {
		name  string
		spoil func(*observation)
		lossy bool
		want  string // empty: that is in order
	}{
		{"a wrong call", func(o *observation) { o.called = append(o.called, other) }, true, "not in the truth: [c:151 A>G]"},
		{"a missing call", func(o *observation) { o.called = nil }, false, "not called: [c:150 A>G]"},
		{"a missing call with losses", func(o *observation) { o.called = nil }, true, ""},
		{"too late", func(o *observation) { o.calls[0].at = o.calls[1].at }, false, "9.00 s after"},
		{"too late with losses", func(o *observation) { o.calls[0].at = o.calls[1].at }, true, ""},
		{"counted on another channel", func(o *observation) { o.losses[2], o.losses[3] = loss{}, o.losses[2] }, false, "channels [2 3]"},
		{"a sample too few", func(o *observation) { o.losses[1] = loss{1, 19} }, false, "channels [1]"},
		{"metrics differ", func(o *observation) { o.counted.Samples-- }, false, "ingest's metrics"},
		{"signal refused", func(o *observation) { o.counted.Refused = 1 }, false, "ingest's metrics"},
		{"a read is incomplete", func(o *observation) { o.samples["b"]-- }, false, "[b]"},
		{"samples come twice", func(o *observation) { o.doubled = []string{"z"} }, false, "[z]"},
		{"nothing aligned", func(o *observation) { o.aligned = nil }, true, "nothing was called"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := observed()
			tt.spoil(o)
			failures := evaluate([]allele{snp}, o).failures(tt.lossy, 2*time.Second)
			if tt.want == "" {
				require.Empty(t, failures)
				return
			}
			require.True(t, slices.ContainsFunc(failures, func(f string) bool { return strings.Contains(f, tt.want) }), "%q", failures)
		})
	}
}

func TestCountedLosses(t *testing.T) {
	got, err := countedLosses("time=x level=DEBUG msg=\"missing of a channel\" position=MN1 run=r channel=3 gaps=1 samples=20 gaps_between_reads=2 samples_between_reads=5\n" +
		"time=x level=INFO msg=\"other channel=9\"\n")
	require.NoError(t, err)
	require.Equal(t, map[uint32]loss{3: {3, 25}}, got)
}

// readsObserved is a run of three reads of one barcode; one of them failed. The first is on
// two partitions.
func readsObserved() *readsSeen {
	at := func(seconds float64) time.Time {
		return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
	}
	return &readsSeen{
		written: []writtenRead{{"a", "barcode01", false, 7, at(0)}, {"b", "barcode01", false, 8, at(1)}, {"x", "barcode01", true, 9, at(2)}},
		called:  map[string][]calledRead{"a": {{7, at(0.1)}}, "b": {{8, at(1.1)}}},
		pieces: map[string][]piece{
			"a": {{0, 3, at(0.2)}, {1, 0, at(0.3)}},
			"b": {{0, 4, at(1.2)}},
		},
		positions: [][]position{{{3, at(0.1)}, {4, at(0.4)}, {9, at(1.6)}}, {{1, at(0.5)}}},
		revisions: []revision{{snp, "s", at(0.6)}, {snp, "s", at(0.7)}, {allele{"c", 7, "A", "T"}, "s", at(3)}},
		results:   []sampleResult{{"s", 2, true}},
		kills:     map[string]int{"ingest": 1},
	}
}

func TestEvaluateReads(t *testing.T) {
	r := evaluateReads(readsObserved())
	require.Empty(t, r.failures(&readsConfig{barcodes: 1, killIngest: 1, p50: 550 * time.Millisecond, p99: 650 * time.Millisecond}))
	require.Equal(t, []int{3, 1, 2, 2, 1, 2, 1}, []int{r.Written, r.Failed, r.Topic, r.Mapped, r.Samples, r.Calls, r.Live})
	require.InDeltaMapValues(t, map[string]float64{"aligned": 0.2, "aligned99": 0.3, "effect": 0.5, "effect99": 0.6},
		map[string]float64{"aligned": r.Aligned.P50, "aligned99": r.Aligned.P99, "effect": r.Effect.P50, "effect99": r.Effect.P99}, 1e-6)
	var text strings.Builder
	r.print(&text)
	require.Contains(t, text.String(), "2 calls of 1 samples")
}

// Each thing that a run of called reads must show is missed if it isn't so.
func TestReadsFailures(t *testing.T) {
	cfg := readsConfig{barcodes: 1, killIngest: 1, p50: 550 * time.Millisecond, p99: 650 * time.Millisecond}
	for _, tt := range []struct {
		name  string
		spoil func(*readsSeen)
		want  string
	}{
		{"lost", func(o *readsSeen) { delete(o.called, "a") }, "1 reads are not on the topic: [a]"},
		{"twice", func(o *readsSeen) { o.called["b"] = append(o.called["b"], o.called["b"][0]) }, "more than once: [b]"},
		{"other bases", func(o *readsSeen) { o.called["b"][0].sum++ }, "not written so: [b]"},
		{"a failed one", func(o *readsSeen) { o.called["x"] = []calledRead{{sum: 9}} }, "not written so: [x]"},
		{"one of nobody", func(o *readsSeen) { o.called["y"] = []calledRead{{sum: 9}} }, "not written so: [y]"},
		{"not in the calls", func(o *readsSeen) { o.positions[1] = nil }, "1 aligned reads had no effect on calls: [a]"},
		{"other bytes", func(o *readsSeen) { o.results[0].equal = false }, "other bytes of samples [s]"},
		{"no sample", func(o *readsSeen) { o.results = nil }, "0 samples were called of 1"},
		{"no call while reads came", func(o *readsSeen) { o.revisions = o.revisions[2:] }, "nothing was called while reads came"},
		{"no call", func(o *readsSeen) { o.results[0].calls = 0 }, "nothing was called"},
		{"not killed", func(o *readsSeen) { o.kills = nil }, "ingest was killed 0 times, not 1"},
		{"half too late", func(o *readsSeen) { o.written[0].at = o.written[0].at.Add(-100 * time.Millisecond) }, "half of the reads took 0.60 s"},
		{"one too late", func(o *readsSeen) { o.written[1].at = o.written[1].at.Add(-100 * time.Millisecond) }, "a hundredth of the reads took 0.70 s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := readsObserved()
			tt.spoil(o)
			failures := evaluateReads(o).failures(&cfg)
			require.True(t, slices.ContainsFunc(failures, func(f string) bool { return strings.Contains(f, tt.want) }), "%q", failures)
		})
	}
}

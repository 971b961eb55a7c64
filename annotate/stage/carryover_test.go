package stage

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/statetest"
	"github.com/porestream/porestream/stream/streampb"
)

func carriedRecord(t testing.TB, sample string, pos int64, ref, alt string, share float64) testRecord {
	t.Helper()
	value, err := stream.EncodeCalls(&streampb.CallRecord{Body: &streampb.CallRecord_CarryOver{CarryOver: &streampb.CarryOver{
		Run: "run-1", Sample: sample, Contig: "J02459.1", Pos: pos, Ref: ref, Alt: alt,
		Explained: share > 0.5, Bounded: true, Share: share, Basis: "hopping", Control: "water", ControlAlt: 1, ControlDepth: 2,
	}}})
	require.NoError(t, err)
	return testRecord{[]byte("key"), value}
}

func carriedEnd(t testing.TB, run string) testRecord { return carriedEndOf(t, run, false) }

// carriedEndOf is the end of a run's carry-over, which perhaps couldn't be assessed.
func carriedEndOf(t testing.TB, run string, tooMany bool) testRecord {
	t.Helper()
	value, err := stream.EncodeCalls(&streampb.CallRecord{Body: &streampb.CallRecord_CarryOverEnd{CarryOverEnd: &streampb.CarryOverEnd{Run: run, TooMany: tooMany}}})
	require.NoError(t, err)
	return testRecord{stream.CarryOverEndKey(run), value}
}

func awaiting(t testing.TB) stream.Handler {
	t.Helper()
	h, err := New(Config{
		Topics: stream.NewTopics(""), VariantsPartitions: 1, Annotator: lambdaAnnotator(t),
	})("calls", 1, 2)
	require.NoError(t, err)
	return h
}

// controlledRecord is a marker of run-1, which has a negative control.
func controlledRecord(t testing.TB, end bool) testRecord {
	t.Helper()
	mk := &streampb.Marker{Run: &streampb.Run{Id: "run-1", Sample: "lambda", SampleRate: 4000, Controls: []*streampb.Control{{Sample: "water", Kind: "no_template_control"}}}, Sources: 1}
	value, err := stream.CallsMarker(mk, end)
	require.NoError(t, err)
	return testRecord{stream.MarkerKey(mk, end), value}
}

// published are the events that records lead to, one line each, and the ends of runs.
func published(t testing.TB, emissions []emission) (lines []string) {
	t.Helper()
	for i, e := range emissions {
		for _, o := range e.outs {
			if stream.IsMarkerKey(o.Key) {
				lines = append(lines, fmt.Sprintf("%d: end", i))
				continue
			}
			var v event.Variant
			require.NoError(t, json.Unmarshal(o.Value, &v))
			line := fmt.Sprintf("%d: %d rev %d %s %v", i, v.Allele.Pos, v.Revision, v.Status, v.Call.Filters)
			if c := v.Call.CarryOver; c != nil {
				line += fmt.Sprintf(" %v %.1f %s", c.Explained, *c.Share, c.Control)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// TestCarryOver: an assessment makes a revision of the event of a call that stands, whether it comes behind or ahead of the call; one that changes nothing makes none, and a
// retraction isn't marked. The end of the run waits until all has been assessed, in whatever order the two come.
func TestCarryOver(t *testing.T) {
	call := func(pos int64, revision uint64, status streampb.CallStatus) testRecord {
		return callRecord(t, testCall(pos, "C", "T", revision, status))
	}
	carried := func(pos int64, share float64) testRecord { return carriedRecord(t, "lambda", pos, "C", "T", share) }
	start, end := controlledRecord(t, false), controlledRecord(t, true)
	for _, tt := range []struct {
		name string
		recs []testRecord
		want []string
	}{
		{"behind the call", []testRecord{start, call(100, 1, streampb.CallStatus_PROVISIONAL), carried(100, 0.9), carried(100, 0.9), carried(100, 0.2), call(100, 2, streampb.CallStatus_FINAL), end, carriedEnd(t, "run-1")}, []string{
			"1: 100 rev 1 PROVISIONAL []", "2: 100 rev 2 PROVISIONAL [CarryOver] true 0.9 water", "4: 100 rev 3 PROVISIONAL [] false 0.2 water", "5: 100 rev 4 FINAL [] false 0.2 water", "7: end",
		}},
		{"ahead of it", []testRecord{start, carried(100, 0.9), call(100, 1, streampb.CallStatus_STABLE), carriedEnd(t, "run-1"), call(100, 2, streampb.CallStatus_RETRACTED), end}, []string{
			"2: 100 rev 1 STABLE [CarryOver] true 0.9 water", "4: 100 rev 2 RETRACTED []", "5: end",
		}},
		{"of an allele that was retracted", []testRecord{start, call(100, 1, streampb.CallStatus_STABLE), call(100, 2, streampb.CallStatus_RETRACTED), carried(100, 0.9), call(100, 3, streampb.CallStatus_STABLE)}, []string{
			"1: 100 rev 1 STABLE []", "2: 100 rev 2 RETRACTED []", "4: 100 rev 3 STABLE [CarryOver] true 0.9 water",
		}},
		{"that couldn't be assessed in the end", []testRecord{start, call(100, 1, streampb.CallStatus_PROVISIONAL), call(200, 1, streampb.CallStatus_FINAL), carried(100, 0.9), carried(300, 0.9), call(100, 2, streampb.CallStatus_FINAL), end, carriedEndOf(t, "run-1", true), carriedEndOf(t, "run-1", true), call(300, 1, streampb.CallStatus_FINAL)}, []string{
			"1: 100 rev 1 PROVISIONAL []", "2: 200 rev 1 FINAL []", "3: 100 rev 2 PROVISIONAL [CarryOver] true 0.9 water", "5: 100 rev 3 FINAL [CarryOver] true 0.9 water", "7: 100 rev 4 FINAL []", "7: end", "9: 300 rev 1 FINAL []",
		}},
		{"of another run's controls stays", []testRecord{start, call(100, 1, streampb.CallStatus_FINAL), carried(100, 0.9), carriedEndOf(t, "run-2", true), end, carriedEnd(t, "run-1")}, []string{
			"1: 100 rev 1 FINAL []", "2: 100 rev 2 FINAL [CarryOver] true 0.9 water", "5: end",
		}},
		{"none, and no end", []testRecord{start, call(100, 1, streampb.CallStatus_FINAL), end}, []string{"1: 100 rev 1 FINAL []"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, published(t, handle(t, awaiting(t), records(tt.recs...))))
		})
	}
	bare := records(markerRecord(t, "run-1", 0, 1, false), markerRecord(t, "run-1", 0, 1, true))
	require.Contains(t, published(t, handle(t, awaiting(t), bare)), "1: end", "the end of a run without controls is passed on")
}

// lastSaid is what was said last of each event, without its revision, and how many events said that carry-over explains them. The end of the run
// must be there, and be the last.
func lastSaid(t *testing.T, outs []stream.Out) (last map[string]string, explained int) {
	t.Helper()
	last = make(map[string]string)
	ended := false
	for _, o := range outs {
		require.False(t, ended, "something follows the end")
		if stream.IsMarkerKey(o.Key) {
			ended = true
			continue
		}
		var v event.Variant
		require.NoError(t, json.Unmarshal(o.Value, &v))
		if v.Call.CarryOver != nil && v.Call.CarryOver.Explained {
			explained++
		}
		v.Revision = 0
		text, err := v.JSON()
		require.NoError(t, err)
		last[string(o.Key)] = string(text)
	}
	require.True(t, ended)
	return last, explained
}

// TestCarryOverLaw: a handler that is lost and restored anywhere, with assessments and ends that wait, has the output of one that is not; and what it says last
// doesn't depend on when assessments came between the calls.
func TestCarryOverLaw(t *testing.T) {
	var first map[string]string
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 17))
		var calls, assessed []testRecord
		for revision := range uint64(3) {
			for i := range int64(20) {
				calls = append(calls, callRecord(t, testCall(1000+7*i, "C", "T", revision+1, streampb.CallStatus(1+revision))))
			}
		}
		for n := range 3 {
			for i := range int64(20) {
				share := float64((i+int64(n))%10) / 10
				if n < 2 {
					share = rng.Float64()
				}
				assessed = append(assessed, carriedRecord(t, "lambda", 1000+7*i, "C", "T", share))
			}
		}
		recs := append([]testRecord{controlledRecord(t, false)}, weave(rng, append(calls, controlledRecord(t, true)), append(assessed, carriedEnd(t, "run-1")))...)
		outs := statetest.Law(t, func() stream.Handler { return awaiting(t) }, records(recs...), 12, seed)
		last, _ := lastSaid(t, outs)
		if first == nil {
			first = last
		}
		require.Equal(t, first, last, "seed %d", seed)
	}
}

// TestCarryOverThatDoesNotHold: of a run whose carry-over couldn't be assessed in the end, no event says anything of it, whatever was assessed before, of whichever alleles, and wherever a
// handler is lost; nothing follows the run's end.
func TestCarryOverThatDoesNotHold(t *testing.T) {
	var first map[string]string
	marked := 0
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 18))
		var calls, assessed []testRecord
		for revision := range uint64(3) {
			for i := range int64(20) {
				calls = append(calls, callRecord(t, testCall(1000+7*i, "C", "T", revision+1, streampb.CallStatus(1+revision))))
			}
		}
		for range rng.IntN(60) {
			assessed = append(assessed, carriedRecord(t, "lambda", 1000+7*rng.Int64N(20), "C", "T", rng.Float64()))
		}
		recs := append([]testRecord{controlledRecord(t, false)}, weave(rng, calls, assessed)...)
		recs = append(recs, controlledRecord(t, true), carriedEndOf(t, "run-1", true))
		last, explained := lastSaid(t, statetest.Law(t, func() stream.Handler { return awaiting(t) }, records(recs...), 12, seed))
		marked += explained
		require.Len(t, last, 20)
		for _, text := range last {
			require.NotContains(t, text, "carry_over")
			require.NotContains(t, text, event.CarryOverFilter)
		}
		if first == nil {
			first = last
		}
		require.Equal(t, first, last, "seed %d", seed)
	}
	require.NotZero(t, marked)
}

// TestCarryOverParts: an allele that carry-over explains isn't taken together with its neighbours, from when that is known, ahead of its call or behind, for as long as it is so;
// and a handler that is restored anywhere goes on alike.
func TestCarryOverParts(t *testing.T) {
	const provisional = streampb.CallStatus_PROVISIONAL
	own, neighbour := callRecord(t, testCall(30, "A", "G", 1, provisional)), callRecord(t, testCall(20, "A", "T", 1, provisional))
	carried := func(share float64) testRecord { return carriedRecord(t, "lambda", 30, "A", "G", share) }
	for _, tt := range []struct {
		name string
		recs []testRecord
		want []string
	}{
		{"behind the calls", []testRecord{neighbour, own, carried(0.9), carried(0.8), carried(0.2)}, []string{
			"20T rev 1 PROVISIONAL", "30G rev 1 PROVISIONAL t0+20T", "20T rev 2 PROVISIONAL t0+30G",
			"30G rev 2 PROVISIONAL", "20T rev 3 PROVISIONAL", "30G rev 3 PROVISIONAL", "30G rev 4 PROVISIONAL t0+20T", "20T rev 4 PROVISIONAL t0+30G",
		}},
		{"ahead of them", []testRecord{carried(0.9), neighbour, own, carried(0.2)}, []string{
			"20T rev 1 PROVISIONAL", "30G rev 1 PROVISIONAL", "30G rev 2 PROVISIONAL t0+20T", "20T rev 2 PROVISIONAL t0+30G",
		}},
		{"one that was retracted", []testRecord{neighbour, own, callRecord(t, testCall(30, "A", "G", 2, streampb.CallStatus_RETRACTED)), carried(0.9), callRecord(t, testCall(30, "A", "G", 3, provisional))}, []string{
			"20T rev 1 PROVISIONAL", "30G rev 1 PROVISIONAL t0+20T", "20T rev 2 PROVISIONAL t0+30G", "30G rev 2 RETRACTED", "20T rev 3 PROVISIONAL", "30G rev 3 PROVISIONAL",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(4) {
				var got []string
				for _, o := range statetest.Law(t, func() stream.Handler { return neighbourly(t) }, records(tt.recs...), 3, seed) {
					v, _ := read(t, o)
					got = append(got, describe(v))
				}
				require.Equal(t, tt.want, got)
			}
		})
	}
}

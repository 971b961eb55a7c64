package eval_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/variant/eval"
)

// TestCompareStream follows five alleles: one that is right from its second revision, one whose genotype goes to and fro,
// one that is retracted as STABLE, one that comes and goes and comes, and one that fails a filter at last.
func TestCompareStream(t *testing.T) {
	t.Parallel()
	const seq = "ACGTTGCAACGGTCATGCCTAGATCGTACCGATTGCAGTC"
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var h eval.History
	add := func(key string, number uint64, status eval.Status, gt string, depth, seconds int, filters ...string) {
		r := eval.Revision{
			Key: key, Number: number, Status: status, Contig: "c", Depth: depth, Passed: len(filters) == 0,
			Qual: 30, GQ: 20, Time: start.Add(time.Duration(seconds) * time.Second),
		}
		for _, g := range strings.Split(gt, "/") {
			r.Genotype = append(r.Genotype, uint32(g[0]-'0'))
		}
		switch key {
		case "right":
			r.Pos, r.Ref, r.Alt = 3, "G", "A"
		case "to and fro":
			r.Pos, r.Ref, r.Alt = 8, "A", "T"
		case "taken back":
			r.Pos, r.Ref, r.Alt = 13, "T", "C"
		case "back again":
			r.Pos, r.Ref, r.Alt = 20, "TA", "T"
		case "filtered":
			r.Pos, r.Ref, r.Alt = 30, "C", "A"
		}
		h.Add(r)
	}
	add("right", 2, "PROVISIONAL", "0/1", 6, 10)
	add("right", 1, "PROVISIONAL", "1/1", 3, 0) // any order
	add("right", 3, "STABLE", "0/1", 15, 50)
	add("right", 3, "STABLE", "0/1", 15, 50) // delivered again
	add("right", 4, "FINAL", "0/1", 30, 100)
	add("to and fro", 1, "PROVISIONAL", "1/1", 4, 20)
	add("to and fro", 2, "PROVISIONAL", "0/1", 8, 40)
	add("to and fro", 3, "FINAL", "1/1", 20, 100)
	add("taken back", 1, "PROVISIONAL", "0/1", 5, 20)
	add("taken back", 2, "STABLE", "0/1", 12, 30)
	add("taken back", 3, "RETRACTED", "0/0", 20, 60)
	add("back again", 1, "PROVISIONAL", "0/1", 5, 20)
	add("back again", 2, "RETRACTED", "0/0", 8, 30)
	add("back again", 5, "FINAL", "0/1", 25, 100) // two were compacted away
	add("filtered", 1, "STABLE", "0/1", 14, 30)
	add("filtered", 2, "FINAL", "0/1", 40, 100, "StrandBias")

	truth := set(t, "truth", "3 G A 0/1", "8 A T 1/1", "20 TA T 0/1", "35 G C 0/1")
	r, err := eval.CompareStream(t.Context(), reference(t, seq), truth, "events", &h, 5, eval.Options{})
	require.NoError(t, err)
	assert.Equal(t, "3/1 3/0 gt0", brief(r.Final, "ALL"))

	assert.Equal(t, eval.Churn{
		Alleles: 5, Revisions: 4 + 3 + 3 + 5 + 2, Seen: 15, Final: 3,
		RevisionsPerFinal: ptr(4), RevisionsMax: 5, Retractions: 2, Withdrawn: 2,
		Stable: 3, StableRetracted: 1, StableWithdrawn: 2, StableRate: ptr(1.0 / 3),
		Flips: 3, FlipsPerFinal: ptr(1.0),
	}, r.Churn)

	assert.Equal(t, 3, r.Arrival.Calls)
	// First right: 6 (right), 4 (to and fro), 5 (back again); since when: 6, 20, 25.
	assert.Equal(t, eval.Spread{Median: 5, P90: 6, Max: 6}, *r.Arrival.FirstDepth)
	assert.Equal(t, eval.Spread{Median: 20, P90: 25, Max: 25}, *r.Arrival.SettledDepth)
	assert.Equal(t, eval.Spread{Median: 20, P90: 20, Max: 20}, *r.Arrival.FirstSeconds)
	assert.Equal(t, eval.Spread{Median: 100, P90: 100, Max: 100}, *r.Arrival.SettledSeconds)

	// At 20 s: right 0/1, to and fro 1/1, taken back 0/1, back again 0/1. At 40 s: to and fro is wrong, filtered there, back
	// again gone. At 60 s and 80 s: taken back gone.
	var got []string
	for _, m := range r.Moments {
		got = append(got, strings.Join([]string{
			time.Duration(m.Seconds * float64(time.Second)).String(),
			figures(m.SNP), figures(m.Indel),
		}, " "))
	}
	assert.Equal(t, []string{"20s 2/1 2/1 1/0 1/0", "40s 1/2 1/3 0/1 0/0", "1m0s 1/2 1/2 0/1 0/0", "1m20s 1/2 1/2 0/1 0/0", "1m40s 2/1 2/0 1/0 1/0"}, got)

	var text strings.Builder
	require.NoError(t, r.WriteText(&text))
	assert.Contains(t, text.String(), "Revisions are missing")
	assert.Contains(t, text.String(), "Of 3 calls that were STABLE, 1 were retracted as such and 2 don't stand at the end.")
}

func ptr(v float64) *float64 { return &v }

func figures(f *eval.Figures) string {
	return fmt.Sprintf("%d/%d %d/%d", f.TruthTP, f.TruthFN, f.QueryTP, f.QueryFP)
}

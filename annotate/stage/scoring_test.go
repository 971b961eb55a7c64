package stage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// gated scores alleles by their positions, those at odd ones not at all, once it is let.
type gated struct {
	gate chan struct{} // closed: all pass
	mu   sync.Mutex
	of   map[int]int // how often an allele was scored, by position
}

func newGated(open bool) *gated {
	g := &gated{gate: make(chan struct{}), of: make(map[int]int)}
	if open {
		close(g.gate)
	}
	return g
}

func (g *gated) Fingerprint() string { return "gated" }

func (g *gated) ScoreContext(ctx context.Context, alleles []annotate.Spelled) ([][]annotate.Score, error) {
	select {
	case <-g.gate:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([][]annotate.Score, len(alleles))
	for i, a := range alleles {
		g.of[a.Pos]++
		if score := float64(a.Pos%100) / 100; a.Pos%2 == 0 {
			all[i] = []annotate.Score{{Network: "gated", SHA256: "0", Score: &score}}
		}
	}
	return all, nil
}

// collector keeps the emitted records, in order.
type collector struct {
	mu     sync.Mutex
	out    []stream.Out
	failed error
}

func (c *collector) Emit(_ context.Context, outs []stream.Out, _ []int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = append(c.out, outs...)
	return nil
}

func (c *collector) Fail(err error) { c.failed = err }

// events are what was emitted, as "position revision status score".
func (c *collector) events(t *testing.T) []string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, o := range c.out {
		if v, _ := read(t, o); v != nil {
			all = append(all, said(v))
		}
	}
	return all
}

func said(v *event.Variant) string {
	s := fmt.Sprintf("%d rev %d %s", v.Allele.Pos, v.Revision, v.Status)
	for _, score := range v.Annotation.Scores {
		s += fmt.Sprintf(" %.2f", *score.Score)
	}
	return s
}

func lambdaGenome(t *testing.T) *genome.Genome {
	t.Helper()
	g, err := genome.Load(filepath.Join("..", "..", "testdata", "lambda", "reference.fa"))
	require.NoError(t, err)
	return g
}

func scoringHandler(t *testing.T, g *genome.Genome, s Scorer) stream.Handler {
	t.Helper()
	h, err := New(Config{Topics: stream.NewTopics(""), VariantsPartitions: 3, Annotator: brokenAnnotator{}, Scoring: &Scoring{s, g}})("calls", 1, 2)
	require.NoError(t, err)
	return h
}

const (
	provisional, stable, final = streampb.CallStatus_PROVISIONAL, streampb.CallStatus_STABLE, streampb.CallStatus_FINAL
)

// TestScoresComeNext: a call is out before it is scored; its scores come as the next revision, or with one that comes
// meanwhile, and from then on at once.
func TestScoresComeNext(t *testing.T) {
	g := lambdaGenome(t)
	synctest.Test(t, func(t *testing.T) {
		scorer, emit := newGated(false), new(collector)
		h := scoringHandler(t, g, scorer)
		handle := func(calls ...*streampb.Call) {
			var list []testRecord
			for _, c := range calls {
				list = append(list, callRecord(t, c))
			}
			for _, rec := range records(list...) {
				require.NoError(t, h.Handle(t.Context(), rec, emit))
			}
		}
		handle(testCall(20, "A", "T", 1, provisional), testCall(31, "A", "T", 1, provisional), testCall(40, "A", "T", 1, streampb.CallStatus_RETRACTED))
		synctest.Wait()
		assert.Equal(t, []string{"20 rev 1 PROVISIONAL", "31 rev 1 PROVISIONAL", "40 rev 1 RETRACTED"}, emit.events(t), "nothing waits for a network")
		handle(testCall(20, "A", "T", 2, stable), testCall(50, "A", "T", 1, provisional))
		close(scorer.gate)
		synctest.Wait()
		assert.Equal(t, []string{"20 rev 3 STABLE", "50 rev 1 PROVISIONAL", "20 rev 4 STABLE 0.20", "50 rev 2 PROVISIONAL 0.50"}, emit.events(t)[3:],
			"what is older than something that was said isn't said any more")
		handle(testCall(20, "A", "T", 3, final), testCall(40, "A", "T", 2, final), testCall(31, "A", "T", 2, final))
		synctest.Wait()
		assert.Equal(t, []string{"20 rev 6 FINAL 0.20", "40 rev 4 FINAL 0.40", "31 rev 3 FINAL"}, emit.events(t)[7:], "a final revision has its scores, known or not")
		assert.Equal(t, map[int]int{20: 1, 31: 1, 40: 1, 50: 1}, scorer.of, "an allele is scored once")
		require.NoError(t, h.Drain(t.Context()))
		require.NoError(t, h.Close())
		require.NoError(t, emit.failed)
	})
}

// TestDrainDoesNotWait: scores that aren't there don't hold up a handover, and nothing is emitted behind it.
func TestDrainDoesNotWait(t *testing.T) {
	g := lambdaGenome(t)
	synctest.Test(t, func(t *testing.T) {
		scorer, emit := newGated(false), new(collector)
		h := scoringHandler(t, g, scorer)
		require.NoError(t, h.Handle(t.Context(), records(callRecord(t, testCall(20, "A", "T", 1, provisional)))[0], emit))
		synctest.Wait() // it is with the network
		require.NoError(t, h.Drain(t.Context()))
		close(scorer.gate)
		synctest.Wait()
		assert.Equal(t, []string{"20 rev 1 PROVISIONAL"}, emit.events(t))
		// The partition comes back.
		again := new(collector)
		require.NoError(t, h.Handle(t.Context(), records(callRecord(t, testCall(20, "A", "T", 2, stable)))[0], again))
		assert.Equal(t, []string{"20 rev 4 STABLE 0.20"}, again.events(t))
		require.NoError(t, h.Close())
	})
	synctest.Test(t, func(t *testing.T) {
		h := scoringHandler(t, g, newGated(false))
		require.NoError(t, h.Handle(t.Context(), records(callRecord(t, testCall(20, "A", "T", 1, provisional)))[0], new(collector)))
		require.NoError(t, h.Close(), "a device that doesn't answer holds nobody up")
	})
}

// TestLastWordHasScores: whatever the order of calls, the time that scores take and the crashes, what a consumer has in the
// end is the same, and of an allele no revision comes behind a newer one.
func TestLastWordHasScores(t *testing.T) {
	g := lambdaGenome(t)
	var want map[string]string
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			var calls []testRecord
			left := map[int64][]streampb.CallStatus{}
			for pos := int64(20); pos < 60; pos += 5 {
				left[pos] = append([]streampb.CallStatus{provisional, stable, provisional}[:1+rng.IntN(3)], final)
			}
			said := map[int64]uint64{}
			for len(left) > 0 {
				pos := int64(20 + 5*rng.IntN(8))
				if list := left[pos]; len(list) > 0 {
					said[pos]++
					calls = append(calls, callRecord(t, testCall(pos, "A", "T", said[pos], list[0])))
					if left[pos] = list[1:]; len(list) == 1 {
						delete(left, pos)
					}
				}
			}
			var out []stream.Out
			recs := records(calls...)
			scorer, emit := newGated(seed%2 == 0), new(collector)
			h := scoringHandler(t, g, scorer)
			for i, rec := range recs {
				if rng.IntN(6) == 0 { // the process dies, and another one takes over
					synctest.Wait()
					require.NoError(t, h.Close())
					out = append(out, emit.out...)
					scorer, emit = newGated(rng.IntN(2) == 0), new(collector)
					h = scoringHandler(t, g, scorer)
					for _, old := range recs[:i] {
						require.NoError(t, h.Replay(t.Context(), old))
					}
				}
				if rng.IntN(3) == 0 {
					synctest.Wait()
				}
				isFinal := false
				if c, err := stream.DecodeCalls(rec.Value); err == nil {
					isFinal = c.GetCall().GetStatus() == final
				}
				if isFinal {
					select {
					case <-scorer.gate:
					default:
						close(scorer.gate)
					}
				}
				require.NoError(t, h.Handle(t.Context(), rec, emit))
			}
			synctest.Wait()
			require.NoError(t, h.Close())
			out = append(out, emit.out...)
			newest, documents := map[string]uint64{}, map[string]string{}
			for _, o := range out {
				v, _ := read(t, o)
				require.Greater(t, v.Revision, newest[string(o.Key)], "seed %d: %s", seed, o.Key)
				newest[string(o.Key)] = v.Revision
				v.Revision = 0 // it counts what was said before
				document, err := v.JSON()
				require.NoError(t, err)
				documents[string(o.Key)] = string(document)
			}
			if want == nil {
				want = documents
			}
			require.Equal(t, want, documents, "seed %d", seed)
		})
	}
	require.Len(t, want, 8)
	assert.Contains(t, fmt.Sprint(want), `"score":0.3`)
}

// TestScoresAreForgotten: the number of kept scores is bounded, and the longest unused go first.
func TestScoresAreForgotten(t *testing.T) {
	s := newScores(Scoring{newGated(true), lambdaGenome(t)}, 2)
	for _, id := range []string{"a", "b", "a", "c"} {
		if _, ok := s.known(id); !ok {
			_, err := s.score(t.Context(), []event.Allele{{VRSID: id, Contig: "J02459.1", Pos: 20, Ref: "A", Alt: "T"}})
			require.NoError(t, err)
		}
	}
	for id, want := range map[string]bool{"a": true, "b": false, "c": true} {
		_, ok := s.known(id)
		assert.Equal(t, want, ok, id)
	}
}

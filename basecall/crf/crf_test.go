package crf

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/scores"
	"github.com/porestream/porestream/testenv"
)

func fixed(stay float32) *float32 { return &stay }

// randomScores returns scores of a window.
func randomScores(rng *rand.Rand, cfg Config, frames int, spread float64) []float32 {
	scores := make([]float32, frames*cfg.Scores())
	for i := range scores {
		scores[i] = float32(min(5, max(-5, rng.NormFloat64()*spread)))
	}
	return scores
}

// path is one of all paths, with its probability before normalising.
type path struct {
	first       int // state before the first frame
	transitions []int
	states      []int
	weight      float64
}

// sequence is what a path says: which bases it emits, and the state that it comes
// to, by which paths that have emitted few differ.
type sequence struct {
	last  int
	bases string
}

func (p path) sequence() sequence {
	seq := sequence{last: p.states[len(p.states)-1]}
	for t, state := range p.states {
		if p.transitions[t] != 0 {
			seq.bases += "ACGT"[state&3 : state&3+1]
		}
	}
	return seq
}

// allPaths enumerates the paths by the definition of the state space.
func allPaths(cfg Config, scores []float32) []path {
	n := cfg.States()
	frames := len(scores) / cfg.Scores()
	score := func(t, state, transition int) float64 {
		if cfg.StayScore == nil {
			return float64(scores[(t*n+state)*5+transition])
		}
		if transition == 0 {
			return float64(*cfg.StayScore)
		}
		return float64(scores[(t*n+state)*4+transition-1])
	}
	var paths []path
	for first := range n {
		var extend func(t, state int, transitions, states []int, total float64)
		extend = func(t, state int, transitions, states []int, total float64) {
			if t == frames {
				paths = append(paths, path{first, slices.Clone(transitions), slices.Clone(states), math.Exp(total)})
				return
			}
			extend(t+1, state, append(transitions, 0), append(states, state), total+score(t, state, 0))
			dropped := state / (n / 4)
			for base := range 4 {
				next := state*4%n + base
				extend(t+1, next, append(transitions, 1+dropped), append(states, next), total+score(t, next, 1+dropped))
			}
		}
		extend(0, first, nil, nil, 0)
	}
	return paths
}

// tinyCases are small enough to visit all paths.
func tinyCases() map[string]Config {
	return map[string]Config{
		"k=1 fixed":    {StateLength: 1, StayScore: fixed(2)},
		"k=1 explicit": {StateLength: 1},
		"k=2 fixed":    {StateLength: 2, StayScore: fixed(-0.5)},
		"k=2 explicit": {StateLength: 2},
		"k=3 fixed":    {StateLength: 3, StayScore: fixed(2)},
		"k=3 explicit": {StateLength: 3},
	}
}

// framesOf keeps the number of paths near 10,000.
func framesOf(cfg Config) int { return []int{0, 5, 4, 3}[cfg.StateLength] }

func TestSumsOverAllPaths(t *testing.T) {
	for name, cfg := range tinyCases() {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, uint64(cfg.StateLength)))
			for range 5 {
				scores := randomScores(rng, cfg, framesOf(cfg), 2)
				paths := allPaths(cfg, scores)
				n, frames := cfg.States(), framesOf(cfg)
				z := 0.0
				edges := make([]float64, frames*n*5)
				visits := make([]float64, (frames+1)*n)
				for _, p := range paths {
					z += p.weight
				}
				for _, p := range paths {
					visits[p.first] += p.weight / z
					for f, s := range p.states {
						edges[(f*n+s)*5+p.transitions[f]] += p.weight / z
						visits[(f+1)*n+s] += p.weight / z
					}
				}

				d, err := NewDecoder(cfg)
				require.NoError(t, err)
				require.NoError(t, d.sums(floatsOf(d, scores)))
				assert.InDelta(t, math.Log(z), d.lattice.logZ, 1e-5)
				have := make([]float32, 5*n)
				for f := range frames {
					d.lattice.transitions(f, have)
					for i, p := range have {
						assert.InDelta(t, edges[f*n*5+i], p, 2e-6)
					}
				}
				for f := range frames + 1 {
					for s := range n {
						assert.InDelta(t, visits[f*n+s], d.lattice.posterior(f, s), 2e-6)
					}
				}
			}
		})
	}
}

// TestViterbiAgainstAllPaths finds the best path over posteriors by trying all.
func TestViterbiAgainstAllPaths(t *testing.T) {
	for name, cfg := range tinyCases() {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(2, uint64(cfg.StateLength)))
			for range 10 {
				frames, n := framesOf(cfg), cfg.States()
				scores := randomScores(rng, cfg, frames, 2)
				paths := allPaths(cfg, scores)
				d, err := NewDecoder(cfg)
				require.NoError(t, err)
				_, err = d.Decode(slices.Clone(scores))
				require.NoError(t, err)

				posteriors := make([][]float32, frames)
				for f := range frames {
					posteriors[f] = make([]float32, 5*n)
					d.lattice.transitions(f, posteriors[f])
				}
				product := func(states, transitions []int) float64 {
					product := 1.0
					for f, s := range states {
						product *= float64(posteriors[f][5*s+transitions[f]]) + floor
					}
					return product
				}
				best := 0.0
				for _, p := range paths {
					best = max(best, product(p.states, p.transitions))
				}
				// The path is among all paths, and none has a higher product.
				found := slices.IndexFunc(paths, func(p path) bool {
					for f := range frames {
						if p.states[f] != int(d.states[f]) || f > 0 && (p.transitions[f] != 0) != d.moved[f] {
							return false
						}
					}
					return product(p.states, p.transitions) >= best*(1-1e-4)
				})
				assert.GreaterOrEqual(t, found, 0, "states %v", d.states)
			}
		})
	}
}

// TestBeamAgainstAllPaths searches so few frames that the beam loses nothing before
// the last, and compares with the most probable of all sequences.
func TestBeamAgainstAllPaths(t *testing.T) {
	for name, cfg := range tinyCases() {
		if cfg.StateLength == 3 {
			continue // its sequences are more than a beam holds
		}
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, uint64(cfg.StateLength)))
			cfg.BeamWidth = MaxBeamWidth
			for range 10 {
				frames := 5 - cfg.StateLength // 88 or 96 sequences before the last
				scores := randomScores(rng, cfg, frames, 2)
				sums := map[sequence]float64{}
				for _, p := range allPaths(cfg, scores) {
					sums[p.sequence()] += p.weight
				}
				best := 0.0
				for _, weight := range sums {
					best = max(best, weight)
				}
				d, err := NewDecoder(cfg)
				require.NoError(t, err)
				_, err = d.Decode(slices.Clone(scores))
				require.NoError(t, err)
				found := false
				for seq, weight := range sums {
					found = found || weight >= best*(1-1e-5) && seq.spelled(cfg, d)
				}
				assert.True(t, found, "states %v moves %v", d.states, d.moved)
			}
		})
	}
}

// TestQualitiesAgainstAllPaths computes the probabilities of bases from their
// definition, with posterior probabilities of states by visiting all paths.
func TestQualitiesAgainstAllPaths(t *testing.T) {
	for name, cfg := range tinyCases() {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(12, uint64(cfg.StateLength)))
			for i := range 6 {
				cfg.BeamWidth = 32 * (i % 2)
				frames, n := framesOf(cfg), cfg.States()
				scores := randomScores(rng, cfg, frames, 2)
				z, visits := 0.0, make([]float64, (frames+1)*n)
				for _, p := range allPaths(cfg, scores) {
					z += p.weight
					for f, s := range p.states {
						visits[(f+1)*n+s] += p.weight
					}
				}
				d, err := NewDecoder(cfg)
				require.NoError(t, err)
				bases, err := d.Decode(scores)
				require.NoError(t, err)
				for k, b := range bases {
					end := frames
					if k+1 < len(bases) {
						end = int(bases[k+1].Frame)
					}
					want := 0.0
					for f := int(b.Frame); f < end; f++ {
						// The state, and every state that shares all but an end with it.
						near := map[int]bool{int(d.states[f]): true}
						for base := range 4 {
							near[int(d.states[f])*4%n+base] = true
							near[int(d.states[f])/4+base*n/4] = true
						}
						p := 0.0
						for s := range near {
							p += visits[(f+1)*n+s] / z
						}
						want += math.Pow(p, 0.4) / float64(end-int(b.Frame))
					}
					assert.InDelta(t, want, b.Probability, 1e-5)
					assert.Equal(t, uint8(d.states[b.Frame]&3), b.Code)
				}
			}
		})
	}
}

// spelled reports whether the decoder's path spells a sequence, whatever the
// transition of the first frame is, which the decoder doesn't report.
func (seq sequence) spelled(cfg Config, d *Decoder) bool {
	emitted := ""
	for f, s := range d.states {
		switch {
		case f > 0 && d.moved[f]:
			if s&^3 != d.states[f-1]*4%uint16(cfg.States()) {
				return false
			}
			emitted += "ACGT"[s&3 : s&3+1]
		case f > 0 && s != d.states[f-1]:
			return false
		}
	}
	first := d.states[0] & 3
	return int(d.states[len(d.states)-1]) == seq.last && (emitted == seq.bases || "ACGT"[first:first+1]+emitted == seq.bases)
}

// goldenCase is a window with what PyTorch makes of it; see testdata/crf_golden.py.
type goldenCase struct {
	StateLength int       `json:"state_length"`
	Stay        *float32  `json:"stay"`
	Scores      []int     `json:"scores"` // thousandths
	LogZ        float64   `json:"log_z"`
	Posteriors  []float32 `json:"posteriors"` // with stays, derivatives of log Z
}

func TestPosteriorsAreGradients(t *testing.T) {
	text, err := os.ReadFile("testdata/crf_golden.json")
	require.NoError(t, err)
	var cases []goldenCase
	require.NoError(t, json.Unmarshal(text, &cases))
	for _, c := range cases {
		cfg := Config{StateLength: c.StateLength, StayScore: c.Stay}
		scores := make([]float32, len(c.Scores))
		for i, s := range c.Scores {
			scores[i] = float32(s) / 1000
		}
		d, err := NewDecoder(cfg)
		require.NoError(t, err)
		require.NoError(t, d.sums(floatsOf(d, scores)))
		assert.InDelta(t, c.LogZ, d.lattice.logZ, 1e-4)
		row := make([]float32, 5*cfg.States())
		require.Len(t, c.Posteriors, d.lattice.frames*len(row))
		for f := range d.lattice.frames {
			d.lattice.transitions(f, row)
			for i, p := range row {
				want := c.Posteriors[f*len(row)+i]
				assert.InDelta(t, want, p, 1e-6+1e-5*float64(want))
			}
		}
	}
}

// TestShift adds a number to all scores of a frame, which changes no probability.
func TestShift(t *testing.T) {
	for _, width := range []int{0, 32} {
		rng := rand.New(rand.NewPCG(4, 4))
		cfg := Config{StateLength: 3, BeamWidth: width, BeamCut: 100}
		scores := randomScores(rng, cfg, 40, 2)
		shifted := slices.Clone(scores)
		for f := range 40 {
			by := float32(f%7) * 16 // exact
			for i := range cfg.Scores() {
				shifted[f*cfg.Scores()+i] += by
			}
		}
		d, err := NewDecoder(cfg)
		require.NoError(t, err)
		want, err := d.Decode(scores)
		require.NoError(t, err)
		want = slices.Clone(want)
		have, err := d.Decode(shifted)
		require.NoError(t, err)
		require.Len(t, have, len(want))
		for i := range want {
			assert.Equal(t, want[i].Frame, have[i].Frame)
			assert.Equal(t, want[i].Code, have[i].Code)
			assert.InDelta(t, want[i].Probability, have[i].Probability, 1e-3)
		}
	}
}

// TestFixedIsExplicit gives the fixed score of staying as scores.
func TestFixedIsExplicit(t *testing.T) {
	for _, width := range []int{0, 32} {
		rng := rand.New(rand.NewPCG(5, 5))
		cfg := Config{StateLength: 4, StayScore: fixed(2), BeamWidth: width, BeamCut: 100}
		scores := randomScores(rng, cfg, 50, 2.5)
		var explicit []float32
		for i := 0; i < len(scores); i += 4 {
			explicit = append(append(explicit, *cfg.StayScore), scores[i:i+4]...)
		}
		a, err := NewDecoder(cfg)
		require.NoError(t, err)
		want, err := a.Decode(scores)
		require.NoError(t, err)
		cfg.StayScore = nil
		b, err := NewDecoder(cfg)
		require.NoError(t, err)
		have, err := b.Decode(explicit)
		require.NoError(t, err)
		assert.Len(t, have, len(want))
		for i := range want {
			assert.Equal(t, want[i].Frame, have[i].Frame)
			assert.Equal(t, want[i].Code, have[i].Code)
			assert.InDelta(t, want[i].Probability, have[i].Probability, 1e-6)
		}
	}
}

// TestStatesOfNoUse gives states a base more on which no score hangs: the bases are
// the same, though the beam begins with four states for one.
func TestStatesOfNoUse(t *testing.T) {
	for k := 2; k <= 4; k++ {
		rng := rand.New(rand.NewPCG(7, uint64(k)))
		cfg := Config{StateLength: k, StayScore: fixed(2), BeamWidth: 12, BeamCut: 100}
		n := cfg.States()
		for range 20 {
			scores := uncertain(rng, cfg, 200)
			var longer []float32
			for f := range 200 {
				for state := range 4 * n {
					// What is dropped from the shorter state is the longer one's first base.
					score := scores[4*n*f+4*(state%n)+state/n]
					longer = append(longer, score, score, score, score)
				}
			}
			d, err := NewDecoder(cfg)
			require.NoError(t, err)
			want, err := d.Decode(scores)
			require.NoError(t, err)
			more := cfg
			more.StateLength++
			d, err = NewDecoder(more)
			require.NoError(t, err)
			have, err := d.Decode(longer)
			require.NoError(t, err)
			require.Equal(t, spell(want), spell(have), "k=%d", k)
		}
	}
}

// TestFarAway: what is called doesn't hang on how the window began, from some bases on.
func TestFarAway(t *testing.T) {
	const frames, cut, settled = 1200, 300, 420
	for k := 2; k <= 4; k++ {
		for seed := range uint64(6) {
			cfg := Config{StateLength: k, StayScore: fixed(2), BeamWidth: 12, BeamCut: 100}
			scores := uncertain(rand.New(rand.NewPCG(13, seed)), cfg, frames)
			d, err := NewDecoder(cfg)
			require.NoError(t, err)
			behind := func(first int) (found []Base) {
				bases, err := d.Decode(slices.Clone(scores[first*cfg.Scores():]))
				require.NoError(t, err)
				for _, b := range bases {
					if b.Frame += int32(first); b.Frame >= settled {
						found = append(found, Base{Frame: b.Frame, Code: b.Code})
					}
				}
				return found
			}
			require.Equal(t, behind(0), behind(cut), "k=%d, seed %d", k, seed)
		}
	}
}

func spell(bases []Base) string {
	text := make([]byte, len(bases))
	for i, b := range bases {
		text[i] = "ACGT"[b.Code]
	}
	return string(text)
}

// uncertain returns scores in favour of a random path that other sequences come
// close to.
func uncertain(rng *rand.Rand, cfg Config, frames int) []float32 {
	scores, _ := planted(rng, cfg, frames)
	for i := range scores {
		scores[i] = scores[i]*0.6 + rng.Float32()*3
	}
	return scores
}

// TestPlantedSequence decodes scores that favour the path of a random sequence,
// with dwells of one to five frames, as those of a trained network do.
func TestPlantedSequence(t *testing.T) {
	for _, width := range []int{0, 32} {
		for k := 3; k <= 5; k++ {
			rng := rand.New(rand.NewPCG(6, uint64(k)))
			cfg := Config{StateLength: k, StayScore: fixed(2), BeamWidth: width, BeamCut: 100}
			scores, want := planted(rng, cfg, 300)
			d, err := NewDecoder(cfg)
			require.NoError(t, err)
			have, err := d.Decode(scores)
			require.NoError(t, err)
			require.Len(t, have, len(want))
			for i := range want {
				assert.Equal(t, want[i], Base{Frame: have[i].Frame, Code: have[i].Code}, "base %d", i)
				assert.Greater(t, have[i].Probability, float32(0.9))
			}
		}
	}
}

// planted returns scores in favour of a random path, and its bases.
func planted(rng *rand.Rand, cfg Config, frames int) ([]float32, []Base) {
	n := cfg.States()
	scores := randomScores(rng, cfg, frames, 0.5)
	for i := range scores {
		scores[i] -= 3
	}
	state := rng.IntN(n)
	var bases []Base
	dwell := 0
	for f := range frames {
		if dwell > 0 {
			dwell--
			continue
		}
		dwell = rng.IntN(5)
		dropped := state / (n / 4)
		state = state*4%n + rng.IntN(4)
		scores[(f*n+state)*4+dropped] = 5
		bases = append(bases, Base{Frame: int32(f), Code: uint8(state & 3)})
	}
	return scores, bases
}

// TestWideScores decodes scores far outside of what networks give.
func TestWideScores(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, spread := range []float64{30, 1000, 1e30} {
		for _, width := range []int{0, 32} {
			cfg := Config{StateLength: 3, StayScore: fixed(2), BeamWidth: width, BeamCut: 100}
			scores := make([]float32, 200*cfg.Scores())
			for i := range scores {
				scores[i] = float32(rng.NormFloat64() * spread)
			}
			d, err := NewDecoder(cfg)
			require.NoError(t, err)
			bases, err := d.Decode(scores)
			require.NoError(t, err)
			checkBases(t, bases, 200)
		}
	}
}

// checkBases checks what holds for any window.
func checkBases(t *testing.T, bases []Base, frames int) {
	t.Helper()
	require.NotEmpty(t, bases)
	require.Zero(t, bases[0].Frame)
	for i, b := range bases {
		require.True(t, i == 0 || b.Frame > bases[i-1].Frame)
		require.Less(t, int(b.Frame), frames)
		require.Less(t, b.Code, uint8(4))
		require.True(t, b.Probability >= 0 && b.Probability <= 1, "probability %v", b.Probability)
	}
}

func TestDecodeRefuses(t *testing.T) {
	cfg := Config{StateLength: 3, StayScore: fixed(2)}
	d, err := NewDecoder(cfg)
	require.NoError(t, err)
	_, err = d.Decode(make([]float32, 300))
	require.EqualError(t, err, "300 scores are not frames of 256")
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		scores := make([]float32, 512)
		scores[256+17] = float32(v)
		_, err = d.Decode(scores)
		require.ErrorContains(t, err, "score 17 of frame 1 is")
	}
	bases, err := d.Decode(nil)
	require.NoError(t, err)
	require.Empty(t, bases)

	for want, cfg := range map[string]Config{
		"state length 0": {},
		"state length 7": {StateLength: 7},
		"stay score":     {StateLength: 3, StayScore: fixed(float32(math.NaN()))},
		"beam width":     {StateLength: 3, BeamWidth: 257},
		"beam cut":       {StateLength: 3, BeamWidth: 32, BeamCut: 0.5},
	} {
		_, err := NewDecoder(cfg)
		require.ErrorContains(t, err, want)
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	for _, width := range []int{0, 32} {
		cfg := Config{StateLength: 4, StayScore: fixed(2), BeamWidth: width, BeamCut: 100}
		scores := randomScores(rand.New(rand.NewPCG(8, 8)), cfg, 200, 2)
		work := slices.Clone(scores)
		d, err := NewDecoder(cfg)
		require.NoError(t, err)
		decode := func() {
			copy(work, scores)
			if _, err := d.Decode(work); err != nil {
				t.Error(err)
			}
		}
		decode()
		assert.Zero(t, testing.AllocsPerRun(5, decode), "width %d", width)
	}
}

func TestExponentials(t *testing.T) {
	for x := float32(minLogWeight); x <= 0; x += 0.00173 {
		row := []float32{x + 3}
		exponentials(row, row, 3)
		want := math.Exp(float64(x+3) - 3)
		require.InEpsilon(t, want, row[0], 3e-7, "exp(%v)", x)
	}
	row := []float32{-100, 0, -1e30}
	exponentials(row, row, 0)
	require.InEpsilon(t, math.Exp(minLogWeight), row[0], 1e-6)
	require.Equal(t, float32(1), row[1])
	require.Equal(t, row[0], row[2])
}

func TestLargest(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	for range 2000 {
		x := make([]float32, 1+rng.IntN(30))
		for i := range x {
			x[i] = float32(rng.IntN(10))
		}
		sorted := slices.Sorted(slices.Values(x))
		n := 1 + rng.IntN(len(x))
		require.Equal(t, sorted[len(x)-n], largest(slices.Clone(x), n))
	}
}

// TestSetsOfInstructionsAgree: scores that no network gives, and such that decide nothing, are decoded as by Go's code, to the bit, with each
// set of instructions, in windows of few and of many frames.
func TestSetsOfInstructionsAgree(t *testing.T) {
	finite := func(rng *rand.Rand) float32 {
		for {
			if v := math.Float32frombits(rng.Uint32()); v-v == 0 {
				return v
			}
		}
	}
	for kind, score := range map[string]func(*rand.Rand) float32{
		"any bits":  finite,
		"huge":      func(rng *rand.Rand) float32 { return (2*rng.Float32() - 1) * math.MaxFloat32 },
		"lowest":    func(*rand.Rand) float32 { return -math.MaxFloat32 },
		"subnormal": func(rng *rand.Rand) float32 { return math.Float32frombits(rng.Uint32() &^ 0x7f800000) },
		"zeros":     func(rng *rand.Rand) float32 { return math.Float32frombits(rng.Uint32() & 0x80000000) },
		"few":       func(rng *rand.Rand) float32 { return 80*float32(rng.IntN(50)/49) - 40 },
		"steps":     func(rng *rand.Rand) float32 { return float32(rng.IntN(40)) / 10 },
	} {
		for _, c := range []struct{ k, width, frames int }{
			{1, 12, 90}, {2, 7, 60}, {2, 256, 20}, {3, 0, 9}, {3, 1, 1}, {3, 12, 120}, {3, 13, 60}, {4, 12, 40}, {4, 2, 3}, {5, 12, 33}, {6, 12, 5},
		} {
			for _, stay := range []float32{2, -100, 100} {
				for _, cut := range []float32{0, 100} {
					cfg := Config{StateLength: c.k, StayScore: &stay, BeamWidth: c.width, BeamCut: cut}
					x := make([]float32, c.frames*cfg.Scores())
					rng := rand.New(rand.NewPCG(31, uint64(c.width)))
					for i := range x {
						x[i] = score(rng)
					}
					checkSets(t, cfg, x, kind)
				}
			}
		}
	}
}

// checkSets decodes scores with each set of instructions, also such that it may write over, and compares with Go's code.
func checkSets(t *testing.T, cfg Config, x []float32, what string) {
	t.Helper()
	d, err := NewDecoder(cfg)
	require.NoError(t, err)
	d.lattice.instructions = instructions{}
	bases, err := d.Decode(x)
	require.NoError(t, err)
	checkBases(t, bases, len(x)/cfg.Scores())
	want := slices.Clone(bases)
	for set, instructions := range sets() {
		d.lattice.instructions = instructions
		have, err := d.Decode(x)
		require.NoError(t, err)
		require.Equal(t, want, have, "%s: k=%d, width %d, cut %v, %s", what, cfg.StateLength, cfg.BeamWidth, cfg.BeamCut, set)
		w := scores.OfFloats(slices.Clone(x), cfg.Scores())
		w.Spent = true
		have, err = d.DecodeWindow(w)
		require.NoError(t, err)
		require.Equal(t, want, have, "%s: k=%d, width %d, cut %v, %s, spent", what, cfg.StateLength, cfg.BeamWidth, cfg.BeamCut, set)
	}
}

// FuzzDecode decodes arbitrary numbers, with each set of instructions.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("some scores"), uint8(0), false)
	f.Add([]byte{0, 127, 255, 3, 200, 90, 1, 128}, uint8(9), true)
	f.Fuzz(func(t *testing.T, text []byte, kind uint8, explicit bool) {
		cfg := Config{StateLength: 1 + int(kind%3), BeamWidth: int(kind/3) % 40}
		if !explicit {
			cfg.StayScore = fixed(float32(kind) / 16)
		}
		if kind%2 == 0 {
			cfg.BeamCut = 1 + float32(kind)
		}
		if len(text) == 0 {
			return
		}
		frames := min(40, 1+len(text)/8)
		x := make([]float32, frames*cfg.Scores())
		for i := range x {
			b := text[(i*7+i/len(text))%len(text)]
			x[i] = float32(int8(b)) * float32(uint(1)<<(b%8)) / 16
		}
		checkSets(t, cfg, x, "fuzzed")
	})
}

// BenchmarkDecode reports nanoseconds per frame, by the clock and of processors, for the state spaces of ONT's
// fast, hac and sup models. Scores that favour no sequence fill the beam; uncertain
// ones are as real reads have them, decoded with each set of instructions.
func BenchmarkDecode(b *testing.B) {
	const frames = 1000
	random := func() *rand.Rand { return rand.New(rand.NewPCG(9, 9)) }
	sure := func(cfg Config) []float32 {
		scores, _ := planted(random(), cfg, frames)
		return scores
	}
	unsure := func(cfg Config) []float32 { return randomScores(random(), cfg, frames, 1) }
	real := func(cfg Config) []float32 { return uncertain(random(), cfg, frames) }
	for _, k := range []int{3, 4, 5} {
		for _, search := range []struct {
			name   string
			width  int
			scores func(Config) []float32
			set    string // the processor's, if it is empty
		}{
			{"viterbi", 0, sure, ""},
			{"beam", 32, sure, ""},
			{"beam-unsure", 32, unsure, ""},
			{"beam-uncertain", 12, real, "AVX-512"},
			{"beam-uncertain", 12, real, "AVX2"},
			{"beam-uncertain", 12, real, "Go"},
		} {
			b.Run(strings.TrimSuffix(fmt.Sprintf("states=%d/%s/%s", 1<<(2*k), search.name, search.set), "/"), func(b *testing.B) {
				cfg := Config{StateLength: k, StayScore: fixed(2), BeamWidth: search.width, BeamCut: 100}
				scores := search.scores(cfg)
				work := slices.Clone(scores)
				d, err := NewDecoder(cfg)
				require.NoError(b, err)
				if search.set != "" {
					instructions, has := sets()[search.set]
					if !has {
						b.Skip("the processor has no " + search.set)
					}
					d.lattice.instructions = instructions
				}
				b.ReportAllocs()
				cpu := testenv.ProcessorTime(b)
				for b.Loop() {
					copy(work, scores)
					if _, err := d.Decode(work); err != nil {
						b.Fatal(err)
					}
				}
				perFrame := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(b.N) / frames }
				b.ReportMetric(perFrame(b.Elapsed()), "ns/frame")
				b.ReportMetric(perFrame(testenv.ProcessorTime(b)-cpu), "cpu-ns/frame")
			})
		}
	}
}

// sets are the instructions with which the processor can decode, by name.
func sets() map[string]instructions {
	has := processor()
	all := map[string]instructions{"Go": {}}
	if has.vectors {
		all["AVX2"] = instructions{vectors: true}
	}
	if has.wider {
		all["AVX-512"] = has
	}
	if has.widerBeam { // as processors have it that lack what the beam needs
		all["AVX-512 without its beam"] = instructions{vectors: true, wider: true}
	}
	return all
}

// TestVectors compares what vector instructions compute with Go's numbers, bit for bit.
func TestVectors(t *testing.T) {
	bits := func(x []float32) []uint32 {
		b := make([]uint32, len(x))
		for i, v := range x {
			b[i] = math.Float32bits(v)
		}
		return b
	}
	rng := rand.New(rand.NewPCG(12, 12))
	for k := 1; k <= 5; k++ {
		for _, spread := range []float64{0.5, 5, 60} {
			for _, explicit := range []bool{false, true} {
				cfg := Config{StateLength: k}
				if !explicit {
					cfg.StayScore = fixed(2)
				}
				scores := randomScores(rng, cfg, 20, spread)
				if spread > 5 {
					for i := range scores {
						scores[i] *= 12
					}
				}
				plain, err := NewDecoder(cfg)
				require.NoError(t, err)
				plain.lattice.instructions = instructions{}
				require.NoError(t, plain.sums(floatsOf(plain, scores)))
				for set, instructions := range sets() {
					vector, err := NewDecoder(cfg)
					require.NoError(t, err)
					vector.lattice.instructions = instructions
					require.NoError(t, vector.sums(floatsOf(vector, scores)))
					a, b := &plain.lattice, &vector.lattice
					require.Equal(t, bits(a.moves), bits(b.moves), "k=%d, %s", k, set)
					require.Equal(t, bits(a.forward), bits(b.forward), "k=%d, %s", k, set)
					require.Equal(t, bits(a.backward), bits(b.backward), "k=%d, %s", k, set)
					require.Equal(t, bits(a.totals), bits(b.totals), "k=%d, %s", k, set)
					require.Equal(t, a.logZ, b.logZ, "k=%d, %s", k, set)
				}
			}
		}
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for at := range 256 {
			cfg := Config{StateLength: 3, StayScore: fixed(2)}
			row := make([]float32, cfg.Scores())
			row[at] = float32(v)
			for set, instructions := range sets() {
				d, err := NewDecoder(cfg)
				require.NoError(t, err)
				d.lattice.instructions = instructions
				_, err = d.Decode(row)
				require.EqualError(t, err, fmt.Sprintf("score %d of frame 0 is %v, not a finite number", at, v), set)
			}
		}
	}
}

package crf

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/testenv"
)

// TestLanesAreGos compares entries in lanes with those in Go's memory, frame by frame, to the bit.
func TestLanesAreGos(t *testing.T) {
	if !processor().widerBeam {
		t.Skip("the processor has no AVX-512 that moves bytes")
	}
	const frames = 250
	in, total := 0, 0
	for _, k := range []int{1, 3, 4} {
		for _, width := range []int{1, 5, mostLanes} {
			for _, cut := range []float32{0, 10, 100} {
				for _, kind := range []string{"uncertain", "random", "ties"} {
					cfg := Config{StateLength: k, StayScore: fixed(2), BeamWidth: width, BeamCut: cut}
					rng := rand.New(rand.NewPCG(uint64(k), uint64(width)))
					x := uncertain(rng, cfg, frames)
					if kind != "uncertain" {
						x = randomScores(rng, cfg, frames, 1)
					}
					if kind == "ties" {
						for i := range x {
							x[i] = float32(int(x[i]))
						}
					}
					d, err := NewDecoder(cfg)
					require.NoError(t, err)
					l := &d.lattice
					require.NoError(t, d.sums(floatsOf(d, x)))
					var plain beam
					d.beam.begin(l, width)
					plain.begin(l, width)
					plain.wider = false
					for f := range frames {
						d.beam.advance(l, f, width, cut)
						plain.advance(l, f, width, cut)
						n := plain.n
						require.Equal(t, plain.origins[f*width:][:n], d.beam.origins[f*width:][:n], "k=%d, width %d, cut %v, %s, frame %d", k, width, cut, kind, f)
						total++
						if !d.beam.packed {
							require.Equal(t, n, d.beam.n)
							continue
						}
						in++
						var want narrow
						want.n = uint64(n)
						for i, e := range plain.entries[:n] {
							want.hash[i], want.parent[i], want.recent[i], want.state[i], want.weight[i] = e.hash, e.parent, e.recent, uint32(e.state), e.weight
						}
						have := *d.beam.lanes
						require.Equal(t, [16]float32{}, [16]float32(append(slices.Clone(have.weight[n:]), make([]float32, n)...)), "what doesn't count weighs nothing")
						have.guided, have.settled = want.guided, want.settled
						for i := n; i < len(have.state); i++ {
							require.Less(t, have.state[i], uint32(l.n))
							have.hash[i], have.parent[i], have.recent[i], have.state[i] = 0, 0, 0, 0
						}
						require.Equal(t, want, have, "k=%d, width %d, cut %v, %s, frame %d", k, width, cut, kind, f)
					}
				}
			}
		}
	}
	require.Greater(t, in, total/2)
}

// TestAVX512KeepsToItsMemory decodes with all memory ending where the process's ends.
func TestAVX512KeepsToItsMemory(t *testing.T) {
	if !processor().wider {
		t.Skip("the processor has no AVX-512")
	}
	floats := func(x []float32) []float32 {
		bytes := testenv.BeforeGuard(t, unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x)))
		return unsafe.Slice((*float32)(unsafe.Pointer(&bytes[0])), len(x))
	}
	for k := 1; k <= MaxStateLength; k++ {
		const frames, width = 60, mostLanes
		cfg := Config{StateLength: k, StayScore: fixed(2), BeamWidth: width, BeamCut: 100}
		x := uncertain(rand.New(rand.NewPCG(8, uint64(k))), cfg, frames)
		d, err := NewDecoder(cfg)
		require.NoError(t, err)
		bases, err := d.Decode(x)
		require.NoError(t, err)
		want := slices.Clone(bases)

		l := &d.lattice
		l.memory, l.forward, l.backward = floats(l.memory), floats(l.forward), floats(l.backward)
		origins := testenv.BeforeGuard(t, make([]byte, int(unsafe.Sizeof(origin{}))*(frames*width+behindOrigins)))
		d.beam.origins = unsafe.Slice((*origin)(unsafe.Pointer(&origins[0])), frames*width+behindOrigins)
		have, err := d.Decode(floats(x))
		require.NoError(t, err)
		require.Equal(t, want, have)
	}
}

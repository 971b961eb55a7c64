package variant

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

func randomCodes(rnd *rand.Rand, n int) []byte {
	s := make([]byte, n)
	for i := range s {
		s[i] = byte(rnd.IntN(4))
	}
	return s
}

// noisy is s as a read with errors at the given rate shows it.
func noisy(rnd *rand.Rand, s []byte, rate float64) []byte {
	var out []byte
	for _, b := range s {
		switch x := rnd.Float64() / rate; {
		case x < 0.4:
			out = append(out, byte(rnd.IntN(4)))
		case x < 0.7:
		case x < 1:
			out = append(out, b, byte(rnd.IntN(4)))
		default:
			out = append(out, b)
		}
	}
	return out
}

// Sequences with an error in every eighth base have the true one as their consensus,
// but for some places where errors can't be told from homopolymers.
func TestConsensus(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	v := &voter{}
	exact := 0
	const trials = 200
	for range trials {
		truth := randomCodes(rnd, 30+rnd.IntN(30))
		var seqs [][]byte
		for range 20 {
			seqs = append(seqs, noisy(rnd, truth, 0.12))
		}
		if bytes.Equal(v.consensus(seqs), truth) {
			exact++
		}
	}
	if exact < trials*85/100 {
		t.Errorf("%d of %d consensuses are right", exact, trials)
	}
	// Sequences that agree are their own consensus, however few.
	same := randomCodes(rnd, 40)
	if got := v.consensus([][]byte{same, same}); !bytes.Equal(got, same) {
		t.Errorf("two of %v make %v", same, got)
	}
	if got := v.consensus([][]byte{{}, {}}); len(got) != 0 {
		t.Errorf("nothing makes %v", got)
	}
}

// The change between a sequence and the same with an indel spells the latter.
func TestNetChange(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	for range 2000 {
		ref := randomCodes(rnd, 40)
		at, size := rnd.IntN(20), LongIndel+rnd.IntN(12)
		seq := slices.Concat(ref[:at], randomCodes(rnd, size), ref[at:])
		if rnd.IntN(2) == 0 {
			ref, seq = seq, ref
		}
		a, ok := netChange(ref, seq)
		if !ok {
			t.Fatalf("%v to %v: nothing", ref, seq)
		}
		var ins []byte
		for _, b := range []byte(a.ins) {
			ins = append(ins, baseCode[b])
		}
		if got := slices.Concat(ref[:a.pos], ins, ref[a.pos+a.del:]); !bytes.Equal(got, seq) {
			t.Fatalf("%v to %v: %+v spells %v", ref, seq, a, got)
		}
	}
	for _, seq := range [][]byte{nil, randomCodes(rnd, 41), randomCodes(rnd, 40+maxIndel+1)} {
		if a, ok := netChange(randomCodes(rnd, 40), seq); ok && len(seq) != 0 {
			t.Errorf("%d bases for 40: %+v", len(seq), a)
		}
	}
}

func BenchmarkConsensus(b *testing.B) {
	rnd := rand.New(rand.NewPCG(3, 3))
	truth := randomCodes(rnd, 45)
	var seqs [][]byte
	for range 30 {
		seqs = append(seqs, noisy(rnd, truth, 0.12))
	}
	v := &voter{}
	b.ReportAllocs()
	for b.Loop() {
		v.consensus(seqs)
	}
}

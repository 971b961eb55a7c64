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
// but for some places where errors can't be distinguished from homopolymers.
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

// The long gap between a sequence and the same with an indel spells the latter, also where
// a base is missing or another one elsewhere.
func TestLongGaps(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	v := &voter{}
	for name, tc := range map[string]struct {
		least int // of 1,000
		err   func(flank []byte) []byte
	}{
		"nothing else":  {990, func(flank []byte) []byte { return flank }},
		"a base less":   {980, func(flank []byte) []byte { return flank[1:] }},
		"a base more":   {980, func(flank []byte) []byte { return append([]byte{byte(rnd.IntN(4))}, flank...) }},
		"another base":  {980, func(flank []byte) []byte { return append([]byte{(flank[0] + 1) % 4}, flank[1:]...) }},
		"three missing": {950, func(flank []byte) []byte { return flank[3:] }},
	} {
		right := 0
		for range 1000 {
			before, after, far := randomCodes(rnd, 15), randomCodes(rnd, 15), randomCodes(rnd, 15)
			change := randomCodes(rnd, LongIndel+rnd.IntN(maxIndel-LongIndel+1))
			without := slices.Concat(before, after)
			with := slices.Concat(before, change, after)
			if rnd.IntN(2) == 0 {
				without, with = with, without
			}
			gaps := v.longGaps(slices.Concat(without, far), slices.Concat(with, tc.err(far)))
			if len(gaps) != 1 {
				continue
			}
			a := gaps[0]
			var ins []byte
			for _, b := range []byte(a.ins) {
				ins = append(ins, baseCode[b])
			}
			if bytes.Equal(slices.Concat(without[:a.pos], ins, without[a.pos+a.del:]), with) {
				right++
			}
		}
		if right < tc.least {
			t.Errorf("%s: %d of 1,000 are right", name, right)
		}
	}
	for _, n := range []int{0, LongIndel - 1, maxIndel + 1} {
		ref := randomCodes(rnd, 40)
		if gaps := v.longGaps(ref, slices.Concat(ref[:20], randomCodes(rnd, n), ref[20:])); len(gaps) != 0 {
			t.Errorf("%d bases more: %+v", n, gaps)
		}
	}
	if gaps := v.longGaps(randomCodes(rnd, 10), nil); len(gaps) != 1 || gaps[0] != (indel{del: 10}) {
		t.Errorf("ten bases to nothing: %+v", gaps)
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

func BenchmarkLongGaps(b *testing.B) {
	rnd := rand.New(rand.NewPCG(3, 3))
	ref := randomCodes(rnd, 60)
	seq := slices.Concat(ref[:30], randomCodes(rnd, 15), ref[30:])
	v := &voter{}
	b.ReportAllocs()
	for b.Loop() {
		v.longGaps(ref, seq)
	}
}

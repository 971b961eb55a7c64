package genome

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/porestream/porestream/vrs"
)

// alike compares what the methods of two contigs return, at the places that a generator chooses.
func alike(t testing.TB, flat, packed *Contig, rng *rand.Rand) {
	t.Helper()
	n := flat.Len()
	if packed.Len() != n || packed.Digest() != flat.Digest() || !bytes.Equal(packed.Flat(), flat.Seq) {
		t.Fatalf("%s: %d bases, %d packed; digests %s and %s", flat.Name, n, packed.Len(), flat.Digest(), packed.Digest())
	}
	for range 50 {
		start := rng.IntN(n + 1)
		end := start + rng.IntN(min(n-start, 300)+1)
		want := string(flat.Seq[start:end])
		if got := packed.Text(start, end); got != want {
			t.Fatalf("%s:%d-%d: %s, want %s", flat.Name, start, end, got, want)
		}
		if got := packed.Append([]byte("AB"), start, end); string(got) != "AB"+want {
			t.Fatalf("%s:%d-%d appended: %s", flat.Name, start, end, got)
		}
		if !packed.Has(start, want) || packed.Has(start, want+"A") && !flat.Has(start, want+"A") {
			t.Fatalf("%s:%d-%d: Has is wrong", flat.Name, start, end)
		}
		if start < n && packed.At(start) != flat.Seq[start] {
			t.Fatalf("%s:%d: %c, want %c", flat.Name, start, packed.At(start), flat.Seq[start])
		}
		ref, alt := flat.Text(start, min(end, start+rng.IntN(5))), ""
		for range rng.IntN(5) {
			alt += string("ACGT"[rng.IntN(4)])
		}
		if rng.IntN(3) == 0 && end > start { // a copy of what is there, which can move as far as a repeat goes
			ref, alt = "", want
		}
		e := vrs.Edit{Start: start, Ref: ref, Alt: alt}
		first, last := rng.IntN(start+1), start+len(ref)+rng.IntN(n-start-len(ref)+1)
		for _, c := range []struct {
			name      string
			got, want vrs.Edit
		}{
			{"left", packed.Left(e), e.Left(flat.Seq)},
			{"left to", packed.LeftTo(e, first), e.LeftTo(flat.Seq, first)},
			{"right", packed.Right(e), e.Right(flat.Seq)},
			{"right to", packed.RightTo(e, last), e.RightTo(flat.Seq, last)},
			{"normal", packed.Normal(e), e.Normal(flat.Seq)},
			{"anchored", packed.Anchored(e.Trim()), e.Trim().Anchored(flat.Seq)},
		} {
			if c.got != c.want {
				t.Fatalf("%s, %s of %+v: %+v, want %+v", flat.Name, c.name, e, c.got, c.want)
			}
		}
		got, err := packed.AlleleID(start, ref, alt)
		wanted, wantErr := vrs.AlleleID(flat.Digest(), flat.Seq, start, ref, alt)
		if got != wanted || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%s, %+v: %s, %v; want %s, %v", flat.Name, e, got, err, wanted, wantErr)
		}
		ids, err := packed.AtomIDs(start, ref, alt)
		wantIDs, wantErr := vrs.AtomIDs(flat.Digest(), flat.Seq, start, ref, alt)
		if fmt.Sprint(ids, err) != fmt.Sprint(wantIDs, wantErr) {
			t.Fatalf("%s, atoms of %+v: %v, %v; want %v, %v", flat.Name, e, ids, err, wantIDs, wantErr)
		}
	}
}

// randomText is a FASTA file of contigs with repeats, lower case, runs of N and other letters.
func randomText(rng *rand.Rand, width int) string {
	var fasta strings.Builder
	for k := range 1 + rng.IntN(4) {
		var seq []byte
		for n := 1 + rng.IntN(3000); len(seq) < n; {
			switch rng.IntN(12) {
			case 0:
				seq = append(seq, bytes.Repeat([]byte{'N'}, 1+rng.IntN(200))...)
			case 1:
				seq = append(seq, bytes.Repeat([]byte("CAG")[:1+rng.IntN(3)], 1+rng.IntN(80))...)
			case 2:
				seq = append(seq, "RYSWKMBDHVUacgtn"[rng.IntN(16)])
			default:
				for range rng.IntN(150) {
					seq = append(seq, "ACGT"[rng.IntN(4)])
				}
			}
		}
		fmt.Fprintf(&fasta, ">c%d\n", k)
		for len(seq) > 0 {
			n := min(width, len(seq))
			fasta.Write(seq[:n])
			fasta.WriteByte('\n')
			seq = seq[n:]
		}
	}
	return fasta.String()
}

// A packed genome returns the same as a flat one, whichever way it was read.
func TestPacked(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 11))
		text := randomText(rng, 1+rng.IntN(90))
		flat, err := Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		path := save(t, text, faidx(text))
		for _, large := range []int64{1, 1 << 40} { // by its index, and line by line
			packed, err := load(path, large, new(arena))
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for i, c := range flat.Contigs {
				alike(t, c, packed.Contigs[i], rng)
				alike(t, c, flat.Packed().Contigs[i], rng)
				alike(t, c.Twice(), packed.Contigs[i].Twice(), rng)
			}
		}
	}
}

// Contigs longer than a block, and longer than what lies on the heap.
func TestPackedBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	seq := make([]byte, heapWords*wordBases+2*blockBases+77)
	for i := range seq {
		seq[i] = "ACGT"[rng.IntN(4)]
	}
	for _, at := range []int{blockBases - 1, blockBases, heapWords*wordBases + 5} {
		seq[at] = 'N'
	}
	flat := &Contig{Name: "long", Seq: seq}
	packed := &Contig{Name: "long", packed: newPacked(new(arena))}
	for rest := seq; len(rest) > 0; {
		n := min(len(rest), 1+rng.IntN(100_000))
		if !packed.packed.add(rest[:n]) {
			t.Fatal("refused")
		}
		rest = rest[n:]
	}
	packed.closePacked()
	if packed.packed == nil {
		t.Fatal("three other letters are too many")
	}
	alike(t, flat, packed, rng)
	for _, at := range []int{0, blockBases - 40, heapWords*wordBases - 40, len(seq) - 80} {
		if got := packed.Text(at, at+80); got != string(seq[at:at+80]) {
			t.Fatalf("at %d: %s", at, got)
		}
	}
}

// A sequence in the letters of RNA has so many other letters that it stays as it is.
func TestPackedOfOtherLetters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rna.fa")
	if err := os.WriteFile(path, []byte(">r\n"+strings.Repeat("ACGURY", 5000)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := load(path, largeGenome, new(arena))
	if err != nil {
		t.Fatal(err)
	}
	if c := g.Contigs[0]; c.packed != nil || string(c.Seq) != strings.Repeat("ACGURY", 5000) {
		t.Fatalf("packed: %v", c.packed != nil)
	}
}

// Faults of a file are reported in the same words.
func TestPackedErrors(t *testing.T) {
	for _, text := range []string{"", "ACGT\n", ">a\n", ">a\nAC-T\n", ">a\n" + strings.Repeat("ACGT", 20) + "!\nAC\n", ">a\nAC\n>a\nAC\n", ">a\nAC GT\n"} {
		path := save(t, text, "")
		os.Remove(path + ".fai")
		_, want := Load(path)
		_, err := load(path, largeGenome, new(arena))
		if err == nil || err.Error() != want.Error() {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}

// The heap does not hold what a large packed genome has.
func TestPackedMemory(t *testing.T) {
	memory := new(arena)
	var before, after runtime.MemStats
	p := newPacked(memory)
	bases := bytes.Repeat([]byte("ACGT"), 1<<18)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 64 {
		p.add(bases)
	}
	p.close()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if got := int64(after.HeapAlloc) - int64(before.HeapAlloc); got > 8*heapWords+1<<20 {
		t.Errorf("%d bytes on the heap for %d bases", got, p.n)
	}
	runtime.KeepAlive(p)
}

// BenchmarkPacked looks bases up and copies them out, where some are other letters.
func BenchmarkPacked(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	c := &Contig{packed: newPacked(new(arena))}
	for range 1 << 12 {
		seq := make([]byte, 256)
		for i := range seq {
			seq[i] = "ACGT"[rng.IntN(4)]
		}
		c.packed.add(seq)
	}
	c.packed.add(bytes.Repeat([]byte{'N'}, 1000))
	c.closePacked()
	places := make([]int, 1<<10)
	for i := range places {
		places[i] = rng.IntN(c.Len() - 100)
	}
	b.Run("At", func(b *testing.B) {
		sum := 0
		for b.Loop() {
			for _, at := range places {
				sum += int(c.At(at))
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(places)), "ns/base")
		_ = sum
	})
	b.Run("Append", func(b *testing.B) {
		b.ReportAllocs()
		var buf [100]byte
		for b.Loop() {
			for _, at := range places {
				c.Append(buf[:0], at, at+100)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(places)*100), "ns/base")
	})
}

// FuzzPackWords packs the same with and without the instructions of the processor.
func FuzzPackWords(f *testing.F) {
	f.Add([]byte(strings.Repeat("ACGTacgt", 12)))
	f.Add([]byte(strings.Repeat("ACGTTGCA", 7) + "NNNNNNNN" + strings.Repeat("T", 40)))
	f.Fuzz(func(t *testing.T, bases []byte) {
		flat, fast := newPacked(new(arena)), newPacked(new(arena))
		flat.vectors = false
		flatOK, fastOK := flat.add(bases), fast.add(bases)
		ok := true
		for _, c := range bases {
			ok = ok && letter[c] != 0
		}
		if flatOK != ok || fastOK != ok {
			t.Fatalf("letters: %v, %v, %v", ok, flatOK, fastOK)
		}
		if !ok {
			return
		}
		flat.close()
		fast.close()
		want := make([]byte, len(bases))
		upperInto(want, bases)
		if got := flat.appendTo(nil, 0, len(bases)); string(got) != string(want) {
			t.Fatalf("%s, want %s", got, want)
		}
		if got := fast.appendTo(nil, 0, len(bases)); string(got) != string(want) {
			t.Fatalf("by vectors %s, want %s", got, want)
		}
	})
}

package vrs

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// spell writes edits as "12A>C 14>TT 15AC>".
func spell(edits []Edit) string {
	var parts []string
	for _, e := range edits {
		parts = append(parts, fmt.Sprintf("%d%s>%s", e.Start, e.Ref, e.Alt))
	}
	return strings.Join(parts, " ")
}

func TestAtoms(t *testing.T) {
	for _, c := range []struct {
		name, ref, alt, want string
	}{
		{"equal", "ACG", "ACG", ""},
		{"SNP", "A", "C", "10A>C"},
		{"SNP with padding", "TAG", "TCG", "11A>C"},
		{"SARS-CoV-2 28881", "GGG", "AAC", "10G>A 11G>A 12G>C"},
		{"unchanged base between", "GCG", "ACA", "10G>A 12G>A"},
		{"insertion", "A", "ATT", "11>TT"},
		{"deletion", "ATT", "A", "11TT>"},
		{"insertion in a run is where it is written", "AT", "ATT", "11>T"},
		{"SNP and insertion", "C", "GT", "10>G 10C>T"},
		{"SNP and deletion", "CAC", "G", "10CA> 12C>G"},
		{"two insertions are cheaper than one and two replaced bases", "GTG", "CCGACCCGTGTGGAAATC", "10>CCGACCCGT 13>GAAATC"},
		{"EGFR c.2239_2248delinsC", "TTAAGAGAAG", "C", "10TTAAGAGAA> 19G>C"},
		{"a gap that could be anywhere is leftmost", "CC", "TTT", "10>T 10C>T 11C>T"},
		{"three bases and more are rather removed and inserted as a whole", "CCC", "TTTT", "10>TTTT 10CCC>"},
		{"no alignment of very long ones", strings.Repeat("A", 2000), strings.Repeat("C", 1000), "10" + strings.Repeat("A", 2000) + ">" + strings.Repeat("C", 1000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := spell(Edit{10, c.ref, c.alt}.Atoms()); got != c.want {
				t.Errorf("%s>%s: %s, want %s", clip(c.ref), clip(c.alt), got, c.want)
			}
		})
	}
}

// leastCost is the cost of the best alignment by trying all.
func leastCost(ref, alt, before string) int {
	if ref == "" && alt == "" {
		return 0
	}
	best := 1 << 20
	gap := func(kind string) int {
		if kind == before {
			return costExtend
		}
		return costOpen
	}
	if ref != "" {
		best = min(best, gap("deletion")+leastCost(ref[1:], alt, "deletion"))
	}
	if alt != "" {
		best = min(best, gap("insertion")+leastCost(ref, alt[1:], "insertion"))
	}
	if ref != "" && alt != "" {
		c := leastCost(ref[1:], alt[1:], "")
		if ref[0] != alt[0] {
			c += costMismatch
		}
		best = min(best, c)
	}
	return best
}

// Atoms spell what they are of, don't touch each other's bases, and are the cheapest there are.
func TestAtomsSpellTheirChange(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	draw := func(most int) string {
		b := make([]byte, rnd.IntN(most+1))
		for i := range b {
			b[i] = "ACGT"[rnd.IntN(4)]
		}
		return string(b)
	}
	for range 3000 {
		ref, alt := draw(6), draw(6)
		e := Edit{7, ref, alt}
		atoms := e.Atoms()
		var b strings.Builder
		at, cost := 7, 0
		for _, a := range atoms {
			if a.Start < at || a.End() > e.End() || ref[a.Start-7:a.End()-7] != a.Ref || a.Ref == a.Alt || len(a.Ref) > 0 && len(a.Alt) > 0 && len(a.Ref)+len(a.Alt) > 2 {
				t.Fatalf("%s>%s: %s", ref, alt, spell(atoms))
			}
			b.WriteString(ref[at-7:a.Start-7] + a.Alt)
			at = a.End()
			cost += costMismatch
			if n := len(a.Ref) + len(a.Alt); a.Ref == "" || a.Alt == "" {
				cost += costOpen - costMismatch + (n-1)*costExtend
			}
		}
		b.WriteString(ref[at-7:])
		if b.String() != alt {
			t.Fatalf("%s>%s: %s spell %s", ref, alt, spell(atoms), b.String())
		}
		if trimmed := e.Trim(); len(trimmed.Ref) != len(trimmed.Alt) && cost != leastCost(trimmed.Ref, trimmed.Alt, "") {
			t.Fatalf("%s>%s: %s cost %d, the best are %d", ref, alt, spell(atoms), cost, leastCost(trimmed.Ref, trimmed.Alt, ""))
		}
	}
}

// The identifiers of an event's atoms are those of the same changes by themselves, wherever these are written.
func TestAtomIDs(t *testing.T) {
	seq := []byte("TTGACGGGAACCCCCATTG")
	digest := SequenceDigest(seq)
	id := func(pos int, ref, alt string) string {
		t.Helper()
		id, err := AlleleID(digest, seq, pos, ref, alt)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	for _, c := range []struct {
		name     string
		pos      int
		ref, alt string
		want     []string
	}{
		{"MNP", 5, "GGG", "AAC", []string{id(5, "G", "A"), id(6, "G", "A"), id(7, "G", "C")}},
		{"padded MNP", 4, "CGGGA", "CAACA", []string{id(5, "G", "A"), id(6, "G", "A"), id(7, "G", "C")}},
		{"a deletion in a run, which can be written elsewhere, and a SNP", 13, "CCA", "T", []string{id(10, "CC", ""), id(15, "A", "T")}},
		{"SNP", 5, "G", "A", nil},
		{"deletion", 9, "ACC", "A", nil},
	} {
		got, err := AtomIDs(digest, seq, c.pos, c.ref, c.alt)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if _, err := AtomIDs(digest, seq, 5, "AAA", "GGT"); err == nil {
		t.Error("another reference is taken")
	}
}

package rna

import (
	"cmp"
	"slices"
	"sync"
)

// Gene is an RNA gene that was found.
type Gene struct {
	Start, End int // 0-based, half open; End is beyond the sequence's length where a gene crosses the origin
	Reverse    bool
	Transfer   bool   // transfer RNA, else ribosomal RNA
	Product    string // as NCBI names it: 16S ribosomal RNA, tRNA-Ala
	Anticodon  string // of transfer RNA
	// OpenLow and OpenHigh say that the gene goes on where the sequence ends, at its Start or End.
	OpenLow, OpenHigh bool
	// Identity is the share of the known RNA's bases that ribosomal RNA has.
	Identity float64
	Score    float64 // log odds of the cloverleaf, or the alignment's score
}

const unknown = 4

// encode turns letters into bases: A 0, C 1, G 2, T 3, so that 3-b is the complement.
func encode(letters []byte) []byte {
	out := make([]byte, len(letters))
	for i, c := range letters {
		out[i] = encoded(c)
	}
	return out
}

func encoded(letter byte) byte {
	switch letter &^ 0x20 {
	case 'A':
		return 0
	case 'C':
		return 1
	case 'G':
		return 2
	case 'T', 'U':
		return 3
	}
	return unknown
}

// Complemented is the other strand of bases: A 0, C 1, G 2, T 3, an unknown one 4.
func Complemented(s []byte) []byte {
	out := make([]byte, len(s))
	for i, b := range s {
		if b != unknown {
			b = 3 - b
		}
		out[len(s)-1-i] = b
	}
	return out
}

// overhang is how far a circle is read on behind its end: further than any RNA gene and what is around it.
const overhang = 8000

// longestGap is the longest run of unknown bases that RNA may lie across; it is cut by longer ones where it isn't found as a whole.
const longestGap = 30

// cut finds the ribosomal RNA of a sequence with long gaps, in each stretch between them on its own: gaps may have cut a part of it off. In a circle,
// none goes on beyond the sequence's ends.
func (x *Index) cut(letters []byte, circular bool) (out []Gene) {
	n := len(letters)
	for from := 0; from < n; {
		// The stretch ends with the next long gap.
		to, unread := from, 0
		for ; to < n && unread < longestGap; to++ {
			if unread++; encoded(letters[to]) != unknown {
				unread = 0
			}
		}
		end := to - unread
		if from == 0 && end == n {
			return nil // no gap
		}
		s := encode(letters[from:end])
		for _, reverse := range []bool{false, true} {
			if reverse {
				s = Complemented(s)
			}
			for _, g := range x.ribosomal(s, true) {
				if g.Reverse = reverse; reverse {
					g.Start, g.End, g.OpenLow, g.OpenHigh = len(s)-g.End, len(s)-g.Start, g.OpenHigh, g.OpenLow
				}
				g.Start, g.End = g.Start+from, g.End+from
				goesOn := g.OpenLow && g.Start == 0 || g.OpenHigh && g.End == n
				if !circular || !goesOn {
					out = append(out, g)
				}
			}
		}
		from = to
		for from < n && encoded(letters[from]) == unknown {
			from++
		}
	}
	return out
}

// Find finds the RNA genes of a sequence, by their places. amino is what a codon is translated to.
func (x *Index) Find(letters []byte, circular bool, amino func(codon string) byte) []Gene {
	n := len(letters)
	s := encode(letters)
	if circular {
		s = append(s, s[:min(n, overhang)]...)
	}
	strands, found := [2][]byte{s, Complemented(s)}, [2][]Gene{}
	var both sync.WaitGroup
	for i := range strands {
		both.Go(func() { found[i] = x.strand(strands[i], i == 1, circular, n, amino) })
	}
	both.Wait()
	out := slices.Concat(found[:]...)
	for _, g := range x.cut(letters, circular) {
		overlaps := func(o Gene) bool { return g.Start < o.End && o.Start < g.End || g.Start < o.End-n }
		if !slices.ContainsFunc(out, overlaps) {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b Gene) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(a.Product, b.Product))
	})
	return out
}

// strand finds the RNA genes of one strand of a sequence of n bases.
func (x *Index) strand(s []byte, reverse, circular bool, n int, amino func(codon string) byte) (out []Gene) {
	for _, list := range [][]Gene{x.ribosomal(s, !circular), transfer(s, amino)} {
		for i := range list {
			g := &list[i]
			if g.Reverse = reverse; reverse {
				g.Start, g.End = len(s)-g.End, len(s)-g.Start
				g.OpenLow, g.OpenHigh = g.OpenHigh, g.OpenLow
			}
		}
		if circular {
			list = once(list, n)
		}
		out = append(out, list...)
	}
	return out
}

// once drops what a circle of n bases has twice, as it is read on behind its end.
func once(list []Gene, n int) []Gene {
	for i := range list {
		if list[i].Start >= n {
			list[i].Start, list[i].End = list[i].Start-n, list[i].End-n
		}
	}
	list = apart(slices.DeleteFunc(list, func(g Gene) bool { return g.End-g.Start > n }))
	// What crosses the origin may have been read in part at the beginning.
	for _, g := range slices.Clone(list) {
		if g.End > n {
			list = slices.DeleteFunc(list, func(o Gene) bool { return o.Start < g.End-n })
		}
	}
	return list
}

// apart keeps the best of those that overlap, by score.
func apart(list []Gene) []Gene {
	slices.SortStableFunc(list, func(a, b Gene) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Start, b.Start)) })
	var out []Gene
	// What is kept by the stretches that it lies in, as a reference of repeats has hundreds of thousands.
	const stretch = 1 << 12
	kept := map[int][]Gene{}
	for _, g := range list {
		overlaps := func(o Gene) bool { return g.Start < o.End && o.Start < g.End }
		first, last := g.Start/stretch, (g.End-1)/stretch
		free := true
		for at := first; at <= last && free; at++ {
			free = !slices.ContainsFunc(kept[at], overlaps)
		}
		if !free {
			continue
		}
		out = append(out, g)
		for at := first; at <= last; at++ {
			kept[at] = append(kept[at], g)
		}
	}
	return out
}

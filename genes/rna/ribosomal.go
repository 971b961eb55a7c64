package rna

import (
	"cmp"
	"fmt"
	"slices"
)

// Known is ribosomal RNA of another organism.
type Known struct {
	Kind string `json:"kind"` // 5S, 16S or 23S
	Seq  string `json:"seq"`  // letters
	From string `json:"from"` // accession
}

// The kinds of ribosomal RNA of bacteria.
const (
	Small  = "16S"
	Large  = "23S"
	Little = "5S"
)

const (
	word = 11
	// block is how many bases are read at once: what is kept of them is bounded so.
	block = 1 << 20
	// leastWords is how many words of a known RNA its like must have.
	leastWords = 25
	// drift is the most that the places of words of one gene may shift from one to the next, by insertions and deletions.
	drift = 100
	// slack is how far the alignment may leave the middle of the words' diagonals, either way.
	slack = 300
	// leastIdentity is the share of the known RNA's bases that its like has, at least. Repeats that share a piece with it, as of CRISPR, have up to .575.
	leastIdentity = .58
	// around is how far from a large RNA gene little ones are searched, and littleScore what they have per base, at least.
	around      = 1500
	littleScore = .85
	// leastOpen is how many bases of a gene that the sequence's end cuts there must be.
	leastOpen = 200

	match, mismatch, gapOpen, gapMore = 2, -1, -4, -1
)

// Index finds words of known ribosomal RNA.
type Index struct {
	known []Known
	bases [][]byte
	words map[uint32][]spot
	has   []uint64 // a bit for each word
}

type spot struct{ known, at int32 }

// NewIndex makes an index of known RNA. It refuses what is none by its kind or its length.
func NewIndex(known []Known) (*Index, error) {
	x := &Index{known: known, words: map[uint32][]spot{}, has: make([]uint64, 1<<(2*word)/64)}
	bounds := map[string][2]int{Small: {1000, 2500}, Large: {2000, 5000}, Little: {80, 200}}
	for k := range known {
		b := encode([]byte(known[k].Seq))
		limits, ok := bounds[known[k].Kind]
		if !ok || len(b) < limits[0] || len(b) > limits[1] {
			return nil, fmt.Errorf("ribosomal RNA of %s: kind %q with %d bases, want 5S, 16S or 23S with their lengths", known[k].From, known[k].Kind, len(b))
		}
		x.bases = append(x.bases, b)
		if known[k].Kind == Little {
			continue
		}
		eachWord(b, func(at int, w uint32) {
			x.words[w] = append(x.words[w], spot{int32(k), int32(at)})
			x.has[w/64] |= 1 << (w % 64)
		})
	}
	return x, nil
}

func eachWord(s []byte, do func(at int, w uint32)) {
	w, run := uint32(0), 0
	for i, b := range s {
		if b == unknown {
			run = 0
			continue
		}
		w = (w<<2 | uint32(b)) & (1<<(2*word) - 1)
		if run++; run >= word {
			do(i-word+1, w)
		}
	}
}

// cluster are words of one known RNA in about the same order.
type cluster struct {
	known    int
	diagonal int // in the middle
	words    int
}

// ribosomal finds the ribosomal RNA of a strand, block by block. open says that a gene may go on beyond the strand's ends.
func (x *Index) ribosomal(s []byte, open bool) []Gene {
	if len(x.known) == 0 {
		return nil
	}
	var large []Gene
	for from := 0; from < len(s); from += block {
		to := min(len(s), from+block+overhang)
		for _, g := range x.large(s[from:to], open && from == 0, open && to == len(s)) {
			g.Start, g.End = g.Start+from, g.End+from
			large = append(large, g)
		}
	}
	large = apart(large)
	return append(large, x.little(s, large)...)
}

// large finds 16S and 23S.
func (x *Index) large(s []byte, openLow, openHigh bool) []Gene {
	diagonals := make([][]int32, len(x.known))
	eachWord(s, func(at int, w uint32) {
		if x.has[w/64]>>(w%64)&1 == 0 {
			return
		}
		for _, p := range x.words[w] {
			diagonals[p.known] = append(diagonals[p.known], int32(at)-p.at)
		}
	})
	var clusters []cluster
	for k, list := range diagonals {
		slices.Sort(list)
		for from, i := 0, 1; i <= len(list); i++ {
			if i < len(list) && list[i]-list[i-1] <= drift {
				continue
			}
			if i-from >= leastWords {
				clusters = append(clusters, cluster{k, int(list[(from+i)/2]), i - from})
			}
			from = i
		}
	}
	slices.SortStableFunc(clusters, func(a, b cluster) int { return cmp.Compare(b.words, a.words) })
	var out []Gene
	var taken []cluster
	for _, c := range clusters {
		overlaps := func(o cluster) bool {
			return c.diagonal < o.diagonal+len(x.bases[o.known])-slack && o.diagonal < c.diagonal+len(x.bases[c.known])-slack
		}
		if slices.ContainsFunc(taken, overlaps) {
			continue
		}
		taken = append(taken, c)
		if g, ok := x.align(s, c.known, c.diagonal-slack, c.diagonal+len(x.bases[c.known])+slack, openLow, openHigh); ok && g.Identity >= leastIdentity && g.End-g.Start >= leastOpen {
			out = append(out, g)
		}
	}
	return out
}

// little finds 5S around the large genes.
func (x *Index) little(s []byte, large []Gene) []Gene {
	var out []Gene
	for _, g := range large {
		for _, region := range [][2]int{{max(0, g.Start-around), g.Start}, {g.End, min(len(s), g.End+around)}} {
			for from := region[0]; from < region[1]; {
				var best Gene
				for k := range x.known {
					if x.known[k].Kind != Little {
						continue
					}
					if h, ok := x.align(s, k, from, region[1], false, false); ok && h.Score >= littleScore*float64(len(x.bases[k])) && h.Score > best.Score {
						best = h
					}
				}
				if best.End == 0 {
					break
				}
				out = append(out, best)
				from = best.End
			}
		}
	}
	return apart(out)
}

// cell is the best alignment that ends at a place.
type cell struct{ score, from, same int32 }

const never = -1 << 20

// align aligns a known RNA as a whole to a part of a stretch of the strand. Where the strand ends within the stretch, so may the RNA.
func (x *Index) align(s []byte, known, from, to int, openLow, openHigh bool) (Gene, bool) {
	low, high := max(0, from), min(len(s), to)
	if low >= high {
		return Gene{}, false
	}
	r, window := x.bases[known], s[low:high]
	n := len(window)
	// Three states for the row: both have a base, the known one alone has, the strand alone has.
	both, mine, theirs := make([]cell, n+1), make([]cell, n+1), make([]cell, n+1)
	for j := range both {
		both[j] = cell{0, int32(j), 0}
		mine[j].score, theirs[j].score = never, never
	}
	openLow, openHigh = openLow && from < 0, openHigh && to > len(s)
	best, bestEnd, bestRow, cut := cell{score: never}, 0, len(r), false
	first, last := 1, n
	for i := 1; i <= len(r); i++ {
		// The stretch is known to lie around a diagonal: what is far from it isn't searched.
		if wide := to - from - len(r); to-from > len(r) && wide <= 2*slack {
			first, last = max(1, i+from-low), min(n, i+from-low+wide)
		}
		if first > n {
			first, last = 1, 0 // the rest of the known RNA is beyond the end
			break
		}
		if last < 1 {
			// This base is before the beginning.
			for j := range both {
				both[j].score = never
			}
			if openLow {
				both[0] = cell{}
			}
			continue
		}
		left := cell{score: never}
		if openLow && first == 1 {
			left = cell{0, 0, 0}
		}
		diagonal := best3(both[first-1], mine[first-1], theirs[first-1])
		both[first-1], mine[first-1], theirs[first-1] = left, cell{score: never}, cell{score: never}
		for j := first; j <= last; j++ {
			up := best3(both[j], cell{score: never}, theirs[j])
			next := best3(both[j], mine[j], theirs[j])
			down := mine[j]
			down.score += gapMore
			if up.score+gapOpen > down.score {
				down = up
				down.score += gapOpen
			}
			if window[j-1] == r[i-1] && r[i-1] != unknown {
				diagonal.score += match
				diagonal.same++
			} else {
				diagonal.score += mismatch
			}
			right := theirs[j-1]
			right.score += gapMore
			if b := best3(both[j-1], mine[j-1], cell{score: never}); b.score+gapOpen > right.score {
				right = b
				right.score += gapOpen
			}
			both[j], mine[j], theirs[j] = diagonal, down, right
			diagonal = next
		}
		if j := last + 1; j <= n {
			both[j], mine[j], theirs[j] = cell{score: never}, cell{score: never}, cell{score: never}
		}
		if openHigh && i < len(r) && last == n {
			if b := best3(both[n], mine[n], theirs[n]); b.score > best.score {
				best, bestEnd, bestRow, cut = b, n, i, true
			}
		}
	}
	for j := first; j <= last; j++ {
		if b := best3(both[j], mine[j], cell{score: never}); b.score > best.score && b.score > 0 {
			best, bestEnd, bestRow, cut = b, j, len(r), false
		}
	}
	if best.score <= 0 {
		return Gene{}, false
	}
	g := Gene{Start: low + int(best.from), End: low + bestEnd, Score: float64(best.score), Product: x.known[known].Kind + " ribosomal RNA", OpenHigh: cut}
	g.OpenLow = openLow && best.from == 0
	length := bestRow
	if g.OpenLow {
		length = min(length, g.End-g.Start)
	}
	g.Identity = float64(best.same) / float64(max(1, length))
	return g, g.End > g.Start
}

func best3(a, b, c cell) cell {
	if b.score > a.score {
		a = b
	}
	if c.score > a.score {
		a = c
	}
	return a
}

package homology

// Costs of gaps, those of blastp: a gap of n residues costs gapOpen + n*gapExtend.
const (
	gapOpen   = 11
	gapExtend = 1
)

// Karlin-Altschul parameters of gapped BLOSUM62 with these costs (NCBI BLAST, blast_stat.c).
const (
	lambda = .267
	kappa  = .041
)

// halfBand is how far from the diagonal of the shared words an alignment may go: the sum of insertions, or of deletions.
const halfBand = 32

// alignment is a local one: half-open stretches of both proteins.
type alignment struct {
	score              int
	fromA, toA         int
	fromB, toB         int
	identical, columns int
}

// The ways into a cell: bits of Workspace.ways.
const (
	byNone = iota
	byPair
	byA // a residue of a alone: a gap in b
	byB
	wayMask = 3
	longerA = 4 // the gap was there before
	longerB = 8
)

// least is a score that nothing comes back from, and which sums don't take below what fits.
const least = -1 << 28

// Workspace is memory that searches use again. It is for one goroutine.
type Workspace struct {
	hits        []uint64
	near        []diagonal
	score, gapA []int32
	ways        []byte
	encoded     []byte
}

// align finds the best local alignment of a and b, encoded, within half of the diagonal: place in b minus place in a. Of several that are as good it takes the
// one that ends first in a, then in b, and prefers pairs to gaps.
func (w *Workspace) align(a, b []byte, diagonal, half int) alignment {
	width := 2*half + 1
	if cap(w.score) < width+2 {
		w.score, w.gapA = make([]int32, width+2), make([]int32, width+2)
	}
	// score[k+1] is of the pair of residues i and i+diagonal-half+k; the cells at both ends are outside the band.
	score, gapA := w.score[:width+2], w.gapA[:width+2]
	for k := range score {
		score[k], gapA[k] = 0, least
	}
	if n := len(a) * width; cap(w.ways) < n {
		w.ways = make([]byte, n)
	}
	ways := w.ways[:len(a)*width]
	clear(ways)
	var best alignment
	endI, endK := -1, 0
	for i, x := range a {
		row := &blosum62[x]
		from := i + diagonal - half // place in b of the band's first cell
		low, high := max(0, -from), min(width, len(b)-from)
		if low >= high {
			if from >= len(b) {
				break
			}
			continue
		}
		gapB := int32(least)
		left := int32(0) // score of the cell before, in this row
		if low == 0 && from > 0 {
			left = least
		}
		way := ways[i*width : (i+1)*width]
		for k := low; k < high; k++ {
			// Above in the same column is the next cell of the band in the row before.
			above, longer := int32(least), gapA[k+2]-gapExtend
			if k+1 < width {
				above = score[k+2] - gapOpen - gapExtend
			}
			var bits byte
			down := above
			if longer > above {
				down, bits = longer, longerA
			}
			across := left - gapOpen - gapExtend
			if gapB-gapExtend > across {
				across, bits = gapB-gapExtend, bits|longerB
			}
			gapB, gapA[k+1] = across, down
			diagonal := score[k+1]
			here := diagonal + int32(row[b[from+k]])
			bits |= byPair
			if down > here {
				here, bits = down, bits&^wayMask|byA
			}
			if across > here {
				here, bits = across, bits&^wayMask|byB
			}
			if here <= 0 {
				here, bits = 0, bits&^wayMask
			}
			score[k+1], left, way[k] = here, here, bits
			if int(here) > best.score {
				best.score, endI, endK = int(here), i, k
			}
		}
	}
	if endI < 0 {
		return best
	}
	w.trace(a, b, &best, endI, endK, diagonal-half, width)
	return best
}

// trace goes back along the best alignment from where it ends.
func (w *Workspace) trace(a, b []byte, best *alignment, i, k, offset, width int) {
	best.toA, best.toB = i+1, i+offset+k+1
	gap := byte(byNone)
	for i >= 0 && k >= 0 && k < width && i+offset+k >= 0 {
		bits := w.ways[i*width+k]
		way := bits & wayMask
		if gap != byNone {
			way = gap
		}
		if way == byNone {
			break
		}
		best.columns++
		switch way {
		case byPair:
			best.fromA, best.fromB = i, i+offset+k // a local alignment begins with a pair
			if a[i] == b[i+offset+k] {
				best.identical++
			}
			i--
		case byA:
			gap = byNone
			if bits&longerA != 0 {
				gap = byA
			}
			i, k = i-1, k+1
		case byB:
			gap = byNone
			if bits&longerB != 0 {
				gap = byB
			}
			k--
		}
	}
}

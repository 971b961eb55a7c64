package variant

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

const (
	// LongIndel is the net change of length, in bases, from which on reads are
	// unlikely to show an allele alike, and from which on networks are calibrated apart.
	LongIndel = 4
	// gapReach is how many columns may lie between gaps of a read that are taken for
	// one.
	gapReach = 6
	// consensusFlank is how many columns on either side of the gaps a consensus
	// takes in.
	consensusFlank = 12
	// maxConsensusReads and maxConsensusRounds bound the work for a consensus.
	maxConsensusReads  = 40
	maxConsensusRounds = 8
)

// gap is a deletion or insertion of a read.
type gap struct {
	row      int
	from, to int // columns before which and up to which it lies
	change   int // of the length, in bases
}

// proposeLong appends long insertions and deletions that enough reads have in
// common, whatever each shows.
//
// Problem: of reads with an error in every tenth base hardly two show the same
// insertion of 15 bases, and aligners break it up, differently in each.
//
// Strategy: gaps of a read that lie together are added up. Where enough reads change
// their length by much in the same direction, the consensus of their bases is the
// allele.
//
// gaps are those of all rows, each row's by position.
func (r *Region) proposeLong(out []candidate, m *matrix, gaps []gap) []candidate {
	var long []gap
	for len(gaps) > 0 {
		g := gaps[0]
		n := 1
		for n < len(gaps) && gaps[n].row == g.row && gaps[n].from <= g.to+gapReach {
			g.to = max(g.to, gaps[n].to)
			g.change += gaps[n].change
			n++
		}
		gaps = gaps[n:]
		// A longer one, which can't be called, would lead a group's window too far.
		if size := max(g.change, -g.change); size >= LongIndel && max(size, g.to-g.from) <= maxIndel {
			long = append(long, g)
		}
	}
	for _, insertion := range []bool{false, true} {
		var alike []gap
		for _, g := range long {
			if (g.change > 0) == insertion {
				alike = append(alike, g)
			}
		}
		slices.SortStableFunc(alike, func(a, b gap) int { return cmp.Compare(a.from, b.from) })
		for len(alike) > 0 {
			end, n := alike[0].to, 1
			for n < len(alike) && alike[n].from <= end+gapReach {
				end = max(end, alike[n].to)
				n++
			}
			out = r.proposeConsensus(out, m, alike[:n], end)
			alike = alike[n:]
		}
	}
	return out
}

// proposeConsensus appends the indel that reads with the given gaps, the last of
// which ends at column end, have in common.
func (r *Region) proposeConsensus(out []candidate, m *matrix, gaps []gap, end int) []candidate {
	lo, hi := max(0, gaps[0].from-consensusFlank), min(m.hi-m.lo, end+consensusFlank)
	middle := (lo + hi) / 2
	depth := int32(0)
	for _, strand := range r.work.counts[middle] {
		for code := range deleted + 1 {
			depth += strand[code]
		}
	}
	if n := int32(len(gaps)); n < indelMinReads || hi-lo > maxWindow || !r.enough(m.lo+middle, n, depth) {
		return out
	}
	rows := make([]int, len(gaps))
	for i, g := range gaps {
		rows[i] = g.row
	}
	slices.Sort(rows) // canonical order
	var seqs [][]byte
	for _, row := range slices.Compact(rows) {
		if len(seqs) < maxConsensusReads && r.work.aligner.setQuery(&m.rows[row], lo, hi) {
			seqs = append(seqs, slices.Clone(r.work.aligner.query))
		}
	}
	if len(seqs) < indelMinReads {
		return out
	}
	for _, a := range r.work.voter.longGaps(m.ref[lo:hi], r.work.voter.consensus(seqs)) {
		a.pos += m.lo + lo
		a = a.leftmost(r.contig.Seq)
		if a.pos <= m.lo || a.pos >= m.hi {
			continue
		}
		c, ok := a.candidate(r.contig.Seq, r.cfg.IndelRate)
		if ok && !c.among(out) {
			out = append(out, c)
		}
	}
	return out
}

// Costs of differences between a consensus and the reference.
const (
	changeMismatch = 4
	changeOpen     = 6 // of a gap, besides changeExtend for each of its bases
	changeExtend   = 1
	unreachable    = math.MaxInt32 / 2
)

// longGaps is the indels of LongIndel bases and more by which seq, a consensus, differs
// from ref, both as codes: most reads may lack one base of a homopolymer nearby, and what
// is left of the difference in length is not the indel then. Positions count from ref's
// first base.
func (v *voter) longGaps(ref, seq []byte) []indel {
	var out []indel
	for _, d := range v.differences(ref, seq, changeOpen) {
		if size := max(d.to-d.from, len(d.seq)); d.isGap() && size >= LongIndel && size <= maxIndel && !strings.Contains(d.seq, "N") {
			out = append(out, indel{pos: d.from, del: d.to - d.from, ins: d.seq})
		}
	}
	return out
}

// difference is reference bases [from, to) that a sequence has as seq: a substituted
// base, or a gap.
type difference struct {
	from, to int
	seq      string
}

func (d *difference) isGap() bool { return d.from == d.to || d.seq == "" }

// differences is what seq has otherwise than ref, both as codes, by position, by an
// alignment with affine costs of gaps (Gotoh 1982), which cost so much to open. Gaps are as
// far left as they go.
func (v *voter) differences(ref, seq []byte, open int32) []difference {
	// Least costs of prefixes that end in a pair, in a base of ref without a partner,
	// in one of seq.
	const pair, deletion, insertion = 0, 1, 2
	width := len(ref) + 1
	v.affine = slices.Grow(v.affine[:0], width*(len(seq)+1))[:width*(len(seq)+1)]
	at := func(i, j int) *[3]int32 { return &v.affine[i*width+j] }
	for i := range len(seq) + 1 {
		for j := range width {
			*at(i, j) = [3]int32{unreachable, unreachable, unreachable}
			if i == 0 && j == 0 {
				at(i, j)[pair] = 0
			}
			if i > 0 && j > 0 {
				cost := int32(0)
				if seq[i-1] != ref[j-1] {
					cost = changeMismatch
				}
				at(i, j)[pair] = cost + slices.Min(at(i-1, j-1)[:])
			}
			if j > 0 {
				at(i, j)[deletion] = changeExtend + opened(at(i, j-1), deletion, open)
			}
			if i > 0 {
				at(i, j)[insertion] = changeExtend + opened(at(i-1, j), insertion, open)
			}
		}
	}
	// Back from the end; of equals a pair comes first.
	var out []difference
	i, j := len(seq), len(ref)
	for state := least(at(i, j)); i > 0 || j > 0; {
		if state == pair {
			i, j = i-1, j-1
			if seq[i] != ref[j] {
				out = append(out, difference{j, j + 1, letters(seq[i : i+1])})
			}
			state = least(at(i, j))
			continue
		}
		endI, endJ := i, j
		for begun := false; !begun; {
			here := at(i, j)[state]
			if state == deletion {
				j--
			} else {
				i--
			}
			begun = at(i, j)[state]+changeExtend != here
		}
		out = append(out, difference{j, endJ, letters(seq[i:endI])})
		from := *at(i, j)
		from[state] = unreachable
		state = least(&from)
	}
	slices.Reverse(out)
	return out
}

// letters spells codes.
func letters(codes []byte) string {
	out := make([]byte, len(codes))
	for i, c := range codes {
		out[i] = "ACGTN"[min(c, baseN)]
	}
	return string(out)
}

// opened is the least of costs, those in another state than the given one with what it
// costs to open a gap.
func opened(costs *[3]int32, state int, open int32) int32 {
	best := costs[state]
	for other, c := range costs {
		if other != state {
			best = min(best, c+open)
		}
	}
	return best
}

// least is the first of the states of least cost.
func least(costs *[3]int32) int {
	best := 0
	for state, c := range costs {
		if c < costs[best] {
			best = state
		}
	}
	return best
}

// voter finds the consensus of sequences.
type voter struct {
	cost   []int32    // least cost of prefixes, row-major
	affine [][3]int32 // the same, by what they end in
	votes  []vote
	where  []int32
}

// vote counts what sequences have at and before a base of the draft.
type vote struct {
	base   [codes]int32     // deleted for none
	insert [baseN + 1]int32 // a base before it
}

// consensus is what most of seqs, codes of bases, have. It starts from the one of
// median length, and puts right what most of the others don't agree with, until
// nothing changes.
func (v *voter) consensus(seqs [][]byte) []byte {
	order := slices.Clone(seqs)
	slices.SortStableFunc(order, func(a, b []byte) int { return cmp.Compare(len(a), len(b)) })
	return v.refine(slices.Clone(order[len(order)/2]), seqs)
}

// refine is what most of seqs have, from a draft of it on.
func (v *voter) refine(draft []byte, seqs [][]byte) []byte {
	half := int32(len(seqs) / 2)
	for range maxConsensusRounds {
		v.votes = append(v.votes[:0], make([]vote, len(draft)+1)...)
		for _, s := range seqs {
			v.count(draft, s)
		}
		var next []byte
		for i := range v.votes {
			t := &v.votes[i]
			if base, n := mostVoted(t.insert[:]); n > half {
				next = append(next, base)
			}
			if i == len(draft) {
				break
			}
			if base, n := mostVoted(t.base[:]); base != deleted && n > 0 && t.base[deleted] <= half {
				next = append(next, base)
			}
		}
		if slices.Equal(next, draft) {
			break
		}
		draft = next
	}
	return draft
}

// split divides sequences, by number, by what most of them have in one place otherwise than their
// draft: those that don't have it, and those that do.
func (v *voter) split(draft []byte, seqs [][]byte) [2][]int {
	v.votes = append(v.votes[:0], make([]vote, len(draft)+1)...)
	for _, s := range seqs {
		v.count(draft, s)
	}
	place, code, inserted, most := -1, byte(0), false, int32(0)
	for i := range v.votes {
		t := &v.votes[i]
		for b, n := range t.insert {
			if n > most {
				place, code, inserted, most = i, byte(b), true, n
			}
		}
		if i == len(draft) {
			break
		}
		for b, n := range t.base {
			if byte(b) != draft[i] && n > most {
				place, code, inserted, most = i, byte(b), false, n
			}
		}
	}
	var out [2][]int
	for i, s := range seqs {
		clear(v.votes)
		v.count(draft, s)
		has := 0
		if place >= 0 && (inserted && v.votes[place].insert[code] > 0 || !inserted && v.votes[place].base[code] > 0) {
			has = 1
		}
		out[has] = append(out[has], i)
	}
	return out
}

// mostVoted is the first of the codes with the most votes.
func mostVoted(votes []int32) (byte, int32) {
	best := 0
	for code, n := range votes {
		if n > votes[best] {
			best = code
		}
	}
	return byte(best), votes[best]
}

// Costs of differences between a sequence and the draft.
const (
	voteMismatch = 3
	voteGap      = 2
)

// count aligns s to the draft and counts what it has where.
func (v *voter) count(draft, s []byte) {
	v.where = v.trace(v.where, draft, s)
	next := int32(0) // base of s
	for j, at := range v.where {
		if at < 0 {
			v.votes[j].base[deleted]++
			continue
		}
		// Of several bases inserted together the first is voted on alone.
		if at > next {
			v.votes[j].insert[s[next]]++
		}
		v.votes[j].base[s[at]]++
		next = at + 1
	}
	if int(next) < len(s) {
		v.votes[len(draft)].insert[s[next]]++
	}
}

// trace aligns s to the draft and appends to dst, which it empties, the base of s beside
// each of the draft: -1 if there is none. Bases of s that are left out are inserted before
// the next one that isn't.
func (v *voter) trace(dst []int32, draft, s []byte) []int32 {
	width := len(draft) + 1
	v.cost = slices.Grow(v.cost[:0], width*(len(s)+1))[:width*(len(s)+1)]
	for j := range width {
		v.cost[j] = int32(j * voteGap)
	}
	for i, b := range s {
		above, row := v.cost[i*width:][:width], v.cost[(i+1)*width:][:width]
		row[0] = above[0] + voteGap
		for j, d := range draft {
			diagonal := above[j]
			if b != d {
				diagonal += voteMismatch
			}
			row[j+1] = min(diagonal, above[j+1]+voteGap, row[j]+voteGap)
		}
	}
	// Back from the end; of equals a base is put beside its like, gaps to the left.
	dst = slices.Grow(dst[:0], len(draft))[:len(draft)]
	for i, j := len(s), len(draft); i > 0 || j > 0; {
		here := v.cost[i*width+j]
		switch {
		case i > 0 && j > 0 && here == v.cost[(i-1)*width+j-1]+mismatchCost(s[i-1], draft[j-1]):
			i, j = i-1, j-1
			dst[j] = int32(i)
		case i > 0 && here == v.cost[(i-1)*width+j]+voteGap:
			i--
		default:
			j--
			dst[j] = -1
		}
	}
	return dst
}

func mismatchCost(a, b byte) int32 {
	if a == b {
		return 0
	}
	return voteMismatch
}

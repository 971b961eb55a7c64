package variant

import (
	"bytes"
	"cmp"
	"slices"
)

// maxSideBySide bounds how many substitutions side by side a gap beside them is taken for.
const maxSideBySide = 5

// respell spells changes, close together on one haplotype, by position, as the length of a
// homopolymer and others if these others are simpler; ref, as codes, begins at lo.
//
// Problem: reads are often wrong together about the length of a homopolymer. Where they are so
// beside a true change, an alignment spreads the gap over the two: ACC>GT in ACCCCC appears as three
// certain changes, although it is AC>GT and one C less.
//
// Assumptions: bases that are replaced are so by as many far more often than by any other
// number, and reads rather miss a base of a homopolymer than have one too many. Reads with few gaps,
// as those of R10.4.1, are not wrong together so often, and stay as they are aligned.
//
// Strategy: each homopolymer in or beside the changes gets a base more, or less. What is
// left is simpler if it is fewer changes and fewer gaps; or, with a base more, substitutions side by
// side.
//
// Consequences: the length is doubted like that of any homopolymer, and what is left stands
// without it.
func (r *Region) respell(m *matrix, model *errorModel, lo int, ref []byte, changes []candidate) []candidate {
	if len(changes) < 2 || model.gapRate <= noisyGaps {
		return changes
	}
	hap := r.codes(lo, lo+len(ref), changes)
	from, to := changes[0].from-lo, len(hap)-(lo+len(ref)-changes[len(changes)-1].to)
	var best []candidate
	for x := max(0, from-1); x <= to && x < len(hap); {
		for x > 0 && hap[x-1] == hap[x] {
			x--
		}
		y := x + 1
		for y < len(hap) && hap[y] == hap[x] {
			y++
		}
		for _, longer := range []bool{true, false} {
			if y-x < leastHomopolymer && (!longer || y-x+1 < leastHomopolymer) {
				continue
			}
			other := slices.Insert(slices.Clone(hap), x, hap[x])
			if !longer {
				other = slices.Delete(slices.Clone(hap), x, x+1)
			}
			rest := r.parts(m, model, lo, r.work.voter.differences(ref, other, complexOpen))
			if len(rest) != 1 || !simpler(rest[0], changes, longer) || best != nil && len(rest[0])+1 >= len(best) {
				continue
			}
			if all, ok := r.withLength(lo, ref, rest[0], x, hap[x], longer); ok && bytes.Equal(r.codes(lo, lo+len(ref), all), hap) {
				best = all
			}
		}
		x = y
	}
	if best == nil {
		return changes
	}
	return best
}

// simpler reports whether the rest of changes, less the length of a homopolymer, is simpler than
// these; missed is whether reads lack a base of the homopolymer then.
func simpler(rest, changes []candidate, missed bool) bool {
	if missed && sideBySide(rest) && !sideBySide(changes) {
		return true
	}
	gaps := slices.ContainsFunc(rest, func(c candidate) bool { return c.indel })
	n := len(rest) + 1
	return weight(rest) < weight(changes) && (n < len(changes) || n == len(changes) && missed && !gaps)
}

// withLength adds to changes that of a homopolymer of base b, which begins at base x of the
// haplotype that has them: that it is shorter by a base, or longer. It reports false if the
// changes leave no base of it as it is.
func (r *Region) withLength(lo int, ref []byte, changes []candidate, x int, b byte, shorter bool) ([]candidate, bool) {
	p, at := lo, 0 // of the reference, and of the haplotype
	for i := 0; p < lo+len(ref); {
		if i < len(changes) && changes[i].from == p {
			p, at = changes[i].to, at+len(changes[i].seq)
			i++
			continue
		}
		if at >= x {
			break
		}
		p, at = p+1, at+1
	}
	if p >= lo+len(ref) || ref[p-lo] != b {
		return nil, false
	}
	a := indel{pos: p, ins: letters([]byte{b})}
	if shorter {
		a = indel{pos: p, del: 1}
	}
	c, ok := a.candidate(r.contig.Seq, linkedIndel)
	if !ok {
		return nil, false
	}
	c.ploidy = r.ploidy(c.pos)
	all := append(slices.Clone(changes), c)
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	return all, true
}

// sideBySide reports whether changes are several substitutions of neighbouring bases.
func sideBySide(changes []candidate) bool {
	for i := range changes {
		if changes[i].indel || i > 0 && changes[i].from != changes[i-1].to {
			return false
		}
	}
	return len(changes) > 1 && len(changes) <= maxSideBySide
}

// weight is how much there is to changes: a gap is as much as three substitutions.
func weight(changes []candidate) int {
	sum := len(changes)
	for i := range changes {
		if changes[i].indel {
			sum += 2
		}
	}
	return sum
}

// codes are the reference's bases [lo, hi) with changes, as codes.
func (r *Region) codes(lo, hi int, changes []candidate) []byte {
	out := spell(r.contig.Seq, lo, hi, changes)
	for i, b := range out {
		out[i] = baseCode[b]
	}
	return out
}

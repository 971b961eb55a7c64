package genes

import (
	"context"
	"slices"

	"github.com/porestream/porestream/genes/homology"
)

// Broken genes that a relative shows.
//
// Problem: the codons of two neighbours speak for one broken gene, but not clearly: four in five of such pairs are two genes.
//
// Assumption: families of genes have several members in a genome, which need not be much alike. If one of them is whole, and the two neighbours are like its
// first and its second part, in this order, and have about all of it together, they have been one. Genes that are two here and one there, such as the modules of
// large synthases, begin and end like genes.
//
// Strategy: of the neighbours that may be one, the proteins are searched among those of all genes, by words that remote relatives share as well. What one of
// them leaves of a relative is searched in the others.
//
// Consequence: only genes of which the genome has a whole relative are found, and few others are hidden: train/genes/README.md.

const (
	// relativeExpect is how many hits by chance there may be.
	relativeExpect = 1e-3
	// relativeIdentity is that of the part that is most like the relative: below it, proteins of several domains are often two proteins elsewhere, such as those
	// that take up sugars (PTS).
	relativeIdentity = .35
	// partAligned is the least share of a part's protein that must be aligned with the relative.
	partAligned = .5
	// partsOverlap is how many residues of the relative two parts may have both: alignments go on a little by chance.
	partsOverlap = 20
	// mostRelatives is how many relatives of a part are tried.
	mostRelatives = 4
)

// relative is a whole gene that broken ones have been like.
type relative struct {
	hit      homology.Hit // of the part that is most like it
	from, to int          // what all parts have of it
}

// shown are the splits that codons show, or a relative.
func (s *self) shown(ctx context.Context, splits []split) ([]split, error) {
	if !slices.ContainsFunc(splits, func(x split) bool { return !x.sure }) {
		return splits, nil
	}
	index, err := homology.NewRemoteIndex(s.proteins)
	if err != nil {
		return nil, err
	}
	parts := map[int]bool{}
	for i := range splits {
		parts[s.at[splits[i].parts[0]]], parts[s.at[splits[i].parts[1]]] = true, true
	}
	runs := s.runs(splits)
	each(ctx, len(runs), func(i int, w *homology.Workspace) { s.compare(runs[i], splits, parts, index, w) })
	return slices.DeleteFunc(splits, func(x split) bool { return !x.sure && x.whole == nil }), ctx.Err()
}

// run are splits, by their indices, of which each is of the second gene of the one before.
type run []int

// runs are the splits that hang together.
func (s *self) runs(splits []split) (out []run) {
	following, behind := map[spot]int{}, map[spot]bool{}
	for i := range splits {
		following[splits[i].parts[0]] = i
	}
	for i := range splits {
		if _, more := following[splits[i].parts[1]]; more {
			behind[splits[i].parts[1]] = true
		}
	}
	for i := range splits {
		if behind[splits[i].parts[0]] {
			continue
		}
		r := run{i}
		for next, more := following[splits[i].parts[1]]; more; next, more = following[splits[next].parts[1]] {
			r = append(r, next)
		}
		out = append(out, r)
	}
	return out
}

// compare sets the relative that shows the splits of a run, if there is one. What is a part of any split can't show one.
func (s *self) compare(r run, splits []split, unsure map[int]bool, index *homology.Index, w *homology.Workspace) {
	parts := []int{s.at[splits[r[0]].parts[0]]}
	for _, i := range r {
		parts = append(parts, s.at[splits[i].parts[1]])
	}
	length := 0
	for _, part := range parts {
		length += len(s.proteins[part].Seq)
	}
	longest := int(float64(length) / wholeCoverage)
	hits := make([][]homology.Hit, len(parts))
	var tried []int
	for k, part := range parts {
		// Of shorter ones a part couldn't be like a part.
		shortest := int(partAligned * float64(len(s.proteins[part].Seq)))
		hits[k] = slices.DeleteFunc(index.Remote(part, shortest, longest, relativeExpect, w), func(h homology.Hit) bool { return unsure[h.Number] })
		if slices.ContainsFunc(hits[k], func(h homology.Hit) bool { return min(h.Coverage, h.QueryCoverage) >= wholeCoverage }) {
			parts[k], hits[k] = -1, nil // a gene that others are as long as
			continue
		}
		for _, h := range hits[k][:min(len(hits[k]), mostRelatives)] {
			if !slices.Contains(tried, h.Number) {
				tried = append(tried, h.Number)
			}
		}
	}
	best := 0
	for _, number := range tried {
		places := s.places(number, parts, hits, w)
		for from := 0; from < len(parts); {
			to := from + 1
			for to < len(parts) && follows(&places[to-1], &places[to]) {
				to++
			}
			top := slices.MaxFunc(places[from:to], func(a, b homology.Hit) int { return a.Score - b.Score })
			if score := whole(places[from:to]); score > best && top.Identity >= relativeIdentity {
				best = score
				x := &relative{hit: top, from: places[from].Start, to: places[to-1].End}
				for _, i := range r[from : to-1] {
					splits[i].whole = x
				}
			}
			from = to
		}
	}
}

// places are where the parts are in a relative. What isn't there has no score, and -1 is no part.
func (s *self) places(relative int, parts []int, hits [][]homology.Hit, w *homology.Workspace) []homology.Hit {
	known := &s.proteins[relative]
	out := make([]homology.Hit, len(parts))
	for k := range out {
		if i := slices.IndexFunc(hits[k], func(h homology.Hit) bool { return h.Number == relative }); i >= 0 {
			out[k] = hits[k][i]
		}
	}
	for k, part := range parts {
		if out[k].Score > 0 || part < 0 {
			continue
		}
		// Between what the parts before and behind have.
		from, to := 0, len(known.Seq)
		for i := range out {
			switch h := &out[i]; {
			case h.Score == 0:
			case i < k:
				from = max(from, h.End-partsOverlap)
			default:
				to = min(to, h.Start+partsOverlap)
			}
		}
		seq := s.proteins[part].Seq
		if to-from < missingPart || to-from > mostMissing || len(seq) > mostMissing {
			continue
		}
		if p, found := homology.Locate(known.Seq[from:to], seq, relativeExpect, w); found {
			out[k] = homology.Hit{
				Protein: known, Number: relative, Score: p.Score, Identity: p.Identity, QueryStart: p.From, QueryEnd: p.To, Start: from + p.Start, End: from + p.End,
				QueryCoverage: float64(p.To-p.From) / float64(len(seq)), Coverage: float64(p.End-p.Start) / float64(len(known.Seq)),
			}
		}
	}
	return out
}

// follows reports whether a part is behind another one in a relative, and most of both is there.
func follows(a, b *homology.Hit) bool {
	return min(a.QueryCoverage, b.QueryCoverage) >= partAligned && b.Start >= a.End-partsOverlap
}

// whole is the score of parts that have about all of a relative together, 0 if they haven't.
func whole(places []homology.Hit) (score int) {
	if len(places) < 2 {
		return 0
	}
	covered := 0.0
	for i := range places {
		covered += places[i].Coverage
		score += places[i].Score
	}
	if covered < wholeCoverage {
		return 0
	}
	return score
}

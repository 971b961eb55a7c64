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
	score    int          // of all parts
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
	unwhole := map[int]bool{}
	for i := range splits {
		unwhole[s.at[splits[i].parts[0]]], unwhole[s.at[splits[i].parts[1]]] = true, true
	}
	runs := s.runs(splits)
	each(ctx, len(runs), func(i int, w *homology.Workspace) { s.compare(runs[i], splits, unwhole, index, w) })
	return slices.DeleteFunc(splits, func(x split) bool { return !x.sure && x.whole == nil }), ctx.Err()
}

// run are splits, by their indices, of which each is of the second gene of the one before.
type run []int

// runs are the splits that hang together.
func (s *self) runs(splits []split) (out []run) {
	following, behind := map[spot]int{}, map[spot]bool{}
	for i := range splits {
		following[splits[i].parts[0]], behind[splits[i].parts[1]] = i, true
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

// compare sets the relative that shows each split of a run best, if there is one. What may be a part itself, unwhole, can't show one.
func (s *self) compare(r run, splits []split, unwhole map[int]bool, index *homology.Index, w *homology.Workspace) {
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
		hits[k] = slices.DeleteFunc(index.Remote(part, shortest, longest, relativeExpect, w), func(h homology.Hit) bool { return unwhole[h.Number] })
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
	for _, number := range tried {
		places := s.places(number, parts, hits, w)
		for from := 0; from < len(parts); {
			to := from + 1
			for to < len(parts) && follows(&places[to-1], &places[to]) {
				to++
			}
			if x := whole(places[from:to]); x != nil {
				for _, i := range r[from : to-1] {
					if y := splits[i].whole; y == nil || y.score < x.score {
						splits[i].whole = x
					}
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

// whole is the relative that parts have about all of together, nil if they haven't.
func whole(places []homology.Hit) *relative {
	top := slices.MaxFunc(places, func(a, b homology.Hit) int { return a.Score - b.Score })
	x := &relative{hit: top, from: places[0].Start, to: places[len(places)-1].End}
	covered := 0.0
	for i := range places {
		covered += places[i].Coverage
		x.score += places[i].Score
	}
	if len(places) < 2 || covered < wholeCoverage || top.Identity < relativeIdentity {
		return nil
	}
	return x
}

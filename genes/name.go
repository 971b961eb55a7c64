package genes

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/porestream/porestream/genes/homology"
	"github.com/porestream/porestream/genome"
)

// Naming says what is carried over to genes from known proteins that theirs are like.
type Naming struct {
	Known *homology.Index
	// Identity and Coverage are the least shares: of the alignment's columns with the same residue, and of either protein that is aligned.
	Identity, Coverage float64
	// Terms are further terms of the Gene Ontology that a known protein has; nil for none.
	Terms func(p *homology.Protein) []string
}

// expected is the most hits by chance among the known proteins.
const expected = 1e-6

// Similar is the known protein that a gene's is most like.
type Similar struct {
	homology.Hit
	Symbol string   // of the gene; empty if it has none, or if another gene is more similar to the known protein
	Terms  []string // of the Gene Ontology
}

// each takes so many on all processors, each once, until ctx ends.
func each(ctx context.Context, n int, do func(i int, w *homology.Workspace)) {
	var next atomic.Int64
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			var w homology.Workspace
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				do(i, &w)
			}
		})
	}
	wait.Wait()
}

// Name finds the known protein that each gene's is most like. What isn't like enough any one stays without.
// Genes that are parts of a known protein, the rest of which is there out of frame, behind a stop, apart, or
// not at all, are taken out and reported as pseudogenes; so are those that Find has taken out, but for what is like a whole known protein.
func (r *Result) Name(ctx context.Context, contigs []Contig, n *Naming) error {
	code, err := homology.NewCode(r.Code)
	if err != nil {
		return err
	}
	r.Named = 0
	if r.found != nil {
		r.Genes = slices.Clone(r.found)
	}
	breaker := newBreaker(contigs, code)
	broken := make([]*remains, len(r.Genes))
	each(ctx, len(r.Genes), func(i int, w *homology.Workspace) {
		g := &r.Genes[i]
		hits := n.Known.Search(g.protein(contigs, code), expected, w)
		if g.Similar = n.nearest(hits, g); g.Similar == nil && len(hits) > 0 && hits[0].Coverage < n.Coverage {
			if left, found := breaker.examine(i, g, &hits[0], w); found {
				broken[i] = &left
			}
		}
	})
	var list []remains
	for _, left := range broken {
		if left != nil {
			list = append(list, *left)
		}
	}
	r.takeBroken(contigs, append(list, r.believed()...))
	// A symbol is for the gene that corresponds. Of several that are like one known protein that is the most similar one.
	best := map[*homology.Protein]int{}
	for i := range r.Genes {
		if s := r.Genes[i].Similar; s != nil {
			r.Named++
			best[s.Protein] = max(best[s.Protein], s.Score)
		}
	}
	for i := range r.Genes {
		if s := r.Genes[i].Similar; s != nil && s.Score == best[s.Protein] {
			s.Symbol = s.Protein.Gene
		}
	}
	return ctx.Err()
}

// nearest is the known protein that a gene's is most like; nil if none is like enough.
func (n *Naming) nearest(hits []homology.Hit, g *Gene) *Similar {
	for _, hit := range hits {
		if hit.Identity < n.Identity || hit.QueryCoverage < n.Coverage {
			continue
		}
		if hit.Coverage < n.Coverage && !g.OpenLow && !g.OpenHigh { // of a gene that the contig's end cuts, a part is known
			continue
		}
		s := &Similar{Hit: hit, Terms: slices.Clone(hit.Protein.Terms)}
		if n.Terms != nil {
			s.Terms = append(s.Terms, n.Terms(hit.Protein)...)
		}
		slices.Sort(s.Terms)
		s.Terms = slices.Compact(s.Terms)
		return s
	}
	return nil
}

// protein is what a gene is translated to, in letters, without the stop.
func (g *Gene) protein(contigs []Contig, code *homology.Code) []byte {
	seq := contigs[g.Contig].Seq
	stretch := func(out []byte, start, end int) []byte {
		for at := start; at < end; { // a gene may cross the origin
			from := at % len(seq)
			n := min(end-at, len(seq)-from)
			out = append(out, seq[from:from+n]...)
			at += n
		}
		return out
	}
	coding := make([]byte, 0, g.End-g.Start+1)
	if g.Slips {
		coding = stretch(stretch(coding, g.Start, g.Joint+1), g.Joint, g.End)
	} else {
		coding = stretch(coding, g.Start, g.End)
	}
	if g.Reverse {
		genome.ReverseComplement(coding)
	}
	begins := !g.OpenLow && !g.Reverse || !g.OpenHigh && g.Reverse
	return code.Translate(coding, begins)
}

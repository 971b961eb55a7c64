package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
)

// variants is how many random substitutions consequences are compared of.
const variants = 20_000

// compareConsequences prints of how many random substitutions of a genome the most severe consequence is the same with genes that were found as with those of an
// annotation; and the same of those that aren't in the annotation's RNA genes and pseudogenes alone.
func compareConsequences(reference, truth, found string, out io.Writer) error {
	g, err := genome.Load(reference)
	if err != nil {
		return err
	}
	var with [2]*annotate.Annotator
	for i, path := range []string{truth, found} {
		model, err := new(annotate.ModelReader).Load(g, path)
		if err != nil {
			return err
		}
		with[i] = annotate.New(g, model)
	}
	var ends []int // of contigs, one behind the other
	bases := 0
	for _, c := range g.Contigs {
		bases += c.Len()
		ends = append(ends, bases)
	}
	r := rand.New(rand.NewPCG(1, variants))
	var all, coding struct{ same, n int }
	for all.n < variants {
		at := r.IntN(bases)
		k, within := slices.BinarySearch(ends, at)
		if within { // the first base of the next contig
			k++
		}
		contig := g.Contigs[k]
		pos := at - (ends[k] - contig.Len())
		ref, alt := contig.Text(pos, pos+1), string("ACGT"[r.IntN(4)])
		if ref == alt || !slices.Contains([]string{"A", "C", "G", "T"}, ref) {
			continue
		}
		var terms [2]string
		for i, a := range with {
			said, err := a.Annotate(contig.Name, pos+1, ref, alt)
			if err != nil {
				return err
			}
			terms[i] = said.MostSevere.Term
		}
		same := 0
		if terms[0] == terms[1] {
			same = 1
		}
		all.same, all.n = all.same+same, all.n+1
		if terms[0] != "non_coding_transcript_exon_variant" {
			coding.same, coding.n = coding.same+same, coding.n+1
		}
	}
	_, err = fmt.Fprintf(out, "%d\t%.4f\t%d\t%.4f\n", all.n, float64(all.same)/float64(all.n), coding.n, float64(coding.same)/float64(max(1, coding.n)))
	return err
}

package watchlist

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vrs"
)

// spliceReach is how far into an intron splice terms apply: splice_region_variant reaches to its eighth base.
const spliceReach = 8

// catalogue finds genes and transcripts by what people call them.
type catalogue struct {
	genome       *genome.Genome
	normalizer   *annotate.Normalizer
	all          []*annotate.View
	byGene       map[string][]*annotate.View // symbol or id
	byTranscript map[string][]*annotate.View // id, with or without version, or accession of the protein
}

// newCatalogue lists the transcripts of the annotator's gene model.
func newCatalogue(g *genome.Genome, a *annotate.Annotator) *catalogue {
	c := &catalogue{genome: g, normalizer: annotate.NewNormalizer(a, annotate.ProteinStyle{}), byGene: map[string][]*annotate.View{}, byTranscript: map[string][]*annotate.View{}}
	for _, contig := range g.Contigs {
		views := a.Model().TranscriptsOn(contig.Name)
		for i := range views {
			c.add(&views[i])
		}
	}
	return c
}

func (c *catalogue) add(v *annotate.View) {
	c.all = append(c.all, v)
	enter(c.byGene, v, v.Gene.ID, withoutVersion(v.Gene.ID), v.Gene.Symbol)
	versioned := ""
	if v.Version != "" {
		versioned = v.ID + "." + v.Version
	}
	enter(c.byTranscript, v, v.ID, withoutVersion(v.ID), versioned, v.Protein, withoutVersion(v.Protein))
}

// enter files v under names, once under each.
func enter(m map[string][]*annotate.View, v *annotate.View, names ...string) {
	for i, name := range names {
		if name != "" && !slices.Contains(names[:i], name) {
			m[name] = append(m[name], v)
		}
	}
}

// withoutVersion is an accession without its version: NM_005228 for NM_005228.5.
func withoutVersion(accession string) string {
	base, version, ok := strings.Cut(accession, ".")
	if !ok || version == "" || strings.Trim(version, "0123456789") != "" {
		return accession
	}
	return base
}

// geneID distinguishes genes.
func geneID(g *annotate.Gene) string { return cmp.Or(g.ID, g.Symbol) }

// gene are the transcripts of the one gene of that symbol or id.
func (c *catalogue) gene(name string) ([]*annotate.View, error) {
	found := c.byGene[name]
	if len(found) == 0 {
		return nil, fmt.Errorf("gene %q is not among the genes%s", clip(name), c.suggestGene(name))
	}
	for _, v := range found {
		if geneID(v.Gene) != geneID(found[0].Gene) {
			return nil, fmt.Errorf("gene %q is the symbol of several, %q and %q: name the one that is meant by its id", clip(name), geneID(found[0].Gene), geneID(v.Gene))
		}
	}
	return found, nil
}

// transcript are the transcripts of that id, or of that protein.
func (c *catalogue) transcript(name string) ([]*annotate.View, error) {
	found := c.byTranscript[name]
	if len(found) == 0 {
		hint := c.suggestTranscript(name)
		if base := withoutVersion(name); base != name && len(c.byTranscript[base]) > 0 {
			hint = fmt.Sprintf(" (it has %q)", c.byTranscript[base][0].ID)
		}
		return nil, fmt.Errorf("transcript %q is not among the genes%s", clip(name), hint)
	}
	return found, nil
}

// suggestGene is a question for the gene that was likely meant.
func (c *catalogue) suggestGene(name string) string {
	return suggest(name, slices.Sorted(maps.Keys(c.byGene)))
}

// suggestTranscript is a question for the transcript that was likely meant.
func (c *catalogue) suggestTranscript(name string) string {
	return suggest(name, slices.Sorted(maps.Keys(c.byTranscript)))
}

// suggestTerm is a question for the consequence term that was likely meant.
func (c *catalogue) suggestTerm(name string) string {
	for _, form := range []string{name + "_variant", strings.ReplaceAll(name, " ", "_"), strings.ToLower(name)} {
		if _, ok := annotate.ImpactOf(form); ok {
			return fmt.Sprintf(" (is %q meant?)", form)
		}
	}
	return ""
}

// stretches are the positions of a transcript that a span means.
func (c *catalogue) stretches(v *annotate.View, kind string) []span {
	var spans []span
	switch kind {
	case spanGene:
		spans = append(spans, span{v.Contig.Name, v.Start, v.End})
	case spanCoding:
		for _, s := range v.CDS {
			spans = append(spans, span{v.Contig.Name, s.Start, s.End})
		}
	default:
		for i, s := range v.Exons {
			// Beside the transcript there is no intron.
			if i > 0 {
				s.Start -= spliceReach
			}
			if i < len(v.Exons)-1 {
				s.End += spliceReach
			}
			spans = append(spans, span{v.Contig.Name, s.Start, s.End})
		}
	}
	return c.onContig(spans)
}

// onContig maps places on a circular contig that go on behind its end to its beginning.
func (c *catalogue) onContig(spans []span) []span {
	var out []span
	for _, s := range spans {
		out = append(out, wrapped(s, len(c.genome.Contig(s.contig).Seq))...)
	}
	return out
}

// residues is the number of amino acids of a transcript's protein.
func residues(v *annotate.View) int {
	n := v.CodingLength() / 3
	if n > 0 && v.Residue(n) == '*' {
		n--
	}
	return n
}

// codonAlleles are the alleles of one codon that make a change of one residue, in a row for each stretch of the codon
// within one exon; nil for other changes, which can't be listed.
//
// A codon over two exons is evaluated in both by itself, as reads may not reach from one to the other: for changes in
// its first part, whatever the second is, and for changes in the second alone. So no read with the change is missed.
func (c *catalogue) codonAlleles(v *annotate.View, change *proteinChange, name string) []Named {
	want := change.replacement()
	bases := c.codonBases(v, change.from)
	if want == 0 || len(bases) != 3 {
		return nil
	}
	ref := v.CodingSequence()[3*(change.from-1):][:3] // in transcript direction
	for i := range bases {
		bases[i] %= len(c.genome.Contig(v.Contig.Name).Seq)
	}
	var out []Named
	for first := 0; first < 3; {
		last := first + 1
		for last < 3 && (bases[last]-bases[last-1] == 1 || bases[last-1]-bases[last] == 1) {
			last++
		}
		n := Named{Contig: v.Contig.Name, Name: name, Pos: min(bases[first], bases[last-1])}
		for i := range 64 {
			alt := []byte{"ACGT"[i/16], "ACGT"[i/4%4], "ACGT"[i%4]}
			if v.Amino(alt[0], alt[1], alt[2]) != want || !slices.Equal(alt[:first], ref[:first]) || slices.Equal(alt[first:last], ref[first:last]) {
				continue
			}
			before, after := slices.Clone(ref[first:last]), alt[first:last]
			if !v.Forward {
				genome.ReverseComplement(before)
				genome.ReverseComplement(after)
			}
			n.Alleles = append(n.Alleles, vrs.Edit{Start: n.Pos, Ref: string(before), Alt: string(after)})
		}
		if len(n.Alleles) > 0 {
			out = append(out, n)
		}
		first = last
	}
	return out
}

// mergeNamed joins what begins at one position, as codons of several transcripts do.
func mergeNamed(list []Named) []Named {
	var out []Named
	for _, n := range list {
		i := slices.IndexFunc(out, func(o Named) bool { return o.Contig == n.Contig && o.Pos == n.Pos })
		if i < 0 {
			out = append(out, n)
			continue
		}
		for _, e := range n.Alleles {
			if !slices.Contains(out[i].Alleles, e) {
				out[i].Alleles = append(out[i].Alleles, e)
			}
		}
	}
	return out
}

// codonBases are the positions of the bases of a codon (from 1) in transcript direction, on the contig as the transcript
// has it.
func (c *catalogue) codonBases(v *annotate.View, number int) []int {
	var bases []int
	for _, s := range codingSpans(v, number, number) {
		for i := range s.end - s.start {
			at := s.start + i
			if !v.Forward {
				at = s.end - 1 - i
			}
			bases = append(bases, at)
		}
	}
	return bases
}

// codons are the bases of codons from to to (from 1) of a transcript.
func (c *catalogue) codons(v *annotate.View, from, to int) []span {
	return c.onContig(codingSpans(v, from, to))
}

// codingSpans are these bases in transcript direction, each stretch by position.
func codingSpans(v *annotate.View, from, to int) []span {
	low, high := 3*(from-1), 3*to // offsets in the coding sequence
	offset := v.Pad()
	var spans []span
	for i := range v.CDS {
		s := v.CDS[i].Span
		if !v.Forward {
			s = v.CDS[len(v.CDS)-1-i].Span
		}
		a, b := max(low-offset, 0), min(high-offset, s.End-s.Start)
		if a < b {
			if v.Forward {
				spans = append(spans, span{v.Contig.Name, s.Start + a, s.Start + b})
			} else {
				spans = append(spans, span{v.Contig.Name, s.End - b, s.End - a})
			}
		}
		offset += s.End - s.Start
	}
	return spans
}

// described is what an HGVS description means.
type described struct {
	subject  *subject
	proteins []proteinKey // of a change of a protein
}

// describe resolves an HGVS description.
func (c *catalogue) describe(text string) (described, error) {
	accession, change, ok := strings.Cut(text, ":")
	if !ok || accession == "" {
		return described{}, fmt.Errorf("%q: want a sequence, a colon and a change, such as NM_004333.6:c.1799T>A", clip(text))
	}
	if p, ok := strings.CutPrefix(change, "p."); ok {
		return c.protein(accession, p)
	}
	s, err := c.nucleotide(text)
	return described{subject: s}, err
}

// protein resolves a change of a protein, a transcript's or a gene's.
func (c *catalogue) protein(accession, text string) (described, error) {
	change, err := parseProtein(text)
	if err != nil {
		return described{}, err
	}
	name := accession + ":p." + change.name
	views := c.byTranscript[accession]
	if len(views) == 0 {
		views = c.byGene[accession]
	}
	if len(views) == 0 {
		_, err := c.transcript(accession)
		return described{}, err
	}
	var d described
	var spans []span
	var named []Named
	countable := true
	var misfit error
	for _, v := range views {
		if err := change.fits(v); err != nil {
			misfit = cmp.Or(misfit, err)
			continue
		}
		d.proteins = append(d.proteins, proteinKey{v.ID, change.name})
		spans = append(spans, c.codons(v, change.from, change.to)...)
		own := c.codonAlleles(v, &change, name)
		named, countable = append(named, own...), countable && len(own) > 0
	}
	if len(spans) == 0 {
		return described{}, fmt.Errorf("%s: %w", name, misfit)
	}
	d.subject = &subject{scope: ScopeProtein, name: name, area: newArea(spans)}
	if countable {
		d.subject.named = mergeNamed(named)
	}
	return d, nil
}

// fits reports whether the protein of v has the residues that p names.
func (p *proteinChange) fits(v *annotate.View) error {
	for _, r := range []struct {
		at   int
		want byte
	}{{p.from, p.first}, {p.to, p.last}} {
		switch have := v.Residue(r.at); {
		case have == 0:
			return fmt.Errorf("residue %d is outside of the protein of %s, which has %d", r.at, v.ID, residues(v))
		case have != r.want:
			return fmt.Errorf("residue %d of the protein of %s is %s, not %s: check number and transcript", r.at, v.ID, aminoNames[have], aminoNames[r.want])
		}
	}
	return nil
}

// nucleotide resolves a change of a contig or a transcript.
func (c *catalogue) nucleotide(text string) (*subject, error) {
	n, err := c.normalizer.Normalize(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", clip(text), err)
	}
	if len(n.Loci) != 1 {
		return nil, fmt.Errorf("%s describes %d changes of the reference: want one allele, name several one by one", clip(text), len(n.Loci))
	}
	l := n.Loci[0]
	return alleleSubject(c.genome.Contig(l.Contig), l.Pos-1, l.Ref, l.Alt)
}

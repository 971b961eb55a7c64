package annotate

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/porestream/porestream/annotate/hgvs"
	"github.com/porestream/porestream/genome"
)

// index finds transcripts by the names that descriptions use. Names of transcripts go before names of proteins, and
// those before names of genes.
type index struct {
	transcripts, proteins, genes map[string][]*transcript
}

// indexModel makes the index. A name is in it with and without its version.
func indexModel(m *Model) index {
	x := index{transcripts: map[string][]*transcript{}, proteins: map[string][]*transcript{}, genes: map[string][]*transcript{}}
	for _, k := range m.contigs {
		for _, t := range k.transcripts {
			if !t.implicit {
				enter(x.transcripts, t, t.id, unversioned(t.id))
			}
			if t.cds != nil {
				enter(x.proteins, t, t.protein, unversioned(t.protein))
			}
			if t.implicit && (t.cds != nil || t.id != t.gene.name.ID) {
				enter(x.proteins, t, t.id, unversioned(t.id))
			}
			enter(x.genes, t, t.gene.name.ID, t.gene.name.Symbol, unversioned(t.gene.name.ID))
			enter(x.genes, t, t.gene.aliases...)
		}
	}
	return x
}

// enter files t under names, once under each.
func enter(m map[string][]*transcript, t *transcript, names ...string) {
	for _, name := range names {
		if name != "" && !slices.Contains(m[name], t) {
			m[name] = append(m[name], t)
		}
	}
}

// unversioned is an accession without the version behind its last point.
func unversioned(accession string) string {
	i := strings.LastIndexByte(accession, '.')
	if i <= 0 || i+1 == len(accession) || strings.Trim(accession[i+1:], "0123456789") != "" {
		return accession
	}
	return accession[:i]
}

// find are the transcripts that a name may mean, and whether it is a transcript's own.
func (x *index) find(name string) (list []*transcript, own bool) {
	for _, id := range []string{name, accession(name), "HGNC:" + name} { // Mutalyzer's selectors may be HGNC's bare numbers
		for i, m := range []map[string][]*transcript{x.transcripts, x.proteins, x.genes} {
			if list := m[id]; len(list) > 0 {
				return list, i == 0
			}
		}
	}
	bare := unversioned(name)
	if bare == name {
		return nil, false
	}
	// A version that the gene model has apart from the name, or doesn't give.
	version := name[len(bare)+1:]
	if list = filtered(x.transcripts[bare], func(t *transcript) bool {
		return t.id == bare && (t.version == "" || t.version == version)
	}); len(list) > 0 {
		return list, true
	}
	return filtered(x.proteins[bare], func(t *transcript) bool { return t.protein == bare }), false
}

// otherVersions are the versions of an accession that the gene model has instead of the one asked for.
func (x *index) otherVersions(name string) []string {
	var ids []string
	if bare := unversioned(name); bare != name {
		for _, t := range x.transcripts[bare] {
			if t.version != "" {
				ids = append(ids, t.id+"."+t.version)
			} else {
				ids = append(ids, t.id)
			}
		}
		for _, t := range x.proteins[bare] {
			ids = append(ids, t.protein)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// numbering finds the sequence that d describes.
func (n *Normalizer) numbering(d hgvs.Description) (*numbering, error) {
	c := n.a.genome.Contig(d.Reference)
	if d.Type != 'c' && d.Type != 'n' {
		return n.genomic(d, c)
	}
	if c == nil {
		return n.onTranscript(d)
	}
	if d.Selector == "" {
		// A transcript may have the name of its contig, as in a reference of transcripts.
		if list, _ := n.names.find(d.Reference); len(list) > 0 {
			return n.onTranscript(d)
		}
		t := n.onlyCoding(c, d.Reference)
		if d.Type != 'c' || t == nil {
			return nil, fmt.Errorf("%s is a contig: %c. needs a transcript, protein or gene of it, %s(NAME):%c.…", d.Reference, d.Type, d.Reference, d.Type)
		}
		return &numbering{contig: t.contig, t: t, kind: d.Type, name: c.Name + "(" + t.accession + ")", onGenome: true}, nil
	}
	t, own, err := n.transcript(d.Selector, d.Type, c)
	if err != nil {
		return nil, err
	}
	name := c.Name + "(" + t.called(d.Selector, own) + ")"
	if t.isContig() {
		name = c.Name
	}
	return &numbering{contig: t.contig, t: t, kind: d.Type, name: name, onGenome: !t.isContig()}, nil
}

// genomicAccession matches RefSeq's names of chromosomes and of parts of genomes, whose c. means nothing
// without a transcript even where only one is known.
var genomicAccession = regexp.MustCompile(`^(NC|AC|NT|NW|NZ)_`)

// onlyCoding is the coding transcript of a contig that has but one, as a RefSeqGene can; nil if there
// are others, or none, or the contig's name, or the one that a description has for it, is a genome's.
func (n *Normalizer) onlyCoding(c *genome.Contig, name string) *transcript {
	k := n.a.model.contigs[c]
	if k == nil || genomicAccession.MatchString(c.Name) || genomicAccession.MatchString(name) {
		return nil
	}
	var only *transcript
	for _, t := range k.transcripts {
		switch {
		case t.cds == nil:
		case only != nil:
			return nil
		default:
			only = t
		}
	}
	return only
}

// genomic is the numbering of g., m. and o.
func (n *Normalizer) genomic(d hgvs.Description, c *genome.Contig) (*numbering, error) {
	if c == nil {
		if list, _ := n.names.find(d.Reference); len(list) > 0 {
			return nil, fmt.Errorf("%s is not a contig of the reference but a name in the gene model: %c. counts along a contig", d.Reference, d.Type)
		}
		return nil, fmt.Errorf("reference sequence %q is unknown: the reference has %s", clip(d.Reference), nameList(n.a.genome.Names()))
	}
	if d.Selector != "" {
		return nil, fmt.Errorf("%c. counts along the contig and takes no transcript: write %s:%c.…", d.Type, d.Reference, d.Type)
	}
	if k := n.a.model.contigs[c]; k != nil && slices.ContainsFunc(k.transcripts, (*transcript).isContig) {
		return nil, fmt.Errorf("%s is a transcript: %c. counts along a genome, and c. or n. along a transcript", d.Reference, d.Type)
	}
	kind := d.Type
	if kind == 'g' && n.a.model.mitochondrial(c) {
		kind = 'm'
	}
	return &numbering{contig: c, kind: kind, name: c.Name}, nil
}

// onTranscript is the numbering of a transcript without its contig: "NM_1:c.", "NM_1(GENE):c.", or a protein or gene
// that has but one.
func (n *Normalizer) onTranscript(d hgvs.Description) (*numbering, error) {
	t, own, err := n.transcript(d.Reference, d.Type, nil)
	if err != nil {
		return nil, err
	}
	if d.Selector != "" {
		named := func(m map[string][]*transcript) bool { return slices.Contains(m[d.Selector], t) }
		if !named(n.names.genes) && !named(n.names.proteins) && !named(n.names.transcripts) {
			return nil, fmt.Errorf("%s is not of %q: its gene is %s", d.Reference, clip(d.Selector), cmp.Or(t.gene.name.Symbol, t.gene.name.ID))
		}
	}
	name := t.called(d.Reference, own)
	if t.implicit {
		name = t.contig.Name + "(" + t.id + ")"
	}
	return &numbering{contig: t.contig, t: t, kind: d.Type, name: name}, nil
}

// isContig reports whether the transcript is the contig that it is on, as in a reference of transcripts.
func (t *transcript) isContig() bool { return t.id == t.contig.Name }

// called is how a description of t names it that came with the given name: by that, if it is t's own and has a version, and
// else by t's accession with the version that the gene model has.
func (t *transcript) called(name string, own bool) string {
	if own && unversioned(name) == unversioned(t.id) && unversioned(name) != name {
		return name
	}
	return t.accession
}

// transcript is the one that a name means, on contig c if that is not nil, and whether the name is its own.
func (n *Normalizer) transcript(name string, kind byte, c *genome.Contig) (*transcript, bool, error) {
	list, own := n.names.find(name)
	if m := numbered.FindStringSubmatch(name); len(list) == 0 && m != nil {
		if of, _ := n.names.find(m[1]); len(of) > 0 {
			if t, err := n.numbered(m[1], name, c); err != nil || t != nil {
				return t, false, err
			}
		}
	}
	if len(list) == 0 {
		if ids := n.names.otherVersions(name); len(ids) > 0 {
			return nil, false, fmt.Errorf("the gene model has %s and not %s: positions may differ between versions", nameList(ids), name)
		}
		if c == nil {
			return nil, false, fmt.Errorf("transcript %q is unknown: neither the gene model nor the reference has that name", clip(name))
		}
		return nil, false, fmt.Errorf("transcript %q is unknown: the gene model has no transcript, protein or gene of that name", clip(name))
	}
	if c != nil {
		list = filtered(list, func(t *transcript) bool { return t.contig.Name == c.Name })
		if len(list) == 0 {
			return nil, false, fmt.Errorf("%s is not on %s", name, c.Name)
		}
	}
	if kind == 'c' {
		coding := filtered(list, func(t *transcript) bool { return t.cds != nil })
		if len(coding) == 0 {
			return nil, false, fmt.Errorf("%s is not coding: n. describes what it has", name)
		}
		list = coding
	}
	if len(list) == 1 {
		return list[0], own, nil
	}
	ids := make([]string, len(list))
	for i, t := range list {
		ids[i] = t.contig.Name + "(" + t.id + ")"
	}
	slices.Sort(ids)
	return nil, false, fmt.Errorf("%s has %d transcripts, say which: %s", name, len(ids), nameList(ids))
}

// numbered matches the selectors of an older nomenclature: a gene, and the number of one of its transcripts (v) or
// proteins (i).
var numbered = regexp.MustCompile(`^(.+)_[vi]([0-9]{3})$`)

// numbered is the only coding transcript of a gene, on contig c if that is not nil, that such a selector can mean. The
// numbers are those of a record of GenBank, which a gene model does not have.
func (n *Normalizer) numbered(gene, selector string, c *genome.Contig) (*transcript, error) {
	t, _, err := n.transcript(gene, 'c', c)
	if err != nil {
		return nil, fmt.Errorf("%s numbers the transcripts of a GenBank record, which the gene model does not: %w", clip(selector), err)
	}
	if !strings.HasSuffix(selector, "001") {
		return nil, fmt.Errorf("%s: the gene model has one coding transcript of %s, %s", clip(selector), clip(gene), t.id)
	}
	return t, nil
}

func filtered(list []*transcript, keep func(*transcript) bool) []*transcript {
	return slices.DeleteFunc(slices.Clone(list), func(t *transcript) bool { return !keep(t) })
}

// errTooLong is the error for changes that would be longer than any that is annotated.
var errTooLong = errors.New("the change has more than 1048576 bases: it is too long to be described base by base")

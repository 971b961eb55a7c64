package annotate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// builder makes transcripts of features.
type builder struct {
	model   *Model
	genes   map[*feature]*gene
	codes   GeneticCodes
	faults  *faults
	addStop bool // stop codons that follow a CDS of a GTF are part of it

	// Memory to build in, and to cut pieces off.
	coding   []byte
	rows     []part
	stops    *stops
	stopsOf  *geneticCode
	slab     []transcript
	segments []segment
}

// build makes the model.
func (b *builder) build(p *parser) (*Model, error) {
	for _, f := range p.features {
		b.matureOf(f)
		if f.linked && f.parent != nil && (!f.unnamed || len(f.cds) > 0) {
			f.parent.known = true
		}
	}
	for _, f := range p.features {
		if err := b.transcripts(f); err != nil {
			return nil, err
		}
	}
	b.model.Faults = p.faults.list()
	for _, r := range p.regions {
		if len(r.regulatory) > 0 {
			k := &regulatoryTrack{regions: r.regulatory}
			k.index()
			b.model.regulation[r.contig] = k
		}
	}
	for _, k := range b.model.contigs {
		k.index()
	}
	if n := len(b.model.Faults); n > 0 && b.model.count == 0 && len(b.model.regulation) == 0 {
		return nil, errors.New("no transcript in it can be used: " + b.model.Faults[n-1].Examples[0])
	}
	return b.model, nil
}

// matureOf makes mature microRNAs of a GTF parts of the precursor of the same gene that holds them.
func (b *builder) matureOf(f *feature) {
	if !f.linked || f.get("transcript_biotype") != "miRNA" || f.parent == nil || f.derived {
		return
	}
	for _, o := range f.region.features {
		if o.parent == f.parent && isPrecursor(o.get("transcript_biotype")) && o.start <= f.start && f.end <= o.end {
			f.parent = o
			f.derive()
			return
		}
	}
}

// isGene reports whether f is a gene rather than a transcript.
func (f *feature) isGene() bool {
	if f.linked {
		return f.locus
	}
	return f.parent == nil && (strings.HasSuffix(f.kind, "gene") || f.kind == "CDS")
}

// wholeTranscript reports whether f is a transcript or a pseudogene that is described by its own row alone, without
// exons.
func (f *feature) wholeTranscript() bool {
	if len(f.exons)+len(f.cds)+len(f.utrs)+f.children > 0 || f.start < 0 || f.end > f.region.length && !f.region.circular {
		return false
	}
	if strings.HasSuffix(f.kind, "RNA") || strings.HasSuffix(f.kind, "transcript") {
		return true
	}
	return f.isGene() && (f.kind == "pseudogene" || f.get("pseudo") == "true")
}

// transcripts makes the transcripts that f stands for: itself, or, if it is a gene with parts of its own, one for
// each protein, or one that is not coding.
func (b *builder) transcripts(f *feature) error {
	if f.derived {
		return nil
	}
	if f.wholeTranscript() {
		f.exons = []part{{start: int32(f.start), end: int32(f.end), line: int32(f.line), phase: -1, strand: f.strand, kind: exonPart}}
	}
	if len(f.exons)+len(f.cds) == 0 {
		return nil
	}
	if !f.isGene() {
		if len(f.cds) == 0 && f.linked && f.unnamed && f.parent.known {
			return nil // exons of the gene, beside its transcripts
		}
		if f.start == 0 && f.end == f.region.length {
			f.onTranscript()
		}
		return b.transcript(f, b.geneOf(f), f.unnamed && len(f.cds) > 0)
	}
	g := b.geneOf(f)
	if len(f.cds) == 0 {
		if f.children > 0 {
			return nil // exons of the gene, beside its transcripts, as RefSeqGene has them
		}
		return b.transcript(f.onTranscript(), g, f.titled == "")
	}
	var ids []string
	groups := map[string]*feature{}
	for _, x := range f.cds {
		id := f.of(&x).first("ID", "protein_id")
		if groups[id] == nil {
			own := *f
			own.exons, own.cds, own.utrs, own.seleno, own.line = nil, nil, nil, nil, int(x.line)
			own.attributes, own.strand = f.of(&x), x.strand
			groups[id] = &own
			ids = append(ids, id)
		}
		groups[id].cds = append(groups[id].cds, x)
	}
	if len(ids) == 1 && f.children == 0 {
		groups[ids[0]].onTranscript()
	}
	for _, id := range ids {
		if err := b.transcript(groups[id], g, groups[id].titled == ""); err != nil {
			return err
		}
	}
	return nil
}

// onTranscript makes f, a transcript as long as its contig or the parts of a gene without transcripts, the transcript that
// its contig is, if it is one: all of it is exon, and the contig's name is the transcript's.
func (f *feature) onTranscript() *feature {
	if !f.region.transcript || f.strand == '-' {
		return f
	}
	f.titled = f.region.name
	f.exons = []part{{start: 0, end: int32(f.region.length), line: int32(f.line), phase: -1, strand: '+', kind: exonPart}}
	return f
}

// geneOf is the gene that f belongs to: the root of its parents, or itself.
func (b *builder) geneOf(f *feature) *gene {
	for range 4 { // deeper nesting than gene, transcript, precursor does not exist
		if f.parent == nil {
			break
		}
		f = f.parent
	}
	g := b.genes[f]
	if g == nil {
		g = &gene{
			name: &Gene{
				ID:     cmp.Or(accession(f.first("gene_id", "ID", "locus_tag", "Name")), f.id),
				Symbol: f.first("gene", "gene_name", "Name", "locus_tag"),
			},
			biotype: f.first("gene_biotype", "biotype", "gene_type"),
			aliases: f.aliases(),
		}
		b.genes[f] = g
	}
	return g
}

// aliases are the names by which a description may call the gene f.
func (f *feature) aliases() []string {
	var names []string
	for _, k := range []string{"ID", "gene_id", "gene", "gene_name", "Name", "locus_tag", "old_locus_tag"} {
		if v := f.get(k); v != "" && !slices.Contains(names, v) {
			names = append(names, v)
		}
	}
	for _, x := range slices.Concat(f.list("Dbxref"), f.list("db_xref")) {
		if strings.HasPrefix(x, "GeneID:") || strings.HasPrefix(x, "HGNC:") {
			names = append(names, strings.Replace(x, "HGNC:HGNC:", "HGNC:", 1)) // newer files have the prefix twice
		}
	}
	return names
}

// transcript makes one transcript of f's parts. implicit: nothing names it, f's attributes are its gene's or its CDS's.
func (b *builder) transcript(f *feature, g *gene, implicit bool) error {
	t := b.newTranscript()
	t.contig, t.gene, t.implicit, t.line, t.mature = f.region.contig, g, implicit, f.line, f.mature
	t.id = f.name(g, implicit)
	if b.transSpliced(t, f) || !b.strand(t, f) {
		return nil
	}
	k := b.track(f.region)
	t.track = k
	if k.circle > 0 {
		t.contig = k.unrolled
		f.unroll(k.circle)
	}
	coding := len(f.cds) > 0 && f.get("pseudo") != "true" && f.of(&f.cds[0]).get("pseudo") != "true"
	t.biotype = biotype(f, g, coding, implicit)
	t.describe(f.attributes)
	t.accession = t.id
	if !implicit && !strings.Contains(t.id, ".") {
		if t.version = f.first("transcript_version", "version"); t.version != "" {
			t.accession += "." + t.version
		}
	}
	if coding {
		b.completeStop(f)
	}
	if !b.exons(t, f) {
		return nil
	}
	if coding {
		if ok, err := b.codingRegion(t, f); !ok || err != nil {
			return err
		}
	}
	t.written = f.written(t)
	t.name = &Feature{Type: "Transcript", ID: t.id, Biotype: t.biotype}
	t.flags = t.marks()
	t.settle()
	k.transcripts = append(k.transcripts, t)
	b.model.count++
	return nil
}

// newTranscript is an empty transcript.
func (b *builder) newTranscript() *transcript {
	if len(b.slab) == 0 {
		b.slab = make([]transcript, 64)
	}
	t := &b.slab[0]
	b.slab = b.slab[1:]
	return t
}

// newSegments returns capacity for n segments.
func (b *builder) newSegments(n int) []segment {
	if n > len(b.segments) {
		b.segments = make([]segment, max(n, 1024))
	}
	segs := b.segments[:n:n]
	b.segments = b.segments[n:]
	return segs
}

// name is the ID of f as a transcript.
func (f *feature) name(g *gene, implicit bool) string {
	id := ""
	switch {
	case implicit && len(f.cds) > 0:
		id = f.of(&f.cds[0]).first("protein_id", "ID", "locus_tag")
	case f.titled != "":
		return f.titled
	case !implicit && !f.unnamed:
		id = f.first("transcript_id", "ID")
	}
	return cmp.Or(accession(id), g.name.ID)
}

// said is t for a message, with its gene.
func (t *transcript) said() string {
	gene := cmp.Or(t.gene.name.Symbol, t.gene.name.ID)
	if gene == "" || gene == t.id {
		return fmt.Sprintf("transcript %q", t.id)
	}
	return fmt.Sprintf("transcript %q of gene %q", t.id, gene)
}

// track is the one of a contig.
func (b *builder) track(r *region) *track {
	k := b.model.contigs[r.contig]
	if k == nil {
		k = &track{}
		if r.circular {
			k.circle, k.unrolled = r.length, r.contig.Twice()
		}
		b.model.contigs[r.contig] = k
	}
	return k
}

// transSpliced notes a transcript whose parts come from several precursors.
func (b *builder) transSpliced(t *transcript, f *feature) bool {
	spliced := strings.Contains(f.get("exception"), "trans-splicing")
	for i := range f.cds {
		if i == 0 || f.cds[i].text != f.cds[i-1].text {
			spliced = spliced || strings.Contains(f.of(&f.cds[i]).get("exception"), "trans-splicing")
		}
	}
	if spliced {
		b.faults.note(TransSplicing, f.line, "%s is trans-spliced, which is not supported: it is left out", t.said())
	}
	return spliced
}

// strand sets the strand that all parts share; if they do not, it warns and is false.
func (b *builder) strand(t *transcript, f *feature) bool {
	strand := f.strand
	for _, parts := range [][]part{f.exons, f.cds, f.utrs} {
		for _, p := range parts {
			if strand == '.' {
				strand = p.strand
			}
			if p.strand != strand && p.strand != '.' {
				b.faults.note(MixedStrands, int(p.line), "%s is on another strand than its %s: the transcript is left out", p.kind, t.said())
				return false
			}
		}
	}
	if strand == '.' {
		b.faults.note(NoStrand, f.line, "%s has no strand: it is left out", t.said())
		return false
	}
	t.forward = strand == '+'
	return true
}

// biotype is a transcript's class in Ensembl's terms.
func biotype(f *feature, g *gene, coding, implicit bool) string {
	if !implicit {
		kind := f.first("biotype", "transcript_biotype", "transcript_type", "gene_biotype")
		if kind == "" {
			kind = f.kind
		}
		switch {
		case kind == "mRNA":
			return "protein_coding"
		case kind == "lnc_RNA":
			return "lncRNA"
		case kind != "transcript" && partKindless(kind):
			return strings.Clone(kind)
		}
	}
	switch {
	case g.biotype != "":
		return g.biotype
	case coding:
		return "protein_coding"
	}
	return f.kind
}

// partKindless reports whether a kind is not that of a part, which a transcript without a row of its own has.
func partKindless(kind string) bool { return kindOfPart([]byte(kind)) == noPart }

// describe reads what the attributes of its row or of its CDS say about a transcript: the marks of preferred and of
// incomplete ones.
func (t *transcript) describe(a attributes) {
	for _, tag := range a.list("tag") {
		switch tag {
		case "Ensembl_canonical", "RefSeq Select", "MANE Select", "MANE_Select":
			t.canonical = true
			t.maneSelect = t.maneSelect || strings.HasPrefix(tag, "MANE")
		case "MANE Plus Clinical", "MANE_Plus_Clinical":
			t.manePlus = true
		case "cds_start_NF":
			t.startNF = true
		case "cds_end_NF":
			t.endNF = true
		default:
			t.labels.add(tag)
		}
	}
	t.labels.tsl = max(t.labels.tsl, supportLevel(a.get("transcript_support_level")))
	t.labels.ccds = cmp.Or(t.labels.ccds, a.first("ccdsid", "ccds_id"))
}

// marks are the transcript's flags in output.
func (t *transcript) marks() []string {
	var flags []string
	for _, f := range []struct {
		on   bool
		name string
	}{
		{t.maneSelect, "mane_select"}, {t.manePlus, "mane_plus_clinical"}, {t.canonical, "canonical"},
		{t.startNF, "cds_start_NF"}, {t.endNF, "cds_end_NF"},
	} {
		if f.on {
			flags = append(flags, f.name)
		}
	}
	return flags
}

// exons sets the exons: the exon rows, or, where a file has none, what the coding and untranslated rows cover.
func (b *builder) exons(t *transcript, f *feature) bool {
	covered := f.exons
	if len(f.exons) == 0 {
		covered = slices.Concat(f.cds, f.utrs)
	}
	segs := b.newSegments(len(covered))
	for i, p := range covered {
		segs[i] = segment{start: int(p.start), end: int(p.end)}
	}
	slices.SortFunc(segs, func(x, y segment) int { return cmp.Compare(x.start, y.start) })
	if len(f.exons) == 0 || t.contig != f.region.contig {
		segs = merged(segs, len(f.exons) == 0)
	}
	for i := 1; i < len(segs); i++ {
		if segs[i].start < segs[i-1].end {
			b.faults.note(OverlappingExons, f.line, "%s has overlapping exons (%d-%d and %d-%d): it is left out", t.said(), segs[i-1].start+1, segs[i-1].end, segs[i].start+1, segs[i].end)
			return false
		}
	}
	for _, c := range f.cds {
		inside := false
		for _, s := range segs {
			inside = inside || int(c.start) >= s.start && int(c.end) <= s.end
		}
		if !inside {
			b.faults.note(OutsideExons, int(c.line), "CDS of %s lies outside its exons: the transcript is left out", t.said())
			return false
		}
	}
	t.start, t.end = segs[0].start, segs[len(segs)-1].end
	t.exons = segs
	t.cdnaLength = t.layOut(t.exons)
	return true
}

// merged joins segments, sorted by start, that touch, and, if overlaps are allowed, those that overlap.
func merged(segs []segment, overlaps bool) []segment {
	out := segs[:1]
	for _, s := range segs[1:] {
		if last := &out[len(out)-1]; s.start == last.end || overlaps && s.start < last.end {
			last.end = max(last.end, s.end)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// completeStop gives a GTF's CDS the stop codon, which the format leaves out of it.
func (b *builder) completeStop(f *feature) {
	if !f.linked {
		return
	}
	last := f.cds[len(f.cds)-1]
	for _, s := range f.stops {
		if !slices.ContainsFunc(f.cds, func(c part) bool { return c.start <= s.start && s.end <= c.end }) {
			s.kind, s.text, s.phase = cdsPart, last.text, -1
			f.cds = append(f.cds, s)
		}
	}
	if len(f.stops) > 0 {
		f.joinCDS()
	}
}

// joinCDS joins coding segments that touch, as a stop codon and the segment before it.
func (f *feature) joinCDS() {
	if len(f.cds) == 0 {
		return
	}
	slices.SortFunc(f.cds, func(x, y part) int { return cmp.Compare(x.start, y.start) })
	out := f.cds[:1]
	for _, c := range f.cds[1:] {
		last := &out[len(out)-1]
		if c.start != last.end {
			out = append(out, c)
			continue
		}
		if c.strand == '-' { // what comes first in transcript direction has the phase
			last.phase = c.phase
		}
		last.end = c.end
	}
	f.cds = out
}

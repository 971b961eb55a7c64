package annotate

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/porestream/porestream/genome"
)

// Model is a set of transcripts on a genome. It does not change and may be shared.
type Model struct {
	// Warnings tell what the file has and the model leaves out or repairs, in the order of the file.
	Warnings []string

	contigs    map[*genome.Contig]*track
	regulation map[*genome.Contig]*regulatoryTrack
	count      int
}

// Transcripts is the number of transcripts, coding and not.
func (m *Model) Transcripts() int { return m.count }

// track holds the transcripts of one contig so that those in reach of a position are found fast.
type track struct {
	transcripts []*transcript // by start
	// reach[i] is the greatest end among transcripts[:i+1]: where it falls below a position no earlier transcript
	// overlaps it.
	reach []int
	// mitochondrial says that coding sequences of the contig read in the vertebrate mitochondrial code.
	mitochondrial bool
}

// overlapping appends the transcripts that share a base or an edge with [start,end] to dst.
func (k *track) overlapping(dst []*transcript, start, end int) []*transcript {
	n := sort.Search(len(k.transcripts), func(i int) bool { return k.transcripts[i].start > end })
	for i := n - 1; i >= 0 && k.reach[i] >= start; i-- {
		if k.transcripts[i].end >= start {
			dst = append(dst, k.transcripts[i])
		}
	}
	return dst
}

// node is a feature that may have parts: a gene or a transcript.
type node struct {
	row   *row
	exons []*row
	cds   []*row
	utrs  []*row
}

// builder makes transcripts of rows.
type builder struct {
	model *Model
	nodes map[string]*node // by contig and ID
	order []*node
	genes map[*row]*gene
	table int // genetic code of coding sequences that do not say theirs
}

// key identifies a feature: IDs are unique in a file, but the same file may describe a gene on two contigs.
func key(c *genome.Contig, id string) string { return c.Name + "\x00" + id }

// buildModel links rows to their parents and makes the transcripts.
func buildModel(rows []*row, table int, warnings []string) (*Model, error) {
	b := builder{
		model: &Model{Warnings: warnings, contigs: map[*genome.Contig]*track{}},
		nodes: map[string]*node{},
		genes: map[*row]*gene{},
		table: table,
	}
	for _, r := range rows {
		if r.part() {
			continue
		}
		k := key(r.contig, r.get("ID"))
		if b.nodes[k] != nil {
			b.warn(r, "%s %q is described twice: this row is left out", r.kind, r.get("ID"))
			continue
		}
		n := &node{row: r}
		b.nodes[k] = n
		b.order = append(b.order, n)
	}
	if err := b.attach(rows); err != nil {
		return nil, err
	}
	for _, n := range b.order {
		if err := b.transcripts(n); err != nil {
			return nil, err
		}
	}
	for _, k := range b.model.contigs {
		k.index()
	}
	return b.model, nil
}

// warn notes something about a row.
func (b *builder) warn(r *row, format string, args ...any) {
	b.model.Warnings = append(b.model.Warnings, fmt.Sprintf("line %d: ", r.line)+fmt.Sprintf(format, args...))
}

// attach gives exons, coding and untranslated segments to their parents.
func (b *builder) attach(rows []*row) error {
	orphans := map[string]*node{}
	for _, r := range rows {
		if !r.part() {
			continue
		}
		parents := r.get("Parent")
		if parents == "" {
			if r.kind == "CDS" {
				b.orphan(orphans, r)
			}
			continue // annotated without a gene, as the untranslated ends of viral genomes are
		}
		for _, id := range strings.Split(parents, ",") {
			n := b.nodes[key(r.contig, id)]
			if n == nil {
				return fmt.Errorf("line %d: %s has the parent %q, which no row describes", r.line, r.kind, id)
			}
			n.add(r)
		}
	}
	return nil
}

// orphan makes a coding segment without a parent its own gene, or adds it to the one that has its ID.
func (b *builder) orphan(orphans map[string]*node, r *row) {
	id := r.get("ID")
	n := orphans[key(r.contig, id)]
	if id == "" || n == nil {
		n = &node{row: r}
		b.order = append(b.order, n)
		orphans[key(r.contig, id)] = n
	}
	n.add(r)
}

// add files a part of n.
func (n *node) add(r *row) {
	switch r.kind {
	case "exon":
		n.exons = append(n.exons, r)
	case "CDS":
		n.cds = append(n.cds, r)
	default:
		n.utrs = append(n.utrs, r)
	}
}

// isGene says whether n is a gene rather than a transcript.
func (n *node) isGene() bool {
	return n.row.get("Parent") == "" && (strings.HasSuffix(n.row.kind, "gene") || n.row.kind == "CDS")
}

// transcripts makes the transcripts that n stands for: itself, or, if it is a gene with parts of its own, one for
// each protein, or one that is not coding.
func (b *builder) transcripts(n *node) error {
	if len(n.exons)+len(n.cds) == 0 {
		return nil
	}
	if !n.isGene() {
		return b.transcript(n, b.geneOf(n.row), false)
	}
	g := b.geneOf(n.row)
	if len(n.cds) == 0 {
		return b.transcript(n, g, true)
	}
	var ids []string
	groups := map[string]*node{}
	for _, r := range n.cds {
		id := r.first("ID", "protein_id")
		if groups[id] == nil {
			groups[id] = &node{row: r}
			ids = append(ids, id)
		}
		groups[id].cds = append(groups[id].cds, r)
	}
	for _, id := range ids {
		if err := b.transcript(groups[id], g, true); err != nil {
			return err
		}
	}
	return nil
}

// geneOf is the gene that r belongs to: the root of its parents, or itself.
func (b *builder) geneOf(r *row) *gene {
	for range 4 { // deeper nesting than gene, transcript, precursor does not exist
		parent, _, _ := strings.Cut(r.get("Parent"), ",")
		n := b.nodes[key(r.contig, parent)]
		if parent == "" || n == nil {
			break
		}
		r = n.row
	}
	g := b.genes[r]
	if g == nil {
		g = &gene{
			name: &Gene{
				ID:     accession(r.first("gene_id", "ID", "locus_tag", "Name")),
				Symbol: r.first("gene", "gene_name", "Name", "locus_tag"),
			},
			biotype: r.first("gene_biotype", "biotype", "gene_type"),
			aliases: geneAliases(r),
		}
		b.genes[r] = g
	}
	return g
}

// geneAliases are the names by which a description may call the gene of row r.
func geneAliases(r *row) []string {
	var names []string
	for _, k := range []string{"ID", "gene_id", "gene", "gene_name", "Name", "locus_tag", "old_locus_tag"} {
		if v := r.get(k); v != "" && !slices.Contains(names, v) {
			names = append(names, v)
		}
	}
	for _, x := range strings.Split(r.get("Dbxref"), ",") {
		if strings.HasPrefix(x, "GeneID:") || strings.HasPrefix(x, "HGNC:") {
			names = append(names, x)
		}
	}
	return names
}

// accession is an ID without the prefix that makes it unique in its file.
func accession(id string) string {
	for _, prefix := range []string{"gene:", "transcript:", "CDS:", "gene-", "rna-", "cds-"} {
		if s, ok := strings.CutPrefix(id, prefix); ok {
			return s
		}
	}
	return id
}

// transcript makes one transcript of n's parts. implicit: there is no row for it, n.row is its gene's or its CDS's.
func (b *builder) transcript(n *node, g *gene, implicit bool) error {
	r := n.row
	t := &transcript{contig: r.contig, gene: g, implicit: implicit, line: r.line}
	if !b.strand(t, n) {
		return nil
	}
	coding := len(n.cds) > 0 && r.get("pseudo") != "true" && n.cds[0].get("pseudo") != "true"
	switch {
	case !implicit:
		t.id = accession(r.first("transcript_id", "ID"))
	case len(n.cds) > 0:
		t.id = accession(n.cds[0].first("protein_id", "ID", "locus_tag"))
	default:
		t.id = g.name.ID
	}
	if t.id == "" {
		t.id = g.name.ID
	}
	t.biotype = biotype(r, g, coding, implicit)
	t.tags(r)
	if !b.exons(t, n) {
		return nil
	}
	if coding {
		if err := b.codingRegion(t, n); err != nil {
			return err
		}
	}
	t.name = &Feature{Type: "Transcript", ID: t.id, Biotype: t.biotype}
	t.flags = t.marks()
	k := b.model.contigs[t.contig]
	if k == nil {
		k = &track{}
		b.model.contigs[t.contig] = k
	}
	k.transcripts = append(k.transcripts, t)
	b.model.count++
	return nil
}

// strand sets the strand that all parts share; if they do not, it warns and is false.
func (b *builder) strand(t *transcript, n *node) bool {
	strand := n.row.strand
	for _, parts := range [][]*row{n.exons, n.cds, n.utrs} {
		for _, p := range parts {
			if strand == '.' {
				strand = p.strand
			}
			if p.strand != strand && p.strand != '.' {
				b.warn(p, "%s is on another strand than its transcript (trans-splicing is not supported): the transcript is left out", p.kind)
				return false
			}
		}
	}
	if strand == '.' {
		b.warn(n.row, "%s has no strand: it is left out", n.row.kind)
		return false
	}
	t.forward = strand == '+'
	return true
}

// biotype is a transcript's class in Ensembl's terms.
func biotype(r *row, g *gene, coding, implicit bool) string {
	if !implicit {
		if bt := r.first("biotype", "transcript_biotype", "gene_biotype", "transcript_type"); bt != "" {
			return bt
		}
		switch {
		case r.kind == "mRNA" || coding:
			return "protein_coding"
		case r.kind != "transcript":
			return r.kind
		}
	}
	switch {
	case g.biotype != "":
		return g.biotype
	case coding:
		return "protein_coding"
	}
	return r.kind
}

// tags reads the marks of preferred and of incomplete transcripts.
func (t *transcript) tags(r *row) {
	for _, tag := range strings.Split(r.get("tag"), ",") {
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
func (b *builder) exons(t *transcript, n *node) bool {
	covered := n.exons
	if len(n.exons) == 0 {
		covered = append(append([]*row(nil), n.cds...), n.utrs...)
	}
	segs := make([]segment, len(covered))
	for i, r := range covered {
		segs[i] = segment{start: r.start, end: r.end}
	}
	sort.Slice(segs, func(i, j int) bool { return segs[i].start < segs[j].start })
	if len(n.exons) == 0 {
		segs = merged(segs)
	}
	for i := 1; i < len(segs); i++ {
		if segs[i].start < segs[i-1].end {
			b.warn(n.row, "transcript %q has overlapping exons (%d-%d and %d-%d): it is left out", t.id, segs[i-1].start+1, segs[i-1].end, segs[i].start+1, segs[i].end)
			return false
		}
	}
	for _, c := range n.cds {
		inside := false
		for _, s := range segs {
			inside = inside || c.start >= s.start && c.end <= s.end
		}
		if !inside {
			b.warn(c, "CDS of transcript %q lies outside its exons: the transcript is left out", t.id)
			return false
		}
	}
	t.start, t.end = segs[0].start, segs[len(segs)-1].end
	t.exons = segs
	t.cdnaLength = t.layOut(t.exons)
	return true
}

// merged joins segments, sorted by start, that overlap or touch.
func merged(segs []segment) []segment {
	out := segs[:1]
	for _, s := range segs[1:] {
		if last := &out[len(out)-1]; s.start <= last.end {
			last.end = max(last.end, s.end)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// index sorts the transcripts and computes the reach.
func (k *track) index() {
	sort.SliceStable(k.transcripts, func(i, j int) bool { return k.transcripts[i].start < k.transcripts[j].start })
	k.reach = make([]int, len(k.transcripts))
	reach := 0
	for i, t := range k.transcripts {
		reach = max(reach, t.end)
		k.reach[i] = reach
		k.mitochondrial = k.mitochondrial || t.code != nil && t.code.table == vertebrateMitochondrialCode
	}
}

package annotate

import (
	"bytes"
	"strings"
)

// nameless reports whether a transcript_id is none: empty, or one of those that NCBI's GTF gives to what has no
// transcript, a number each or, from 2019 to 2021, the same for all of a genome. They stand for a CDS or for their gene.
func nameless(id []byte) bool {
	return len(id) == 0 || bytes.HasPrefix(id, []byte("unassigned_transcript_")) || bytes.HasPrefix(id, []byte("unknown_transcript_"))
}

// addGTF takes a row of GTF: rows are linked by gene_id and transcript_id, and none of a gene or a transcript is needed.
func (p *parser) addGTF(r *record, kind partKind) {
	switch {
	case isRegulatory(r.kind):
		r.region.regulatory = append(r.region.regulatory, r.regulatory())
	case kind == noPart && isGene(string(r.kind)) && len(r.raw("transcript_id")) == 0 || string(r.kind) == "gene":
		p.describeGene(r)
	case kind == noPart:
		p.describeTranscript(r)
	default:
		p.stopRows = p.stopRows || kind == stopPart
		f := p.transcriptOf(r)
		if f == nil {
			p.faults.note(MissingParent, r.line, "%s without transcript_id and gene_id: it is left out", r.kind)
			return
		}
		p.addPart(f, r.part(kind), r.text)
	}
}

// describeGene takes the row of a gene; parts may have come before.
func (p *parser) describeGene(r *record) {
	p.describe(p.geneOf(r), r)
}

// describeTranscript takes the row of a transcript.
func (p *parser) describeTranscript(r *record) {
	p.describe(p.transcript(r), r)
}

// describe gives f the row that is its own.
func (p *parser) describe(f *feature, r *record) {
	if f.described {
		// A gene in several parts has a row for each.
		if !strings.Contains(r.get("exception"), "trans-splicing") && len(r.raw("part")) == 0 {
			p.faults.note(DuplicateID, r.line, "%s %q is described twice (before on line %d): this row is left out", r.kind, f.id, f.line)
		}
		return
	}
	own := p.feature(r, f.id)
	f.attributes, f.line, f.kind, f.start, f.end, f.strand, f.described = own.attributes, own.line, own.kind, own.start, own.end, own.strand, true
}

// transcriptOf is the transcript that a part belongs to, or nil if it does not say.
func (p *parser) transcriptOf(r *record) *feature {
	if len(r.raw("transcript_id")) == 0 && len(r.raw("gene_id")) == 0 {
		return nil
	}
	return p.transcript(r)
}

// transcript is the feature of the row's gene_id and transcript_id, made if this is the first row that has them. Both
// name it: a transcript_id may be that of all genes of a file, or count within each. Where there is no name, the protein
// distinguishes transcripts of a gene.
func (p *parser) transcript(r *record) *feature {
	id, gene := r.raw("transcript_id"), r.raw("gene_id")
	none := nameless(id)
	p.key = append(append(append(p.key[:0], gene...), 0), id...)
	if none {
		p.key = append(append(p.key, 0), r.raw("protein_id")...)
	}
	features := r.region.features
	if f := features[string(p.key)]; f != nil {
		return f
	}
	key := string(p.key)
	alone := "transcript\x00" + string(id) // whatever the gene
	if f := features[alone]; f != nil && !none {
		switch {
		case len(gene) == 0:
			return f
		case f.adoptable:
			f.adoptable = false
			f.parent.children--
			f.parent = p.geneOf(r)
			f.parent.children++
			features[key] = f
			return f
		}
	}
	f := p.feature(r, string(id))
	f.unnamed, f.adoptable = none, len(gene) == 0
	features[key] = f
	if !none && features[alone] == nil {
		features[alone] = f
	}
	p.features = append(p.features, f)
	f.parent = p.geneOf(r)
	f.parent.children++
	return f
}

// geneOf is the feature of the row's gene_id, made if no row describes it yet. A transcript without gene_id is its own
// gene.
func (p *parser) geneOf(r *record) *feature {
	id := r.get("gene_id")
	key := "gene\x00" + id
	if id == "" {
		id = r.get("transcript_id")
		key += "\x00" + id
	}
	f := r.region.features[key]
	if f == nil {
		f = p.feature(r, id)
		f.kind, f.locus = "gene", true
		r.region.features[key] = f
		p.features = append(p.features, f)
	}
	return f
}

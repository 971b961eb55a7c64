package annotate

import "strings"

// unassigned begins the names that NCBI's GTF gives to transcripts without one: they stand for a CDS or for their gene.
const unassigned = "unassigned_transcript_"

// addGTF takes a row of GTF: rows are linked by gene_id and transcript_id, and none of a gene or a transcript is needed.
func (p *parser) addGTF(r *record, kind partKind) {
	switch {
	case isRegulatory(r.kind):
		r.region.regulatory = append(r.region.regulatory, r.regulatory())
	case string(r.kind) == "gene":
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
		f.add(r.part(kind), r.text)
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

// transcript is the feature of the row's transcript_id, made if this is the first row that has it.
func (p *parser) transcript(r *record) *feature {
	raw := r.raw("transcript_id")
	if f := r.region.features[string(raw)]; f != nil && len(raw) > 0 {
		return f
	}
	id := string(raw)
	if id == "" { // the CDS of a microbe in older files: the protein or the gene tells them apart
		id = "\x00" + r.get("protein_id") + "\x00" + r.get("gene_id")
		if f := r.region.features[id]; f != nil {
			return f
		}
	}
	f := p.feature(r, id)
	f.unnamed = len(raw) == 0 || strings.HasPrefix(id, unassigned)
	r.region.features[id] = f
	p.features = append(p.features, f)
	f.parent = p.geneOf(r)
	f.parent.children++
	return f
}

// geneOf is the feature of the row's gene_id, made if no row describes it yet.
func (p *parser) geneOf(r *record) *feature {
	id := r.get("gene_id")
	f := r.region.features["gene\x00"+id]
	if f == nil {
		f = p.feature(r, id)
		f.kind = "gene"
		r.region.features["gene\x00"+id] = f
		p.features = append(p.features, f)
	}
	return f
}

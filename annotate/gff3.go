package annotate

import (
	"bytes"
	"strings"
)

// orphan is a part whose parent was not seen when it was read: children may come first.
type orphan struct {
	part
	text   []byte
	region *region
	parent string
}

// addGFF3 takes a row of GFF3.
func (p *parser) addGFF3(r *record, kind partKind) {
	if kind == noPart {
		p.addFeature(r)
		return
	}
	parents := r.parents
	if len(parents) == 0 {
		switch kind {
		case cdsPart:
			p.addLoneCDS(r)
		case exonPart:
			p.faults.note(MissingParent, r.line, "exon without Parent: it is left out")
		}
		return // untranslated ends of viral genomes are annotated without a gene
	}
	x := r.part(kind)
	for len(parents) > 0 {
		var id []byte
		id, parents, _ = bytes.Cut(parents, []byte(","))
		if f := p.parentOf(r, id); f != nil {
			p.addPart(f, x, r.text)
		} else if f := r.region.features[decode(string(id))]; f != nil {
			p.addPart(f, x, r.text)
		} else {
			p.pending = append(p.pending, orphan{part: x, text: bytes.Clone(r.text), region: r.region, parent: decode(string(id))})
		}
	}
}

// parentOf is the feature of the given ID on the row's contig; nil if none is known yet.
func (p *parser) parentOf(r *record, id []byte) *feature {
	last := &p.parent
	if last.region == r.region && bytes.Equal(last.id, id) {
		return last.feature
	}
	f := r.region.features[string(id)]
	if f != nil {
		last.region, last.id, last.feature = r.region, append(last.id[:0], id...), f
	}
	return f
}

// addFeature takes a row that is not a part.
func (p *parser) addFeature(r *record) {
	if isRegulatory(r.kind) {
		r.region.regulatory = append(r.region.regulatory, r.regulatory())
		return
	}
	id := r.get("ID")
	if old := r.region.features[id]; old != nil {
		// A gene in several parts has a row for each.
		if !bytes.Contains(r.raw("exception"), []byte("trans-splicing")) && len(r.raw("part")) == 0 {
			p.faults.note(DuplicateID, r.line, "%s %q is described twice (before on line %d): this row is left out", r.kind, id, old.line)
		}
		return
	}
	f := p.feature(r, id)
	r.region.features[id] = f
	p.features = append(p.features, f)
}

// addLoneCDS takes a coding segment without a parent: it is its own gene, or belongs to the one that has its ID.
func (p *parser) addLoneCDS(r *record) {
	id := r.get("ID")
	if id == "" && r.first("protein_id", "locus_tag", "gene", "Name", "product") == "" {
		p.faults.note(MissingParent, r.line, "CDS without ID, Parent or any other name: it is left out")
		return
	}
	key := "CDS\x00" + id // other features may have the same
	f := r.region.features[key]
	if id == "" || f == nil {
		f = p.feature(r, id)
		f.unnamed = true
		p.features = append(p.features, f)
		r.region.features[key] = f
	}
	p.addPart(f, r.part(cdsPart), r.text)
}

// resolve finds the parents that came after their children, and those of features.
func (p *parser) resolve() error {
	for _, o := range p.pending {
		if f := o.region.features[o.parent]; f != nil {
			p.addPart(f, o.part, o.text)
			continue
		}
		p.faults.note(MissingParent, int(o.line), "%s has the parent %q, which no row describes: it is left out", o.kind, o.parent)
	}
	p.pending = nil
	for _, f := range p.features {
		if f.linked || f.parent != nil {
			continue
		}
		id, _, _ := strings.Cut(f.first("Parent", "Derives_from"), ",")
		if id == "" {
			continue
		}
		parent := f.region.features[id]
		if parent == nil && isProtein(f.kind) {
			p.faults.note(MissingParent, f.line, "%s %q has the parent %q, which no row describes: it is left out", f.kind, f.id, id)
			f.derived = true
			continue
		}
		if parent == nil || parent == f {
			p.faults.note(MissingGene, f.line, "%s %q has the parent %q, which no row describes: it is its own gene", f.kind, f.id, id)
			continue
		}
		if f.parent = parent; f.counts() {
			parent.children++
		}
	}
	for _, f := range p.features {
		if !f.linked && f.kind == "miRNA" && f.parent != nil && isPrecursor(f.parent.kind) {
			f.derive()
		}
		if !f.linked && isProtein(f.kind) {
			f.giveAway()
		}
	}
	return nil
}

// counts reports whether f can be a transcript, a gene or a protein of its parent, and not a mere place such as a
// polyA_site.
func (f *feature) counts() bool {
	return len(f.exons)+len(f.cds)+len(f.utrs) > 0 || isTranscript(f.kind) || isGene(f.kind) || isProtein(f.kind)
}

// isProtein reports whether rows of this type are proteins.
func isProtein(kind string) bool { return kind == "protein" || kind == "polypeptide" }

// giveAway gives the CDS of f, a protein, to the transcript that it derives from, unless that has it, too, as in TAIR's
// files: a protein is no transcript.
func (f *feature) giveAway() {
	if f.derived || f.parent == nil {
		return
	}
	if len(f.parent.cds) == 0 {
		f.parent.cds, f.parent.texts, f.parent.utrs = f.cds, f.texts, append(f.parent.utrs, f.utrs...)
	}
	f.derived = true
	f.parent.children--
}

// derive makes f, a mature microRNA, a part of the precursor that is its parent.
func (f *feature) derive() {
	f.derived = true
	f.parent.children--
	f.parent.mature = append(f.parent.mature, Span{f.start, f.end})
}

// isPrecursor reports whether rows of this type are transcripts that microRNAs are cut from.
func isPrecursor(kind string) bool {
	switch kind {
	case "primary_transcript", "miRNA_primary_transcript", "pre_miRNA", "pri_miRNA":
		return true
	}
	return false
}

// isLandmark reports whether rows of this type describe stretches of sequence: they may have any coordinates and are
// nobody's parent.
func isLandmark(kind []byte) bool {
	switch string(kind) {
	case "region", "chromosome", "contig", "scaffold", "supercontig", "biological_region", "match", "match_part", "cDNA_match",
		"sequence_feature", "mobile_genetic_element", "origin_of_replication", "intron":
		return true
	}
	return false
}

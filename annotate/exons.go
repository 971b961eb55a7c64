package annotate

// spliceSite is the number of bases at each end of an intron without which it is not spliced out.
const spliceSite = 2

// maxRoll bounds the places that are tried for one deletion or duplication: longer repeats around a whole exon are not known.
const maxRoll = 1000

// wholeExons describes the protein where v takes out or doubles whole exons, from intron to intron: the nomenclature predicts
// it as if they were spliced like the others. Where the start or the stop codon is among them no prediction is reliable. It is
// "" for other changes, those of the first or the last exon among them.
func (t *transcript) wholeExons(v *variant) string {
	v = t.sees(v)
	if t.cds == nil || t.slipsBack() || v.kind != svNone {
		return ""
	}
	d := v.describe(true, t.start, t.end)
	deleted := d.kind == hgvsDeletion
	if !deleted && d.kind != hgvsDuplication {
		return ""
	}
	// The molecule is the same wherever it stands: what one of its places leaves of the splice sites is there.
	taken, ok := t.exonsIn(d.start, d.end, deleted)
	roll := v.roll
	if !deleted {
		roll -= d.end - d.start // from behind the bases that are doubled to before them
	}
	for by := 1; !ok && by <= min(roll, maxRoll); by++ {
		taken, ok = t.exonsIn(d.start-by, d.end-by, deleted)
	}
	if !ok || !t.codes(taken.Start, taken.End) {
		return ""
	}
	from, to := t.span(t.cds, taken.Start, taken.End)
	if from < t.pad+3 || to <= from || to > t.cdsLen-3 {
		return unknownProtein
	}
	var c codonChange
	if deleted {
		t.codonChange(&c, from, to, "")
	} else {
		t.codonChange(&c, to, to, string(t.coding()[from:to]))
		from = to
	}
	p := proteinDiff{t: t, from: from, to: to, alt: c.inserted(), window: &c}
	if (c.altLen-c.refLen)%3 != 0 {
		return p.shifted()
	}
	return p.inFrame()
}

// exonsIn is the stretch of the exons that lie whole in [start,end), whose ends are in introns. ok is false if there are none, or
// if splice sites go: those beside a stretch that is deleted, or those inside one that is doubled.
func (t *transcript) exonsIn(start, end int, deleted bool) (taken Span, ok bool) {
	inner, outer := spliceSite, 0
	if deleted {
		inner, outer = 0, spliceSite
	}
	before, behind := false, false
	for _, x := range t.exons {
		switch {
		case x.end+outer <= start:
			before = true
		case x.start-outer >= end:
			behind = true
		case x.start-inner < start || x.end+inner > end:
			return Span{}, false
		case taken.End == 0:
			taken = Span{x.start, x.end}
		default:
			taken = Span{min(taken.Start, x.start), max(taken.End, x.end)}
		}
	}
	return taken, before && behind && taken.End > 0
}

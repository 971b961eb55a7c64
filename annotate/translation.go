package annotate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// slippage is by how many bases coding segments may overlap where the ribosome slips back, without a word about it.
const slippage = 3

// codingRegion sets what concerns translation. It is false if the transcript is to be left out.
func (b *builder) codingRegion(t *transcript, f *feature) (bool, error) {
	rows := b.inOrder(f.cds, t.forward)
	if !b.follow(t, f, rows) {
		return false, nil
	}
	t.cds = b.newSegments(len(rows))
	for i := range rows {
		t.cds[i] = segment{start: int(rows[i].start), end: int(rows[i].end)}
	}
	bases := t.layOut(t.cds)
	t.cdsStart, t.cdsEnd = t.cds[0].start, t.cds[len(t.cds)-1].end
	if !t.forward {
		t.cdsStart, t.cdsEnd = t.cds[len(t.cds)-1].start, t.cds[0].end
	}
	first := &rows[0]
	attrs := f.of(first)
	if err := b.setCode(t, attrs, int(first.line)); err != nil {
		return false, err
	}
	t.nameProtein(f, rows)
	t.describe(attrs)
	t.partial(f, attrs)
	if first.phase > 0 && !b.wholeDespitePhase(t, first, bases) {
		t.pad = 3 - int(first.phase)
		t.startNF = true
	}
	t.cdsLen = t.pad + bases
	b.checkPhases(t, rows)
	atEnd := t.cdsEnd == t.end
	if !t.forward {
		atEnd = t.cdsStart == t.start
	}
	t.readsOn = atEnd && len(t.exons) == 1 && !t.endNF
	if f.linked && b.addStop {
		b.findStop(t)
	}
	b.translationExceptions(t, f, rows)
	b.checkTranslation(t)
	return true, nil
}

// inOrder returns rows in transcript direction, until the next call.
func (b *builder) inOrder(rows []part, forward bool) []part {
	b.rows = append(b.rows[:0], rows...)
	slices.SortFunc(b.rows, func(x, y part) int {
		if forward {
			return cmp.Compare(x.start, y.start)
		}
		return cmp.Compare(y.start, x.start)
	})
	return b.rows
}

// follow reports whether the CDS rows of a transcript follow each other. They share bases only where the ribosome slips back.
func (b *builder) follow(t *transcript, f *feature, rows []part) bool {
	slips := false
	for i := range rows {
		if i == 0 || rows[i].text != rows[i-1].text {
			slips = slips || strings.Contains(f.of(&rows[i]).get("exception"), "ribosomal slippage")
		}
		if i == 0 {
			continue
		}
		if !follows(&rows[i-1], &rows[i], t.forward) {
			b.faults.note(OverlappingCDS, int(rows[i].line), "CDS of %s lies within the CDS before it: the transcript is left out", t.said())
			return false
		}
		if slips {
			continue
		}
		if n := min(rows[i-1].end, rows[i].end) - max(rows[i-1].start, rows[i].start); n > slippage {
			b.faults.note(OverlappingCDS, int(rows[i].line), "CDS of %s shares %d bases with the CDS before it: the transcript is left out", t.said(), n)
			return false
		}
	}
	return true
}

// nameProtein sets the protein's name by the transcript's CDS rows: its accession and version, or else the transcript's id.
func (t *transcript) nameProtein(f *feature, rows []part) {
	first := &rows[0]
	attrs := f.of(first)
	t.protein = accession(attrs.first("protein_id", "ID"))
	if attrs.raw("protein_id") == nil && slices.ContainsFunc(rows[1:], func(r part) bool {
		return r.text != first.text && f.of(&r).first("ID") != attrs.first("ID")
	}) {
		t.protein = "" // Helixer and Tiberius number the rows: none of the numbers is the protein's
	}
	if v := attrs.first("protein_version", "version"); v != "" && t.protein != "" && !strings.Contains(t.protein, ".") && attrs.raw("protein_id") != nil {
		t.protein += "." + v
	}
	if t.protein == "" {
		t.protein = t.id
	}
}

// follows reports whether y begins and ends behind x in transcript direction: then they can share bases, but none of them
// is part of the other.
func follows(x, y *part, forward bool) bool {
	if !forward {
		x, y = y, x
	}
	return x.start < y.start && x.end < y.end
}

// setCode sets the genetic code: the row's own, or what the options say for the contig.
func (b *builder) setCode(t *transcript, a attributes, line int) error {
	if s := a.get("transl_table"); s != "" {
		table, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("line %d: transl_table %q is not a number", line, s)
		}
		if t.code = codeOf(table); t.code == nil {
			return fmt.Errorf("line %d: transl_table %d is not one of NCBI's genetic codes", line, table)
		}
		return nil
	}
	table, named := b.codes.of(t.contig.Name)
	if named {
		b.faults.note(NamedCode, line, "CDS of transcript %q on contig %q is read with genetic code %d because of the contig's name", t.id, t.contig.Name, table)
	}
	t.code = codeOf(table)
	return nil
}

// checkPhases compares the phases of the rows with the bases before them.
func (b *builder) checkPhases(t *transcript, rows []part) {
	for i := range t.cds {
		t.cds[i].offset += t.pad
		want := int8((3 - t.cds[i].offset%3) % 3)
		if p := rows[i].phase; i > 0 && p >= 0 && p != want {
			b.faults.note(WrongPhase, int(rows[i].line), "CDS of transcript %q has phase %d where the bases before it give %d: the bases are followed", t.id, p, want)
		}
	}
}

// wholeDespitePhase reports whether a coding sequence whose first row says that it begins inside a codon is plainly whole
// without that: it has a start codon, a stop codon at its end, and none between.
func (b *builder) wholeDespitePhase(t *transcript, first *part, bases int) bool {
	if bases%3 != 0 || bases < 6 || t.startNF {
		return false
	}
	c := t.appendCoding(b.coding[:0])
	b.coding = c
	if !isCodon(t.code.starts, c[0], c[1], c[2]) || innerStop(t.code, c) != bases-3 {
		return false
	}
	b.faults.note(WrongPhase, int(first.line), "CDS of transcript %q has phase %d, but it is whole from its first base to its stop codon: the phase is not followed", t.id, first.phase)
	return true
}

// innerStop is the offset of the first stop codon of a coding sequence, or -1.
func innerStop(code *geneticCode, coding []byte) int {
	for i := 0; i+3 <= len(coding); i += 3 {
		if code.amino(coding[i], coding[i+1], coding[i+2]) == '*' {
			return i
		}
	}
	return -1
}

// partial reads NCBI's marks of a coding sequence that is cut: start_range and end_range with an open side, or, in
// GTF, which has neither, no row of a start or stop codon.
func (t *transcript) partial(f *feature, a attributes) {
	if a.get("partial") != "true" {
		return
	}
	openStart := strings.HasPrefix(a.get("start_range"), ".")
	openEnd := strings.HasSuffix(a.get("end_range"), ".")
	if !t.forward {
		openStart, openEnd = openEnd, openStart
	}
	if f.linked {
		openStart, openEnd = len(f.starts) == 0, len(f.stops) == 0
	}
	t.startNF = t.startNF || openStart
	t.endNF = t.endNF || openEnd
}

// findStop gives the coding sequence of a GTF that has no stop_codon rows the stop codon that follows it in its exon.
func (b *builder) findStop(t *transcript) {
	if t.endNF || t.cdsLen%3 != 0 {
		return
	}
	c := t.appendCoding(b.coding[:0])
	b.coding = c
	if n := len(c); n < 3 || t.code.amino(c[n-3], c[n-2], c[n-1]) == '*' {
		return
	}
	last := &t.cds[len(t.cds)-1]
	start, end := last.end, last.end+3
	if !t.forward {
		start, end = last.start-3, last.start
	}
	if !slices.ContainsFunc(t.exons, func(x segment) bool { return x.start <= start && end <= x.end }) {
		return
	}
	stop := t.appendStrand(nil, start, end)
	if t.code.amino(stop[0], stop[1], stop[2]) != '*' {
		return
	}
	b.faults.note(AddedStop, t.line, "transcript %q: the stop codon after its CDS is added to it", t.id)
	t.cdsLen += 3
	if t.forward {
		last.end, t.cdsEnd = end, end
	} else {
		last.start, t.cdsStart = start, start
	}
}

// translationExceptions reads NCBI's transl_except, (pos:123..125,aa:Sec) or pos:complement(…), and the rows with which
// Ensembl and GENCODE mark selenocysteine.
func (b *builder) translationExceptions(t *transcript, f *feature, rows []part) {
	var seen []string
	for i := range rows {
		if i > 0 && rows[i].text == rows[i-1].text {
			continue
		}
		value := f.of(&rows[i]).get("transl_except")
		if value == "" || slices.Contains(seen, value) {
			continue
		}
		seen = append(seen, value)
		for _, item := range strings.Split(strings.ReplaceAll(value, " ", ""), "),(") {
			if !t.except(item) {
				b.faults.note(UnknownException, int(rows[i].line), "transl_except %q of transcript %q is not understood: it is left out", value, t.id)
			}
		}
	}
	for _, s := range f.seleno {
		first := int(s.start)
		if !t.forward {
			first = int(s.end) - 1
		}
		t.exceptAt(first, 'U')
	}
}

// except reads one translation exception; false if it is not understood.
func (t *transcript) except(item string) bool {
	at, name, ok := strings.Cut(strings.Trim(item, "()"), ",aa:")
	at = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(at, "pos:"), "complement("), ")")
	if list, isJoin := strings.CutPrefix(at, "join("); isJoin { // a codon across an intron: its first base is enough
		first, rest, _ := strings.Cut(list, ",")
		if at = first; !t.forward {
			at = rest[strings.LastIndexByte(rest, ',')+1:]
		}
	}
	from, to, isRange := strings.Cut(at, "..")
	if !isRange {
		to = from
	}
	s, err1 := strconv.Atoi(from)
	e, err2 := strconv.Atoi(to)
	amino := oneLetter(strings.TrimRight(name, ")"))
	if !ok || err1 != nil || err2 != nil || amino == 0 {
		return false
	}
	first := s - 1
	if !t.forward {
		first = e - 1
	}
	t.exceptAt(first, amino)
	return true
}

// exceptAt makes the codon that begins at base first of the contig read as amino.
func (t *transcript) exceptAt(first int, amino byte) {
	offset := t.locate(t.cds, first)
	if length := t.contig.Len() / 2; offset < 0 && t.end > length {
		offset = t.locate(t.cds, first+length)
	}
	if offset >= 0 {
		t.exceptions = append(t.exceptions, exception{codon: offset / 3, amino: amino})
	}
}

// oneLetter is the symbol of a three-letter amino acid name, '*' for TERM, 'X' for OTHER, and 0 for any other.
func oneLetter(name string) byte {
	switch name {
	case "TERM":
		return '*'
	case "OTHER":
		return unknownAmino
	}
	for symbol, n := range threeLetter {
		if n != "" && n == name {
			return byte(symbol)
		}
	}
	return 0
}

// checkTranslation notes a coding sequence that is not whole codons, or has a stop codon inside, and whether it has a start
// codon.
func (b *builder) checkTranslation(t *transcript) {
	last := (t.cdsLen - 1) / 3
	completed := slices.ContainsFunc(t.exceptions, func(e exception) bool { return e.codon == last && e.amino == '*' })
	if t.cdsLen%3 != 0 && !t.endNF && !completed {
		b.faults.note(CutCodon, t.line, "CDS of transcript %q has %d bases, not a multiple of three", t.id, t.cdsLen-t.pad)
	}
	// A change of the first codon is one like any other where it isn't known that translation starts there.
	t.startCodon = false
	if t.pad == 0 && !t.startNF && t.cdsLen >= 3 {
		c := t.appendCodingPart(b.coding[:0], 0, 3)
		t.startCodon = isCodon(t.code.annotated, c[0], c[1], c[2])
	}
	if b.stopsOf != t.code {
		b.stopsOf, b.stops = t.code, t.code.stops()
	}
	if b.unexpectedStop(t) {
		b.faults.note(InnerStop, t.line, "CDS of transcript %q has a stop codon before its end", t.id)
	}
}

// translatedAtOnce is how many bases of a coding sequence are searched for stop codons at once, whole codons.
const translatedAtOnce = 600

// unexpectedStop reports whether there is a stop codon inside the coding sequence of t that no exception explains. Those of a
// protein with selenocysteine become exceptions.
func (b *builder) unexpectedStop(t *transcript) bool {
	found := false
	for from := 0; from+6 <= t.cdsLen; from += translatedAtOnce { // without the last codon
		c := t.appendCodingPart(b.coding[:0], from, min(from+translatedAtOnce, t.cdsLen-3))
		b.coding = c
		for i := 0; i+3 <= len(c); i += 3 {
			codon := (from + i) / 3
			switch {
			case b.stops[stopIndex(c[i], c[i+1], c[i+2])] == 0 || t.excepted(codon):
			case t.labels.seleno && string(c[i:i+3]) == "TGA":
				t.exceptions = append(t.exceptions, exception{codon: codon, amino: 'U'})
			case !t.labels.seleno:
				return true
			default:
				found = true // there may be others that become exceptions
			}
		}
	}
	return found
}

// excepted reports whether a translation exception concerns codon i.
func (t *transcript) excepted(i int) bool {
	return slices.ContainsFunc(t.exceptions, func(e exception) bool { return e.codon == i })
}

// appendCoding appends the coding sequence in transcript direction, with pad bases N before it.
func (t *transcript) appendCoding(dst []byte) []byte {
	for range t.pad {
		dst = append(dst, 'N')
	}
	for _, s := range t.cds {
		dst = t.appendStrand(dst, s.start, s.end)
	}
	return dst
}

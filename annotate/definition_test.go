package annotate

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file decides consequences a second time, slowly and simply: it takes a transcript's coordinates, lays everything
// out on the strand of the transcript, applies the change to the sequence, translates before and after, and reads the
// terms off their definitions. It calls nothing of the engine.

// message is a transcript laid out on its own strand: all coordinates are offsets in seq and rise in its direction.
type message struct {
	seq          string // the whole contig on the strand of the transcript
	forward      bool
	start, end   int
	exons        []Span
	cds          []Span // nil if not coding
	pad          int    // bases missing before the first
	table        int
	startUnknown bool
	endUnknown   bool
	exceptions   map[int]byte
	decay        bool
	circular     bool
}

// newMessage lays out a transcript of a contig; reversed is its other strand.
func newMessage(v *View, seq, reversed string) *message {
	m := &message{
		seq: seq, forward: v.Forward, table: v.GeneticCode, startUnknown: v.StartUnknown, endUnknown: v.EndUnknown,
		exceptions: map[int]byte{}, decay: v.Biotype == "nonsense_mediated_decay",
	}
	n := len(m.seq)
	turn := func(s Span) Span { return s }
	if !v.Forward {
		m.seq = reversed
		turn = func(s Span) Span { return Span{n - s.End, n - s.Start} }
	}
	for _, x := range v.Exons {
		m.exons = append(m.exons, turn(x))
	}
	for _, x := range v.CDS {
		m.cds = append(m.cds, turn(x.Span))
	}
	if !v.Forward {
		slices.Reverse(m.exons)
		slices.Reverse(m.cds)
	}
	m.start, m.end = m.exons[0].Start, m.exons[len(m.exons)-1].End
	if len(m.cds) > 0 {
		m.pad = v.Pad()
		for i := range m.codons() {
			if a := v.Exception(i); a != 0 {
				m.exceptions[i] = a
			}
		}
	}
	return m
}

// codons is the number of codons, the last one perhaps in part.
func (m *message) codons() int {
	n := m.pad
	for _, x := range m.cds {
		n += x.End - x.Start
	}
	return (n + 2) / 3
}

// change is the replacement of seq[start:end] by alt.
type change struct {
	start, end int
	alt        string
}

// placements are all places on the forward strand where the change makes the same sequence, the leftmost first.
func placements(seq string, c change) []change {
	ref := seq[c.start:c.end]
	alt := c.alt
	for ref != "" && alt != "" && ref[len(ref)-1] == alt[len(alt)-1] {
		ref, alt = ref[:len(ref)-1], alt[:len(alt)-1]
		c.end--
	}
	for ref != "" && alt != "" && ref[0] == alt[0] {
		ref, alt = ref[1:], alt[1:]
		c.start++
	}
	c.alt = alt
	if ref != "" && alt != "" {
		return []change{c}
	}
	all := []change{c}
	moved := ref + alt // one of them is empty
	for x, s := c, moved; x.start > 0 && seq[x.start-1] == s[len(s)-1]; {
		s = s[len(s)-1:] + s[:len(s)-1]
		x.start, x.end = x.start-1, x.end-1
		if alt != "" {
			x.alt = s
		}
		all = append(all, x)
	}
	slices.Reverse(all)
	for x, s := c, moved; x.end < len(seq) && seq[x.end] == s[0]; {
		s = s[1:] + s[:1]
		x.start, x.end = x.start+1, x.end+1
		if alt != "" {
			x.alt = s
		}
		all = append(all, x)
	}
	return all
}

// onStrand returns the change on the strand of m.
func (m *message) onStrand(c change) change {
	if m.forward {
		return c
	}
	n := len(m.seq)
	alt := []byte(c.alt)
	slices.Reverse(alt)
	for i, b := range alt {
		alt[i] = "TGCA"[strings.IndexByte("ACGT", b)]
	}
	return change{n - c.end, n - c.start, string(alt)}
}

// placement is the one that counts: the leftmost on the contig, unless one further right lies inside an exon and the
// leftmost does not.
func (m *message) placement(all []change) change {
	inside := func(c change) bool {
		return slices.ContainsFunc(m.exons, func(x Span) bool {
			if c.start == c.end {
				return x.Start < c.start && c.start < x.End
			}
			return x.Start <= c.start && c.end <= x.End
		})
	}
	first := m.onStrand(all[0])
	if first.start == first.end && (first.start <= m.start || first.start >= m.end) || first.start != first.end && (first.end <= m.start || first.start >= m.end) {
		return first // beside the transcript, it is not examined further
	}
	if first.start <= m.start && first.end >= m.end {
		return first
	}
	for _, c := range all {
		if c := m.onStrand(c); inside(c) {
			return c
		}
	}
	return first
}

// terms are the terms by the definitions, sorted.
func (m *message) terms(all []change) []string {
	c := m.placement(all)
	set := map[string]bool{}
	add := func(name string, ok bool) {
		if ok {
			set[name] = true
		}
	}
	insertion := c.start == c.end
	touches := func(from, to int) bool { // for an insertion both neighbours must be in [from,to)
		if insertion {
			return from < c.start && c.start < to
		}
		return c.start < to && c.end > from
	}
	switch {
	case c.start <= m.start && c.end >= m.end && len(c.alt) < c.end-c.start:
		return []string{"transcript_ablation"}
	case !touches(m.start, m.end):
		switch {
		case c.end <= m.start && m.start-c.end < DefaultDistance:
			return []string{"upstream_gene_variant"}
		case c.start >= m.end && c.start-m.end < DefaultDistance:
			return []string{"downstream_gene_variant"}
		}
		return nil
	}
	// Exons, gaps between them, and introns, which are gaps of more than 13 bases.
	inExon, inGap := false, false
	for _, x := range m.exons {
		inExon = inExon || touches(x.Start, x.End) || insertion && (c.start == x.Start || c.start == x.End)
	}
	essential := false
	for i := 1; i < len(m.exons); i++ {
		s, e := m.exons[i-1].End, m.exons[i].Start
		if e-s <= 13 {
			inGap = inGap || touches(s, e)
			continue
		}
		each := func(f func(touches func(from, to int) bool)) {
			if insertion || len(c.alt) != c.end-c.start {
				f(touches)
				return
			}
			for p := c.start; p < c.end; p++ {
				if m.seq[p] != c.alt[p-c.start] {
					f(func(from, to int) bool { return from <= p && p < to })
				}
			}
		}
		each(func(touches func(from, to int) bool) {
			at := func(places ...int) bool { return insertion && slices.Contains(places, c.start) }
			add("splice_donor_variant", touches(s, s+2))
			add("splice_acceptor_variant", touches(e-2, e))
			add("splice_donor_5th_base_variant", touches(s+4, s+5))
			add("splice_donor_region_variant", touches(s+2, s+6))
			add("splice_polypyrimidine_tract_variant", touches(max(s, e-17), e-2))
			add("splice_region_variant", touches(s-3, s) || touches(s+2, s+8) || touches(e-8, e-2) || touches(e, e+3) || at(s, e, s+2, e-2))
			add("intron_variant", touches(s+2, e-2) || at(s+2, e-2))
		})
		essential = set["splice_donor_variant"] || set["splice_acceptor_variant"]
	}
	// Of what lies within each other only the narrowest is named.
	if set["splice_donor_5th_base_variant"] {
		delete(set, "splice_donor_region_variant")
	}
	narrow := set["splice_donor_5th_base_variant"] || set["splice_donor_region_variant"]
	if essential || narrow {
		delete(set, "splice_region_variant")
	}

	if m.cds == nil {
		add("non_coding_transcript_exon_variant", inExon)
		add("non_coding_transcript_variant", !inExon)
	} else {
		first, last := m.cds[0].Start, m.cds[len(m.cds)-1].End
		before, after := c.start < first, c.end > last
		if insertion {
			before, after = c.start <= first, c.start >= last
		}
		add("5_prime_UTR_variant", (inExon || inGap) && before && m.start < first && (insertion || c.end > m.start))
		add("3_prime_UTR_variant", (inExon || inGap) && after && m.end > last && (insertion || c.start < m.end))
		for _, name := range m.codingTerms(c, inGap && touches(first, last)) {
			set[name] = true
		}
	}
	add("NMD_transcript_variant", m.decay)
	add("coding_transcript_variant", len(set) == 0)
	var names []string
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// coding is the coding sequence, and after what follows it in the transcript, or on the contig where nothing more of
// the transcript is known.
func (m *message) coding() (coding, after string) {
	var k, a strings.Builder
	k.WriteString(strings.Repeat("N", m.pad))
	for _, x := range m.cds {
		k.WriteString(m.seq[x.Start:x.End])
	}
	last := m.cds[len(m.cds)-1].End
	for _, x := range m.exons {
		if x.End > last {
			a.WriteString(m.seq[max(x.Start, last):x.End])
		}
	}
	if len(m.exons) == 1 && last == m.end && !m.endUnknown {
		const far = 15_000
		a.WriteString(m.seq[last:min(len(m.seq), last+far)])
		if m.circular && last+far > len(m.seq) {
			a.WriteString(m.seq[:last+far-len(m.seq)])
		}
	}
	return k.String(), a.String()
}

const bases = "TCAG"

// aminoOf reads the genetic code.
func (m *message) aminoOf(codon string) byte {
	const aminos = "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG" // tables 1 and 11
	i := 0
	for _, b := range []byte(codon) {
		j := strings.IndexByte(bases, b)
		if j < 0 {
			return 'X'
		}
		i = 4*i + j
	}
	return aminos[i]
}

// starts are the codons that begin translation: those that an annotated start may have, or those in wide use.
func (m *message) starts(annotated bool) []string {
	switch {
	case m.table == 1 && annotated:
		return []string{"ATG", "CTG", "TTG"}
	case m.table == 1:
		return []string{"ATG"}
	case annotated:
		return []string{"ATT", "ATC", "ATA", "ATG", "CTG", "GTG", "TTG"}
	}
	return []string{"ATG", "GTG", "TTG"}
}

// codingTerms are the terms of the coding sequence; gap says that a gap in it that is no intron is touched.
func (m *message) codingTerms(c change, gap bool) []string {
	old, after := m.coding()
	hasStart := m.pad == 0 && !m.startUnknown && len(old) >= 3 && slices.Contains(m.starts(true), old[:3])
	hasStop := !m.endUnknown && len(old)%3 == 0 && m.stopAt(old, len(old)/3-1)

	lo, hi := m.touched(c, len(old))
	if lo < 0 {
		if gap {
			return []string{"coding_sequence_variant"}
		}
		return nil
	}

	inCDS := func(p int) bool {
		return slices.ContainsFunc(m.cds, func(x Span) bool { return x.Start <= p && p < x.End })
	}
	whole := c.start == c.end || inCDS(c.start) && inCDS(c.end-1) // what lies between two coding pieces may go too: they fuse
	switch {
	case overlapping(m.cds) && whole:
		return m.slipTerms(c, old)
	case !whole:
		return m.cutTerms(c, old, after, lo, hi, hasStart, hasStop)
	}
	now := old[:lo] + c.alt + old[hi:]
	return m.compare(old, now, m.upstream(m.cds[0].Start), after, lo, hi, hasStart)
}

// touched are the bases [lo,hi) of the coding sequence, of the given length, that c replaces; -1 if there are none.
func (m *message) touched(c change, length int) (lo, hi int) {
	lo, hi = -1, -1
	offset := m.pad
	for _, x := range m.cds {
		if c.start == c.end {
			if x.Start <= c.start && c.start <= x.End && lo < 0 {
				lo, hi = offset+c.start-x.Start, offset+c.start-x.Start
			}
		} else if c.start < x.End && c.end > x.Start {
			if lo < 0 {
				lo = offset + max(c.start, x.Start) - x.Start
			}
			hi = offset + min(c.end, x.End) - x.Start
		}
		offset += x.End - x.Start
	}
	if c.start == c.end && (lo == m.pad || lo == length) {
		lo = -1 // beside it
	}
	return lo, hi
}

// frameshift is how HGVS describes a shift of the reading frame: the first residue that differs and where the new stop
// comes, as "Arg97ProfsTer23"; "" where another description is due.
func (m *message) frameshift(c change) string {
	old, after := m.coding()
	lo, hi := m.touched(c, len(old))
	now := old[:lo] + c.alt + old[hi:] + after
	for i := lo / 3; 3*i+3 <= min(len(old), len(now)); i++ {
		before, changed := m.residue(old, i, old), m.residue(now, i, old)
		if before == changed && before != '*' {
			continue
		}
		if before == '*' || changed == '*' || before == 'X' {
			return ""
		}
		stop := "?"
		for j := i; 3*j+3 <= len(now); j++ {
			if m.amino(now, j) == '*' {
				stop = strconv.Itoa(j - i + 1)
				break
			}
		}
		return fmt.Sprintf("%s%d%sfsTer%s", threeLetters(before), i+1, threeLetters(changed), stop)
	}
	return ""
}

// residue is amino acid i of a coding sequence, which may be the changed one of old.
func (m *message) residue(coding string, i int, old string) byte {
	if m.exceptions[i] != 0 && coding[:3*i+3] == old[:3*i+3] {
		return m.exceptions[i]
	}
	if hasStart := m.pad == 0 && !m.startUnknown && slices.Contains(m.starts(true), old[:3]); i == 0 && hasStart && slices.Contains(m.starts(coding[:3] == old[:3]), coding[:3]) {
		return 'M'
	}
	return m.amino(coding, i)
}

func threeLetters(amino byte) string {
	const names = "AlaA ArgR AsnN AspD CysC GlnQ GluE GlyG HisH IleI LeuL LysK MetM PheF ProP SerS ThrT TrpW TyrY ValV SecU "
	for i := 0; i < len(names); i += 5 {
		if names[i+3] == amino {
			return names[i : i+3]
		}
	}
	return "Xaa"
}

func overlapping(spans []Span) bool {
	for i := 1; i < len(spans); i++ {
		if spans[i].Start < spans[i-1].End {
			return true
		}
	}
	return false
}

// slipTerms is for a coding sequence that reads some bases twice: only substitutions are decided.
func (m *message) slipTerms(c change, old string) []string {
	if len(c.alt) != c.end-c.start {
		return []string{"undecided"}
	}
	lo, hi := -1, -1
	now := []byte(old)
	offset := m.pad
	for _, x := range m.cds {
		for p := max(x.Start, c.start); p < min(x.End, c.end); p++ {
			i := offset + p - x.Start
			now[i] = c.alt[p-c.start]
			if lo < 0 || i < lo {
				lo = i
			}
			hi = max(hi, i+1)
		}
		offset += x.End - x.Start
	}
	hasStart := m.pad == 0 && !m.startUnknown && slices.Contains(m.starts(true), old[:3])
	return m.compare(old, string(now), "", "", lo, hi, hasStart)
}

// amino is the amino acid of codon i of a coding sequence.
func (m *message) amino(coding string, i int) byte { return m.aminoOf(coding[3*i : 3*i+3]) }

// stopAt reports whether codon i of the unchanged coding sequence is a stop.
func (m *message) stopAt(coding string, i int) bool {
	return i >= 0 && 3*i+3 <= len(coding) && m.exceptions[i] == 0 && m.amino(coding, i) == '*'
}

// compare decides a change whose bases [lo,hi) of the coding sequence old are all in it, and which makes it now.
func (m *message) compare(old, now, before, after string, lo, hi int, hasStart bool) []string {
	var names []string
	grown := len(now) - len(old)
	shifts := grown%3 != 0
	first := lo / 3
	if left := len(old) - 3*first; left > 0 && left < 3 {
		return []string{"incomplete_terminal_codon_variant", "coding_sequence_variant"}
	}
	// The whole codons before the change that hold changed bases, and what has become of them.
	last := first
	if hi > lo {
		last = (hi + 2) / 3
	} else if lo%3 != 0 {
		last = first + 1
	}
	refWindow := old[3*first : min(3*last, len(old))]
	newEnd := min(3*last, len(old)) + grown
	newWindow := now[3*first : newEnd]
	// A part of a codon at the end goes on with what follows.
	toTranslate := newWindow
	if newEnd == len(now) {
		for i := 0; len(toTranslate)%3 != 0 && i < len(after); i++ {
			toTranslate += after[i : i+1]
		}
	}
	ref, alt := m.peptide(refWindow, first, hasStart, true, refWindow), m.peptide(toTranslate, first, hasStart, false, refWindow)
	refStop, altStop := strings.Contains(ref, "*"), strings.Contains(alt, "*")
	unknown := strings.Contains(ref, "X") || strings.Contains(alt, "X")

	upToStop := alt
	if i := strings.Index(alt, "*"); i >= 0 {
		upToStop = alt[:i+1]
	}
	inserts := grown > 0 && !shifts && (strings.HasPrefix(upToStop, ref) || strings.HasSuffix(upToStop, ref))
	deletes := grown < 0 && !shifts && takesOut(refWindow, newWindow)

	if lo < 3 && hasStart {
		begin := (now + after)
		stillStart := len(begin) >= 3 && slices.Contains(m.starts(false), begin[:3])
		switch {
		case grown == 0 && !stillStart:
			return []string{"start_lost"}
		case grown == 0 && len(ref) == 1:
			return []string{"start_retained_variant"}
		case grown != 0 && strings.HasSuffix(before+now, old):
			return []string{"start_retained_variant"} // the whole coding sequence is there again
		case grown != 0 && !stillStart && !(inserts && (strings.HasSuffix(alt, ref) || strings.HasPrefix(alt, ref))):
			names = append(names, "start_lost")
			if shifts {
				names = append(names, "frameshift_variant")
			}
			if deletes {
				names = append(names, "inframe_deletion")
			}
			return names
		}
	}
	if strings.HasPrefix(alt, "*") && m.stopAt(old, first) {
		names = append(names, "stop_retained_variant")
		if inserts {
			names = append(names, "inframe_insertion")
		}
		return names
	}
	if grown == 0 {
		switch {
		case unknown && !(altStop && !refStop) && !(refStop && !altStop):
			return []string{"coding_sequence_variant"}
		case ref == alt:
			return []string{"synonymous_variant"}
		case !refStop && !altStop:
			return []string{"missense_variant"}
		case strings.Index(alt, "*") == strings.Index(ref, "*"):
			return []string{"missense_variant"}
		case altStop && (!refStop || strings.Index(alt, "*") < strings.Index(ref, "*")):
			names = append(names, "stop_gained")
		default:
			names = append(names, "stop_lost")
		}
		if unknown {
			names = append(names, "coding_sequence_variant")
		}
		return names
	}
	switch {
	case altStop && !refStop:
		names = append(names, "stop_gained")
	case refStop && !altStop, shifts && ref == "" && !altStop && m.stopAt(old, first):
		names = append(names, "stop_lost")
	}
	switch {
	case shifts:
		names = append(names, "frameshift_variant")
	case inserts:
		names = append(names, "inframe_insertion")
	case deletes:
		names = append(names, "inframe_deletion")
	case !strings.HasPrefix(ref, "*") && !strings.HasPrefix(alt, "*"):
		names = append(names, "protein_altering_variant")
	}
	return names
}

// peptide translates codons, the first one being codon i of the coding sequence. Where a start is, an initiator reads
// methionine: any annotated one if unchanged, else those in wide use. Codons with an amino acid of their own keep it
// where they are unchanged.
func (m *message) peptide(codons string, i int, hasStart, unchanged bool, ref string) string {
	var b strings.Builder
	for j := 0; j+3 <= len(codons); j += 3 {
		codon := codons[j : j+3]
		same := unchanged || j+3 <= len(ref) && ref[j:j+3] == codon
		switch {
		case same && m.exceptions[i+j/3] != 0:
			b.WriteByte(m.exceptions[i+j/3])
		case i+j == 0 && hasStart && slices.Contains(m.starts(same), codon):
			b.WriteByte('M')
		default:
			b.WriteByte(m.aminoOf(codon))
		}
	}
	if len(codons)%3 != 0 {
		b.WriteByte('X')
	}
	return b.String()
}

// takesOut reports whether b is a with one run of bases left out, at an end or of whole codons.
func takesOut(a, b string) bool {
	n := len(a) - len(b)
	for i := 0; i <= len(b); i++ {
		if a[:i]+a[i+n:] == b && (i == 0 || i == len(b) || n%3 == 0) {
			return true
		}
	}
	return false
}

// cutTerms decides a change that takes away coding bases [lo,hi) and others beside them.
func (m *message) cutTerms(c change, old, after string, lo, hi int, hasStart, hasStop bool) []string {
	exonic := func(p int) bool {
		return p < m.start || p >= m.end || slices.ContainsFunc(m.exons, func(x Span) bool { return x.Start <= p && p < x.End })
	}
	inCDS := func(p int) bool {
		return slices.ContainsFunc(m.cds, func(x Span) bool { return x.Start <= p && p < x.End })
	}
	switch {
	case lo < 3 && hasStart && !inCDS(c.start) && exonic(c.start):
		// What the start codon's place reads now, counted from the first coding base that is left.
		upstream := m.upstream(c.start) + c.alt
		kept := strings.HasSuffix(upstream, old[:hi])
		if len(c.alt) == c.end-c.start {
			codon := (upstream[len(upstream)-hi:] + old[hi:])[:3]
			kept = slices.Contains(m.starts(false), codon)
		}
		if kept {
			return []string{"start_retained_variant"}
		}
		return []string{"start_lost"}
	case hi > len(old)-3 && hasStop && !inCDS(c.end-1) && exonic(c.end-1):
		last := m.cds[len(m.cds)-1].End
		rest := ""
		if n := c.end - last; n < len(after) {
			rest = after[n:]
		}
		now := old[:lo] + c.alt + rest
		if at := len(old) - 3; at+3 <= len(now) && m.aminoOf(now[at:at+3]) == '*' {
			return []string{"stop_retained_variant"}
		}
		return []string{"stop_lost"}
	}
	return []string{"coding_sequence_variant"}
}

// upstream is the transcript up to p, and the contig before it.
func (m *message) upstream(p int) string {
	if p <= m.start {
		return m.seq[max(0, p-1000):p]
	}
	var b bytes.Buffer
	b.WriteString(m.seq[max(0, m.start-1000):m.start])
	for _, x := range m.exons {
		if x.Start < p {
			b.WriteString(m.seq[x.Start:min(x.End, p)])
		}
	}
	return b.String()
}

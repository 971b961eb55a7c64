package variant

import (
	"slices"

	"github.com/porestream/porestream/align"
)

// Codes of matrix cells; 0 to 3 are A, C, G and T.
const (
	baseN   = 4
	deleted = 5
	absent  = 6
	codes   = 7
)

// matrix is the alignment columns of one tile and its margins: a row per read,
// in canonical order, a column per reference position.
type matrix struct {
	lo, hi int // reference interval of the columns
	rows   []row
	depth  []int32 // reads per column, those that the cap on depth leaves out included

	segments   []segment // of the rows
	altered    []altered
	spans      []span // of the rows, by chain
	ref        []byte // the reference, as codes
	cells      []byte
	insertions []insertion
	inserted   []byte // bases of the insertions
	bins       []byte // and the bins of their qualities
	unpacker   unpacker
}

// segment is the read of a row.
type segment struct {
	number         uint32 // in reads.table
	start, end     int    // reference positions
	reverse, supp  bool
	mappingQuality uint8
	run            string
	lastChunk      int64
	bins           []byte // of inserted bases of the matrix
}

// bin is the quality bin of an inserted base; see insertion.
func (s *segment) bin(i int) byte { return s.bins[i] }

// row is one read in the matrix.
type row struct {
	seg      *segment
	from, to int    // columns, relative to lo, that the read covers
	code     []byte // per column
	qual     []byte // per column: quality bin, of matching bases the read's class
	ins      []insertion
	capped   bool // some columns in [from, to) are absent, because other reads have their place

	class   byte      // quality of matching bases
	first   int32     // of the spans in which it isn't absent
	altered []altered // cells, by column, that aren't as the reference and class say
}

// altered is a cell of a row.
type altered struct {
	col        int32
	code, qual byte
}

// insertion is read bases between column after and the next.
type insertion struct {
	after int // column, relative to lo
	seq   []byte
	query int // index of its first base's quality; see segment.bin
}

// columns is the reference interval that tile t uses.
func (r *Region) columns(t int) (lo, hi int) {
	return max(0, r.start-align.RegionHalo, r.tileStart(t)-tileMargin),
		min(len(r.contig.Seq), r.end+align.RegionHalo, r.tileEnd(t)+tileMargin)
}

// load fills the matrix with the reads that tile t of r uses; see chooser.
func (m *matrix) load(r *Region, t int) {
	lo, hi := r.columns(t)
	m.outline(r, lo, hi)
	width := hi - lo
	m.cells = slices.Grow(m.cells[:0], 2*width*len(m.rows))[:2*width*len(m.rows)]
	for i := range m.rows {
		own := m.cells[2*width*i:][:2*width]
		m.paint(&m.rows[i], own[:width:width], own[width:])
	}
}

// outline fills the matrix with the reads over positions [lo, hi) that r uses, but for the cells of its
// rows: a tenth of the work of [matrix.load].
func (m *matrix) outline(r *Region, lo, hi int) {
	m.lo, m.hi = lo, hi
	c := &r.work.chooser
	c.choose(&r.reads, r.reach(), lo, hi, r.cfg.MaxDepth)
	m.depth, m.spans = c.depth, c.spans
	m.rows, m.segments = slices.Grow(m.rows[:0], len(c.picks)), slices.Grow(m.segments[:0], len(c.picks))
	m.insertions, m.inserted, m.bins, m.altered = m.insertions[:0], m.inserted[:0], m.bins[:0], m.altered[:0]
	m.ref = m.ref[:0]
	for _, b := range r.contig.Seq[lo:hi] {
		m.ref = append(m.ref, baseCode[b])
	}
	for i := range c.picks {
		if p := &c.picks[i]; p.first != none {
			m.unpack(r, p)
		}
	}
	for i := range m.segments {
		m.segments[i].bins = m.bins
	}
}

// unpack appends a row for a read.
func (m *matrix) unpack(r *Region, p *pick) {
	rd := &r.reads.table[p.number]
	start, end := int(rd.start)+r.reach(), int(rd.end)+r.reach()
	u := &m.unpacker
	batch := &r.reads.batches[r.reads.batchOf(int(p.number))]
	u.open(batch.data[rd.at:], start, end, m.lo, r.contig.Seq)
	m.segments = append(m.segments, segment{
		number: p.number, start: start, end: end, reverse: rd.is(readReverse), supp: rd.is(readSupplementary), mappingQuality: rd.mappingQuality,
		run: r.reads.runs[u.run], lastChunk: batch.since + u.lastChunk,
	})
	first := &m.spans[p.first]
	m.rows = append(m.rows, row{
		seg: &m.segments[len(m.segments)-1], from: int(p.from), to: int(p.to), class: firstClass + u.class, first: p.first,
		capped: first.from > p.from || first.to < p.to, // then there are others, or the ends are absent
	})
	w := &m.rows[len(m.rows)-1]

	width, firstAltered, firstInsertion := m.hi-m.lo, len(m.altered), len(m.insertions)
	for {
		ch, ok := u.next()
		if !ok || ch.pos >= m.hi {
			break
		}
		col := ch.pos - m.lo
		switch {
		case ch.kind == align.Deletion:
			for i := max(col, 0); i < min(col+ch.n, width); i++ {
				m.altered = append(m.altered, altered{int32(i), deleted, noQuality})
			}
		case col < 0:
		case ch.kind == align.Match:
			m.altered = append(m.altered, altered{int32(col), m.ref[col], ch.bin})
		case ch.kind == align.Mismatch:
			m.altered = append(m.altered, altered{int32(col), ch.base, ch.bin})
		case col > 0:
			n := len(m.inserted)
			for _, b := range u.bases {
				m.inserted = append(m.inserted, "ACGTN"[b])
			}
			m.bins = append(m.bins, u.bins...)
			m.insertions = append(m.insertions, insertion{col - 1, m.inserted[n:len(m.inserted):len(m.inserted)], n})
		}
	}
	w.ins = m.insertions[firstInsertion:len(m.insertions):len(m.insertions)]
	if w.capped {
		m.altered = m.within(p.first, m.altered, firstAltered)
	}
	w.altered = m.altered[firstAltered:len(m.altered):len(m.altered)]
}

// within leaves out of the cells from the first-th on those that aren't in a chain of spans.
func (m *matrix) within(span int32, cells []altered, first int) []altered {
	kept := cells[:first]
	for _, a := range cells[first:] {
		for span != none && m.spans[span].to <= a.col {
			span = m.spans[span].next
		}
		if span != none && m.spans[span].from <= a.col {
			kept = append(kept, a)
		}
	}
	return kept
}

// paint fills a row's cells.
func (m *matrix) paint(w *row, code, qual []byte) {
	w.code, w.qual = code, qual
	at := 0
	for s := w.first; s != none; s = m.spans[s].next {
		from, to := int(m.spans[s].from), int(m.spans[s].to)
		markAbsent(code[at:from])
		copy(code[from:to], m.ref[from:to])
		at = to
	}
	markAbsent(code[at:])
	setAll(qual[w.from:w.to], w.class)
	for _, a := range w.altered {
		code[a.col], qual[a.col] = a.code, a.qual
	}
}

// shows is the code and the quality of a row in a column, as it is in its cells; absent where it shows
// nothing.
func (m *matrix) shows(w *row, col int) (code, qual byte) {
	span := w.first
	for span != none && int(m.spans[span].to) <= col {
		span = m.spans[span].next
	}
	if span == none || int(m.spans[span].from) > col {
		return absent, w.class
	}
	if i, ok := slices.BinarySearchFunc(w.altered, int32(col), func(a altered, col int32) int { return int(a.col - col) }); ok {
		return w.altered[i].code, w.altered[i].qual
	}
	return m.ref[col], w.class
}

// columnsShown is how many columns a row shows something in.
func (m *matrix) columnsShown(w *row) int {
	n := 0
	for s := w.first; s != none; s = m.spans[s].next {
		n += int(m.spans[s].to - m.spans[s].from)
	}
	return n
}

// markAbsent marks columns in which a row shows nothing.
func markAbsent(code []byte) { setAll(code, absent) }

// setAll sets all of b to v, many at a time.
func setAll(b []byte, v byte) {
	if len(b) == 0 {
		return
	}
	b[0] = v
	for done := 1; done < len(b); done *= 2 {
		copy(b[done:], b[:done])
	}
}

// pileup counts codes per column and strand over the given columns.
func (m *matrix) pileup(counts [][2][codes]int32) [][2][codes]int32 {
	width := m.hi - m.lo
	counts = slices.Grow(counts[:0], width+1)[:width+1]
	clear(counts)
	for i := range m.rows {
		w := &m.rows[i]
		strand := strandIndex(w.seg.reverse)
		for s := w.first; s != none; s = m.spans[s].next { // as matching, in differences
			counts[m.spans[s].from][strand][absent]++
			counts[m.spans[s].to][strand][absent]--
		}
		for _, a := range w.altered {
			own := &counts[a.col][strand]
			own[a.code]++
			own[m.ref[a.col]]--
		}
	}
	var reads [2]int32
	for col, code := range m.ref {
		for strand := range reads {
			own := &counts[col][strand]
			reads[strand] += own[absent]
			own[absent] = 0
			own[code] += reads[strand]
		}
	}
	return counts[:width]
}

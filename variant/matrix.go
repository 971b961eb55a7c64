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
	ref        []byte    // the reference, as codes
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
	m.lo, m.hi = r.columns(t)
	c := &r.work.chooser
	c.choose(&r.reads, r.reach(), m.lo, m.hi, r.cfg.MaxDepth)
	m.depth = c.depth
	m.rows, m.segments = slices.Grow(m.rows[:0], len(c.picks)), slices.Grow(m.segments[:0], len(c.picks))
	m.insertions, m.inserted, m.bins = m.insertions[:0], m.inserted[:0], m.bins[:0]
	m.ref = m.ref[:0]
	for _, b := range r.contig.Seq[m.lo:m.hi] {
		m.ref = append(m.ref, baseCode[b])
	}
	chosen := 0
	for i := range c.picks {
		if c.picks[i].first != none {
			chosen++
		}
	}
	width := m.hi - m.lo
	m.cells = slices.Grow(m.cells[:0], 2*width*chosen)[:2*width*chosen]
	cells := m.cells
	for i := range c.picks {
		if p := &c.picks[i]; p.first != none {
			m.rows = append(m.rows, row{code: cells[:width:width], qual: cells[width : 2*width : 2*width]})
			cells = cells[2*width:]
			m.paint(r, c, p)
		}
	}
	for i := range m.segments {
		m.segments[i].bins = m.bins
	}
}

// paint fills the newest row.
func (m *matrix) paint(r *Region, c *chooser, p *pick) {
	w := &m.rows[len(m.rows)-1]
	rd := &r.reads.table[p.number]
	start, end := int(rd.start)+r.reach(), int(rd.end)+r.reach()
	u := &m.unpacker
	batch := &r.reads.batches[r.reads.batchOf(int(p.number))]
	u.open(batch.data[rd.at:], start, end, m.lo, r.contig.Seq)
	m.segments = append(m.segments, segment{
		number: p.number, start: start, end: end, reverse: rd.is(readReverse), supp: rd.is(readSupplementary), mappingQuality: rd.mappingQuality,
		run: r.reads.runs[u.run], lastChunk: batch.since + u.lastChunk,
	})
	w.seg = &m.segments[len(m.segments)-1]
	w.from, w.to = int(p.from), int(p.to)
	markAbsent(w.code[:w.from])
	copy(w.code[w.from:w.to], m.ref[w.from:w.to])
	markAbsent(w.code[w.to:])
	setAll(w.qual[w.from:w.to], firstClass+u.class)

	width, firstInsertion := m.hi-m.lo, len(m.insertions)
	for {
		ch, ok := u.next()
		if !ok || ch.pos >= m.hi {
			break
		}
		col := ch.pos - m.lo
		switch {
		case ch.kind == align.Deletion:
			for i := max(col, 0); i < min(col+ch.n, width); i++ {
				w.code[i], w.qual[i] = deleted, noQuality
			}
		case col < 0:
		case ch.kind == align.Match:
			w.qual[col] = ch.bin
		case ch.kind == align.Mismatch:
			w.code[col], w.qual[col] = ch.base, ch.bin
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

	at := w.from
	for s := p.first; s != none; s = c.spans[s].next {
		markAbsent(w.code[at:c.spans[s].from])
		w.capped = w.capped || at < int(c.spans[s].from)
		at = int(c.spans[s].to)
	}
	markAbsent(w.code[at:w.to])
	w.capped = w.capped || at < w.to
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
	counts = append(counts[:0], make([][2][codes]int32, m.hi-m.lo)...)
	for i := range m.rows {
		w := &m.rows[i]
		strand := 0
		if w.seg.reverse {
			strand = 1
		}
		for c := w.from; c < w.to; c++ {
			counts[c][strand][w.code[c]]++
		}
	}
	return counts
}

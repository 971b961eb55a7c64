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
	depth  []int32 // rows per column

	cells      []byte
	insertions []insertion
}

// row is one read in the matrix.
type row struct {
	seg      *segment
	from, to int    // columns, relative to lo, that the read covers
	code     []byte // per column
	qual     []byte // per column: quality bin
	ins      []insertion
	capped   bool // the cap on depth left it out of a column in [from, to)
}

// insertion is read bases between column after and the next.
type insertion struct {
	after int // column, relative to lo
	seq   []byte
	query int // index of its first base's quality
}

// load fills the matrix with tile t of r. No column gets more than MaxDepth
// reads: the first in canonical order. Pieces that this rule leaves out of
// every column are dropped for good, since more reads can only leave them out
// again.
func (m *matrix) load(r *Region, t int) {
	m.clear(r, t)
	width := m.hi - m.lo
	pieces := r.tiles[t].pieces
	m.cells = slices.Grow(m.cells[:0], 2*width*min(len(pieces), 4*r.cfg.MaxDepth))
	kept := pieces[:0]
	for _, p := range pieces {
		from, to := max(p.ref, m.lo)-m.lo, min(p.seg.end, m.hi)-m.lo
		if from < to && !m.wanted(from, to, int32(r.cfg.MaxDepth)) {
			r.release(p.seg)
			continue
		}
		kept = append(kept, p)
		if from < to {
			m.paint(p, r.contig.Seq, from, to, int32(r.cfg.MaxDepth))
		}
	}
	clear(pieces[len(kept):])
	r.tiles[t].pieces = kept
}

// clear sets the matrix to tile t of r, without a row.
func (m *matrix) clear(r *Region, t int) {
	m.lo = max(0, r.start-align.RegionHalo, r.tileStart(t)-tileMargin)
	m.hi = min(len(r.contig.Seq), r.end+align.RegionHalo, r.tileEnd(t)+tileMargin)
	m.rows = m.rows[:0]
	m.insertions = m.insertions[:0]
	m.depth = append(m.depth[:0], make([]int32, m.hi-m.lo)...)
}

// wanted says whether a column in [from, to) has room.
func (m *matrix) wanted(from, to int, limit int32) bool {
	for _, d := range m.depth[from:to] {
		if d < limit {
			return true
		}
	}
	return false
}

// take counts a read in the columns in [from, to) that have room.
func (m *matrix) take(from, to int, limit int32) {
	for i, d := range m.depth[from:to] {
		if d < limit {
			m.depth[from+i]++
		}
	}
}

// paint appends a row.
func (m *matrix) paint(p piece, ref []byte, from, to int, limit int32) {
	width := m.hi - m.lo
	n := len(m.cells)
	m.cells = append(m.cells, make([]byte, 2*width)...)
	w := row{seg: p.seg, from: from, to: to, code: m.cells[n : n+width : n+width], qual: m.cells[n+width : n+2*width : n+2*width]}
	for i := range w.code {
		w.code[i] = absent
	}
	firstInsertion := len(m.insertions)

	p.advance(m.lo)
	for p.ref < m.hi {
		op, rest, ok := p.seg.ops[p.op:].Next()
		if !ok {
			break
		}
		op.Len -= p.skip
		p.op, p.skip = len(p.seg.ops)-len(rest), 0
		col := p.ref - m.lo
		switch op.Kind {
		case align.Insertion:
			if col > 0 {
				m.insertions = append(m.insertions, insertion{col - 1, p.seg.bases[p.base : p.base+op.Len], p.query})
			}
			p.query += op.Len
			p.base += op.Len
			continue
		case align.Deletion:
			for i := col; i < min(col+op.Len, width); i++ {
				w.code[i] = deleted
			}
			p.ref += op.Len
			continue
		}
		for i := range min(op.Len, width-col) {
			b := ref[p.ref+i]
			if op.Kind == align.Mismatch {
				b = p.seg.bases[p.base+i]
			}
			w.code[col+i] = baseCode[b]
			w.qual[col+i] = p.seg.bin(p.query + i)
		}
		p.ref += op.Len
		p.query += op.Len
		if op.Kind == align.Mismatch {
			p.base += op.Len
		}
	}
	for i := from; i < to; i++ {
		if m.depth[i] >= limit {
			w.code[i] = absent
			w.capped = true
		}
	}
	m.take(from, to, limit)
	w.ins = m.insertions[firstInsertion:len(m.insertions):len(m.insertions)]
	m.rows = append(m.rows, w)
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

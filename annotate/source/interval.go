package source

import (
	"encoding/binary"
	"fmt"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/vrs"
)

// maxLevels is more than the levels of an index over 2^31 intervals.
const maxLevels = 8

// intervals appends the entries whose place overlaps [start,end): they share a base, or, where one of the two is
// between two bases, it is within the other or at the same place. alt are the new bases of a change with a sequence,
// symbolic is the allele of one without. Those of atoms are left out.
func (s *Store) intervals(dst []Entry, m *contigMeta, start, end int, alt, symbolic string, atoms []vrs.Edit) ([]Entry, error) {
	if m.Spans == 0 || start < 0 || start > end {
		return dst, nil
	}
	q := span{s: s, m: m, start: start, end: end, alt: alt, symbolic: symbolic, atoms: atoms}
	q.elsewhere = symbolic == "" && (s.exact || s.position)
	if err := q.prepare(); err != nil {
		return dst, err
	}
	n, err := q.before()
	if err != nil {
		return dst, err
	}
	if !q.elsewhere {
		q.exact = true
		if dst, err = q.entries(dst, q.levels-1, 0, 1, n); err != nil {
			return dst, err
		}
		q.exact = false
	}
	if !s.overlap {
		return dst, nil
	}
	return q.entries(dst, q.levels-1, 0, 1, n)
}

// span is a search for intervals.
type span struct {
	s                *Store
	m                *contigMeta
	start, end       int
	alt, symbolic    string
	atoms            []vrs.Edit // of the change: found by their rows
	elsewhere        bool       // entries of the same allele, or all at the same place, are found by their rows
	exact            bool       // only entries of the same allele; else all but those
	levels           int
	levelAt, levelOf [maxLevels]int64 // of each level of sums: where it is, and its entries
}

// prepare finds the levels of the index: level i sums up fanout^(i+1) intervals.
func (q *span) prepare() error {
	at, n := q.m.LevelsAt, int64(q.m.Spans)
	for {
		n = (n + fanout - 1) / fanout
		if q.levels == maxLevels {
			return fmt.Errorf("index of %s: %w", q.m.Name, ErrDamaged)
		}
		q.levelAt[q.levels], q.levelOf[q.levels] = at, n
		q.levels++
		at += 4 * n
		if n == 1 {
			return nil
		}
	}
}

// row is interval i's row.
func (q *span) row(i int64) ([]byte, error) {
	return q.s.bytes(q.m.SpansAt+i*spanSize, spanSize)
}

// before is the number of intervals that begin early enough: before end, or at it if that can be an overlap.
func (q *span) before() (int64, error) {
	lo, hi := int64(0), int64(q.m.Spans)
	for lo < hi {
		mid := (lo + hi) / 2
		row, err := q.row(mid)
		if err != nil {
			return 0, err
		}
		if int(binary.LittleEndian.Uint32(row)) <= q.end {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, nil
}

// entries visits entries [from,to) of a level whose greatest end is late enough.
func (q *span) entries(dst []Entry, level int, from, to, n int64) ([]Entry, error) {
	covered := int64(1) // intervals that an entry sums up
	for range level + 1 {
		covered *= fanout
	}
	to = min(to, q.levelOf[level])
	for i := from; i < to && i*covered < n; i++ {
		b, err := q.s.bytes(q.levelAt[level]+4*i, 4)
		if err != nil {
			return dst, err
		}
		if int(binary.LittleEndian.Uint32(b)) < q.start {
			continue
		}
		if level > 0 {
			dst, err = q.entries(dst, level-1, i*fanout, (i+1)*fanout, n)
		} else {
			for k := i * fanout; k < min((i+1)*fanout, n) && err == nil; k++ {
				dst, err = q.visit(dst, k)
			}
		}
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// visit appends interval i if it overlaps.
func (q *span) visit(dst []Entry, i int64) ([]Entry, error) {
	row, err := q.row(i)
	if err != nil {
		return dst, err
	}
	start, end := int(binary.LittleEndian.Uint32(row)), int(binary.LittleEndian.Uint32(row[4:]))
	if !overlaps(q.start, q.end, start, end) {
		return dst, nil
	}
	record, err := q.s.record(int64(binary.LittleEndian.Uint64(row[8:])))
	if err != nil {
		return dst, err
	}
	same, found, err := q.compare(start, end, record)
	if err != nil {
		return dst, fmt.Errorf("source %s: %w", q.s.Meta.Name, err)
	}
	if found || same != q.exact {
		return dst, nil
	}
	match := annotate.MatchOverlap
	if same {
		match = annotate.MatchExact
	}
	return append(dst, Entry{Match: match, Start: start, End: end, store: q.s, record: record}), nil
}

// compare reports whether the interval is the change itself, and whether its row was found.
func (q *span) compare(start, end int, record []byte) (same, found bool, err error) {
	for _, a := range q.atoms {
		if start != a.Start || end != a.End() {
			continue
		}
		text, err := ownText(record, fieldAllele)
		if err != nil || len(text) == 0 || text[0] == '<' {
			return false, false, err
		}
		if _, alt, err := spelled(record); err != nil || string(alt) == a.Alt {
			return false, true, err
		}
	}
	if start != q.start || end != q.end {
		return false, false, nil
	}
	text, err := ownText(record, fieldAllele)
	if err != nil || len(text) == 0 {
		return false, false, err
	}
	if q.symbolic != "" || text[0] == '<' {
		return string(text) == q.symbolic, false, nil
	}
	_, alt, err := spelled(record)
	if err != nil {
		return false, false, err
	}
	same = string(alt) == q.alt
	return same, q.elsewhere && (same || q.s.position), nil
}

// overlaps reports whether the inter-residue ranges [a,b) and [c,d) share a base; an empty one must lie within the
// other, or at the place of another empty one.
func overlaps(a, b, c, d int) bool {
	if a == b && c == d {
		return a == c
	}
	return a < d && c < b
}

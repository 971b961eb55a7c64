package variant

import (
	"encoding/hex"
	"slices"
)

// What a region shows of its reads to people. Nothing of it changes the region's
// state; like all else of a region it is not safe for concurrent use.

// Bounds are the first position of the region's core and the one behind its last,
// 0-based.
func (r *Region) Bounds() (start, end int) { return r.start, r.end }

// Depth is the mean depth of the region's core in bins of a width, in tenths of a
// read. It counts the spans of the reads that are kept, gaps included.
func (r *Region) Depth(bin int) []uint32 {
	sums := make([]int64, (r.end-r.start+bin-1)/bin)
	for i := range r.reads.table {
		rd := &r.reads.table[i]
		if !rd.is(readKept) {
			continue
		}
		from, to := max(int(rd.start)+r.reach(), r.start), min(int(rd.end)+r.reach(), r.end)
		for at := from; at < to; {
			b := (at - r.start) / bin
			next := min(to, r.start+(b+1)*bin)
			sums[b] += int64(next - at)
			at = next
		}
	}
	out := make([]uint32, len(sums))
	for b, sum := range sums {
		width := int64(min(r.end, r.start+(b+1)*bin) - (r.start + b*bin))
		out[b] = uint32((10*sum + width/2) / width)
	}
	return out
}

// Pileup is the reads around a position.
type Pileup struct {
	Start     int    // 0-based position of Reference's first base
	Reference string // upper case
	Rows      []PileupRow
	LeftOut   int // reads beyond the limit of rows
}

// PileupRow is one read within a [Pileup].
type PileupRow struct {
	Name    string // of the read within its sample; not its id, which is not kept
	Reverse bool
	Start   int // column of the first letter of Bases
	// Bases has a letter per reference position: '.' as the reference, a base that
	// differs, '-' for a deleted one.
	Bases string
	// Quals has a Phred+33 letter for each of Bases, as far as qualities are kept: the least of what is kept together, for a base as the
	// reference that of its read. Empty if the read has none.
	Quals          string
	Insertions     []PileupInsertion
	MappingQuality int
}

// PileupInsertion is bases of a read behind a column.
type PileupInsertion struct {
	Column int
	Bases  string
}

// maxInsertion is how many inserted bases a row shows at one place.
const maxInsertion = 30

// Pileup shows the reads over a position of the core and flank positions on both
// sides, rows of them at most: those that are used when the position is called. A
// pileup does not reach beyond the positions that are evaluated together with it,
// 128 at least.
func (r *Region) Pileup(pos, flank, rows int) Pileup {
	own := r.work
	r.work = new(Workspace) // that of the caller is none of ours
	defer func() { r.work = own }()
	m := &r.work.scratch
	m.load(r, r.tileAt(pos))
	lo, hi := max(m.lo, pos-flank), min(m.hi, pos+flank+1)
	out := Pileup{Start: lo, Reference: string(r.contig.Seq[lo:hi])}
	for i := range m.rows {
		w := &m.rows[i]
		if at := pos - m.lo; at < w.from || at >= w.to || w.code[at] == absent {
			continue
		}
		out.Rows = append(out.Rows, r.show(m, w, lo-m.lo, hi-m.lo))
	}
	slices.SortStableFunc(out.Rows, func(a, b PileupRow) int {
		switch {
		case a.Reverse != b.Reverse && b.Reverse:
			return -1
		case a.Reverse != b.Reverse:
			return 1
		}
		return a.Start - b.Start
	})
	if len(out.Rows) > rows {
		// Evenly from all, so that both strands are seen.
		kept := make([]PileupRow, 0, rows)
		for i := range rows {
			kept = append(kept, out.Rows[i*len(out.Rows)/rows])
		}
		out.LeftOut, out.Rows = len(out.Rows)-rows, kept
	}
	return out
}

// show is the row of a read between two columns, around the stretch that it shows
// without a break.
func (r *Region) show(m *matrix, w *row, first, last int) PileupRow {
	from, to := max(first, w.from), min(last, w.to)
	for from < to && w.code[from] == absent {
		from++
	}
	key := &r.reads.table[w.seg.number].key
	out := PileupRow{Name: hex.EncodeToString(key[:4]), Reverse: w.seg.reverse, Start: from - first, MappingQuality: int(w.seg.mappingQuality)}
	bases, quals := make([]byte, 0, to-from), make([]byte, 0, to-from)
	for c := from; c < to; c++ {
		quals = append(quals, '!'+leastQuality[w.qual[c]])
		switch code := w.code[c]; {
		case code == absent:
			bases = append(bases, ' ')
		case code == deleted:
			bases = append(bases, '-')
		case code == m.ref[c] && code < baseN:
			bases = append(bases, '.')
		default:
			bases = append(bases, "ACGTN"[code])
		}
	}
	for len(bases) > 0 && bases[len(bases)-1] == ' ' {
		bases = bases[:len(bases)-1]
	}
	out.Bases = string(bases)
	if w.class != firstClass {
		out.Quals = string(quals[:len(bases)])
	}
	for _, in := range w.ins {
		if in.after >= from && in.after < from+len(bases) && w.code[in.after] != absent {
			out.Insertions = append(out.Insertions, PileupInsertion{Column: in.after - first, Bases: string(in.seq[:min(len(in.seq), maxInsertion)])})
		}
	}
	return out
}

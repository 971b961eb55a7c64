package pileup

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/modbase"
)

// Strand is that on which a modification is.
type Strand byte

// The strands; Both where counts of both were added.
const (
	Plus  Strand = '+'
	Minus Strand = '-'
	Both  Strand = '.'
)

// Row is what the reads of a group say of one modification at one position.
type Row struct {
	Pos    int // from 0 on
	Strand Strand
	Code   modbase.Code
	// Motif is the number of the motif at which the position is; -1: none was asked for.
	Motif int
	Group int
	// Calls: of this modification, of another one of the same base, of the base itself.
	Modified, Other, Canonical int
	// Deleted reads have no base there, Failed ones a call below the threshold, Different ones another
	// base or a call of another base, and Uncalled ones the base but no call.
	Deleted, Failed, Different, Uncalled int
}

// Valid is how many calls there are that didn't fail.
func (r *Row) Valid() int { return r.Modified + r.Other + r.Canonical }

// add adds the counts of the other strand.
func (r *Row) add(o *Row) {
	r.Modified += o.Modified
	r.Other += o.Other
	r.Canonical += o.Canonical
	r.Deleted += o.Deleted
	r.Failed += o.Failed
	r.Different += o.Different
	r.Uncalled += o.Uncalled
}

// Config says what is counted.
type Config struct {
	// Groups is how many groups there are; a read is of one. At least 1.
	Groups int
	// Spans are the positions that rows are of, [start, end), ascending and apart.
	Spans [][2]int
	// Motifs are those at which rows are wanted, of a contig's sequence; none: everywhere.
	Motifs   []Motif
	Sequence []byte
	// CombineStrands adds the counts of both strands of a motif; all must be palindromes.
	CombineStrands bool
	// CombineKinds has all modifications of a base counted as one, of which the code is the base's letter.
	CombineKinds bool
}

// Pile counts the reads of one contig.
type Pile struct {
	cfg   Config
	emit  func(*Row) error
	kinds []Kind
	reads [2][]*Read // that may overlap what isn't counted, by the strand that they are aligned to
	both  []*Read    // those of them that have calls on the other strand
	// sites marks by strand and position, modulo their bits, where reads have calls.
	sites   [2][]uint64
	stop    int // end of the last span
	next    int // position before which everything is counted
	end     int // of the reads so far
	tallies []tally
	rows    []Row
	waiting []*site // of motifs, in order, to be added up
	longest int     // motif
}

// tally is what a group's reads say of one position and strand.
type tally struct {
	used            bool
	deleted, failed int
	uncalled        [len(bases)]int
	canonical       [len(bases)]int
	modified        [maxKinds]int
	observed        uint64
}

// NewPile counts into rows, which emit must not keep. They come by position, then strand and code; where
// strands are combined by position, motif and code.
func NewPile(cfg Config, emit func(*Row) error) *Pile {
	p := &Pile{cfg: cfg, emit: emit, tallies: make([]tally, cfg.Groups)}
	if n := len(cfg.Spans); n > 0 {
		p.next, p.stop = cfg.Spans[0][0], cfg.Spans[n-1][1]
	}
	for i := range cfg.Motifs {
		p.longest = max(p.longest, len(cfg.Motifs[i].sets))
	}
	return p
}

// Add takes a read, which begins no earlier than those before, and counts what no read can overlap any
// more. The error is emit's, or [modbase.ErrKinds] of the read, which then counts without calls.
func (p *Pile) Add(r *Read) error {
	if err := p.count(min(int(r.start), p.stop)); err != nil {
		return err
	}
	if int(r.end) <= p.next || int(r.start) >= p.stop {
		return nil
	}
	known := p.number(r)
	strand := 0
	if r.reverse {
		strand = 1
	}
	p.reads[strand] = append(p.reads[strand], r)
	if len(r.opposite) > 0 || r.observed[1] != 0 {
		p.both = append(p.both, r)
	}
	if p.end = max(p.end, int(r.end)); p.end > p.next {
		p.reserve(p.end - p.next)
	}
	p.mark(r.own, strand)
	p.mark(r.opposite, 1-strand)
	return known
}

// number gives a read's kinds their numbers here.
func (p *Pile) number(r *Read) error {
	for strand, kinds := range r.kinds {
		r.global[strand] = make([]uint8, len(kinds))
		for i, kind := range kinds {
			at := slices.Index(p.kinds, kind)
			if at < 0 {
				if at = len(p.kinds); at == maxKinds {
					r.own, r.opposite, r.observed = nil, nil, [2]uint64{}
					return modbase.ErrKinds
				}
				p.kinds = append(p.kinds, kind)
			}
			r.global[strand][i] = uint8(at)
			r.observed[strand] |= 1 << at
		}
	}
	return nil
}

// reserve grows the sites to a number of positions behind next.
func (p *Pile) reserve(n int) {
	words := n/64 + 2
	if words <= len(p.sites[0]) {
		return
	}
	words = 1 << bits.Len(uint(words))
	for s, old := range p.sites {
		sites := make([]uint64, words)
		for i := range old {
			w := p.next/64 + i
			sites[w&(words-1)] = old[w&(len(old)-1)]
		}
		p.sites[s] = sites
	}
}

// mark notes the positions at which there are rows.
func (p *Pile) mark(marks []mark, strand int) {
	sites := p.sites[strand]
	everywhere := len(p.cfg.Spans) == 1 && p.cfg.Motifs == nil
	for _, m := range marks {
		at := int(m.at)
		if m.what == failed || at < p.next || at >= p.stop || !everywhere && !p.wanted(at, strand) {
			continue
		}
		sites[at/64&(len(sites)-1)] |= 1 << (at % 64)
	}
}

// wanted reports whether there are rows of a position and strand.
func (p *Pile) wanted(at, strand int) bool {
	i, _ := slices.BinarySearchFunc(p.cfg.Spans, at, func(span [2]int, at int) int { return span[1] - at - 1 })
	if at < p.cfg.Spans[i][0] {
		return false
	}
	if p.cfg.Motifs == nil {
		return true
	}
	for i := range p.cfg.Motifs {
		if p.cfg.Motifs[i].at(p.cfg.Sequence, at, strand) {
			return true
		}
	}
	return false
}

// Finish counts what is left.
func (p *Pile) Finish() error {
	if err := p.count(min(p.end, p.stop)); err != nil {
		return err
	}
	return p.settle(p.next + 2*p.longest)
}

// count counts the positions before end.
func (p *Pile) count(end int) error {
	for p.next < end && p.next < p.end {
		sites := len(p.sites[0]) - 1
		w := p.next / 64
		plus, minus := &p.sites[0][w&sites], &p.sites[1][w&sites]
		limit := min(end-64*w, 64)
		here := ^uint64(0) >> (64 - limit)
		for all := (*plus | *minus) & here; all != 0; all &= all - 1 {
			bit := bits.TrailingZeros64(all)
			for strand, sites := range [2]uint64{*plus, *minus} {
				if sites>>bit&1 == 0 {
					continue
				}
				if err := p.site(64*w+bit, strand); err != nil {
					return err
				}
			}
		}
		*plus, *minus = *plus&^here, *minus&^here
		p.next = 64*w + limit
	}
	p.next = max(p.next, end)
	for s := range p.reads {
		p.reads[s] = p.over(p.reads[s])
	}
	p.both = p.over(p.both)
	return p.settle(p.next)
}

// over leaves out the reads that are counted.
func (p *Pile) over(reads []*Read) []*Read {
	return slices.DeleteFunc(reads, func(r *Read) bool { return int(r.end) <= p.next })
}

// site counts one position on one strand.
func (p *Pile) site(at, strand int) error {
	for _, r := range p.reads[strand] {
		if int(r.end) > at {
			r.countAt(int32(at), &p.tallies[r.group], false)
		}
	}
	for _, r := range p.both {
		if r.reverse == (strand == 0) && int(r.end) > at {
			r.countAt(int32(at), &p.tallies[r.group], true)
		}
	}
	for group := range p.tallies {
		t := &p.tallies[group]
		if !t.used {
			continue
		}
		p.rowsOf(t, at, strand, group)
		clear(t.modified[:len(p.kinds)])
		t.used, t.deleted, t.failed, t.observed = false, 0, 0, 0
		clear(t.uncalled[:])
		clear(t.canonical[:])
	}
	rows := p.rows
	p.rows = p.rows[:0]
	if p.cfg.CombineStrands {
		p.hold(rows, at, strand)
		return nil
	}
	for i := range rows {
		if err := p.emit(&rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// walk has the cursor be at a position of the reference, at which or behind which the next operation begins.
func (r *Read) walk(at int32) {
	if r.contig != nil {
		r.walkOps(at)
		return
	}
	i, ref, query := r.op, r.ref, r.query
	var op sam.CigarOp
	for ; at >= ref; i++ {
		op = r.cigar[i]
		n, takes := int32(op.Len()), &consumes[op.Type()&15]
		r.shift = query - ref
		ref += n & takes.ref
		query += n & takes.query
	}
	r.gone, r.skipped = consumes[op.Type()&15].query == 0, op.Type() == sam.CigarSkipped
	r.op, r.ref, r.query = i, ref, query
}

// What operations of segments take of the reference, and of the bases that differ, as masks.
var (
	onReference = [8]int32{opMatch: -1, opMismatch: -1, opDeletion: -1}
	onDiffering = [8]int32{opMismatch: -1, opInsertion: -1}
)

// walkOps is walk for segments, of which what is in the read is counted in the bases that differ. Which operation comes next can't be
// foretold, so nothing hangs on it but numbers.
func (r *Read) walkOps(at int32) {
	ops, ref, query := r.ops, r.ref, r.query
	i, v := 0, uint32(0)
	for at >= ref {
		switch {
		case i+1 < len(ops) && ops[i]&ops[i+1] < 0x80: // one byte, or two
			two := ops[i] >> 7
			v = uint32(ops[i]&0x7f) | uint32(ops[i+1]&-two)<<7
			i += 1 + int(two)
		default:
			long, n := binary.Uvarint(ops[i:])
			v = uint32(long)
			i += n
		}
		n := int32(v >> 3)
		ref += n & onReference[v&7]
		query += n & onDiffering[v&7]
	}
	kind := v & 7
	r.gone, r.same = kind == opDeletion, kind == opMatch
	r.shift = query - ref
	r.ops, r.ref, r.query = ops[i:], ref, query
}

// base is the number of the read's base at a position at which the cursor is, on the reference's strand.
func (r *Read) base(at int32) uint8 {
	switch {
	case r.contig == nil:
		place := at + r.shift
		return number[letters[r.seq[place/2]>>(4*(1-place&1))&15]]
	case r.same:
		return number[r.contig[at]]
	default:
		return number[r.differ[at+r.shift]]
	}
}

// countAt adds a read's call at a position, on the strand that it is aligned to or on the other one.
func (r *Read) countAt(at int32, t *tally, other bool) {
	strand := 0
	if other {
		strand = 1
	}
	if m := r.call(at, strand); m != nil {
		t.used = true
		t.observed |= r.observed[strand]
		switch m.what {
		case failed:
			t.failed++
		case canonical:
			t.canonical[m.base]++
		default:
			t.modified[r.global[strand][m.what-modified]]++
		}
		return
	}
	if at >= r.ref {
		r.walk(at)
	}
	if r.skipped {
		return
	}
	t.used = true
	t.observed |= r.observed[strand]
	if other {
		return // a read has nothing to say of the other strand where it doesn't speak of it
	}
	if r.gone {
		t.deleted++
		return
	}
	base := r.base(at)
	if base > 3 || r.opposite != nil && r.call(at, 1) != nil {
		return // nor one that speaks of the other strand alone of its own
	}
	if r.reverse {
		base = 3 - base
	}
	t.uncalled[base]++
}

// letters are those of BAM.
const letters = "=ACMGRSVTWYHKDBN"

// call is a read's call at a position; nil: none.
func (r *Read) call(at int32, strand int) *mark {
	marks := *r.marks(strand)
	k := r.behind[strand]
	for k < len(marks) && marks[k].at < at {
		k++
	}
	r.behind[strand] = k
	if k < len(marks) && marks[k].at == at {
		return &marks[k]
	}
	return nil
}

// rowsOf adds the rows of a tally, by code.
func (p *Pile) rowsOf(t *tally, at, strand, group int) {
	var called [len(bases)]int
	total := 0
	for b, n := range t.canonical {
		called[b] += n
	}
	for k, kind := range p.kinds {
		called[number[kind.Base]] += t.modified[k]
	}
	for b := range bases {
		total += called[b] + t.uncalled[b]
	}
	first := len(p.rows)
	for b := range bases {
		if called[b] == 0 {
			continue
		}
		row := Row{
			Pos: at, Strand: [...]Strand{Plus, Minus}[strand], Motif: -1, Group: group, Canonical: t.canonical[b],
			Deleted: t.deleted, Failed: t.failed, Uncalled: t.uncalled[b], Different: total - called[b] - t.uncalled[b],
		}
		changed := called[b] - t.canonical[b]
		if p.cfg.CombineKinds {
			row.Code, row.Modified = modbase.Code(bases[b]), changed
			p.rows = append(p.rows, row)
			continue
		}
		for k, kind := range p.kinds {
			if kind.Base == bases[b] && t.observed>>k&1 == 1 {
				row.Code, row.Modified, row.Other = kind.Code, t.modified[k], changed-t.modified[k]
				p.rows = append(p.rows, row)
			}
		}
	}
	slices.SortStableFunc(p.rows[first:], func(a, b Row) int { return a.Code.Compare(b.Code) })
	if p.cfg.Motifs == nil {
		return
	}
	// Each row is of every motif that has the position.
	plain := slices.Clone(p.rows[first:])
	p.rows = p.rows[:first]
	for _, row := range plain {
		for i := range p.cfg.Motifs {
			if p.cfg.Motifs[i].at(p.cfg.Sequence, at, strand) {
				row.Motif = i
				p.rows = append(p.rows, row)
			}
		}
	}
}

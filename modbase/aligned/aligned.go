// Package aligned piles up the modified bases of alignment files: BAM or SAM that is sorted by position,
// from any aligner and basecaller, in one piece or from a pipe. Memory is that of the reads over one place; a [Survey] keeps
// more, up to a bound.
package aligned

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/align/hts/samtag"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/inorder"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/modbase/record"
)

// MaxHaplotypes is the highest number that the tag HP may have for a haplotype.
const MaxHaplotypes = 16

// Region is a stretch of a reference sequence, [Start, End).
type Region struct {
	Contig     string
	Start, End int
}

// spans are what regions have of each reference sequence of a header, ascending and apart.
func spans(regions []Region, refs []*sam.Reference) [][][2]int {
	all := make([][][2]int, len(refs))
	for i, ref := range refs {
		if regions == nil {
			all[i] = [][2]int{{0, ref.Len()}}
			continue
		}
		var of [][2]int
		for _, region := range regions {
			if region.Contig == ref.Name() {
				of = append(of, [2]int{region.Start, min(region.End, ref.Len())})
			}
		}
		slices.SortFunc(of, func(a, b [2]int) int { return a[0] - b[0] })
		for _, span := range of {
			if n := len(all[i]); n > 0 && span[0] <= all[i][n-1][1] {
				all[i][n-1][1] = max(all[i][n-1][1], span[1])
				continue
			}
			all[i] = append(all[i], span)
		}
	}
	return all
}

// Options say what is counted.
type Options struct {
	// Thresholds are the least probabilities of calls that count.
	Thresholds pileup.Thresholds
	// Regions are what rows are wanted of; nil: everything.
	Regions []Region
	// Genome is needed for motifs; nil: none.
	Genome         *genome.Genome
	Motifs         []pileup.Motif
	CombineStrands bool
	CombineKinds   bool
	// Haplotypes has reads counted by the tag HP: group 0 are those without one.
	Haplotypes bool
	// Threads is how many reads are processed, and blocks decompressed, at a time; at least one.
	Threads int
}

// Counts summarise the records of a file.
type Counts struct {
	// Left out: not aligned; secondary, supplementary, of failed quality or duplicates; without a sequence.
	Unmapped, Secondary, NoSequence int64
	// Reads that count, those of them that have tags, and the rows that they led to.
	Reads, Tagged, Rows int64
	// Faults are of reads whose tags can't be used, which count as reads without a call.
	Faults record.Faults
	// Unlisted are reads with codes that the specification doesn't list, which are counted as any other.
	Unlisted map[modbase.Code]int64
	// OddHaplotypes are reads with a tag HP that is no number from 1 to MaxHaplotypes, which count as unphased;
	// Broken those whose CIGAR doesn't fit the read or its reference, which are left out.
	OddHaplotypes, Broken Odd
}

// Odd counts records, and describes the first one.
type Odd struct {
	Records int64
	First   string
	Why     string
}

func (o *Odd) add(rec *sam.Record, format string, args ...any) {
	if o.Records++; o.Records == 1 {
		o.First, o.Why = rec.Name, fmt.Sprintf(format, args...)
	}
}

// Reader is where records come from, in order; [hts.Reader] is one.
type Reader interface {
	Read() (*sam.Record, error)
	Header() *sam.Header
}

var _ Reader = (*hts.Reader)(nil)

// Survey is what a first reading of a file gives: its calls by base and probability, as a threshold by percentile is made of, and, if
// they are not too many, the reads themselves, so that the file need not be read again.
type Survey struct {
	Calls pileup.Histogram
	run   *run
	reads []*batch // all; nil: there are more than may be kept
}

// NewSurvey reads a file, and keeps reads of up to so many bytes of memory. Of records that it keeps it lets qualities and tags go.
func NewSurvey(ctx context.Context, in Reader, opts Options, memory int) (*Survey, error) {
	each := make([]pileup.Histogram, opts.Threads)
	opts.Thresholds = pileup.Thresholds{}
	r := newRun(in, opts)
	r.histograms = each
	s, kept := &Survey{run: r, reads: []*batch{}}, 0
	err := r.do(ctx, func(b *batch) error {
		if !s.Whole() {
			return nil
		}
		for i := range b.pieces {
			kept += len(b.pieces[i].rec.Name) + b.pieces[i].read.Bytes()
		}
		if kept > memory {
			s.reads = nil
			return nil
		}
		for i := range b.pieces {
			rec := b.pieces[i].rec
			rec.Qual, rec.AuxFields = nil, nil // which hold all of the record as it was read
		}
		s.reads = append(s.reads, b)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range each {
		s.Calls.Add(&each[i])
	}
	return s, nil
}

// Whole reports whether all reads were kept, so that [Survey.Pileup] counts them.
func (s *Survey) Whole() bool { return s.reads != nil }

// Pileup is [Pileup] of the file that was surveyed, with thresholds. It can be called once.
func (s *Survey) Pileup(ctx context.Context, thresholds pileup.Thresholds, emit func(contig string, row *pileup.Row) error) (*Counts, error) {
	c := &counter{run: s.run, emit: emit, current: -1}
	for i, b := range s.reads {
		if err := ctx.Err(); err != nil {
			return &s.run.counts, err
		}
		for k := range b.pieces {
			b.pieces[k].read.Filter(&thresholds)
		}
		if err := c.add(b); err != nil {
			return &s.run.counts, err
		}
		s.reads[i] = nil
	}
	return &s.run.counts, c.finish()
}

// Pileup counts a file, and has emit take the rows, in the order of the file's reference sequences and of
// [pileup.Pile]'s. Emit must not keep a row.
func Pileup(ctx context.Context, in Reader, opts Options, emit func(contig string, row *pileup.Row) error) (*Counts, error) {
	r := newRun(in, opts)
	c := &counter{run: r, emit: emit, current: -1}
	err := r.do(ctx, c.add)
	if err == nil {
		err = c.finish()
	}
	return &r.counts, err
}

// counter piles up the reads of a file, contig by contig.
type counter struct {
	run     *run
	emit    func(contig string, row *pileup.Row) error
	pile    *pileup.Pile // nil: before the first read
	current int          // number of the contig
}

func (c *counter) add(b *batch) error {
	counts := &c.run.counts
	for i := range b.pieces {
		p := &b.pieces[i]
		c.run.tally(p)
		if ref := p.rec.Ref; ref.ID() != c.current {
			if err := c.finish(); err != nil {
				return err
			}
			cfg, err := c.run.config(ref)
			if err != nil {
				return err
			}
			c.current = ref.ID()
			c.pile = pileup.NewPile(cfg, func(row *pileup.Row) error {
				counts.Rows++
				return c.emit(ref.Name(), row)
			})
		}
		if err := c.pile.Add(p.read); errors.Is(err, modbase.ErrKinds) {
			counts.Faults.Add(p.rec.Name, err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// finish counts what is left of a contig.
func (c *counter) finish() error {
	if c.pile == nil {
		return nil
	}
	return c.pile.Finish()
}

// piece is a record that counts, and what became of it.
type piece struct {
	rec      *sam.Record
	group    int
	read     *pileup.Read
	unlisted []modbase.Code
	err      error
	tagged   bool
}

type batch struct{ pieces []piece }

// batchBases is about how many bases are one piece of work.
const batchBases = 400_000

type run struct {
	opts       Options
	in         Reader
	counts     Counts
	spans      [][][2]int         // that rows are wanted of, by number of the reference sequence
	histograms []pileup.Histogram // of each worker; nil: none are wanted
	ref, pos   int                // of the record before
}

func newRun(in Reader, opts Options) *run {
	return &run{opts: opts, in: in, spans: spans(opts.Regions, in.Header().Refs()), counts: Counts{Unlisted: make(map[modbase.Code]int64)}}
}

// do passes the reads of a file, in order, to finish.
func (r *run) do(ctx context.Context, finish func(*batch) error) error {
	read := func(ctx context.Context, emit func(*batch) error) error {
		b, size := new(batch), 0
		for n := 1; ; n++ {
			rec, err := r.in.Read()
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return emit(b)
			}
			if errors.Is(err, hts.ErrCut) {
				return err
			}
			if err != nil {
				return fmt.Errorf("record %d: %w: the file is damaged or cut off (samtools quickcheck says more)", n, err)
			}
			beyond, err := r.take(rec, b)
			if err != nil {
				return err
			}
			if beyond {
				return emit(b)
			}
			if size += rec.Seq.Length; size >= batchBases {
				if err := emit(b); err != nil {
					return err
				}
				b, size = new(batch), 0
			}
		}
	}
	work := func(worker int, batches iter.Seq[*batch]) error {
		calls := pileup.Calls{Thresholds: r.opts.Thresholds}
		if r.histograms != nil {
			calls.Histogram = &r.histograms[worker]
		}
		for b := range batches {
			for i := range b.pieces {
				p := &b.pieces[i]
				p.read, p.unlisted, p.err = calls.Read(p.rec, p.group)
				p.tagged = p.err == nil && p.read.Tagged()
			}
		}
		return nil
	}
	return inorder.Do(ctx, r.opts.Threads, read, work, finish)
}

// wanted are the positions of a reference sequence, by its number, that rows are wanted of. SAM without a
// header has sequences that come up with their reads.
func (r *run) wanted(id int) [][2]int {
	if id < len(r.spans) {
		return r.spans[id]
	}
	return nil
}

// take adds a record to a batch if it counts. beyond says that no further one of the region can come.
func (r *run) take(rec *sam.Record, b *batch) (beyond bool, err error) {
	if rec.Flags&sam.Unmapped != 0 || rec.Ref == nil || rec.Pos < 0 {
		r.counts.Unmapped++
		return false, nil
	}
	if id := rec.Ref.ID(); id < r.ref || id == r.ref && rec.Pos < r.pos {
		return false, fmt.Errorf("read %s: it comes behind reads of later positions: sort the file (samtools sort)", rec.Name)
	}
	r.ref, r.pos = rec.Ref.ID(), rec.Pos
	if of := r.wanted(r.ref); len(of) == 0 || rec.Pos >= of[len(of)-1][1] {
		for id := r.ref + 1; id < len(r.spans); id++ {
			if len(r.wanted(id)) > 0 {
				return false, nil
			}
		}
		return true, nil
	} else if !slices.ContainsFunc(of, func(span [2]int) bool { return rec.Pos < span[1] && rec.End() > span[0] }) {
		return false, nil
	}
	const leftOut = sam.Secondary | sam.Supplementary | sam.Duplicate | sam.QCFail
	switch span, query := rec.Cigar.Lengths(); {
	case rec.Flags&leftOut != 0:
		r.counts.Secondary++
	case rec.Seq.Length == 0:
		r.counts.NoSequence++
	case query != rec.Seq.Length:
		r.counts.Broken.add(rec, "its CIGAR is of %d bases, and it has %d", query, rec.Seq.Length)
	case rec.Pos+span > rec.Ref.Len():
		r.counts.Broken.add(rec, "its alignment ends at %d, and %s has %d bases", rec.Pos+span, rec.Ref.Name(), rec.Ref.Len())
	default:
		p := piece{rec: rec}
		if r.opts.Haplotypes && samtag.Value(rec, "HP") != nil {
			n, ok := samtag.Int(rec, "HP")
			if ok = ok && n >= 1 && n <= MaxHaplotypes; ok {
				p.group = n
			} else {
				r.counts.OddHaplotypes.add(rec, "HP is %v", samtag.Value(rec, "HP"))
			}
		}
		r.counts.Reads++
		b.pieces = append(b.pieces, p)
	}
	return false, nil
}

// tally counts what became of a read.
func (r *run) tally(p *piece) {
	if p.tagged {
		r.counts.Tagged++
	}
	if p.err != nil {
		r.counts.Faults.Add(p.rec.Name, p.err)
	}
	for _, code := range p.unlisted {
		r.counts.Unlisted[code]++
	}
}

// config is what is wanted of a reference sequence.
func (r *run) config(ref *sam.Reference) (pileup.Config, error) {
	cfg := pileup.Config{
		Groups: 1, Spans: r.wanted(ref.ID()), Motifs: r.opts.Motifs, CombineStrands: r.opts.CombineStrands, CombineKinds: r.opts.CombineKinds,
	}
	if r.opts.Haplotypes {
		cfg.Groups = 1 + MaxHaplotypes
	}
	if r.opts.Genome == nil {
		return cfg, nil
	}
	c := r.opts.Genome.Contig(ref.Name())
	switch {
	case c == nil:
		return cfg, fmt.Errorf("reads are aligned to %s, which isn't in the reference FASTA", ref.Name())
	case len(c.Seq) != ref.Len():
		return cfg, fmt.Errorf("%s has %d bases in the header of the reads and %d in the reference FASTA: they are aligned to another reference", ref.Name(), ref.Len(), len(c.Seq))
	}
	cfg.Sequence = c.Seq
	return cfg, nil
}

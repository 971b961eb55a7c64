package variant

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/biogo/hts/bam"
	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
)

// Alignments reads alignments of a BAM or SAM file.
type Alignments struct {
	genome *genome.Genome
	next   func() (*sam.Record, error)
	close  func() error
	header *sam.Header
}

// ReadAlignments starts reading BAM or SAM, whichever r holds, and checks that its
// reference sequences are those of g.
func ReadAlignments(r io.Reader, g *genome.Genome) (*Alignments, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	magic, err := buffered.Peek(2)
	if err != nil && len(magic) == 0 {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("reading alignments: the file is empty")
		}
		return nil, fmt.Errorf("reading alignments: %w", err)
	}
	a := &Alignments{genome: g, close: func() error { return nil }}
	if string(magic) == "\x1f\x8b" {
		br, err := bam.NewReader(buffered, 1)
		if err != nil {
			return nil, fmt.Errorf("reading BAM header: %w", err)
		}
		a.next, a.close, a.header = br.Read, br.Close, br.Header()
	} else {
		sr, err := sam.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("reading SAM header: %w", err)
		}
		a.next, a.header = sr.Read, sr.Header()
	}
	if err := a.checkContigs(); err != nil {
		return nil, err
	}
	return a, nil
}

// checkContigs compares the header with the reference.
func (a *Alignments) checkContigs() error {
	if len(a.header.Refs()) == 0 {
		return errors.New("reading alignments: the header names no reference sequence (@SQ)")
	}
	for _, ref := range a.header.Refs() {
		c := a.genome.Contig(ref.Name())
		if c == nil {
			return fmt.Errorf("reading alignments: they are to %s, which isn't in the reference FASTA (it has %s)", ref.Name(), some(a.genome.Names()))
		}
		if len(c.Seq) != ref.Len() {
			return fmt.Errorf("reading alignments: %s has %d bases in their header and %d in the reference FASTA", ref.Name(), ref.Len(), len(c.Seq))
		}
	}
	return nil
}

// some is a short list of names.
func some(names []string) string {
	switch {
	case len(names) == 1:
		return names[0]
	case len(names) > 3:
		return fmt.Sprintf("%s, %s and %d more", names[0], names[1], len(names)-2)
	}
	return fmt.Sprint(names)
}

// Sample is the sample that the read groups name, or "" when they name none or
// several.
func (a *Alignments) Sample() string {
	sample := ""
	for _, rg := range a.header.RGs() {
		s := rg.Get(sam.NewTag("SM"))
		if sample != "" && s != sample {
			return ""
		}
		sample = s
	}
	return sample
}

// Close releases what reading holds; not the underlying reader.
func (a *Alignments) Close() error { return a.close() }

// Counts is what became of the records of a file.
type Counts struct {
	Records       int
	Unmapped      int
	Secondary     int
	Duplicates    int // and records that failed quality checks
	LowMapping    int // mapping quality below MinMappingQuality
	WithoutBases  int
	Segments      int // applied
	RegionsCalled int
}

// Call calls the variants of an alignment file with the engine of the stream and
// passes every final call to emit, in the order of the reference. Coordinate-sorted
// input, when the header says so, is called region by region; other input is held
// until its end.
func (a *Alignments) Call(ctx context.Context, cfg Config, emit func(*streampb.Call) error) (Counts, error) {
	if err := cfg.Validate(); err != nil {
		return Counts{}, fmt.Errorf("calling variants: %w", err)
	}
	return a.regions(ctx, cfg, func(r *Region) error {
		calls, err := r.Finalize()
		if err != nil {
			return fmt.Errorf("calling region %d of %s: %w", r.index, r.Contig(), err)
		}
		for _, c := range calls {
			if err := emit(c); err != nil {
				return err
			}
		}
		return nil
	})
}

// Examples passes the candidates of an alignment file, in the order of the
// reference, to emit; see [Region.Examples].
func (a *Alignments) Examples(ctx context.Context, cfg Config, emit func(Candidate, []float32) error) (Counts, error) {
	if err := cfg.checkThresholds(); err != nil {
		return Counts{}, fmt.Errorf("making examples: %w", err)
	}
	return a.regions(ctx, cfg, func(r *Region) error { return r.Examples(emit) })
}

// regions passes every region, when all of its reads have been applied, to done.
func (a *Alignments) regions(ctx context.Context, cfg Config, done func(*Region) error) (Counts, error) {
	var n Counts
	cfg = cfg.withDefaults()
	open := openRegions{genome: a.genome, cfg: cfg, regions: make(map[regionKey]*Region)}
	sorted := a.header.SortOrder == sam.Coordinate
	last := regionKey{}
	lastPos := 0
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		rec, err := a.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return n, fmt.Errorf("reading alignment %d: %w", n.Records+1, err)
		}
		n.Records++
		switch {
		case rec.Flags&sam.Unmapped != 0 || rec.Ref == nil:
			n.Unmapped++
			continue
		case rec.Flags&sam.Secondary != 0:
			n.Secondary++
			continue
		case rec.Flags&(sam.Duplicate|sam.QCFail) != 0:
			n.Duplicates++
			continue
		case int(rec.MapQ) < cfg.MinMappingQuality:
			n.LowMapping++
			continue
		case rec.Seq.Length == 0:
			n.WithoutBases++
			continue
		}
		contig := a.genome.Contig(rec.Ref.Name())
		if sorted {
			here := regionKey{rec.Ref.ID(), rec.Pos / align.RegionWidth}
			if c := here.compare(last); c < 0 || c == 0 && rec.Pos < lastPos {
				return n, fmt.Errorf("reading alignment %d: the header says that the file is sorted, but %s:%d comes too late", n.Records, rec.Ref.Name(), rec.Pos+1)
			}
			if err := open.close(here, done); err != nil {
				return n, err
			}
			last, lastPos = here, rec.Pos
		}
		read, alignment, err := fromRecord(rec, contig.Seq)
		if err != nil {
			return n, fmt.Errorf("reading alignment %d, read %s: %w", n.Records, rec.Name, err)
		}
		segments, err := align.Segments(read, alignment, contig.Seq)
		if err != nil {
			return n, fmt.Errorf("reading alignment %d: %w", n.Records, err)
		}
		for _, s := range segments {
			region, err := open.at(rec.Ref.ID(), contig, int(s.GetRegion()))
			if err != nil {
				return n, err
			}
			if changed, err := region.Apply(s); err != nil {
				return n, err
			} else if changed {
				n.Segments++
			}
		}
	}
	err := open.close(regionKey{contig: len(a.header.Refs())}, done)
	n.RegionsCalled = open.called
	return n, err
}

// regionKey orders regions as the header orders contigs.
type regionKey struct{ contig, index int }

func (k regionKey) compare(o regionKey) int {
	return cmp.Or(cmp.Compare(k.contig, o.contig), cmp.Compare(k.index, o.index))
}

// openRegions are the regions that may still get segments.
type openRegions struct {
	genome  *genome.Genome
	cfg     Config
	regions map[regionKey]*Region
	work    Workspace // of all regions
	called  int
}

func (o *openRegions) at(contigID int, contig *genome.Contig, index int) (*Region, error) {
	key := regionKey{contigID, index}
	if r := o.regions[key]; r != nil {
		return r, nil
	}
	r, err := NewRegion(contig, index, o.cfg)
	if err != nil {
		return nil, err
	}
	r.Use(&o.work)
	o.regions[key] = r
	return r, nil
}

// close passes the regions before the given one to done, and forgets them.
func (o *openRegions) close(before regionKey, done func(*Region) error) error {
	var keys []regionKey
	for k := range o.regions {
		if k.compare(before) < 0 {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, regionKey.compare)
	for _, k := range keys {
		if err := done(o.regions[k]); err != nil {
			return err
		}
		delete(o.regions, k)
		o.called++
	}
	return nil
}

// fromRecord turns a SAM record into a read, as far as the record holds it, and
// its alignment.
func fromRecord(rec *sam.Record, ref []byte) (*align.Read, *align.Alignment, error) {
	seq := rec.Seq.Expand()
	read := &align.Read{ID: rec.Name, Seq: seq, Qualities: rec.Qual}
	if len(rec.Qual) > 0 && rec.Qual[0] == 0xff {
		read.Qualities = nil
	}
	if rec.Flags&sam.Read2 != 0 {
		read.Part = 1
	}
	a := &align.Alignment{
		Contig: rec.Ref.Name(), Start: rec.Pos, MappingQuality: rec.MapQ,
		Supplementary: rec.Flags&sam.Supplementary != 0,
	}
	add := func(kind align.OpKind, n int) {
		if k := len(a.Ops); k > 0 && a.Ops[k-1].Kind == kind {
			a.Ops[k-1].Len += n
		} else if n > 0 {
			a.Ops = append(a.Ops, align.Op{Kind: kind, Len: n})
		}
	}
	qpos, rpos, start := 0, rec.Pos, -1
	for _, op := range rec.Cigar {
		n := op.Len()
		switch op.Type() {
		case sam.CigarMatch, sam.CigarEqual, sam.CigarMismatch:
			if n > len(seq)-qpos || n > len(ref)-rpos {
				return nil, nil, errors.New("the CIGAR is longer than the read or the reference")
			}
			if start < 0 {
				start = qpos
			}
			for i := range n {
				kind := align.Mismatch
				if b := seq[qpos+i] &^ 0x20; b == ref[rpos+i] && baseCode[b] < baseN {
					kind = align.Match
				}
				add(kind, 1)
			}
			qpos += n
			rpos += n
			a.QueryEnd = qpos
			a.End = rpos
		case sam.CigarInsertion:
			if start >= 0 {
				add(align.Insertion, n)
			}
			qpos += n
		case sam.CigarDeletion:
			if start < 0 {
				a.Start += n
			} else {
				add(align.Deletion, n)
			}
			rpos += n
		case sam.CigarSoftClipped:
			qpos += n
		case sam.CigarHardClipped, sam.CigarPadded:
		default:
			return nil, nil, fmt.Errorf("CIGAR operation %s: spliced alignments can't be called", op.Type())
		}
	}
	for len(a.Ops) > 0 && a.Ops[len(a.Ops)-1].Kind >= align.Insertion {
		a.Ops = a.Ops[:len(a.Ops)-1]
	}
	if start < 0 || qpos != len(seq) {
		return nil, nil, fmt.Errorf("the CIGAR %s doesn't fit the read's %d bases", rec.Cigar, len(seq))
	}
	a.QueryStart = start
	if rec.Flags&sam.Reverse != 0 {
		// SAM holds the read on the reference's strand; a Read is as sequenced.
		align.ReverseComplement(read.Seq)
		slices.Reverse(read.Qualities)
		a.Reverse = true
		a.QueryStart, a.QueryEnd = len(seq)-a.QueryEnd, len(seq)-a.QueryStart
	}
	return read, a, nil
}

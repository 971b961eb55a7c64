package hts

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/biogo/hts/sam"
)

// Format is a format of alignments.
type Format int

// The formats.
const (
	BAM Format = iota
	SAM
)

// ParseFormat reads a format's name.
func ParseFormat(name string) (Format, error) {
	switch name {
	case "bam":
		return BAM, nil
	case "sam":
		return SAM, nil
	}
	return 0, fmt.Errorf("%q: want bam or sam", name)
}

// SorterConfig says how records are sorted.
type SorterConfig struct {
	Format Format
	// Memory is about how many bytes of records are held; more go to temporary files.
	// 0 means DefaultMemory.
	Memory int64
	// Folder is where temporary files are made; empty means the system's.
	Folder string
	// Threads compress BAM; 0 means 1.
	Threads int
}

// DefaultMemory holds a genome of bacteria at 100x without a file.
const DefaultMemory = 768 << 20

// Sorter writes records in the order of their positions, those at one position in the
// order in which they came, and unmapped ones last. Close must be called, also after an
// error: it removes the temporary files.
type Sorter struct {
	out    io.Writer
	header *sam.Header
	cfg    SorterConfig
	held   []*sam.Record
	size   int64 // of held, in bytes
	files  []*os.File
}

// NewSorter writes to out, by and by when the last record has come.
func NewSorter(out io.Writer, header *sam.Header, cfg SorterConfig) *Sorter {
	if cfg.Memory == 0 {
		cfg.Memory = DefaultMemory
	}
	cfg.Threads = max(1, cfg.Threads)
	return &Sorter{out: out, header: header, cfg: cfg}
}

// Write takes a record, which must not be changed any more.
func (s *Sorter) Write(rec *sam.Record) error {
	s.held = append(s.held, rec)
	if s.size += weight(rec); s.size < s.cfg.Memory {
		return nil
	}
	return s.spill()
}

// weight is about how many bytes of memory a record takes.
func weight(rec *sam.Record) int64 {
	n := 300 + len(rec.Name) + len(rec.Seq.Seq) + len(rec.Qual) + 4*len(rec.Cigar)
	for _, aux := range rec.AuxFields {
		n += 24 + len(aux)
	}
	return int64(n)
}

// byPosition orders records as samtools sort does.
func byPosition(a, b *sam.Record) int {
	return cmp.Or(cmp.Compare(uint(a.Ref.ID()), uint(b.Ref.ID())), cmp.Compare(a.Pos, b.Pos))
}

// spill writes the records that are held to a file.
func (s *Sorter) spill() error {
	slices.SortStableFunc(s.held, byPosition)
	f, err := os.CreateTemp(s.cfg.Folder, "porestream-sort-*.bam")
	if err != nil {
		return fmt.Errorf("sorting alignments: %w", err)
	}
	s.files = append(s.files, f)
	if err := s.write(f, slices.Values(s.held), BAM, gzip.BestSpeed); err != nil {
		return fmt.Errorf("sorting alignments: writing %s: %w", f.Name(), err)
	}
	clear(s.held)
	s.held, s.size = s.held[:0], 0
	return nil
}

// write writes records.
func (s *Sorter) write(w io.Writer, records func(func(*sam.Record) bool), format Format, level int) error {
	out := bufio.NewWriterSize(w, 1<<20)
	rw, err := newWriter(out, format, LinesOf(s.header), s.header.Refs(), s.cfg.Threads, level)
	if err != nil {
		return err
	}
	for rec := range records {
		if err := rw.Write(rec); err != nil {
			return errors.Join(fmt.Errorf("read %s: %w", rec.Name, err), rw.Close())
		}
	}
	if err := rw.Close(); err != nil {
		return err
	}
	return out.Flush()
}

// Finish sorts what is left and writes all records.
func (s *Sorter) Finish() error {
	slices.SortStableFunc(s.held, byPosition)
	m := merger{}
	for _, f := range s.files {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("sorting alignments: %w", err)
		}
		r, err := NewBAMReader(bufio.NewReaderSize(f, 256<<10), 1)
		if err != nil {
			return fmt.Errorf("sorting alignments: reading %s: %w", f.Name(), err)
		}
		defer r.Close()
		m.add(func() (*sam.Record, error) {
			rec, err := r.Read()
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("sorting alignments: reading %s: %w", f.Name(), err)
			}
			return rec, err
		})
	}
	m.add(func() (*sam.Record, error) {
		if len(s.held) == 0 {
			return nil, io.EOF
		}
		rec := s.held[0]
		s.held = s.held[1:]
		return rec, nil
	})
	err := s.write(s.out, m.all, s.cfg.Format, gzip.DefaultCompression)
	if err = cmp.Or(m.err, err); err != nil {
		return fmt.Errorf("writing alignments: %w", err)
	}
	return nil
}

// Close removes the temporary files. It may be called twice.
func (s *Sorter) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close(), os.Remove(f.Name()))
	}
	s.files = nil
	return errors.Join(errs...)
}

// merger merges sorted sources; of records at one position those of earlier sources
// come first.
type merger struct {
	sources []*source
	err     error
}

type source struct {
	rank int
	rec  *sam.Record // next
	next func() (*sam.Record, error)
}

func (m *merger) add(next func() (*sam.Record, error)) {
	m.sources = append(m.sources, &source{rank: len(m.sources), next: next})
}

// all yields the records in order, until the first error.
func (m *merger) all(yield func(*sam.Record) bool) {
	waiting := m.sources
	m.sources = nil
	for _, s := range waiting {
		if !m.advance(s) {
			return
		}
		if s.rec != nil {
			heap.Push(m, s)
		}
	}
	for len(m.sources) > 0 {
		s := m.sources[0]
		rec := s.rec
		if !m.advance(s) {
			return
		}
		if s.rec == nil {
			heap.Pop(m)
		} else {
			heap.Fix(m, 0)
		}
		if !yield(rec) {
			return
		}
	}
}

// advance reads a source's next record.
func (m *merger) advance(s *source) bool {
	rec, err := s.next()
	if errors.Is(err, io.EOF) {
		s.rec = nil
		return true
	}
	s.rec, m.err = rec, err
	return err == nil
}

func (m *merger) Len() int { return len(m.sources) }
func (m *merger) Less(i, j int) bool {
	a, b := m.sources[i], m.sources[j]
	return cmp.Or(byPosition(a.rec, b.rec), cmp.Compare(a.rank, b.rank)) < 0
}
func (m *merger) Swap(i, j int) { m.sources[i], m.sources[j] = m.sources[j], m.sources[i] }
func (m *merger) Push(x any)    { m.sources = append(m.sources, x.(*source)) }
func (m *merger) Pop() any {
	last := m.sources[len(m.sources)-1]
	m.sources = m.sources[:len(m.sources)-1]
	return last
}

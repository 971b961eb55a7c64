// Package aligned calls the variants of alignment files: BAM, CRAM or SAM, from any
// aligner and basecaller, sorted or not, in one piece or from a pipe.
//
// It drives the regions of package variant over a file: alignments become the
// segments that the stream carries, and regions are called in parallel as soon as a
// sorted file has passed them. What comes out depends on the records alone, not on
// their order, on threads, or on an index.
package aligned

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"

	"github.com/biogo/hts/bgzf"
	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/align/hts/cram"
	"github.com/porestream/porestream/align/hts/samtag"
	"github.com/porestream/porestream/basecall/input"
	"github.com/porestream/porestream/genome"
)

// Alignments reads the alignments of a file.
type Alignments struct {
	genome  *genome.Genome
	header  *sam.Header
	contigs []*genome.Contig // by number of the reference sequence; nil: not in the genome

	records *hts.Reader
	parser  hts.Parser
	cutter  align.Cutter
	runs    map[string]string // by read group; none of those that name none
	close   func() error
	index   *hts.Index // nil: there is none

	done  atomic.Int64 // bytes read
	total int64        // 0: not known
}

// Read starts reading BAM, CRAM or SAM, whichever r holds, and checks that its reference
// sequences are those of g.
func Read(r io.Reader, g *genome.Genome) (*Alignments, error) {
	return read(r, g)
}

// Open starts reading a file, with its index (PATH.bai, PATH.csi) if there is one.
// The caller closes it.
func Open(path string, g *genome.Genome) (*Alignments, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	a, err := read(f, g)
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	closeReader := a.close
	a.close = func() error { return errors.Join(closeReader(), f.Close()) }
	if err := a.inspect(f, path); err != nil {
		_ = a.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// inspect finds out what only a file has: its size, its end and its index.
func (a *Alignments) inspect(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	a.total = info.Size()
	if !a.records.Binary() {
		return nil
	}
	if whole, err := bgzf.HasEOF(f); err != nil || !whole {
		return hts.ErrCut
	}
	a.index, err = hts.FindIndex(path, info)
	return err
}

func read(r io.Reader, g *genome.Genome) (*Alignments, error) {
	a := &Alignments{genome: g}
	passed := &counted{r: r, done: &a.done}
	var in io.Reader = passed
	if s, ok := r.(io.Seeker); ok {
		in = seekable{passed, s}
	}
	magic, in, err := peek(in, 4)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading alignments: %w", err)
	case len(magic) == 0:
		return nil, errors.New("reading alignments: the file is empty")
	case bytes.HasPrefix(magic, []byte("\x1f\x8b")):
		if a.records, err = hts.NewBAMReader(in, decompressors); err != nil {
			err = fmt.Errorf("reading BAM header: %w: not a BAM file, or damaged", err)
		}
	case string(magic) == "CRAM":
		if a.records, err = hts.NewCRAMReader(in, cram.Options{Reference: g.Bases, Names: "read"}); err != nil {
			err = fmt.Errorf("reading alignments: %w", err)
		}
	case magic[0] == '@':
		if a.records, err = hts.NewSAMReader(in); err != nil {
			err = fmt.Errorf("reading SAM header: %w", err)
		}
	default:
		return nil, errors.New("reading alignments: neither BAM, CRAM nor SAM with a header; a SAM file without one: samtools view -b -T REF.fa FILE.sam")
	}
	if err != nil {
		return nil, err
	}
	a.records.Reuse()
	a.close, a.header = a.records.Close, a.records.Header()
	if len(a.header.Refs()) == 0 {
		_ = a.Close()
		return nil, errors.New("reading alignments: the header names no reference sequence (@SQ): are these reads aligned?")
	}
	return a, a.matchContigs()
}

// peek returns the first bytes, fewer if there are no more, and a reader that begins
// with them; one that seeks if r does.
func peek(r io.Reader, n int) ([]byte, io.Reader, error) {
	first := make([]byte, n)
	got, err := io.ReadFull(r, first)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, nil, err
	}
	first = first[:got]
	if s, ok := r.(io.Seeker); ok {
		if _, err := s.Seek(0, io.SeekStart); err == nil {
			return first, r, nil
		}
	}
	return first, struct{ io.Reader }{io.MultiReader(bytes.NewReader(first), r)}, nil
}

// decompressors is how many blocks of BGZF are decompressed at a time.
const decompressors = 2

// matchContigs finds the header's reference sequences in the genome.
func (a *Alignments) matchContigs() error {
	a.runs = make(map[string]string)
	for _, line := range a.records.Lines() {
		if !hts.Is(line, "@RG") {
			continue
		}
		if id, run := input.GroupRun(line); run != "" {
			a.runs[id] = run
		}
	}
	a.contigs = make([]*genome.Contig, len(a.header.Refs()))
	for i, ref := range a.header.Refs() {
		c := a.genome.Contig(ref.Name())
		if c != nil && len(c.Seq) != ref.Len() {
			_ = a.Close()
			return fmt.Errorf("reading alignments: %s has %d bases in their header and %d in the reference FASTA: they are to another reference", ref.Name(), ref.Len(), len(c.Seq))
		}
		a.contigs[i] = c
	}
	return nil
}

// Contigs are the contigs of the genome in the order in which they are called:
// that of the file's header, then those that it doesn't have.
func (a *Alignments) Contigs() []*genome.Contig {
	var list []*genome.Contig
	seen := make(map[*genome.Contig]bool)
	for _, c := range append(a.contigs[:len(a.contigs):len(a.contigs)], a.genome.Contigs...) {
		if c != nil && !seen[c] {
			seen[c] = true
			list = append(list, c)
		}
	}
	return list
}

// Samples are the samples that the read groups name, in the order of their names; none if
// no read group names one.
func (a *Alignments) Samples() []string { return a.named("SM") }

// Group is what a read group says of its reads: their sample (SM), their run, and their flow cell (PU), as basecallers of Oxford Nanopore write it. Empty: nothing.
type Group struct{ Sample, Run, FlowCell string }

// Groups are the read groups, each pair of sample and run once for a flow cell.
func (a *Alignments) Groups() []Group {
	var list []Group
	for _, line := range a.records.Lines() {
		if !hts.Is(line, "@RG") {
			continue
		}
		var g Group
		id, _ := hts.Field(line, "ID")
		g.Sample, _ = hts.Field(line, "SM")
		g.FlowCell, _ = hts.Field(line, "PU")
		g.Run = a.runs[id]
		if !slices.Contains(list, g) {
			list = append(list, g)
		}
	}
	return list
}

// named lists what a field of the read groups says, each once.
func (a *Alignments) named(field string) []string {
	var names []string
	for _, line := range a.records.Lines() {
		if name, _ := hts.Field(line, field); name != "" && hts.Is(line, "@RG") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// groupsOf are the read groups of a sample.
func (a *Alignments) groupsOf(sample string) map[string]bool {
	groups := make(map[string]bool)
	for _, line := range a.records.Lines() {
		if name, _ := hts.Field(line, "SM"); name == sample && hts.Is(line, "@RG") {
			id, _ := hts.Field(line, "ID")
			groups[id] = true
		}
	}
	return groups
}

// group is the read group of a record, empty for none.
func group(rec *sam.Record) string {
	name, _ := samtag.Text(rec, "RG")
	return name
}

// parse is a record as a read and its alignment. The read is of the run that its read group
// names, or its tag DS, as it is on the stream: a read is known by its run and its name, and in
// the order of what that makes of it reads are weighed.
//
// Both are valid until the next call.
func (a *Alignments) parse(rec *sam.Record, contig *genome.Contig) (*align.Read, *align.Alignment, error) {
	read, alignment, err := a.parser.Parse(rec, contig.Seq)
	if err != nil {
		return nil, nil, err
	}
	name := group(rec)
	if read.Run = a.runs[name]; read.Run == "" {
		read.Run = input.NamedRun(name)
	}
	if read.Run == "" {
		described, _ := samtag.Text(rec, "DS")
		read.Run = input.RunIn(described)
	}
	return read, alignment, nil
}

// Sorted reports whether the header says that the file is sorted by coordinate.
func (a *Alignments) Sorted() bool { return a.header.SortOrder == sam.Coordinate }

// Progress is how many bytes have been read, and how many there are; 0: not known.
func (a *Alignments) Progress() (done, total int64) { return a.done.Load(), a.total }

// Index is the path of the index, empty if there is none, and whether it is older
// than the file.
func (a *Alignments) Index() (path string, older bool) {
	if a.index == nil {
		return "", false
	}
	return a.index.Path, a.index.Older
}

// Close releases what reading holds; not a reader that was given to Read.
func (a *Alignments) Close() error { return a.close() }

// counted passes a stream on and counts it.
type counted struct {
	r    io.Reader
	done *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.done.Add(int64(n))
	return n, err
}

// seekable is a file that is counted, for readers with an index.
type seekable struct {
	*counted
	io.Seeker
}

package folder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/porestream/porestream/align/hts/cram"
	"github.com/porestream/porestream/basecall/input"
	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream/streampb"
)

// ReadFiles are files of called reads: FASTQ, SAM, BAM and CRAM.
type ReadFiles struct {
	// Roots are the folders and files that are watched.
	Roots []string
	// Naming says whose reads are that don't say so themselves.
	Naming ingest.Naming
	// Failed takes the reads that fell through the basecaller's quality control, too.
	Failed  bool
	Metrics *Metrics // nil: none
	// Reference has the bases of the sequences that CRAM was written with; nil: only CRAM that
	// needs none is read.
	Reference func(name string) []byte

	// parked are files between two passes over the folders, the newest last: reading goes on
	// where they are.
	parked []*openReads
}

// maxParked bounds the files that stay open between two passes: those that grow, of all
// barcodes of several runs.
const maxParked = 256

// namedReads is how files of reads are called, with whatever writers and copying programs
// put behind or before that.
var namedReads = regexp.MustCompile(`\.(fastq|fq|bam|sam|cram)(\.|$)`)

// namedFailed is how MinKNOW and Guppy call folders of reads that failed.
var namedFailed = regexp.MustCompile(`^(.*_)?fail$`)

// Holds recognizes files of reads by their names. Indexes are no such files, nor are files in
// folders of reads that failed.
func (f *ReadFiles) Holds(path string) bool {
	if slices.Contains(f.Roots, path) || slices.ContainsFunc(f.Roots, func(root string) bool { return filepath.Clean(root) == path }) {
		return true
	}
	name := baseName(path)
	for _, other := range []string{".bai", ".csi", ".fai", ".gzi", ".crai"} {
		if strings.HasSuffix(name, other) {
			return false
		}
	}
	return namedReads.MatchString(name) && (f.Failed || !f.failed(path))
}

// failed reports whether a file lies in a folder of reads that failed, below what is watched.
func (f *ReadFiles) failed(path string) bool {
	for _, root := range f.Roots {
		below, err := filepath.Rel(root, path)
		if err != nil || !filepath.IsLocal(below) {
			continue
		}
		for dir := range strings.SplitSeq(filepath.ToSlash(filepath.Dir(below)), "/") {
			if namedFailed.MatchString(strings.ToLower(dir)) {
				return true
			}
		}
	}
	return false
}

// Open opens a file, or goes on with it.
func (f *ReadFiles) Open(path string, size int64, _ func(string) (int64, bool), from signal.Place) (File, error) {
	if i := slices.IndexFunc(f.parked, func(p *openReads) bool { return p.path == path }); i >= 0 {
		p := f.parked[i]
		f.parked = slices.Delete(f.parked, i, i+1)
		if p.Reads() == from.Offset && p.SameFile(path) {
			p.Extend(size)
			return p, nil
		}
		if err := p.Growing.Close(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	// From the beginning: what was sent of it is known.
	g, err := input.OpenGrowing(path, size, cram.Options{Reference: f.Reference})
	switch {
	case errors.Is(err, input.ErrUnfinished):
		return nil, signal.ErrUnfinished
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, reason(err))
	}
	return &openReads{Growing: g, files: f, path: path, barcode: input.BarcodeOf(path)}, nil
}

// Close closes what is open between two passes.
func (f *ReadFiles) Close() error {
	var errs []error
	for _, p := range f.parked {
		errs = append(errs, p.Growing.Close())
	}
	f.parked = nil
	return errors.Join(errs...)
}

// openReads is a file of called reads.
type openReads struct {
	*input.Growing
	files   *ReadFiles
	path    string
	barcode string // that the path names
	failed  error  // why it can't be read further
}

func (f *openReads) Next() (Found, error) {
	for {
		r, err := f.Growing.Next()
		if _, record := errors.AsType[*input.RecordError](err); record {
			return nil, &SkippedError{fmt.Errorf("%s: %w", f.path, err)}
		}
		switch {
		case errors.Is(err, input.ErrUnfinished):
			return nil, signal.ErrUnfinished
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case err != nil:
			f.failed = err
			return nil, fmt.Errorf("%s: %w", f.path, reason(err))
		}
		if found := f.files.take(r, f.path, f.barcode); found != nil {
			return found, nil
		}
	}
}

// Place is how many reads were returned: a file that isn't open any more is read from its beginning.
func (f *openReads) Place() (signal.Place, error) { return signal.Place{Offset: f.Reads()}, nil }

// Close keeps the file for the next pass.
func (f *openReads) Close() error {
	if f.failed != nil {
		return f.Growing.Close()
	}
	f.Rest()
	f.files.parked = append(f.files.parked, f)
	if len(f.files.parked) <= maxParked {
		return nil
	}
	oldest := f.files.parked[0]
	f.files.parked = slices.Delete(f.files.parked, 0, 1)
	return oldest.Growing.Close()
}

// take makes a read of a file a found one; it returns nil for a read that isn't taken. barcode is
// what the path names, for a read that names none.
func (f *ReadFiles) take(r *input.Read, path, barcode string) *calledRead {
	switch {
	case len(r.Sequence) == 0:
		f.Metrics.leftOut("empty")
		return nil
	case r.Failed && !f.Failed:
		f.Metrics.leftOut("failed")
		return nil
	case r.DuplexParent:
		f.Metrics.leftOut("duplex_parent")
		return nil
	}
	r.Barcode = cmp.Or(r.Barcode, barcode)
	if r.Barcode == "" && (f.Naming.Demultiplexed || f.Naming.Sheet != nil) {
		r.Barcode = input.Unclassified
	}
	return &calledRead{Read: r, naming: &f.Naming, path: path}
}

// calledRead is a called read.
type calledRead struct {
	*input.Read
	naming *ingest.Naming
	path   string
	packed *ingest.Called
}

func (r *calledRead) ID() string  { return r.Read.ID }
func (r *calledRead) Run() string { return r.naming.RunOf(r.Read) }

func (r *calledRead) Describe(string) (*streampb.Run, error) {
	run, err := r.naming.Describe(r.Read)
	if err == nil {
		err = r.naming.Listed(run)
	}
	if err != nil {
		return nil, r.skipped(err)
	}
	return run, nil
}

func (r *calledRead) skipped(err error) error {
	return &SkippedError{fmt.Errorf("%s: %w", r.path, err)}
}

func (r *calledRead) Agrees(run *streampb.Run) error {
	if !run.GetCalled() {
		return fmt.Errorf("%s: run %s was begun with signal: attach a run one way", r.path, run.GetId())
	}
	return nil
}

func (r *calledRead) Fits(run *streampb.Run) error {
	var err error
	if r.packed, err = r.naming.Pack(run, r.Read); err != nil {
		return r.skipped(err)
	}
	return nil
}

// Sum is a checksum of the bases, which is never 0.
func (r *calledRead) Sum() uint32 {
	return max(1, crc32.ChecksumIEEE(r.Sequence))
}

func (*calledRead) Chunks(int) int { return 1 }

// Load makes the read count for what it takes in memory.
func (r *calledRead) Load(buf []int16) ([]int16, error) {
	return append(buf, make([]int16, len(r.Sequence))...), nil
}

func (r *calledRead) Put(ctx context.Context, feed Feed, _ int) error {
	return feed.PutCalled(ctx, r.packed)
}

package folder

import (
	"context"
	"fmt"
	"strings"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream/streampb"
)

// Files says which files hold reads, and opens them.
type Files interface {
	// Holds reports, by a file's path, whether there may be reads in it.
	Holds(path string) bool
	// Open opens a file of which size bytes can be trusted, to be read from a place on.
	// beside gives the trusted sizes of other files in its folder. It returns
	// signal.ErrUnfinished when too little is there to begin with.
	Open(path string, size int64, beside func(name string) (int64, bool), from signal.Place) (File, error)
	// Close lets go of what is kept between two passes over the folders.
	Close() error
}

// File is a file that may still be written.
type File interface {
	// Next returns the next read; io.EOF after the last of a file that has its end, and
	// signal.ErrUnfinished where its writer has not gone on yet. After a [SkippedError]
	// there may be others.
	Next() (Found, error)
	// Holding reports whether the file holds much memory that reading on lets go of: its turn goes on until then.
	Holding() bool
	// Place is where reading goes on.
	Place() (signal.Place, error)
	Close() error
}

// Found is a read that was found.
type Found interface {
	ID() string
	Run() string
	// Describe describes the read's run; sample, if set, replaces the sample's name.
	Describe(sample string) (*streampb.Run, error)
	// Agrees refuses a read whose run is described otherwise than it was begun, also one that was
	// sent before: its file is of another run.
	Agrees(run *streampb.Run) error
	// Fits refuses a read that can't be sent.
	Fits(run *streampb.Run) error
	// Sum distinguishes the read from another of the same id; 0 if it is not known.
	Sum() uint32
	// Chunks is the number of events that the read is sent as.
	Chunks(chunkSamples int) int
	// Load reads what is sent of the read. It may do so behind buf, and returns that with
	// what is to be held in memory.
	Load(buf []int16) ([]int16, error)
	// Put sends the read, which was loaded, from one of its events on.
	Put(ctx context.Context, feed Feed, from int) error
}

// SkippedError says of one read that it can't be used; the others of its file can.
type SkippedError struct{ Err error }

func (e *SkippedError) Error() string { return e.Err.Error() }
func (e *SkippedError) Unwrap() error { return e.Err }

// signalFiles are POD5, BLOW5 and FAST5 files.
type signalFiles struct{}

func (signalFiles) Holds(path string) bool {
	name := baseName(path)
	if strings.HasSuffix(name, ".blow5.idx") {
		return false
	}
	return strings.Contains(name, ".pod5") || strings.Contains(name, ".blow5") || strings.Contains(name, ".fast5")
}

func (signalFiles) Open(path string, size int64, beside func(string) (int64, bool), from signal.Place) (File, error) {
	g, err := signal.OpenGrowing(path, size, beside, from)
	if err != nil {
		return nil, err
	}
	return signalFile{g}, nil
}

func (signalFiles) Close() error { return nil }

type signalFile struct{ *signal.Growing }

func (f signalFile) Next() (Found, error) {
	rd, samples, err := f.Growing.Next()
	if err != nil {
		return nil, err
	}
	return &signalRead{rd: rd, read: samples}, nil
}

// Holding is false: signal is loaded read by read.
func (signalFile) Holding() bool { return false }

// signalRead is the signal of a read.
type signalRead struct {
	rd      *signal.Read
	read    func([]int16) ([]int16, error)
	samples []int16
}

func (r *signalRead) ID() string  { return r.rd.ID }
func (r *signalRead) Run() string { return r.rd.Run.ID }
func (r *signalRead) Sum() uint32 { return 0 }

func (r *signalRead) Describe(sample string) (*streampb.Run, error) {
	return ingest.Describe(r.rd.Run, sample), nil
}

func (r *signalRead) Agrees(run *streampb.Run) error {
	if got, was := r.rd.Run.SampleRate, int(run.GetSampleRate()); got != was {
		return fmt.Errorf("run %s has %d samples a second here, and had %d before", run.GetId(), got, was)
	}
	return nil
}

func (r *signalRead) Fits(run *streampb.Run) error { return ingest.CheckRead(run, r.rd) }

func (r *signalRead) Chunks(chunkSamples int) int {
	return ingest.Chunks(r.rd.NumSamples, chunkSamples)
}

func (r *signalRead) Load(buf []int16) ([]int16, error) {
	start := len(buf)
	buf, err := r.read(buf)
	if err == nil {
		r.samples = buf[start:len(buf):len(buf)]
	}
	return buf, err
}

func (r *signalRead) Put(ctx context.Context, feed Feed, from int) error {
	return feed.Put(ctx, r.rd, r.samples, from)
}

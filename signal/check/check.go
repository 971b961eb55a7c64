// Package check reads recordings to their last sample and says what is wrong with
// them.
//
// Where the readers of a file stop at the first fault, a check goes on behind it as
// far as the format allows: a POD5 file whose reads table has a bad batch still has
// the others, a BLOW5 file goes on behind a bad record whose length is right, and each
// read of a FAST5 file stands for itself. POD5 and BLOW5 have no checksums of their
// own; those of Zstandard and zlib, and of HDF5's metadata and filter Fletcher-32, are
// checked where a writer put them.
package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/blow5"
	"github.com/porestream/porestream/signal/fast5"
	"github.com/porestream/porestream/signal/internal/uuid"
	"github.com/porestream/porestream/signal/pod5"
)

// Problem is one thing that is wrong.
type Problem struct {
	Path string `json:"file"`
	What string `json:"what"` // the place in the file, and what is wrong there
	Do   string `json:"do"`   // what helps
}

// String is the problem on one line.
func (p Problem) String() string { return p.Path + ": " + p.What + ": " + p.Do }

// Counts says how much was read.
type Counts struct {
	Files    int   `json:"files"`
	Reads    int64 `json:"reads"`
	Samples  int64 `json:"samples"`
	Problems int64 `json:"problems"`
}

// What helps.
const (
	copyAgain = "copy the file again from where it was recorded"
	recover5  = "wait until its writer has closed it, or copy it again; `pod5 recover` may save its reads"
	cutBLOW5  = "copy the file again; slow5tools may save the records before this place"
	oneID     = "two recordings have one id: keep them in files of their own"
	keepOne   = "keep each read in one place only"
	report    = "inform the authors of the program that wrote the file"
)

// Files reads files and calls problem for everything that is wrong. The names of
// reads must be unique among all of them. It fails only when ctx ends. It holds
// some forty bytes for each read.
func Files(ctx context.Context, paths []string, problem func(Problem)) (Counts, error) {
	c := checker{ids: make(map[[16]byte]int32), names: make(map[string]int32), paths: paths, problem: problem}
	for i, path := range paths {
		c.file = int32(i)
		c.counts.Files++
		c.shared = make(map[int32]*shared)
		if err := c.check(ctx, path); err != nil {
			return c.counts, err
		}
		c.reportShared()
	}
	return c.counts, nil
}

type checker struct {
	paths   []string
	file    int32
	ids     map[[16]byte]int32 // file of each read
	names   map[string]int32   // of reads whose name is no UUID
	problem func(Problem)
	counts  Counts
	samples []int16
	// shared are the reads of this file that have been in a file before.
	shared map[int32]*shared
}

// shared counts reads that two files have.
type shared struct {
	reads int
	first string
}

func (c *checker) found(do, format string, args ...any) {
	c.counts.Problems++
	c.problem(Problem{Path: c.paths[c.file], What: fmt.Sprintf(format, args...), Do: do})
}

// check reads one file by the bytes at its beginning.
func (c *checker) check(ctx context.Context, path string) error {
	format, err := signal.FormatOf(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		c.found("see that it is there and may be read", "%v", err)
	case err != nil:
		c.found(copyAgain, "%v", err)
	case format == "blow5":
		return c.blow5(ctx, path)
	case format == "fast5":
		return c.fast5(ctx, path)
	default:
		return c.pod5(ctx, path)
	}
	return nil
}

// advice returns what to do about an error of a reader of POD5.
func advice(err error) string {
	what := err.Error()
	switch {
	case strings.Contains(what, "still being written"):
		return recover5
	case strings.Contains(what, "field "):
		return report // what is read is there, but not as the format has it
	}
	return copyAgain
}

func (c *checker) pod5(ctx context.Context, path string) error {
	r, err := pod5.Open(path)
	if err != nil {
		c.found(advice(err), "%v", err)
		return nil
	}
	defer r.Close()
	for _, conflict := range r.RunConflicts() {
		c.found(oneID, "%s", conflict)
	}
	rows, err := r.SignalRows()
	if err != nil {
		c.found(advice(err), "%v", err)
		return nil
	}
	used := make([]bool, rows)
	for b := range r.Batches() {
		reads, err := r.Batch(b)
		if err != nil {
			c.found(advice(err), "%v", err)
			continue
		}
		for i := range reads {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			c.pod5Read(r, &reads[i], used)
		}
	}
	return c.unusedRows(ctx, r, used)
}

func (c *checker) pod5Read(r *pod5.Reader, rd *pod5.Read, used []bool) {
	c.counts.Reads++
	name := uuid.Format(rd.ID)
	if f, ok := c.ids[rd.ID]; ok {
		c.twice(name, f)
	} else {
		c.ids[rd.ID] = c.file
	}
	for _, row := range rd.Rows {
		if row >= uint64(len(used)) {
			continue // reading it says so
		}
		if used[row] {
			c.found(report, "read %s: row %d of the signal table is another read's, or twice in this one", name, row)
		}
		used[row] = true
	}
	var err error
	if c.samples, err = r.Samples(rd, c.samples[:0]); err != nil {
		c.found(copyAgain, "read %s: %v", name, err)
		return
	}
	c.counts.Samples += int64(len(c.samples))
	c.value(name, float64(rd.CalibrationScale))
}

// unusedRows unpacks the signal that no read has.
func (c *checker) unusedRows(ctx context.Context, r *pod5.Reader, used []bool) error {
	n, first := 0, 0
	for row, ok := range used {
		if ok {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if n++; n == 1 {
			first = row
		}
		if _, _, err := r.Row(uint64(row), c.samples[:0]); err != nil {
			c.found(copyAgain, "%v", err)
		}
	}
	if n > 0 {
		c.found("`pore signal convert` leaves it out", "%d rows of the signal table, the first of them %d, belong to no read", n, first)
	}
	return nil
}

// value checks for a calibration that a file can hold but that can't be used.
func (c *checker) value(name string, scale float64) {
	if scale == 0 {
		c.found("ask who recorded it for its calibration", "read %s: the scale of its calibration is 0", name)
	}
}

// twice notes a read that has been in a file before.
func (c *checker) twice(name string, other int32) {
	if c.shared[other] == nil {
		c.shared[other] = &shared{first: name}
	}
	c.shared[other].reads++
}

// reportShared reports one line for each file that shares reads with this one, not one
// for each read: a user who names a folder of copies has thousands of shared reads.
func (c *checker) reportShared() {
	for _, other := range slices.Sorted(maps.Keys(c.shared)) {
		s := c.shared[other]
		switch {
		case other == c.file && s.reads == 1:
			c.found(keepOne, "read %s occurs twice", s.first)
		case other == c.file:
			c.found(keepOne, "%d reads, the first of them %s, occur more than once", s.reads, s.first)
		case s.reads == 1:
			c.found(keepOne, "read %s is also in %s", s.first, c.paths[other])
		default:
			c.found(keepOne, "%d reads, the first of them %s, are also in %s", s.reads, s.first, c.paths[other])
		}
	}
}

func (c *checker) blow5(ctx context.Context, path string) error {
	r, err := blow5.Open(path)
	if err != nil {
		c.found(copyAgain, "%v", err)
		return nil
	}
	defer r.Close()
	rates := make(map[uint32]float64)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		at := r.Offset()
		err := r.Next(func(rec *blow5.Record, _ int64) error { return c.record(rec, rates) })
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && r.Offset() == at:
			c.found(cutBLOW5, "%v", err) // where the next record begins is not known
			return nil
		case err != nil:
			c.found(copyAgain, "%v", err)
		}
	}
}

// name notes a read's name.
func (c *checker) name(name string) {
	id, isUUID := uuid.Parse(name)
	other, seen := c.names[name]
	if isUUID {
		other, seen = c.ids[id]
		c.ids[id] = c.file
	} else {
		c.names[name] = c.file
	}
	if seen {
		c.twice(name, other)
	}
}

func (c *checker) record(rec *blow5.Record, rates map[uint32]float64) error {
	c.counts.Reads++
	c.name(rec.ReadID)
	if rate, ok := rates[rec.ReadGroup]; ok && rate != rec.SamplingRate {
		c.found(report, "read %s: field %q is %v, but %v before in read group %d", rec.ReadID, "sampling_rate", rec.SamplingRate, rate, rec.ReadGroup)
	}
	rates[rec.ReadGroup] = rec.SamplingRate
	c.value(rec.ReadID, rec.Range/rec.Digitisation)
	var err error
	if c.samples, err = rec.AppendSamples(c.samples[:0]); err != nil {
		return err
	}
	c.counts.Samples += int64(len(c.samples))
	return nil
}

func (c *checker) fast5(ctx context.Context, path string) error {
	r, err := fast5.Open(path)
	if err != nil {
		c.found(fast5Advice(err), "%v", err)
		return nil
	}
	defer r.Close()
	rates := make(map[*fast5.Run]float64)
	for i := range r.Len() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.counts.Reads++
		rd, err := r.Read(i)
		if err != nil {
			c.found(fast5Advice(err), "%v", err)
			continue
		}
		c.name(rd.ID)
		if rate, ok := rates[rd.Run]; ok && rate != rd.SampleRate {
			c.found(report, "read %s: attribute %q is %v, but %v before in its run", rd.ID, "sampling_rate", rd.SampleRate, rate)
		}
		rates[rd.Run] = rd.SampleRate
		if rd.Duration != uint64(rd.Samples) {
			c.found(report, "read %s: attribute %q is %d, but it has %d samples", rd.ID, "duration", rd.Duration, rd.Samples)
		}
		c.value(rd.ID, rd.Range/rd.Digitisation)
		if c.samples, err = r.Samples(rd, c.samples[:0]); err != nil {
			c.found(fast5Advice(err), "read %s: %v", rd.ID, err)
			continue
		}
		c.counts.Samples += int64(len(c.samples))
	}
	return nil
}

// fast5Advice returns what to do about an error of a reader of FAST5.
func fast5Advice(err error) string {
	what := err.Error()
	switch {
	case strings.Contains(what, "not supported"), strings.Contains(what, "bulk FAST5"), strings.Contains(what, "holds no reads"):
		return "give files that hold reads as MinKNOW or ont_fast5_api write them"
	case strings.Contains(what, "attribute "):
		return report
	}
	return copyAgain
}

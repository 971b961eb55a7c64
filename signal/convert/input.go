package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/blow5"
	"github.com/porestream/porestream/signal/fast5"
	"github.com/porestream/porestream/signal/internal/uuid"
	"github.com/porestream/porestream/signal/pod5"
)

// input is a file that is read.
type input struct {
	path  string
	pod5  *pod5Input // one of them
	blow  *blow5Input
	fast5 *fast5Input
}

// found is a read as a scan finds it.
type found struct {
	at      uint64 // where input.read finds it again
	id      string
	channel uint32
	// run is what the file says of the run, of a FAST5 file fast5, and of a BLOW5 file
	// group, the read group.
	run   *pod5.RunInfo
	fast5 *fast5.Run
	group int
	// reason is why the read ended, in a POD5 or FAST5 file.
	reason string
	// rate and levels are the sample rate and digitisation of a BLOW5 or FAST5 read.
	rate, levels float64
	// has are the fields of a FAST5 read that not all files have.
	has fast5Fields
}

func openInput(path string) (*input, error) {
	in := &input{path: path}
	format, err := signal.FormatOf(path)
	switch format {
	case "pod5":
		in.pod5, err = openPOD5(path)
	case "blow5":
		in.blow, err = openBLOW5(path)
	case "fast5":
		in.fast5, err = openFAST5(path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return in, nil
}

// reason drops the operation and path that os errors carry.
func reason(path string, err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

func (in *input) close() error {
	switch {
	case in.pod5 != nil:
		return in.pod5.r.Close()
	case in.fast5 != nil:
		return in.fast5.r.Close()
	}
	return in.blow.r.Close()
}

// scan calls fn with every read in file order.
func (in *input) scan(ctx context.Context, fn func(found) error) error {
	var err error
	switch {
	case in.pod5 != nil:
		err = in.pod5.scan(ctx, fn)
	case in.fast5 != nil:
		err = in.fast5.scan(ctx, fn)
	default:
		err = in.blow.scan(ctx, fn)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", in.path, err)
	}
	return nil
}

// maxBatches is the number of record batches of one file's reads table that are
// kept: two million reads in ONT's files. Reads in file order need one; those of a
// channel lie in all of them.
const maxBatches = 2048

// pod5Input reads a POD5 file.
type pod5Input struct {
	r       *pod5.Reader
	batches map[int][]pod5.Read
	order   []int // of batches, as they came
	samples []int16
}

func openPOD5(path string) (*pod5Input, error) {
	r, err := pod5.Open(path)
	if err != nil {
		return nil, err
	}
	return &pod5Input{r: r, batches: make(map[int][]pod5.Read)}, nil
}

func (in *pod5Input) scan(ctx context.Context, fn func(found) error) error {
	for b := range in.r.Batches() {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		reads, err := in.r.Batch(b)
		if err != nil {
			return err
		}
		for i := range reads {
			rd := &reads[i]
			f := found{at: uint64(b)<<32 | uint64(i), id: uuid.Format(rd.ID), channel: rd.Channel, run: rd.Run, reason: rd.EndReason}
			if err := fn(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// read returns a read that scan found, with its samples, which are valid until the
// next call.
func (in *pod5Input) read(at uint64) (*pod5.Read, []int16, error) {
	b, i := int(at>>32), int(uint32(at))
	reads, ok := in.batches[b]
	if !ok {
		if len(in.order) == maxBatches {
			delete(in.batches, in.order[0])
			in.order = in.order[1:]
		}
		var err error
		if reads, err = in.r.Batch(b); err != nil {
			return nil, nil, err
		}
		in.batches[b] = reads
		in.order = append(in.order, b)
	}
	if i >= len(reads) {
		return nil, nil, errors.New("the file changed while it was being read")
	}
	var err error
	if in.samples, err = in.r.Samples(&reads[i], in.samples[:0]); err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", uuid.Format(reads[i].ID), err)
	}
	return &reads[i], in.samples, nil
}

// blow5Input reads a BLOW5 file.
type blow5Input struct {
	r       *blow5.Reader
	samples []int16
}

func openBLOW5(path string) (*blow5Input, error) {
	r, err := blow5.Open(path)
	if err != nil {
		return nil, err
	}
	return &blow5Input{r: r}, nil
}

func (in *blow5Input) scan(ctx context.Context, fn func(found) error) error {
	for n := 0; ; n++ {
		if n%256 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := in.r.Next(func(rec *blow5.Record, at int64) error {
			channel, err := channelOf(rec)
			if err != nil {
				return err
			}
			return fn(found{at: uint64(at), id: rec.ReadID, channel: channel, group: int(rec.ReadGroup), rate: rec.SamplingRate, levels: rec.Digitisation})
		})
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// read calls fn with a record that scan found and its samples.
func (in *blow5Input) read(at uint64, fn func(rec *blow5.Record, samples []int16) error) error {
	return in.r.View(int64(at), func(rec *blow5.Record) (err error) {
		if in.samples, err = rec.AppendSamples(in.samples[:0]); err != nil {
			return err
		}
		return fn(rec, in.samples)
	})
}

package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/blow5"
	"github.com/porestream/porestream/signal/fast5"
	"github.com/porestream/porestream/signal/internal/uuid"
	"github.com/porestream/porestream/signal/pod5"
)

// input is a file that is read.
type input struct {
	path string
	source
	blow *blow5Input // source, if that is a BLOW5 file
}

// source reads a file of one format.
type source interface {
	// scan calls fn with every read in file order.
	scan(ctx context.Context, fn func(found) error) error
	// read calls fn with the samples of a read that scan found, appended to buf, and
	// with what adds it to a target. Neither is valid behind the call. It may be called
	// from several goroutines at once.
	read(at uint64, buf []int16, fn func(samples []int16, add adder) error) error
	close() error
}

// adder adds a read to a target, as one of a run.
type adder func(t target, run int32) error

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
		in.source, err = openPOD5(path)
	case "blow5":
		in.blow, err = openBLOW5(path)
		in.source = in.blow
	case "fast5":
		in.source, err = openFAST5(path)
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

// maxBatches is the number of record batches of one file's reads table that are
// kept: two million reads in ONT's files. Reads in file order need one; those of a
// channel lie in all of them.
const maxBatches = 2048

// pod5Input reads a POD5 file.
type pod5Input struct {
	r *pod5.Reader

	mu      sync.Mutex
	batches map[int][]pod5.Read
	order   []int // of batches, as they came
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

func (in *pod5Input) close() error { return in.r.Close() }

func (in *pod5Input) read(at uint64, buf []int16, fn func([]int16, adder) error) error {
	reads, err := in.batch(int(at >> 32))
	if err != nil {
		return err
	}
	i := int(uint32(at))
	if i >= len(reads) {
		return errors.New("the file changed while it was being read")
	}
	rd := &reads[i]
	if buf, err = in.r.Samples(rd, buf); err != nil {
		return fmt.Errorf("read %s: %w", uuid.Format(rd.ID), err)
	}
	return fn(buf, func(t target, run int32) error { return t.pod5(rd, run, buf) })
}

// batch returns a batch of the reads table, which several reads in a row have.
func (in *pod5Input) batch(b int) (reads []pod5.Read, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	reads, ok := in.batches[b]
	if ok {
		return reads, nil
	}
	if len(in.order) == maxBatches {
		delete(in.batches, in.order[0])
		in.order = in.order[1:]
	}
	if reads, err = in.r.Batch(b); err != nil {
		return nil, err
	}
	in.batches[b] = reads
	in.order = append(in.order, b)
	return reads, nil
}

// blow5Input reads a BLOW5 file.
type blow5Input struct{ r *blow5.Reader }

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

func (in *blow5Input) close() error { return in.r.Close() }

func (in *blow5Input) read(at uint64, buf []int16, fn func([]int16, adder) error) error {
	return in.r.View(int64(at), func(rec *blow5.Record) (err error) {
		if buf, err = rec.AppendSamples(buf); err != nil {
			return err
		}
		return fn(buf, func(t target, run int32) error { return t.blow5(rec, run, buf) })
	})
}

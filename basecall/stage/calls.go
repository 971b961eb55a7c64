package stage

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream/streampb"
)

// Caller basecalls reads while their signal comes; see [FromEngine].
type Caller interface {
	// Begin begins a read of which no sample has come. It is safe for concurrent use.
	Begin(read basecall.Read) (Stream, error)
}

// Stream is a read that is being basecalled; basecall.Stream is one. It is used by
// one goroutine at a time, and closed.
type Stream interface {
	// Write adds samples to the read. It blocks while there is too much to compute.
	Write(ctx context.Context, samples []int16) error
	// SoFar returns what is called of the beginning of the read, which doesn't change any more.
	SoFar() basecall.Called
	// Finish says that the read has ended and returns what it is called.
	Finish(ctx context.Context) (basecall.Called, error)
	// Close drops what has not been called.
	Close()
}

// FromEngine is a basecall.Caller as the stage uses it.
func FromEngine(c *basecall.Caller) Caller { return engine{c} }

type engine struct{ *basecall.Caller }

func (e engine) Begin(read basecall.Read) (Stream, error) {
	s, err := e.Caller.Begin(read)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// catchUp bounds the samples of a read that are written for one chunk beyond the
// chunk's own. A long read that has to be called anew, because its partition came
// from elsewhere, thus holds up the other channels for little at a time.
const catchUp = 1 << 16

// calls are the open reads of a partition that are being called. They follow from
// the fold and add nothing to it: what is lost of them, with the process or the
// partition, is computed again from the signal, to the same bytes.
//
// Each stretch of a read without a gap is called on its own, as it is when the
// read has ended: by then late chunks may have joined it to the one before, and
// its call is dropped for that one's. No base is called across a gap.
type calls struct {
	unpack   unpacker
	open     map[readKey][]*call
	partials map[readKey]*partialResult // those that have been published
}

// call is a gapless stretch of a read that is being called.
type call struct {
	from, to uint64 // samples within the read that were written
	stream   Stream
	model    *Model
	done     func() // gives the model back
}

// close drops what has not been called, and gives the model back.
func (k *call) close() {
	k.stream.Close()
	k.done()
}

// unpacker gives back the samples of chunks. It is used by one goroutine at a time.
type unpacker struct {
	codec   *vbz.Codec
	samples []int16
}

func newCalls() *calls {
	return &calls{unpack: unpacker{codec: vbz.NewCodec()}, open: make(map[readKey][]*call), partials: make(map[readKey]*partialResult)}
}

// begin begins to call a stretch that begins at a sample of the read. done is called when the
// call is closed, or when there is none.
func begin(m *Model, done func(), run *streampb.Run, read *assembledRead, from uint64) (*call, error) {
	s, err := m.Caller.Begin(basecall.Read{
		ID: read.id, SampleRate: int(run.GetSampleRate()),
		Calibration: signal.Calibration{Offset: read.offset, Scale: read.scale},
	})
	if err != nil {
		done()
		return nil, err
	}
	return &call{from: from, to: from, stream: s, model: m, done: done}, nil
}

// feed goes on with an open read, to which samples came, and returns how many
// more of it are written now. It calls use for the model of each stretch that is begun.
func (c *calls) feed(ctx context.Context, run *streampb.Run, read *assembledRead, use func() (*Model, func(), error)) (int, error) {
	stretches := read.stretches()
	if len(stretches) == 0 {
		return 0, nil
	}
	key := readKey{read.run, read.id}
	var now []*call
	for _, s := range stretches {
		k := callFrom(c.open[key], s[0])
		if k == nil {
			m, done, err := use()
			if err == nil {
				k, err = begin(m, done, run, read, s[0])
			}
			if err != nil {
				closeCalls(slices.DeleteFunc(now, func(k *call) bool { return slices.Contains(c.open[key], k) }))
				return 0, err
			}
		}
		now = append(now, k)
	}
	closeCalls(slices.DeleteFunc(c.open[key], func(k *call) bool { return slices.Contains(now, k) }))
	c.open[key] = now
	written, left := 0, uint64(catchUp)
	for i, k := range now {
		to := min(stretches[i][1], k.to+left)
		left -= to - k.to
		written += int(to - k.to)
		if err := k.write(ctx, read, to, &c.unpack); err != nil {
			return written, err
		}
	}
	return written, nil
}

// take hands over what is being called of a read that is finished or cut, and where it has
// been published to; nil: nowhere.
func (c *calls) take(read *assembledRead) ([]*call, *partialResult) {
	key := readKey{read.run, read.id}
	taken, handed := c.open[key], c.partials[key]
	delete(c.open, key)
	delete(c.partials, key)
	return taken, handed
}

// close drops all calls.
func (c *calls) close() {
	for _, list := range c.open {
		closeCalls(list)
	}
	clear(c.open)
	clear(c.partials)
}

func closeCalls(list []*call) {
	for _, k := range list {
		k.close()
	}
}

// callFrom returns the call of the stretch that begins at a sample; nil if there is none.
func callFrom(list []*call, from uint64) *call {
	i := slices.IndexFunc(list, func(k *call) bool { return k.from == from })
	if i < 0 {
		return nil
	}
	return list[i]
}

// write writes the samples of a read up to one, all of which are there.
func (k *call) write(ctx context.Context, read *assembledRead, to uint64, u *unpacker) error {
	return u.each(read, k.to, to, func(samples []int16) error {
		if err := k.stream.Write(ctx, samples); err != nil {
			return err
		}
		k.to += uint64(len(samples))
		return nil
	})
}

// each unpacks the samples [from, to) of a read, all of which are there, piece by piece.
func (u *unpacker) each(read *assembledRead, from, to uint64, take func(samples []int16) error) error {
	i := sort.Search(len(read.chunks), func(i int) bool { return read.chunks[i].end() > from })
	for ; from < to; i++ {
		c := &read.chunks[i]
		var err error
		if u.samples, err = u.codec.Decode(u.samples[:0], c.vbz, int(c.count)); err != nil {
			return fmt.Errorf("unpacking samples from %d of read %s: %w", c.first, read.id, err)
		}
		end := min(to, c.end())
		if err := take(u.samples[from-c.first : end-c.first]); err != nil {
			return err
		}
		from = end
	}
	return nil
}

// all unpacks the samples [from, to) of a read, all of which are there.
func (u *unpacker) all(read *assembledRead, from, to uint64) ([]int16, error) {
	samples := make([]int16, 0, to-from)
	err := u.each(read, from, to, func(more []int16) error {
		samples = append(samples, more...)
		return nil
	})
	return samples, err
}

package pod5

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/porestream/porestream/signal/vbz"
)

// signalTableReader finds pieces of current by their row.
type signalTableReader struct {
	t *table
	// All batches but the last have the same number of rows, so that a row's batch
	// is a division away; ONT's reader counts on it too, here it is checked
	// whenever a batch is opened.
	batchRows uint64

	readID, signal, samples int
	compressed              bool
	last                    atomic.Pointer[signalBatch]
	codecs                  codecPool
}

func (s *signalTableReader) init(t *table) (err error) {
	s.t = t
	if s.readID, err = t.required("read_id", isUUID, "minknow.uuid"); err != nil {
		return err
	}
	if s.samples, err = t.required("samples", is(arrow.UINT32), "uint32"); err != nil {
		return err
	}
	isSignal := func(dt arrow.DataType) bool {
		switch dt := dt.(type) {
		case *arrow.LargeBinaryType:
			return true
		case *arrow.LargeListType:
			return dt.Elem().ID() == arrow.INT16
		}
		return false
	}
	if s.signal, err = t.required("signal", isSignal, "minknow.vbz or large_list<int16>"); err != nil {
		return err
	}
	s.compressed = storageType(t.schema.Field(s.signal).Type).ID() == arrow.LARGE_BINARY
	if t.batches() == 0 {
		return nil
	}
	err = t.batch(0, func(b arrow.RecordBatch) error {
		s.batchRows = uint64(b.NumRows())
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: batch 0: %w", t.what, err)
	}
	return nil
}

// signalBatch is a record batch of the signal table. Its columns lie in the file.
type signalBatch struct {
	index   int
	rows    int
	ids     *array.FixedSizeBinary
	samples *array.Uint32
	signal  arrow.Array // *array.LargeBinary of VBZ, or *array.LargeList of int16
}

// batch returns record batch i. Rows are mostly asked for in order, so the last batch
// is kept: building one takes longer than decoding a short row. It holds no memory
// but that of its columns' descriptions, so it needs no release.
func (s *signalTableReader) batch(i int) (*signalBatch, error) {
	if b := s.last.Load(); b != nil && b.index == i {
		return b, nil
	}
	b := &signalBatch{index: i}
	err := s.t.batch(i, func(r arrow.RecordBatch) error {
		if n := uint64(r.NumRows()); n != s.batchRows && (i != s.t.batches()-1 || n > s.batchRows) {
			return fmt.Errorf("batch %d has %d rows, batch 0 has %d", i, n, s.batchRows)
		}
		r.Retain()
		b.rows = int(r.NumRows())
		b.ids = storage(r.Column(s.readID)).(*array.FixedSizeBinary)
		b.samples = storage(r.Column(s.samples)).(*array.Uint32)
		b.signal = storage(r.Column(s.signal))
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.last.Store(b)
	return b, nil
}

// piece is one row of the signal table, valid only inside row's callback.
type piece struct {
	readID  []byte
	samples uint32
	column  arrow.Array
	row     int
}

// row calls fn with a row of the table.
func (s *signalTableReader) row(row uint64, fn func(piece) error) error {
	if s.batchRows == 0 || row/s.batchRows >= uint64(s.t.batches()) {
		return fmt.Errorf("row %d doesn't exist", row)
	}
	b, err := s.batch(int(row / s.batchRows))
	if err != nil {
		return err
	}
	k := int(row % s.batchRows)
	if k >= b.rows {
		return fmt.Errorf("row %d doesn't exist", row)
	}
	return guard(func() error {
		for _, a := range [...]arrow.Array{b.ids, b.samples, b.signal} {
			if k >= a.Len() || a.IsNull(k) {
				return fmt.Errorf("row %d is null", row)
			}
		}
		return fn(piece{readID: b.ids.Value(k), samples: b.samples.Value(k), column: b.signal, row: k})
	})
}

// count returns the number of samples in rows, without decoding them: versions 0
// and 1 keep no count in the reads table.
func (s *signalTableReader) count(rows []uint64) (n uint64, err error) {
	for _, row := range rows {
		if err := s.row(row, func(p piece) error { n += uint64(p.samples); return nil }); err != nil {
			return 0, fmt.Errorf("%s: %w", s.t.what, err)
		}
	}
	return n, nil
}

// decode appends the samples of one row.
func (s *signalTableReader) decode(p piece, dst []int16, codec *vbz.Codec) ([]int16, error) {
	n := int(p.samples)
	if uint64(n) != uint64(p.samples) {
		return dst, fmt.Errorf("%d samples are too many", p.samples)
	}
	if s.compressed {
		return codec.Decode(dst, p.column.(*array.LargeBinary).Value(p.row), n)
	}
	list := p.column.(*array.LargeList)
	from, to := list.ValueOffsets(p.row)
	values := list.ListValues().(*array.Int16)
	if from < 0 || to < from || to > int64(values.Len()) || to-from != int64(n) {
		return dst, fmt.Errorf("field %q has entries %d to %d of %d for %d samples", "signal", from, to, values.Len(), n)
	}
	return append(dst, values.Int16Values()[from:to]...), nil
}

// read appends the n samples that a read has in rows.
func (s *signalTableReader) read(id [16]byte, rows []uint64, n uint64, dst []int16) ([]int16, error) {
	if n > math.MaxInt32 {
		return dst, fmt.Errorf("%d samples in one read", n)
	}
	codec := s.codecs.get()
	defer s.codecs.Put(codec)
	start := len(dst)
	// Reads beyond the first guess are rare and grow as they prove their length.
	out := slices.Grow(dst, int(min(n, 4<<20)))
	for _, row := range rows {
		err := s.row(row, func(p piece) error {
			if !bytes.Equal(p.readID, id[:]) {
				return fmt.Errorf("row %d belongs to another read", row)
			}
			if have := uint64(len(out) - start); have+uint64(p.samples) > n {
				return errors.New("rows hold more samples than the reads table counts")
			}
			var err error
			if out, err = s.decode(p, out, codec); err != nil {
				return fmt.Errorf("row %d: %w", row, err)
			}
			return nil
		})
		if err != nil {
			return dst, err
		}
	}
	if have := uint64(len(out) - start); have != n {
		return dst, fmt.Errorf("rows hold %d samples, the reads table counts %d", have, n)
	}
	return out, nil
}

// codecPool lends each call a VBZ codec: a Reader is shared between goroutines.
type codecPool struct{ sync.Pool }

func (p *codecPool) get() *vbz.Codec {
	if c, ok := p.Get().(*vbz.Codec); ok {
		return c
	}
	return vbz.NewCodec()
}

// Row appends the samples in one row of the signal table to dst and says to which
// read it belongs. On an error it returns dst unchanged.
func (r *Reader) Row(row uint64, dst []int16) (id [16]byte, out []int16, err error) {
	out = dst
	err = r.mapping.Do(func() error {
		return r.signal.row(row, func(p piece) error {
			codec := r.signal.codecs.get()
			defer r.signal.codecs.Put(codec)
			copy(id[:], p.readID)
			if out, err = r.signal.decode(p, dst, codec); err != nil {
				return fmt.Errorf("row %d: %w", row, err)
			}
			return nil
		})
	})
	if err != nil {
		return id, dst, fmt.Errorf("%s: %w", signalTable, err)
	}
	r.mapping.Used(2 * (len(out) - len(dst)))
	return id, out, nil
}

// Compression names how the signal is packed: "vbz" or "none".
func (r *Reader) Compression() string {
	if r.signal.compressed {
		return "vbz"
	}
	return "none"
}

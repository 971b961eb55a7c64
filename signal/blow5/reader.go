package blow5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/porestream/porestream/signal/internal/inflate"
	"github.com/porestream/porestream/signal/internal/mapped"
	"github.com/porestream/porestream/signal/internal/text"
)

// maxRecord is the most that one record may unpack to: a hundred million samples,
// or some seven hours of one channel.
const maxRecord = 256 << 20

// Record is one read.
type Record struct {
	ReadID       string
	ReadGroup    uint32
	Digitisation float64 // levels of the converter
	Offset       float64 // added to a level before scaling
	Range        float64 // picoamperes that Digitisation levels span
	SamplingRate float64 // Hz
	NumSamples   int

	header *Header
	aux    []Value
	packed []byte // the signal as stored
}

// Aux returns the value of an auxiliary field, or the zero Value, whose methods
// report absence, when the file has no such field. It is valid until the next
// record is read.
func (r *Record) Aux(name string) Value {
	for i := range r.aux {
		if r.aux[i].field.Name == name {
			return r.aux[i]
		}
	}
	return Value{}
}

// Fields returns the auxiliary fields, in the order of AuxAt.
func (r *Record) Fields() []Field { return r.header.Aux }

// AuxAt returns the value of the auxiliary field at a place in the header's list.
// It is valid until the next record is read.
func (r *Record) AuxAt(i int) Value { return r.aux[i] }

// AppendSamples appends the read's ADC levels to dst; on an error it returns dst
// unchanged. It must be called before the next record is read.
func (r *Record) AppendSamples(dst []int16) ([]int16, error) {
	switch r.header.signal {
	case signalSVBZD:
		return appendSVBZD(dst, r.packed)
	case signalEXZD:
		return appendEXZD(dst, r.packed)
	}
	start := len(dst)
	dst = slices.Grow(dst, r.NumSamples)[:start+r.NumSamples]
	for i := range dst[start:] {
		dst[start+i] = int16(binary.LittleEndian.Uint16(r.packed[2*i:]))
	}
	return dst, nil
}

// Reader reads a BLOW5 file. Header and View may be used from several goroutines
// at once, the position that Next advances may not.
type Reader struct {
	mapping *mapped.File // nil for a Reader over bytes in memory
	file    []byte
	header  *Header
	next    int // offset of the next record
	growing bool
	unpack  sync.Pool
	own     *unpacker // of Next
}

// Open opens the BLOW5 file at path. Errors, here and from the methods, don't name
// the path.
func Open(path string) (*Reader, error) {
	m, err := mapped.Open(path)
	if err != nil {
		return nil, err
	}
	r := &Reader{mapping: m, file: m.Bytes()}
	if err := m.Do(r.init); err != nil {
		m.Close()
		return nil, err
	}
	return r, nil
}

// NewReader reads a BLOW5 file that is in memory. The bytes must not change while
// the Reader is in use.
func NewReader(file []byte) (*Reader, error) {
	r := &Reader{file: file}
	if err := r.init(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Reader) init() (err error) {
	r.header, r.next, err = parseHeader(r.file)
	r.own = new(unpacker)
	return err
}

// Header returns what the file says about its runs and fields.
func (r *Reader) Header() *Header { return r.header }

// Close releases the file. No other method may be under way or follow.
func (r *Reader) Close() error {
	return r.mapping.Close()
}

// Next calls fn with the next record, which is valid only during the call, and
// with the offset by which View finds it again. It returns io.EOF after the last.
func (r *Reader) Next(fn func(rec *Record, offset int64) error) error {
	return r.mapping.Do(func() error {
		offset := r.next
		packed, next, err := r.frame(offset)
		if err != nil {
			return err
		}
		r.next = next
		defer r.mapping.Used(len(packed))
		return r.view(r.own, packed, int64(offset), fn)
	})
}

// View calls fn with the record at an offset that Next gave.
func (r *Reader) View(offset int64, fn func(rec *Record) error) error {
	return r.mapping.Do(func() error {
		if offset < 0 || offset > int64(len(r.file)) {
			return fmt.Errorf("byte %d: outside the file", offset)
		}
		packed, _, err := r.frame(int(offset))
		if err != nil {
			return err
		}
		defer r.mapping.Used(len(packed))
		u, ok := r.unpack.Get().(*unpacker)
		if !ok {
			u = new(unpacker)
		}
		defer r.unpack.Put(u)
		return r.view(u, packed, offset, func(rec *Record, _ int64) error { return fn(rec) })
	})
}

// frame returns the packed record at an offset and the offset after it.
func (r *Reader) frame(at int) (packed []byte, next int, err error) {
	if r.growing {
		return r.growingFrame(at)
	}
	rest := r.file[at:]
	switch {
	case string(rest) == endMarker:
		return nil, 0, io.EOF
	case len(rest) < 8:
		return nil, 0, fmt.Errorf("byte %d: neither a record nor the end-of-file marker: the file is truncated", at)
	}
	size := binary.LittleEndian.Uint64(rest)
	if size > uint64(len(rest)-8) {
		return nil, 0, fmt.Errorf("byte %d: a record of %d bytes, but only %d follow: the file is truncated or damaged", at, size, len(rest)-8)
	}
	end := 8 + int(size)
	return rest[8:end], at + end, nil
}

func (r *Reader) view(u *unpacker, packed []byte, offset int64, fn func(*Record, int64) error) error {
	data, err := u.record(r.header.record, packed)
	if err == nil {
		err = u.parse(r.header, data)
	}
	if err == nil {
		err = fn(&u.rec, offset)
	}
	if err != nil {
		return fmt.Errorf("record at byte %d: %w", offset, err)
	}
	return nil
}

// unpacker holds the buffers that one record at a time needs.
type unpacker struct {
	rec  Record
	buf  []byte
	zstd *zstd.Decoder
	zlib *inflate.Decoder
}

// record undoes the compression of a record.
func (u *unpacker) record(press recordPress, packed []byte) ([]byte, error) {
	switch press {
	case recordZlib:
		return u.inflate(packed)
	case recordZstd:
		return u.unzstd(packed)
	}
	return packed, nil
}

func (u *unpacker) inflate(packed []byte) (_ []byte, err error) {
	if u.zlib == nil {
		u.zlib = new(inflate.Decoder)
	}
	// Compression shrinks signal to less than half, so a capacity of three times seldom has to grow.
	u.buf = slices.Grow(u.buf[:0], 3*len(packed))
	switch u.buf, err = u.zlib.Zlib(u.buf, packed, maxRecord); {
	case errors.Is(err, inflate.ErrLimit):
		return nil, fmt.Errorf("unpacks to more than %d MiB", maxRecord>>20)
	case err != nil:
		return nil, fmt.Errorf("zlib: %w", err)
	}
	return u.buf, nil
}

func (u *unpacker) unzstd(packed []byte) (_ []byte, err error) {
	var head zstd.Header
	if err := head.Decode(packed); err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	// At least four packed bytes stand behind each block of 128 KiB (RFC 8878), so
	// that a larger promise is empty.
	if head.HasFCS && head.FrameContentSize/(32<<10) > uint64(len(packed)) {
		return nil, fmt.Errorf("zstd: %d bytes can't hold %d", len(packed), head.FrameContentSize)
	}
	if u.zstd == nil {
		u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxRecord))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
	}
	if u.buf, err = u.zstd.DecodeAll(packed, u.buf[:0]); err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return u.buf, nil
}

// parse fills u.rec from an unpacked record.
func (u *unpacker) parse(h *Header, data []byte) error {
	rec := &u.rec
	*rec = Record{header: h, aux: rec.aux[:0]}
	c := cursor{rest: data}
	rec.ReadID = string(c.bytes("read_id", uint64(c.uint16("read_id length"))))
	rec.ReadGroup = c.uint32("read_group")
	rec.Digitisation = c.float64("digitisation")
	rec.Offset = c.float64("offset")
	rec.Range = c.float64("range")
	rec.SamplingRate = c.float64("sampling_rate")
	n := c.uint64("len_raw_signal")
	if h.signal == signalPlain {
		if n > math.MaxInt64/2 {
			return fmt.Errorf("field %q is %d", "len_raw_signal", n)
		}
		rec.packed = c.bytes("raw_signal", 2*n)
		rec.NumSamples = len(rec.packed) / 2
	} else { // the length is then that of the packed signal
		rec.packed = c.bytes("raw_signal", n)
	}
	for i := range h.Aux {
		f := &h.Aux[i]
		count := uint64(1)
		if f.array {
			count = c.uint64(f.Name)
		}
		size := uint64(f.kind.size())
		if count > math.MaxInt64/size {
			return fmt.Errorf("field %q has %d elements", text.Clip(f.Name), count)
		}
		rec.aux = append(rec.aux, Value{field: f, raw: c.bytes(f.Name, count*size)})
	}
	if c.err != nil {
		return c.err
	}
	if len(c.rest) != 0 {
		return fmt.Errorf("%d bytes left over after the last field", len(c.rest))
	}
	var err error
	switch h.signal {
	case signalSVBZD:
		rec.NumSamples, err = svbzdCount(rec.packed)
	case signalEXZD:
		rec.NumSamples, err = exzdCount(rec.packed)
	}
	if err != nil {
		return err
	}
	return rec.check(h)
}

// check refuses values that no recording can have.
func (r *Record) check(h *Header) error {
	if err := text.Check(r.ReadID); err != nil {
		return fmt.Errorf("field %q %w (%q)", "read_id", err, text.Clip(r.ReadID))
	}
	finite := func(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
	switch {
	case r.ReadID == "":
		return errors.New(`field "read_id" is empty`)
	case int64(r.ReadGroup) >= int64(len(h.Groups)):
		return fmt.Errorf("field %q is %d, but the header has %d", "read_group", r.ReadGroup, len(h.Groups))
	case !finite(r.Digitisation) || r.Digitisation <= 0:
		return fmt.Errorf("field %q is %v", "digitisation", r.Digitisation)
	case !finite(r.Offset):
		return fmt.Errorf("field %q is %v", "offset", r.Offset)
	case !finite(r.Range):
		return fmt.Errorf("field %q is %v", "range", r.Range)
	case !finite(r.SamplingRate) || r.SamplingRate <= 0:
		return fmt.Errorf("field %q is %v", "sampling_rate", r.SamplingRate)
	}
	return nil
}

// cursor reads fields one after another and remembers the first that doesn't fit.
type cursor struct {
	rest []byte
	err  error
}

func (c *cursor) bytes(field string, n uint64) []byte {
	if c.err != nil {
		return nil
	}
	if n > uint64(len(c.rest)) {
		c.err = fmt.Errorf("field %q needs %d bytes, but the record has only %d more", text.Clip(field), n, len(c.rest))
		return nil
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) uint16(field string) uint16 {
	if b := c.bytes(field, 2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) uint32(field string) uint32 {
	if b := c.bytes(field, 4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) uint64(field string) uint64 {
	if b := c.bytes(field, 8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) float64(field string) float64 {
	return math.Float64frombits(c.uint64(field))
}

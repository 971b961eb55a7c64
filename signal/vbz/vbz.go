package vbz

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// MaxSamples is the longest run of samples that Decode accepts: two to four
// hours of one channel, and six hundred times POD5's usual 102,400.
const MaxSamples = 1 << 26

// maxExpansion bounds what a Zstandard frame can hold: a block of at least four
// bytes stands for at most 128 KiB (RFC 8878, 3.1.1.2).
const maxExpansion = (128 << 10) / 4

// ErrCorrupt is wrapped by every error of Decode.
var ErrCorrupt = errors.New("corrupt VBZ data")

// A Codec encodes and decodes without allocating once its buffers have grown.
// It is not safe for concurrent use.
type Codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
	svb []byte
}

// NewCodec returns a codec that owns its buffers.
func NewCodec() *Codec {
	// The options are constant and valid, so neither constructor can fail; a
	// failure would be a programming error.
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false),
		// ONT's reader refuses a frame that doesn't state its content's size, which
		// this library leaves out of small frames that aren't a single segment.
		zstd.WithSingleSegment(true),
		zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic("vbz: zstd encoder: " + err.Error())
	}
	dec, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic("vbz: zstd decoder: " + err.Error())
	}
	return &Codec{enc: enc, dec: dec}
}

// Encode appends the VBZ form of samples to dst.
func (c *Codec) Encode(dst []byte, samples []int16) []byte {
	if len(samples) == 0 {
		return dst
	}
	c.svb = appendSVB16(c.svb[:0], samples)
	return c.enc.EncodeAll(c.svb, dst)
}

// Decode appends exactly n samples, decoded from src, to dst. It refuses
// anything else and then returns dst unchanged.
func (c *Codec) Decode(dst []int16, src []byte, n int) ([]int16, error) {
	switch {
	case n < 0 || n > MaxSamples:
		return dst, fmt.Errorf("%w: %d samples in one piece; at most %d are allowed", ErrCorrupt, n, MaxSamples)
	case n == 0 && len(src) == 0:
		return dst, nil
	case n == 0:
		return dst, fmt.Errorf("%w: %d bytes for no samples", ErrCorrupt, len(src))
	case keyBytes(n)+n > len(src)*maxExpansion:
		return dst, fmt.Errorf("%w: %d bytes can't hold %d samples", ErrCorrupt, len(src), n)
	}
	c.svb = slices.Grow(c.svb[:0], svb16Bound(n))
	svb, err := c.dec.DecodeAll(src, c.svb[:0:svb16Bound(n)])
	if err != nil {
		return dst, fmt.Errorf("%w: zstd: %w", ErrCorrupt, err)
	}
	start := len(dst)
	dst = slices.Grow(dst, n)
	if err := decodeSVB16(dst[start:start+n], svb); err != nil {
		return dst[:start], fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return dst[:start+n], nil
}

// codecs lends a codec to each call of the package functions: a zstd encoder
// holds about a megabyte, too much to build per call.
var codecs = sync.Pool{New: func() any { return NewCodec() }}

// Encode appends the VBZ form of samples to dst. No samples encode to no bytes.
// It is safe for concurrent use.
func Encode(dst []byte, samples []int16) []byte {
	c := codecs.Get().(*Codec)
	defer codecs.Put(c)
	return c.Encode(dst, samples)
}

// Decode appends exactly n samples, decoded from src, to dst. It refuses
// anything else with an error that wraps [ErrCorrupt] and then returns dst
// unchanged. It is safe for concurrent use.
func Decode(dst []int16, src []byte, n int) ([]int16, error) {
	c := codecs.Get().(*Codec)
	defer codecs.Put(c)
	return c.Decode(dst, src, n)
}

package hdf5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/porestream/porestream/signal/internal/svb32"
)

// ONT's filter VBZ (https://github.com/nanoporetech/vbz_compression) packs integers
// of 1, 2 or 4 bytes in three steps, each of which may be left out: differences of
// neighbours, zigzagged; Stream VByte; Zstandard. A chunk begins with its unpacked
// size in bytes as 32 bits. Versions 0 and 1 differ for integers of one byte only,
// for which version 1 has codes for zero and for half a byte.
//
// It is not the VBZ of POD5 (package vbz), whose integers have 16 bits and keys one
// bit.

// vbzOptions are a filter's parameters.
type vbzOptions struct {
	version uint32
	size    uint32 // bytes of an integer; 0 leaves Stream VByte out
	delta   bool
	zstd    bool
}

func vbzOptionsOf(params []uint32) vbzOptions {
	o := vbzOptions{version: params[0], size: params[1], delta: params[2] != 0, zstd: true}
	if len(params) > 3 {
		o.zstd = params[3] != 0
	}
	return o
}

func checkVBZ(params []uint32) error {
	if len(params) < 3 {
		return fmt.Errorf("has a VBZ filter of %d parameters: it needs three", len(params))
	}
	switch o := vbzOptionsOf(params); {
	case o.version > 1:
		return fmt.Errorf("is packed with version %d of VBZ, newer than this reader, which knows 0 and 1", o.version)
	case o.size != 0 && o.size != 1 && o.size != 2 && o.size != 4:
		return fmt.Errorf("has a VBZ filter for integers of %d bytes", o.size)
	}
	return nil
}

const vbzHead = 4 // bytes of the unpacked size

// unzstd takes the first step off; the head is gone from what it returns. most bounds
// the result.
func (w *Workspace) unzstd(b []byte, o vbzOptions, most int) (data []byte, size int, err error) {
	if len(b) < vbzHead {
		return nil, 0, fmt.Errorf("%d bytes are too few", len(b))
	}
	size = int(binary.LittleEndian.Uint32(b))
	if data = b[vbzHead:]; !o.zstd {
		return data, size, nil
	}
	var head zstd.Header
	if err := head.Decode(data); err != nil {
		return nil, 0, fmt.Errorf("zstd: %w", err)
	}
	// At least four packed bytes stand behind each block of 128 KiB (RFC 8878,
	// 3.1.1.2), so that a larger promise is empty.
	if head.HasFCS && (head.FrameContentSize > uint64(most) || head.FrameContentSize/(32<<10) > uint64(len(data))) {
		return nil, 0, fmt.Errorf("zstd: %d bytes can't hold %d", len(data), head.FrameContentSize)
	}
	if w.zstd == nil {
		w.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxChunk))
		if err != nil {
			return nil, 0, fmt.Errorf("zstd: %w", err)
		}
	}
	out := w.target()
	if *out, err = w.zstd.DecodeAll(data, (*out)[:0]); err != nil {
		return nil, 0, fmt.Errorf("zstd: %w", err)
	}
	if len(*out) > most {
		return nil, 0, errors.New("unpacks to more than the chunk's size")
	}
	return *out, size, nil
}

// samples unpacks a chunk of signal in one go where VBZ is the only filter and made
// for samples, as it is in ONT's files. done is false for any other chunk.
func (d *Dataset) samples(dst []int16, b []byte, filters []filter, skipped uint32, n uint64, w *Workspace) (_ []int16, done bool, err error) {
	if len(filters) != 1 || skipped&1 != 0 || filters[0].id != filterVBZ || !d.isInt16() {
		return nil, false, nil
	}
	o := vbzOptionsOf(filters[0].params)
	if o.size != 2 || !o.delta {
		return nil, false, nil
	}
	out, err := w.delta16(dst, b, o, int(d.chunk))
	if err != nil {
		return nil, true, fmt.Errorf("%s: %w", filters[0], err)
	}
	return out[:len(dst)+int(n)], true, nil
}

// delta16 appends n samples.
func (w *Workspace) delta16(dst []int16, b []byte, o vbzOptions, n int) ([]int16, error) {
	data, size, err := w.unzstd(b, o, svb32.Bound(n))
	if err != nil {
		return nil, err
	}
	if size != 2*n {
		return nil, fmt.Errorf("unpacks to %d bytes, not %d", size, 2*n)
	}
	if len(data) < svb32.KeyBytes(n)+n { // checked again below, but here before memory for n is allocated
		return nil, fmt.Errorf("%d bytes can't hold %d samples", len(data), n)
	}
	start := len(dst)
	dst = slices.Grow(dst, n)[:start+n]
	return dst, svb32.DecodeDelta16(dst[start:], data)
}

// vbz unpacks a chunk of integers of any size.
func (w *Workspace) vbz(b []byte, o vbzOptions, most int) ([]byte, error) {
	packed := most
	if o.size > 0 {
		packed = svb32.Bound(most / int(o.size))
	}
	data, size, err := w.unzstd(b, o, packed)
	switch {
	case err != nil:
		return nil, err
	case o.size == 0 && size != len(data):
		return nil, fmt.Errorf("unpacks to %d bytes, not %d", len(data), size)
	case o.size == 0:
		return data, nil
	case size > most || size%int(o.size) != 0:
		return nil, fmt.Errorf("%d bytes of integers of %d", size, o.size)
	}
	n := size / int(o.size)
	half := o.version == 1 && o.size == 1
	if least := svb32.KeyBytes(n) + n; len(data) < least && !half || len(data) < svb32.KeyBytes(n) {
		return nil, fmt.Errorf("%d bytes can't hold %d integers", len(data), n)
	}
	w.values = slices.Grow(w.values[:0], n)[:n]
	if half {
		err = decodeHalves(w.values, data)
	} else {
		err = svb32.Decode(w.values, data)
	}
	if err != nil {
		return nil, err
	}
	out := w.target()
	buf := slices.Grow((*out)[:0], size)
	var prev uint32
	for _, v := range w.values {
		if o.delta {
			prev += v>>1 ^ -(v & 1)
			v = prev
		}
		for range o.size {
			buf = append(buf, byte(v))
			v >>= 8
		}
	}
	*out = buf
	return buf, nil
}

// decodeHalves is Stream VByte with values of 0, 4, 8 and 16 bits for the codes 0 to
// 3, in half bytes, the lower first.
func decodeHalves(dst []uint32, src []byte) error {
	keys, data := src[:svb32.KeyBytes(len(dst))], src[svb32.KeyBytes(len(dst)):]
	at := 0 // in half bytes
	for i := range dst {
		halves := [4]int{0, 1, 2, 4}[keys[i/4]>>(2*(i%4))&3]
		if at+halves > 2*len(data) {
			return fmt.Errorf("data end at integer %d of %d", i, len(dst))
		}
		var v uint32
		for h := range halves {
			v |= uint32(data[at/2]>>(4*(at%2))&15) << (4 * h)
			at++
		}
		dst[i] = v
	}
	if (at+1)/2 != len(data) {
		return errors.New("bytes left over after the last integer")
	}
	return nil
}

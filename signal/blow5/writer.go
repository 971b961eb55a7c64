package blow5

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/porestream/porestream/signal/internal/text"
)

// Writer writes a BLOW5 file of version 1.0.0, records compressed with Zstandard
// and their signal with svb-zd, record by record. It is not safe for concurrent
// use.
type Writer struct {
	out    *bufio.Writer
	groups int
	fields []Field
	zstd   *zstd.Encoder
	record []byte
	packed []byte
	err    error // sticky
}

// NewWriter begins a file with the given auxiliary fields and the given attributes
// of its read groups; there is at least one group. An empty attribute is written as
// the format's sign for a missing one.
func NewWriter(out io.Writer, groups []map[string]string, fields []Field) (*Writer, error) {
	header, err := appendHeader(nil, groups, fields)
	if err != nil {
		return nil, err
	}
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false),
		zstd.WithSingleSegment(true), // the frame states its size, which slow5lib needs
		zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	w := &Writer{out: bufio.NewWriterSize(out, 1<<20), groups: len(groups), fields: slices.Clone(fields), zstd: enc}
	_, w.err = w.out.Write(header)
	return w, w.err
}

// appendHeader appends everything before the first record.
func appendHeader(dst []byte, groups []map[string]string, fields []Field) ([]byte, error) {
	if len(groups) == 0 || len(groups) > maxReadGroups {
		return nil, fmt.Errorf("%d read groups: a file has from 1 to %d", len(groups), maxReadGroups)
	}
	all, err := headerText(groups, fields)
	if err != nil {
		return nil, err
	}
	// What a reader would refuse is not written.
	if err := new(Header).parseText(all, len(groups)); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if len(all) > maxHeader {
		return nil, fmt.Errorf("header: %d bytes are more than %d", len(all), maxHeader)
	}
	start := len(dst)
	dst = append(dst, Signature...)
	dst = append(dst, 1, 0, 0, byte(recordZstd))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(groups)))
	dst = append(dst, byte(signalSVBZD))
	dst = append(dst, make([]byte, headLen-(len(dst)-start))...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(all)))
	return append(dst, all...), nil
}

// headerText is the text header: attributes by name, then types and names.
func headerText(groups []map[string]string, fields []Field) (string, error) {
	names := make(map[string]bool)
	for _, g := range groups {
		for name := range g {
			names[name] = true
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := text.Check(name); err != nil {
			return "", fmt.Errorf("header: attribute name %q %w", text.Clip(name), err)
		}
		b.WriteString("@" + name)
		for i, g := range groups {
			if err := text.Check(g[name]); err != nil {
				return "", fmt.Errorf("header: attribute %q of read group %d %w", text.Clip(name), i, err)
			}
			value := g[name]
			if value == "" {
				value = "."
			}
			b.WriteString("\t" + value)
		}
		b.WriteString("\n")
	}
	types, labels := "#", "#"
	for i, p := range primary {
		if i > 0 {
			types, labels = types+"\t", labels+"\t"
		}
		types, labels = types+p.typ, labels+p.name
	}
	for _, f := range fields {
		types, labels = types+"\t"+f.Type, labels+"\t"+f.Name
	}
	b.WriteString(types + "\n" + labels + "\n")
	return b.String(), nil
}

// Add writes a record. Of rec all but NumSamples is taken. aux holds a value for
// each field that the Writer was given, in their order; a zero Value is one that
// is missing.
func (w *Writer) Add(rec *Record, aux []Value, samples []int16) error {
	if w.err != nil {
		return w.err
	}
	if err := w.add(rec, aux, samples); err != nil {
		w.err = fmt.Errorf("read %s: %w", text.Clip(rec.ReadID), err)
	}
	return w.err
}

func (w *Writer) add(rec *Record, aux []Value, samples []int16) error {
	if err := rec.check(&Header{Groups: make([]map[string]string, w.groups)}); err != nil {
		return err
	}
	switch {
	case len(rec.ReadID) > math.MaxUint16:
		return fmt.Errorf("a name of %d bytes", len(rec.ReadID))
	case len(aux) != len(w.fields):
		return fmt.Errorf("%d auxiliary values for %d fields", len(aux), len(w.fields))
	case len(samples) > maxRecord/4:
		return fmt.Errorf("%d samples are more than fit in a record", len(samples))
	}
	b := binary.LittleEndian.AppendUint16(w.record[:0], uint16(len(rec.ReadID)))
	b = append(b, rec.ReadID...)
	b = binary.LittleEndian.AppendUint32(b, rec.ReadGroup)
	for _, f := range []float64{rec.Digitisation, rec.Offset, rec.Range, rec.SamplingRate} {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	w.packed = encodeSVBZD(w.packed[:0], samples)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(w.packed)))
	b = append(b, w.packed...)
	for i := range aux {
		var err error
		if b, err = aux[i].append(b, &w.fields[i]); err != nil {
			return err
		}
	}
	w.record = b
	w.packed = w.zstd.EncodeAll(b, w.packed[:0])
	var size [8]byte
	binary.LittleEndian.PutUint64(size[:], uint64(len(w.packed)))
	_, _ = w.out.Write(size[:]) // the error comes with the next
	_, err := w.out.Write(w.packed)
	return err
}

// Close writes the end-of-file marker. Without it the file is not complete.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	w.out.WriteString(endMarker)
	if w.err = w.out.Flush(); w.err != nil {
		return w.err
	}
	w.err = errors.New("the file is complete")
	return nil
}

// encodeSVBZD appends samples as appendSVBZD reads them.
func encodeSVBZD(dst []byte, samples []int16) []byte {
	n := len(samples)
	keys := (n + 3) / 4
	start := len(dst)
	// Differences take at most three bytes, and a word is stored at once.
	dst = slices.Grow(dst, 4+keys+3*n+4)[:start+4+keys+3*n+4]
	binary.LittleEndian.PutUint32(dst[start:], uint32(n))
	key, data := dst[start+4:start+4+keys], dst[start+4+keys:]
	clear(key)
	var prev int32
	p := 0
	for i, s := range samples {
		d := int32(s) - prev
		prev = int32(s)
		z := uint32(d<<1 ^ d>>31)
		// The width is that of the value less one: 0 for under 2^8, 1 for under 2^16.
		width := (0xff-z)>>31 + (0xffff-z)>>31
		key[i>>2] |= byte(width << (i & 3 * 2))
		binary.LittleEndian.PutUint32(data[p:], z)
		p += int(width) + 1
	}
	return dst[:start+4+keys+p]
}

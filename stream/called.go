package stream

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/porestream/porestream/stream/streampb"
)

// A called read lies packed in its record, as FORMAT.md describes: bases in 2 bits,
// qualities in as many bits as the highest needs, dwells in half a byte where they are
// short. So a read with qualities up to 63 takes a byte per base and some 150 bytes.

// MaxCalledBases bounds the bases of a called read: as many as fit into a record without
// qualities, beside the read's other fields.
const MaxCalledBases = 4 * (MaxRecord - 1<<14)

// maxQualityBits are enough for the qualities that SAM and FASTQ can express, 0 to 93.
const maxQualityBits = 7

// EncodeCalled returns the value of a record on the topic of called reads. A read that
// is too long for one goes without what is least needed of it: see [FitCalled].
func EncodeCalled(m *streampb.CalledRecord) ([]byte, error) {
	return encode(KindCalled, m, validCalled(m))
}

// DecodeCalled reads and validates a value of the topic of called reads. Its errors are
// [DecodeError]s.
func DecodeCalled(b []byte) (*streampb.CalledRecord, error) {
	m := new(streampb.CalledRecord)
	if err := firstError(decode(KindCalled, b, m), validCalled(m)); err != nil {
		return nil, err
	}
	return m, nil
}

// CalledMarker encodes a marker for the topic of called reads.
func CalledMarker(mk *streampb.Marker, end bool) ([]byte, error) {
	rec := &streampb.CalledRecord{Body: &streampb.CalledRecord_RunStart{RunStart: mk}}
	if end {
		rec.Body = &streampb.CalledRecord_RunEnd{RunEnd: mk}
	}
	return EncodeCalled(rec)
}

// FitCalled encodes a read. If the read is too long, FitCalled omits what is least needed, in
// this order, until it fits: modified bases, dwells, qualities. left lists what it omitted.
func FitCalled(r *streampb.CalledRead) (value []byte, left []string, err error) {
	rec := &streampb.CalledRecord{Body: &streampb.CalledRecord_Read{Read: r}}
	value, err = EncodeCalled(rec)
	for _, part := range []struct {
		name string
		has  bool
		drop func()
	}{
		{"modified bases", r.GetModified() != "", func() { r.Modified, r.ModifiedProbabilities, r.ModifiedLength = "", nil, 0 }},
		{"dwells", len(r.GetDwells()) > 0, func() { r.Dwells = nil }},
		{"qualities", r.GetQualityBits() > 0, func() { r.QualityBits, r.Qualities = 0, nil }},
	} {
		if _, large := errors.AsType[*RecordTooLargeError](err); !large {
			return value, left, err
		}
		if !part.has {
			continue
		}
		part.drop()
		left = append(left, part.name)
		value, err = EncodeCalled(rec)
	}
	return value, left, err
}

func validCalled(m *streampb.CalledRecord) error {
	switch body := m.GetBody().(type) {
	case *streampb.CalledRecord_RunStart:
		return validMarker(body.RunStart)
	case *streampb.CalledRecord_RunEnd:
		return validMarker(body.RunEnd)
	case *streampb.CalledRecord_Read:
		return validCalledRead(body.Read)
	}
	return decodeErrorf(CodeInvalid, "record holds neither a read nor a marker")
}

func validCalledRead(r *streampb.CalledRead) error {
	if err := firstError(validName("run", r.GetRun()), validName("read id", r.GetReadId()),
		validText("sample", r.GetSample()), validText("barcode", r.GetBarcode()), validText("model", r.GetModel()), validText("parent", r.GetParent())); err != nil {
		return err
	}
	n := int(r.GetBases())
	switch {
	case n == 0 || n > MaxCalledBases:
		return decodeErrorf(CodeInvalid, "called read %s of %d bases: 1 to %d are possible", r.GetReadId(), n, MaxCalledBases)
	case len(r.GetSequence()) != (n+3)/4:
		return decodeErrorf(CodeInvalid, "called read %s of %d bases has %d bytes of sequence", r.GetReadId(), n, len(r.GetSequence()))
	case r.GetQualityBits() > maxQualityBits || len(r.GetQualities()) != packedLen(n, int(r.GetQualityBits())):
		return decodeErrorf(CodeInvalid, "called read %s of %d bases has %d bytes of qualities of %d bits", r.GetReadId(), n, len(r.GetQualities()), r.GetQualityBits())
	case r.GetSampleCount() > maxReadSamples || r.GetTrimmedSamples() > maxReadSamples || r.GetParentStart() > maxReadSamples:
		return decodeErrorf(CodeInvalid, "called read %s of %d samples, %d before the first base", r.GetReadId(), r.GetSampleCount(), r.GetTrimmedSamples())
	case !(r.GetMeanQuality() >= 0 && r.GetMeanQuality() < 1000) || !(r.GetDuration() >= 0):
		return decodeErrorf(CodeInvalid, "called read %s has a mean quality of %g and lasts %g s", r.GetReadId(), r.GetMeanQuality(), r.GetDuration())
	}
	return nil
}

// PackCalled puts a sequence with its qualities and dwells into r. Letters count in either
// case, U as T, and every other letter as N. Qualities are Phred scores up to 127, one per
// base, or none; dwells are frames per base, or none.
func PackCalled(r *streampb.CalledRead, seq, qualities, dwells []byte) {
	r.Bases = uint32(len(seq))
	r.Sequence, r.Unknown = packBases(seq)
	r.QualityBits, r.Qualities = 0, nil
	if len(qualities) > 0 {
		highest := byte(1)
		for _, q := range qualities {
			highest = max(highest, q)
		}
		r.QualityBits = uint32(bits.Len8(highest))
		r.Qualities = packBits(qualities, int(r.QualityBits))
	}
	r.Dwells = packDwells(dwells)
}

// UnpackCalled returns what [PackCalled] has put into r: upper-case A, C, G, T and N, and
// nil for what there is none of. Its error is a [DecodeError].
func UnpackCalled(r *streampb.CalledRead) (seq, qualities, dwells []byte, err error) {
	n := int(r.GetBases())
	if seq, err = unpackBases(r.GetSequence(), r.GetUnknown(), n); err != nil {
		return nil, nil, nil, err
	}
	if w := int(r.GetQualityBits()); w > 0 {
		qualities = unpackBits(r.GetQualities(), w, n)
	}
	if len(r.GetDwells()) > 0 {
		if dwells, err = unpackDwells(r.GetDwells(), n); err != nil {
			return nil, nil, nil, err
		}
	}
	return seq, qualities, dwells, nil
}

// baseCode is a letter's two bits, or unknownBase.
var baseCode = func() (t [256]byte) {
	for i := range t {
		t[i] = unknownBase
	}
	for code, letters := range []string{"Aa", "Cc", "Gg", "TtUu"} {
		for _, b := range []byte(letters) {
			t[b] = byte(code)
		}
	}
	return t
}()

const unknownBase = 0xff

// packBases packs four bases into a byte, the first in its lowest bits. A base other than
// A, C, G and T is stored as A and listed in unknown, as part of a stretch: the number of
// bases since the end of the stretch before, and the stretch's length.
func packBases(seq []byte) (packed, unknown []byte) {
	packed = make([]byte, (len(seq)+3)/4)
	end := 0 // of the last stretch
	for i := 0; i < len(seq); i++ {
		code := baseCode[seq[i]]
		if code != unknownBase {
			packed[i/4] |= code << (i % 4 * 2)
			continue
		}
		start := i
		for i+1 < len(seq) && baseCode[seq[i+1]] == unknownBase {
			i++
		}
		unknown = binary.AppendUvarint(binary.AppendUvarint(unknown, uint64(start-end)), uint64(i+1-start))
		end = i + 1
	}
	return packed, unknown
}

// fourBases are the bases of a byte.
var fourBases = func() (t [256][4]byte) {
	for b := range t {
		for i := range 4 {
			t[b][i] = "ACGT"[b>>(2*i)&3]
		}
	}
	return t
}()

func unpackBases(packed, unknown []byte, n int) ([]byte, error) {
	seq := make([]byte, 4*len(packed))
	for i, b := range packed {
		copy(seq[4*i:], fourBases[b][:])
	}
	seq = seq[:n]
	at := 0
	for len(unknown) > 0 {
		gap, rest, ok := takeUvarint(unknown, n)
		length, rest, ok2 := takeUvarint(rest, n)
		if !ok || !ok2 || length == 0 || length > n-at-gap {
			return nil, decodeErrorf(CodeInvalid, "unknown bases don't fit the %d bases of a called read", n)
		}
		for i := at + gap; i < at+gap+length; i++ {
			seq[i] = 'N'
		}
		at, unknown = at+gap+length, rest
	}
	return seq, nil
}

func packedLen(n, width int) int { return (n*width + 7) / 8 }

// packBits packs values of some bits, one behind the other, the lowest bit first.
func packBits(values []byte, width int) []byte {
	packed := make([]byte, 0, packedLen(len(values), width))
	var word uint64
	held := 0
	for _, v := range values {
		word |= uint64(v) << held
		for held += width; held >= 8; held -= 8 {
			packed = append(packed, byte(word))
			word >>= 8
		}
	}
	if held > 0 {
		packed = append(packed, byte(word))
	}
	return packed
}

func unpackBits(packed []byte, width, n int) []byte {
	values := make([]byte, n)
	mask := byte(1<<width - 1)
	var word uint64
	held := 0
	for i := range values {
		if held < width {
			word |= uint64(packed[0]) << held
			packed, held = packed[1:], held+8
		}
		values[i] = byte(word) & mask
		word, held = word>>width, held-width
	}
	return values
}

// Half a byte holds a dwell below longDwell; longDwell stands before two that hold the
// whole.
const longDwell = 15

func packDwells(dwells []byte) []byte {
	if len(dwells) == 0 {
		return nil
	}
	packed := make([]byte, 0, len(dwells)/2+1)
	half := false
	put := func(v byte) {
		if half {
			packed[len(packed)-1] |= v << 4
		} else {
			packed = append(packed, v)
		}
		half = !half
	}
	for _, d := range dwells {
		if d < longDwell {
			put(d)
			continue
		}
		put(longDwell)
		put(d & 15)
		put(d >> 4)
	}
	return packed
}

func unpackDwells(packed []byte, n int) ([]byte, error) {
	dwells := make([]byte, 0, n)
	at := 0 // in halves
	take := func() byte {
		if at >= 2*len(packed) {
			at++
			return 0
		}
		v := packed[at/2] >> (at % 2 * 4) & 15
		at++
		return v
	}
	for range n {
		d := take()
		if d == longDwell {
			d = take()
			d |= take() << 4
		}
		dwells = append(dwells, d)
	}
	if (at+1)/2 != len(packed) {
		return nil, decodeErrorf(CodeInvalid, "%d bytes of dwells for %d bases", len(packed), n)
	}
	return dwells, nil
}

// takeUvarint takes a number up to limit.
func takeUvarint(b []byte, limit int) (v int, rest []byte, ok bool) {
	u, n := binary.Uvarint(b)
	if n <= 0 || u > uint64(limit) {
		return 0, nil, false
	}
	return int(u), b[n:], true
}

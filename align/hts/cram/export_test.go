package cram

import (
	"encoding/binary"
	"hash/crc32"
)

// FixSums makes the checksums of a file of version 3 right.
func FixSums(data []byte) {
	order := binary.LittleEndian
	for at := definitionSize; at < len(data); {
		s := newStream(data[at:])
		size := int(s.int32())
		for range 4 { // reference, start, span, records
			s.itf8()
		}
		s.ltf8()
		s.ltf8()
		s.itf8()
		s.array()
		head := len(data) - at - len(s.data)
		if s.fail.err != nil || len(s.data) < 4 || size < 0 || size > len(s.data)-4 {
			return
		}
		order.PutUint32(data[at+head:], crc32.ChecksumIEEE(data[at:at+head]))
		at += head + 4
		for end := at + size; at < end; {
			s := newStream(data[at:end])
			s.take(2)
			s.itf8()
			packed := s.itf8()
			s.itf8()
			s.take(int(packed))
			size := end - at - len(s.data)
			if s.fail.err != nil || len(s.data) < 4 {
				return
			}
			order.PutUint32(data[at+size:], crc32.ChecksumIEEE(data[at:at+size]))
			at += size + 4
		}
	}
}

// SetPiece ends pieces of slices after so many bases.
func (r *Reader) SetPiece(bases int) { r.decoder.piece = bases }

// Capacity is how much decoded data is held at once.
func (r *Reader) Capacity() int { return cap(r.out) }

// Append appends a whole part to dst as BAM.
func (d *Decoder) Append(dst, part []byte) ([]byte, error) {
	out, rest, err := d.Begin(dst, part)
	for more := rest != nil; more && err == nil; {
		out, more, err = rest.Append(out)
	}
	if err != nil {
		return dst, err
	}
	return out, nil
}

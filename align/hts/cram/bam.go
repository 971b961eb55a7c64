package cram

import (
	"bytes"
	"encoding/binary"

	"github.com/porestream/porestream/align/hts/internal/bam"
)

// nibbles are the numbers that BAM has for letters of a sequence.
var nibbles = func() (t [256]byte) {
	for i := range t {
		t[i] = 15
	}
	for i, b := range []byte("=ACMGRSVTWYHKDBN") {
		t[b], t[b|0x20] = byte(i), byte(i)
	}
	return t
}()

// appendBAM appends a record as BAM has it, with its size (SAM specification 4.2). A CIGAR of more
// operations than BAM can count goes to the tag CG (section 4.2.2).
func (s *slice) appendBAM(b []byte, r *record) []byte {
	const most = 1<<16 - 1
	cigar, long := s.cigars[r.cigarFrom:r.cigarTo], []uint32(nil)
	if len(cigar) > most {
		long = cigar
		cigar = []uint32{uint32(len(r.bases))<<4 | opSoft, uint32(r.end-r.start+1)<<4 | opSkip}
	}
	order, start := binary.LittleEndian, len(b)
	b = order.AppendUint32(b, 0) // the size, which follows
	b = order.AppendUint32(b, uint32(r.reference))
	b = order.AppendUint32(b, uint32(r.start-1))
	b = append(b, byte(len(r.name)+1), r.quality)
	b = order.AppendUint16(b, bam.Bin(int(r.start)-1, max(int(r.end), int(r.start))))
	b = order.AppendUint16(b, uint16(len(cigar)))
	b = order.AppendUint16(b, r.flags)
	b = order.AppendUint32(b, uint32(len(r.bases)))
	b = order.AppendUint32(b, uint32(r.mateReference))
	b = order.AppendUint32(b, uint32(r.mateStart-1))
	b = order.AppendUint32(b, uint32(r.span))
	b = append(append(b, r.name...), 0)
	for _, op := range cigar {
		b = order.AppendUint32(b, op)
	}
	for i := 0; i+1 < len(r.bases); i += 2 {
		b = append(b, nibbles[r.bases[i]]<<4|nibbles[r.bases[i+1]])
	}
	if n := len(r.bases); n%2 == 1 {
		b = append(b, nibbles[r.bases[n-1]]<<4)
	}
	if len(r.qualities) == len(r.bases) {
		b = append(b, r.qualities...)
	} else {
		b = append(b, bytes.Repeat([]byte{0xff}, len(r.bases))...)
	}
	b = append(b, s.tags[r.tagsFrom:r.tagsTo]...)
	if long != nil {
		b = order.AppendUint32(append(b, "CGBI"...), uint32(len(long)))
		for _, op := range long {
			b = order.AppendUint32(b, op)
		}
	}
	order.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

package align

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/porestream/porestream/stream/streampb"
)

// ReadKey is a segment's identity, as stream/FORMAT.md describes it; its first half is that of the read. A read part has one primary
// alignment, so its place doesn't count: a part that was called twice, and came out a little differently, is still the same.
// Supplementary alignments are distinguished by their place, and parts of a read published before its end by how many had been
// published.
func ReadKey(s *streampb.Segment) (key [16]byte) {
	b := make([]byte, 0, 128)
	b = append(append(b, s.GetRun()...), 0)
	b = append(b, s.GetReadId()...)
	sum := sha256.Sum256(b)
	copy(key[:8], sum[:])
	b = binary.LittleEndian.AppendUint32(append(b[:0], sum[:]...), s.GetPart())
	if s.GetSupplementary() {
		b = binary.LittleEndian.AppendUint64(b, uint64(s.GetStart()))
		if s.GetReverse() {
			b = append(b, 1)
		}
	}
	if n := s.GetPartial(); n > 0 {
		b = append(b, 'p', byte(n))
	}
	sum = sha256.Sum256(b)
	copy(key[8:], sum[:])
	return key
}

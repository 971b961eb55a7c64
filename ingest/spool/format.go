package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	magic   = "PSSPOOL"
	version = 1

	// headerBytes: magic(7) version(1) first(8) crc32c(4, of the 16 before).
	headerBytes = 20
	// recordBytes: crc32c(4, of all that follows) length(4) number(8), then the
	// payload.
	recordBytes = 16
	// maxPayload bounds a record: more than any transaction's part, and a bound
	// for what damaged lengths make a reader allocate.
	maxPayload = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errTorn says that a record is incomplete or damaged.
var errTorn = errors.New("the record is incomplete or damaged")

// appendHeader appends the beginning of a segment whose first record has a
// number.
func appendHeader(dst []byte, first uint64) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = append(dst, version)
	dst = binary.LittleEndian.AppendUint64(dst, first)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// parseHeader reads what appendHeader wrote.
func parseHeader(b []byte) (first uint64, err error) {
	switch {
	case len(b) < headerBytes:
		return 0, errTorn
	case string(b[:len(magic)]) != magic:
		return 0, errors.New("not a segment of a spool")
	case crc32.Checksum(b[:16], castagnoli) != binary.LittleEndian.Uint32(b[16:]):
		return 0, errTorn
	case b[len(magic)] != version:
		return 0, fmt.Errorf("spool format %d, this program reads %d", b[len(magic)], version)
	}
	return binary.LittleEndian.Uint64(b[8:]), nil
}

// appendRecord appends one record.
func appendRecord(dst []byte, number uint64, payload []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	dst = binary.LittleEndian.AppendUint64(dst, number)
	dst = append(dst, payload...)
	binary.LittleEndian.PutUint32(dst[start:], crc32.Checksum(dst[start+4:], castagnoli))
	return dst
}

// recordSize is the size on disk of a record with a payload of n bytes.
func recordSize(n int) int64 { return recordBytes + int64(n) }

// payloadLen reads the length out of a record's first recordBytes, unchecked
// but for its bound.
func payloadLen(b []byte) (int, error) {
	n := binary.LittleEndian.Uint32(b[4:])
	if n > maxPayload {
		return 0, errTorn
	}
	return int(n), nil
}

// parseRecord reads the record that b begins with, which must have the number
// want. The payload lies in b.
func parseRecord(b []byte, want uint64) (payload, rest []byte, err error) {
	if len(b) < recordBytes {
		return nil, nil, errTorn
	}
	n, err := payloadLen(b)
	if err != nil || len(b) < recordBytes+n {
		return nil, nil, errTorn
	}
	rec := b[: recordBytes+n : recordBytes+n]
	if crc32.Checksum(rec[4:], castagnoli) != binary.LittleEndian.Uint32(rec) || binary.LittleEndian.Uint64(rec[8:]) != want {
		return nil, nil, errTorn
	}
	return rec[recordBytes:], b[len(rec):], nil
}

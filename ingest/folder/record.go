package folder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream/streampb"
)

// A journal is a file of records, one after the other:
//
//	length of the payload   4 bytes, little endian
//	CRC-32C of the payload  4 bytes, little endian
//	payload                 kind (1 byte), then the fields; numbers are varints,
//	                        text is a varint of its length and its bytes
//
// The first record is a run, whose first field is the format's version. A reader
// refuses versions and kinds that it doesn't know. A record that a crash has cut
// short is the journal's end.
type recordKind byte

const (
	// kindRun begins a journal: version, samples of a chunk, partitions of the
	// signal topic, the run (a protobuf Run, as on the topic of runs).
	kindRun recordKind = iota + 1
	// kindRead is a read that is sent, or a part of one: id, first chunk, number of
	// chunks, chunks of the whole read.
	kindRead
	// kindCut shortens the read before it: the number of its chunks that were sent.
	kindCut
	// kindFile is a file all of whose reads are among those before, or known from
	// elsewhere: its fingerprint (16 bytes), and in how many runs' journals it is
	// named.
	kindFile
	// kindEnd says that the run has ended in Kafka.
	kindEnd
	// kindCalled is a called read, which is sent whole: id, and a checksum of its bases
	// (4 bytes, little endian).
	kindCalled
)

const (
	journalVersion = 1
	frameLen       = 8
	// maxRecord bounds a record: a run's description is the longest.
	maxRecord     = 1 << 20
	maxIDLen      = 1 << 16
	maxReadChunks = 1 << 30
)

// record is any record of a journal.
type record struct {
	kind recordKind
	// kindRun
	run        *streampb.Run
	chunk      int
	partitions int32
	// kindRead, and kindCut for count
	id                 string
	from, count, total int
	sum                uint32 // of a called read
	// kindFile
	file fingerprint
	runs int
}

// fingerprint distinguishes a file from others by its content, whatever its name.
type fingerprint [16]byte

func appendRecord(dst []byte, r *record) ([]byte, error) {
	at := len(dst)
	dst = append(dst, make([]byte, frameLen)...)
	kind := r.kind
	if kind == kindRead && r.sum != 0 {
		kind = kindCalled
	}
	dst = append(dst, byte(kind))
	number := func(n int) { dst = binary.AppendUvarint(dst, uint64(n)) }
	switch kind {
	case kindRun:
		number(journalVersion)
		number(r.chunk)
		number(int(r.partitions))
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(r.run)
		if err != nil {
			return nil, fmt.Errorf("describing run %q: %w", r.run.GetId(), err)
		}
		number(len(b))
		dst = append(dst, b...)
	case kindRead:
		number(len(r.id))
		dst = append(dst, r.id...)
		number(r.from)
		number(r.count)
		number(r.total)
	case kindCalled:
		number(len(r.id))
		dst = append(dst, r.id...)
		dst = binary.LittleEndian.AppendUint32(dst, r.sum)
	case kindCut:
		number(r.count)
	case kindFile:
		dst = append(dst, r.file[:]...)
		number(r.runs)
	case kindEnd:
	}
	payload := dst[at+frameLen:]
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(dst[at+4:], crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)))
	return dst, nil
}

// errTorn marks a record that is not there to its end, or not as it was written.
var errTorn = errors.New("damaged or cut short")

// frameSize returns the length of a record's payload from its frame.
func frameSize(frame []byte) (int, error) {
	n := binary.LittleEndian.Uint32(frame)
	if n == 0 || n > maxRecord {
		return 0, errTorn
	}
	return int(n), nil
}

// parseRecord reads a record's payload, with its frame before it.
func parseRecord(b []byte) (record, error) {
	payload := b[frameLen:]
	if crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(b[4:]) {
		return record{}, errTorn
	}
	d := decoder{rest: payload[1:]}
	r := record{kind: recordKind(payload[0])}
	switch r.kind {
	case kindRun:
		if v := d.number(1 << 20); d.err == nil && v != journalVersion {
			return record{}, fmt.Errorf("journal of version %d: this program knows %d", v, journalVersion)
		}
		r.chunk = d.number(1 << 30)
		r.partitions = int32(d.number(1<<31 - 1))
		r.run = new(streampb.Run)
		if err := proto.Unmarshal(d.bytes(maxRecord), r.run); err != nil {
			return record{}, fmt.Errorf("the run's description: %w", err)
		}
	case kindRead:
		r.id = string(d.bytes(maxIDLen))
		r.from, r.count, r.total = d.number(maxReadChunks), d.number(maxReadChunks), d.number(maxReadChunks)
		if d.err == nil && (r.count == 0 || r.from+r.count > r.total) {
			d.err = fmt.Errorf("chunks %d to %d of %d", r.from, r.from+r.count, r.total)
		}
	case kindCalled:
		r.kind, r.count, r.total = kindRead, 1, 1
		r.id = string(d.bytes(maxIDLen))
		if b := d.take(4); d.err == nil {
			r.sum = binary.LittleEndian.Uint32(b)
		}
	case kindCut:
		r.count = d.number(maxReadChunks)
	case kindFile:
		copy(r.file[:], d.take(len(r.file)))
		r.runs = d.number(1 << 20)
	case kindEnd:
	default:
		return record{}, fmt.Errorf("record of kind %d", r.kind)
	}
	if d.err == nil && len(d.rest) > 0 {
		d.err = fmt.Errorf("%d bytes too many", len(d.rest))
	}
	return r, d.err
}

// decoder reads fields; after an error it gives zeros.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) number(limit uint64) int {
	v, n := binary.Uvarint(d.rest)
	if d.err == nil && (n <= 0 || v > limit) {
		d.err = errors.New("a number that is not possible")
	}
	if d.err != nil {
		return 0
	}
	d.rest = d.rest[n:]
	return int(v)
}

func (d *decoder) bytes(limit uint64) []byte { return d.take(d.number(limit)) }

func (d *decoder) take(n int) []byte {
	if d.err == nil && n > len(d.rest) {
		d.err = errors.New("it ends early")
	}
	if d.err != nil {
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return slices.Clip(b)
}

package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/porestream/porestream/stream"
)

const (
	// maxPart is how much of a section one record holds. With key and envelope it
	// stays below the 1 MiB that brokers take by default, compressed or not.
	maxPart = 900 << 10
	// maxParts bounds a section, and a manifest's table, to 900 MiB.
	maxParts = 1 << 10
	// maxSections bounds what a table may list.
	maxSections = 1 << 20
	// maxName bounds names of sections, groups, topics and stages, and
	// fingerprints.
	maxName = 512
	// maxOffset keeps sums of offsets and lengths from overflowing.
	maxOffset = 1 << 62

	envelopeLen   = 8
	recordVersion = 1
	recordPart    = 'p'
	recordTrailer = 't'
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged is what records that are not as they were written have in common.
var errDamaged = errors.New("damaged")

// appendEnvelope begins a record; [sealEnvelope] fills in the checksum.
func appendEnvelope(b []byte, kind byte) []byte {
	return append(b, 'P', 'S', kind, recordVersion, 0, 0, 0, 0)
}

func sealEnvelope(b []byte) {
	binary.LittleEndian.PutUint32(b[4:], envelopeChecksum(b))
}

func envelopeChecksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, b[envelopeLen:])
}

// openEnvelope returns what a record of a kind holds.
func openEnvelope(b []byte, kind byte) ([]byte, error) {
	switch {
	case len(b) < envelopeLen || b[0] != 'P' || b[1] != 'S':
		return nil, fmt.Errorf("%w: not one of our records", errDamaged)
	case binary.LittleEndian.Uint32(b[4:]) != envelopeChecksum(b):
		return nil, fmt.Errorf("%w: checksum differs", errDamaged)
	case b[2] != kind:
		return nil, fmt.Errorf("%w: a record of kind %q where %q belongs", errDamaged, b[2], kind)
	case b[3] != recordVersion:
		return nil, fmt.Errorf("written by a newer Porestream, in version %d of the snapshot format; this program reads up to %d", b[3], recordVersion)
	}
	return b[envelopeLen:], nil
}

// encodePart makes the record of one part of a section or table. taken is the
// offset of the snapshot for which it was written.
func encodePart(taken int64, content []byte) []byte {
	b := make([]byte, 0, envelopeLen+binary.MaxVarintLen64+len(content))
	b = appendEnvelope(b, recordPart)
	b = binary.AppendUvarint(b, uint64(taken))
	b = append(b, content...)
	sealEnvelope(b)
	return b
}

// decodePart returns a part's content, which shares b.
func decodePart(b []byte) (taken int64, content []byte, err error) {
	body, err := openEnvelope(b, recordPart)
	if err != nil {
		return 0, nil, err
	}
	d := decoder{b: body}
	taken = d.offset()
	if d.err == nil && len(d.b) > maxPart {
		d.err = fmt.Errorf("%w: a part of %d bytes", errDamaged, len(d.b))
	}
	return taken, d.b, d.err
}

// partSum identifies the content of a part.
type partSum struct {
	length uint32
	crc    uint32
}

func sumOf(content []byte) partSum {
	return partSum{length: uint32(len(content)), crc: crc32.Checksum(content, castagnoli)}
}

// stored is where content lies and what it is: the snapshot for which it was
// written, its slot, and its parts.
type stored struct {
	slot
	taken int64
	parts []partSum
}

func (s stored) bytes() int64 {
	var n int64
	for _, p := range s.parts {
		n += int64(p.length)
	}
	return n
}

func appendParts(b []byte, parts []partSum) []byte {
	b = binary.AppendUvarint(b, uint64(len(parts)))
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(p.length))
		b = binary.LittleEndian.AppendUint32(b, p.crc)
	}
	return b
}

// entry is a section in a manifest's table.
type entry struct {
	name string
	stored
}

// appendEntry adds a section to a table, which is ordered by name.
func appendEntry(b []byte, e *entry) []byte {
	b = appendString(b, e.name)
	b = binary.AppendUvarint(b, uint64(e.epoch))
	b = append(b, e.index)
	b = binary.AppendUvarint(b, uint64(e.taken))
	return appendParts(b, e.parts)
}

// decodeTable reads n entries.
func decodeTable(b []byte, n int) ([]entry, error) {
	d := decoder{b: b}
	entries := make([]entry, 0, min(n, len(b)/minEntry))
	for range n {
		var e entry
		e.name = d.string()
		e.slot = d.slot()
		e.taken = d.offset()
		e.parts = d.parts()
		if d.err != nil {
			return nil, fmt.Errorf("reading the table of sections: %w", d.err)
		}
		if e.name == "" || len(entries) > 0 && entries[len(entries)-1].name >= e.name {
			return nil, fmt.Errorf("reading the table of sections: %w: section %q is out of order", errDamaged, e.name)
		}
		entries = append(entries, e)
	}
	if len(d.b) > 0 {
		return nil, fmt.Errorf("reading the table of sections: %w: %d bytes too many", errDamaged, len(d.b))
	}
	return entries, nil
}

// minEntry is the size of the shortest entry.
const minEntry = 2 + 1 + 1 + 1 + 1 + 5

// trailer is a manifest's last and only necessary record: with it the snapshot is
// there. The table of its sections lies in records before.
type trailer struct {
	source   Source
	slot     // that the trailer and its table are in
	format   stream.StateFormat
	origin   int64 // the state is a fold of the records from here on
	offset   int64 // ... and below here
	sections int
	bytes    int64 // of all sections
	table    []partSum
}

func encodeTrailer(t *trailer) []byte {
	b := appendEnvelope(nil, recordTrailer)
	b = appendString(b, t.source.Group)
	b = appendString(b, t.source.Topic)
	b = binary.AppendUvarint(b, uint64(t.source.Partition))
	b = binary.AppendUvarint(b, uint64(t.epoch))
	b = append(b, t.index)
	b = appendString(b, t.format.Stage)
	b = binary.AppendUvarint(b, uint64(t.format.Version))
	b = appendString(b, t.format.Fingerprint)
	b = binary.AppendUvarint(b, uint64(t.origin))
	b = binary.AppendUvarint(b, uint64(t.offset))
	b = binary.AppendUvarint(b, uint64(t.sections))
	b = binary.AppendUvarint(b, uint64(t.bytes))
	b = appendParts(b, t.table)
	sealEnvelope(b)
	return b
}

func decodeTrailer(b []byte) (*trailer, error) {
	body, err := openEnvelope(b, recordTrailer)
	if err != nil {
		return nil, err
	}
	d := decoder{b: body}
	t := &trailer{}
	t.source.Group, t.source.Topic = d.string(), d.string()
	t.source.Partition = int32(d.uint(1<<31 - 1))
	t.slot = d.slot()
	t.format.Stage = d.string()
	t.format.Version = int(d.uint(1<<31 - 1))
	t.format.Fingerprint = d.string()
	t.origin, t.offset = d.offset(), d.offset()
	t.sections = int(d.uint(maxSections))
	t.bytes = d.offset()
	t.table = d.parts()
	switch {
	case d.err != nil:
		return nil, fmt.Errorf("reading the manifest: %w", d.err)
	case len(d.b) > 0:
		return nil, fmt.Errorf("reading the manifest: %w: %d bytes too many", errDamaged, len(d.b))
	}
	return t, nil
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// decoder reads from the front of b. After the first failure it returns zeros
// and keeps the error.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", errDamaged, what)
	}
	d.b = nil
}

// uint reads a number of at most limit, in its shortest form.
func (d *decoder) uint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	switch {
	case n <= 0:
		d.fail("it ends early")
		return 0
	case v > limit:
		d.fail(fmt.Sprintf("number %d exceeds %d", v, limit))
		return 0
	case n > 1 && d.b[n-1] == 0:
		d.fail("a number is not in its shortest form")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) offset() int64 { return int64(d.uint(maxOffset)) }

func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		d.fail("it ends early")
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) string() string { return string(d.take(int(d.uint(maxName)))) }

func (d *decoder) slot() slot {
	s := slot{epoch: int32(d.uint(1<<31 - 1))}
	if b := d.take(1); b != nil {
		s.index = b[0]
	}
	if s.index > 1 {
		d.fail(fmt.Sprintf("slot %d", s.index))
	}
	return s
}

// parts reads at least one part.
func (d *decoder) parts() []partSum {
	n := int(d.uint(maxParts))
	if n == 0 || n > len(d.b)/5 {
		d.fail("no parts")
		return nil
	}
	parts := make([]partSum, n)
	for i := range parts {
		parts[i].length = uint32(d.uint(maxPart))
		if b := d.take(4); b != nil {
			parts[i].crc = binary.LittleEndian.Uint32(b)
		}
	}
	return parts
}

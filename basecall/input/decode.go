package input

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/porestream/porestream/textfile"
)

// RecordError says of one record that it can't be used; those behind it can.
type RecordError struct {
	Read string // the read's id, if it is known
	Err  error
}

func (e *RecordError) Error() string {
	if e.Read == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("read %s: %v", clip(e.Read), e.Err)
}

func (e *RecordError) Unwrap() error { return e.Err }

func refuse(id, format string, args ...any) error {
	return &RecordError{Read: id, Err: fmt.Errorf(format, args...)}
}

// decoder cuts records out of bytes and decodes them.
type decoder interface {
	// cut returns the length of the record at the start of b, 0 if it isn't there to its
	// end. An error says that the records that follow can't be found.
	cut(b []byte, final bool) (int, error)
	// decode decodes a record; nil if there is no read in it. Its error is a
	// [RecordError], or about all that follows.
	decode(record []byte) (*Read, error)
}

// maxRecord bounds a record, in bytes: no pore has read a molecule of as many bases.
const maxRecord = 1 << 28

// decoderFor recognises the format of a file by its beginning, decompressed; nil if
// that takes more bytes.
func decoderFor(b []byte, final bool) (decoder, error) {
	const enough = 64
	switch {
	case len(b) == 0:
		return nil, nil //nolint:nilnil // see above
	case bytes.HasPrefix(b, []byte("BAM\x01")):
		return &bamDecoder{}, nil
	case b[0] == '>':
		return nil, errors.New("this is FASTA: FASTQ is needed, with qualities")
	case len(b) < enough && !final && bytes.IndexByte(b, '\n') < 0:
		return nil, nil //nolint:nilnil // see above
	case b[0] == '@' && !(len(b) > 3 && b[3] == '\t' && isHeaderLine(b)):
		return &fastqDecoder{}, nil
	}
	for magic, format := range signalFormats {
		if bytes.HasPrefix(b, []byte(magic)) {
			return nil, fmt.Errorf("this is %s, signal that is not called: FASTQ, SAM, BAM or CRAM is needed", format)
		}
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	if b[0] == '@' || bytes.Count(line, []byte("\t")) >= samFields-1 {
		return &samDecoder{}, nil
	}
	return nil, fmt.Errorf("not FASTQ, SAM, BAM or CRAM (the file begins with %q)", b[:min(len(b), 16)])
}

// signalFormats are files of signal by their beginnings, which people take for those of reads.
var signalFormats = map[string]string{"\x8bPOD\r\n\x1a\n": "POD5", "BLOW5\x01": "BLOW5", "\x89HDF\r\n\x1a\n": "FAST5"}

// isHeaderLine reports whether a line is one of a SAM header.
func isHeaderLine(b []byte) bool {
	return len(b) > 3 && slices.Contains([]string{"@HD", "@SQ", "@RG", "@PG", "@CO"}, string(b[:3]))
}

// fastqDecoder decodes FASTQ of four lines a record.
type fastqDecoder struct{}

func (fastqDecoder) cut(b []byte, final bool) (int, error) {
	at := 0
	var lengths [4]int
	for i := range lengths {
		n := bytes.IndexByte(b[at:], '\n')
		if n < 0 {
			// The last line of a file may lack its end, if it is there.
			if rest := len(b) - at; i == 3 && rest > 0 && (final || rest == lengths[1]) {
				return len(b), nil
			}
			if final && len(bytes.TrimSpace(b)) == 0 {
				return len(b), nil
			}
			return 0, nil
		}
		if i == 0 && n == 0 { // a blank line
			return 1, nil
		}
		if i == 0 && b[at] != '@' {
			return 0, fmt.Errorf("a record begins with %q, want '@'", b[at])
		}
		if i == 2 && b[at] != '+' {
			return 0, fmt.Errorf("want '+' after one line of sequence of read %s (records of more lines are not supported)", clip(string(fastqName(b))))
		}
		lengths[i] = n
		at += n + 1
	}
	return at, nil
}

// fastqName is the name of the record at the start of b.
func fastqName(b []byte) []byte {
	title, _, _ := bytes.Cut(b, []byte("\n"))
	if i := bytes.IndexAny(title, " \t\r"); i >= 0 {
		title = title[:i]
	}
	return title[min(1, len(title)):]
}

func (fastqDecoder) decode(record []byte) (*Read, error) {
	var lines [4][]byte
	for i := range lines {
		var line []byte
		line, record, _ = bytes.Cut(record, []byte("\n"))
		lines[i] = bytes.TrimSuffix(line, []byte("\r"))
	}
	if len(lines[0]) == 0 {
		return nil, nil //nolint:nilnil // a blank line
	}
	r := &Read{ID: string(fastqName(lines[0]))}
	if r.ID == "" {
		return nil, refuse("", "a record without a name")
	}
	moves := r.setTitle(lines[0][1+len(r.ID):])
	if len(lines[3]) != len(lines[1]) {
		return nil, refuse(r.ID, "%d qualities for %d bases", len(lines[3]), len(lines[1]))
	}
	for _, b := range lines[1] {
		if c := b | 0x20; c < 'a' || c > 'z' {
			return nil, refuse(r.ID, "%q is no letter of a sequence", b)
		}
	}
	r.Sequence = bytes.Clone(lines[1])
	r.Qualities = make([]byte, len(lines[3]))
	for i, q := range lines[3] {
		if q < '!' || q > '~' {
			return nil, refuse(r.ID, "%q is no quality", q)
		}
		r.Qualities[i] = q - '!'
	}
	r.settle(moves)
	return r, nil
}

// setTitle takes what follows the name in a title: tags separated by tabs, key=value
// separated by blanks, or nothing that is known. It returns the moves.
func (r *Read) setTitle(title []byte) (moves []byte) {
	for field := range bytes.SplitSeq(title, []byte("\t")) {
		field = bytes.TrimSpace(field)
		if t, ok := parseTag(field); ok {
			r.setTag(&t, nil, &moves)
			continue
		}
		r.setKeys(string(field))
	}
	return moves
}

// parseTag reads a tag as SAM writes it.
func parseTag(field []byte) (t tag, ok bool) {
	if len(field) < 5 || field[2] != ':' || field[4] != ':' {
		return t, false
	}
	t.name, t.kind = [2]byte(field[:2]), field[3]
	value := field[5:]
	var err error
	switch t.kind {
	case 'Z', 'H', 'A':
		t.text = value
	case 'i':
		t.whole, err = strconv.ParseInt(string(value), 10, 64)
	case 'f':
		t.real, err = strconv.ParseFloat(string(value), 64)
	case 'B':
		return t, parseArray(&t, value)
	default:
		return t, false
	}
	return t, err == nil
}

// parseArray reads an array, of which only bytes are of interest.
func parseArray(t *tag, value []byte) bool {
	if len(value) == 0 {
		return false
	}
	t.array, t.kind = true, value[0]
	if t.kind != 'c' && t.kind != 'C' {
		return true
	}
	for element := range bytes.SplitSeq(bytes.TrimPrefix(value[1:], []byte(",")), []byte(",")) {
		n, err := strconv.ParseInt(string(element), 10, 16)
		if err != nil {
			return len(element) == 0
		}
		t.data = append(t.data, byte(n))
	}
	return true
}

// Flags of SAM records.
const (
	flagReverse       = 0x10
	flagSecondary     = 0x100
	flagFailed        = 0x200
	flagSupplementary = 0x800
)

// samFields are the mandatory fields of a line.
const samFields = 11

// samDecoder decodes SAM.
type samDecoder struct {
	groups map[string]*group
	// barcoded says that there is a group of a barcode: barcodes were searched for on all
	// reads.
	barcoded bool
}

func (*samDecoder) cut(b []byte, final bool) (int, error) {
	n := bytes.IndexByte(b, '\n')
	switch {
	case n >= 0:
		return n + 1, nil
	case final:
		return len(b), nil
	}
	return 0, nil
}

func (d *samDecoder) decode(line []byte) (*Read, error) {
	line = bytes.TrimRight(line, "\r\n")
	if len(line) == 0 || isHeaderLine(line) {
		if bytes.HasPrefix(line, []byte("@RG\t")) {
			d.group(string(line))
		}
		return nil, nil //nolint:nilnil // no read
	}
	var fields [samFields][]byte
	for i := range fields {
		var more bool
		if fields[i], line, more = bytes.Cut(line, []byte("\t")); !more && i < samFields-1 {
			return nil, refuse(string(fields[0]), "a line of %d fields, %d are the least", i+1, samFields)
		}
	}
	id := string(fields[0])
	flags, err := strconv.ParseUint(string(fields[1]), 0, 16)
	if err != nil {
		return nil, refuse(id, "%q are no flags", fields[1])
	}
	if flags&(flagSecondary|flagSupplementary) != 0 {
		return nil, nil //nolint:nilnil // of a read whose primary record has all of it
	}
	r := &Read{ID: id, Failed: flags&flagFailed != 0}
	if string(fields[9]) != "*" {
		r.Sequence = bytes.Clone(fields[9])
	}
	for _, b := range r.Sequence {
		if c := b | 0x20; (c < 'a' || c > 'z') && b != '=' && b != '.' {
			return nil, refuse(id, "%q is no letter of a sequence", b)
		}
	}
	if q := fields[10]; string(q) != "*" || len(r.Sequence) == 1 {
		if len(q) != len(r.Sequence) {
			return nil, refuse(id, "%d qualities for %d bases", len(q), len(r.Sequence))
		}
		r.Qualities = make([]byte, len(q))
		for i, c := range q {
			if c < '!' || c > '~' {
				return nil, refuse(id, "%q is no quality", c)
			}
			r.Qualities[i] = c - '!'
		}
	}
	var moves []byte
	for field := range bytes.SplitSeq(line, []byte("\t")) {
		if t, ok := parseTag(field); ok {
			r.setTag(&t, d.groups, &moves)
		}
	}
	if d.barcoded && r.Barcode == "" {
		r.Barcode = Unclassified
	}
	r.turn(flags)
	r.settle(moves)
	return r, nil
}

func (d *samDecoder) group(line string) {
	id, g := parseGroup(line)
	if d.groups == nil {
		d.groups = make(map[string]*group)
	}
	d.groups[id] = g
	d.barcoded = d.barcoded || g.read.Barcode != ""
}

// complements are the letters of the other strand (IUPAC).
var complements = func() (t [256]byte) {
	for i := range t {
		t[i] = 'N'
	}
	for i, b := range []byte("ACGTUMRWSYKVHDBN") {
		t[b] = "TGCAAKYWSRMBDHVN"[i]
		t[b|0x20] = t[b]
	}
	return t
}()

// turn turns a record of the reverse strand to the direction in which it was sequenced.
func (r *Read) turn(flags uint64) {
	if flags&flagReverse == 0 {
		return
	}
	slices.Reverse(r.Sequence)
	for i, b := range r.Sequence {
		r.Sequence[i] = complements[b]
	}
	slices.Reverse(r.Qualities)
}

// bamDecoder decodes BAM, decompressed (SAM specification, section 4.2).
type bamDecoder struct {
	samDecoder
	state int // what comes next: the header's text, its references, records
	refs  int // references whose description is still to come
}

// Parts of a BAM file.
const (
	bamText = iota
	bamRefs
	bamRecords
)

const (
	bamHead   = 12 // magic, length of the text, and the number of references behind it
	bamFixed  = 32 // of a record, behind its length
	maxHeader = 1 << 30
)

func (d *bamDecoder) cut(b []byte, _ bool) (int, error) {
	size := func(at int) int64 {
		if len(b) < at+4 {
			return -1
		}
		return int64(binary.LittleEndian.Uint32(b[at:]))
	}
	var n int64
	switch d.state {
	case bamText:
		if n = size(4); n < 0 {
			return 0, nil
		}
		n += bamHead
	case bamRefs:
		if n = size(0); n < 0 {
			return 0, nil
		}
		n += 8
	default:
		if n = size(0); n < 0 {
			return 0, nil
		}
		if n < bamFixed || n > maxRecord {
			return 0, fmt.Errorf("a record of %d bytes", n)
		}
		n += 4
	}
	if n > maxHeader {
		return 0, fmt.Errorf("a header of %d bytes", n)
	}
	if n > int64(len(b)) {
		return 0, nil
	}
	return int(n), nil
}

func (d *bamDecoder) decode(b []byte) (*Read, error) {
	switch d.state {
	case bamText:
		text := b[8 : len(b)-4]
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			if bytes.HasPrefix(line, []byte("@RG\t")) {
				d.group(string(bytes.TrimRight(line, "\r\x00")))
			}
		}
		d.refs = int(binary.LittleEndian.Uint32(b[len(b)-4:]))
		d.state = bamRefs
		if d.refs == 0 {
			d.state = bamRecords
		}
		return nil, nil //nolint:nilnil // no read
	case bamRefs:
		if d.refs--; d.refs == 0 {
			d.state = bamRecords
		}
		return nil, nil //nolint:nilnil // no read
	}
	return d.record(b[4:])
}

// nibbles are the letters of a byte of a sequence.
var nibbles = func() (t [256][2]byte) {
	const letters = "=ACMGRSVTWYHKDBN"
	for b := range t {
		t[b] = [2]byte{letters[b>>4], letters[b&15]}
	}
	return t
}()

func (d *bamDecoder) record(b []byte) (*Read, error) {
	nameLen, ops := int(b[8]), int(binary.LittleEndian.Uint16(b[12:]))
	flags, bases := uint64(binary.LittleEndian.Uint16(b[14:])), int(binary.LittleEndian.Uint32(b[16:]))
	seqAt := bamFixed + nameLen + 4*ops
	if nameLen < 1 || bases > len(b) || seqAt+(bases+1)/2+bases > len(b) {
		return nil, refuse("", "a record of %d bytes is too short for a name of %d, %d operations and %d bases", len(b), nameLen, ops, bases)
	}
	if flags&(flagSecondary|flagSupplementary) != 0 {
		return nil, nil //nolint:nilnil // of a read whose primary record has all of it
	}
	r := &Read{ID: string(b[bamFixed : bamFixed+nameLen-1]), Failed: flags&flagFailed != 0}
	qualAt := seqAt + (bases+1)/2
	r.Sequence = make([]byte, 2*(qualAt-seqAt))
	for i, two := range b[seqAt:qualAt] {
		copy(r.Sequence[2*i:], nibbles[two][:])
	}
	r.Sequence = r.Sequence[:bases]
	if tagsAt := qualAt + bases; bases > 0 && b[qualAt] != 0xff {
		r.Qualities = bytes.Clone(b[qualAt:tagsAt])
		for _, q := range r.Qualities {
			if q > '~'-'!' {
				return nil, refuse(r.ID, "%d is no quality", q)
			}
		}
	}
	var moves []byte
	for rest := b[qualAt+bases:]; len(rest) > 0; {
		t, size, err := binaryTag(rest)
		if err != nil {
			return nil, refuse(r.ID, "%w", err)
		}
		r.setTag(&t, d.groups, &moves)
		rest = rest[size:]
	}
	if d.barcoded && r.Barcode == "" {
		r.Barcode = Unclassified
	}
	r.turn(flags)
	r.settle(moves)
	return r, nil
}

// widths are the bytes of BAM's types of one size.
var widths = map[byte]int{'A': 1, 'c': 1, 'C': 1, 's': 2, 'S': 2, 'i': 4, 'I': 4, 'f': 4}

// binaryTag reads the tag at the start of b, and how many bytes it takes.
func binaryTag(b []byte) (t tag, size int, err error) {
	fail := func(what string) (tag, int, error) { return tag{}, 0, errors.New("its tags are damaged: " + what) }
	if len(b) < 4 {
		return fail("a tag is cut short")
	}
	t.name, t.kind = [2]byte(b[:2]), b[2]
	value := b[3:]
	switch t.kind {
	case 'Z', 'H':
		n := bytes.IndexByte(value, 0)
		if n < 0 {
			return fail("a text has no end")
		}
		t.text = value[:n]
		return t, 3 + n + 1, nil
	case 'B':
		if len(value) < 5 {
			return fail("an array is cut short")
		}
		t.array, t.kind = true, value[0]
		width, known := widths[t.kind]
		n := int64(binary.LittleEndian.Uint32(value[1:])) * int64(width)
		if !known || n > int64(len(value)-5) {
			return fail("an array is cut short")
		}
		if width == 1 {
			t.data = value[5 : 5+n]
		}
		return t, 3 + 5 + int(n), nil
	}
	width, known := widths[t.kind]
	if !known || width > len(value) {
		return fail(fmt.Sprintf("type %q", t.kind))
	}
	switch t.kind {
	case 'A':
		t.text = value[:1]
	case 'c':
		t.whole = int64(int8(value[0]))
	case 'C':
		t.whole = int64(value[0])
	case 's':
		t.whole = int64(int16(binary.LittleEndian.Uint16(value)))
	case 'S':
		t.whole = int64(binary.LittleEndian.Uint16(value))
	case 'i':
		t.whole = int64(int32(binary.LittleEndian.Uint32(value)))
	case 'I':
		t.whole = int64(binary.LittleEndian.Uint32(value))
	case 'f':
		t.real = float64(math.Float32frombits(binary.LittleEndian.Uint32(value)))
	}
	return t, 3 + width, nil
}

// clip shortens text for an error message.
func clip(s string) string { return textfile.Clip(s, 60) }

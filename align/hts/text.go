package hts

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/biogo/hts/sam"
)

// textReader reads the records of SAM as htslib takes them: what BAM can hold, text can.
type textReader struct {
	in     *bufio.Reader
	header *sam.Header
	refs   map[string]*sam.Reference
	line   int  // lines read
	bare   bool // there is no header, so references are those that records name
	buf    []byte
	// unended says that the last line has no end.
	unended bool
}

// readText reads a header, which may be missing.
func readText(r io.Reader) (*textReader, Lines, error) {
	t := &textReader{in: bufio.NewReaderSize(r, 64<<10), refs: make(map[string]*sam.Reference)}
	if bom, _ := t.in.Peek(3); string(bom) == "\xef\xbb\xbf" {
		_, _ = t.in.Discard(3)
	}
	var lines Lines
	for {
		first, err := t.in.Peek(1)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, nil, err
		}
		if len(first) == 0 || first[0] != '@' {
			break
		}
		line, err := t.next()
		if err != nil {
			return nil, nil, err
		}
		lines = append(lines, string(line))
	}
	var err error
	if t.header, err = lines.parse(nil); err != nil {
		return nil, nil, err
	}
	t.bare = len(lines) == 0
	for _, ref := range t.header.Refs() {
		t.refs[ref.Name()] = ref
	}
	return t, lines, nil
}

// next returns a line without its end, valid until the next call; io.EOF behind the last.
func (t *textReader) next() ([]byte, error) {
	t.buf = t.buf[:0]
	for {
		part, err := t.in.ReadSlice('\n')
		t.buf = append(t.buf, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(t.buf) == 0:
			return nil, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		}
		t.line++
		t.unended = err != nil
		return bytes.TrimSuffix(bytes.TrimSuffix(t.buf, []byte("\n")), []byte("\r")), nil
	}
}

func (t *textReader) read() (*sam.Record, error) {
	line, err := t.next()
	for err == nil && len(line) == 0 {
		line, err = t.next()
	}
	if err != nil {
		return nil, err
	}
	rec, err := t.parse(line)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", t.line, err)
	}
	return rec, nil
}

// parse reads a line.
func (t *textReader) parse(line []byte) (*sam.Record, error) {
	const fields = 11
	f := bytes.Split(line, []byte{'\t'})
	if len(f) < fields {
		return nil, fmt.Errorf("it has %d columns, SAM has %d and more", len(f), fields)
	}
	rec := &sam.Record{Name: string(f[0])}
	if rec.Name == "" || len(rec.Name) > maxName || strings.ContainsFunc(rec.Name, unicode.IsControl) {
		return nil, fmt.Errorf("a name of %d bytes, %q: SAM allows 1 to %d that can be printed", len(rec.Name), clip(rec.Name), maxName)
	}
	var err error
	number := func(column, bits int) (n int64) {
		if err == nil {
			if n, err = strconv.ParseInt(string(f[column]), 0, bits); err != nil {
				err = fmt.Errorf("column %d: %q is no number there", column+1, clip(string(f[column])))
			}
		}
		return n
	}
	rec.Flags = sam.Flags(number(1, 17))
	rec.Pos = int(number(3, 33)) - 1
	rec.MapQ = byte(number(4, 9))
	rec.MatePos = int(number(7, 33)) - 1
	rec.TempLen = int(number(8, 33))
	if err != nil {
		return nil, err
	}
	if rec.Ref, err = t.reference(f[2]); err != nil {
		return nil, err
	}
	if string(f[6]) == "=" {
		rec.MateRef = rec.Ref
	} else if rec.MateRef, err = t.reference(f[6]); err != nil {
		return nil, err
	}
	if rec.Cigar, err = parseCigar(f[5]); err != nil {
		return nil, err
	}
	if string(f[9]) != "*" {
		rec.Seq = packed(f[9])
	}
	if rec.Qual, err = parseQualities(f[10], rec.Seq.Length); err != nil {
		return nil, err
	}
	for _, text := range f[fields:] {
		if len(text) == 0 {
			continue // a tab at the end of the line
		}
		aux, err := parseAux(text)
		if err != nil {
			return nil, err
		}
		rec.AuxFields = append(rec.AuxFields, aux)
	}
	return rec, nil
}

// reference is the sequence of a name, nil for none.
func (t *textReader) reference(name []byte) (*sam.Reference, error) {
	if string(name) == "*" {
		return nil, nil //nolint:nilnil // a record need not be aligned
	}
	if ref := t.refs[string(name)]; ref != nil {
		return ref, nil
	}
	if !t.bare {
		return nil, fmt.Errorf("the header has no reference %q", clip(string(name)))
	}
	ref, err := sam.NewReference(string(name), "", "", math.MaxInt32, nil, nil)
	if err == nil {
		err = t.header.AddReference(ref)
	}
	if err != nil {
		return nil, fmt.Errorf("reference %q: %w", clip(string(name)), err)
	}
	t.refs[string(name)] = ref
	return ref, nil
}

// nibbles are the codes of letters in BAM, as htslib has them: U is T, and a letter of no
// base is N.
var nibbles = func() (table [256]sam.Doublet) {
	for i := range table {
		table[i] = 15
	}
	for code, letter := range []byte("=ACMGRSVTWYHKDBN") {
		table[letter] = sam.Doublet(code)
		if letter >= 'A' {
			table[letter|0x20] = sam.Doublet(code)
		}
	}
	table['U'], table['u'] = table['T'], table['T']
	return table
}()

// packed is a sequence as BAM has it.
func packed(letters []byte) sam.Seq {
	s := sam.Seq{Length: len(letters), Seq: make([]sam.Doublet, (len(letters)+1)/2)}
	for i, b := range letters {
		s.Seq[i/2] |= nibbles[b] << (4 * (1 - i%2))
	}
	return s
}

// parseQualities reads the qualities of n bases; of 0xff as in BAM if there are none.
func parseQualities(text []byte, n int) ([]byte, error) {
	if string(text) == "*" {
		return bytes.Repeat([]byte{0xff}, n), nil
	}
	if len(text) != n {
		return nil, fmt.Errorf("%d qualities for %d bases", len(text), n)
	}
	out := make([]byte, n)
	for i, c := range text {
		if c < '!' || c > '~' {
			return nil, fmt.Errorf("%q is no quality", c)
		}
		out[i] = c - '!'
	}
	return out, nil
}

// maxOp is the length of an operation that BAM can hold.
const maxOp = 1<<28 - 1

// parseCigar reads a CIGAR, nil for none.
func parseCigar(text []byte) (sam.Cigar, error) {
	if string(text) == "*" {
		return nil, nil
	}
	var c sam.Cigar
	n, digits := 0, 0
	for _, b := range text {
		if b >= '0' && b <= '9' {
			if n, digits = 10*n+int(b-'0'), digits+1; n > maxOp {
				return nil, fmt.Errorf("the CIGAR %s has a longer operation than BAM can hold", clip(string(text)))
			}
			continue
		}
		op := bytes.IndexByte([]byte("MIDNSHP=XB"), b)
		if op < 0 || digits == 0 {
			return nil, fmt.Errorf("%q is no CIGAR", clip(string(text)))
		}
		c = append(c, sam.NewCigarOp(sam.CigarOpType(op), n))
		n, digits = 0, 0
	}
	if digits > 0 || len(c) == 0 {
		return nil, fmt.Errorf("%q is no CIGAR", clip(string(text)))
	}
	return c, nil
}

// parseAux reads a tag. Texts and arrays may be empty, as they are in files of
// basecallers that call modified bases.
func parseAux(text []byte) (sam.Aux, error) {
	wrong := func() (sam.Aux, error) { return nil, fmt.Errorf("%q is no tag", clip(string(text))) }
	if len(text) < 5 || text[2] != ':' || text[4] != ':' {
		return wrong()
	}
	value := text[5:]
	aux := sam.Aux{text[0], text[1], text[3]}
	switch text[3] {
	case 'A':
		if len(value) != 1 {
			return wrong()
		}
		return append(aux, value[0]), nil
	case 'i':
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || n < math.MinInt32 || n > math.MaxUint32 {
			return wrong()
		}
		return smallest(aux[:2], n), nil
	case 'f':
		f, err := strconv.ParseFloat(string(value), 32)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return wrong()
		}
		return binary.LittleEndian.AppendUint32(aux, math.Float32bits(float32(f))), nil
	case 'Z', 'H':
		if bytes.IndexFunc(value, unicode.IsControl) >= 0 {
			return wrong() // BAM's text ends with a zero
		}
		if text[3] == 'H' && (len(value)%2 != 0 || len(bytes.Trim(value, "0123456789ABCDEFabcdef")) > 0) {
			return wrong()
		}
		return append(aux, value...), nil
	case 'B':
		if len(value) == 0 || elementSize(value[0]) == 0 || len(value) > 1 && value[1] != ',' {
			return wrong()
		}
		// A reader's longest tags: made at once.
		aux = slices.Grow(aux, 5+(1+bytes.Count(value, []byte{','}))*elementSize(value[0]))
		aux = append(aux, value[0], 0, 0, 0, 0)
		count := uint32(0)
		if len(value) > 2 {
			for element := range bytes.SplitSeq(value[2:], []byte{','}) {
				var ok bool
				if aux, ok = appendElement(aux, value[0], element); !ok {
					return wrong()
				}
				count++
			}
		}
		binary.LittleEndian.PutUint32(aux[4:], count)
		return aux, nil
	}
	return wrong()
}

// elementSize is how many bytes an element of an array of the given type has in BAM; 0:
// there is no such type.
func elementSize(kind byte) int {
	switch kind {
	case 'c', 'C':
		return 1
	case 's', 'S':
		return 2
	case 'i', 'I', 'f':
		return 4
	}
	return 0
}

// appendElement appends an element of an array.
func appendElement(b []byte, kind byte, text []byte) (_ []byte, ok bool) {
	if kind == 'f' {
		f, err := strconv.ParseFloat(string(text), 32)
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(f))), err == nil || errors.Is(err, strconv.ErrRange)
	}
	n, ok := parseInt(text)
	low, high := int64(0), int64(1)<<(8*elementSize(kind))-1
	if kind >= 'a' {
		low, high = -1<<(8*elementSize(kind)-1), high>>1
	}
	if !ok || n < low || n > high {
		return b, false
	}
	switch elementSize(kind) {
	case 1:
		return append(b, byte(n)), true
	case 2:
		return binary.LittleEndian.AppendUint16(b, uint16(n)), true
	}
	return binary.LittleEndian.AppendUint32(b, uint32(n)), true
}

// parseInt reads a whole number of at most ten digits. Arrays of moves have as many as a read has
// frames, too many for text that is made for each.
func parseInt(text []byte) (n int64, ok bool) {
	digits := bytes.TrimPrefix(text, []byte{'-'})
	if len(digits) == 0 || len(digits) > 10 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	if len(digits) < len(text) {
		n = -n
	}
	return n, true
}

// smallest returns a tag whose name is in b, with a number in as few bytes as it needs, as
// samtools writes it.
func smallest(b sam.Aux, n int64) sam.Aux {
	switch {
	case n >= 0 && n <= math.MaxUint8:
		return append(b, 'C', byte(n))
	case n >= 0 && n <= math.MaxUint16:
		return binary.LittleEndian.AppendUint16(append(b, 'S'), uint16(n))
	case n >= 0:
		return binary.LittleEndian.AppendUint32(append(b, 'I'), uint32(n))
	case n >= math.MinInt8:
		return append(b, 'c', byte(n))
	case n >= math.MinInt16:
		return binary.LittleEndian.AppendUint16(append(b, 's'), uint16(n))
	}
	return binary.LittleEndian.AppendUint32(append(b, 'i'), uint32(n))
}

// appendText appends the line of a record.
func appendText(b []byte, rec *sam.Record) []byte {
	b = append(append(b, rec.Name...), '\t')
	b = append(strconv.AppendUint(b, uint64(rec.Flags), 10), '\t')
	b = append(append(b, rec.Ref.Name()...), '\t')
	b = append(strconv.AppendInt(b, int64(rec.Pos)+1, 10), '\t')
	b = append(strconv.AppendUint(b, uint64(rec.MapQ), 10), '\t')
	if len(rec.Cigar) == 0 {
		b = append(b, '*')
	}
	for _, op := range rec.Cigar {
		b = append(strconv.AppendUint(b, uint64(op.Len()), 10), op.Type().String()...)
	}
	b = append(b, '\t')
	if rec.MateRef != nil && rec.MateRef == rec.Ref {
		b = append(b, '=')
	} else {
		b = append(b, rec.MateRef.Name()...)
	}
	b = append(strconv.AppendInt(append(b, '\t'), int64(rec.MatePos)+1, 10), '\t')
	b = append(strconv.AppendInt(b, int64(rec.TempLen), 10), '\t')
	if rec.Seq.Length == 0 {
		b = append(b, '*')
	} else {
		b = append(b, rec.Seq.Expand()...)
	}
	b = append(b, '\t')
	if Qualities(rec) == nil {
		b = append(b, '*')
	}
	for _, q := range Qualities(rec) {
		b = append(b, q+'!')
	}
	for _, aux := range rec.AuxFields {
		b = appendAux(append(b, '\t'), aux)
	}
	return append(b, '\n')
}

// appendAux appends a tag as text.
func appendAux(b []byte, aux sam.Aux) []byte {
	b = append(b, aux[0], aux[1], ':', aux.Kind(), ':')
	switch value := aux[3:]; aux.Type() {
	case 'A', 'Z', 'H':
		return append(b, value...)
	case 'B':
		b = append(b, aux[3])
		for at := 8; at < len(aux); at += elementSize(aux[3]) {
			b = appendNumber(append(b, ','), aux[3], aux[at:])
		}
		return b
	default:
		return appendNumber(b, aux.Type(), value)
	}
}

// appendNumber appends the number that value begins with.
func appendNumber(b []byte, kind byte, value []byte) []byte {
	switch kind {
	case 'c':
		return strconv.AppendInt(b, int64(int8(value[0])), 10)
	case 'C':
		return strconv.AppendUint(b, uint64(value[0]), 10)
	case 's':
		return strconv.AppendInt(b, int64(int16(binary.LittleEndian.Uint16(value))), 10)
	case 'S':
		return strconv.AppendUint(b, uint64(binary.LittleEndian.Uint16(value)), 10)
	case 'i':
		return strconv.AppendInt(b, int64(int32(binary.LittleEndian.Uint32(value))), 10)
	case 'I':
		return strconv.AppendUint(b, uint64(binary.LittleEndian.Uint32(value)), 10)
	}
	return strconv.AppendFloat(b, float64(math.Float32frombits(binary.LittleEndian.Uint32(value))), 'g', -1, 32)
}

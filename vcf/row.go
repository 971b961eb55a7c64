package vcf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// Block is a run of whole data lines as they are in the file.
type Block struct {
	Text []byte // each line with its end; the last line of a file may have none
	Line int    // number of the first line, from 1
}

// blockSize is how much a block is read at once: enough that handing it over costs nothing beside working on it.
const blockSize = 32 << 10

// NextBlock reads the whole lines that come next into buf, which is grown if it is too small. It returns as soon as
// it has one, so that a slow stream is not held back. io.EOF ends the stream. Lines are not checked: see ParseRow and
// Parse. NextBlock and Next may not both be used on one Reader.
func (r *Reader) NextBlock(buf []byte) (Block, error) {
	if cap(buf) < blockSize {
		buf = make([]byte, 0, blockSize)
	}
	buf = append(buf[:0], r.rest...)
	r.rest = r.rest[:0]
	for searched := 0; ; {
		if len(buf) == cap(buf) {
			if len(buf) > maxLine {
				return Block{}, &LineError{Line: r.line + 1, Err: fmt.Errorf("line longer than %d bytes", maxLine)}
			}
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
		n, err := r.br.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		end := searched + bytes.LastIndexByte(buf[searched:], '\n') + 1
		switch {
		case end > searched:
			r.rest = append(r.rest, buf[end:]...)
			return r.block(buf[:end]), nil
		case errors.Is(err, io.EOF) && len(buf) == 0:
			return Block{}, io.EOF
		case errors.Is(err, io.EOF):
			return r.block(buf), nil
		case err != nil:
			return Block{}, &LineError{Line: r.line + 1, Err: err}
		}
		searched = len(buf)
	}
}

// block counts the lines of text and returns it.
func (r *Reader) block(text []byte) Block {
	b := Block{Text: text, Line: r.line + 1}
	r.line += bytes.Count(text, []byte{'\n'})
	if text[len(text)-1] != '\n' {
		r.line++
	}
	return b
}

// CutLine splits text after its first line and returns that without its end and blanks before that.
func CutLine(text []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(text, []byte{'\n'})
	return trimEnd(line), rest
}

// Row is a data line whose fields from CHROM to ALT alone have been parsed. Its slices are parts of the line.
type Row struct {
	Text           []byte // the line without its end
	Chrom          []byte
	Pos            int // 1-based; 0 is the telomere before the first base
	ID, Ref        []byte
	Alt            []byte // as written: separated by commas, "." if there is none
	info, afterInf int    // where INFO begins and ends in Text
}

// On is the row with its text in the memory of text, which holds the same bytes.
func (row *Row) On(text []byte) Row {
	// All parts share one array, so their capacities show where they begin.
	part := func(b []byte) []byte {
		from := cap(row.Text) - cap(b)
		return text[from : from+len(b)]
	}
	return Row{
		Text: text, Chrom: part(row.Chrom), Pos: row.Pos, ID: part(row.ID), Ref: part(row.Ref), Alt: part(row.Alt),
		info: row.info, afterInf: row.afterInf,
	}
}

// Lines are data lines, each with its end, and the numbers that they have in their file.
type Lines struct {
	Text    []byte
	Numbers []int
}

// Reset takes all lines out and keeps the memory.
func (l *Lines) Reset() { l.Text, l.Numbers = l.Text[:0], l.Numbers[:0] }

// Append adds a line, which has no end.
func (l *Lines) Append(line []byte, number int) {
	l.Text = append(append(l.Text, line...), '\n')
	l.Numbers = append(l.Numbers, number)
}

// Info is the INFO column as written.
func (row *Row) Info() []byte { return row.Text[row.info:row.afterInf] }

// ParseRow parses line, which has no line end, into row. It refuses what Parse refuses.
func (h *Header) ParseRow(line []byte, row *Row) error {
	if len(line) > 0 && line[0] == '#' {
		return errors.New("header line after the data began")
	}
	if bytes.IndexByte(line, '\r') >= 0 {
		return errors.New("carriage return inside a line")
	}
	var ends [8]int
	n, from := 0, 0
	for at := 0; at < len(line) && n < len(ends)-1; at++ { // columns of a few bytes, for which a search takes longer to begin
		if line[at] == '\t' {
			if at == from {
				return fmt.Errorf("column %d is empty", n+1)
			}
			ends[n], from = at, at+1
			n++
		}
	}
	switch i := bytes.IndexByte(line[from:], '\t'); { // INFO, or the last column of a line that has fewer
	case i == 0 || i < 0 && from == len(line):
		return fmt.Errorf("column %d is empty", n+1)
	case i < 0:
		ends[n] = len(line)
	default:
		ends[n] = from + i
	}
	n++
	want := h.columnCount()
	if n == len(ends) && ends[n-1] < len(line) {
		n += bytes.Count(line[ends[n-1]:], []byte{'\t'})
		if line[len(line)-1] == '\t' || bytes.Contains(line[ends[7]:], []byte("\t\t")) {
			return errors.New("a column is empty")
		}
	}
	if n != want {
		return fmt.Errorf("%d columns, want %d", n, want)
	}
	row.Text = line
	row.Chrom = line[:ends[0]]
	row.ID = line[ends[1]+1 : ends[2]]
	row.Ref = line[ends[2]+1 : ends[3]]
	row.Alt = line[ends[3]+1 : ends[4]]
	row.info, row.afterInf = ends[6]+1, ends[7]
	pos, ok := parsePos(line[ends[0]+1 : ends[1]])
	if !ok {
		return fmt.Errorf("POS %q is not a position", clip(string(line[ends[0]+1:ends[1]])))
	}
	row.Pos = pos
	if !isLetters(row.Ref) {
		return fmt.Errorf("REF %q is not a sequence", clip(string(row.Ref)))
	}
	if !isAlleleList(row.Alt) {
		return fmt.Errorf("ALT %q is not a list of alleles", clip(string(row.Alt)))
	}
	if qual := line[ends[4]+1 : ends[5]]; (len(qual) != 1 || qual[0] != '.') && !isShortNumber(qual) {
		if _, err := strconv.ParseFloat(string(qual), 64); err != nil {
			return fmt.Errorf("QUAL %q is not a number", clip(string(qual)))
		}
	}
	return h.checkSamples(line[ends[7]:])
}

// isShortNumber says whether s is a few digits: most values of QUAL that are not are fractions.
func isShortNumber(s []byte) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(s) > 0 && len(s) < 16
}

// checkSamples refuses samples that have more values than FORMAT has keys. columns begins with the tab before FORMAT.
func (h *Header) checkSamples(columns []byte) error {
	if len(h.Samples) == 0 {
		return nil
	}
	format, columns, _ := bytes.Cut(columns[1:], []byte{'\t'})
	keys := 1 + bytes.Count(format, []byte{':'})
	n, sample := 1, 0
	for i := 0; i <= len(columns); i++ {
		switch {
		case i == len(columns) || columns[i] == '\t':
			if n > keys {
				return fmt.Errorf("sample %q has %d values for %d FORMAT keys", h.Samples[sample], n, keys)
			}
			n = 1
			sample++
		case columns[i] == ':':
			n++
		}
	}
	return nil
}

// Parse makes a record of a line of a Block, whose number is number. The error is a *LineError.
func (h *Header) Parse(line []byte, number int) (*Record, error) {
	if bytes.IndexByte(line, '\r') >= 0 {
		return nil, &LineError{Line: number, Err: errors.New("carriage return inside a line")}
	}
	rec, err := h.parse(string(line))
	if err != nil {
		return nil, &LineError{Line: number, Err: err}
	}
	rec.line = number
	return rec, nil
}

// columnCount is the number of columns of a data line.
func (h *Header) columnCount() int {
	if h.formatColumn {
		return len("CPIRAQFI") + 1 + len(h.Samples)
	}
	return len("CPIRAQFI")
}

// parsePos reads a position: digits that make at most 2^31-1.
func parsePos[S []byte | string](s S) (int, bool) {
	if len(s) == 0 || len(s) > 19 {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		c := s[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
		if n > math.MaxInt32 {
			return 0, false
		}
	}
	return n, true
}

// isAlleleList says whether s is "." or alleles with commas between them.
func isAlleleList(s []byte) bool {
	previous := byte(',')
	for _, c := range s {
		switch c {
		case ' ', ';':
			return false
		case ',':
			if previous == ',' {
				return false
			}
		}
		previous = c
	}
	return previous != ','
}

// AppendUpToInfo appends the line up to and with INFO, without the INFO fields of the given keys. It reports whether
// INFO has something in it; where it has not, nothing stands in its place yet, not even ".".
func (row *Row) AppendUpToInfo(dst []byte, without ...string) ([]byte, bool) {
	dst = append(dst, row.Text[:row.info]...)
	info := row.Info()
	if len(info) == 1 && info[0] == '.' {
		return dst, false
	}
	found := false
	for _, key := range without {
		found = found || bytes.Contains(info, []byte(key))
	}
	if !found {
		return append(dst, info...), true
	}
	begun := len(dst)
	for more := true; more; {
		var field []byte
		field, info, more = bytes.Cut(info, []byte{';'})
		key, _, _ := bytes.Cut(field, []byte{'='})
		if slices.Contains(without, string(key)) {
			continue
		}
		if len(dst) > begun {
			dst = append(dst, ';')
		}
		dst = append(dst, field...)
	}
	return dst, len(dst) > begun
}

// AfterInfo is the line from the end of INFO on: FORMAT and the samples with the tabs before them, or nothing.
func (row *Row) AfterInfo() []byte { return row.Text[row.afterInf:] }

// InfoValue is the value of an INFO field as written, and whether the field is there. A flag's value is empty.
func (row *Row) InfoValue(key string) ([]byte, bool) {
	info := row.Info()
	for more := true; more; {
		var field []byte
		field, info, more = bytes.Cut(info, []byte{';'})
		if name, value, _ := bytes.Cut(field, []byte{'='}); string(name) == key {
			return value, true
		}
	}
	return nil, false
}

package vcf

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/porestream/porestream/textfile"
)

const (
	// maxLine bounds one line. Rows of cohorts with 100,000 samples reach some megabytes.
	maxLine = 64 << 20
	// maxHeaderBytes bounds all meta lines together; assemblies with many thousands of scaffolds need some megabytes.
	maxHeaderBytes = 256 << 20
)

// LineError is a fault in the text of a file.
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

func (e *LineError) Unwrap() error { return e.Err }

// Reader reads a VCF stream. It is not safe for concurrent use.
type Reader struct {
	header *Header
	br     *bufio.Reader
	line   int // of the last line read
	long   []byte
	rest   []byte // the beginning of a line that NextBlock has read
}

// NewReader reads the header of a VCF stream: text, gzip or bgzip.
func NewReader(r io.Reader) (*Reader, error) {
	br, err := textfile.NewReader(r, 64<<10)
	if err != nil {
		return nil, err
	}
	if magic, _ := br.Peek(3); string(magic) == "BCF" {
		return nil, errors.New("this is BCF, the binary form: convert it to VCF first (bcftools view)")
	}
	rd := &Reader{br: br.Reader}
	if err := rd.readHeader(); err != nil {
		return nil, err
	}
	return rd, nil
}

// Header is the stream's header. The caller may not change it; Clone it first.
func (r *Reader) Header() *Header { return r.header }

// Line is the number of the line that the last record came from.
func (r *Reader) Line() int { return r.line }

// readLine is the next line without its end, valid until the next call. io.EOF ends the stream.
func (r *Reader) readLine() ([]byte, error) {
	chunk, err := r.br.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		r.long = append(r.long[:0], chunk...)
		for errors.Is(err, bufio.ErrBufferFull) {
			chunk, err = r.br.ReadSlice('\n')
			if len(r.long)+len(chunk) > maxLine {
				r.line++
				return nil, r.fault(fmt.Errorf("line longer than %d bytes", maxLine))
			}
			r.long = append(r.long, chunk...)
		}
		chunk = r.long
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		if len(chunk) == 0 {
			return nil, io.EOF
		}
	default:
		r.line++
		return nil, r.fault(err)
	}
	r.line++
	chunk = trimEnd(bytes.TrimSuffix(chunk, []byte{'\n'}))
	if bytes.IndexByte(chunk, '\r') >= 0 {
		return nil, r.fault(errors.New("carriage return inside a line"))
	}
	return chunk, nil
}

// trimEnd is a line without its carriage return and without blanks at its end: no column is empty.
func trimEnd(line []byte) []byte {
	for n := len(line); n > 0 && (line[n-1] == '\r' || line[n-1] == ' ' || line[n-1] == '\t'); n-- {
		line = line[:n-1]
	}
	return line
}

// fault is err with the current line's number.
func (r *Reader) fault(err error) error { return &LineError{Line: r.line, Err: err} }

// readHeader reads up to and with the #CHROM line.
func (r *Reader) readHeader() error {
	h := &Header{}
	size := 0
	for {
		line, err := r.readLine()
		if errors.Is(err, io.EOF) {
			if r.line == 0 {
				return errors.New("the file is empty: not VCF")
			}
			return errors.New("the file ends before the #CHROM line")
		}
		if err != nil {
			return err
		}
		if !utf8.Valid(line) {
			return r.fault(errors.New("header is not UTF-8 text: not VCF"))
		}
		text := string(line)
		if r.line == 1 && !strings.HasPrefix(text, "##fileformat=VCFv4") {
			return r.fault(fmt.Errorf("first line is %q, want ##fileformat=VCFv4.x: not VCF", clip(text)))
		}
		switch {
		case strings.HasPrefix(text, "##"):
			if size += len(text); size > maxHeaderBytes {
				return r.fault(fmt.Errorf("header longer than %d bytes", maxHeaderBytes))
			}
			h.Meta = append(h.Meta, text)
		case strings.HasPrefix(text, "#"):
			if err := h.columns(text); err != nil {
				return r.fault(err)
			}
			r.header = h
			return nil
		default:
			return r.fault(errors.New("data before the #CHROM line"))
		}
	}
}

// Next is the next record, the caller's to keep. io.EOF ends the stream; after a *LineError for a malformed line
// reading can go on with the next one.
func (r *Reader) Next() (*Record, error) {
	for {
		line, err := r.readLine()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			continue // a blank line holds no data; some tools end files with one
		}
		rec, err := r.header.parse(string(line))
		if err != nil {
			return nil, r.fault(err)
		}
		rec.line = r.line
		return rec, nil
	}
}

// parse makes a record of a data line. The record's strings share the line's memory.
func (h *Header) parse(line string) (*Record, error) {
	if strings.HasPrefix(line, "#") {
		return nil, errors.New("header line after the data began")
	}
	want := h.columnCount()
	var f [9]string
	rest, n := line, 0
	for n < len(f) {
		field, tail, more := strings.Cut(rest, "\t")
		if field == "" {
			return nil, fmt.Errorf("column %d is empty", n+1)
		}
		f[n] = field
		n++
		rest = tail
		if !more {
			break
		}
		if n == 9 || n == 8 && want == 8 {
			n += 1 + strings.Count(rest, "\t")
			break
		}
	}
	if n != want {
		return nil, fmt.Errorf("%d columns, want %d", n, want)
	}

	rec := &Record{Chrom: f[0], Ref: f[3]}
	pos, ok := parsePos(f[1])
	if !ok {
		return nil, fmt.Errorf("POS %q is not a position", clip(f[1]))
	}
	rec.Pos = pos
	if f[2] != "." {
		rec.ID = f[2]
	}
	if !isLetters(rec.Ref) {
		return nil, fmt.Errorf("REF %q is not a sequence", clip(rec.Ref))
	}
	if f[4] != "." {
		rec.Alt = strings.Split(f[4], ",")
		for _, a := range rec.Alt {
			if a == "" || strings.ContainsAny(a, " ;") {
				return nil, fmt.Errorf("ALT %q is not a list of alleles", clip(f[4]))
			}
		}
	}
	if err := rec.parseQual(f[5]); err != nil {
		return nil, err
	}
	if f[6] != "." {
		rec.Filter = strings.Split(f[6], ";")
	}
	if f[7] != "." {
		rec.Info = parseInfo(f[7])
	}
	if want == 8 {
		return rec, nil
	}
	if f[8] != "." {
		rec.Format = strings.Split(f[8], ":")
	}
	rec.Samples = make([][]string, len(h.Samples))
	for i := range rec.Samples {
		var s string
		s, rest, _ = strings.Cut(rest, "\t")
		if s == "" {
			return nil, fmt.Errorf("sample %q has an empty column", h.Samples[i])
		}
		rec.Samples[i] = strings.Split(s, ":")
		if len(rec.Samples[i]) > max(1, len(rec.Format)) {
			return nil, fmt.Errorf("sample %q has %d values for %d FORMAT keys", h.Samples[i], len(rec.Samples[i]), len(rec.Format))
		}
	}
	return rec, nil
}

// parseQual sets Qual and remembers its spelling.
func (rec *Record) parseQual(s string) error {
	rec.qualText, rec.Qual = s, math.NaN()
	if s != "." {
		q, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return fmt.Errorf("QUAL %q is not a number", clip(s))
		}
		rec.Qual = q
	}
	rec.qualValue = rec.Qual
	return nil
}

// parseInfo splits an INFO column.
func parseInfo(s string) Info {
	in := make(Info, 0, 1+strings.Count(s, ";"))
	for more := true; more; {
		var field string
		field, s, more = strings.Cut(s, ";")
		key, value, ok := strings.Cut(field, "=")
		in = append(in, InfoField{Key: key, Value: value, Flag: !ok})
	}
	return in
}

// isLetters says whether s is made of ASCII letters only.
func isLetters[S []byte | string](s S) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

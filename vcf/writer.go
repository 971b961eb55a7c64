package vcf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// Writer writes a VCF stream as text. It is not safe for concurrent use.
type Writer struct {
	w       *bufio.Writer
	samples int
	format  bool
	buf     []byte
}

// NewWriter writes header to w.
func NewWriter(w io.Writer, header *Header) (*Writer, error) {
	if len(header.Meta) == 0 || !strings.HasPrefix(header.Meta[0], "##fileformat=") {
		return nil, errors.New("writing VCF header: its first line must be ##fileformat")
	}
	for _, name := range header.Samples {
		if name == "" || strings.ContainsAny(name, "\t\r\n") {
			return nil, fmt.Errorf("writing VCF header: the sample name %q is empty or has a tab or line end", name)
		}
	}
	for _, line := range header.Meta {
		if strings.ContainsAny(line, "\r\n") {
			return nil, fmt.Errorf("writing VCF header: line %q has a line end in it", clip(line))
		}
	}
	vw := &Writer{w: bufio.NewWriterSize(w, 64<<10), samples: len(header.Samples), format: header.formatColumn || len(header.Samples) > 0}
	if _, err := vw.w.Write(header.append(nil)); err != nil {
		return nil, fmt.Errorf("writing VCF header: %w", err)
	}
	return vw, nil
}

// Write appends one record. The order of records is the caller's.
func (w *Writer) Write(r *Record) error {
	if err := w.check(r); err != nil {
		return fmt.Errorf("writing VCF record %s:%d: %w", r.Chrom, r.Pos, err)
	}
	w.buf = r.AppendLine(w.buf[:0])
	if _, err := w.w.Write(w.buf); err != nil {
		return fmt.Errorf("writing VCF: %w", err)
	}
	return nil
}

// check refuses what would make a line that no reader accepts.
func (w *Writer) check(r *Record) error {
	switch {
	case r.Chrom == "" || r.Ref == "":
		return errors.New("CHROM and REF may not be empty")
	case r.Pos < 0 || r.Pos > math.MaxInt32:
		return errors.New("POS outside 0 to 2^31-1")
	case math.IsInf(r.Qual, 0):
		return errors.New("QUAL is infinite")
	case len(r.Samples) != w.samples:
		return fmt.Errorf("%d samples, the header has %d", len(r.Samples), w.samples)
	case !w.format && len(r.Format) > 0:
		return errors.New("FORMAT without samples")
	}
	for i := range r.Info {
		if strings.IndexByte(r.Info[i].Key, '=') >= 0 || separates(r.Info[i].Key) || separates(r.Info[i].Value) {
			return fmt.Errorf("INFO field %q holds a separator: Escape its value", r.Info[i].Key)
		}
	}
	return nil
}

// separates says whether s holds a character that ends an INFO field. Values of annotations are long, and four passes
// of a vectorised search are faster than one over a set.
func separates(s string) bool {
	return strings.IndexByte(s, ';') >= 0 || strings.IndexByte(s, '\t') >= 0 || strings.IndexByte(s, '\n') >= 0 || strings.IndexByte(s, '\r') >= 0
}

// Flush writes what is buffered.
func (w *Writer) Flush() error {
	if err := w.w.Flush(); err != nil {
		return fmt.Errorf("writing VCF: %w", err)
	}
	return nil
}

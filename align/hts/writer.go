package hts

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"sync"

	"github.com/biogo/hts/bgzf"
	"github.com/biogo/hts/sam"
)

// Writer writes SAM or BAM. It is not safe for concurrent use.
type Writer struct {
	out    io.Writer
	flush  func() error
	finish func() error
	refs   []*sam.Reference
	append func([]byte, *sam.Record) ([]byte, error)
	buf    []byte
}

// NewWriter writes a header: its lines, and the references that records are aligned to.
// BAM is compressed by a number of threads.
func NewWriter(w io.Writer, format Format, lines Lines, refs []*sam.Reference, threads int) (*Writer, error) {
	return newWriter(w, format, lines, refs, threads, gzip.DefaultCompression)
}

func newWriter(w io.Writer, format Format, lines Lines, refs []*sam.Reference, threads, level int) (*Writer, error) {
	out := &Writer{refs: refs}
	var header []byte
	if format == SAM {
		buffered := bufio.NewWriterSize(w, 1<<16)
		out.out, out.flush, out.finish = buffered, buffered.Flush, buffered.Flush
		out.append = func(b []byte, rec *sam.Record) ([]byte, error) { return appendText(b, rec), nil }
		for _, line := range lines {
			header = append(append(header, line...), '\n')
		}
	} else {
		below := &sink{w: w}
		compressed, err := bgzf.NewWriterLevel(below, level, max(1, threads))
		if err != nil {
			return nil, err
		}
		out.out = &bgzip{compressed, below}
		out.finish = func() error { return cmp.Or(compressed.Close(), below.failed()) }
		out.flush = func() error { return cmp.Or(compressed.Flush(), compressed.Wait(), below.failed()) }
		out.append = appendBinary
		header = binaryHeader(lines, refs)
	}
	_, err := out.out.Write(header)
	if format != SAM && err == nil {
		// Records begin with a block, so that a header can be exchanged.
		err = out.flush()
	}
	return out, err
}

// sink takes all that a compressor writes, and keeps the first error of what lies below for those who write: after an error the compressor's
// Write and Close may wait for ever.
type sink struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

// Write implements io.Writer.
func (s *sink) Write(p []byte) (int, error) {
	if s.failed() != nil {
		return len(p), nil
	}
	if _, err := s.w.Write(p); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.err = err
	}
	return len(p), nil
}

func (s *sink) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// bgzip compresses, until what lies below fails.
type bgzip struct {
	*bgzf.Writer
	below *sink
}

// Write implements io.Writer.
func (b *bgzip) Write(p []byte) (int, error) {
	if err := b.below.failed(); err != nil {
		return 0, err
	}
	return b.Writer.Write(p)
}

// Write writes a record, which it neither changes nor keeps.
func (w *Writer) Write(rec *sam.Record) error {
	for _, ref := range []*sam.Reference{rec.Ref, rec.MateRef} {
		if id := ref.ID(); id >= len(w.refs) || id >= 0 && w.refs[id].Name() != ref.Name() {
			return fmt.Errorf("its reference %s is not in the header", ref.Name())
		}
	}
	var err error
	if w.buf, err = w.append(w.buf[:0], rec); err != nil {
		return err
	}
	_, err = w.out.Write(w.buf)
	return err
}

// Flush has all that was written so far lie below: of BAM, as whole blocks.
func (w *Writer) Flush() error { return w.flush() }

// Close completes the file, not what lies below.
func (w *Writer) Close() error { return w.finish() }

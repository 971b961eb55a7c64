package pipe

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/annotatepb"
	"github.com/porestream/porestream/vcf"
)

// group is how many lines a worker parses before it annotates them, so that their places in the reference can be read at once.
const group = 32

// line is a line that is parsed.
type line struct {
	text   []byte
	number int
	err    error // it is no record
}

// worker annotates batches.
type worker struct {
	pipe   *pipe
	rows   *annotate.Rows
	lines  []line       // of the group
	parsed []vcf.Row    // of the same lines
	text   bytes.Buffer // of JSON
	zip    *vcf.Bgzip   // nil: not compressed
}

func newWorker(p *pipe) (*worker, error) {
	rows, err := p.annotator.Rows(p.opts.Options)
	if err != nil {
		return nil, err
	}
	w := &worker{pipe: p, rows: rows}
	if !p.opts.Bgzip {
		return w, nil
	}
	w.zip, err = vcf.NewBgzip(bgzipLevel)
	return w, err
}

// run annotates batches until there are no more.
func (w *worker) run() {
	for b := range w.pipe.work {
		w.batch(b)
		b.done <- struct{}{}
	}
}

// batch annotates b.
func (w *worker) batch(b *batch) {
	w.rows.Stats = annotate.Stats{}
	number := b.first - 1
	rest, i := b.text, 0
	for len(rest) > 0 && b.err == nil {
		w.parsed, w.lines = w.parsed[:0], w.lines[:0]
		for len(rest) > 0 && len(w.lines) < group {
			var l line
			l.text, rest = vcf.CutLine(rest)
			if number++; len(b.lines) > 0 {
				number = b.lines[i]
				i++
			}
			if len(l.text) == 0 {
				continue // a blank line holds no data; some tools end files with one
			}
			l.number = number
			w.parsed = append(w.parsed, vcf.Row{})
			l.err = w.pipe.header.ParseRow(l.text, &w.parsed[len(w.parsed)-1])
			w.lines = append(w.lines, l)
		}
		w.group(b)
	}
	b.stats.Stats = w.rows.Stats
	if w.zip == nil {
		return
	}
	zip, err := w.zip.Append(b.zip[:0], b.out)
	if err != nil && b.err == nil {
		b.err = err
	}
	b.zip, b.out = b.out, zip
}

// group annotates the lines that were parsed.
func (w *worker) group(b *batch) {
	if err := w.rows.Ahead(w.parsed); err != nil {
		b.err = fmt.Errorf("from line %d on: %w", w.lines[0].number, err)
		return
	}
	for i := range w.lines {
		l := &w.lines[i]
		err := l.err
		if err == nil {
			err = w.line(b, &w.parsed[i])
		}
		if err == nil {
			continue
		}
		if !w.pipe.opts.SkipErrors {
			b.err = fmt.Errorf("line %d: %w", l.number, err)
			return
		}
		w.skip(b, l.text, l.number, err)
	}
}

// line annotates one line.
func (w *worker) line(b *batch, row *vcf.Row) error {
	switch w.pipe.opts.Format {
	case JSON:
		return w.json(b, row)
	case Protobuf:
		return w.protobuf(b, row)
	}
	var err error
	b.out, err = w.rows.Append(b.out, row)
	return err
}

// json appends a JSON line for each allele.
func (w *worker) json(b *batch, row *vcf.Row) error {
	w.text.Reset()
	enc := json.NewEncoder(&w.text)
	enc.SetEscapeHTML(false) // HGVS is full of ">"
	if err := w.rows.Each(row, func(l *annotate.Line) error { return enc.Encode(l) }); err != nil {
		return err
	}
	b.out = append(b.out, w.text.Bytes()...)
	return nil
}

// protobuf appends a message for each allele, its length before it.
func (w *worker) protobuf(b *batch, row *vcf.Row) error {
	begun := len(b.out)
	err := w.rows.Each(row, func(l *annotate.Line) error {
		m := annotatepb.FromLine(l)
		b.out = binary.AppendUvarint(b.out, uint64(proto.Size(m)))
		var err error
		b.out, err = proto.MarshalOptions{UseCachedSize: true, Deterministic: true}.MarshalAppend(b.out, m)
		return err
	})
	if err != nil {
		b.out = b.out[:begun]
	}
	return err
}

// maxLogged bounds the lines with errors that are logged one by one.
const maxLogged = 10

// skip passes a line through that has an error.
func (w *worker) skip(b *batch, line []byte, number int, err error) {
	switch n := w.pipe.skipped.Add(1); {
	case n <= maxLogged:
		w.pipe.opts.Logger.Warn("line is passed through without annotation", "line", number, "error", err)
	case n == maxLogged+1:
		w.pipe.opts.Logger.Warn("further lines with errors are only counted")
	}
	b.stats.Skipped++
	if w.pipe.opts.Format == VCF {
		b.out = append(append(b.out, line...), '\n')
	}
}

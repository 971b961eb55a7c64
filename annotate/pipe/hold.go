package pipe

import (
	"errors"
	"fmt"
	"math"

	"github.com/porestream/porestream/vcf"
)

// holder takes records through the transformers.
type holder struct {
	reader       *vcf.Reader
	transformers []Transformer
	skip         bool
	malformed    []malformed
}

// malformed is a line that is no record. It waits until the records before it have come through.
type malformed struct {
	number int
	text   []byte
}

// transform replaces the lines of b by those that come out of the transformers. At the end of the stream that is all
// that they hold back.
func (h *holder) transform(b *batch, end bool) {
	text, number := b.text, b.first-1
	b.text = b.made[:0]
	for len(text) > 0 && b.err == nil {
		var line []byte
		line, text = vcf.CutLine(text)
		number++
		if len(line) > 0 {
			h.line(b, line, number)
		}
	}
	if end && b.err == nil {
		h.flush(b)
	}
	b.made = b.text
}

// line pushes one line.
func (h *holder) line(b *batch, line []byte, number int) {
	rec, err := h.reader.Parse(line, number)
	var bad *vcf.LineError
	switch {
	case errors.As(err, &bad) && h.skip:
		h.malformed = append(h.malformed, malformed{number, append([]byte(nil), line...)})
	case err != nil:
		b.err = err
	default:
		h.push(b, rec, h.transformers)
	}
}

// push takes rec through the given transformers.
func (h *holder) push(b *batch, rec *vcf.Record, through []Transformer) {
	if len(through) == 0 {
		h.emitMalformed(b, rec.Line())
		b.text = rec.AppendLine(b.text)
		b.lines = append(b.lines, rec.Line())
		return
	}
	done, err := through[0].Push(rec)
	if err != nil {
		err = fmt.Errorf("line %d: %w", rec.Line(), err)
	}
	h.pass(b, done, err, through[1:])
}

// pass takes what a transformer let go through those after it.
func (h *holder) pass(b *batch, done []*vcf.Record, err error, through []Transformer) {
	for _, rec := range done {
		if b.err == nil {
			h.push(b, rec, through)
		}
	}
	if err != nil && b.err == nil {
		b.err = err
	}
}

// flush ends the stream.
func (h *holder) flush(b *batch) {
	for i, t := range h.transformers {
		done, err := t.Flush()
		h.pass(b, done, err, h.transformers[i+1:])
	}
	h.emitMalformed(b, math.MaxInt)
}

// emitMalformed lets the malformed lines go that came before line number.
func (h *holder) emitMalformed(b *batch, number int) {
	for len(h.malformed) > 0 && h.malformed[0].number < number {
		b.text = append(append(b.text, h.malformed[0].text...), '\n')
		b.lines = append(b.lines, h.malformed[0].number)
		h.malformed = h.malformed[1:]
	}
}

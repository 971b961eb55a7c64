package pipe

import (
	"fmt"
	"math"

	"github.com/porestream/porestream/vcf"
)

// holder takes lines through the transformers.
type holder struct {
	header       *vcf.Header
	transformers []Transformer
	skip         bool
	malformed    []malformed
	row          vcf.Row
	passed       []vcf.Lines // by transformer: the lines it released, while they are examined
}

// malformed is a line that is no record. It waits until the records before it have come through.
type malformed struct {
	number int
	text   []byte
}

// newHolder returns a holder for lines of a file with the given header.
func newHolder(h *vcf.Header, transformers []Transformer, skip bool) *holder {
	return &holder{header: h, transformers: transformers, skip: skip, passed: make([]vcf.Lines, len(transformers))}
}

// transform replaces the lines of b by those that come out of the transformers. At the end of the stream that is all
// that they hold back.
func (h *holder) transform(b *batch, end bool) {
	text, number := b.text, b.first-1
	b.made.Reset()
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
	b.text, b.lines = b.made.Text, b.made.Numbers
}

// line pushes one line.
func (h *holder) line(b *batch, line []byte, number int) {
	err := h.header.ParseRow(line, &h.row)
	switch {
	case err != nil && h.skip:
		h.malformed = append(h.malformed, malformed{number, append([]byte(nil), line...)})
	case err != nil:
		b.err = &vcf.LineError{Line: number, Err: err}
	default:
		h.push(b, number, 0)
	}
}

// push takes h.row through the transformers from the given one on.
func (h *holder) push(b *batch, number, through int) {
	out := h.outOf(b, through)
	if err := h.transformers[through].Push(out, &h.row, number); err != nil && b.err == nil {
		b.err = fmt.Errorf("line %d: %w", number, err)
	}
	h.pass(b, out, through)
}

// outOf is where a transformer puts its lines: in the batch itself, if nothing is to be done to them.
func (h *holder) outOf(b *batch, through int) *vcf.Lines {
	if through == len(h.transformers)-1 && len(h.malformed) == 0 {
		return &b.made
	}
	h.passed[through].Reset()
	return &h.passed[through]
}

// pass takes what a transformer let go through those after it.
func (h *holder) pass(b *batch, out *vcf.Lines, through int) {
	if out == &b.made {
		return
	}
	text := out.Text
	for _, number := range out.Numbers {
		var line []byte
		line, text = vcf.CutLine(text)
		if through+1 == len(h.transformers) {
			h.emitMalformed(b, number)
			b.made.Append(line, number)
			continue
		}
		if err := h.header.ParseRow(line, &h.row); err != nil {
			b.err = fmt.Errorf("line %d: %w", number, err)
		}
		if b.err != nil {
			return
		}
		h.push(b, number, through+1)
	}
}

// flush ends the stream.
func (h *holder) flush(b *batch) {
	for i, t := range h.transformers {
		out := h.outOf(b, i)
		if err := t.Flush(out); err != nil && b.err == nil {
			b.err = err
		}
		h.pass(b, out, i)
	}
	h.emitMalformed(b, math.MaxInt)
}

// emitMalformed lets the malformed lines go that came before line number.
func (h *holder) emitMalformed(b *batch, number int) {
	for len(h.malformed) > 0 && h.malformed[0].number < number {
		b.made.Append(h.malformed[0].text, h.malformed[0].number)
		h.malformed = h.malformed[1:]
	}
}

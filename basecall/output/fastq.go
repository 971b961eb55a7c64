package output

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
)

// fastqWriter writes FASTQ. After the read's name, a tab and tags in the SAM
// manner follow, which minimap2 -y and samtools import take over.
type fastqWriter struct {
	w      *bufio.Writer
	header Header
	build  string // of the model
}

func newFASTQWriter(w io.Writer, header Header) (*fastqWriter, error) {
	build, err := header.Model.Manifest.Build()
	if err != nil {
		return nil, err
	}
	return &fastqWriter{bufio.NewWriterSize(w, 1<<16), header, build}, nil
}

// Write implements Writer. A read without bases has no FASTQ record, because
// readers disagree about empty ones.
func (f *fastqWriter) Write(r Record) error {
	if len(r.Called.Sequence) == 0 {
		return nil
	}
	if _, err := f.w.Write(appendFASTQ(f.w.AvailableBuffer(), r, f.header.Model.Manifest.Name, f.build)); err != nil {
		return fmt.Errorf("writing read %s: %w", r.Read.ID, err)
	}
	return nil
}

// AppendFASTQ appends the FASTQ record of a read that the named model has called, as a
// [Writer] writes it but for the model's version; the read must have bases.
func AppendFASTQ(b []byte, r Record, model string) []byte { return appendFASTQ(b, r, model, "") }

// appendFASTQ also says of what build the model is, if that is given.
func appendFASTQ(b []byte, r Record, model, build string) []byte {
	b = fmt.Appendf(b, "@%s\tRG:Z:%s\tqs:f:%.3f\tch:i:%d\trn:i:%d", clean(r.Read.ID),
		readGroup(r.Read.Run, model, r.Barcode), r.Called.MeanQuality, r.Read.Channel, r.Read.Number)
	if st := startTag(r.Read); st != "" {
		b = fmt.Appendf(b, "\tst:Z:%s", st)
	}
	if build != "" {
		b = fmt.Appendf(b, "\tDS:Z:%s%s", buildKey, clean(build))
	}
	if r.Parent != "" {
		b = fmt.Appendf(b, "\tpi:Z:%s\tsp:i:%d", clean(r.Parent), r.ParentStart)
	}
	if r.Barcode != nil {
		b = fmt.Appendf(b, "\tBC:Z:%s", clean(r.Barcode.Name))
	}
	if m := r.Modified; m != nil {
		b = append(append(b, "\tMM:Z:"...), m.MM()...)
		b = append(b, "\tML:B:C"...)
		for _, p := range m.ML() {
			b = strconv.AppendInt(append(b, ','), int64(p), 10)
		}
		b = fmt.Appendf(b, "\tMN:i:%d", m.Length)
	}
	b = append(append(append(b, '\n'), r.Called.Sequence...), "\n+\n"...)
	for _, q := range r.Called.Qualities {
		b = append(b, q+33)
	}
	return append(b, '\n')
}

// Close implements Writer.
func (f *fastqWriter) Close() error {
	if err := f.w.Flush(); err != nil {
		return fmt.Errorf("writing FASTQ: %w", err)
	}
	return nil
}

package output

import (
	"bufio"
	"fmt"
	"io"
)

// fastqWriter writes FASTQ. After the read's name, a tab and tags in the SAM
// manner follow, which minimap2 -y and samtools import take over.
type fastqWriter struct {
	w      *bufio.Writer
	header Header
}

func newFASTQWriter(w io.Writer, header Header) *fastqWriter {
	return &fastqWriter{bufio.NewWriterSize(w, 1<<16), header}
}

// Write implements Writer. A read without bases has no FASTQ record, because
// readers disagree about empty ones.
func (f *fastqWriter) Write(r Record) error {
	if len(r.Called.Sequence) == 0 {
		return nil
	}
	fmt.Fprintf(f.w, "@%s\tRG:Z:%s\tqs:f:%.3f\tch:i:%d\trn:i:%d", clean(r.Read.ID),
		readGroup(r.Read.Run, f.header.Model, r.Barcode), r.Called.MeanQuality, r.Read.Channel, r.Read.Number)
	if st := startTag(r.Read); st != "" {
		fmt.Fprintf(f.w, "\tst:Z:%s", st)
	}
	if r.Parent != "" {
		fmt.Fprintf(f.w, "\tpi:Z:%s\tsp:i:%d", clean(r.Parent), r.ParentStart)
	}
	if r.Barcode != nil {
		fmt.Fprintf(f.w, "\tBC:Z:%s", clean(r.Barcode.Name))
	}
	f.w.WriteByte('\n')
	f.w.Write(r.Called.Sequence)
	f.w.WriteString("\n+\n")
	for _, q := range r.Called.Qualities {
		f.w.WriteByte(q + 33)
	}
	// A bufio.Writer keeps its first error.
	if err := f.w.WriteByte('\n'); err != nil {
		return fmt.Errorf("writing read %s: %w", r.Read.ID, err)
	}
	return nil
}

// Close implements Writer.
func (f *fastqWriter) Close() error {
	if err := f.w.Flush(); err != nil {
		return fmt.Errorf("writing FASTQ: %w", err)
	}
	return nil
}

package pipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/vcf"
)

// Transformer changes the lines of a stream in their order. It may hold lines back, and lets them go in the order in
// which they came; it may drop lines. What it does not change of a line stays byte for byte.
type Transformer interface {
	// Declare adds what the transformer writes to the header. It is called once, before the first line.
	Declare(h *vcf.Header) error
	// Push takes the next line and appends those that are done to out. The row is its own until it returns.
	Push(out *vcf.Lines, row *vcf.Row, number int) error
	// Flush appends the lines still held back at the end of the stream.
	Flush(out *vcf.Lines) error
}

// Format is a form of output.
type Format string

// The formats.
const (
	VCF  Format = "vcf"  // the input with more in INFO
	JSON Format = "json" // an annotate.Line for each alternate allele
	// Protobuf is an annotatepb.AnnotatedAllele for each alternate allele, with its length before it as a varint.
	Protobuf Format = "protobuf"
)

// Options say how to annotate a stream. The zero value writes VCF without new INFO fields.
type Options struct {
	annotate.Options
	Format       Format // VCF when empty
	Transformers []Transformer
	Threads      int  // workers; 0: as many as there are processors
	Bgzip        bool // compress the output as BGZF
	// SkipErrors passes lines through that are malformed or don't fit the reference, logs and counts them, instead
	// of ending with an error.
	SkipErrors bool
	Logger     *slog.Logger // nil: none
}

// Stats counts what a stream had.
type Stats struct {
	annotate.Stats
	Skipped int // lines with errors, passed through as they are
}

// bgzipLevel is bgzip's default.
const bgzipLevel = 6

// batch is a run of lines on its way.
type batch struct {
	text  []byte    // whole lines
	buf   []byte    // memory of text as it is read
	made  vcf.Lines // memory of text and lines as they come out of transformers
	zip   []byte    // memory of out, compressed
	first int       // number of the first line
	lines []int     // numbers of all lines; nil: they follow first
	out   []byte
	stats Stats
	err   error // what ends the stream after out
	done  chan struct{}
}

// Annotate copies a VCF stream (text, gzip or bgzip) from in to out with what its alternate alleles do. The order
// stays, and so does everything that is not annotated. An error about a line carries its number; the lines before it
// are written.
func Annotate(ctx context.Context, in io.Reader, out io.Writer, a *annotate.Annotator, opts Options) (Stats, error) {
	if opts.Threads <= 0 {
		opts.Threads = runtime.GOMAXPROCS(0)
	}
	if opts.Format == "" {
		opts.Format = VCF
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	r, err := vcf.NewReader(in)
	if err != nil {
		return Stats{}, fmt.Errorf("reading VCF: %w", err)
	}
	header := r.Header().Clone()
	for _, t := range opts.Transformers {
		if err := t.Declare(header); err != nil {
			return Stats{}, err
		}
	}
	rows, err := a.Rows(opts.Options)
	if err != nil {
		return Stats{}, err
	}
	rows.Declare(header)

	group, ctx := errgroup.WithContext(ctx)
	p := &pipe{reader: r, header: header, annotator: a, opts: opts, out: out}
	n := 4 * opts.Threads
	p.free, p.work, p.ordered = make(chan *batch, n), make(chan *batch, n), make(chan *batch, n)
	for range n {
		p.free <- &batch{done: make(chan struct{}, 1)}
	}
	workers := make([]*worker, opts.Threads)
	for i := range workers {
		if workers[i], err = newWorker(p); err != nil {
			return Stats{}, err
		}
	}
	group.Go(func() error { return p.read(ctx) })
	for _, w := range workers {
		group.Go(func() error { w.run(); return nil })
	}
	group.Go(func() error { return p.write(ctx) })
	err = group.Wait()
	return p.stats, err
}

// pipe is one run of Annotate.
type pipe struct {
	reader    *vcf.Reader
	header    *vcf.Header
	annotator *annotate.Annotator
	opts      Options
	out       io.Writer

	free    chan *batch // not in use
	work    chan *batch // to be annotated
	ordered chan *batch // all that are under way, in the order of the stream
	stats   Stats
	skipped atomic.Int64 // lines with errors, while they are under way
}

// take returns a batch that is not in use.
func (p *pipe) take(ctx context.Context) (*batch, error) {
	if ctx.Err() != nil { // there may be a batch all the same
		return nil, interrupted(ctx)
	}
	select {
	case b := <-p.free:
		b.lines, b.err, b.stats, b.text, b.out = nil, nil, Stats{}, nil, b.out[:0]
		return b, nil
	case <-ctx.Done():
		return nil, interrupted(ctx)
	}
}

func interrupted(ctx context.Context) error { return fmt.Errorf("annotating VCF: %w", ctx.Err()) }

// send hands a batch to the workers and the writer. Both queues have capacity for all batches.
func (p *pipe) send(b *batch) {
	p.ordered <- b
	p.work <- b
}

// read cuts the stream into batches.
func (p *pipe) read(ctx context.Context) error {
	defer close(p.work)
	defer close(p.ordered)
	var held *holder
	if len(p.opts.Transformers) > 0 {
		held = newHolder(p.reader.Header(), p.opts.Transformers, p.opts.SkipErrors)
	}
	for {
		b, err := p.take(ctx)
		if err != nil {
			return err
		}
		block, err := p.reader.NextBlock(b.buf)
		if err == nil {
			b.buf, b.text, b.first = block.Text, block.Text, block.Line
		}
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			b.err = fmt.Errorf("reading VCF: %w", err)
		}
		if held != nil {
			held.transform(b, end)
		}
		last := end || b.err != nil
		p.send(b)
		if last {
			return nil
		}
	}
}

// write puts the batches out in order.
func (p *pipe) write(ctx context.Context) error {
	if err := p.writeHeader(); err != nil {
		return err
	}
	for b := range p.ordered {
		select {
		case <-b.done:
		case <-ctx.Done():
			return interrupted(ctx)
		}
		if _, err := p.out.Write(b.out); err != nil {
			return fmt.Errorf("writing annotations: %w", err)
		}
		p.stats.Add(b.stats)
		if b.err != nil {
			return b.err
		}
		p.free <- b
	}
	if !p.opts.Bgzip {
		return nil
	}
	if _, err := p.out.Write(vcf.AppendBgzipEnd(nil)); err != nil {
		return fmt.Errorf("writing annotations: %w", err)
	}
	return nil
}

// writeHeader writes what comes before the first line.
func (p *pipe) writeHeader() error {
	if p.opts.Format != VCF {
		return nil
	}
	var text bytes.Buffer
	w, err := vcf.NewWriter(&text, p.header)
	if err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	head := text.Bytes()
	if p.opts.Bgzip {
		zip, err := vcf.NewBgzip(bgzipLevel)
		if err != nil {
			return err
		}
		if head, err = zip.Append(nil, head); err != nil {
			return err
		}
	}
	if _, err := p.out.Write(head); err != nil {
		return fmt.Errorf("writing VCF header: %w", err)
	}
	return nil
}

// Add adds the counts of s.
func (t *Stats) Add(s Stats) {
	t.Stats.Add(s.Stats)
	t.Skipped += s.Skipped
}

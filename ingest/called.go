package ingest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/porestream/porestream/basecall/input"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Naming says whose called reads are, where the reads themselves don't.
type Naming struct {
	// Run is the run of reads that name none.
	Run string
	// Sample, if set, replaces the sample name of every run.
	Sample string
	// Model is the basecalling model of reads that name none.
	Model string
	// Demultiplexed states that barcodes were searched for on all reads, so a read that
	// names none has none. A sheet states so, too.
	Demultiplexed bool
	// Sheet says which barcodes there are and what their samples are called; nil: as many
	// as ONT's kits have, called by the run's sample and their number.
	Sheet *demux.Sheet
}

// kitBarcodes is the most barcodes that a kit of ONT's has.
const kitBarcodes = 96

// RunOf is the run of a read; empty if neither names one.
func (n *Naming) RunOf(r *input.Read) string { return cmp.Or(r.Run, n.Run) }

// Describe is the stream's description of a read's run. If a read of the run states a
// barcode, or that it has none, the run has a sample for each barcode.
func (n *Naming) Describe(r *input.Read) (*streampb.Run, error) {
	run := &streampb.Run{Id: n.RunOf(r), Sample: cmp.Or(n.Sample, r.Sample), Called: true, Experiment: r.Experiment, FlowCell: r.FlowCell, Position: r.Position}
	switch {
	case run.GetId() == "":
		return nil, fmt.Errorf("read %s names no run: give --run and --sample", r.ID)
	case run.GetSample() == "" && r.Run == "":
		return nil, fmt.Errorf("read %s names no sample: give --sample", r.ID)
	}
	run.Sample = cmp.Or(run.GetSample(), run.GetId())
	if !r.RunStart.IsZero() {
		run.StartTimeMs = r.RunStart.UnixMilli()
	}
	if r.Barcode == "" {
		return run, nil
	}
	var names []string
	if n.Sheet != nil {
		names = n.Sheet.Barcodes()
		run.SamplesListed = len(names) > 0
	}
	if len(names) == 0 {
		for i := range kitBarcodes {
			names = append(names, fmt.Sprintf("barcode%02d", i+1))
		}
	}
	for _, name := range names {
		if sample := n.sample(run, name); sample != "" {
			run.Samples = append(run.Samples, sample)
		}
	}
	slices.Sort(run.Samples)
	run.Samples = slices.Compact(run.GetSamples())
	return run, nil
}

// Listed is an error if there is a sheet without a row of a run: its reads would be nobody's.
func (n *Naming) Listed(run *streampb.Run) error {
	if n.Sheet == nil {
		return nil
	}
	_, err := n.Sheet.Check([]demux.RunKey{{ID: run.GetId(), FlowCell: run.GetFlowCell(), Position: run.GetPosition()}})
	if err != nil {
		return fmt.Errorf("sample sheet: %w", err)
	}
	return nil
}

// sample is that of a barcode of a run, which may be called by what the sheet calls it;
// empty if it has none.
func (n *Naming) sample(run *streampb.Run, barcode string) string {
	if n.Sheet != nil && len(n.Sheet.Barcodes()) > 0 {
		for _, name := range n.Sheet.Barcodes() {
			if n.Sheet.Alias(run.GetFlowCell(), run.GetPosition(), name) == barcode {
				return barcode
			}
		}
		if !n.Sheet.Lists(run.GetFlowCell(), run.GetPosition(), barcode) {
			return ""
		}
		if alias := n.Sheet.Alias(run.GetFlowCell(), run.GetPosition(), barcode); alias != "" {
			return alias
		}
	}
	return run.GetSample() + "_" + barcode
}

// Called is a called read as it is sent.
type Called struct {
	read  *streampb.CalledRead
	value []byte
	left  []string // what of it didn't fit a record
}

// Pack is a read as it is sent, of a run that it fits.
func (n *Naming) Pack(run *streampb.Run, r *input.Read) (*Called, error) {
	c := &streampb.CalledRead{
		Run: run.GetId(), ReadId: r.ID, Barcode: r.Barcode, Model: cmp.Or(r.Model, n.Model), MeanQuality: float32(r.MeanQuality),
		Channel: r.Channel, ReadNumber: r.Number, Stride: uint32(r.Stride), SampleCount: r.Samples, TrimmedSamples: r.Trimmed, Duration: float32(r.Duration),
		Parent: r.Parent, ParentStart: r.ParentStart, Failed: r.Failed,
		Modified: r.Modified, ModifiedProbabilities: r.ModifiedProbabilities, ModifiedLength: uint32(r.ModifiedLength),
	}
	if !r.Start.IsZero() {
		c.StartTimeMs = r.Start.UnixMilli()
	}
	barcoded := len(run.GetSamples()) > 0 || run.GetSamplesListed()
	switch {
	case barcoded && r.Barcode != "" && r.Barcode != input.Unclassified:
		if c.Sample = n.sample(run, r.Barcode); c.Sample != "" && !slices.Contains(run.GetSamples(), c.Sample) {
			return nil, fmt.Errorf("read %s has barcode %q, which is none of barcode01 to barcode%d: give --sample-sheet", r.ID, r.Barcode, kitBarcodes)
		}
	case !barcoded && r.Barcode != "":
		return nil, fmt.Errorf("read %s has barcode %q, and run %s was begun with reads that name no barcode: give --demultiplexed, which makes the others unclassified, and --restart", r.ID, r.Barcode, run.GetId())
	}
	stream.PackCalled(c, r.Sequence, r.Qualities, r.Dwells)
	value, left, err := stream.FitCalled(c)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.ID, err)
	}
	return &Called{c, value, left}, nil
}

// PutCalled sends a called read, and waits while there is no space for it.
func (f *Feed) PutCalled(ctx context.Context, c *Called) error {
	at := f.at
	at.Chunk(c.read.GetReadId(), 0)
	err := f.send(ctx, at, 0, []stream.Out{c.out(f.cfg.Topics)})
	if err == nil {
		c.sent(f.cfg)
	}
	return err
}

// ID is the read's.
func (c *Called) ID() string { return c.read.GetReadId() }

// Size is that of the read's record, in bytes.
func (c *Called) Size() int { return len(c.value) }

// out is the read as a record.
func (c *Called) out(topics stream.Topics) stream.Out {
	return stream.Out{Topic: topics.Called, Partition: stream.AnyPartition, Key: stream.CalledKey(c.read.GetRun(), c.read.GetReadId()), Value: c.value}
}

// sent counts the read, and logs what didn't fit its record.
func (c *Called) sent(cfg *Config) {
	cfg.Metrics.called(c.read)
	if len(c.left) > 0 {
		cfg.Metrics.strip()
		cfg.Logger.Warn("a called read doesn't fit a record", "read", c.ID(), "bases", c.read.GetBases(), "without", strings.Join(c.left, ", "))
	}
}

// Direct writes runs of called reads without a cursor, for a log that begins and ends with
// them: started again, it begins again.
type Direct struct {
	to  Sender
	cfg *Config
}

// NewDirect returns a Direct; cfg.Partitions is the number of partitions of the topic of
// called reads.
func NewDirect(to Sender, cfg Config) *Direct {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Direct{to: to, cfg: &cfg}
}

// Begin announces a run.
func (d *Direct) Begin(ctx context.Context, run *streampb.Run) error {
	outs, err := announcement(d.cfg.Topics, run, d.cfg.Partitions)
	if err != nil {
		return err
	}
	d.cfg.Metrics.run()
	return d.send(ctx, outs)
}

// Put sends a read of a run that has begun.
func (d *Direct) Put(ctx context.Context, c *Called) error {
	err := d.send(ctx, []stream.Out{c.out(d.cfg.Topics)})
	if err == nil {
		c.sent(d.cfg)
	}
	return err
}

// End ends a run, and returns when all of it is in Kafka.
func (d *Direct) End(ctx context.Context, run *streampb.Run) error {
	outs, err := ending(d.cfg.Topics, run, d.cfg.Partitions)
	if err != nil {
		return err
	}
	d.cfg.Metrics.endRun(run.GetId())
	if err := d.send(ctx, outs); err != nil {
		return err
	}
	return d.to.Flush(ctx)
}

func (d *Direct) send(ctx context.Context, outs []stream.Out) error {
	now := time.Now()
	for i := range outs {
		outs[i].Time = now
	}
	if err := d.to.Send(ctx, outs, nil); err != nil {
		return fmt.Errorf("sending called reads: %w", err)
	}
	return nil
}

package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/carryover"
	variantstage "github.com/porestream/porestream/variant/stage"
	"github.com/porestream/porestream/vrs"
)

// CarryOver assesses, while runs go on and once they have ended, what negative controls let carry-over explain of the calls of
// the runs' other samples, and sends it to the annotate stage, which makes a revision of each event that it changes.
//
// Problem: an allele is assessed by the reads of all samples at it, called or not, and these are worked on by many
// handlers, on as many partitions; each knows of its own.
//
// Strategy: one reader of all regions of the process counts at all alleles that stand, in those that have changed. While a run goes
// on it sends what becomes or ceases to be explained, and a share that has moved by a tenth; when the run has ended everything that isn't as it was
// sent, and then that this was all.
//
// Consequences: what is sent last is a function of the runs' reads. A process that doesn't hold all partitions can't count, and sends nothing. One that begins
// to, or begins again, doesn't know what others have sent: it sends everything.
type CarryOver struct {
	Client  *kafka.Client
	Topics  stream.Topics
	Regions *variantstage.Regions
	// Controls are those of a run, by sample; none: it has none.
	Controls func(*streampb.Run) (carryover.Controls, error)
	Interval time.Duration // between two assessments; 0: two seconds. No more than a twentieth of the time is spent on them
	Logger   *slog.Logger

	mu     sync.Mutex
	silent map[string][]string // by run: controls of which no read lies at any allele

	sent     map[alleleAt]*streampb.CarryOver
	known    bool            // sent is all that annotate has
	complete map[string]bool // runs of which all has been sent
	unknown  map[string]bool // runs of which it was said that their controls aren't known
	partial  bool            // it was said that this process doesn't hold everything
}

// alleleAt is an allele of a sample.
type alleleAt struct {
	sample, contig, vrsID string
	pos                   int64
	ref, alt              string
}

func (a alleleAt) compare(o alleleAt) int {
	return cmp.Or(cmp.Compare(a.sample, o.sample), cmp.Compare(a.contig, o.contig), cmp.Compare(a.pos, o.pos), cmp.Compare(a.ref, o.ref), cmp.Compare(a.alt, o.alt))
}

const (
	carryOverInterval = 2 * time.Second
	// carryOverFailures is how often in a row sending may fail.
	carryOverFailures = 5
)

// OfRun are the controls of a run by its samples, which the flags or the sample sheet of a file name; none: they name none of its.
func (f *Controls) OfRun(sheet *demux.Sheet, path string, run *streampb.Run) (carryover.Controls, error) {
	named, err := f.Of(sheet, path, &demux.RunKey{ID: run.GetId(), FlowCell: run.GetFlowCell(), Position: run.GetPosition()})
	if err != nil || len(named) == 0 {
		return nil, err
	}
	return named.Among(stream.SamplesOf(run), "run "+run.GetId())
}

// Run assesses until ctx ends.
func (c *CarryOver) Run(ctx context.Context) (err error) {
	partitions, err := c.Client.Partitions(ctx, c.Topics.Calls)
	if err != nil {
		return err
	}
	producer, err := kafka.NewProducer(ctx, c.Client, kafka.ProducerConfig{})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, producer.Close(closing))
	}()
	c.unknown = make(map[string]bool)
	c.forget()
	tally, failures := c.Regions.NewTally(), 0
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wait.C:
		}
		began := time.Now()
		outs, ended, err := c.next(tally, int32(partitions))
		if err != nil {
			return fmt.Errorf("assessing carry-over: %w", err)
		}
		took := time.Since(began)
		switch err := send(ctx, producer, outs); {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			failures = 0
			for _, run := range ended {
				c.complete[run] = true
			}
		default: // what of it is there isn't known
			if failures++; failures >= carryOverFailures {
				return fmt.Errorf("sending what carry-over explains: giving up after %d failures in a row: %w", failures, err)
			}
			c.Logger.Warn("what carry-over explains couldn't be sent, and is sent again", "failures", failures, "err", err)
			c.forget()
		}
		wait.Reset(max(cmp.Or(c.Interval, carryOverInterval), 20*took))
	}
}

// send sends records, and waits until they are there.
func send(ctx context.Context, producer *kafka.Producer, outs []stream.Out) error {
	if len(outs) == 0 {
		return nil
	}
	if err := producer.Send(ctx, outs, nil); err != nil {
		return err
	}
	return producer.Flush(ctx)
}

// forget has everything sent again.
func (c *CarryOver) forget() {
	c.sent, c.complete, c.known = make(map[alleleAt]*streampb.CarryOver), make(map[string]bool), false
}

// next returns what is to be sent, and the runs of which that is all.
func (c *CarryOver) next(tally *variantstage.Tally, partitions int32) (outs []stream.Out, ended []string, err error) {
	held := c.Regions.Held()
	if !held.Live {
		return nil, nil, nil // it will be
	}
	type controlled struct {
		variantstage.RunState
		controls carryover.Controls
	}
	var runs []controlled
	for _, s := range held.Runs {
		controls, err := c.Controls(s.Run)
		if err != nil {
			if !c.unknown[s.Run.GetId()] {
				c.unknown[s.Run.GetId()] = true
				c.Logger.Info("carry-over of a run isn't assessed", "err", err)
			}
			continue
		}
		if len(controls) > 0 {
			runs = append(runs, controlled{s, controls})
		}
	}
	if !held.Whole {
		c.forget()
		if len(runs) > 0 && !c.partial {
			c.partial = true
			c.Logger.Warn("carry-over isn't assessed while other processors have partitions of the reads: one process must hold all samples; pore carryover marks files")
		}
		return nil, nil, nil
	}
	c.partial = false
	worst := make(map[alleleAt]*streampb.CarryOver)
	if len(runs) > 0 {
		calls := tally.Calls()
		for _, r := range runs {
			c.assess(tally, r.Run, r.controls, calls, worst)
		}
	}
	if !c.Regions.Still(held) {
		return nil, nil, nil // not all of it was counted
	}
	final := make(map[string]bool) // samples all of whose runs have ended, those without controls as well: their reads count
	for _, r := range held.Runs {
		for _, sample := range stream.SamplesOf(r.Run) {
			before, seen := final[sample]
			final[sample] = r.Ended && (before || !seen)
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(worst), alleleAt.compare) {
		next := worst[at]
		if !news(c.sent[at], next, final[at.sample] || !c.known) {
			continue
		}
		value, err := stream.EncodeCalls(&streampb.CallRecord{Body: &streampb.CallRecord_CarryOver{CarryOver: next}})
		if err != nil {
			return nil, nil, err
		}
		c.sent[at] = next
		outs = append(outs, stream.Out{Topic: c.Topics.Calls, Partition: stream.ContigPartition(at.sample, at.contig, partitions), Key: stream.AlleleKey(at.sample, at.vrsID), Value: value})
	}
	c.known = c.known || len(runs) > 0
	for _, r := range held.Runs { // without controls as well: what is assessed by another run's may follow from its reads
		if !r.Ended || c.complete[r.Run.GetId()] {
			continue
		}
		value, err := stream.EncodeCalls(&streampb.CallRecord{Body: &streampb.CallRecord_CarryOverEnd{CarryOverEnd: &streampb.CarryOverEnd{Run: r.Run.GetId()}}})
		if err != nil {
			return nil, nil, err
		}
		for p := range partitions {
			outs = append(outs, stream.Out{Topic: c.Topics.Calls, Partition: p, Key: stream.CarryOverEndKey(r.Run.GetId()), Value: value})
		}
		ended = append(ended, r.Run.GetId())
	}
	return outs, ended, nil
}

// assess takes in what carry-over explains in a run. An allele of a sample of several runs is as doubtful as in the run in which it is the most.
func (c *CarryOver) assess(tally *variantstage.Tally, run *streampb.Run, controls carryover.Controls, calls map[string][]*streampb.Call, worst map[alleleAt]*streampb.CarryOver) {
	table := carryover.NewTable(controls, stream.SamplesOf(run))
	for sample, list := range calls {
		if !table.Assesses(sample) {
			continue
		}
		for _, call := range list {
			table.Add(call.GetContig(), editOfCall(call))
		}
	}
	for sample, contigs := range tally.Support(stream.SamplesOf(run), table.Alleles()) {
		for contig, counts := range contigs {
			table.Count(sample, contig, 0, readsOf(counts))
		}
	}
	for sample, list := range calls {
		if !table.Assesses(sample) {
			continue
		}
		for _, call := range list {
			j := table.Assess(sample, call.GetContig(), editOfCall(call))
			at := alleleAt{sample, call.GetContig(), call.GetVrsId(), call.GetPos(), call.GetRef(), call.GetAlt()}
			next := &streampb.CarryOver{
				Run: run.GetId(), Sample: sample, Contig: at.contig, Pos: at.pos, Ref: at.ref, Alt: at.alt,
				Explained: j.Explained, Bounded: j.Bounded(), Basis: string(j.Basis), Control: j.Control, ControlAlt: uint32(j.Alt), ControlDepth: uint32(j.Depth),
			}
			if j.Bounded() {
				next.Share = j.Share
			}
			if old := worst[at]; old == nil || next.GetExplained() && !old.GetExplained() || next.GetExplained() == old.GetExplained() && next.GetShare() > old.GetShare() {
				worst[at] = next
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent == nil {
		c.silent = make(map[string][]string)
	}
	c.silent[run.GetId()] = table.Silent()
}

// Silent lists the controls of runs of which no read lies at any allele, ascending.
func (c *CarryOver) Silent() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, names := range c.silent {
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// news reports whether an assessment is worth a revision; all: any difference is.
func news(old, next *streampb.CarryOver, all bool) bool {
	switch {
	case all:
		return !proto.Equal(old, next)
	case old == nil:
		return next.GetExplained()
	}
	return old.GetExplained() != next.GetExplained() || math.Abs(old.GetShare()-next.GetShare()) >= 0.1
}

func editOfCall(c *streampb.Call) vrs.Edit {
	return vrs.Edit{Start: int(c.GetPos()) - 1, Ref: c.GetRef(), Alt: c.GetAlt()}
}

func readsOf(counts []variant.Support) []carryover.Reads {
	reads := make([]carryover.Reads, len(counts))
	for i, c := range counts {
		reads[i] = carryover.Reads{Alt: c.Shows, Depth: c.Depth, Left: c.Left}
	}
	return reads
}

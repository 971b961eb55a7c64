package stage

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/porestream/porestream/align"
	alignstage "github.com/porestream/porestream/align/stage"
	"github.com/porestream/porestream/stream"
)

// movingAligner places reads of fewer bases than long on chr2, longer ones on chr1.
type movingAligner struct {
	fakeAligner
	long int
}

func (m movingAligner) Map(name string, seq []byte) ([]align.Alignment, error) {
	found, err := m.fakeAligner.Map(name, seq)
	if len(seq) < m.long {
		for i := range found {
			found[i].Contig = "chr2"
		}
	}
	return found, err
}

// handled lists what comes of records of which each is dealt with before the next.
func handled(t *testing.T, cfg Config, recs []stream.Record) (*fakeEmitter, []string) {
	t.Helper()
	h, emit := newHandler(t, cfg), new(fakeEmitter)
	for _, rec := range recs {
		if err := h.Handle(t.Context(), rec, emit); err != nil {
			t.Fatalf("offset %d: %v", rec.Offset, err)
		}
		if err := h.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var list []string
	for _, o := range emit.outs {
		if o.Topic != "reads" {
			continue
		}
		m, err := stream.DecodeReads(o.Value)
		if err != nil {
			t.Fatal(err)
		}
		s, w := cmp.Or(m.GetSegment(), m.GetPartial()), m.GetWithdrawal()
		switch {
		case s != nil:
			list = append(list, fmt.Sprintf("%s: %s/%d on %s, %d bases, partial %d", o.Key, s.GetReadId(), s.GetPart(), s.GetContig(), s.GetReadLength(), s.GetPartial()))
		case w != nil:
			list = append(list, fmt.Sprintf("%s: %s of %s withdrawn from %s/%s/%d", o.Key, w.GetReadId(), w.GetRun(), w.GetSample(), w.GetContig(), w.GetRegion()))
		}
	}
	return emit, list
}

// TestPartialReadsArePublished: a read that goes on is published when it is long enough and
// whenever it is twice as long, and taken back from where it turns out not to lie.
func TestPartialReadsArePublished(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1").read(1, "a", 100, 500).read(2, "b", 5000, 5030).end("run-1")
	cfg := testConfig()
	cfg.Partial = 150 * time.Millisecond // 600 samples: 1.5 chunks
	cfg.Aligners = []alignstage.Aligner{movingAligner{fakeAligner{reference}, 200}}
	cfg.Metrics = NewMetrics(prometheus.NewRegistry(), prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"}))
	emit, got := handled(t, cfg, p.recs)
	want := []string{
		"lambda/chr2/0: a/0 on chr2, 80 bases, partial 1",
		"lambda/chr2/0: a/0 on chr2, 120 bases, partial 2",
		"lambda/chr2/0: a of run-1 withdrawn from lambda/chr2/0",
		"lambda/chr1/0: a/0 on chr1, 240 bases, partial 3",
		"lambda/chr1/0: a/0 on chr1, 400 bases, partial 0",
		"lambda/chr1/0: b/0 on chr1, 30 bases, partial 0",
	}
	// b is short for the aligner, but it lies where its end says.
	want[5] = "lambda/chr2/0: b/0 on chr2, 30 bases, partial 0"
	if !slices.Equal(got, want) {
		t.Errorf("emitted\n%q, want\n%q", got, want)
	}
	if got, want := emit.offsets(), allOffsets(p.recs); !slices.Equal(got, want) {
		t.Errorf("resolved %v, want each of %v once", got, want)
	}
	if n := testutil.ToFloat64(cfg.Metrics.partial); n != 3 {
		t.Errorf("%v reads were counted as published", n)
	}
	for o, n := range map[alignstage.Outcome]float64{alignstage.Mapped: 2, alignstage.Unmapped: 0} {
		if got := testutil.ToFloat64(cfg.Metrics.Parts.WithLabelValues(o.String())); got != n {
			t.Errorf("%v reads are %v, want %v", got, o, n)
		}
	}
	if got := testutil.ToFloat64(cfg.Metrics.Aligned); got != 430 {
		t.Errorf("%v bases are aligned: a read counts when it has ended", got)
	}
}

// TestAFinishedReadIsWithdrawn: so is one that at its end lies nowhere.
func TestAFinishedReadIsWithdrawn(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1")
	for _, c := range chunksOf(1, "a", 100, 220) {
		p.chunk(c)
	}
	stray := chunksOf(1, "a", 100, 260)
	stray[3].Vbz, stray[3].EndOfRead = vbzOf(currentOf(randomBases(40, 77))), true
	p.recs = p.recs[:len(p.recs)-1]
	p.chunk(chunksOf(1, "a", 100, 260)[2]).chunk(stray[3])
	cfg := testConfig()
	cfg.Partial = 200 * time.Millisecond
	_, got := handled(t, cfg, p.recs)
	want := []string{
		"lambda/chr1/0: a/0 on chr1, 80 bases, partial 1",
		"lambda/chr1/0: a of run-1 withdrawn from lambda/chr1/0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("emitted\n%q, want\n%q", got, want)
	}
}

// TestHandingOnChangesNoFinishedRead: with it or without it, finished reads are the
// same records in the same order.
func TestHandingOnChangesNoFinishedRead(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1")
	a, b := chunksOf(1, "a", 100, 900), chunksOf(2, "b", 5000, 5600)
	for i := range max(len(a), len(b)) {
		if i < len(a) && i != 7 { // a has a gap
			p.chunk(a[i])
		}
		if i < len(b) && i != 3 {
			p.chunk(b[i])
		}
		if i == 8 {
			p.chunk(b[3]) // late
		}
	}
	p.end("run-1")
	finals := func(partial time.Duration) (list []string, others int) {
		cfg := testConfig()
		cfg.Partial = partial
		emit, _ := handled(t, cfg, p.recs)
		for _, o := range emit.outs {
			if o.Topic == "reads" {
				m, err := stream.DecodeReads(o.Value)
				if err != nil {
					t.Fatal(err)
				}
				if m.GetWithdrawal() != nil || m.GetPartial() != nil {
					others++
					continue
				}
			}
			list = append(list, fmt.Sprintf("%s %d %s %x", o.Topic, o.Partition, o.Key, o.Value))
		}
		return list, others
	}
	want, none := finals(0)
	got, others := finals(50 * time.Millisecond)
	if !slices.Equal(got, want) {
		t.Errorf("%d records with reads published, %d without", len(got), len(want))
	}
	if none != 0 || others < 8 {
		t.Errorf("%d records are of open reads, %d without --partial", others, none)
	}
}

// TestFinishedReadsComeFirst: without tools to spare a read is not published, but with the
// next chunk for which there are.
func TestFinishedReadsComeFirst(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1").read(1, "a", 100, 300)
	cfg := testConfig()
	cfg.Partial, cfg.Aligners = 100*time.Millisecond, []alignstage.Aligner{fakeAligner{reference}}
	h, emit := newHandler(t, cfg), new(fakeEmitter)
	works := h.(*handler).works
	busy := <-works.tools
	handleAll(t, h, p.recs[:3], emit)
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := emit.summary(t); len(got) != 2 {
		t.Fatalf("emitted %q while all tools were in use", got)
	}
	works.tools <- busy
	handleAll(t, h, p.recs[3:4], emit)
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := emit.summary(t); len(got) != 3 || got[2] != "partial a/0 at 100" {
		t.Fatalf("emitted %q", got)
	}
}

// TestHandingOnThatFails ends the worker, which would hold back what is final otherwise.
func TestHandingOnThatFails(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1").read(1, "a", 100, 300)
	cfg := testConfig()
	cfg.Partial = 100 * time.Millisecond
	h := newHandler(t, cfg)
	emit := &fakeEmitter{reject: func(outs []stream.Out, resolved []int64) error {
		if len(outs) > 0 && len(resolved) == 0 {
			return errors.New("no room")
		}
		return nil
	}}
	handleAll(t, h, p.recs[:2], emit)
	if err := h.Drain(t.Context()); err == nil {
		t.Error("the handler goes on")
	}
	if emit.failed == nil || emit.failed.Error() != "publishing read a of run run-1: no room" {
		t.Errorf("failed with %v", emit.failed)
	}
}

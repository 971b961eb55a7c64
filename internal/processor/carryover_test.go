package processor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant/carryover"
	variantstage "github.com/porestream/porestream/variant/stage"
)

// plate is a run of samples a, b and wild, the last a control, worked by the variant stage of some partitions.
type plate struct {
	t         *testing.T
	genome    *genome.Genome
	regions   *variantstage.Regions
	handlers  []stream.Handler
	assessing *CarryOver
	tally     *variantstage.Tally
	log       bytes.Buffer
	replay    bool // records are dealt with already
	reads     int
}

// plateAt is where samples have another base, inter-residue.
const plateAt = 999

func newPlate(t *testing.T, partitions int) *plate {
	rnd := rand.New(rand.NewPCG(2, 6))
	seq := make([]byte, 3000)
	for i := range seq {
		seq[i] = "ACGT"[rnd.IntN(4)]
	}
	seq[plateAt] = 'A'
	path := filepath.Join(t.TempDir(), "ref.fa")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, ">c\n%s\n", seq), 0o600))
	g, err := genome.Load(path)
	require.NoError(t, err)
	p := &plate{t: t, genome: g, regions: variantstage.NewRegions()}
	make := variantstage.New(variantstage.Config{
		Topics: stream.NewTopics(""), CallsPartitions: 3, Genome: g, Regions: p.regions,
	})
	for i := range partitions {
		h, err := make("reads", int32(i), int32(partitions))
		require.NoError(t, err)
		p.handlers = append(p.handlers, h)
	}
	p.assessing = &CarryOver{
		Topics: stream.NewTopics(""), Regions: p.regions, Logger: slog.New(slog.NewTextHandler(&p.log, nil)),
		Controls: func(run *streampb.Run) (carryover.Controls, error) {
			if run.GetId() != "run" {
				return nil, errors.New("unknown")
			}
			return carryover.Controls{"wild": carryover.Negative}, nil
		},
		sent: map[alleleAt]*streampb.CarryOver{}, complete: map[string]bool{}, unknown: map[string]bool{},
	}
	p.tally = p.regions.NewTally()
	return p
}

type discard struct{}

func (discard) Emit(context.Context, []stream.Out, []int64) error { return nil }
func (discard) Fail(error)                                        {}

// handle hands a record to the handler of a partition.
func (p *plate) handle(partition int, m *streampb.ReadRecord) {
	value, err := stream.EncodeReads(m)
	require.NoError(p.t, err)
	rec := stream.Record{Topic: "reads", Partition: int32(partition), Value: value}
	if p.replay {
		require.NoError(p.t, p.handlers[partition].Replay(p.t.Context(), rec))
		return
	}
	require.NoError(p.t, p.handlers[partition].Handle(p.t.Context(), rec, discard{}))
}

// live says to the partitions that all is replayed.
func (p *plate) live() {
	p.replay = false
	for _, h := range p.handlers {
		require.NoError(p.t, h.(stream.Ticker).Tick(p.t.Context(), time.Now(), discard{}))
	}
}

// mark sends the run's start or end to all partitions.
func (p *plate) mark(end bool) { p.markRun("run", end, "a", "b", "wild") }

func (p *plate) markRun(id string, end bool, samples ...string) {
	mk := &streampb.Marker{Run: &streampb.Run{Id: id, Sample: id, Samples: samples, SampleRate: 4000}, Sources: 1}
	for i := range p.handlers {
		if end {
			p.handle(i, &streampb.ReadRecord{Body: &streampb.ReadRecord_RunEnd{RunEnd: mk}})
		} else {
			p.handle(i, &streampb.ReadRecord{Body: &streampb.ReadRecord_RunStart{RunStart: mk}})
		}
	}
}

// add adds reads of a sample, with the other base or not.
func (p *plate) add(sample string, reads int, changed bool) {
	ref := p.genome.Contigs[0].Seq
	for range reads {
		p.reads++
		seq := bytes.Clone(ref)
		ops := []align.Op{{Kind: align.Match, Len: len(seq)}}
		if changed {
			seq[plateAt] = 'G'
			ops = []align.Op{{Kind: align.Match, Len: plateAt}, {Kind: align.Mismatch, Len: 1}, {Kind: align.Match, Len: len(seq) - plateAt - 1}}
		}
		reverse := p.reads%2 == 0
		if reverse {
			align.ReverseComplement(seq)
		}
		segments, err := align.Segments(&align.Read{Run: "run", Sample: sample, ID: fmt.Sprint(p.reads), Seq: seq, Qualities: bytes.Repeat([]byte{20}, len(seq))},
			&align.Alignment{Contig: "c", End: len(ref), QueryEnd: len(seq), Reverse: reverse, MappingQuality: 60, Ops: ops}, ref)
		require.NoError(p.t, err)
		for _, s := range segments {
			of := stream.PartitionFor(stream.RegionKey(sample, "c", s.GetRegion()), int32(len(p.handlers)))
			p.handle(int(of), &streampb.ReadRecord{Body: &streampb.ReadRecord_Segment{Segment: s}})
		}
	}
}

// assess is what is sent next, a line each.
func (p *plate) assess() (lines []string) {
	outs, ended, err := p.assessing.next(p.tally, 3)
	require.NoError(p.t, err)
	for _, run := range ended {
		p.assessing.complete[run] = true
	}
	for _, o := range outs {
		m, err := stream.DecodeCalls(o.Value)
		require.NoError(p.t, err)
		if end := m.GetCarryOverEnd(); end != nil {
			lines = append(lines, fmt.Sprintf("end of %s in %d", end.GetRun(), o.Partition))
			continue
		}
		c := m.GetCarryOver()
		require.Equal(p.t, stream.ContigPartition(c.GetSample(), "c", 3), o.Partition)
		lines = append(lines, fmt.Sprintf("%s %d %v by %s, %s %d of %d", c.GetSample(), c.GetPos(), c.GetExplained(), c.GetBasis(), c.GetControl(), c.GetControlAlt(), c.GetControlDepth()))
	}
	return lines
}

// TestCarryOverWhileTheRunGoesOn: a mark comes as soon as the control shows what explains the allele, goes when the sample has too many reads for that, and at the end everything is
// assessed, once. In any order of the reads and with any partitions the same is known in the end.
func TestCarryOverWhileTheRunGoesOn(t *testing.T) {
	for _, partitions := range []int{1, 4} {
		p := newPlate(t, partitions)
		require.Empty(t, p.assess(), "there is no run yet")
		p.mark(false)
		require.Empty(t, p.assess(), "there is no call yet")
		p.add("a", 40, true)
		p.add("b", 8, true)
		require.Empty(t, p.assess(), "no control has a read: nothing is bounded, and nothing marked")
		p.add("wild", 30, false)
		p.add("wild", 6, true)
		require.Equal(t, []string{"b 1000 true by hopping, wild 6 of 36"}, p.assess())
		require.Empty(t, p.assess(), "nothing has changed")
		p.add("b", 60, true)
		require.Equal(t, []string{"b 1000 false by contamination, wild 6 of 36"}, p.assess())
		p.add("wild", 3, true)
		p.mark(true)
		require.Equal(t, []string{
			"a 1000 false by contamination, wild 9 of 39", "b 1000 false by contamination, wild 9 of 39", "end of run in 0", "end of run in 1", "end of run in 2",
		}, p.assess())
		require.Empty(t, p.assess())
		require.Empty(t, p.assessing.Silent())
		require.Empty(t, p.log.String())
	}
}

// TestCarryOverEndsAlike: what was sent last of each allele is the same for any order of the reads, any partitions, and whenever it was assessed before.
func TestCarryOverEndsAlike(t *testing.T) {
	type read struct {
		sample  string
		changed bool
	}
	var reads []read
	for _, r := range []struct {
		sample  string
		n       int
		changed bool
	}{{"a", 40, true}, {"b", 8, true}, {"wild", 30, false}, {"wild", 5, true}} {
		for range r.n {
			reads = append(reads, read{r.sample, r.changed})
		}
	}
	var first map[alleleAt]string
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		rnd.Shuffle(len(reads), func(i, j int) { reads[i], reads[j] = reads[j], reads[i] })
		p := newPlate(t, 1+int(seed)%3)
		p.mark(false)
		for _, r := range reads {
			p.add(r.sample, 1, r.changed)
			if rnd.IntN(10) == 0 {
				p.assess()
			}
		}
		p.mark(true)
		require.Contains(t, p.assess(), "end of run in 0")
		last := make(map[alleleAt]string)
		for at, c := range p.assessing.sent {
			last[at] = c.String()
		}
		if first == nil {
			first = last
			require.Len(t, first, 2)
		}
		require.Equal(t, first, last)
	}
}

// TestCarryOverNeedsAllPartitions: a process that holds a part of the reads sends nothing, and says so once; nor is anything sent of a run whose controls aren't known.
func TestCarryOverNeedsAllPartitions(t *testing.T) {
	p := newPlate(t, 2)
	p.mark(false)
	p.add("a", 40, true)
	p.add("b", 10, true)
	p.add("wild", 10, true)
	require.NoError(t, p.handlers[1].Close())
	require.Empty(t, p.assess())
	require.Empty(t, p.assess())
	require.Equal(t, 1, bytes.Count(p.log.Bytes(), []byte("one process must hold all samples")))

	p = newPlate(t, 1)
	p.mark(false)
	p.assessing.Controls = func(*streampb.Run) (carryover.Controls, error) {
		return nil, errors.New("control x is not among the samples")
	}
	require.Empty(t, p.assess())
	require.Contains(t, p.log.String(), "control x is not among the samples")
}

// TestCarryOverAfterARestart: while a new process restores what there was, nothing is sent, whatever is known of runs' ends; and then everything is, for it isn't known what was
// sent before: a mark that isn't one any more is taken back.
func TestCarryOverAfterARestart(t *testing.T) {
	for _, ended := range []bool{false, true} {
		p := newPlate(t, 2)
		p.replay = true
		p.mark(false)
		if ended {
			p.mark(true)
		}
		require.Empty(t, p.assess(), "the reads are still to come")
		p.add("a", 40, true)
		p.add("b", 68, true)
		p.add("wild", 30, false)
		p.add("wild", 6, true)
		require.Empty(t, p.assess())
		require.Empty(t, p.log.String())
		p.live()
		want := []string{"a 1000 false by contamination, wild 6 of 36", "b 1000 false by contamination, wild 6 of 36"}
		if ended {
			want = append(want, "end of run in 0", "end of run in 1", "end of run in 2")
		}
		require.Equal(t, want, p.assess())
		require.Empty(t, p.assess())
	}
}

// TestCarryOverOfARunWithoutControls: what another run adds to a sample may change what is assessed by the controls of the first. The sample's assessments are final when both have
// ended, and the end of the other, too, is sent behind them.
func TestCarryOverOfARunWithoutControls(t *testing.T) {
	p := newPlate(t, 2)
	p.assessing.Controls = func(run *streampb.Run) (carryover.Controls, error) {
		if run.GetId() != "run" {
			return nil, nil
		}
		return carryover.Controls{"wild": carryover.Negative}, nil
	}
	p.mark(false)
	p.markRun("more", false, "a")
	require.Empty(t, p.assess())
	p.add("a", 40, true)
	p.add("b", 60, true)
	p.add("wild", 36, false)
	p.mark(true)
	require.Equal(t, []string{"b 1000 false by hopping, wild 0 of 36", "end of run in 0", "end of run in 1", "end of run in 2"}, p.assess())
	p.add("a", 10, true)
	p.markRun("more", true, "a")
	require.Equal(t, []string{"a 1000 false by hopping, wild 0 of 36", "b 1000 false by hopping, wild 0 of 36", "end of more in 0", "end of more in 1", "end of more in 2"}, p.assess())
	require.Empty(t, p.assess())
}

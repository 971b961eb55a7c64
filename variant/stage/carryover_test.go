package stage

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/statetest"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/vrs"
)

// plate is runs of samples a, b and wild, worked by the stage's handlers over a topic of reads that is kept in memory.
type plate struct {
	t        *testing.T
	genome   *genome.Genome
	regions  *Regions
	make     stream.NewHandler
	logs     [][]stream.Record // by partition
	at       []int             // committed
	handlers []stream.Handler
	calls    []stream.Out // what was committed for the topic of calls
	log      bytes.Buffer
	reads    int
	limit    int // of alleles; 0: the handlers' own
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
	p := &plate{t: t, genome: g, regions: NewRegions(), logs: make([][]stream.Record, partitions), at: make([]int, partitions), handlers: make([]stream.Handler, partitions)}
	p.make = New(Config{Topics: stream.NewTopics(""), CallsPartitions: 3, Genome: g, Regions: p.regions, Logger: slog.New(slog.NewTextHandler(&p.log, nil))})
	for i := range partitions {
		p.replace(i)
	}
	return p
}

// replace has a new handler take a partition, which replays what was committed.
func (p *plate) replace(partition int) {
	if h := p.handlers[partition]; h != nil {
		require.NoError(p.t, h.Close())
	}
	h, err := p.make("reads", int32(partition), int32(len(p.logs)))
	require.NoError(p.t, err)
	for _, rec := range p.logs[partition][:p.at[partition]] {
		require.NoError(p.t, h.Replay(p.t.Context(), rec))
	}
	if p.limit > 0 {
		h.(worker).handler.mostAssessed = p.limit
	}
	p.handlers[partition] = h
}

// write appends records to the topics; what a handler emits is.
func (p *plate) write(outs []stream.Out) {
	for _, o := range outs {
		if o.Topic != "reads" {
			require.Equal(p.t, "calls", o.Topic, "%s", p.log.String())
			p.calls = append(p.calls, o)
			continue
		}
		p.logs[o.Partition] = append(p.logs[o.Partition], stream.Record{Topic: "reads", Partition: o.Partition, Offset: int64(len(p.logs[o.Partition])), Key: o.Key, Value: o.Value})
	}
}

// step handles the next record of a partition, and reports whether there was one. lost: the process ends before that is committed.
func (p *plate) step(partition int, lost bool) bool {
	if p.at[partition] == len(p.logs[partition]) {
		return false
	}
	emissions := statetest.Handle(p.t, p.handlers[partition], p.logs[partition][p.at[partition]])
	if lost {
		p.replace(partition)
		return true
	}
	p.at[partition]++
	for _, e := range emissions {
		p.write(e.Outs)
	}
	return true
}

// settle handles all there is, and what follows.
func (p *plate) settle() {
	for again := true; again; {
		again = false
		for i := range p.logs {
			for p.step(i, false) {
				again = true
			}
		}
	}
}

// tick has time pass in a partition.
func (p *plate) tick(partition int) {
	emit := new(statetest.Recorder)
	require.NoError(p.t, p.handlers[partition].(stream.Ticker).Tick(p.t.Context(), time.Now(), emit))
	for _, e := range emit.Emissions {
		require.Empty(p.t, e.Resolved)
		p.write(e.Outs)
	}
}

// send writes a record to a partition of reads.
func (p *plate) send(partition int, m *streampb.ReadRecord) {
	value, err := stream.EncodeReads(m)
	require.NoError(p.t, err)
	p.write([]stream.Out{{Topic: "reads", Partition: int32(partition), Value: value}})
}

// mark sends a run's start or end to all partitions.
func (p *plate) mark(id string, end bool, controls ...*streampb.Control) {
	samples := []string{"a", "b", "wild"}
	if id != "run" {
		samples = []string{"a"}
	}
	p.markRun(id, samples, end, controls...)
}

// markRun is mark for a run of any samples.
func (p *plate) markRun(id string, samples []string, end bool, controls ...*streampb.Control) {
	mk := &streampb.Marker{Run: &streampb.Run{Id: id, Sample: id, Samples: samples, SampleRate: 4000, Controls: controls}, Sources: 1}
	for i := range p.handlers {
		if end {
			p.send(i, &streampb.ReadRecord{Body: &streampb.ReadRecord_RunEnd{RunEnd: mk}})
		} else {
			p.send(i, &streampb.ReadRecord{Body: &streampb.ReadRecord_RunStart{RunStart: mk}})
		}
	}
}

// wild is the plate's control.
func wild() *streampb.Control { return &streampb.Control{Sample: "wild", Kind: "negative_control"} }

// add adds reads of a sample, with the other base or not.
func (p *plate) add(sample string, reads int, changed bool) {
	at := -1
	if changed {
		at = plateAt
	}
	p.addOf("run", sample, reads, at)
}

// addOf adds reads of a run's sample, with another base at a place, or none.
func (p *plate) addOf(run, sample string, reads, at int) {
	ref := p.genome.Contigs[0].Seq
	for range reads {
		p.reads++
		seq := bytes.Clone(ref)
		ops := []align.Op{{Kind: align.Match, Len: len(seq)}}
		if at >= 0 {
			seq[at] = "CGAT"[strings.IndexByte("ACGT", seq[at])]
			if at == plateAt {
				seq[at] = 'G'
			}
			ops = []align.Op{{Kind: align.Match, Len: at}, {Kind: align.Mismatch, Len: 1}, {Kind: align.Match, Len: len(seq) - at - 1}}
		}
		reverse := p.reads%2 == 0
		if reverse {
			genome.ReverseComplement(seq)
		}
		segments, err := align.Segments(&align.Read{Run: run, Sample: sample, ID: fmt.Sprint(p.reads), Seq: seq, Qualities: bytes.Repeat([]byte{20}, len(seq))},
			&align.Alignment{Contig: "c", End: len(ref), QueryEnd: len(seq), Reverse: reverse, MappingQuality: 60, Ops: ops}, ref)
		require.NoError(p.t, err)
		for _, s := range segments {
			p.send(int(stream.PartitionFor(stream.RegionKey(sample, "c", s.GetRegion()), int32(len(p.logs)))), &streampb.ReadRecord{Body: &streampb.ReadRecord_Segment{Segment: s}})
		}
	}
}

// said is what was written of carry-over since it was asked last, a line each.
func (p *plate) said() (lines []string) {
	for _, o := range p.calls {
		m, err := stream.DecodeCalls(o.Value)
		require.NoError(p.t, err)
		if end := m.GetCarryOverEnd(); end != nil {
			lines = append(lines, fmt.Sprintf("end of %s in %d", end.GetRun(), o.Partition))
		}
		if c := m.GetCarryOver(); c != nil {
			require.Equal(p.t, stream.ContigPartition(c.GetSample(), "c", 3), o.Partition)
			lines = append(lines, fmt.Sprintf("%s %d %v by %s, %s %d of %d", c.GetSample(), c.GetPos(), c.GetExplained(), c.GetBasis(), c.GetControl(), c.GetControlAlt(), c.GetControlDepth()))
		}
	}
	p.calls = nil
	return lines
}

// round has time pass in all partitions until something was asked, and handles all that follows.
func (p *plate) round() []string {
	p.settle()
	for i := range p.logs {
		p.tick(i)
	}
	p.settle()
	return p.said()
}

// TestCarryOverWhileTheRunGoesOn: a mark comes as soon as the control shows what explains the allele, goes when the sample has too many reads for that, and at the end everything is
// assessed, once, without time having to pass.
func TestCarryOverWhileTheRunGoesOn(t *testing.T) {
	for _, partitions := range []int{1, 4} {
		p := newPlate(t, partitions)
		require.Empty(t, p.round(), "there is no run yet")
		p.mark("run", false, wild())
		require.Empty(t, p.round(), "there is no call yet")
		p.add("a", 40, true)
		p.add("b", 8, true)
		require.Empty(t, p.round(), "no control has a read: nothing is bounded, and nothing marked")
		p.add("wild", 30, false)
		p.add("wild", 6, true)
		require.Equal(t, []string{"b 1000 true by hopping, wild 6 of 36"}, p.round())
		require.Empty(t, p.round(), "nothing has changed")
		p.add("b", 60, true)
		require.Equal(t, []string{"b 1000 false by contamination, wild 6 of 36"}, p.round())
		p.add("wild", 3, true)
		p.mark("run", true, wild())
		p.settle()
		want := []string{"a 1000 false by contamination, wild 9 of 39", "b 1000 false by contamination, wild 9 of 39", "end of run in 0", "end of run in 1", "end of run in 2"}
		require.Equal(t, want, p.said())
		length := len(p.logs[0])
		require.Empty(t, p.round())
		require.Len(t, p.logs[0], length, "nothing is asked any more")
		require.Empty(t, p.regions.SilentControls())
		require.Empty(t, p.log.String())

		p.add("wild", 1, true) // reads that come late are assessed too
		p.settle()
		require.Equal(t, []string{"a 1000 false by contamination, wild 10 of 40", "b 1000 false by contamination, wild 10 of 40"}, p.said())

		p.replace(0) // a new owner doesn't know what was sent
		require.ElementsMatch(t, []string{"a 1000 false by contamination, wild 10 of 40", "b 1000 false by contamination, wild 10 of 40", "end of run in 0", "end of run in 1", "end of run in 2"}, p.round())
	}
}

// TestCarryOverEndsAlike: what was sent last of each allele before the run's end is the same for any order of the reads, any partitions, wherever handlers are lost, before or after what they did was committed, and
// whenever it was assessed before; and behind the end nothing changes.
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
	var first map[string]string
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		rnd.Shuffle(len(reads), func(i, j int) { reads[i], reads[j] = reads[j], reads[i] })
		p := newPlate(t, 1+int(seed)%4)
		p.mark("run", false, wild())
		for _, r := range reads {
			p.add(r.sample, 1, r.changed)
		}
		p.mark("run", true, wild())
		last, ended := make(map[string]string), 0
		take := func() {
			for _, o := range p.calls {
				m, err := stream.DecodeCalls(o.Value)
				require.NoError(t, err)
				if m.GetCarryOverEnd() != nil {
					ended++
				}
				if c := m.GetCarryOver(); c != nil {
					if ended > 0 {
						require.Equal(t, last[string(o.Key)], c.String(), "seed %d: it has changed behind the end", seed)
					}
					last[string(o.Key)] = c.String()
				}
			}
			p.calls = nil
		}
		for busy := true; busy || ended == 0; take() {
			busy = false
			for range 4 * len(p.logs) {
				busy = p.step(rnd.IntN(len(p.logs)), rnd.IntN(8) == 0) || busy
			}
			for i := range p.logs {
				busy = busy || p.at[i] < len(p.logs[i])
			}
			switch rnd.IntN(5) {
			case 0:
				p.tick(0)
			case 1:
				p.replace(rnd.IntN(len(p.logs)))
			}
		}
		if first == nil {
			first = last
			require.Len(t, first, 2)
		}
		require.Equal(t, first, last, "seed %d", seed)
	}
}

// added is a read of a plate.
type added struct {
	run, sample string
	at          int
}

// standing is what holds of the carry-over that was said so far, of the alleles of all runs, as the annotate stage takes it; marked counts the marks on the way.
type standing struct {
	t      *testing.T
	last   map[string]*streampb.CarryOver
	marked map[string]int // by run
	ended  map[string]bool
}

func (s *standing) take(p *plate) {
	for _, o := range p.calls {
		m, err := stream.DecodeCalls(o.Value)
		require.NoError(s.t, err)
		if end := m.GetCarryOverEnd(); end != nil {
			s.ended[end.GetRun()] = true
			if end.GetTooMany() {
				maps.DeleteFunc(s.last, func(_ string, c *streampb.CarryOver) bool { return c.GetRun() == end.GetRun() })
			}
		}
		if c := m.GetCarryOver(); c != nil {
			s.last[string(o.Key)] = c
			if c.GetExplained() {
				s.marked[c.GetRun()]++
			}
		}
	}
	p.calls = nil
}

// lines are what stands of runs.
func (s *standing) lines(runs ...string) (lines []string) {
	for _, c := range s.last {
		if slices.Contains(runs, c.GetRun()) {
			lines = append(lines, fmt.Sprintf("%s %d %v %.3f by %s, %s %d of %d", c.GetSample(), c.GetPos(), c.GetExplained(), c.GetShare(), c.GetBasis(), c.GetControl(), c.GetControlAlt(), c.GetControlDepth()))
		}
	}
	slices.Sort(lines)
	return lines
}

// finish has a plate's reads worked in some order, with handlers lost and time passing, until all its runs are assessed.
func (s *standing) finish(p *plate, rnd *rand.Rand, runs int) {
	for busy := true; busy || len(s.ended) < runs; s.take(p) {
		busy = false
		for range 4 * len(p.logs) {
			busy = p.step(rnd.IntN(len(p.logs)), rnd.IntN(12) == 0) || busy
		}
		for i := range p.logs {
			busy = busy || p.at[i] < len(p.logs[i])
		}
		if rnd.IntN(2) == 0 {
			p.tick(0)
		}
	}
}

// TestCarryOverBeyondTheLimitEndsAlike: a run whose samples are called with more alleles than are assessed has no mark in the end, whatever was marked before that was so, in any order of the reads and
// with any partitions. Another run on the same topics, whatever order the two come in, has what it has alone.
func TestCarryOverBeyondTheLimitEndsAlike(t *testing.T) {
	list := func(run, sample string, at, n int) []added {
		return slices.Repeat([]added{{run, sample, at}}, n)
	}
	over := slices.Concat(list("run", "a", plateAt, 40), list("run", "b", plateAt, 8), list("run", "wild", -1, 30), list("run", "wild", plateAt, 6))
	beyond := list("run", "b", 1999, 40) // the second allele
	other := slices.Concat(list("other", "c", plateAt, 40), list("other", "d", plateAt, 8), list("other", "dull", -1, 30), list("other", "dull", plateAt, 6))
	starts := map[string][]string{"run": {"a", "b", "wild"}, "other": {"c", "d", "dull"}}
	controls := map[string]*streampb.Control{"run": wild(), "other": {Sample: "dull", Kind: "negative_control"}}
	work := func(seed uint64, reads [][]added, ids ...string) *standing {
		rnd := rand.New(rand.NewPCG(seed, 5))
		p := newPlate(t, 1+int(seed)%3)
		s := &standing{t: t, last: make(map[string]*streampb.CarryOver), marked: make(map[string]int), ended: make(map[string]bool)}
		for i := range p.logs {
			p.handlers[i].(worker).handler.mostAssessed = 1
		}
		p.limit = 1
		for _, id := range ids {
			p.markRun(id, starts[id], false, controls[id])
		}
		for _, part := range reads {
			part = slices.Clone(part)
			rnd.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
			for _, r := range part {
				p.addOf(r.run, r.sample, 1, r.at)
			}
			p.settle()
			p.tick(0) // asks which alleles there are, and then for their reads
			p.settle()
			s.take(p)
		}
		rnd.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		for _, id := range ids {
			p.markRun(id, starts[id], true, controls[id])
		}
		s.finish(p, rnd, len(ids))
		return s
	}
	alone := work(0, [][]added{other}, "other").lines("other")
	require.Len(t, alone, 2)
	require.Contains(t, alone[1], "d 1000 true")
	marked := 0
	for seed := range uint64(6) {
		reads := [][]added{over, slices.Concat(beyond, other)}
		switch seed % 3 {
		case 1:
			reads = [][]added{other, beyond, over}
		case 2:
			reads = [][]added{slices.Concat(over, beyond, other)}
		}
		s := work(seed, reads, "run", "other")
		marked += s.marked["run"]
		require.Empty(t, s.lines("run"), "seed %d", seed)
		require.Equal(t, alone, s.lines("other"), "seed %d", seed)
	}
	require.NotZero(t, marked, "none was marked before the limit was passed: nothing was tried")
}

// TestCarryOverOfControlsOfOneName: a control that has the name of another run's bounds its own run alone, by the reads that it has there, in any order. A sample of both runs is assessed in each by
// what it has there, and marked if all of that together is explained.
func TestCarryOverOfControlsOfOneName(t *testing.T) {
	list := func(run, sample string, at, n int) []added {
		return slices.Repeat([]added{{run, sample, at}}, n)
	}
	ntc := &streampb.Control{Sample: "NTC", Kind: "no_template_control"}
	samples := map[string][]string{"one": {"NTC", "a", "b", "s"}, "two": {"NTC", "c", "d", "s"}}
	one := slices.Concat(list("one", "a", plateAt, 60), list("one", "b", plateAt, 9), list("one", "NTC", plateAt, 5))
	two := slices.Concat(list("two", "c", plateAt, 60), list("two", "d", plateAt, 16), list("two", "NTC", -1, 5))
	work := func(seed uint64, more []added, ids ...string) *standing {
		rnd := rand.New(rand.NewPCG(seed, 6))
		p := newPlate(t, 1+int(seed)%3)
		s := &standing{t: t, last: make(map[string]*streampb.CarryOver), marked: make(map[string]int), ended: make(map[string]bool)}
		var reads []added
		for _, id := range ids {
			p.markRun(id, samples[id], false, ntc)
			reads = append(reads, map[string][]added{"one": one, "two": two}[id]...)
		}
		reads = append(reads, more...)
		rnd.Shuffle(len(reads), func(i, j int) { reads[i], reads[j] = reads[j], reads[i] })
		for _, r := range reads {
			p.addOf(r.run, r.sample, 1, r.at)
		}
		for _, id := range ids {
			p.markRun(id, samples[id], true, ntc)
		}
		s.finish(p, rnd, len(ids))
		return s
	}
	ofOne, ofTwo := work(0, nil, "one").lines("one"), work(0, nil, "two").lines("two")
	require.Equal(t, []string{"a 1000 false 0.236 by contamination, NTC 5 of 5", "b 1000 true 1.000 by contamination, NTC 5 of 5"}, ofOne)
	require.Equal(t, []string{"c 1000 false 0.018 by hopping, NTC 0 of 5", "d 1000 false 0.253 by hopping, NTC 0 of 5"}, ofTwo)
	for seed := range uint64(5) {
		s := work(seed, nil, "one", "two")
		require.Equal(t, ofOne, s.lines("one"), "seed %d", seed)
		require.Equal(t, ofTwo, s.lines("two"), "seed %d", seed)
	}
	of := func(s *standing) string {
		i := slices.IndexFunc(s.lines("one", "two"), func(line string) bool { return strings.HasPrefix(line, "s ") })
		require.GreaterOrEqual(t, i, 0)
		return strings.Join(strings.Fields(s.lines("one", "two")[i])[1:3], " ")
	}
	for seed := range uint64(3) {
		few := slices.Concat(list("one", "s", plateAt, 8), list("two", "s", plateAt, 2))
		require.Equal(t, "1000 true", of(work(seed, few, "one", "two")), "each run explains its reads")
		many := slices.Concat(list("one", "s", plateAt, 3), list("two", "s", plateAt, 60))
		require.Equal(t, "1000 false", of(work(seed, many, "two", "one")), "one run's reads are the sample's own, and the other's few don't make them doubtful")
	}
}

// TestCarryOverOfARunWithoutControls: what another run adds to a sample may change what is assessed by the controls of the first. The sample's assessments are final when both have
// ended, and the end of the other, too, is sent behind them.
func TestCarryOverOfARunWithoutControls(t *testing.T) {
	p := newPlate(t, 2)
	p.mark("run", false, wild())
	p.mark("more", false)
	p.add("a", 40, true)
	p.add("b", 60, true)
	p.add("wild", 36, false)
	p.mark("run", true, wild())
	p.settle()
	require.Equal(t, []string{"a 1000 false by hopping, wild 0 of 36", "b 1000 false by hopping, wild 0 of 36", "end of run in 0", "end of run in 1", "end of run in 2"}, p.said())
	p.add("a", 10, true)
	p.add("wild", 1, false)
	p.mark("more", true)
	p.settle()
	said := p.said()
	require.Equal(t, []string{"end of more in 0", "end of more in 1", "end of more in 2"}, said[len(said)-3:])
	require.Equal(t, []string{"a 1000 false by hopping, wild 0 of 37", "b 1000 false by hopping, wild 0 of 37"}, said[:len(said)-3])
}

// TestCarryOverOfARunBehindAQuery: a run that was there already when partition 0, which hadn't come so far, asked about another is assessed before its end is sent.
func TestCarryOverOfARunBehindAQuery(t *testing.T) {
	p := newPlate(t, 2)
	p.mark("more", false, wild())
	p.settle()
	p.mark("run", false, wild())
	p.add("b", 8, true)
	p.add("wild", 36, false)
	p.mark("run", true, wild())
	p.tick(0)
	p.settle()
	require.Equal(t, []string{"b 1000 false by no_source, wild 0 of 36", "end of run in 0", "end of run in 1", "end of run in 2"}, p.said())
}

// TestCarryOverAsksRarely: where nothing changes, and where a partition doesn't come to answering, ever fewer queries follow; what changes is assessed all the same.
func TestCarryOverAsksRarely(t *testing.T) {
	p := newPlate(t, 2)
	p.mark("run", false, wild())
	p.settle()
	const minutes = 30
	for range minutes * 60 / 2 {
		p.tick(0)
		p.settle()
	}
	require.Less(t, len(p.logs[1]), 2*minutes, "queries about nothing new")
	p.add("a", 40, true)
	p.add("b", 8, true)
	p.add("wild", 30, false)
	p.add("wild", 6, true)
	for range longestRest + 1 {
		p.tick(0)
		p.settle()
	}
	require.Equal(t, []string{"b 1000 true by hopping, wild 6 of 36"}, p.said())

	length := len(p.logs[1])
	for range minutes * 60 / 2 {
		p.tick(0)
		for p.step(0, false) {
		}
	}
	require.Less(t, len(p.logs[1])-length, 8, "queries that can't be answered")
	p.mark("run", true, wild())
	p.settle()
	said := p.said()
	require.Equal(t, []string{"end of run in 0", "end of run in 1", "end of run in 2"}, said[len(said)-3:])
}

// TestCarryOverOfTooManyAlleles: beyond the limit nothing is assessed, which is logged, no more alleles are listed than show that, and the run ends.
func TestCarryOverOfTooManyAlleles(t *testing.T) {
	p := newPlate(t, 2)
	for _, h := range p.handlers {
		h.(worker).handler.mostAssessed = 0
	}
	p.mark("run", false, wild())
	p.add("a", 40, true)
	p.add("b", 40, true)
	p.mark("run", true, wild())
	p.settle()
	require.Equal(t, []string{"end of run in 0", "end of run in 1", "end of run in 2"}, p.said())
	require.Contains(t, p.log.String(), "too many alleles")
	for _, rec := range p.logs[0] {
		m, err := stream.DecodeReads(rec.Value)
		require.NoError(t, err)
		n := 0
		for _, list := range m.GetCarryOverReport().GetCalled() {
			n += len(list.GetPositions())
		}
		require.LessOrEqual(t, n, 1)
	}
}

// TestCarryOverWhereNoneIsNamed: without controls nothing is asked, said or awaited.
func TestCarryOverWhereNoneIsNamed(t *testing.T) {
	p := newPlate(t, 2)
	p.mark("run", false)
	p.add("a", 40, true)
	length := len(p.logs[0]) + len(p.logs[1])
	require.Empty(t, p.round())
	require.Equal(t, length, len(p.logs[0])+len(p.logs[1]))
	p.mark("run", true)
	require.Empty(t, p.round())
	require.Equal(t, length+2, len(p.logs[0])+len(p.logs[1]))
}

// TestCarryOverOfManyAlleles: queries and answers of more than a record holds go in parts, and arrive as they were.
func TestCarryOverOfManyAlleles(t *testing.T) {
	p := newPlate(t, 1)
	p.mark("run", false, wild())
	p.settle()
	h := p.handlers[0].(worker).handler
	called := make(map[string][]vrs.Edit)
	long := string(bytes.Repeat([]byte{'A'}, 30_000))
	for i := range 60 {
		called["c"] = append(called["c"], vrs.Edit{Start: i * 10, Ref: "G", Alt: long}, vrs.Edit{Start: i*10 + 1, Ref: "", Alt: "T"})
		called["d"] = append(called["d"], vrs.Edit{Start: i, Ref: "C"})
	}
	h.asking.called = called
	// All runs that ever had controls may be more names than a record holds.
	var samples []string
	for i := range 10 * stream.MaxSamples {
		samples = append(samples, fmt.Sprintf("%0200d", i))
	}
	_, err := h.markers.Start(&streampb.Marker{Run: &streampb.Run{Id: "long", Samples: samples, Controls: []*streampb.Control{wild()}}, Sources: 1})
	require.NoError(t, err)
	outs, err := h.ask()
	require.NoError(t, err)
	require.Greater(t, len(outs), 4)
	var parts []*streampb.CarryOverQuery
	for _, o := range outs {
		m, err := stream.DecodeReads(o.Value)
		require.NoError(t, err)
		parts = append(parts, m.GetCarryOverQuery())
	}
	require.Equal(t, called, allelesOf(parts))
	var asked []string
	for _, q := range parts {
		asked = append(asked, q.GetSamples()...)
	}
	require.Equal(t, append(samples, "a", "b", "wild"), asked)
	// One whose first part is missing isn't answered.
	for _, q := range parts[1:] {
		answer, err := h.query(q)
		require.NoError(t, err)
		require.Empty(t, answer)
	}
	var answered []stream.Out
	for _, q := range parts {
		require.Empty(t, answered)
		answered, err = h.query(q)
		require.NoError(t, err)
	}
	require.NotEmpty(t, answered)
	require.True(t, slices.IsSortedFunc(parts, func(a, b *streampb.CarryOverQuery) int { return int(a.GetPart()) - int(b.GetPart()) }))
}

package stage

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/aligned"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/statetest"
	"github.com/porestream/porestream/stream/streampb"
)

// scene is a genome whose first contig has two regions, and reads of two runs of a sample and one of another one.
type scene struct {
	genome   *genome.Genome
	reads    []sceneRead
	segments []*streampb.Segment
	tags     func(t testing.TB, rng *rand.Rand, bases []byte) *modbase.Tags
}

type sceneRead struct {
	sample   string
	record   *sam.Record
	segments []*streampb.Segment
}

// heads are the modifications that tags list.
var heads = []string{"C+m?", "C+m?", "C+h?;C+m?", "C+hm?", "C+m.", "A+a.;C+mh.", "C+m;G-m", "C+76792?;C+m?", "N+n?;C+m.", ""}

func newScene(t testing.TB, seed uint64, n int) *scene {
	t.Helper()
	return newSceneOf(t, seed, n, tagsOf)
}

func newSceneOf(t testing.TB, seed uint64, n int, tags func(testing.TB, *rand.Rand, []byte) *modbase.Tags) *scene {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	var fasta strings.Builder
	for _, c := range []struct {
		name string
		n    int
	}{{"two", align.RegionWidth + 3000}, {"one", 2500}} {
		seq := make([]byte, c.n)
		for i := range seq {
			if seq[i] = "ACGT"[rng.IntN(4)]; i > 0 && rng.IntN(8) == 0 {
				copy(seq[i-1:], "CG")
			}
		}
		fmt.Fprintf(&fasta, ">%s\n%s\n", c.name, seq)
	}
	s := &scene{tags: tags}
	var err error
	s.genome, err = genome.Read(strings.NewReader(fasta.String()))
	require.NoError(t, err)
	refs := make(map[string]*sam.Reference)
	for _, c := range s.genome.Contigs {
		refs[c.Name], err = sam.NewReference(c.Name, "", "", len(c.Seq), nil, nil)
		require.NoError(t, err)
	}
	_, err = sam.NewHeader(nil, []*sam.Reference{refs["two"], refs["one"]})
	require.NoError(t, err)
	for i := range n {
		contig := s.genome.Contigs[rng.IntN(2)]
		at := rng.IntN(len(contig.Seq) - 400)
		if len(contig.Seq) > align.RegionWidth { // where its regions meet
			at = align.RegionWidth - 2500 + rng.IntN(5000)
		}
		s.add(t, rng, i, contig, at, refs[contig.Name])
	}
	return s
}

// add adds an aligned read.
func (s *scene) add(t testing.TB, rng *rand.Rand, n int, contig *genome.Contig, at int, ref *sam.Reference) {
	a := align.Alignment{Contig: contig.Name, Start: at, Reverse: rng.IntN(2) == 0, MappingQuality: 60}
	var bases []byte
	pos := at
	put := func(kind align.OpKind, n int) {
		if k := len(a.Ops); k > 0 && a.Ops[k-1].Kind == kind {
			a.Ops[k-1].Len += n
		} else {
			a.Ops = append(a.Ops, align.Op{Kind: kind, Len: n})
		}
	}
	for end := min(len(contig.Seq), at+100+rng.IntN(3000)); pos < end; {
		switch k := rng.IntN(25); {
		case k == 0 && pos > at && pos+3 < end:
			put(align.Deletion, 2)
			pos += 2
			continue
		case k == 1 && pos > at:
			put(align.Insertion, 1)
			bases = append(bases, "ACGT"[rng.IntN(4)])
			fallthrough
		default:
			b := contig.Seq[pos]
			if k == 2 {
				b = "ACGTN"[rng.IntN(5)]
			}
			bases = append(bases, b)
			if b == contig.Seq[pos] {
				put(align.Match, 1)
			} else {
				put(align.Mismatch, 1)
			}
			pos++
		}
	}
	a.End = pos
	a.Ops = align.LeftAlign(a.Ops, bases, contig.Seq[a.Start:a.End])
	if a.Ops[0].Kind == align.Insertion || a.Ops[0].Kind == align.Deletion || a.Ops[len(a.Ops)-1].Kind >= align.Insertion {
		return // a segment has no gap at its ends, and aligners leave none there
	}
	clip := rng.IntN(4)
	whole := slices.Concat([]byte("GATC")[:clip], bases, []byte("CCGA"))
	var cigar sam.Cigar
	if clip > 0 {
		cigar = append(cigar, sam.NewCigarOp(sam.CigarSoftClipped, clip))
	}
	for _, op := range a.Ops {
		cigar = append(cigar, sam.NewCigarOp(operations[op.Kind], op.Len))
	}
	cigar = append(cigar, sam.NewCigarOp(sam.CigarSoftClipped, 4))
	own := bytes.Clone(whole)
	a.QueryStart, a.QueryEnd = clip, clip+len(bases)
	if a.Reverse {
		genome.ReverseComplement(own)
		a.QueryStart, a.QueryEnd = 4, 4+len(bases)
	}
	tags := s.tags(t, rng, own)
	run, sample := fmt.Sprint("run-", rng.IntN(2)), "a"
	if rng.IntN(4) == 0 {
		run, sample = "run-2", "b"
	}
	segments, err := align.Segments(&align.Read{Run: run, Sample: sample, ID: fmt.Sprint("read-", n), Seq: own}, &a, contig.Seq)
	require.NoError(t, err)
	rec := &sam.Record{Name: fmt.Sprint(n), Ref: ref, Pos: a.Start, Cigar: cigar, Seq: sam.NewSeq(whole), MatePos: -1}
	if a.Reverse {
		rec.Flags = sam.Reverse
	}
	if tags != nil {
		mm, ml := tags.MM(), tags.ML()
		rec.AuxFields = sam.AuxFields{append(sam.Aux("MMZ"), mm...), append(sam.Aux{'M', 'L', 'B', 'C', byte(len(ml)), byte(len(ml) >> 8), 0, 0}, ml...)}
		spans := make([]pileup.Span, len(segments))
		for i, seg := range segments {
			lo, hi := align.RegionBounds(int(seg.GetRegion()), len(contig.Seq))
			spans[i] = pileup.Span{Origin: int(seg.GetStart()), Start: max(lo, int(seg.GetStart())), End: hi}
		}
		packed, _, err := new(pileup.Calls).Pack(pileup.Aligned{Start: a.Start, Reverse: a.Reverse, Cigar: cigar, Bases: whole}, tags, spans)
		require.NoError(t, err)
		for i := range segments {
			segments[i].Modified = packed[i]
		}
	}
	s.reads = append(s.reads, sceneRead{sample, rec, segments})
	s.segments = append(s.segments, segments...)
}

// tagsOf are tags of a read, of which the probabilities of a base add up to at most 1.
func tagsOf(t testing.TB, rng *rand.Rand, bases []byte) *modbase.Tags {
	of := heads[rng.IntN(len(heads))]
	if of == "" {
		return nil
	}
	var mm strings.Builder
	ml := []byte{}
	for head := range strings.SplitSeq(of, ";") {
		mm.WriteString(head)
		codes := len(strings.Trim(head[2:], ".?"))
		if head[2] <= '9' {
			codes = 1
		}
		skipped := 0
		for _, b := range bases {
			if head[0] != 'N' && b != head[0] {
				continue
			}
			if rng.IntN(3) == 0 {
				skipped++
				continue
			}
			fmt.Fprintf(&mm, ",%d", skipped)
			skipped = 0
			for range codes {
				ml = append(ml, byte(rng.IntN(250/(1+strings.Count(of, ";")+strings.Count(of, "hm")+rng.IntN(2)))))
			}
		}
		mm.WriteByte(';')
	}
	tags, err := modbase.Parse(mm.String(), ml, 0)
	require.NoError(t, err)
	return tags
}

// file is reads as a file that is sorted by position.
type file struct {
	header  *sam.Header
	records []*sam.Record
}

func (f *file) Header() *sam.Header { return f.header }

func (f *file) Read() (*sam.Record, error) {
	if len(f.records) == 0 {
		return nil, io.EOF
	}
	rec := f.records[0]
	f.records = f.records[1:]
	return rec, nil
}

// offline is the pile-up of a sample's reads as pore pileup makes it.
func (s *scene) offline(t testing.TB, sample string, filter Filter) string {
	return s.offlineOf(t, sample, 0, filter)
}

// offlineOf is the pile-up of the reads of a haplotype, by the tag HP; 0: of all.
func (s *scene) offlineOf(t testing.TB, sample string, haplotype int, filter Filter) string {
	var records []*sam.Record
	refs := []*sam.Reference{nil, nil}
	for _, r := range s.reads {
		refs[r.record.Ref.ID()] = r.record.Ref
		if r.sample == sample {
			records = append(records, r.record)
		}
	}
	slices.SortStableFunc(records, func(a, b *sam.Record) int {
		return cmp.Or(cmp.Compare(a.Ref.ID(), b.Ref.ID()), cmp.Compare(a.Pos, b.Pos))
	})
	header, err := sam.NewHeader(nil, nil)
	require.NoError(t, err)
	for _, ref := range refs {
		require.NoError(t, header.AddReference(ref.Clone()))
	}
	survey, err := aligned.NewSurvey(t.Context(), &file{header, records}, aligned.Options{Threads: 1}, 0)
	require.NoError(t, err)
	var out []byte
	_, err = aligned.Pileup(t.Context(), &file{header, records}, aligned.Options{Threads: 1, Thresholds: filter.thresholds(&survey.Calls), Haplotypes: haplotype > 0}, func(contig string, row *pileup.Row) error {
		if row.Group != haplotype {
			return nil
		}
		out = pileup.AppendBED(out, contig, row, nil)
		return nil
	})
	require.NoError(t, err)
	return string(out)
}

// topic is one with partitions, whose records are those of its log.
type topic struct {
	t       testing.TB
	logs    [][]stream.Record
	watched []stream.Out // for the topic of watch, in the order they were written
}

func (tp *topic) put(out stream.Out) {
	p := out.Partition
	if p == stream.AnyPartition {
		p = stream.PartitionFor(out.Key, int32(len(tp.logs)))
	}
	tp.logs[p] = append(tp.logs[p], stream.Record{Topic: out.Topic, Partition: p, Offset: int64(len(tp.logs[p])), Key: out.Key, Value: out.Value, Headers: out.Headers})
}

// reads is the topic of reads, in an order that rng chooses, in which upstream workers report the runs' begins and ends.
func (s *scene) topic(t testing.TB, rng *rand.Rand, partitions int) *topic {
	tp := &topic{t: t, logs: make([][]stream.Record, partitions)}
	marker := func(run, sample string, source uint32, end bool) {
		mk := &streampb.Marker{Run: &streampb.Run{Id: run, Sample: sample, SampleRate: 4000}, Source: source, Sources: 2}
		value, err := stream.ReadsMarker(mk, end)
		require.NoError(t, err)
		for _, out := range stream.Broadcast("reads", int32(partitions), mk, end, value) {
			tp.put(out)
		}
	}
	for source := range uint32(2) {
		for run, sample := range map[string]string{"run-0": "a", "run-1": "a", "run-2": "b"} {
			marker(run, sample, source, false)
		}
	}
	order := rng.Perm(len(s.segments))
	for _, i := range order {
		for range 1 + rng.IntN(8)/7 { // some come twice
			seg := s.segments[i]
			value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_Segment{Segment: seg}})
			require.NoError(t, err)
			tp.put(stream.Out{Topic: "reads", Partition: stream.AnyPartition, Key: stream.RegionKey(seg.GetSample(), seg.GetContig(), seg.GetRegion()), Value: value})
		}
	}
	for _, run := range rng.Perm(3) {
		for _, source := range rng.Perm(2) {
			marker(fmt.Sprint("run-", run), []string{"a", "a", "b"}[run], uint32(source), true)
		}
	}
	return tp
}

// sequence is the topic of reads of runs one behind the other, of one upstream worker.
func (s *scene) sequence(t testing.TB, partitions int) *topic {
	tp := &topic{t: t, logs: make([][]stream.Record, partitions)}
	for n, sample := range []string{"a", "a", "b"} {
		mk := &streampb.Marker{Run: &streampb.Run{Id: fmt.Sprint("run-", n), Sample: sample, SampleRate: 4000}, Sources: 1}
		marker := func(end bool) {
			value, err := stream.ReadsMarker(mk, end)
			require.NoError(t, err)
			for _, out := range stream.Broadcast("reads", int32(partitions), mk, end, value) {
				tp.put(out)
			}
		}
		marker(false)
		for _, seg := range s.segments {
			if seg.GetRun() != mk.GetRun().GetId() {
				continue
			}
			value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_Segment{Segment: seg}})
			require.NoError(t, err)
			tp.put(stream.Out{Topic: "reads", Partition: stream.AnyPartition, Key: stream.RegionKey(seg.GetSample(), seg.GetContig(), seg.GetRegion()), Value: value})
		}
		marker(true)
	}
	return tp
}

func config(s *scene, filter Filter) Config {
	return Config{Topics: stream.NewTopics(""), MethylationPartitions: 3, Genome: s.genome, Filter: filter}
}

// run has one handler for each partition take turns until nothing is left, and returns the topic of methylation.
func run(t testing.TB, rng *rand.Rand, cfg Config, reads *topic) *topic {
	out := &topic{t: t, logs: make([][]stream.Record, cfg.MethylationPartitions)}
	handlers := make([]stream.Handler, len(reads.logs))
	next := make([]int, len(reads.logs))
	for p := range handlers {
		var err error
		handlers[p], err = New(cfg)("reads", int32(p), int32(len(reads.logs)))
		require.NoError(t, err)
	}
	for {
		var behind []int
		for p := range handlers {
			if next[p] < len(reads.logs[p]) {
				behind = append(behind, p)
			}
		}
		if len(behind) == 0 {
			return out
		}
		p := behind[rng.IntN(len(behind))]
		for _, e := range statetest.Handle(t, handlers[p], reads.logs[p][next[p]]) {
			for _, o := range e.Outs {
				switch o.Topic {
				case "reads":
					reads.put(o)
				case "methylation":
					out.put(o)
				case "watch":
					out.watched = append(out.watched, o)
				default:
					t.Fatalf("a record for %s: %s", o.Topic, o.Value)
				}
			}
		}
		next[p]++
	}
}

// folded is the newest counts of a sample as bedMethyl; all must be final, and every run have ended.
func folded(t testing.TB, s *scene, out *topic, sample string, partitions int) string {
	return foldedOf(t, s, out, sample, 0, partitions)
}

// foldedOf is those of a haplotype; 0: of all reads.
func foldedOf(t testing.TB, s *scene, out *topic, sample string, haplotype, partitions int) string {
	latest := make(map[string]*methylation.Stretch)
	ends := make(map[string]int)
	for _, log := range out.logs {
		here := make(map[string]int)
		for _, rec := range log {
			m, end, err := methylation.Decode(rec)
			require.NoError(t, err)
			if end != nil {
				ends[end.Run]++
				here[end.Run]++
				continue
			}
			runs := map[string][]string{"a": {"run-0", "run-1"}, "b": {"run-2"}}[m.Sample]
			require.True(t, slices.ContainsFunc(runs, func(run string) bool { return here[run] < partitions }), "behind the ends of all runs of sample %s", m.Sample)
			if known := latest[string(rec.Key)]; known != nil {
				require.Equal(t, known.Revision+1, m.Revision)
			}
			latest[string(rec.Key)] = m
		}
	}
	for _, run := range []string{"run-0", "run-1", "run-2"} {
		require.Equal(t, partitions*len(out.logs), ends[run], "ends of %s", run)
	}
	type line struct {
		rank int
		row  pileup.Row
		text string
	}
	var lines []line
	for _, m := range latest {
		if m.Sample != sample || m.Haplotype != haplotype {
			continue
		}
		require.Equal(t, methylation.Final, m.Status)
		code, err := modbase.ParseCode(m.Code)
		require.NoError(t, err)
		for i := range m.Sites.Pos {
			row := m.Sites.Row(i, code)
			lines = append(lines, line{s.genome.Rank(m.Stretch.Contig), row, string(pileup.AppendBED(nil, m.Stretch.Contig, &row, nil))})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.row.Pos, b.row.Pos), cmp.Compare(a.row.Strand, b.row.Strand), a.row.Code.Compare(b.row.Code))
	})
	var text strings.Builder
	for _, l := range lines {
		text.WriteString(l.text)
	}
	return text.String()
}

// TestSameAsOffline: whatever the order of reads and workers and the number of partitions, the final counts are those
// of pore pileup, to the byte.
func TestSameAsOffline(t *testing.T) {
	for seed := range uint64(4) {
		s := newScene(t, seed, 120)
		for name, filter := range map[string]Filter{
			"percentile": {Percentile: 0.1},
			"given":      {Thresholds: pileup.Thresholds{300, 320, 310, 300}, Given: [4]bool{true, true, true, true}},
			"one given":  {Thresholds: pileup.Thresholds{0, 330}, Given: [4]bool{1: true}, Percentile: 0.2},
		} {
			want := map[string]string{"a": s.offline(t, "a", filter), "b": s.offline(t, "b", filter)}
			require.NotEmpty(t, want["a"])
			require.NotEmpty(t, want["b"])
			for _, partitions := range []int{1, 4, 7} {
				rng := rand.New(rand.NewPCG(seed, uint64(partitions)))
				out := run(t, rng, config(s, filter), s.topic(t, rng, partitions))
				for sample, text := range want {
					equalLines(t, text, folded(t, s, out, sample, partitions), "seed %d, %s, %d partitions, sample %s", seed, name, partitions, sample)
				}
			}
		}
	}
}

// equalLines reports the first lines that differ.
func equalLines(t testing.TB, want, got string, what string, args ...any) {
	t.Helper()
	if want == got {
		return
	}
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		require.Equal(t, a[i], b[i], fmt.Sprintf("line %d: ", i+1)+fmt.Sprintf(what, args...))
	}
	require.Len(t, b, len(a), fmt.Sprintf(what, args...))
}

// TestLateReads: reads behind the ends of all runs of their sample change the final counts, thresholds of
// other partitions included; they are reported together, not one by one.
func TestLateReads(t *testing.T) {
	cut := pileup.Threshold(0.7)
	for _, late := range []int{1, 20} {
		for _, filter := range []Filter{{Percentile: 0.1}, {Thresholds: pileup.Thresholds{cut, cut, cut, cut}, Given: [4]bool{true, true, true, true}}} {
			s := newScene(t, 3, 80)
			rng := rand.New(rand.NewPCG(1, 1))
			reads := s.topic(t, rng, 4)
			from := slices.IndexFunc(reads.logs, func(log []stream.Record) bool { return slices.ContainsFunc(log, isSegment) })
			var first, last []stream.Record
			for _, rec := range reads.logs[from] {
				if isSegment(rec) && len(last) < late {
					last = append(last, rec)
				} else {
					first = append(first, rec)
				}
			}
			require.Len(t, last, late)
			reads.logs[from] = append(first, last...)
			for i := range reads.logs[from] {
				reads.logs[from][i].Offset = int64(i)
			}
			cfg := config(s, filter)
			cfg.FindMotifs = true
			out := run(t, rng, cfg, reads)
			excerpts := 0
			for _, log := range reads.logs {
				for _, rec := range log {
					m, err := stream.DecodeReads(rec.Value)
					require.NoError(t, err)
					if p := m.GetModifiedPlaces(); p != nil && p.GetSource() == uint32(from) && len(p.GetRuns()) > 0 && p.GetPart() == 0 {
						excerpts++
					}
				}
			}
			require.LessOrEqual(t, excerpts, 2*3, "%d late reads: of each sample once, and twice more", late)
			published := 0
			for _, rec := range reads.logs[0] {
				m, err := stream.DecodeReads(rec.Value)
				require.NoError(t, err)
				if c := m.GetModifiedCalls(); c != nil && c.GetSource() == uint32(from) {
					published++
				}
			}
			require.LessOrEqual(t, published, 2*2+1, "%d late reads: of each sample once, and once more", late)
			newest := make(map[string]*methylation.Stretch)
			for _, records := range out.logs {
				for _, rec := range records {
					m, _, err := methylation.Decode(rec)
					require.NoError(t, err)
					if m != nil {
						newest[string(rec.Key)] = m
					}
				}
			}
			for _, sample := range []string{"a", "b"} {
				rows := 0
				for _, m := range newest {
					if m.Sample == sample {
						require.Equal(t, methylation.Final, m.Status)
						rows += len(m.Sites.Pos)
					}
				}
				require.Equal(t, strings.Count(s.offline(t, sample, filter), "\n"), rows)
			}
		}
	}
}

func isSegment(rec stream.Record) bool {
	m, err := stream.DecodeReads(rec.Value)
	return err == nil && m.GetSegment() != nil
}

// TestCapacity: which reads are left out where not all fit follows from the set of reads.
func TestCapacity(t *testing.T) {
	s := newScene(t, 5, 150)
	cfg := config(s, Filter{Percentile: 0.1})
	cfg.MaxRegion = 40_000
	var want string
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 2))
		got := folded(t, s, run(t, rng, cfg, s.topic(t, rng, 3)), "a", 3)
		if want == "" {
			want = got
		}
		equalLines(t, want, got, "seed %d", seed)
	}
	require.NotEqual(t, strings.Count(s.offline(t, "a", cfg.Filter), "\n"), strings.Count(want, "\n"))
}

// TestStateLaw: a handler that is given its state goes on as one that has seen all records.
func TestStateLaw(t *testing.T) {
	for seed := range uint64(3) {
		s := newScene(t, seed, 60)
		cfg := config(s, Filter{Percentile: 0.1})
		if seed == 2 {
			cfg.MaxRegion = 30_000
			cfg.Watch = watching()
		}
		if seed == 1 {
			s = newSceneOf(t, seed, 80, gatc)
			cfg = config(s, cfg.Filter)
			cfg.FindMotifs = true
		}
		rng := rand.New(rand.NewPCG(seed, 3))
		reads := s.topic(t, rng, 2)
		run(t, rng, cfg, reads)
		laws(t, cfg, reads, seed)
	}
}

// laws holds the state of each of two partitions to what any handler's has to be.
func laws(t *testing.T, cfg Config, reads *topic, seed uint64) {
	t.Helper()
	for p, log := range reads.logs {
		statetest.Law(t, func() stream.Handler {
			h, err := New(cfg)("reads", int32(p), 2)
			require.NoError(t, err)
			return h
		}, log, 7, seed)
	}
}

// TestBadRecords: what can't be counted goes to the dead letters and leaves no trace.
func TestBadRecords(t *testing.T) {
	s := newScene(t, 1, 20)
	h, err := New(config(s, Filter{Percentile: 0.1}))("reads", 0, 1)
	require.NoError(t, err)
	before := statetest.Snapshot(t, h)
	i := slices.IndexFunc(s.segments, func(seg *streampb.Segment) bool { return len(seg.GetModified()) > 20 })
	spoil := func(f func(*streampb.Segment)) *streampb.ReadRecord {
		value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_Segment{Segment: s.segments[i]}})
		require.NoError(t, err)
		m, err := stream.DecodeReads(value)
		require.NoError(t, err)
		f(m.GetSegment())
		return m
	}
	for name, m := range map[string]*streampb.ReadRecord{
		"contig":   spoil(func(seg *streampb.Segment) { seg.Contig = "three" }),
		"cut":      spoil(func(seg *streampb.Segment) { seg.Modified = seg.Modified[:len(seg.Modified)-1] }),
		"too long": spoil(func(seg *streampb.Segment) { seg.Modified = append(seg.Modified, 0) }),
		"no base":  spoil(func(seg *streampb.Segment) { seg.Modified = []byte{1, 'X', 2, 0, 0, 0, 0, 0} }),
		"sources":  {Body: &streampb.ReadRecord_ModifiedCalls{ModifiedCalls: &streampb.ModifiedCalls{Source: 0, Sources: 9}}},
	} {
		value, err := stream.EncodeReads(m)
		require.NoError(t, err)
		emissions := statetest.Handle(t, h, stream.Record{Topic: "reads", Value: value})
		require.Len(t, emissions, 1, name)
		require.Len(t, emissions[0].Outs, 1, name)
		require.Equal(t, "dlq", emissions[0].Outs[0].Topic, name)
		require.Equal(t, before, statetest.Snapshot(t, h), name)
	}
	require.Error(t, h.State().RestoreSection("region/a/two/0", []byte{1, 2, 3}))
}

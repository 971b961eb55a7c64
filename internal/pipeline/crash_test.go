package pipeline

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/aligntest"
	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/diplotype"
	"github.com/porestream/porestream/annotate/haplotype"
	annotatestage "github.com/porestream/porestream/annotate/stage"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/pileup"
	methylatestage "github.com/porestream/porestream/modbase/stage"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/statetest"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/testenv"
	"github.com/porestream/porestream/variant"
	variantstage "github.com/porestream/porestream/variant/stage"
	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/watchlist"
	watchstage "github.com/porestream/porestream/watchlist/stage"
)

// lab is what the stages work with: the engines are shared by all worlds.
type lab struct {
	genome     *genome.Genome
	annotator  *annotate.Annotator
	haplotypes annotatestage.GeneHaplotypes
	watch      *watchlist.Watch
	targets    map[string]variant.Targets
	namer      *Namer
	gene       *diplotype.Definitions
	calling    variant.Config
}

const labPanels = "sha256:panels"

// labGene is a gene with a position where the recording has a variant, and one where it has none.
const labGene = `{"formatVersion": "2", "version": "1", "gene": "cI", "chromosome": "J02459.1", "genomeBuild": "lambda", "variants": [
	{"position": 37589, "rsid": "rs1", "ref": "C", "alts": ["T"], "cpicToVcfAlleleMap": {"C": "C", "T": "T"}},
	{"position": 46213, "rsid": "rs2", "ref": "G", "alts": ["A"], "cpicToVcfAlleleMap": {"G": "G", "A": "A"}}],
	"namedAlleles": [{"name": "*1", "reference": true, "cpicAlleles": ["C", "G"]}, {"name": "*2", "cpicAlleles": ["T", null], "corePositions": [37589]}]}`

func newLab(t testing.TB) *lab {
	t.Helper()
	dir := filepath.Join("..", "..", "testdata", "lambda")
	l := &lab{genome: aligntest.LambdaGenome(t), targets: make(map[string]variant.Targets)}
	model, err := annotate.LoadModel(filepath.Join(dir, "genes.gff3"), l.genome)
	require.NoError(t, err)
	l.annotator = annotate.New(l.genome, model)
	genes, err := haplotype.NewGenes(l.genome, model, false)
	require.NoError(t, err)
	l.haplotypes = annotatestage.GeneHaplotypes{Genes: genes}
	panel, err := watchlist.Load(filepath.Join(dir, "panel.yaml"))
	require.NoError(t, err)
	l.watch, err = watchlist.New(l.genome, l.annotator, panel)
	require.NoError(t, err)
	for _, target := range l.watch.Targets() {
		on := l.targets[target.Contig]
		on.Spans = append(on.Spans, variant.Span{Start: target.Start, End: target.End})
		l.targets[target.Contig] = on
	}
	for _, n := range l.watch.Named() {
		on := l.targets[n.Contig]
		on.Named = append(on.Named, variant.Named{Name: n.Name, Pos: n.Pos, Alleles: n.Alleles})
		l.targets[n.Contig] = on
	}
	l.gene, err = diplotype.Read(strings.NewReader(labGene))
	require.NoError(t, err)
	require.NoError(t, l.gene.On(l.genome))
	l.namer = NewNamer(l.genome, []*diplotype.Definitions{l.gene})
	return l
}

// world is the stages behind basecalling and the topics between them, in one
// goroutine, without a broker or a clock. Whatever is random comes from rng.
type world struct {
	t      testing.TB
	rng    *rand.Rand
	once   bool // output becomes visible together with the position
	topics map[string][][]stream.Record
	stages []*stageWorker
	faults map[string]int
}

// stageWorker is the owner of one partition.
type stageWorker struct {
	input      string
	partition  int32
	newHandler func() stream.Handler
	handler    stream.Handler

	position  int          // of the next record
	committed int          // position that survives the owner
	pending   []stream.Out // of records between these, if effects are to be seen once
	snapshots []snapshot   // newest last
}

type snapshot struct {
	at       int
	sections map[string]string
}

func newWorld(t testing.TB, l *lab, rng *rand.Rand, once bool, partitions map[string]int32) *world {
	names := stream.NewTopics("")
	w := &world{t: t, rng: rng, once: once, topics: make(map[string][][]stream.Record), faults: make(map[string]int)}
	for _, topic := range []string{names.Reads, names.Calls, names.Variants, names.Watch, names.Alerts, names.Methylation} {
		w.topics[topic] = make([][]stream.Record, partitions[topic])
	}
	for _, stage := range []struct {
		input      string
		newHandler stream.NewHandler
	}{
		{names.Reads, methylatestage.New(methylatestage.Config{
			Topics: names, MethylationPartitions: partitions[names.Methylation], Genome: l.genome, Filter: methylatestage.Filter{Percentile: 0.1}, FindMotifs: true, Haplotypes: true,
		})},
		{names.Reads, variantstage.New(variantstage.Config{
			Topics: names, CallsPartitions: partitions[names.Calls], Genome: l.genome, Variant: l.calling, Targets: l.targets, Panels: labPanels,
			Survey: variant.SurveyConfig{Blocks: true, Callable: true}, FindMotifs: true, Haplotypes: true, Followed: map[string][]int{"J02459.1": {37588, 46212}},
		})},
		{names.Calls, annotatestage.New(annotatestage.Config{
			Topics: names, VariantsPartitions: partitions[names.Variants], Annotator: l.annotator, Haplotypes: l.haplotypes,
			Watch: &annotatestage.Watch{Partitions: partitions[names.Watch], Panels: labPanels, Concerns: l.watch.Concerns},
		})},
		{names.Watch, watchstage.New(watchstage.Config{
			Topics: names, AlertsPartitions: partitions[names.Alerts], Watch: l.watch, Panels: labPanels,
		})},
	} {
		input, newHandler := stage.input, stage.newHandler
		for p := range partitions[input] {
			s := &stageWorker{input: input, partition: p, newHandler: func() stream.Handler {
				h, err := newHandler(input, p, partitions[input])
				require.NoError(t, err)
				return h
			}}
			s.handler = s.newHandler()
			w.stages = append(w.stages, s)
		}
	}
	slices.SortStableFunc(w.stages, func(a, b *stageWorker) int {
		return len(a.input)*100 + int(a.partition) - len(b.input)*100 - int(b.partition)
	})
	return w
}

// write appends records to their topics.
func (w *world) write(outs []stream.Out) {
	for _, o := range outs {
		log, ok := w.topics[o.Topic]
		require.True(w.t, ok, "a record goes to topic %s: %.200q", o.Topic, o.Value)
		p := o.Partition
		if p == stream.AnyPartition {
			p = stream.PartitionFor(o.Key, int32(len(log)))
		}
		log[p] = append(log[p], stream.Record{
			Topic: o.Topic, Partition: p, Offset: int64(len(log[p])), Key: o.Key, Value: o.Value, Headers: o.Headers,
		})
	}
}

// next is the record that a worker is to handle, if there is one.
func (w *world) next(s *stageWorker) (stream.Record, bool) {
	log := w.topics[s.input][s.partition]
	if s.position >= len(log) {
		return stream.Record{}, false
	}
	return log[s.position], true
}

// handle hands a worker its next record.
func (w *world) handle(s *stageWorker, rec stream.Record) {
	for _, e := range statetest.Handle(w.t, s.handler, rec) {
		if w.once {
			s.pending = append(s.pending, e.Outs...)
		} else {
			w.write(e.Outs)
		}
	}
	s.position++
}

// commit makes a worker's position and output last.
func (w *world) commit(s *stageWorker) {
	w.write(s.pending)
	s.pending, s.committed = nil, s.position
}

// snapshot keeps a worker's state, and the one before.
func (w *world) snapshot(s *stageWorker) {
	s.snapshots = append(s.snapshots, snapshot{s.position, statetest.Snapshot(w.t, s.handler)})
	s.snapshots = s.snapshots[max(0, len(s.snapshots)-2):]
	w.faults["snapshots"]++
}

// crash loses a worker, and gives its partition to another one, that goes on from
// the newest snapshot that the committed position has reached, or from nothing.
func (w *world) crash(s *stageWorker) {
	w.faults["crashes"]++
	s.handler, s.pending, s.position = s.newHandler(), nil, 0
	usable := slices.DeleteFunc(slices.Clone(s.snapshots), func(k snapshot) bool { return k.at > s.committed })
	if len(usable) > 0 {
		newest := usable[len(usable)-1]
		statetest.Restore(w.t, s.handler, newest.sections)
		require.Equal(w.t, newest.sections, statetest.Snapshot(w.t, s.handler))
		s.position = newest.at
		w.faults["restored from a snapshot"]++
	}
	for ; s.position < s.committed; s.position++ {
		require.NoError(w.t, s.handler.Replay(w.t.Context(), w.topics[s.input][s.partition][s.position]))
		w.faults["replayed"]++
	}
	s.snapshots = usable
}

// run goes on until nothing is left to do, with faults on the way.
func (w *world) run(faults bool) {
	for {
		var busy []*stageWorker
		for _, s := range w.stages {
			if _, ok := w.next(s); ok || s.committed < s.position {
				busy = append(busy, s)
			}
		}
		if len(busy) == 0 {
			return
		}
		s := busy[w.rng.IntN(len(busy))]
		if rec, ok := w.next(s); ok {
			w.handle(s, rec)
		} else {
			w.commit(s)
		}
		if w.rng.IntN(4) == 0 {
			w.commit(s)
		}
		if !faults {
			continue
		}
		if w.rng.IntN(12) == 0 {
			w.snapshot(s)
		}
		if w.rng.IntN(25) == 0 {
			w.crash(w.stages[w.rng.IntN(len(w.stages))])
		}
	}
}

// recording is runs of samples as basecalling hands them on.
type recording struct {
	runs     []*streampb.Run
	segments map[string][]*streampb.Segment // by run
}

// record is two runs of a sample on two flow cells, and one of another sample;
// reads have the same names in all runs.
func record(t testing.TB) recording {
	r := recording{segments: make(map[string][]*streampb.Segment)}
	for i, run := range []*streampb.Run{
		{Id: "cell-1", Sample: "phage", FlowCell: "A"}, {Id: "cell-2", Sample: "phage", FlowCell: "B"}, {Id: "cell-3", Sample: "phage/2", FlowCell: "A"},
	} {
		run.SampleRate = 4000
		r.runs = append(r.runs, run)
		for k, s := range aligntest.Lambda(t, run.GetId(), run.GetSample()) {
			modify(t, s, aligntest.LambdaGenome(t).Contig(s.GetContig()).Seq)
			// Where the variants are, and some of what is elsewhere.
			elsewhere := s.GetStart() <= 34_000
			if elsewhere && k%25 != i {
				s.MappingQuality = 1
			}
			if k%2 == i%2 && (!elsewhere || k%3 == 0) || k%25 == i {
				r.segments[run.GetId()] = append(r.segments[run.GetId()], s)
			}
		}
	}
	return r
}

// modify has a segment's read say of every other C, as it was sequenced, how probably it is modified: most probably at CG.
func modify(t testing.TB, s *streampb.Segment, ref []byte) {
	if s.GetAlignment() != 0 || s.GetSupplementary() {
		return
	}
	a := pileup.Aligned{Start: int(s.GetStart()), Reverse: s.GetReverse(), Bases: align.Query(s, ref)}
	for op, rest, ok := align.Ops(s.GetOps()).Next(); ok; op, rest, ok = rest.Next() {
		kind := map[align.OpKind]sam.CigarOpType{align.Insertion: sam.CigarInsertion, align.Deletion: sam.CigarDeletion}[op.Kind]
		a.Cigar = append(a.Cigar, sam.NewCigarOp(kind, op.Len))
	}
	list := modbase.List{Base: 'C', Codes: []modbase.Code{'m'}, Skipped: modbase.Unknown, Probabilities: []byte{}}
	read := bytes.Clone(a.Bases)
	if a.Reverse {
		genome.ReverseComplement(read)
	}
	n := 0
	for i, b := range read {
		if b != 'C' {
			continue
		}
		if n++; n%2 == 1 {
			continue
		}
		p := byte((n*37 + len(read)) % 120)
		if i+1 < len(read) && read[i+1] == 'G' {
			p = 240
		}
		list.Skips, list.Probabilities = append(list.Skips, 1), append(list.Probabilities, p)
	}
	packed, _, err := new(pileup.Calls).Pack(a, &modbase.Tags{Lists: []modbase.List{list}}, []pileup.Span{{Origin: a.Start, Start: a.Start, End: len(ref)}})
	require.NoError(t, err)
	s.Modified = packed[0]
}

// feed writes the recording to the reads topic, as several partitions of
// basecalling would, in random order and with repetitions.
func (w *world) feed(r recording, sources int) {
	t, topic := w.t, stream.NewTopics("").Reads
	partitions := int32(len(w.topics[topic]))
	var queues [][]stream.Out // by source and partition: a source's records are in order there
	for source := range sources {
		queue := make([][]stream.Out, partitions)
		mark := func(end bool) {
			for _, run := range r.runs {
				mk := &streampb.Marker{Run: run, Source: uint32(source), Sources: uint32(sources)}
				value, err := stream.ReadsMarker(mk, end)
				require.NoError(t, err)
				for p, o := range stream.Broadcast(topic, partitions, mk, end, value) {
					queue[p] = append(queue[p], o)
				}
			}
		}
		mark(false)
		var outs []stream.Out
		for _, run := range r.runs {
			for i, s := range r.segments[run.GetId()] {
				if i%sources != source {
					continue
				}
				value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_Segment{Segment: s}})
				require.NoError(t, err)
				outs = append(outs, stream.Out{Topic: topic, Key: stream.RegionKey(s.GetSample(), s.GetContig(), s.GetRegion()), Value: value})
				if w.rng.IntN(10) == 0 {
					outs = append(outs, outs[w.rng.IntN(len(outs))])
				}
			}
		}
		w.rng.Shuffle(len(outs), func(i, j int) { outs[i], outs[j] = outs[j], outs[i] })
		for _, o := range outs {
			o.Partition = stream.PartitionFor(o.Key, partitions)
			queue[o.Partition] = append(queue[o.Partition], o)
		}
		mark(true)
		queues = append(queues, queue...)
	}
	for {
		queues = slices.DeleteFunc(queues, func(q []stream.Out) bool { return len(q) == 0 })
		if len(queues) == 0 {
			return
		}
		i := w.rng.IntN(len(queues))
		w.write(queues[i][:1])
		queues[i] = queues[i][1:]
	}
}

// results are what consumers end with: a VCF for each sample, and its alerts.
func (w *world) results(r recording, l *lab) map[string]string {
	t, names := w.t, stream.NewTopics("")
	variants, alerts := NewFold(int32(len(w.topics[names.Variants]))), NewAlertFold(int32(len(w.topics[names.Alerts])))
	for _, log := range w.topics[names.Variants] {
		for _, rec := range log {
			_, err := variants.Add(rec)
			require.NoError(t, err)
		}
	}
	for _, log := range w.topics[names.Alerts] {
		for _, rec := range log {
			_, err := alerts.Add(rec)
			require.NoError(t, err)
		}
	}
	methylated := NewMethylationFold(int32(len(w.topics[names.Methylation])))
	for _, log := range w.topics[names.Methylation] {
		for _, rec := range log {
			_, err := methylated.Add(rec)
			require.NoError(t, err)
		}
	}
	files := make(map[string]string)
	for _, run := range r.runs {
		sample := run.GetSample()
		require.True(t, variants.Ended(run.GetId()), "run %s has not ended on variants", run.GetId())
		require.True(t, alerts.Ended(run.GetId()), "run %s has not ended on alerts", run.GetId())
		require.True(t, methylated.Ended(run.GetId()), "run %s has not ended on methylation", run.GetId())
		require.True(t, methylated.Final(sample))
		var modified bytes.Buffer
		require.NoError(t, methylated.WriteBedMethyl(&modified, sample, 0, l.genome.Rank))
		files[sample+".methylation"] = modified.String()
		var vcf bytes.Buffer
		require.NoError(t, WriteVCF(&vcf, l.genome, sample, variant.Config{}, "", variants.Variants(sample, l.genome.Rank)))
		files[sample+".vcf"] = vcf.String()
		records := variants.ReferenceRecords(sample, l.genome)
		var gvcf, callable bytes.Buffer
		require.NoError(t, WriteGVCF(&gvcf, variant.Config{}, "", variant.AnyAllele, records, variants.Variants(sample, l.genome.Rank)))
		require.NoError(t, WriteCallable(&callable, records))
		files[sample+".g.vcf"], files[sample+".bed"] = gvcf.String(), callable.String()
		var named bytes.Buffer
		out := bufio.NewWriter(&named)
		require.NoError(t, l.namer.Write(out, variants, sample))
		require.NoError(t, out.Flush())
		files[sample+".diplotypes"] = named.String()
		require.Equal(t, diplotype.TableHeader+"\n"+ofGVCF(t, l.gene, sample, files[sample+".g.vcf"])+"\n", named.String())
		require.Equal(t, named.String(), l.followed(t, w.topics[names.Variants])[sample])
		var said bytes.Buffer
		for _, a := range alerts.Alerts(sample) {
			a := *a
			a.ID, a.Revision, a.Previous = "", 0, ""
			document, err := a.JSON()
			require.NoError(t, err)
			fmt.Fprintf(&said, "%s\n", document)
		}
		files[sample+".alerts"] = said.String()
	}
	for p, log := range w.topics[names.Reads] {
		for _, rec := range log {
			m, err := stream.DecodeReads(rec.Value)
			require.NoError(t, err)
			if found := m.GetModifiedMotifs(); len(found.GetRuns()) > 0 {
				said := fmt.Sprint(found.GetRuns(), found.GetMotifs())
				if before := files[found.GetSample()+".motifs"]; p > 0 || before != "" {
					require.Equal(t, before, said)
				}
				files[found.GetSample()+".motifs"] = said
			}
		}
	}
	return files
}

// ofGVCF is the row of the calls of a gVCF.
func ofGVCF(t testing.TB, d *diplotype.Definitions, sample, text string) string {
	t.Helper()
	r, err := vcf.NewReader(strings.NewReader(text))
	require.NoError(t, err)
	s := diplotype.NewSample(d, diplotype.DefaultLeast())
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return d.Row(sample, s.Call()).String()
		}
		require.NoError(t, err)
		require.NoError(t, s.Add(rec, 0))
	}
}

// followed is what somebody who follows the topic reads last of each sample, as a table.
func (l *lab) followed(t testing.TB, topic [][]stream.Record) map[string]string {
	t.Helper()
	f := NewDiplotypeFold(l.namer, int32(len(topic)))
	said, final := make(map[string]string), make(map[string]string)
	for _, log := range topic {
		for _, rec := range log {
			list, err := f.Add(rec)
			require.NoError(t, err)
			for _, n := range list {
				if n.Status == streampb.CallStatus_FINAL.String() {
					require.Equal(t, cmp.Or(final[n.Sample], n.Text()), n.Text(), "there are two FINAL")
					final[n.Sample] = n.Text()
				}
				said[n.Sample] = fmt.Sprintf("%s\n%s\n", diplotype.TableHeader, n.Row)
				require.True(t, strings.HasPrefix(n.Text(), n.Status+" "+n.Sample+" cI "), n.Text())
			}
		}
	}
	require.Len(t, final, len(said), "samples that have ended are FINAL")
	return said
}

// twice counts the records of what is public that are there more than once, and
// fails if two of one key and revision differ.
func (w *world) twice() int {
	names, n := stream.NewTopics(""), 0
	for _, topic := range []string{names.Variants, names.Alerts, names.Methylation} {
		for _, log := range w.topics[topic] {
			seen := make(map[string]string)
			for _, rec := range log {
				id := string(rec.Key)
				for _, h := range rec.Headers {
					if h.Key == "ce_id" {
						id += " " + string(h.Value)
					}
				}
				content := fmt.Sprintf("%q %q", rec.Value, rec.Headers)
				if old, ok := seen[id]; ok {
					require.Equal(w.t, old, content, "two events of one id on %s", topic)
					n++
				}
				seen[id] = content
			}
		}
	}
	return n
}

// worlds is how many random worlds are tried: n, or PORESTREAM_CASES.
func worlds(t testing.TB, n int) int {
	s := os.Getenv("PORESTREAM_CASES")
	if s == "" {
		return n
	}
	cases, err := strconv.Atoi(s)
	require.NoError(t, err, "PORESTREAM_CASES")
	return cases
}

// TestSameResultWhateverCrashes: stages that are killed at any moment, and go on
// from snapshots and the log, lead to the same VCF, the same alerts and the same
// counts of modified bases as ones that never stop, over any number of partitions, in any order.
func TestSameResultWhateverCrashes(t *testing.T) {
	testenv.CalculatesLong(t)
	l, r := newLab(t), record(t)
	names := stream.NewTopics("")
	reference := newWorld(t, l, rand.New(rand.NewPCG(0, 0)), true, map[string]int32{names.Reads: 1, names.Calls: 1, names.Variants: 1, names.Watch: 1, names.Alerts: 1, names.Methylation: 1})
	reference.feed(r, 1)
	reference.run(false)
	want := reference.results(r, l)
	require.Zero(t, reference.twice())
	require.Contains(t, want["phage.vcf"], "\t37589\t", "the VCF is empty:\n%s", want["phage.vcf"])
	require.Contains(t, want["phage.g.vcf"], "END=48502", "blocks reach the end")
	require.Greater(t, strings.Count(want["phage.methylation"], "\n"), 1000)
	for _, callability := range []string{"\tCALLABLE\n", "\tLOW_DEPTH\n", "\tLOW_MAPPING_QUALITY\n"} {
		require.Contains(t, want["phage.bed"], callability)
	}
	require.Contains(t, want["phage.alerts"], `"state":"DETECTED"`)
	require.Equal(t, "[cell-1 cell-2] [CG]", want["phage.motifs"])

	faults := make(map[string]int)
	n := 2 // one with effects once, one with effects at least once
	if testenv.All() {
		n = 8
	}
	for seed := range uint64(worlds(t, n)) {
		rng := rand.New(rand.NewPCG(seed, 4242))
		partitions := make(map[string]int32)
		for _, topic := range []string{names.Reads, names.Calls, names.Variants, names.Watch, names.Alerts, names.Methylation} {
			partitions[topic] = 1 + rng.Int32N(8)
		}
		once := seed%2 == 0
		w := newWorld(t, l, rng, once, partitions)
		w.feed(r, 1+rng.IntN(3))
		w.run(true)
		got := w.results(r, l)
		for _, file := range slices.Sorted(maps.Keys(want)) {
			require.Equal(t, want[file], got[file], "seed %d, effects once: %v: %s", seed, once, file)
		}
		if n := w.twice(); once {
			require.Zero(t, n, "seed %d: events are there twice", seed)
		}
		for fault, n := range w.faults {
			faults[fault] += n
		}
	}
	for _, fault := range []string{"crashes", "snapshots", "restored from a snapshot", "replayed"} {
		require.Greater(t, faults[fault], 10, "%v", faults)
	}
	t.Logf("%v", faults)
}

package pipeline

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

func variantRecord(t testing.TB, sample, contig string, pos int64, revision uint64, status streampb.CallStatus) stream.Record {
	t.Helper()
	v := event.FromCall(&streampb.Call{
		Run: "run", Sample: sample, VrsId: fmt.Sprintf("ga4gh:VA.%s%d", contig, pos), Contig: contig, Pos: pos, Ref: "A", Alt: "G",
		Revision: revision, Status: status, Qual: float64(revision), Genotype: []uint32{1},
	}, annotate.Annotation{})
	o, err := v.Record("variants")
	if err != nil {
		t.Fatal(err)
	}
	return stream.Record{Topic: "variants", Partition: stream.PartitionFor(o.Key, 3), Key: o.Key, Value: o.Value, Headers: o.Headers}
}

func endRecords(t testing.TB, run string, source, sources uint32) []stream.Record {
	t.Helper()
	outs, err := event.RunEndRecords("variants", 3, &streampb.Marker{Run: &streampb.Run{Id: run, Sample: "a"}, Source: source, Sources: sources})
	if err != nil {
		t.Fatal(err)
	}
	var recs []stream.Record
	for _, o := range outs {
		recs = append(recs, stream.Record{Topic: "variants", Partition: o.Partition, Key: o.Key, Value: o.Value, Headers: o.Headers})
	}
	return recs
}

func rank(contig string) int { return slices.Index([]string{"chr2", "chr1"}, contig) }

func add(t testing.TB, f *Fold, rec stream.Record) *event.Variant {
	t.Helper()
	v, err := f.Add(rec)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestFoldProperties: whatever the order of the records and however often each
// comes, the state is the same, and a run has ended exactly when every source
// has said so in every partition.
func TestFoldProperties(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 41))
		newest := make(map[string]stream.Record) // by key
		alive := make(map[string]map[string]bool)
		var recs []stream.Record
		for _, sample := range []string{"a", "b"} {
			alive[sample] = make(map[string]bool)
			for range rng.IntN(12) {
				contig, pos := []string{"chr1", "chr2"}[rng.IntN(2)], int64(1+rng.IntN(50))
				revisions := 1 + rng.IntN(4)
				status := streampb.CallStatus(1 + rng.IntN(5))
				for r := 1; r <= revisions; r++ {
					rec := variantRecord(t, sample, contig, pos, uint64(r), status)
					recs = append(recs, rec)
					if old, ok := newest[string(rec.Key)]; !ok || revisionOf(t, rec) > revisionOf(t, old) {
						newest[string(rec.Key)] = rec
					}
				}
			}
		}
		// Of one revision there is one document: the first that was made.
		byID := make(map[string]stream.Record)
		recs = slices.DeleteFunc(recs, func(rec stream.Record) bool {
			id := fmt.Sprint(string(rec.Key), revisionOf(t, rec))
			_, dup := byID[id]
			if !dup {
				byID[id] = rec
			}
			return dup
		})
		for key, rec := range newest {
			first := byID[fmt.Sprint(key, revisionOf(t, rec))]
			v, _, err := event.Decode(first)
			if err != nil {
				t.Fatal(err)
			}
			if v.Status != "RETRACTED" {
				alive[v.Sample][fmt.Sprintf("%d %s:%d rev %d", rank(v.Allele.Contig), v.Allele.Contig, v.Allele.Pos, v.Revision)] = true
			}
		}
		sources := map[string]uint32{"run-1": 1 + uint32(rng.IntN(3)), "run-2": 2}
		for run, n := range sources {
			for source := range n {
				recs = append(recs, endRecords(t, run, source, n)...)
			}
		}
		for range 2 {
			again := slices.Clone(recs)
			for range rng.IntN(20) {
				again = append(again, recs[rng.IntN(len(recs))])
			}
			rng.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })

			f := NewFold(3)
			ends := make(map[string]map[string]bool)
			for _, rec := range again {
				add(t, f, rec)
				if _, end, _ := event.Decode(rec); end != nil {
					if ends[end.Run] == nil {
						ends[end.Run] = make(map[string]bool)
					}
					ends[end.Run][fmt.Sprint(rec.Partition, "/", end.Source)] = true
				}
				for run, n := range sources {
					if f.Ended(run) != (len(ends[run]) == 3*int(n)) {
						t.Fatalf("seed %d: %s has ended: %v, with %d of %d ends", seed, run, f.Ended(run), len(ends[run]), 3*n)
					}
				}
			}
			for sample, want := range alive {
				got := make(map[string]bool)
				list := f.Variants(sample, rank)
				for _, v := range list {
					got[fmt.Sprintf("%d %s:%d rev %d", rank(v.Allele.Contig), v.Allele.Contig, v.Allele.Pos, v.Revision)] = true
				}
				if !maps.Equal(got, want) || len(list) != len(want) {
					t.Fatalf("seed %d: sample %s has %v, want %v", seed, sample, got, want)
				}
				if !slices.IsSortedFunc(list, func(a, b *event.Variant) int {
					return 1000*(rank(a.Allele.Contig)-rank(b.Allele.Contig)) + int(a.Allele.Pos-b.Allele.Pos)
				}) {
					t.Fatalf("seed %d: variants of %s are not in the reference's order", seed, sample)
				}
			}
		}
	}
}

func revisionOf(t testing.TB, rec stream.Record) uint64 {
	t.Helper()
	v, _, err := event.Decode(rec)
	if err != nil || v == nil {
		t.Fatal(err)
	}
	return v.Revision
}

func TestFold(t *testing.T) {
	f := NewFold(3)
	if f.Ended("run-1") || f.Samples() != nil || f.Variants("a", rank) != nil {
		t.Error("an empty topic has something")
	}
	if v := add(t, f, variantRecord(t, "a", "chr1", 5, 2, streampb.CallStatus_STABLE)); v == nil || v.Revision != 2 {
		t.Errorf("a new revision brings %v", v)
	}
	for _, revision := range []uint64{1, 2} {
		if v := add(t, f, variantRecord(t, "a", "chr1", 5, revision, streampb.CallStatus_FINAL)); v != nil {
			t.Errorf("revision %d behind revision 2 brings %v", revision, v)
		}
	}
	add(t, f, variantRecord(t, "b", "chr1", 5, 1, streampb.CallStatus_RETRACTED))
	if got := f.Samples(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("samples %v", got)
	}
	if got := f.Variants("b", rank); len(got) != 0 {
		t.Errorf("a retracted variant is listed: %v", got)
	}
	if got := f.passed([]*streampb.Run{{Sample: "b"}}); got != 0 {
		t.Errorf("%d variants of b passed", got)
	}
	if got := f.passed([]*streampb.Run{{Sample: "a"}, {Sample: "a"}, {Sample: "b"}}); got != 1 {
		t.Errorf("%d variants passed, want 1", got)
	}
	if v := add(t, f, stream.Record{Value: []byte("foreign")}); v != nil {
		t.Errorf("a foreign record brings %v", v)
	}
	bad := variantRecord(t, "a", "chr1", 5, 3, streampb.CallStatus_STABLE)
	bad.Value = bad.Value[1:]
	if _, err := f.Add(bad); err == nil {
		t.Error("a damaged record was accepted")
	}
}

// TestFoldOfRepartitionedRun: a run that came over two partitions and again over
// four has ended when the four have ended it, in any order.
func TestFoldOfRepartitionedRun(t *testing.T) {
	var old, young []stream.Record
	for source := range uint32(2) {
		old = append(old, endRecords(t, "run-1", source, 2)...)
	}
	for source := range uint32(4) {
		young = append(young, endRecords(t, "run-1", source, 4)...)
	}
	for name, recs := range map[string][]stream.Record{"old first": slices.Concat(old, young), "young first": slices.Concat(young, old)} {
		f := NewFold(3)
		for _, rec := range recs {
			add(t, f, rec)
		}
		if !f.Ended("run-1") {
			t.Errorf("%s: the run has not ended", name)
		}
	}
	f := NewFold(3)
	for _, rec := range slices.Concat(young[:3], old) {
		add(t, f, rec)
	}
	if f.Ended("run-1") {
		t.Error("the run has ended though three sources of four have not")
	}
}

func testGenome(t testing.TB) *genome.Genome {
	t.Helper()
	g, err := genome.Read(strings.NewReader(">chr2\nAAAAAAAAAA\n>chr1\nAAAAAAAAAA\n"))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestWriteResults(t *testing.T) {
	f := NewFold(3)
	for _, rec := range []stream.Record{
		variantRecord(t, "a", "chr1", 5, 1, streampb.CallStatus_FINAL), variantRecord(t, "a", "chr2", 7, 1, streampb.CallStatus_FINAL),
		variantRecord(t, "a", "chr1", 2, 1, streampb.CallStatus_RETRACTED), variantRecord(t, "b/c", "chr1", 3, 1, streampb.CallStatus_FINAL),
	} {
		add(t, f, rec)
	}
	for _, c := range []struct {
		runs []*streampb.Run
		want []string
	}{
		{[]*streampb.Run{{Sample: "a"}}, []string{"summary.json", "variants.jsonl", "variants.vcf"}},
		{[]*streampb.Run{{Sample: "b/c"}, {Sample: "a"}, {Sample: "a"}}, []string{
			"a.variants.jsonl", "a.variants.vcf", "b_c.variants.jsonl", "b_c.variants.vcf", "summary.json",
		}},
	} {
		dir := t.TempDir()
		r := &Result{Genome: testGenome(t), Runs: c.runs, Fold: f, Summary: Summary{Reads: 3}}
		for range 2 { // a second time replaces
			if err := r.Write(t.Context(), dir); err != nil {
				t.Fatal(err)
			}
		}
		var names []string
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if !slices.Equal(names, c.want) {
			t.Fatalf("files %q, want %q", names, c.want)
		}
		if listed := slices.Sorted(maps.Values(r.Summary.Files)); !slices.Equal(listed, slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasSuffix(n, "variants.vcf") })) {
			t.Errorf("the summary names %q, the files are %q", listed, names)
		}
		name := func(kind string) string {
			return filepath.Join(dir, names[slices.IndexFunc(names, func(n string) bool { return strings.HasSuffix(n, kind) })])
		}
		text, err := os.ReadFile(name(".vcf"))
		if err != nil {
			t.Fatal(err)
		}
		var places []string
		for line := range strings.Lines(string(text)) {
			if fields := strings.Split(line, "\t"); !strings.HasPrefix(line, "#") {
				places = append(places, fields[0]+":"+fields[1])
			}
		}
		if want := []string{"chr2:7", "chr1:5"}; !slices.Equal(places, want) {
			t.Errorf("VCF holds %q, want %q", places, want)
		}
		jsonl, err := os.ReadFile(name(".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(jsonl), "\n"); n != 2 || !strings.HasPrefix(string(jsonl), `{"schema_version":1,`) {
			t.Errorf("%d lines of JSON: %s", n, jsonl)
		}
	}
	dir := t.TempDir()
	alike := &Result{Genome: testGenome(t), Runs: []*streampb.Run{{Sample: "b/c"}, {Sample: "b:c"}}, Fold: f}
	if err := alike.Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*.vcf")); err != nil || len(files) != 2 {
		t.Errorf("samples whose file names are alike share files: %v, %v", files, err)
	}
	r := &Result{Genome: testGenome(t), Runs: []*streampb.Run{{Sample: "a"}}, Fold: f}
	removed := filepath.Join(t.TempDir(), "removed")
	if err := r.Write(t.Context(), removed); err != nil {
		t.Errorf("a folder that was removed is no reason to lose results: %v", err)
	}
	if err := r.Write(t.Context(), filepath.Join(removed, "variants.vcf")); err == nil || !strings.HasPrefix(err.Error(), "making the folder for the results: ") {
		t.Errorf("writing into a file: %v", err)
	}
}

// referenceRecord is the record of a contig without a variant.
func referenceRecord(t testing.TB, sample string, block event.ReferenceBlock, callable string) stream.Record {
	t.Helper()
	block.Pos, block.End, block.PhredLikelihoods = 1, 10, []uint32{0, 0}
	o, err := event.Reference{
		SchemaVersion: 1, Run: "run", Sample: sample, Revision: 1, Stretch: event.Stretch{Contig: "chr1", Pos: 1, End: 10},
		Blocks: []event.ReferenceBlock{block}, Callable: []event.CallableSpan{{Pos: 1, End: 10, Callability: callable}},
	}.Record("variants")
	if err != nil {
		t.Fatal(err)
	}
	return stream.Record{Topic: "variants", Partition: stream.PartitionFor(o.Key, 3), Key: o.Key, Value: o.Value, Headers: o.Headers}
}

// TestSilentBarcodes: of the barcodes that a kit has, those without reads have no files, whatever records their places have,
// unless a sample sheet names them.
func TestSilentBarcodes(t *testing.T) {
	f := NewFold(3)
	for _, rec := range []stream.Record{
		variantRecord(t, "called", "chr1", 5, 1, streampb.CallStatus_FINAL),
		referenceRecord(t, "deep", event.ReferenceBlock{Depth: 3, MinDepth: 3, Quality: 9}, "LOW_DEPTH"),
		referenceRecord(t, "elsewhere", event.ReferenceBlock{}, "LOW_MAPPING_QUALITY"),
		referenceRecord(t, "shallow", event.ReferenceBlock{}, "NO_COVERAGE"),
		referenceRecord(t, "silent", event.ReferenceBlock{}, "NO_COVERAGE"),
		referenceRecord(t, "listed", event.ReferenceBlock{}, "NO_COVERAGE"),
	} {
		add(t, f, rec)
	}
	kit := &streampb.Run{Id: "run", Sample: "s", Samples: []string{"called", "deep", "elsewhere", "listed", "shallow", "silent"}}
	sheet := &streampb.Run{Id: "other", Sample: "s", Samples: []string{"listed"}, SamplesListed: true}
	r := &Result{Genome: testGenome(t), Runs: []*streampb.Run{kit, sheet}, Fold: f, Summary: Summary{Models: map[string][]SampleModel{"shallow": {{Reads: 1}}}}}
	dir := t.TempDir()
	if err := r.Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	want := []string{"called", "deep", "elsewhere", "listed"}
	if got := slices.Sorted(maps.Keys(r.Summary.Files)); !slices.Equal(got, want) || r.Summary.SilentBarcodes != 2 {
		t.Errorf("files of %q and %d silent barcodes, want those of %q and 2", got, r.Summary.SilentBarcodes, want)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*.variants.vcf")); err != nil || len(files) != len(want) {
		t.Errorf("files %q, %v", files, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil || !strings.Contains(string(text), `"silent_barcodes": 2`) {
		t.Errorf("the summary doesn't tell of silent barcodes: %s, %v", text, err)
	}
	r.Survey.GVCF = true
	if got, silent := r.samples(); !slices.Equal(got, append(want, "shallow")) || silent != 1 {
		t.Errorf("with a gVCF files of %q and %d silent barcodes, want those of %q and 1", got, silent, append(want, "shallow"))
	}
}

func TestQuantiles(t *testing.T) {
	if got := quantiles(nil); got != (Latency{}) {
		t.Errorf("of nothing: %v", got)
	}
	var latencies []time.Duration
	for i := range 101 {
		latencies = append(latencies, time.Duration(100-i)*time.Millisecond)
	}
	if got := quantiles(latencies); got != (Latency{P50: 50, P99: 99}) {
		t.Errorf("of 0 to 100 ms: %v", got)
	}
	if got := quantiles([]time.Duration{1500 * time.Microsecond}); got != (Latency{P50: 1.5, P99: 1.5}) {
		t.Errorf("of one: %v", got)
	}
}

func TestGather(t *testing.T) {
	reg := prometheus.NewRegistry()
	plain := prometheus.NewCounter(prometheus.CounterOpts{Name: "plain_total"})
	one := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "one_total"}, []string{"outcome"})
	two := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "two_total"}, []string{"stage", "code"})
	reg.MustRegister(plain, one, two, prometheus.NewGauge(prometheus.GaugeOpts{Name: "gauge"}))
	plain.Add(3)
	one.WithLabelValues("mapped").Add(4)
	one.WithLabelValues("short").Add(5)
	two.WithLabelValues("a", "x").Add(6)
	two.WithLabelValues("b", "x").Add(7)
	got, err := gather(reg)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"plain_total": 3, "one_total{mapped}": 4, "one_total{short}": 5, "two_total": 13}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("gathered %v, want %v", got, want)
	}
}

// The summary's motifs are those of the runs' samples, by the newest revisions.
func TestFoldMotifs(t *testing.T) {
	f := NewFold(3)
	for i, sample := range []string{"a", "a", "other"} {
		v := event.FromCall(&streampb.Call{
			Run: "run", Sample: sample, VrsId: fmt.Sprint("ga4gh:VA.", i), Contig: "chr1", Pos: int64(10 + i), Ref: "A", Alt: "G", Revision: 1,
			Status: streampb.CallStatus_FINAL, Genotype: []uint32{0, 1}, Filters: []string{"MotifArtifact"},
			Motif: &streampb.MotifError{Motif: "GATC", Base: 2, Shows: "G", Sites: 90, Affected: 80, Reads: 800, Wrong: 200},
		}, annotate.Annotation{})
		o, err := v.Record("variants")
		if err != nil {
			t.Fatal(err)
		}
		add(t, f, stream.Record{Topic: "variants", Key: o.Key, Value: o.Value, Headers: o.Headers})
	}
	add(t, f, variantRecord(t, "a", "chr1", 500, 1, streampb.CallStatus_FINAL))
	runs := []*streampb.Run{{Id: "run", Sample: "a"}}
	want := []event.MotifCount{{Sample: "a", Motif: "GATC", Base: 2, Shows: "G", Sites: 90, Affected: 80, Share: 0.25, Alleles: 2}}
	if got := f.motifs(runs); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if n := f.passed(runs); n != 1 {
		t.Errorf("%d variants passed, want 1", n)
	}
}

package monitor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// page follows the problems as a page does.
type problemPage map[string]monitor.Problem

func (p problemPage) follow(t testing.TB, v *monitor.View, now time.Time) {
	t.Helper()
	for _, e := range v.Changes(now) {
		if e.Name != monitor.EventProblems {
			continue
		}
		var all monitor.Problems
		require.NoError(t, json.Unmarshal(e.Data, &all))
		for _, id := range all.Remove {
			delete(p, id)
		}
		for _, problem := range all.Upsert {
			require.NotEmpty(t, problem.Title)
			require.NotEmpty(t, problem.Do, problem.ID)
			p[problem.ID] = problem
		}
	}
}

func (p problemPage) ids() []string { return slices.Sorted(maps.Keys(p)) }

func letter(offset int64, code string) stream.Record {
	rec := stream.Record{Topic: "signal", Partition: 3, Offset: 100 + offset, Key: []byte("k"), Value: []byte("v")}
	out := stream.DeadLetter(topics.DeadLetters, rec, "basecall", &stream.DecodeError{Code: code, Reason: "it is so"})
	return stream.Record{Topic: out.Topic, Offset: offset, Key: out.Key, Value: out.Value, Headers: out.Headers, Time: start.Add(time.Duration(offset) * time.Second)}
}

// Dead letters are shown by stage and code, and no more once all were sent back.
func TestDeadLettersAreReported(t *testing.T) {
	v, page := monitor.NewView(topics, monitor.Limits{}), problemPage{}
	add(t, v, letter(1, "checksum"), letter(2, "checksum"), letter(2, "checksum"), letter(3, "of tomorrow"))
	now := start.Add(time.Minute)
	page.follow(t, v, now)
	require.Equal(t, []string{"dead-letters/basecall/checksum", "dead-letters/basecall/of tomorrow"}, page.ids())
	p := page["dead-letters/basecall/checksum"]
	assert.EqualValues(t, 2, p.Count)
	assert.Contains(t, p.Detail, "signal, partition 3, offset 102: checksum: it is so")
	assert.Equal(t, start.Add(time.Second), p.First)
	assert.EqualValues(t, 3, v.Summary(now).Totals.DeadLetters)
	assert.Equal(t, monitor.HealthWarning, v.Summary(now).Health.State)

	for n := range int64(2) {
		add(t, v, stream.Record{Topic: topics.DeadLetters, Offset: 10 + n, Headers: []stream.Header{{Key: stream.HeaderRedriven, Value: fmt.Append(nil, n+1)}}})
	}
	page.follow(t, v, now.Add(2*time.Second))
	require.Equal(t, []string{"dead-letters/basecall/of tomorrow"}, page.ids())
	require.Error(t, v.Add(stream.Record{Topic: topics.DeadLetters}))
}

// measured is a report of ingest with metrics.
func measured(t testing.TB, seconds int, measures ...*streampb.Measure) stream.Record {
	return status(t, &streampb.Status{Instance: "i", Sequence: uint64(seconds + 1), TimeMs: start.Add(time.Duration(seconds) * time.Second).UnixMilli(), Body: &streampb.Status_Process{
		Process: &streampb.ProcessReport{Kind: "ingest", Host: "lab", StartedMs: start.UnixMilli(), Stages: []string{"ingest"}, Measures: measures},
	}})
}

func measure(name string, value float64, labels ...string) *streampb.Measure {
	return &streampb.Measure{Name: name, Value: value, Labels: labels}
}

// Partitions that are added under a process are shown as long as it runs: nothing mends the results of the runs that were under way.
func TestAddedPartitionsAreAProblem(t *testing.T) {
	v, page := monitor.NewView(topics, monitor.Limits{}), problemPage{}
	at := func(n int, measures ...*streampb.Measure) {
		add(t, v, measured(t, n, measures...))
		page.follow(t, v, start.Add(time.Duration(n)*time.Second))
	}
	at(0, measure("porestream_stream_partition_changes_total", 0, "topic", "reads"))
	require.Empty(t, page.ids())
	for n := 1; n < 400; n++ {
		at(n, measure("porestream_stream_partition_changes_total", 1, "topic", "reads"))
		require.Equal(t, []string{"partitions/i/reads"}, page.ids())
	}
	require.Equal(t, monitor.SeverityError, page["partitions/i/reads"].Severity)
	require.Contains(t, page["partitions/i/reads"].Title, "topic reads")
}

// A lasting problem is shown once it has lasted for a while, and as long as it lasts. An event of the past is shown
// for some time after it.
func TestProblemsComeAndGo(t *testing.T) {
	v, page := monitor.NewView(topics, monitor.Limits{}), problemPage{}
	source := []string{"source", "minknow"}
	at := func(n int, measures ...*streampb.Measure) {
		add(t, v, measured(t, n, measures...))
		page.follow(t, v, start.Add(time.Duration(n)*time.Second))
	}
	for n := range 40 {
		at(n, measure("porestream_ingest_lateness_seconds", 20, source...), measure("porestream_ingest_spool_bytes", 60, source...),
			measure("porestream_ingest_spool_limit_bytes", 100, source...), measure("porestream_stream_snapshot_errors_total", 0, "group", "g"))
		late := slices.Contains(page.ids(), "late/i/minknow")
		require.Equal(t, n >= 30, late, "after %d s", n)
		require.Contains(t, page, "spool/i/minknow")
	}
	require.Equal(t, monitor.SeverityWarning, page["spool/i/minknow"].Severity)
	require.Contains(t, page["spool/i/minknow"].Title, "60 %")
	for n := 40; n < 50; n++ {
		at(n, measure("porestream_ingest_spool_bytes", 99, source...), measure("porestream_ingest_spool_limit_bytes", 100, source...),
			measure("porestream_stream_snapshot_errors_total", 1, "group", "g"))
	}
	require.NotContains(t, page, "late/i/minknow")
	require.Equal(t, monitor.SeverityError, page["spool/i/minknow"].Severity)
	require.Contains(t, page, "event/PorestreamSnapshotOld/i/g")
	for n := 50; n < 200; n++ {
		at(n, measure("porestream_stream_snapshot_errors_total", 1, "group", "g"))
	}
	require.Equal(t, []string{"event/PorestreamSnapshotOld/i/g"}, page.ids(), "what has happened is told for a while")
	for n := 200; n < 1200; n += 5 {
		at(n, measure("porestream_stream_snapshot_errors_total", 1, "group", "g"))
	}
	require.Empty(t, page.ids())

	v.Unreadable("variants", errors.New("not authorized"))
	for n := 1200; n < 1207; n++ {
		at(n)
	}
	require.Equal(t, []string{"unreadable/variants"}, page.ids())
	require.Equal(t, []string{"variants: not authorized"}, v.Summary(start.Add(1206*time.Second)).Unreadable)
	v.Unreadable("variants", nil)
	at(1208)
	require.Empty(t, page.ids())
}

// TestRunsWithoutAModelAreReported: with why, while their reads come, and not those that a rule leaves out on
// purpose.
func TestRunsWithoutAModelAreReported(t *testing.T) {
	v, page := monitor.NewView(topics, monitor.Limits{}), problemPage{}
	without := func(n int, reads float64, reasons map[string]float64) {
		measures := []*streampb.Measure{measure("porestream_basecall_read_parts_total", reads, "outcome", "no_model")}
		for reason, runs := range reasons {
			measures = append(measures, measure("porestream_basecall_runs_without_model_total", runs, "reason", reason))
		}
		add(t, v, measured(t, n, measures...))
		page.follow(t, v, start.Add(time.Duration(n)*time.Second))
	}
	const id = "event/no-model/i"
	without(0, 0, nil)
	without(1, 5, map[string]float64{"left_out": 1})
	require.NotContains(t, page, id)
	without(2, 9, map[string]float64{"left_out": 1, "no_rule": 1, "load_failed": 2})
	require.Contains(t, page, id)
	assert.Equal(t, "of the runs on lab, no rule of --models is for 1, the model of 2 can't be loaded", page[id].Detail)
	assert.EqualValues(t, 9, page[id].Count)
	for n := 3; n < 1200; n += 5 {
		without(n, 9, map[string]float64{"left_out": 1, "no_rule": 1, "load_failed": 2})
	}
	require.NotContains(t, page, id, "no reads of theirs come any more")
}

// A run goes from running to ended once all sources have said so, and health with it.
func TestRunsEnd(t *testing.T) {
	v := monitor.NewView(topics, monitor.Limits{})
	now := start.Add(time.Second)
	require.Equal(t, monitor.HealthWaiting, v.Summary(now).Health.State)
	value, err := stream.EncodeRun(&streampb.Run{Id: "run", Sample: "x", FlowCell: "F", FlowCellProduct: "FLO-PRO114M", Position: "1A", SampleRate: 5000})
	require.NoError(t, err)
	add(t, v, stream.Record{Topic: topics.Runs, Value: value, Time: start}, processReport(t, "a", 0),
		status(t, &streampb.Status{Instance: "i", Sequence: 1, TimeMs: start.UnixMilli(), Body: &streampb.Status_Channels{Channels: &streampb.ChannelReport{Run: "run", States: []byte("ps"), Reads: 7}}}))
	s := v.Summary(now)
	require.Equal(t, monitor.HealthGood, s.Health.State)
	require.Equal(t, "running", s.Runs[0].State)
	require.EqualValues(t, 7, s.Runs[0].Reads)
	end := func(source int) {
		add(t, v, stream.Record{Topic: topics.Variants, Time: now, Headers: []stream.Header{{Key: "ce_type", Value: []byte("porestream.run.ended.v1")}},
			Value: fmt.Appendf(nil, `{"run":"run","sample":"x","source":%d,"sources":2}`, source)})
	}
	end(1)
	end(1)
	require.Equal(t, "running", v.Summary(now).Runs[0].State)
	end(0)
	s = v.Summary(now)
	require.Equal(t, "ended", s.Runs[0].State)
	require.Equal(t, monitor.HealthDone, s.Health.State)
	for _, e := range v.Whole(now) {
		if e.Name == monitor.EventChannels {
			var c monitor.Channels
			require.NoError(t, json.Unmarshal(e.Data, &c))
			require.Len(t, c.FlowCells, 1)
			require.Equal(t, "promethion", c.FlowCells[0].Layout)
			require.Equal(t, monitor.OriginSignal, c.FlowCells[0].Origin)
			require.Equal(t, "ps"+strings.Repeat("i", 2998), c.FlowCells[0].States)
			require.Equal(t, "1A", c.FlowCells[0].Position)
		}
	}
}

// TestSamplesThatMixModelsAreReported: by sample, over all regions, with the newest report of each.
func TestSamplesThatMixModelsAreReported(t *testing.T) {
	v, page := monitor.NewView(topics, monitor.Limits{}), problemPage{}
	report := func(sequence uint64, sample string, region uint32, models ...*streampb.ModelReads) stream.Record {
		return status(t, &streampb.Status{Instance: "a", Sequence: sequence, TimeMs: start.UnixMilli() + int64(sequence), Body: &streampb.Status_Depth{Depth: &streampb.DepthReport{
			Sample: sample, Contig: "c", ContigLength: 200, Region: region, Start: int64(region) * 100, End: int64(region+1) * 100, Bin: 100, Depths: []uint32{10}, Models: models,
		}}})
	}
	hac, old := func(n uint64) *streampb.ModelReads { return &streampb.ModelReads{Name: "hac@5", Reads: n} }, func(n uint64) *streampb.ModelReads { return &streampb.ModelReads{Name: "hac@4", Reads: n} }
	fast, unnamed := func(n uint64) *streampb.ModelReads {
		return &streampb.ModelReads{Name: "fast", Reads: n, Mismatch: true}
	}, func(n uint64) *streampb.ModelReads { return &streampb.ModelReads{Reads: n} }
	add(t, v,
		report(1, "pure", 0, hac(100)), report(2, "pure", 1, hac(1), unnamed(50)),
		report(3, "stray", 0, hac(999), fast(1)),
		report(4, "versions", 0, hac(100)), report(5, "versions", 1, old(20)),
		report(6, "strange", 0, fast(10)), report(7, "strange", 0, fast(30)),
		report(8, "both", 0, hac(60), fast(40)))
	now := start.Add(time.Minute)
	page.follow(t, v, now)
	require.Equal(t, []string{"model-mismatch/both", "model-mismatch/strange", "models-mixed/both", "models-mixed/versions"},
		slices.DeleteFunc(page.ids(), func(id string) bool { return !strings.HasPrefix(id, "model") }))
	assert.Equal(t, "hac@4 16.7 %, hac@5 83.3 %", page["models-mixed/versions"].Detail)
	assert.Equal(t, monitor.SeverityInfo, page["models-mixed/versions"].Severity)
	assert.Equal(t, "fast 100.0 % (not known to the variant model)", page["model-mismatch/strange"].Detail)
	assert.EqualValues(t, 30, page["model-mismatch/strange"].Count)
	assert.Equal(t, monitor.SeverityWarning, page["model-mismatch/both"].Severity)
}

// A motif that reads of one strand get wrong is a problem that names it, its sites and the share, until its alleles
// are gone.
func TestMotifsAreReported(t *testing.T) {
	v, page := monitor.NewView(topics, monitor.Limits{}), problemPage{}
	artefact := func(n int, revision uint64, status string) stream.Record {
		e := event.Variant{
			SchemaVersion: 1, Run: "run", Sample: "x", Revision: revision, Status: status,
			Allele: event.Allele{VRSID: fmt.Sprint("ga4gh:VA.m", n), Contig: "c", Pos: int64(n + 1), Ref: "A", Alt: "G"},
			Call: event.Call{
				Qual: 15, Genotype: []uint32{0, 1}, Filters: []string{"MotifArtifact"}, Depth: 30, AltForward: 9,
				Motif: &event.Motif{Motif: "GATC", Base: 2, Shows: "G", Sites: 2430, Affected: 2373, Reads: 30_000, Wrong: 12_000},
			},
		}
		out, err := e.Record(topics.Variants)
		require.NoError(t, err)
		return stream.Record{Topic: out.Topic, Key: out.Key, Value: out.Value, Headers: out.Headers, Time: start, Offset: int64(n)}
	}
	add(t, v, artefact(1, 1, "PROVISIONAL"), artefact(2, 1, "FINAL"), artefact(2, 1, "FINAL"), variantRecord(t, 7, 1, "FINAL", "HIGH"))
	page.follow(t, v, start.Add(time.Second))
	require.Equal(t, []string{"motif/x/GATC/2/G"}, page.ids())
	p := page["motif/x/GATC/2/G"]
	assert.Equal(t, "reads of sample x get the motif GATC wrong", p.Title)
	assert.Equal(t, "base 2 of GATC is read as G at 2373 of 2430 sites, by 40 % of one strand's reads there: 2 alleles of sample x are marked MotifArtifact", p.Detail)
	assert.EqualValues(t, 2, p.Count)
	assert.Contains(t, p.Do, "newer model")

	add(t, v, artefact(1, 2, "RETRACTED"), artefact(2, 2, "RETRACTED"))
	page.follow(t, v, start.Add(time.Minute))
	require.Empty(t, page.ids())
}

// A sample with alleles that carry-over explains is a problem that names the largest share and the control, until it explains them no more.
func TestCarryOverIsReported(t *testing.T) {
	v, page := monitor.NewView(topics, monitor.Limits{}), problemPage{}
	carried := func(n int, revision uint64, share float64) stream.Record {
		e := event.Variant{
			SchemaVersion: 1, Run: "run", Sample: "x", Revision: revision, Status: "STABLE",
			Allele: event.Allele{VRSID: fmt.Sprint("ga4gh:VA.c", n), Contig: "c", Pos: int64(n + 1), Ref: "A", Alt: "G"},
			Call: event.Call{
				Qual: 15, Genotype: []uint32{1}, Depth: 30, AltForward: 9,
				CarryOver: &event.CarryOver{Explained: share > 0.5, Share: &share, Basis: "hopping", Control: "water", ControlAlt: 2, ControlDepth: 3},
			},
		}
		if share > 0.5 {
			e.Call.Filters = []string{"CarryOver"}
		}
		out, err := e.Record(topics.Variants)
		require.NoError(t, err)
		return stream.Record{Topic: out.Topic, Key: out.Key, Value: out.Value, Headers: out.Headers, Time: start, Offset: int64(n)}
	}
	add(t, v, carried(1, 1, 0.6), carried(2, 1, 0.9), carried(3, 1, 0.1))
	page.follow(t, v, start.Add(time.Second))
	require.Equal(t, []string{"carry-over/x"}, page.ids())
	p := page["carry-over/x"]
	assert.Equal(t, "carry-over explains 2 alleles of sample x", p.Title)
	assert.Equal(t, "c:3 A>G: at most 90 % of its reads are carry-over, by reads of other samples (control water: 2 of 3 reads)", p.Detail)
	assert.EqualValues(t, 2, p.Count)

	add(t, v, carried(1, 2, 0.2), carried(2, 2, 0.2))
	page.follow(t, v, start.Add(time.Minute))
	require.Empty(t, page.ids())
}

package monitor_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

var (
	topics = stream.NewTopics("")
	start  = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
)

func status(t testing.TB, m *streampb.Status) stream.Record {
	t.Helper()
	value, err := stream.EncodeStatus(m)
	require.NoError(t, err)
	return stream.Record{Topic: topics.Status, Key: stream.StatusKey(m), Value: value, Time: time.UnixMilli(m.GetTimeMs())}
}

// processReport is the report that a process makes n seconds after start, at a
// constant pace.
func processReport(t testing.TB, instance string, n int) stream.Record {
	t.Helper()
	f := float64(n)
	at := start.Add(time.Duration(n) * time.Second)
	return status(t, &streampb.Status{Instance: instance, Sequence: uint64(n + 1), TimeMs: at.UnixMilli(), Body: &streampb.Status_Process{Process: &streampb.ProcessReport{
		Kind: "processor", Version: "1", Host: "lab", Address: instance + ":9102", StartedMs: start.UnixMilli(), Stages: []string{"basecall", "variant"},
		Measures: []*streampb.Measure{
			{Name: "porestream_basecall_samples_total", Labels: []string{"model", "fast"}, Value: 4000 * f},
			{Name: "porestream_basecall_bases_total", Value: 400 * f},
			{Name: "porestream_basecall_reads_total", Value: f},
			{Name: "porestream_ingest_samples_total", Value: 5000 * f},
			{Name: "porestream_infer_info", Labels: []string{"device", "cpu", "model", "fast"}, Value: 1},
			{Name: "porestream_infer_samples_total", Labels: []string{"model", "fast"}, Value: 3000 * f},
			{Name: "porestream_infer_padding_samples_total", Labels: []string{"model", "fast"}, Value: 1000 * f},
			{Name: "porestream_stream_lag_records", Labels: []string{"topic", "signal"}, Value: 30},
			{Name: "porestream_stream_records_total", Labels: []string{"direction", "in", "topic", "signal"}, Value: 10 * f},
			{Name: "porestream_stream_live_partitions", Labels: []string{"group", "porestream-basecall"}, Value: 4},
			{Name: "go_sched_gomaxprocs_threads", Value: 2},
		},
		Distributions: []*streampb.Distribution{{
			Name: "porestream_end_to_end_latency_seconds", Sum: f, Bounds: []float64{0.1, 1}, Counts: []uint64{uint64(n), uint64(2 * n), uint64(2 * n)},
		}, {
			Name: "porestream_infer_compute_duration_seconds", Labels: []string{"model", "fast"}, Sum: f, Bounds: []float64{1}, Counts: []uint64{uint64(n), uint64(n)},
		}},
	}}})
}

func add(t testing.TB, v *monitor.View, records ...stream.Record) {
	t.Helper()
	for _, r := range records {
		require.NoError(t, v.Add(r))
	}
}

func text(t testing.TB, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	require.NoError(t, err)
	return string(b)
}

func TestSummaryOfReports(t *testing.T) {
	v := monitor.NewView(topics, monitor.Limits{})
	for n := range 121 {
		add(t, v, processReport(t, "a", n), processReport(t, "b", n))
	}
	now := start.Add(120 * time.Second)
	s := v.Summary(now)
	assert.InDelta(t, 8000, s.Rates.SamplesPerSecond, 1e-6)
	assert.InDelta(t, 10000, s.Rates.SequencerSamplesPerSecond, 1e-6)
	require.NotNil(t, s.Rates.KeepUp)
	assert.InDelta(t, 0.8, *s.Rates.KeepUp, 1e-9)
	assert.InDelta(t, 800, s.Rates.BasesPerSecond, 1e-6)
	assert.EqualValues(t, 240, s.Totals.Reads)
	require.Len(t, s.Devices, 2)
	assert.InDelta(t, 0.5, *s.Devices[0].Busy, 1e-9, "a second of computing a second, by two sessions")
	assert.Equal(t, "cpu", s.Devices[0].Kind)
	assert.InDelta(t, 0.75, *s.Batch.Fill, 1e-9)
	require.Len(t, s.Lag, 1)
	assert.EqualValues(t, 60, s.Lag[0].Records)
	assert.InDelta(t, 3, *s.Lag[0].Seconds, 1e-9)
	for _, l := range s.Latency {
		if l.Stage == "variants" {
			assert.EqualValues(t, 240, l.Count)
			assert.InDelta(t, 0.1, *l.P50, 1e-9)
			assert.InDelta(t, 0.982, *l.P99, 1e-9)
		}
	}

	// A process without new reports says nothing of now, and is shown as silent.
	for n := 121; n < 140; n++ {
		add(t, v, processReport(t, "a", n))
	}
	now = start.Add(139 * time.Second)
	v.Changes(now)
	s = v.Summary(now)
	assert.InDelta(t, 4000, s.Rates.SamplesPerSecond, 1e-6)
	assert.Equal(t, monitor.HealthError, s.Health.State)
	assert.Contains(t, s.Health.Sentence, "Processor on lab is silent")
	assert.Equal(t, "silent", s.Processes[1].State)
	assert.EqualValues(t, 139+120, s.Totals.Reads, "what it has done stays done")
}

// Whatever order reports come in, however often, the picture is the same.
func TestReportsInAnyOrder(t *testing.T) {
	const seconds = 100
	var records []stream.Record
	for n := range seconds {
		records = append(records, processReport(t, "a", n), processReport(t, "b", n))
		at := start.Add(time.Duration(n) * time.Second)
		records = append(records, status(t, &streampb.Status{Instance: "a", Sequence: uint64(n + 1), TimeMs: at.UnixMilli(), Body: &streampb.Status_Channels{
			Channels: &streampb.ChannelReport{Source: "s", Run: fmt.Sprint("run-", n%3), States: []byte{'s', 'p', "sp"[n%2]}, Reads: uint64(n)},
		}}), status(t, &streampb.Status{Instance: string("ab"[n%2]), Sequence: uint64(n + 1), TimeMs: at.UnixMilli(), Body: &streampb.Status_Depth{
			Depth: &streampb.DepthReport{Sample: "x", Contig: "c", ContigLength: 300, Region: uint32(n % 2), Start: int64(n%2) * 200, End: int64(200 + n%2*100), Bin: 100,
				Depths: []uint32{uint32(n), 5}[:2-n%2]},
		}}))
	}
	now := start.Add((seconds - 1) * time.Second)
	picture := func(records []stream.Record) string {
		v := monitor.NewView(topics, monitor.Limits{})
		add(t, v, records...)
		var all []any
		for _, e := range v.Whole(now) {
			all = append(all, e.Name, string(e.Data))
		}
		owner, known := v.OwnerOf("x", "c", 250, now)
		return text(t, append(all, owner, known))
	}
	want := picture(records)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		shuffled := append([]stream.Record(nil), records...)
		for range 100 {
			shuffled = append(shuffled, records[rng.IntN(len(records))])
		}
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		require.Equal(t, want, picture(shuffled), "seed %d", seed)
	}
}

func variantRecord(t testing.TB, n int, revision uint64, st, impact string, filters ...string) stream.Record {
	t.Helper()
	e := event.Variant{
		SchemaVersion: 1, Run: "run", Sample: "x", Revision: revision, Status: st,
		Allele:     event.Allele{VRSID: fmt.Sprint("ga4gh:VA.", n), Contig: "c", Pos: int64(n + 1), Ref: "A", Alt: "T"},
		Call:       event.Call{Qual: 30, Genotype: []uint32{1}, Filters: filters, Depth: 10, AltForward: 4, AltReverse: 5},
		Annotation: annotate.Annotation{MostSevere: annotate.MostSevere{Term: "missense_variant", Impact: annotate.Impact(impact), Gene: "g"}},
	}
	out, err := e.Record(topics.Variants)
	require.NoError(t, err)
	return stream.Record{Topic: out.Topic, Key: out.Key, Value: out.Value, Headers: out.Headers, Time: start.Add(time.Duration(n) * time.Millisecond), Offset: int64(n)}
}

// Of many variants those stay that matter most, and the page is given the number of the others.
func TestManyVariants(t *testing.T) {
	limit, all := 500, 100_000
	if testing.Short() {
		all = 10_000
	}
	limits := monitor.DefaultLimits()
	limits.Variants = limit
	v := monitor.NewView(topics, limits)
	page := make(map[string]monitor.Variant)
	now := start
	follow := func() {
		now = now.Add(time.Second)
		for _, e := range v.Changes(now) {
			if e.Name != monitor.EventVariants {
				continue
			}
			var rows monitor.Variants
			require.NoError(t, json.Unmarshal(e.Data, &rows))
			assert.LessOrEqual(t, len(rows.Upsert), 500)
			for _, id := range rows.Remove {
				delete(page, id)
			}
			for _, r := range rows.Upsert {
				page[r.ID] = r
			}
		}
	}
	for n := range all {
		impact := "MODIFIER"
		if n%1000 == 0 {
			impact = "HIGH"
		}
		add(t, v, variantRecord(t, n, 1, "PROVISIONAL", impact))
		if n%777 == 0 {
			follow()
		}
	}
	for range 300 {
		follow()
	}
	highs := 0
	for _, r := range page {
		if r.Impact == "HIGH" {
			highs++
		}
	}
	assert.Len(t, page, limit)
	assert.Equal(t, all/1000, highs)
	s := v.Summary(now)
	assert.Equal(t, all-limit, s.LeftOut["variants"])
	assert.EqualValues(t, limit, s.Totals.Passed)

	// Older revisions are remembered, and change nothing.
	add(t, v, variantRecord(t, 0, 3, "STABLE", "HIGH"), variantRecord(t, 0, 2, "PROVISIONAL", "HIGH", "LowQual"))
	d, err := v.Detail("x/ga4gh:VA.0")
	require.NoError(t, err)
	assert.Equal(t, "STABLE", d.Row.Status)
	assert.Len(t, d.Revisions, 3)
	assert.InDelta(t, 0.9, d.Row.Fraction, 1e-9)
	assert.Contains(t, string(d.Variant), `"revision":3`)
	_, err = v.Detail("nope")
	require.ErrorIs(t, err, monitor.ErrNoVariant)
}

func TestZoom(t *testing.T) {
	v := monitor.NewView(topics, monitor.Limits{})
	add(t, v, status(t, &streampb.Status{Instance: "a", Sequence: 1, TimeMs: 1, Body: &streampb.Status_Depth{Depth: &streampb.DepthReport{
		Sample: "x", Contig: "c", ContigLength: 250, Start: 0, End: 250, Bin: 100, Depths: []uint32{100, 50, 20},
	}}}))
	z, err := v.Zoom("x", "c", 0, 0, 1000)
	require.NoError(t, err)
	assert.Equal(t, monitor.DepthBins{From: 0, Bin: 100, Depths: []float64{10, 5, 2}}, z.DepthBins)
	z, err = v.Zoom("x", "c", 50, 250, 1)
	require.NoError(t, err)
	assert.Equal(t, monitor.DepthBins{From: 50, Bin: 200, Depths: []float64{5.5}}, z.DepthBins, "50 positions at 10, 100 at 5 and 50 at 2")
	_, err = v.Zoom("x", "d", 0, 0, 1)
	require.ErrorIs(t, err, monitor.ErrNoContig)
}

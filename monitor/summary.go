package monitor

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Metrics that the picture is made from; see [ReportedMetrics].
const (
	mBasecallSamples = "porestream_basecall_samples_total"
	mBasecallBases   = "porestream_basecall_bases_total"
	mBasecallReads   = "porestream_basecall_reads_total"
	mChunkSamples    = "porestream_basecall_chunk_samples_total"
	mGaps            = "porestream_basecall_gaps_total"
	mGapSamples      = "porestream_basecall_gap_samples_total"
	mFinish          = "porestream_basecall_finish_duration_seconds"
	mEndToEnd        = "porestream_end_to_end_latency_seconds"
	mAlertLatency    = "porestream_alert_latency_seconds"
	mTransaction     = "porestream_stream_transaction_duration_seconds"
	mBatches         = "porestream_infer_batches_total"
	mBatchItems      = "porestream_infer_batch_items"
	mCompute         = "porestream_infer_compute_duration_seconds"
	mQueue           = "porestream_infer_queue_duration_seconds"
	mQueueWindows    = "porestream_infer_queue_windows"
	mInferSamples    = "porestream_infer_samples_total"
	mPadding         = "porestream_infer_padding_samples_total"
	mInferInfo       = "porestream_infer_info"
	mBatchFailures   = "porestream_infer_batch_failures_total"
	mLag             = "porestream_stream_lag_records"
	mUnresolved      = "porestream_stream_unresolved_records"
	mRecords         = "porestream_stream_records_total"
	mLive            = "porestream_stream_live_partitions"
	mFailures        = "porestream_stream_generation_failures_total"
	mSnapshotErrors  = "porestream_stream_snapshot_errors_total"
	mResized         = "porestream_stream_partition_changes_total"
	mOtherPanels     = "porestream_watch_other_panels_total"
	mIngestSamples   = "porestream_ingest_samples_total"
	mIngestReads     = "porestream_ingest_reads_total"
	mIngestLost      = "porestream_ingest_lost_samples_total"
	mLateness        = "porestream_ingest_lateness_seconds"
	mOldestWaiting   = "porestream_ingest_oldest_waiting_seconds"
	mSourceState     = "porestream_ingest_source_state"
	mReadParts       = "porestream_basecall_read_parts_total"
	mWithoutModel    = "porestream_basecall_runs_without_model_total"
	mUnsaved         = "porestream_stream_unsaved_timestamp_seconds"
	mSpool           = "porestream_ingest_spool_bytes"
	mSpoolLimit      = "porestream_ingest_spool_limit_bytes"
	mSpoolRefusals   = "porestream_ingest_spool_refusals_total"
	mReportsLost     = "porestream_reports_lost_total"
	mCPU             = "process_cpu_seconds_total"
	mMemory          = "process_resident_memory_bytes"
	mThreads         = "go_sched_gomaxprocs_threads"
)

// ReportedMetrics are the metrics that reports have to hold, each with the labels by
// which it is split; it is summed over the others.
func ReportedMetrics() map[string][]string {
	return map[string][]string{
		mBasecallSamples: {"model"}, mBasecallBases: nil, mBasecallReads: nil, mChunkSamples: nil, mGaps: nil, mGapSamples: nil,
		mFinish: nil, mEndToEnd: nil, mAlertLatency: nil, mTransaction: nil,
		mBatches: {"model", "dispatch"}, mBatchItems: {"model"}, mCompute: {"model"}, mQueue: {"model"}, mQueueWindows: {"model"},
		mInferSamples: {"model"}, mPadding: {"model"}, mInferInfo: {"model", "device"}, mBatchFailures: {"model"},
		mLag: {"topic"}, mUnresolved: {"topic"}, mRecords: {"topic", "direction"}, mLive: {"group"}, mFailures: {"group"}, mSnapshotErrors: {"group"}, mResized: {"topic"}, mOtherPanels: nil,
		mIngestSamples: {"source"}, mIngestReads: {"source"}, mIngestLost: {"source"}, mLateness: {"source"}, mOldestWaiting: {"source"}, mSourceState: {"source", "state"}, mReadParts: {"outcome"}, mWithoutModel: {"reason"}, mUnsaved: {"topic"},
		mSpool: {"source"}, mSpoolLimit: {"source"}, mSpoolRefusals: {"source"}, mReportsLost: nil,
		mCPU: nil, mMemory: nil, mThreads: nil,
	}
}

// alive are the processes whose last report is about now.
func (v *View) alive(now time.Time) []*process {
	return slices.DeleteFunc(v.sorted(), func(p *process) bool { return !p.alive(now) })
}

// total is the newest value of a counter over all processes that are known, those
// that are gone included.
func (v *View) total(name string, want ...string) float64 {
	sum := 0.0
	for _, p := range v.sorted() { // sums of floats depend on the order
		sum += p.now(name, want...)
	}
	return sum
}

func rateOf(list []*process, window time.Duration, name string, want ...string) float64 {
	sum := 0.0
	for _, p := range list {
		sum += p.rate(window, name, want...)
	}
	return sum
}

// keepUp is what is basecalled over what comes in, over the long window; nil if
// nothing comes in.
func keepUp(list []*process) *float64 {
	in := rateOf(list, longWindow, mIngestSamples)
	if in <= 0 {
		return nil
	}
	ratio := rateOf(list, longWindow, mBasecallSamples) / in
	return &ratio
}

func (v *View) rates(now time.Time) Rates {
	list := v.alive(now)
	return Rates{
		SamplesPerSecond:          rateOf(list, shortWindow, mBasecallSamples),
		SequencerSamplesPerSecond: rateOf(list, shortWindow, mIngestSamples),
		KeepUp:                    keepUp(list),
		BasesPerSecond:            rateOf(list, shortWindow, mBasecallBases),
		ReadsPerSecond:            rateOf(list, shortWindow, mBasecallReads),
	}
}

// basecallers are the names of the models that basecall, among all that compute.
func basecallers(list []*process) []string {
	var models []string
	for _, p := range list {
		p.each(mBasecallSamples, plain, nil, func(_ int, s *series) {
			if m := s.label("model"); !slices.Contains(models, m) {
				models = append(models, m)
			}
		})
	}
	slices.Sort(models)
	return models
}

func latencies(list []*process) []Latency {
	models := basecallers(list)
	rows := []struct {
		stage, title, metric string
		network              bool
	}{
		{"queue", "A window of signal waits for its batch", mQueue, true},
		{"compute", "The network computes a batch", mCompute, true},
		{"basecall", "From the end of a read to its finished call", mFinish, false},
		{"commit", "A transaction in Kafka, from its first batch to its end", mTransaction, false},
		{"variants", "From a read's last signal to the annotated variant", mEndToEnd, false},
		{"alerts", "From a read's last signal to the alert", mAlertLatency, false},
	}
	out := make([]Latency, 0, len(rows))
	for _, r := range rows {
		var h histogram
		for _, p := range list {
			if !r.network {
				p.observed(&h, longWindow, r.metric)
				continue
			}
			for _, m := range models {
				p.observed(&h, longWindow, r.metric, "model", m)
			}
		}
		out = append(out, Latency{Stage: r.stage, Title: r.title, P50: h.quantile(0.5), P99: h.quantile(0.99), Count: int64(h.count)})
	}
	return out
}

func batch(list []*process) Batch {
	var b Batch
	var computed, padding float64
	var items histogram
	for _, m := range basecallers(list) {
		for _, p := range list {
			newest, older, _ := p.window(longWindow)
			since := func(name string, want ...string) (n float64) {
				p.each(name, plain, append(want, "model", m), func(i int, _ *series) { n += max(0, newest.value(i)-older.value(i)) })
				return n
			}
			computed, padding = computed+since(mInferSamples), padding+since(mPadding)
			p.observed(&items, longWindow, mBatchItems, "model", m)
			b.QueueWindows += int64(p.now(mQueueWindows, "model", m))
			b.ByDispatch.Full += int64(since(mBatches, "dispatch", "full"))
			b.ByDispatch.Delay += int64(since(mBatches, "dispatch", "delay"))
			b.ByDispatch.Drain += int64(since(mBatches, "dispatch", "drain"))
			b.ByDispatch.Retry += int64(since(mBatches, "dispatch", "retry"))
		}
	}
	if computed+padding > 0 {
		fill := computed / (computed + padding)
		b.Fill = &fill
	}
	if items.count > 0 {
		b.WindowsPerBatch = items.sum / items.count
	}
	return b
}

func devices(list []*process) []Device {
	out := []Device{}
	for _, p := range list {
		p.each(mInferInfo, plain, nil, func(_ int, s *series) {
			d := Device{Process: p.instance, Name: s.label("device"), Kind: "gpu", Model: s.label("model")}
			workers := float64(1 + strings.Count(d.Name, ",")) // cuda:0,1 computes on two
			if strings.HasPrefix(d.Name, "cpu") {
				d.Kind, workers = "cpu", p.now(mThreads) // a session of one thread each
			}
			var h histogram
			p.observed(&h, longWindow, mCompute, "model", d.Model)
			if _, _, seconds := p.window(longWindow); seconds > 0 && workers > 0 {
				busy := math.Min(1, h.sum/seconds/workers)
				d.Busy = &busy
			}
			out = append(out, d)
		})
	}
	return out
}

// flow are the topics that stages read, in order.
func (v *View) flow() []struct{ name, stage string } {
	return []struct{ name, stage string }{
		{v.topics.Signal, "basecall"}, {v.topics.Called, "align"}, {v.topics.Reads, "variant"}, {v.topics.Calls, "annotate"}, {v.topics.Watch, "watch"},
	}
}

// lag is what waits in the topics that stages read.
func (v *View) lag(list []*process) []Lag {
	out := []Lag{}
	for _, f := range v.flow() {
		if !exported(list, mLag, "topic", f.name) {
			continue
		}
		waiting := nowOf(list, mLag, "topic", f.name)
		l := Lag{Topic: f.name, Stage: f.stage, Records: int64(waiting)}
		rate := rateOf(list, longWindow, mRecords, "topic", f.name, "direction", "in")
		if seconds := 0.0; waiting == 0 {
			l.Seconds = &seconds
		} else if rate > 0 {
			seconds = waiting / rate
			l.Seconds = &seconds
		}
		out = append(out, l)
	}
	return out
}

func (v *View) totals() Totals {
	standing, pass := v.variants.counts()
	t := Totals{
		Reads: int64(v.total(mBasecallReads)), Bases: int64(v.total(mBasecallBases)), Samples: int64(v.total(mBasecallSamples)),
		Variants: standing, Passed: pass, Gaps: int64(v.total(mGaps)), GapSamples: int64(v.total(mGapSamples)),
	}
	for _, a := range v.alerts {
		if a.row.State == "DETECTED" || a.row.State == "SUSPECTED" {
			t.Alerts++
		}
	}
	for _, l := range v.letters {
		t.DeadLetters += l.count
	}
	return t
}

// Summary is the state of things at a moment, with the newest point of the history
// alone.
func (v *View) Summary(now time.Time) Summary {
	list := v.alive(now)
	s := Summary{
		Now: now.UTC(), Unreadable: []string{}, Runs: v.runViews(), Rates: v.rates(now), History: v.history.last(1),
		Latency: latencies(list), Batch: batch(list), Devices: devices(list), Lag: v.lag(list), Processes: v.processViews(now),
		Totals: v.totals(), LeftOut: make(map[string]int),
	}
	for topic, why := range v.unreadable {
		s.Unreadable = append(s.Unreadable, topic+": "+why)
	}
	slices.Sort(s.Unreadable)
	for what, n := range v.leftOut {
		s.LeftOut[what] = n
	}
	if n := len(v.variants.gone); n > 0 {
		s.LeftOut["variants"] = n
	}
	s.Rates.Pace = v.paceWord(s.Rates.KeepUp)
	s.Health = v.health(now, &s)
	return s
}

// historyPoints is how long the history is.
const historyPoints = 180

// history is what the rates were.
type history struct {
	points []Rates // oldest first
	at     time.Time
}

// note takes the next point, if it is due.
func (h *history) note(now time.Time, rates func() Rates) {
	if now.Sub(h.at) < historyPoint {
		return
	}
	h.at = now
	h.points = append(h.points, rates())
	if len(h.points) > historyPoints {
		h.points = slices.Delete(h.points, 0, len(h.points)-historyPoints)
	}
}

// last is the newest n points.
func (h *history) last(n int) History {
	out := History{SecondsPerPoint: historyPoint.Seconds(), Samples: []float64{}, Sequencer: []float64{}, Bases: []float64{}, Reads: []float64{}}
	for _, p := range h.points[max(0, len(h.points)-n):] {
		out.Samples = append(out.Samples, p.SamplesPerSecond)
		out.Sequencer = append(out.Sequencer, p.SequencerSamplesPerSecond)
		out.Bases = append(out.Bases, p.BasesPerSecond)
		out.Reads = append(out.Reads, p.ReadsPerSecond)
	}
	return out
}

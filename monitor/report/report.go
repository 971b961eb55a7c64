// Package report reports what a process does on the topic of status, for the live page: its
// metrics, the channels of its sources, and the depth of its regions.
//
// Reports are best-effort. They are made and sent beside the pipeline, which never waits for
// them; one that can't be sent is counted and forgotten, and the next one says all
// that it did. stream/FORMAT.md describes them.
package report

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// DefaultInterval is the time between two reports of a process.
const DefaultInterval = time.Second

const (
	// maxRegions bounds the regions whose depth is reported at a time. A thousand bins are
	// two kilobytes, so a process writes 130 kB a second at most.
	maxRegions = 64
	// sendTimeout is how long a report may wait for space in the send buffer.
	sendTimeout = 5 * time.Second
)

// Process says who reports.
type Process struct {
	Kind    string // ingest, processor or run
	Version string
	Host    string // empty: the machine's name
	Address string // where its page can be asked; may be empty
	Stages  []string
	Started time.Time // zero: now
}

// Instance is a name for a process that no other has had.
func (p *Process) Instance() string {
	return p.Host + "/" + p.Kind + "/" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(p.Started.UnixMilli(), 36)
}

// complete fills in what can be found out.
func (p Process) complete() Process {
	if p.Host == "" {
		if name, err := os.Hostname(); err == nil {
			p.Host = name
		}
	}
	if p.Started.IsZero() {
		p.Started = time.Now()
	}
	return p
}

// Sender takes records for writing; stream/kafka.Producer is one.
type Sender interface {
	Send(ctx context.Context, outs []stream.Out, onDurable func(error)) error
}

// Config says what is reported, and how. What is nil is not reported.
type Config struct {
	Topic    string
	Interval time.Duration // zero: [DefaultInterval]
	Process  Process
	Gatherer prometheus.Gatherer
	// Metrics are the metrics to report, by name, with the labels to split them by; see
	// monitor.ReportedMetrics.
	Metrics map[string][]string
	// Channels are what the channels of the runs under way do.
	Channels func() []*streampb.ChannelReport
	// Depths are the regions whose depth is to be reported, a number of them at most.
	Depths     func(now time.Time, limit int) []*streampb.DepthReport
	Registerer prometheus.Registerer // nil: nothing is counted
	Logger     *slog.Logger          // nil: none
}

// Reporter writes the reports of a process.
type Reporter struct {
	cfg          Config
	instance     string
	sequence     atomic.Uint64
	sent         prometheus.Counter
	lost         prometheus.Counter
	failing      atomic.Bool
	sentChannels map[string]string // channels, as they were last reported
}

// New returns a reporter that has said nothing yet.
func New(cfg Config) *Reporter {
	cfg.Process = cfg.Process.complete()
	if cfg.Interval <= 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Reporter{
		cfg: cfg, instance: cfg.Process.Instance(), sentChannels: make(map[string]string),
		sent: prometheus.NewCounter(prometheus.CounterOpts{Name: "porestream_reports_sent_total", Help: "Reports for the live page that are in Kafka."}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{Name: "porestream_reports_lost_total", Help: "Reports for the live page that could not be written; nothing but the page misses them."}),
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(r.sent, r.lost)
	}
	return r
}

// Instance is the name that the process reports under.
func (r *Reporter) Instance() string { return r.instance }

// Started is when the process says that it was started.
func (r *Reporter) Started() time.Time { return r.cfg.Process.Started }

// Run reports until ctx ends, and says goodbye then. It never fails: what can't be
// sent is lost.
func (r *Reporter) Run(ctx context.Context, to Sender) {
	var work sync.WaitGroup
	// Reading regions waits for their handlers, and the rest must not wait for that.
	if r.cfg.Depths != nil {
		work.Go(func() {
			r.every(ctx, func() {
				now := time.Now()
				for _, d := range r.cfg.Depths(now, maxRegions) {
					r.send(ctx, to, now, &streampb.Status{Body: &streampb.Status_Depth{Depth: d}})
				}
			})
		})
	}
	r.every(ctx, func() {
		now := time.Now()
		r.process(ctx, to, now, false)
		if r.cfg.Channels != nil {
			for _, c := range r.cfg.Channels() {
				if said := fmt.Sprint(c.GetReads(), c.GetSamples(), c.GetEnded(), c.GetSequencer(), string(c.GetStates())); r.sentChannels[c.GetRun()] != said {
					r.sentChannels[c.GetRun()] = said
					r.send(ctx, to, now, &streampb.Status{Body: &streampb.Status_Channels{Channels: c}})
				}
			}
		}
	})
	work.Wait()
	goodbye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	r.process(goodbye, to, time.Now(), true)
}

// every calls fn at once and then again and again, until ctx ends.
func (r *Reporter) every(ctx context.Context, fn func()) {
	ticker := time.NewTicker(r.cfg.Interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		fn()
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

func (r *Reporter) process(ctx context.Context, to Sender, now time.Time, stopping bool) {
	report := &streampb.ProcessReport{
		Kind: r.cfg.Process.Kind, Version: r.cfg.Process.Version, Host: r.cfg.Process.Host, Address: r.cfg.Process.Address,
		StartedMs: r.cfg.Process.Started.UnixMilli(), Stages: r.cfg.Process.Stages, Stopping: stopping,
	}
	if r.cfg.Gatherer != nil {
		families, err := r.cfg.Gatherer.Gather()
		if err != nil {
			r.failed(ctx, fmt.Errorf("gathering metrics: %w", err)) // what there is is reported
		}
		report.Measures, report.Distributions = Measures(families, r.cfg.Metrics)
	}
	r.send(ctx, to, now, &streampb.Status{Body: &streampb.Status_Process{Process: report}})
}

// send writes a report, without waiting for it to be written.
func (r *Reporter) send(ctx context.Context, to Sender, now time.Time, m *streampb.Status) {
	m.Instance, m.Sequence, m.TimeMs = r.instance, r.sequence.Add(1), now.UnixMilli()
	value, err := stream.EncodeStatus(m)
	if err != nil {
		r.failed(ctx, err)
		return
	}
	sending, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	out := stream.Out{Topic: r.cfg.Topic, Partition: stream.AnyPartition, Key: stream.StatusKey(m), Value: value, Time: now}
	if err := to.Send(sending, []stream.Out{out}, func(err error) { r.done(ctx, err) }); err != nil {
		r.failed(ctx, err)
	}
}

// done notes what became of a report that was sent under ctx.
func (r *Reporter) done(ctx context.Context, err error) {
	if err != nil {
		r.failed(ctx, err)
		return
	}
	r.sent.Inc()
	if r.failing.CompareAndSwap(true, false) {
		r.cfg.Logger.Info("reports for the live page are written again")
	}
}

// failed counts a lost report, and says so once for as long as they are lost. One that
// was under way when the process was asked to stop is no news.
func (r *Reporter) failed(ctx context.Context, err error) {
	r.lost.Inc()
	if ctx.Err() != nil {
		return
	}
	if r.failing.CompareAndSwap(false, true) {
		r.cfg.Logger.Warn("reports for the live page are lost; nothing else is", "err", err)
	}
}

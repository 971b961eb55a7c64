package monitor

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/porestream/porestream/stream/streampb"
)

// keptReports is how many reports of a process are kept: a bit more than the longest
// window at one a second.
const keptReports = 75

// When a process is held for silent, and when it is no longer shown.
const (
	silentAfter  = 10 * time.Second
	forgetAfter  = 30 * time.Minute // a process that said that it stops
	buriedAfter  = 12 * time.Hour   // one that did not
	shortWindow  = 10 * time.Second
	longWindow   = time.Minute
	historyPoint = 2 * time.Second
)

// process is what a process has reported.
//
// Problem: rates and quantiles over the last minute are wanted from counters that are
// reported once a second, in reports that may be lost, late or repeated.
//
// Strategy: the newest reports are kept, ordered by their number; a rate is the
// difference of two of them. All series of a process, buckets of histograms included,
// have a column each, and a report is a row.
//
// Consequences: the kept reports are the highest numbers of all that came, so what
// follows from them does not depend on the order they came in.
type process struct {
	instance string
	report   *streampb.ProcessReport // newest
	columns  map[string]int
	series   []series
	rows     []row // by number, ascending
}

// series is one column.
type series struct {
	name   string
	labels []string // name, value, ...
	bound  float64  // upper bound of a bucket; NaN for all others
	kind   seriesKind
}

type seriesKind byte

const (
	plain seriesKind = iota
	bucket
	sum
)

// row is one report.
type row struct {
	sequence uint64
	at       time.Time
	values   []float64
}

func (r *row) value(i int) float64 {
	if i < len(r.values) {
		return r.values[i]
	}
	return 0
}

func (v *View) addProcess(m *streampb.Status, report *streampb.ProcessReport) {
	p := v.processes[m.GetInstance()]
	if p == nil {
		if len(v.processes) >= v.limits.Processes && !v.forgetOldest(m.GetTimeMs()) {
			v.leftOut["processes"]++
			return
		}
		p = &process{instance: m.GetInstance(), columns: make(map[string]int)}
		v.processes[m.GetInstance()] = p
	}
	i, known := slices.BinarySearchFunc(p.rows, m.GetSequence(), func(r row, n uint64) int { return cmp.Compare(r.sequence, n) })
	if known || i == 0 && len(p.rows) >= keptReports {
		return
	}
	p.rows = slices.Insert(p.rows, i, row{sequence: m.GetSequence(), at: time.UnixMilli(m.GetTimeMs()), values: p.valuesOf(report)})
	if i == len(p.rows)-1 {
		p.report = report
	}
	if len(p.rows) > keptReports {
		p.rows = slices.Delete(p.rows, 0, 1)
	}
}

// forgetOldest frees a slot for a process by forgetting one that has been silent
// longer than the report to come is old.
func (v *View) forgetOldest(ms int64) bool {
	var oldest *process
	for _, p := range v.processes {
		if oldest == nil || p.last().Before(oldest.last()) || p.last().Equal(oldest.last()) && p.instance < oldest.instance {
			oldest = p
		}
	}
	if oldest == nil || !oldest.last().Before(time.UnixMilli(ms)) {
		return false
	}
	delete(v.processes, oldest.instance)
	v.leftOut["processes"]++
	return true
}

// maxColumns bounds the series of a process.
const maxColumns = 8192

func (p *process) valuesOf(report *streampb.ProcessReport) []float64 {
	values := make([]float64, len(p.series), len(p.series)+8)
	set := func(s series, suffix string, value float64) {
		key := s.name + "\x00" + strings.Join(s.labels, "\x00") + "\x00" + suffix
		i, known := p.columns[key]
		if !known {
			if len(p.series) >= maxColumns {
				return
			}
			i = len(p.series)
			p.columns[key] = i
			p.series = append(p.series, s)
		}
		for len(values) <= i {
			values = append(values, 0)
		}
		values[i] = value
	}
	for _, m := range report.GetMeasures() {
		set(series{name: m.GetName(), labels: m.GetLabels(), bound: math.NaN()}, "", m.GetValue())
	}
	for _, d := range report.GetDistributions() {
		set(series{name: d.GetName(), labels: d.GetLabels(), bound: math.NaN(), kind: sum}, "sum", d.GetSum())
		before := uint64(0)
		for i, count := range d.GetCounts() {
			bound := math.Inf(1)
			if i < len(d.GetBounds()) {
				bound = d.GetBounds()[i]
			}
			set(series{name: d.GetName(), labels: d.GetLabels(), bound: bound, kind: bucket}, bucketName(bound), float64(count-before))
			before = count
		}
	}
	return values
}

func bucketName(bound float64) string {
	b := math.Float64bits(bound)
	return string([]byte{'b', byte(b >> 56), byte(b >> 48), byte(b >> 40), byte(b >> 32), byte(b >> 24), byte(b >> 16), byte(b >> 8), byte(b)})
}

func (p *process) last() time.Time { return p.rows[len(p.rows)-1].at }

func (p *process) started() time.Time { return time.UnixMilli(p.report.GetStartedMs()) }

// stopped reports whether the process has sent its last report.
func (p *process) stopped() bool { return p.report.GetStopping() }

func (p *process) silent(now time.Time) bool { return !p.stopped() && now.Sub(p.last()) > silentAfter }

// alive reports whether the process's report is about now.
func (p *process) alive(now time.Time) bool { return !p.stopped() && !p.silent(now) }

// labels is what a series has to have: name, value, name, value.
type labels []string

func (s *series) has(want labels) bool {
	for i := 0; i+1 < len(want); i += 2 {
		if s.label(want[i]) != want[i+1] {
			return false
		}
	}
	return true
}

func (s *series) label(name string) string {
	for i := 0; i+1 < len(s.labels); i += 2 {
		if s.labels[i] == name {
			return s.labels[i+1]
		}
	}
	return ""
}

// each calls fn for the process's columns of a metric.
func (p *process) each(name string, kind seriesKind, want labels, fn func(i int, s *series)) {
	for i := range p.series {
		if s := &p.series[i]; s.name == name && s.kind == kind && s.has(want) {
			fn(i, s)
		}
	}
}

// now is the newest value of a metric, summed.
func (p *process) now(name string, want ...string) float64 {
	total := 0.0
	newest := &p.rows[len(p.rows)-1]
	p.each(name, plain, want, func(i int, _ *series) { total += newest.value(i) })
	return total
}

// window is the newest report and the one to compare it with, and the seconds between
// them; none if there is only one and the process is older than the window.
func (p *process) window(length time.Duration) (newest, older *row, seconds float64) {
	newest = &p.rows[len(p.rows)-1]
	older = &p.rows[0]
	for i := len(p.rows) - 2; i >= 0; i-- {
		if newest.at.Sub(p.rows[i].at) >= length {
			older = &p.rows[i]
			break
		}
	}
	if first := p.rows[0]; older == &p.rows[0] && newest.at.Sub(p.started()) <= length && first.at.After(p.started()) {
		older = &row{at: p.started()} // everything it has counted is of this window
	}
	return newest, older, newest.at.Sub(older.at).Seconds()
}

// rate is the increase of a metric per second over a window.
func (p *process) rate(length time.Duration, name string, want ...string) float64 {
	newest, older, seconds := p.window(length)
	if seconds <= 0 {
		return 0
	}
	total := 0.0
	p.each(name, plain, want, func(i int, _ *series) { total += max(0, newest.value(i)-older.value(i)) })
	return total / seconds
}

// histogram is counts by upper bound.
type histogram struct {
	buckets map[float64]float64
	count   float64
	sum     float64
}

// observed adds what a histogram of the process has seen in a window.
func (p *process) observed(h *histogram, length time.Duration, name string, want ...string) {
	newest, older, _ := p.window(length)
	p.each(name, bucket, want, func(i int, s *series) {
		if n := newest.value(i) - older.value(i); n > 0 {
			if h.buckets == nil {
				h.buckets = make(map[float64]float64)
			}
			h.buckets[s.bound] += n
			h.count += n
		}
	})
	p.each(name, sum, want, func(i int, _ *series) { h.sum += max(0, newest.value(i)-older.value(i)) })
}

// quantile is within the bucket that holds it, by linear interpolation; the highest
// finite bound if it is above that.
func (h *histogram) quantile(q float64) *float64 {
	if h.count == 0 {
		return nil
	}
	bounds := make([]float64, 0, len(h.buckets))
	for b := range h.buckets {
		bounds = append(bounds, b)
	}
	slices.Sort(bounds)
	rank, below, lower := q*h.count, 0.0, 0.0
	for _, b := range bounds {
		n := h.buckets[b]
		if below+n >= rank {
			if math.IsInf(b, 1) {
				return &lower
			}
			at := lower + (b-lower)*(rank-below)/n
			return &at
		}
		below, lower = below+n, b
	}
	return &lower
}

// sorted are the processes in the order they are shown: by kind, then host, then
// start.
func (v *View) sorted() []*process {
	list := make([]*process, 0, len(v.processes))
	for _, p := range v.processes {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *process) int {
		return cmp.Or(cmp.Compare(a.report.GetKind(), b.report.GetKind()), cmp.Compare(a.report.GetHost(), b.report.GetHost()),
			cmp.Compare(a.report.GetStartedMs(), b.report.GetStartedMs()), cmp.Compare(a.instance, b.instance))
	})
	return list
}

// succeeded reports whether another process has been started in a process's place.
func (v *View) succeeded(p *process) bool {
	for _, o := range v.processes {
		if o != p && o.report.GetKind() == p.report.GetKind() && o.report.GetHost() == p.report.GetHost() &&
			o.report.GetAddress() == p.report.GetAddress() && o.report.GetStartedMs() > p.report.GetStartedMs() && o.last().After(p.last()) {
			return true
		}
	}
	return false
}

// shown reports whether a process is still worth showing.
func (v *View) shown(p *process, now time.Time) bool {
	age := now.Sub(p.last())
	switch {
	case p.stopped():
		return age < forgetAfter && !v.succeeded(p)
	case p.silent(now):
		return age < buriedAfter && !v.succeeded(p)
	}
	return true
}

// States of processes.
const (
	processUp      = "up"
	processSilent  = "silent"
	processStopped = "stopped"
)

func (v *View) processViews(now time.Time) []ProcessUp {
	list := []ProcessUp{}
	for _, p := range v.sorted() {
		if !v.shown(p, now) {
			continue
		}
		r := p.report
		up := ProcessUp{
			Instance: p.instance, Kind: r.GetKind(), Version: r.GetVersion(), Host: r.GetHost(), Started: p.started().UTC(),
			SilentSeconds: math.Max(0, now.Sub(p.last()).Seconds()), State: processUp, Stages: append([]string{}, r.GetStages()...),
			Address: r.GetAddress(), Memory: int64(p.now("process_resident_memory_bytes")),
		}
		switch {
		case p.stopped():
			up.State = processStopped
		case p.silent(now):
			up.State = processSilent
		default:
			if len(p.rows) > 1 {
				cpu := p.rate(shortWindow, "process_cpu_seconds_total")
				up.CPU = &cpu
			}
		}
		list = append(list, up)
	}
	return list
}

package monitor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/alert"
)

// Limits bound what a [View] holds; what is beyond is counted in Summary.LeftOut.
type Limits struct {
	Variants    int // rows of the variant table
	Alerts      int
	Problems    int
	Runs        int
	Processes   int
	FlowCells   int
	DepthBins   int // of all regions of all samples
	DeadLetters int // that are remembered one by one, so that it is known when one is sent back
	// Modified bases: modifications of contigs of samples, their stretches, and sites that are kept one by one.
	MethylationTracks, MethylationStretches, MethylationSites int
}

// DefaultLimits take 100 MB at most, where modified bases are counted 250 MB, and little when little is there.
func DefaultLimits() Limits {
	return Limits{
		Variants: 10_000, Alerts: 12_000, Problems: 200, Runs: 200, Processes: 256, FlowCells: 48, DepthBins: 16 << 20, DeadLetters: 20_000,
		MethylationTracks: 4000, MethylationStretches: 800_000, MethylationSites: 4 << 20,
	}
}

// View is the live picture of a deployment: a fold of the records of its topics. It
// is not safe for concurrent use. The zero value is not usable; see [NewView].
type View struct {
	topics stream.Topics
	limits Limits

	processes map[string]*process
	runs      map[string]*run
	cells     map[string]*cell // by run
	contigs   map[contigKey]*contigDepth
	bins      int // of all regions
	variants  variantTable
	// methylation has as many stretches and sites, of all tracks.
	methylation      map[methylationKey]*methylationTrack
	stretches, sites int
	alerts           map[string]*receivedAlert
	namer            Namer // nil: no alleles are named
	named            map[string]Diplotype
	letters          map[letterKey]*letters
	positions        map[position]letterKey // of dead letters
	order            []position             // oldest first
	leftOut          map[string]int

	problems   map[string]*Problem // as last sent
	since      map[string]time.Time
	unreadable map[string]string // topic: why

	history history
	unsent  unsent
}

// NewView is the picture of a deployment of which nothing is known. The zero Limits
// are [DefaultLimits].
func NewView(topics stream.Topics, limits Limits) *View {
	if limits == (Limits{}) {
		limits = DefaultLimits()
	}
	return &View{
		topics: topics, limits: limits,
		processes: make(map[string]*process), runs: make(map[string]*run), cells: make(map[string]*cell),
		contigs: make(map[contigKey]*contigDepth), methylation: make(map[methylationKey]*methylationTrack), variants: newVariantTable(limits.Variants), alerts: make(map[string]*receivedAlert),
		letters: make(map[letterKey]*letters), positions: make(map[position]letterKey), leftOut: make(map[string]int),
		problems: make(map[string]*Problem), since: make(map[string]time.Time), unreadable: make(map[string]string),
		unsent: newUnsent(),
	}
}

// Name has the alleles of samples named from now on.
func (v *View) Name(n Namer) { v.namer, v.named = n, make(map[string]Diplotype) }

// Topics are those that the view is a fold of. Those of alerts and of modified bases may not exist.
func (v *View) Topics() []string {
	t := v.topics
	return []string{t.Runs, t.Status, t.DeadLetters, t.Alerts, t.Variants, t.Methylation}
}

// Add folds in a record of one of the topics. An error means that the record can't be
// read; the view is as before.
func (v *View) Add(rec stream.Record) error {
	switch rec.Topic {
	case v.topics.Status:
		m, err := stream.DecodeStatus(rec.Value)
		if err != nil {
			return fmt.Errorf("reading a report: %w", err)
		}
		v.addStatus(m)
	case v.topics.Runs:
		r, err := stream.DecodeRun(rec.Value)
		if err != nil {
			return fmt.Errorf("reading a run: %w", err)
		}
		v.addRun(r, rec.Time)
	case v.topics.Variants:
		e, end, err := event.Decode(rec)
		if err != nil {
			return err
		}
		if end != nil {
			v.addEnd(end, rec.Time)
		}
		if e != nil {
			v.variants.add(e, rec)
		}
		if v.namer != nil {
			if err := v.namer.Add(rec); err != nil {
				return err
			}
			v.leftOut["samples of named alleles"] = v.namer.LeftOut()
		}
	case v.topics.Alerts:
		a, _, err := alert.Decode(rec)
		if err != nil {
			return err
		}
		if a != nil {
			v.addAlert(a, rec)
		}
	case v.topics.Methylation:
		s, _, err := methylation.Decode(rec)
		if err != nil {
			return err
		}
		if s != nil {
			v.addMethylation(s, rec.Time)
		}
	case v.topics.DeadLetters:
		return v.addLetter(rec)
	}
	return nil
}

// Unreadable says why a topic can't be read at the moment; nil: it can.
func (v *View) Unreadable(topic string, err error) {
	if err == nil {
		delete(v.unreadable, topic)
		return
	}
	v.unreadable[topic] = err.Error()
}

func (v *View) addStatus(m *streampb.Status) {
	switch body := m.GetBody().(type) {
	case *streampb.Status_Process:
		v.addProcess(m, body.Process)
	case *streampb.Status_Channels:
		v.addChannels(m, body.Channels)
	case *streampb.Status_Depth:
		v.addDepth(m, body.Depth)
	}
}

// run is what is known of a run.
type run struct {
	about   *streampb.Run
	seen    time.Time // when it was announced
	sources map[uint32]bool
	needed  uint32 // sources that have to say that it has ended
	status  string // of its end
	ended   time.Time
}

func (r *run) complete() bool { return r.needed > 0 && len(r.sources) >= int(r.needed) }

func (v *View) runOf(id string, at time.Time) *run {
	r := v.runs[id]
	if r == nil {
		if len(v.runs) >= v.limits.Runs {
			oldest := ""
			for id, r := range v.runs {
				if o := v.runs[oldest]; o == nil || r.seen.Before(o.seen) || r.seen.Equal(o.seen) && id < oldest {
					oldest = id
				}
			}
			if v.runs[oldest].seen.After(at) {
				v.leftOut["runs"]++
				return nil
			}
			delete(v.runs, oldest)
			v.leftOut["runs"]++
		}
		r = &run{about: &streampb.Run{Id: id, Sample: ""}, seen: at, sources: make(map[uint32]bool)}
		v.runs[id] = r
	}
	if at.Before(r.seen) {
		r.seen = at
	}
	return r
}

func (v *View) addRun(about *streampb.Run, at time.Time) {
	if r := v.runOf(about.GetId(), at); r != nil {
		r.about = about
		v.unsent.channels = true
	}
}

func (v *View) addEnd(end *event.RunEnd, at time.Time) {
	r := v.runOf(end.Run, at)
	if r == nil {
		return
	}
	r.sources[end.Source], r.needed = true, max(r.needed, end.Sources)
	if r.about.GetSample() == "" {
		r.about = &streampb.Run{Id: end.Run, Sample: end.Sample}
	}
	if end.Status != "" && end.Status != event.EndNormal {
		r.status = end.Status
	}
	if at.After(r.ended) {
		r.ended = at
	}
}

// States of runs.
const (
	runRunning = "running"
	runEnded   = "ended"
)

func (v *View) runViews() []RunView {
	list := make([]RunView, 0, len(v.runs))
	for id, r := range v.runs {
		a := r.about
		row := RunView{
			ID: id, Sample: a.GetSample(), FlowCell: a.GetFlowCell(), Kit: a.GetKit(), Position: cmp.Or(a.GetPosition(), a.GetDevice()),
			State: runRunning, Started: r.seen.UTC(),
		}
		if c := v.cells[id]; c != nil {
			row.Reads, row.Samples = int64(c.report.GetReads()), int64(c.report.GetSamples())
		}
		if r.complete() {
			ended := r.ended.UTC()
			row.State, row.Ended = cmp.Or(r.status, runEnded), &ended
		}
		list = append(list, row)
	}
	slices.SortFunc(list, func(a, b RunView) int { return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.ID, b.ID)) })
	return list
}

// receivedAlert is the newest alert of a key.
type receivedAlert struct {
	alert *watchlist.Alert
	row   Alert
}

func (v *View) addAlert(a *watchlist.Alert, rec stream.Record) {
	key := string(rec.Key)
	known := v.alerts[key]
	if known == nil && len(v.alerts) >= v.limits.Alerts {
		v.leftOut["alerts"]++
		return
	}
	if known != nil && !alert.Supersedes(a, known.alert) {
		return
	}
	row := Alert{
		ID: key, Sample: a.Sample, Panel: a.Panel.ID, Rule: a.Rule, Subject: a.Subject, Title: cmp.Or(a.Label, a.Rule),
		State: string(a.State), Previous: string(a.Previous), Severity: a.Severity, Evidence: evidence(a), Updated: rec.Time.UTC(),
	}
	v.alerts[key] = &receivedAlert{alert: a, row: row}
	v.unsent.alerts[key] = true
}

// evidence says what an alert rests on.
func evidence(a *watchlist.Alert) string {
	text := ""
	if al := a.Allele; al != nil {
		text = fmt.Sprintf("%s:%d %s>%s", al.Contig, al.Pos, cut(al.Ref), cut(al.Alt))
	}
	add := func(format string, args ...any) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf(format, args...)
	}
	if e := a.Evidence; e != nil {
		add("%d of %d reads, QUAL %.1f", e.AltForward+e.AltReverse, e.Depth, e.Qual)
	}
	if p := a.Probability.FalseAlarm; p != nil {
		add("false alarm at most %.2g", *p)
	}
	if p := a.Probability.Miss; p != nil {
		add("miss at most %.2g", *p)
	}
	if c := a.Coverage; c != nil && c.NotCallable > 0 {
		add("%d of %d positions have less than %d reads", c.NotCallable, c.Positions, c.DepthNeeded)
	}
	if a.Reason != "" {
		add("%s", a.Reason)
	}
	return text
}

// letterKey is what dead letters are grouped by.
type letterKey struct{ stage, code string }

// letters are the dead letters of a stage and code.
type letters struct {
	count       int64
	first, last time.Time
	detail      string
}

type position struct {
	partition int32
	offset    int64
}

func (v *View) addLetter(rec stream.Record) error {
	at := position{rec.Partition, rec.Offset}
	if len(rec.Headers) == 1 && rec.Headers[0].Key == stream.HeaderRedriven {
		offset, err := strconv.ParseInt(string(rec.Headers[0].Value), 10, 64)
		if err != nil {
			return errors.New("reading a dead letter: a mark without an offset")
		}
		at.offset = offset
		if key, known := v.positions[at]; known {
			delete(v.positions, at)
			v.letters[key].count--
		}
		return nil
	}
	l, err := stream.ParseDeadLetter(rec)
	if err != nil {
		return fmt.Errorf("reading a dead letter: %w", err)
	}
	if _, known := v.positions[at]; known {
		return nil
	}
	key := letterKey{l.Stage, l.Code}
	group := v.letters[key]
	if group == nil {
		if len(v.letters) >= v.limits.Problems {
			v.leftOut["problems"]++
			return nil
		}
		group = &letters{first: rec.Time}
		v.letters[key] = group
	}
	group.count++
	if rec.Time.Before(group.first) {
		group.first = rec.Time
	}
	if !rec.Time.Before(group.last) {
		group.last = rec.Time
		group.detail = fmt.Sprintf("%s, partition %d, offset %d: %s", l.Record.Topic, l.Record.Partition, l.Record.Offset, l.Reason)
	}
	v.positions[at] = key
	v.order = append(v.order, at)
	for len(v.positions) > v.limits.DeadLetters || len(v.order) > 2*v.limits.DeadLetters {
		delete(v.positions, v.order[0])
		v.order = v.order[1:]
	}
	return nil
}

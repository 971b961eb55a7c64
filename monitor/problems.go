package monitor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// finding is something that is wrong at the moment.
type finding struct {
	id       string
	advice   string // its name in the table
	severity string
	title    string // instead of the table's
	detail   string
	stage    string
	count    int64
	first    time.Time     // zero: when it was found first
	last     time.Time     // zero: now
	wait     time.Duration // for how long it has to be found before it is shown
}

// lastingHold is for how long an event of the past is shown; counters show only its moment.
const lastingHold = 15 * time.Minute

// updateProblems compares what is wrong now with what was sent.
func (v *View) updateProblems(now time.Time) Problems {
	out := Problems{Upsert: []Problem{}, Remove: []string{}}
	found := make(map[string]bool)
	for _, f := range v.findings(now) {
		found[f.id] = true
		since, known := v.since[f.id]
		if !known {
			since = now
			v.since[f.id] = now
		}
		if now.Sub(since) < f.wait {
			continue
		}
		old := v.problems[f.id]
		if old == nil && len(v.problems) >= v.limits.Problems {
			v.leftOut["problems"]++
			continue
		}
		next := f.problem(since, now)
		if old != nil && *old == next {
			continue
		}
		v.problems[f.id] = &next
		out.Upsert = append(out.Upsert, next)
	}
	for id, p := range v.problems {
		if !found[id] && now.Sub(p.Last) >= heldFor(id) {
			delete(v.problems, id)
			out.Remove = append(out.Remove, id)
		}
	}
	for id := range v.since {
		if !found[id] && v.problems[id] == nil {
			delete(v.since, id)
		}
	}
	sortProblems(out.Upsert)
	slices.Sort(out.Remove)
	return out
}

// heldFor is for how long a problem is shown after it was found last.
func heldFor(id string) time.Duration {
	if strings.HasPrefix(id, "event/") {
		return lastingHold
	}
	return 0
}

func (f *finding) problem(since, now time.Time) Problem {
	a := adviceOn(f.advice)
	p := Problem{
		ID: f.id, Severity: f.severity, Title: cmp.Or(f.title, a.title), Detail: f.detail, Do: a.do, Stage: f.stage,
		Count: f.count, First: f.first.UTC(), Last: f.last.UTC(),
	}
	if f.first.IsZero() {
		p.First = since.UTC()
	}
	if f.last.IsZero() {
		// What goes on is sent again when its words change, not with every second.
		p.Last = now.UTC().Truncate(10 * time.Second)
	}
	return p
}

var severities = []string{SeverityError, SeverityWarning, SeverityInfo}

func sortProblems(list []Problem) {
	slices.SortFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)), cmp.Compare(a.ID, b.ID))
	})
}

// findings is what is wrong now. The thresholds are those of
// deploy/prometheus/rules.yml, over a minute instead of five.
func (v *View) findings(now time.Time) []finding {
	list := v.alive(now)
	out := v.silentProcesses(now)
	out = append(out, v.groupFindings(list)...)
	out = append(out, v.speedFindings(list)...)
	out = append(out, ingestFindings(list)...)
	out = append(out, snapshotFindings(list, now)...)
	out = append(out, resizedFindings(list)...)
	out = append(out, eventFindings(list)...)
	out = append(out, v.modelFindings()...)
	out = append(out, v.motifFindings()...)
	out = append(out, v.carryOverFindings()...)
	for key, l := range v.letters {
		if l.count > 0 && now.Sub(l.last) < 24*time.Hour {
			out = append(out, finding{
				id: "dead-letters/" + key.stage + "/" + key.code, advice: deadLetterAdvice(key.code), severity: SeverityWarning,
				title:  fmt.Sprintf("the %s stage refuses records: %s", key.stage, adviceOn(deadLetterAdvice(key.code)).title),
				detail: l.detail, stage: key.stage, count: l.count, first: l.first, last: l.last,
			})
		}
	}
	for id, r := range v.runs {
		if r.status == "timeout" && r.complete() {
			out = append(out, finding{
				id: "run-timeout/" + id, advice: "RunTimeout", severity: SeverityWarning, detail: "run " + id + ", sample " + r.about.GetSample(),
				stage: "basecall", first: r.ended, last: r.ended,
			})
		}
	}
	for topic, why := range v.unreadable {
		out = append(out, finding{id: "unreadable/" + topic, advice: "Unreadable", severity: SeverityWarning, detail: "topic " + topic + ": " + why, wait: 5 * time.Second})
	}
	slices.SortFunc(out, func(a, b finding) int { return cmp.Compare(a.id, b.id) })
	return out
}

// motifFindings are motifs that reads of one strand get wrong, by the variants that are on the page.
func (v *View) motifFindings() (out []finding) {
	var counts event.MotifCounts
	for _, h := range v.variants.rows {
		counts.Add(h.row.Sample, event.Allele{Contig: h.row.Contig, Pos: h.row.Pos}, h.motif, h.row.Status)
	}
	for _, m := range counts.List() {
		out = append(out, finding{
			id: fmt.Sprintf("motif/%s/%s/%d/%s", m.Sample, m.Motif, m.Base, m.Shows), advice: "MotifMisread", severity: SeverityWarning, stage: "variant",
			title: fmt.Sprintf("reads of sample %s get the motif %s wrong", m.Sample, m.Motif), detail: m.String(), count: m.Alleles,
		})
	}
	return out
}

// carryOverFindings are samples with alleles that carry-over explains, by the variants that are on the page.
func (v *View) carryOverFindings() (out []finding) {
	bySample := make(map[string][]*receivedVariant)
	for _, h := range v.variants.rows {
		if h.carryOver != nil && h.carryOver.Explained && h.row.Status != streampb.CallStatus_RETRACTED.String() {
			bySample[h.row.Sample] = append(bySample[h.row.Sample], h)
		}
	}
	for sample, list := range bySample {
		most := slices.MaxFunc(list, func(a, b *receivedVariant) int {
			return cmp.Or(cmp.Compare(shareOf(a.carryOver), shareOf(b.carryOver)), cmp.Compare(b.row.Contig, a.row.Contig), cmp.Compare(b.row.Pos, a.row.Pos), cmp.Compare(b.row.ID, a.row.ID))
		})
		what := "an allele"
		if len(list) > 1 {
			what = fmt.Sprintf("%d alleles", len(list))
		}
		out = append(out, finding{
			id: "carry-over/" + sample, advice: "CarriedOver", severity: SeverityWarning, stage: "annotate",
			title:  fmt.Sprintf("carry-over explains %s of sample %s", what, sample),
			detail: fmt.Sprintf("%s:%d %s>%s: %s", most.row.Contig, most.row.Pos, most.row.Ref, most.row.Alt, most.carryOver), count: int64(len(list)),
		})
	}
	return out
}

func shareOf(c *event.CarryOver) float64 {
	if c.Share == nil {
		return 0
	}
	return *c.Share
}

func (v *View) silentProcesses(now time.Time) (out []finding) {
	for _, p := range v.processes {
		if !p.silent(now) || !v.shown(p, now) {
			continue
		}
		r := p.report
		out = append(out, finding{
			id: "silent/" + p.instance, advice: "PorestreamDown", severity: SeverityError,
			title:  fmt.Sprintf("%s on %s is silent", r.GetKind(), cmp.Or(r.GetHost(), "an unknown host")),
			detail: fmt.Sprintf("started %s, stages %s, last report at %s", p.started().UTC().Format(time.DateTime), strings.Join(r.GetStages(), ", "), p.last().UTC().Format(time.TimeOnly)),
			stage:  strings.Join(r.GetStages(), ","), first: p.last(), last: p.last(),
		})
	}
	return out
}

// groupFindings are consumer groups without a live partition.
func (v *View) groupFindings(list []*process) (out []finding) {
	live := make(map[string]float64)
	for _, p := range list {
		p.each(mLive, plain, nil, func(i int, s *series) { live[s.label("group")] += p.rows[len(p.rows)-1].value(i) })
	}
	for group, n := range live {
		if n == 0 {
			out = append(out, finding{
				id: "group/" + group, advice: "PorestreamNoConsumerGroup", severity: SeverityError, wait: 30 * time.Second,
				title: "no partition of group " + group + " is being processed", stage: group,
			})
		}
	}
	running := false
	for _, r := range v.runs {
		running = running || !r.complete()
	}
	if len(live) == 0 && running && len(v.processes) > 0 {
		out = append(out, finding{id: "group/", advice: "PorestreamNoConsumerGroup", severity: SeverityError, wait: 30 * time.Second, detail: "a run is under way, and no processor reports"})
	}
	return out
}

func (v *View) speedFindings(list []*process) (out []finding) {
	for _, l := range v.lag(list) {
		if l.Seconds == nil || *l.Seconds > 60 {
			detail := fmt.Sprintf("%d records wait in topic %s, and none is read", l.Records, l.Topic)
			if l.Seconds != nil {
				detail = fmt.Sprintf("%d records wait in topic %s: %s of work", l.Records, l.Topic, spell(*l.Seconds))
			}
			out = append(out, finding{
				id: "lag/" + l.Topic, advice: "PorestreamLagOld", severity: SeverityError, wait: 30 * time.Second,
				title: "work waits in topic " + l.Topic, detail: detail, stage: l.Stage, count: l.Records,
			})
		}
	}
	out = append(out, v.pace(list).findings()...)
	for _, l := range latencies(list) {
		if l.Stage == "variants" && l.P99 != nil && *l.P99 > 30 {
			out = append(out, finding{
				id: "latency", advice: "PorestreamLatencyHigh", severity: SeverityWarning, wait: time.Minute,
				title: "1 in 100 calls takes longer than " + spell(*l.P99) + " from the end of its read", count: l.Count,
			})
		}
	}
	mapped, parts := rateOf(list, longWindow, mReadParts, "outcome", "mapped"), rateOf(list, longWindow, mReadParts)
	if parts*longWindow.Seconds() > 100 && mapped < 0.05*parts {
		out = append(out, finding{
			id: "nothing-callable", advice: "PorestreamNothingCallable", severity: SeverityWarning, wait: 30 * time.Second, stage: "basecall",
			title: fmt.Sprintf("only %.0f %% of the reads map to the reference", 100*mapped/parts),
		})
	}
	out = append(out, withoutModel(list)...)
	missing, came := rateOf(list, longWindow, mGapSamples), rateOf(list, longWindow, mChunkSamples)
	if missing > 0 && missing > 0.001*(missing+came) {
		out = append(out, finding{
			id: "event/signal-missing", advice: "PorestreamSignalMissing", severity: SeverityWarning, stage: "basecall",
			title: fmt.Sprintf("%.1f %% of the signal never arrived", 100*missing/(missing+came)),
		})
	}
	return out
}

// withoutModel are processes that leave reads out because their runs have no model. Runs that a
// rule leaves out on purpose are none of them.
func withoutModel(list []*process) (out []finding) {
	for _, p := range list {
		left, runs := p.rate(longWindow, mReadParts, "outcome", "no_model"), 0.0
		var reasons []string
		for _, why := range []struct{ label, words string }{
			{"no_rule", "no rule of --models is for %.0f"}, {"none_fits", "no model of --models-dir fits %.0f"}, {"load_failed", "the model of %.0f can't be loaded"},
		} {
			if n := p.now(mWithoutModel, "reason", why.label); n > 0 {
				runs += n
				reasons = append(reasons, fmt.Sprintf(why.words, n))
			}
		}
		if left == 0 || runs == 0 {
			continue
		}
		out = append(out, finding{
			id: "event/no-model/" + p.instance, advice: "NoModel", severity: SeverityWarning, stage: "basecall",
			detail: fmt.Sprintf("of the runs on %s, %s", p.report.GetHost(), strings.Join(reasons, ", ")), count: int64(p.now(mReadParts, "outcome", "no_model")),
		})
	}
	return out
}

func ingestFindings(list []*process) (out []finding) {
	for _, p := range list {
		newest := &p.rows[len(p.rows)-1]
		where := func(s *series) (id, text string) {
			source := s.label("source")
			if source == "" {
				return p.instance, "on " + p.report.GetHost()
			}
			return p.instance + "/" + source, "source " + source + " on " + p.report.GetHost()
		}
		late := func(i int, s *series) {
			if late := newest.value(i); late > 10 {
				id, text := where(s)
				out = append(out, finding{
					id: "late/" + id, advice: "PorestreamIngestLate", severity: SeverityWarning, wait: 30 * time.Second, stage: "ingest",
					title: "signal is sent " + spell(late) + " after it was measured", detail: text,
				})
			}
		}
		p.each(mLateness, plain, nil, late)
		p.each(mOldestWaiting, plain, nil, late)
		p.each(mSourceState, plain, nil, func(i int, s *series) {
			if state := s.label("state"); newest.value(i) > 0 && (state == "failed" || state == "backing-off") {
				id, text := where(s)
				out = append(out, finding{
					id: "source/" + id, advice: "PorestreamSourceFailed", severity: SeverityError, wait: 30 * time.Second, stage: "ingest", detail: text + ": " + state,
				})
			}
		})
		p.each(mSpoolLimit, plain, nil, func(i int, s *series) {
			limit := newest.value(i)
			if limit <= 0 {
				return
			}
			id, text := where(s)
			full := p.now(mSpool, s.labels...) / limit
			refused := p.rate(longWindow, mSpoolRefusals, s.labels...) > 0
			switch {
			case full >= 0.95 || refused:
				out = append(out, finding{id: "spool/" + id, advice: "PorestreamSpoolFull", severity: SeverityError, stage: "ingest", detail: text})
			case full > 0.5:
				out = append(out, finding{
					id: "spool/" + id, advice: "PorestreamSpoolFilling", severity: SeverityWarning, stage: "ingest",
					title: fmt.Sprintf("the spool is %.0f %% full: Kafka is away or too slow", 100*full), detail: text,
				})
			}
		})
		if lost := p.rate(longWindow, mIngestLost); lost > 0 {
			out = append(out, finding{
				id: "event/lost/" + p.instance, advice: "SignalLost", severity: SeverityError, stage: "ingest",
				detail: fmt.Sprintf("on %s, %.0f samples a second", p.report.GetHost(), lost), count: int64(p.now(mIngestLost)),
			})
		}
	}
	return out
}

// snapshotFindings are stages whose newest state has been in no snapshot for long.
func snapshotFindings(list []*process, now time.Time) (out []finding) {
	for _, p := range list {
		p.each(mUnsaved, plain, nil, func(i int, s *series) {
			since := p.rows[len(p.rows)-1].value(i)
			if age := float64(now.Unix()) - since; since > 0 && age > 900 {
				out = append(out, finding{
					id: "snapshot/" + p.instance + "/" + s.label("topic"), advice: "PorestreamSnapshotOld", severity: SeverityWarning, wait: 30 * time.Second,
					title: "what came of topic " + s.label("topic") + " in the last " + spell(age) + " is in no snapshot", detail: "on " + p.report.GetHost(),
				})
			}
		})
	}
	return out
}

// resizedFindings are topics whose partitions have become others under processes that still run: their results of runs under way are wrong for good.
func resizedFindings(list []*process) (out []finding) {
	for _, p := range list {
		p.each(mResized, plain, nil, func(i int, s *series) {
			if n := p.rows[len(p.rows)-1].value(i); n > 0 {
				out = append(out, finding{
					id: "partitions/" + p.instance + "/" + s.label("topic"), advice: "PorestreamPartitionsChanged", severity: SeverityError,
					title: "the number of partitions of topic " + s.label("topic") + " has changed: results of runs under way can't be relied on", detail: "on " + p.report.GetHost(),
				})
			}
		})
	}
	return out
}

// eventFindings are what has happened within the last minute.
func eventFindings(list []*process) (out []finding) {
	for _, p := range list {
		for _, e := range []struct{ metric, label, advice, severity string }{
			{mSnapshotErrors, "group", "PorestreamSnapshotOld", SeverityWarning},
			{mFailures, "group", "PorestreamGroupUnstable", SeverityWarning},
			{mOtherPanels, "", "PorestreamPanelsDiffer", SeverityWarning},
			{mBatchFailures, "model", "DeviceFails", SeverityWarning},
		} {
			newest, older, _ := p.window(longWindow)
			p.each(e.metric, plain, nil, func(i int, s *series) {
				if newest.value(i) <= older.value(i) {
					return
				}
				name := s.label(e.label)
				detail := "on " + p.report.GetHost()
				if name != "" {
					detail = e.label + " " + name + " " + detail
				}
				out = append(out, finding{
					id: "event/" + e.advice + "/" + p.instance + "/" + name, advice: e.advice, severity: e.severity,
					detail: detail, stage: name, count: int64(newest.value(i)),
				})
			})
		}
	}
	return out
}

// modelFindings are samples whose reads several basecalling models have called, or some that the
// variant model was not made for.
func (v *View) modelFindings() (out []finding) {
	samples := make(map[string][]*streampb.ModelReads)
	for key, c := range v.contigs {
		for _, r := range c.regions {
			samples[key.sample] = stream.AddModelReads(samples[key.sample], r.models...)
		}
	}
	for sample, list := range samples {
		total, strange := uint64(0), uint64(0)
		for _, m := range list {
			total += m.GetReads()
			if m.GetMismatch() {
				strange += m.GetReads()
			}
		}
		var all []string
		for _, m := range list {
			if m.GetReads() > 0 {
				text := fmt.Sprintf("%s %.1f %%", cmp.Or(m.GetName(), "none named"), 100*float64(m.GetReads())/float64(total))
				if m.GetMismatch() {
					text += " (not known to the variant model)"
				}
				all = append(all, text)
			}
		}
		if strange > 0 && float64(strange) >= stream.MismatchShare*float64(total) {
			out = append(out, finding{
				id: "model-mismatch/" + sample, advice: "PorestreamModelMismatch", severity: SeverityWarning, stage: "variant",
				title:  fmt.Sprintf("sample %s has reads that the variant model was not made for", sample),
				detail: strings.Join(all, ", "), count: int64(strange),
			})
		}
		if stream.MixedModels(list) {
			out = append(out, finding{
				id: "models-mixed/" + sample, advice: "ModelsMixed", severity: SeverityInfo, stage: "variant",
				title: fmt.Sprintf("several basecalling models have called the reads of sample %s", sample), detail: strings.Join(all, ", "),
			})
		}
	}
	return out
}

// spell is a number of seconds for people.
func spell(seconds float64) string {
	switch d := time.Duration(seconds * float64(time.Second)); {
	case seconds < 10:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 120:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 7200:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case seconds < 1e7:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return "months"
}

// health is the answer to whether all is well.
func (v *View) health(now time.Time, s *Summary) Health {
	var errs, warnings []*Problem
	for _, p := range v.problems {
		switch p.Severity {
		case SeverityError:
			errs = append(errs, p)
		case SeverityWarning:
			warnings = append(warnings, p)
		}
	}
	first := func(list []*Problem) string {
		slices.SortFunc(list, func(a, b *Problem) int { return cmp.Or(a.First.Compare(b.First), cmp.Compare(a.ID, b.ID)) })
		if len(list) == 1 {
			return capital(list[0].Title) + "."
		}
		return fmt.Sprintf("%s, and %d more.", capital(list[0].Title), len(list)-1)
	}
	running := 0
	for _, r := range v.runs {
		if !r.complete() {
			running++
		}
	}
	alive := 0
	for _, p := range v.processes {
		if p.alive(now) {
			alive++
		}
	}
	behind, isBehind := v.fallingBehind(errs)
	switch {
	case isBehind:
		return behind
	case len(errs) > 0:
		return Health{HealthError, "Trouble", first(errs)}
	case len(warnings) > 0:
		return Health{HealthWarning, "Attention", first(warnings)}
	case len(v.runs) == 0:
		return Health{HealthWaiting, "Waiting", "No run has been seen yet."}
	case running == 0:
		return Health{HealthDone, "Finished", "All runs have ended, and everything of them is processed."}
	case alive == 0:
		return Health{HealthWaiting, "Waiting", "A run is known, but no process reports."}
	case s.Rates.Pace == PaceUnsettled:
		return Health{HealthGood, "Running", "Reads are under way; whether all keeps up is shown when they have ended."}
	}
	if h, waits := catchingUp(s.Lag); waits {
		return h
	}
	return Health{HealthGood, "Running", "Everything that comes in is processed as it comes."}
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

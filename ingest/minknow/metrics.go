package minknow

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/metric"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Metrics counts what happens between MinKNOW and ingest.
type Metrics struct {
	gaps, samples, refused, faults, reconnects *prometheus.CounterVec
	sequencing, connected, ownStates           *prometheus.GaugeVec
	decisions, answers                         *prometheus.CounterVec
	acted                                      *prometheus.HistogramVec
	badDecisions                               *prometheus.CounterVec
	interrupted                                prometheus.Counter
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "porestream_ingest_minknow_" + name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "porestream_ingest_minknow_" + name, Help: help}, []string{"position"})
		reg.MustRegister(g)
		return g
	}
	acted := prometheus.NewHistogramVec(metric.Histogram("porestream_ingest_minknow_action_seconds",
		"Time from when the last chunk that a decision rests on came from MinKNOW until the action was sent, and until it was answered.",
		[]float64{.025, .05, .1, .15, .2, .3, .4, .5, .75, 1, 1.5, 2, 3, 5}), []string{"step"})
	interrupted := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "porestream_ingest_minknow_decisions_interrupted_total",
		Help: "Times that decisions could not be read any more, and were gone on with from the topic's end.",
	})
	reg.MustRegister(acted, interrupted)
	return &Metrics{
		acted: acted, interrupted: interrupted,
		badDecisions: counter("bad_decisions_total", "Records on the topic of decisions that can't be read, by code.", "code"),
		decisions:    counter("decisions_total", "Decisions about reads of runs that are taken, by action and by what was done.", "position", "action", "outcome"),
		answers:      counter("actions_total", "Actions sent to MinKNOW, by what it has answered.", "position", "action", "answer"),
		gaps:         counter("gaps_total", "Stretches of signal that are missing, by an eighth of the flow cell's channels; within reads that are taken (read), or between them (other).", "position", "channels", "within"),
		samples:      counter("missing_samples_total", "Samples that are missing, by why: MinKNOW skipped them, there was no connection, ingest was too slow (overrun), or MinKNOW was asked not to send them (stopped).", "position", "cause", "within"),
		refused:      counter("refused_chunks_total", "Chunks that contradict themselves (message) or were said to be of a time that had passed (clock).", "position", "reason"),
		faults:       counter("faults_total", "Calls to MinKNOW that have failed, and runs that could not be taken.", "reason"),
		reconnects:   counter("reconnects_total", "Times that a run was gone on with after the connection was lost.", "position"),
		sequencing:   gauge("sequencing", "1 while signal of a run is taken, 0 while none is under way."),
		ownStates:    gauge("channel_states", "1 while MinKNOW reports the states of the channels, 0 while the live page shows what follows from the signal."),
		connected:    gauge("connected", "1 while there is a connection to the position."),
	}
}

// BadDecision counts a record on the topic of decisions that can't be read.
func (m *Metrics) BadDecision(err error) { m.badDecisions.WithLabelValues(stream.ErrorCode(err)).Inc() }

// Interrupted counts that decisions could not be read any more.
func (m *Metrics) Interrupted() { m.interrupted.Inc() }

// groups is into how many groups a flow cell's channels are counted.
const groups = 8

// positionMetrics are those of one position; it is the observer of its reads.
type positionMetrics struct {
	m        *Metrics
	position string
	channels uint32
}

func (p *positionMetrics) missing(channel uint32, why cause, m missing) {
	within := "other"
	if m.in > 0 {
		within = "read"
	}
	p.m.gaps.WithLabelValues(p.position, p.group(channel), within).Inc()
	p.m.samples.WithLabelValues(p.position, why.String(), "read").Add(float64(m.in))
	p.m.samples.WithLabelValues(p.position, why.String(), "other").Add(float64(m.other))
}

// group names the eighth of the channels that one is in.
func (p *positionMetrics) group(channel uint32) string {
	size := max(1, (p.channels+groups-1)/groups)
	first := (channel - 1) / size * size
	return fmt.Sprintf("%d-%d", first+1, min(first+size, p.channels))
}

func (p *positionMetrics) refused(reason string) {
	p.m.refused.WithLabelValues(p.position, reason).Inc()
}

var _ actionObserver = (*actionMetrics)(nil)

// actionMetrics are those of the decisions about one run; it is the observer of its
// actions.
type actionMetrics struct {
	*positionMetrics
	outcomes [outcomes]int
	answers  map[answer]int
}

func (a *actionMetrics) decided(kind streampb.DecisionAction, o outcome, after time.Duration) {
	a.outcomes[o]++
	a.m.decisions.WithLabelValues(a.position, actionName(kind), o.String()).Inc()
	if after >= 0 && (o == outcomeSent || o == outcomeDryRun) {
		a.m.acted.WithLabelValues("sent").Observe(after.Seconds())
	}
}

func (a *actionMetrics) answered(kind streampb.DecisionAction, x answer, after time.Duration) {
	a.answers[x]++
	a.m.answers.WithLabelValues(a.position, actionName(kind), string(x)).Inc()
	if after >= 0 {
		a.m.acted.WithLabelValues("answered").Observe(after.Seconds())
	}
}

// actionName is an action as it is counted.
func actionName(kind streampb.DecisionAction) string {
	switch kind {
	case streampb.DecisionAction_DECISION_ACTION_CONTINUE:
		return "continue"
	case streampb.DecisionAction_DECISION_ACTION_STOP_RECEIVING:
		return "stop_receiving"
	case streampb.DecisionAction_DECISION_ACTION_UNBLOCK:
		return "unblock"
	}
	return "unknown"
}

package minknow

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts what happens between MinKNOW and ingest.
type Metrics struct {
	gaps, samples, refused, faults, reconnects *prometheus.CounterVec
	sequencing, connected                      *prometheus.GaugeVec
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
	return &Metrics{
		gaps:       counter("gaps_total", "Stretches of signal that are missing, by an eighth of the flow cell's channels; within reads that are taken (read), or between them (other).", "position", "channels", "within"),
		samples:    counter("missing_samples_total", "Samples that are missing, by why: MinKNOW skipped them, there was no connection, or ingest was too slow (overrun).", "position", "cause", "within"),
		refused:    counter("refused_chunks_total", "Chunks that contradict themselves (message) or were said to be of a time that had passed (clock).", "position", "reason"),
		faults:     counter("faults_total", "Calls to MinKNOW that have failed, and runs that could not be taken.", "reason"),
		reconnects: counter("reconnects_total", "Times that a run was gone on with after the connection was lost.", "position"),
		sequencing: gauge("sequencing", "1 while signal of a run is taken, 0 while none is under way."),
		connected:  gauge("connected", "1 while there is a connection to the position."),
	}
}

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

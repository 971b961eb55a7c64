package sources

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Collector shows the sources as metrics.
type Collector struct {
	supervisor *Supervisor
	file       *File // nil: none

	state, restarts, unacknowledged, gaps, gapSamples, reloads *prometheus.Desc
}

// NewCollector makes the metrics of a supervisor's sources, and of the file that
// lists them; nil: none does.
func NewCollector(s *Supervisor, f *File) *Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("porestream_ingest_"+name, help, labels, nil)
	}
	return &Collector{
		supervisor: s, file: f,
		state:          desc("source_state", "1 for the state that a source is in, 0 for the others.", "source", "kind", "state"),
		restarts:       desc("source_restarts_total", "Times that a source was started again after it had failed.", "source"),
		unacknowledged: desc("source_unacknowledged_events", "Events of the runs under way that are not committed in Kafka.", "source"),
		gaps:           desc("source_gaps_total", "Places within reads where samples are missing.", "source"),
		gapSamples:     desc("source_gap_samples_total", "Samples that are missing within reads.", "source"),
		reloads:        desc("source_reloads_refused_total", "Times that a changed list of sources could not be used."),
	}
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.state, c.restarts, c.unacknowledged, c.gaps, c.gapSamples, c.reloads} {
		to <- d
	}
}

// Collect implements [prometheus.Collector]. A source that is stopped in favour of
// another of its name is not shown.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	shown := make(map[string]bool)
	for _, s := range c.supervisor.Status() {
		if shown[s.Name] {
			continue
		}
		shown[s.Name] = true
		for _, state := range States() {
			value := 0.0
			if state == s.State {
				value = 1
			}
			to <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, value, s.Name, s.Kind, string(state))
		}
		to <- prometheus.MustNewConstMetric(c.restarts, prometheus.CounterValue, float64(s.Restarts), s.Name)
		to <- prometheus.MustNewConstMetric(c.unacknowledged, prometheus.GaugeValue, float64(s.Unacknowledged), s.Name)
		to <- prometheus.MustNewConstMetric(c.gaps, prometheus.CounterValue, float64(s.Gaps), s.Name)
		to <- prometheus.MustNewConstMetric(c.gapSamples, prometheus.CounterValue, float64(s.GapSamples), s.Name)
	}
	refused := 0.0
	if c.file != nil {
		refused = float64(c.file.Status().Refused)
	}
	to <- prometheus.MustNewConstMetric(c.reloads, prometheus.CounterValue, refused)
}

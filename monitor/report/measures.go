package report

import (
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/porestream/porestream/stream/streampb"
)

// Measures are the metrics of families that are wanted, each split by its distinguishing labels and summed over the
// others; of moments in time the oldest counts. Histograms have to have classic buckets.
func Measures(families []*dto.MetricFamily, wanted map[string][]string) ([]*streampb.Measure, []*streampb.Distribution) {
	var measures []*streampb.Measure
	var distributions []*streampb.Distribution
	for _, f := range families {
		by, is := wanted[f.GetName()]
		if !is {
			continue
		}
		if f.GetType() == dto.MetricType_HISTOGRAM {
			distributions = append(distributions, distributionsOf(f, by)...)
			continue
		}
		known := make(map[string]*streampb.Measure)
		for _, m := range f.GetMetric() {
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
			if math.IsNaN(value) || math.IsInf(value, 0) {
				continue
			}
			labels := labelsOf(m, by)
			key := strings.Join(labels, "\x00")
			if known[key] == nil {
				known[key] = &streampb.Measure{Name: f.GetName(), Labels: labels}
				measures = append(measures, known[key])
			}
			if strings.HasSuffix(f.GetName(), "_timestamp_seconds") {
				// Of moments the oldest counts; 0 is none.
				if old := known[key].Value; value > 0 && (old == 0 || value < old) {
					known[key].Value = value
				}
				continue
			}
			known[key].Value += value
		}
	}
	return measures, distributions
}

func distributionsOf(f *dto.MetricFamily, by []string) []*streampb.Distribution {
	var out []*streampb.Distribution
	known := make(map[string]*streampb.Distribution)
	for _, m := range f.GetMetric() {
		h := m.GetHistogram()
		if math.IsNaN(h.GetSampleSum()) || math.IsInf(h.GetSampleSum(), 0) {
			continue
		}
		labels := labelsOf(m, by)
		key := strings.Join(labels, "\x00")
		d := known[key]
		if d == nil {
			d = &streampb.Distribution{Name: f.GetName(), Labels: labels}
			for _, b := range h.GetBucket() {
				if !math.IsInf(b.GetUpperBound(), 0) {
					d.Bounds = append(d.Bounds, b.GetUpperBound())
				}
			}
			d.Counts = make([]uint64, len(d.Bounds)+1)
			known[key] = d
			out = append(out, d)
		}
		d.Sum += h.GetSampleSum()
		for i, bound := range d.Bounds { // all of a family have the same
			if i < len(h.GetBucket()) && h.GetBucket()[i].GetUpperBound() == bound {
				d.Counts[i] += h.GetBucket()[i].GetCumulativeCount()
			}
		}
		d.Counts[len(d.Bounds)] += h.GetSampleCount()
	}
	return out
}

// labelsOf are names and values of the distinguishing labels, in the order of names.
func labelsOf(m *dto.Metric, by []string) []string {
	var out []string
	for _, l := range m.GetLabel() { // sorted by name
		if slices.Contains(by, l.GetName()) {
			out = append(out, l.GetName(), l.GetValue())
		}
	}
	return out
}

package stage

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// A motif is counted and described under its name, and there are only so many names.
func TestMotifMetricsAreBounded(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := newMotifMetrics(reg)
	call := func(motif string, status streampb.CallStatus) {
		m.call(&streampb.Call{Status: status, Motif: &streampb.MotifError{Motif: motif, Base: 2, Shows: "G", Sites: 20, Affected: 18, Reads: 200, Wrong: 50}})
	}
	call("GATC", streampb.CallStatus_PROVISIONAL)
	call("GATC", streampb.CallStatus_RETRACTED)
	call("GATC", streampb.CallStatus_FINAL)
	m.call(&streampb.Call{})
	require.Equal(t, 2.0, testutil.ToFloat64(m.alleles.WithLabelValues("GATC")))
	require.Equal(t, 20.0, testutil.ToFloat64(m.sites.WithLabelValues("GATC")))
	require.Equal(t, 18.0, testutil.ToFloat64(m.affected.WithLabelValues("GATC")))
	require.Equal(t, 0.25, testutil.ToFloat64(m.share.WithLabelValues("GATC")))
	for i := range 100 {
		call(fmt.Sprint("motif ", i), streampb.CallStatus_FINAL)
	}
	require.Equal(t, maxMotifNames+1, testutil.CollectAndCount(m.alleles))
	require.Equal(t, float64(100-maxMotifNames+1), testutil.ToFloat64(m.alleles.WithLabelValues(otherMotif)))
}

// What evaluations left out adds up, by the bound that left it out.
func TestLeftOutHaplotypesAreCounted(t *testing.T) {
	m := NewMetrics(prometheus.NewPedanticRegistry(), nil)
	for range 2 {
		m.omitted(variant.LeftOut{Alleles: 1, Combinations: 2, Proposals: 3, Wide: 4})
	}
	for bound, want := range map[string]float64{"alleles": 2, "combinations": 4, "proposals": 6, "wide": 8} {
		require.Equal(t, want, testutil.ToFloat64(m.leftOut.WithLabelValues(bound)), bound)
	}
}

package squiggle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// threeMers writes a table of our form: level by the middle base, a bit by the others.
func threeMers(header string, row func(i int) string) string {
	var b strings.Builder
	b.WriteString("# porestream-pore-model: 1\n" + header)
	b.WriteString("kmer\tmean\tspread\tnoise\tdwell_mean\tdwell_sd\tvisits\n")
	for i := range 64 {
		fmt.Fprintf(&b, "%s\t%s\n", spell(i, 3), row(i))
	}
	return b.String()
}

func plainRow(i int) string {
	return fmt.Sprintf("%g\t0.05\t0.1\t9\t6\t1000", float64(i>>2&3)-1.5+float64(i&3)/10)
}

// toy is a model of 3-mers.
func toy(t testing.TB, header string) *Model {
	t.Helper()
	m, err := ReadModel(strings.NewReader(threeMers(header, plainRow)))
	require.NoError(t, err)
	return m
}

func TestReadModel(t *testing.T) {
	t.Run("ours", func(t *testing.T) {
		m, err := ReadModel(strings.NewReader(threeMers(`# Levels of k-mers.
# chemistry: R9.4
# k: 3
# centre: 1
# sample_rate: 4000
# norm_center_pa: 84.5
# norm_scale_pa: 13.25
# noise_autocorrelation: 0.4 0.2 0.1 0.05
# dwell_family: inverse-Gaussian
# speed_mean: 400
# speed_sd: 28
# drift_correlation: 0.5
# drift_samples: 4000
# made_by: a program that is not this one
`, plainRow)))
		require.NoError(t, err)
		require.Equal(t, "r9.4", m.Chemistry)
		require.Equal(t, 3, m.K)
		require.Equal(t, 1, m.Centre)
		require.InDelta(t, 84.5, m.CentrePA, 0)
		require.InDelta(t, 13.25, m.ScalePA, 0)
		require.Equal(t, [3]float64{0.4, 0.2, 0.1}, m.Correlation)
		require.Equal(t, InverseGaussian, m.Dwell)
		require.InDelta(t, 0.07, m.SpeedSpread, 1e-12)
		require.InDelta(t, 1/math.Ln2, m.DriftSeconds, 1e-9)
		require.InDelta(t, 4000./9, m.BasesPerSecond(), 1e-9)
		level, dwell, ok := m.Level("ACT")
		require.True(t, ok)
		require.InDelta(t, -0.2, level, 1e-9)
		require.InDelta(t, 9, dwell, 0)
	})
	t.Run("nanopolish", func(t *testing.T) {
		var b strings.Builder
		b.WriteString("#ont_model_name\tinvented\n#k\t3\nkmer\tlevel_mean\tlevel_stdv\tsd_mean\tsd_stdv\n")
		for i := range 64 {
			fmt.Fprintf(&b, "%s\t%d\t1.5\t1\t0.5\n", spell(i, 3), 60+i)
		}
		m, err := ReadModel(strings.NewReader(b.String()))
		require.NoError(t, err)
		require.InDelta(t, 92, m.CentrePA, 0)
		level, dwell, ok := m.Level("GAA") // the 32nd
		require.True(t, ok)
		require.InDelta(t, 0, level, 1e-9)
		require.InDelta(t, 4000./450, dwell, 1e-9)
	})
	t.Run("ONT", func(t *testing.T) {
		for _, heading := range []string{"", "kmer\tlevel_mean\n"} {
			rnd := rand.New(rand.NewPCG(1, 1))
			var b strings.Builder
			b.WriteString(heading)
			for i := range 1 << 14 {
				fmt.Fprintf(&b, "%s\t%g\n", spell(i, 7), rnd.NormFloat64())
			}
			m, err := ReadModel(strings.NewReader(b.String()))
			require.NoError(t, err)
			require.Equal(t, "r10.4.1", m.Chemistry)
			require.Equal(t, 5000, m.SampleRate)
			require.InDelta(t, 400, m.BasesPerSecond(), 1e-6)
		}
	})
}

func TestReadModelRefuses(t *testing.T) {
	whole := threeMers("", plainRow)
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":           {"", "it has no k-mer"},
		"prose":             {"This is no table.\n", "line 1: not a table of k-mers"},
		"a profile":         {string(toyProfile().AppendText(nil)), "line 1: a profile of a pore and not a table of k-mers"},
		"levels of parts":   {string(toyLevels().AppendText(nil)), "line 1: levels of parts of k-mers and not a table of k-mers"},
		"a missing k-mer":   {strings.Replace(whole, "ACG\t", "#", 1), "63 of 64 k-mers, ACG is missing"},
		"a second row":      {whole + "ACG\t0\t0\t0\t9\t6\t1\n", "line 67: a second row for k-mer ACG"},
		"another length":    {whole + "ACGT\t0\t0\t0\t9\t6\t1\n", "line 67: k-mer ACGT among those of 3 bases"},
		"no bases":          {strings.Replace(whole, "ACG\t", "ANG\t", 1), `"ANG" is no k-mer`},
		"no number":         {strings.Replace(whole, "\t0.05\t", "\tnan\t", 1), `line 3: k-mer AAA: spread is "nan"`},
		"no time":           {strings.Replace(whole, "\t9\t6", "\t0\t6", 1), "dwell_mean"},
		"a short row":       {"kmer\tmean\tspread\tnoise\tdwell_mean\tdwell_sd\nAAA\t1\n", "k-mer AAA: spread is \"\""},
		"another format":    {strings.Replace(whole, "model: 1", "model: 2", 1), "this program reads format 1"},
		"another k":         {"# k: 4\n" + whole, "k is 4, and its k-mers have 3 bases"},
		"a wrong centre":    {"# centre: 3\n" + whole, "centre is \"3\""},
		"a wrong key":       {"# norm_scale_pa: -1\n" + whole, "norm_scale_pa is \"-1\""},
		"a wrong family":    {"# dwell_family: Cauchy\n" + whole, "dwell_family"},
		"wrong correlation": {"# noise_autocorrelation: 0.1 0.2\n" + whole, "want 3 numbers at least"},
		"twice a column":    {"kmer\tmean\tmean\n", "two columns are called"},
		"all the same":      {"kmer\tlevel_mean\tlevel_stdv\tsd_mean\n" + same(), "all levels are the same"},
		"a long line":       {strings.Repeat("A", maxLineBytes+1), "line 1: longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadModel(strings.NewReader(tt.text))
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func same() string {
	var b strings.Builder
	for i := range 64 {
		fmt.Fprintf(&b, "%s\t80\t1\t1\n", spell(i, 3))
	}
	return b.String()
}

// Published tables have the form that ReadModel says, where there is one.
func TestPublishedModel(t *testing.T) {
	f, err := os.Open("../../../shared/data/pore-models/r9.4_450bps.nucleotide.6mer.template.model")
	if err != nil {
		t.Skip("no published table of 6-mers at hand")
	}
	defer f.Close()
	m, err := ReadModel(f)
	require.NoError(t, err)
	require.Equal(t, 6, m.K)
	require.InDelta(t, 90, m.CentrePA, 10)
	require.InDelta(t, 14, m.ScalePA, 3)
}

func FuzzReadModel(f *testing.F) {
	f.Add(threeMers("# sample_rate: 4000\n", plainRow))
	f.Add("#k\t3\nkmer\tlevel_mean\tlevel_stdv\tsd_mean\n" + same())
	f.Add("AAA\t0.5\nAAC\t-1\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ReadModel(strings.NewReader(text))
		if err != nil {
			return
		}
		// What is accepted makes current.
		pore, err := NewPore(m, Typical())
		require.NoError(t, err)
		out, read := pore.NewMaker().Append(nil, Strand{Bases: []byte{0, 1, 2, 3}, Stick: 4}, Converter{Scale: 0.1, Min: -4096, Max: 4095}, 1000)
		require.Len(t, out, min(1000, read.Samples))
	})
}

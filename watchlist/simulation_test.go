package watchlist_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/watchlist"
)

// errorRates are what basecallers have, from the best to the worst.
var errorRates = []float64{0.02, 0.05, 0.08, 0.12}

// cases is how many random cases a test makes: n, or PORESTREAM_CASES for a long run.
func cases(t testing.TB, n int) int {
	t.Helper()
	s := os.Getenv("PORESTREAM_CASES")
	if s == "" {
		return n
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("PORESTREAM_CASES is %q: want a number", s)
	}
	return n
}

// column is what reads show at the place of one allele.
type column struct {
	v          *event.Variant
	alt, depth uint32
}

// read adds a read that shows the allele with probability p.
func (c *column) read(rng *rand.Rand, p float64) {
	c.depth++
	if rng.Float64() < p {
		c.alt++
	}
}

// revision is the allele with the reads so far and a quality that is never in the way.
func (c *column) revision(status string) *event.Variant {
	c.v = revised(c.v, status, 60, c.alt, c.depth)
	return c.v
}

// detected reports whether one of the alerts is DETECTED.
func detected(alerts []watchlist.Alert) bool {
	for _, a := range alerts {
		if a.State == watchlist.Detected {
			return true
		}
	}
	return false
}

// TestFalseAlarms evaluates after every single read a place with nothing but
// errors, all of them to the same base, which is the worst case. The
// share of samples in which DETECTED is ever said is at most alpha.
func TestFalseAlarms(t *testing.T) {
	const reads, alpha = 100, 0.05
	runs := cases(t, 3000)
	b := written(t, "- id: r\n  match: {vcf: \"J02459.1:37589:C:T\"}\n  thresholds: {alpha: 0.05, min_depth: 1, min_alt: 1, min_fraction: 0}\n")
	template := b.allele(t, 37589, "C", "T", 0, 0)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, rate := range errorRates {
		alarms := 0
		for range runs {
			tr := b.w.NewTracker("s")
			c := column{v: template}
			for range reads {
				c.read(rng, rate)
				if detected(tr.Variant(c.revision("PROVISIONAL"))) {
					alarms++
					break
				}
			}
		}
		share := float64(alarms) / float64(runs)
		t.Logf("error rate %.2f: %.4f of the samples alarm, alpha %g", rate, share, alpha)
		require.LessOrEqual(t, share, alpha, "error rate %g", rate)
		if rate == 0.12 && runs >= 1000 {
			require.Positive(t, alarms, "a bound that nothing ever comes near is not tested")
		}
	}
}

// TestFalseAlarmsOfARegion does the same for a rule that many alleles can
// fulfil: the bound is the rule's, not that of each allele.
func TestFalseAlarmsOfARegion(t *testing.T) {
	const reads, alpha = 40, 0.05
	runs := cases(t, 400)
	b := written(t, "- id: r\n  match: {region: \"J02459.1:37580-37599\"}\n  thresholds: {alpha: 0.05, min_depth: 1, min_alt: 1, min_fraction: 0}\n")
	var templates []*event.Variant
	for pos := 37580; pos <= 37599; pos++ {
		ref := string(b.g.Contigs[0].Seq[pos-1])
		templates = append(templates, b.allele(t, pos, ref, strings.Replace("ACGT", ref, "", 1)[:1], 0, 0))
	}
	rng := rand.New(rand.NewPCG(3, 4))
	alarms := 0
	for range runs {
		tr := b.w.NewTracker("s")
		alarm := false
		for _, v := range templates {
			c := column{v: v}
			for range reads {
				c.read(rng, 0.12)
				alarm = detected(tr.Variant(c.revision("PROVISIONAL"))) || alarm
			}
		}
		if alarm {
			alarms++
		}
	}
	share := float64(alarms) / float64(runs)
	t.Logf("%.4f of the samples alarm, alpha %g", share, alpha)
	require.LessOrEqual(t, share, alpha)
}

// TestWrongNegatives puts an allele into a sample whose caller is silent until
// DETECTED would follow, which is the worst it can do. The share of samples that
// are NEGATIVE is what the alerts say, and at most beta.
func TestWrongNegatives(t *testing.T) {
	const beta = 0.01
	runs := cases(t, 20000)
	for _, thresholds := range []string{"{}", "{allele_fraction: 0.8}", "{error_rate: 0.05, alpha: 1.0e-6}", "{alpha: 0.001, beta: 0.01, min_alt: 8}"} {
		b := written(t, "- id: r\n  match: {vcf: \"J02459.1:37589:C:T\"}\n  thresholds: "+thresholds+"\n")
		rule := b.w.Resolve()[0]
		template := b.allele(t, 37589, "C", "T", 0, 0)
		present := map[string]float64{"{allele_fraction: 0.8}": 0.8*0.88 + 0.2*0.12, "{error_rate: 0.05, alpha: 1.0e-6}": 0.95}[thresholds]
		if present == 0 {
			present = 0.88
		}
		rng := rand.New(rand.NewPCG(5, 6))
		negatives, stated := 0, 0.0
		for range runs {
			tr := b.w.NewTracker("s")
			c := column{v: template}
			for range rule.DepthNeeded {
				c.read(rng, present)
			}
			alerts := tr.Coverage(b.covered(37588, 37589, int(c.depth), 1))
			if int(c.alt) >= rule.ReadsNeeded {
				alerts = append(alerts, tr.Variant(c.revision("FINAL"))...)
			}
			alerts = append(alerts, tr.RunEnd("run")...)
			switch last := alerts[len(alerts)-1]; last.State {
			case watchlist.Negative:
				negatives++
				stated = *last.Probability.Miss
			case watchlist.Detected:
			default:
				require.Fail(t, "undecided", "%s with %d of %d reads", last.State, c.alt, c.depth)
			}
		}
		share := float64(negatives) / float64(runs)
		t.Logf("%s: depth %d: %.4f of the samples are NEGATIVE, stated %.4f", thresholds, rule.DepthNeeded, share, stated)
		require.Positive(t, negatives)
		require.LessOrEqual(t, stated, beta)
		require.InDelta(t, stated, share, 4*math.Sqrt(stated*(1-stated)/float64(runs)))
	}
}

// TestWrongNegativesWhileTheRunGoesOn reports the depth after every read, so that NEGATIVE is said at the first read
// that allows it, and lets the caller report only when DETECTED follows, which a second tracker shows. The share of
// samples with the allele that are ever NEGATIVE is at most beta at every rate of errors up to the assumed.
func TestWrongNegativesWhileTheRunGoesOn(t *testing.T) {
	const reads, beta = 40, 0.01
	runs := cases(t, 3000)
	b := written(t, "- id: r\n  match: {vcf: \"J02459.1:37589:C:T\"}\n")
	template := b.allele(t, 37589, "C", "T", 0, 0)
	rng := rand.New(rand.NewPCG(7, 8))
	for _, rate := range errorRates {
		ever, atEnd := 0, 0
		for range runs {
			tr, oracle := b.w.NewTracker("s"), b.w.NewTracker("s")
			c := column{v: template}
			spoken, wrong := false, false
			var alerts []watchlist.Alert
			for range reads {
				c.read(rng, 1-rate)
				v := c.revision("PROVISIONAL")
				spoken = detected(oracle.Variant(v)) || spoken
				if spoken {
					alerts = append(alerts, tr.Variant(v)...)
				}
				alerts = append(alerts, tr.Coverage(b.covered(37588, 37589, int(c.depth), uint64(c.depth)))...)
			}
			alerts = append(alerts, tr.RunEnd("run")...)
			for _, a := range alerts {
				wrong = wrong || a.State == watchlist.Negative
			}
			if wrong {
				ever++
			}
			if alerts[len(alerts)-1].State == watchlist.Negative {
				atEnd++
			}
		}
		t.Logf("error rate %.2f: %.4f of the samples are ever NEGATIVE, %.4f at the end", rate, float64(ever)/float64(runs), float64(atEnd)/float64(runs))
		require.LessOrEqual(t, float64(ever)/float64(runs), beta)
		require.LessOrEqual(t, atEnd, ever)
	}
}

// TestNegativesExamineReads is the same with a caller that never says anything at all: reads alone keep rules from being
// NEGATIVE, and much more seldom than NEGATIVE states for a caller that is to be relied on.
func TestNegativesExamineReads(t *testing.T) {
	runs := cases(t, 5000)
	b := written(t, "- id: r\n  match: {vcf: \"J02459.1:37589:C:T\"}\n")
	rng := rand.New(rand.NewPCG(15, 16))
	for _, tt := range []struct {
		present float64 // probability that a read shows it
		state   watchlist.State
		least   float64 // share of the samples
	}{{0.88, watchlist.Suspected, 0.999}, {0.95, watchlist.Suspected, 1}, {0.12, watchlist.Negative, 0.98}, {0.05, watchlist.Negative, 0.99}, {0.5, watchlist.Suspected, 0.95}} {
		states := map[watchlist.State]int{}
		for range runs {
			tr := b.w.NewTracker("s")
			depth := 15 + rng.IntN(40)
			c := column{}
			for range depth {
				c.read(rng, tt.present)
			}
			tr.Coverage(shows(b.covered(37588, 37589, depth, 1), 37589, int(c.alt)))
			for _, a := range tr.RunEnd("run") {
				states[a.State]++
				if a.Probability.Miss != nil && a.State == watchlist.Negative {
					require.LessOrEqual(t, *a.Probability.Miss, 0.01)
				}
			}
		}
		t.Logf("shown by %.2f of the reads: %v", tt.present, states)
		require.GreaterOrEqual(t, float64(states[tt.state])/float64(runs), tt.least)
		if tt.state == watchlist.Suspected && tt.present > 0.5 {
			require.LessOrEqual(t, float64(states[watchlist.Negative])/float64(runs), 0.001)
		}
	}
}

// TestMoreDepthThanNeeded says that at no depth from the one needed on is a miss more probable than beta, by a
// calculation of its own.
func TestMoreDepthThanNeeded(t *testing.T) {
	for _, match := range []string{`{vcf: "J02459.1:37589:C:T"}`, "{gene: cI}", "{gene: cI, codon: 118}"} {
		b := written(t, "- id: r\n  match: "+match+"\n")
		rule := b.w.Resolve()[0]
		previous := 1.0
		for depth := 1; depth <= 150; depth++ {
			tr := b.w.NewTracker("s")
			b.coverAll(tr, depth, 1)
			alerts := tr.RunEnd("run")
			last := alerts[len(alerts)-1]
			if depth < rule.DepthNeeded {
				require.Equal(t, watchlist.NotCallable, last.State)
				continue
			}
			require.Equal(t, watchlist.Negative, last.State)
			require.InEpsilon(t, missByHand(rule.FalseAlarm, min(depth, 120)), *last.Probability.Miss, 1e-9)
			require.LessOrEqual(t, *last.Probability.Miss, 0.01)
			previous = min(previous, *last.Probability.Miss)
		}
		require.Less(t, previous, 1e-9)
	}
}

// missByHand is the formula of docs/explain/panel-errors.md with the default thresholds: the binomial coefficients come from
// Pascal's triangle.
func missByHand(alpha float64, depth int) float64 {
	const p = 0.88
	reads := max(3, int(math.Ceil(0.2*float64(depth))))
	for math.Pow(p/(1-p), float64(2*reads-depth)) < 1/alpha {
		reads++
	}
	row := []float64{1}
	for range depth {
		next := make([]float64, len(row)+1)
		for i, v := range row {
			next[i] += v * (1 - p)
			next[i+1] += v * p
		}
		row = next
	}
	sum := 0.0
	for _, v := range row[:min(reads, len(row))] {
		sum += v
	}
	return sum
}

// largePanel has n rules of all kinds on lambda.
func largePanel(n int) string {
	var s strings.Builder
	for i := range n {
		pos := 100 + i*37%48000
		switch i % 3 {
		case 0:
			fmt.Fprintf(&s, "- {id: r%d, match: {hgvs: \"J02459.1:g.%ddel\"}}\n", i, pos)
		case 1:
			fmt.Fprintf(&s, "- {id: r%d, match: {gene: cI, codon: %d, impact: [HIGH, MODERATE]}}\n", i, 1+i%237)
		default:
			fmt.Fprintf(&s, "- {id: r%d, match: {region: \"J02459.1:%d-%d\"}}\n", i, pos, pos+20)
		}
	}
	return s.String()
}

// BenchmarkVariant takes one variant through panels of 10 to 10,000 rules; it concerns none or a few of them: the
// cost follows the matches, not the rules.
func BenchmarkVariant(b *testing.B) {
	for _, n := range []int{10, 1000, 10000} {
		w := written(b, largePanel(n))
		for _, c := range []struct {
			name     string
			pos      int
			ref, alt string
		}{{"elsewhere", 48400, "", ""}, {"codon", 37589, "C", "T"}} {
			if c.ref == "" {
				c.ref = string(w.g.Contigs[0].Seq[c.pos-1])
				c.alt = strings.Replace("ACGT", c.ref, "", 1)[:1]
			}
			v := w.allele(b, c.pos, c.ref, c.alt, 10, 12)
			b.Run(fmt.Sprintf("rules=%d/%s", n, c.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					w.w.Concerns(v)
				}
			})
		}
	}
}

// BenchmarkNew checks a panel of 10,000 rules.
func BenchmarkNew(b *testing.B) {
	w := written(b, largePanel(10000))
	for b.Loop() {
		if _, err := watchlist.New(w.g, w.a, w.p); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCoverage takes the depth of a stretch of 200 bases, in which a panel of 10,000 rules has about 40.
func BenchmarkCoverage(b *testing.B) {
	w := written(b, largePanel(10000))
	tr := w.w.NewTracker("s")
	b.ReportAllocs()
	revision := uint64(0)
	for b.Loop() {
		revision++
		tr.Coverage(w.covered(20000, 20200, int(revision%60), revision))
	}
}

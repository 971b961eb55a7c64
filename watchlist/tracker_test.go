package watchlist_test

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vrs"
	"github.com/porestream/porestream/watchlist"
)

var update = flag.Bool("update", false, "write the golden files")

// lambda is the genome and the genes of phage lambda.
func lambda(t testing.TB) (*genome.Genome, *annotate.Annotator) {
	t.Helper()
	dir := filepath.Join("..", "testdata", "lambda")
	g, err := genome.Load(filepath.Join(dir, "reference.fa"))
	require.NoError(t, err)
	m, err := annotate.LoadModel(filepath.Join(dir, "genes.gff3"), g)
	require.NoError(t, err)
	return g, annotate.New(g, m)
}

// bench is a Watch on lambda with the parts needed to make observations.
type bench struct {
	g *genome.Genome
	a *annotate.Annotator
	p *watchlist.Panel
	w *watchlist.Watch
}

// newBench loads a panel of phage lambda.
func newBench(t testing.TB, path string) *bench {
	t.Helper()
	g, a := lambda(t)
	p, err := watchlist.Load(path)
	require.NoError(t, err)
	w, err := watchlist.New(g, a, p)
	require.NoError(t, err)
	return &bench{g, a, p, w}
}

// written loads the panel that has these rules.
func written(t testing.TB, rules string) *bench {
	t.Helper()
	path := filepath.Join(t.TempDir(), "panel.yaml")
	require.NoError(t, os.WriteFile(path, []byte("panel: p\nversion: 1\nrules:\n"+rules), 0o600))
	return newBench(t, path)
}

// allele is a revision of an allele that alt of depth reads show.
func (b *bench) allele(t testing.TB, pos int, ref, alt string, altReads, depth uint32) *event.Variant {
	t.Helper()
	contig := b.g.Contigs[0]
	id, err := vrs.AlleleID(contig.Digest(), contig.Seq, pos-1, ref, alt)
	require.NoError(t, err)
	annotation, err := b.a.Annotate(contig.Name, pos, ref, alt)
	require.NoError(t, err)
	return &event.Variant{
		SchemaVersion: event.SchemaVersion, Run: "run", Sample: "lambda", Revision: 1, Status: "PROVISIONAL",
		Allele:     event.Allele{VRSID: id, Contig: contig.Name, Pos: int64(pos), Ref: ref, Alt: alt},
		Call:       event.Call{Qual: 30, Depth: depth, AltForward: altReads / 2, AltReverse: altReads - altReads/2, Genotype: []uint32{1}},
		Annotation: annotation,
	}
}

// revised is a later revision of v.
func revised(v *event.Variant, status string, qual float64, altReads, depth uint32) *event.Variant {
	next := *v
	next.Revision++
	next.Status = status
	next.Call.Qual, next.Call.Depth = qual, depth
	next.Call.AltForward, next.Call.AltReverse = altReads/2, altReads-altReads/2
	return &next
}

// covered is a stretch of lambda covered to one depth, in which no read shows what the panels name.
func (b *bench) covered(start, end, depth int, revision uint64) watchlist.Coverage {
	c := watchlist.Coverage{
		Run: "run", Contig: "J02459.1", Start: start, End: end, Revision: revision,
		Blocks: []watchlist.DepthBlock{{Start: start, End: end, Depth: depth}},
	}
	for _, n := range b.w.Named() {
		if n.Pos >= start && n.Pos < end {
			c.Shown = append(c.Shown, watchlist.Shown{Named: n.Name, Pos: n.Pos + 1, Depth: depth})
		}
	}
	return c
}

// shows is c with reads that show the named allele at a position.
func shows(c watchlist.Coverage, pos, reads int) watchlist.Coverage {
	c.Shown = slices.Clone(c.Shown)
	for i := range c.Shown {
		if c.Shown[i].Pos == pos {
			c.Shown[i].Forward, c.Shown[i].Reverse = reads/2, reads-reads/2
		}
	}
	return c
}

// coverAll covers all targets to one depth.
func (b *bench) coverAll(tr *watchlist.Tracker, depth int, revision uint64) []watchlist.Alert {
	var alerts []watchlist.Alert
	for _, t := range b.w.Targets() {
		alerts = append(alerts, tr.Coverage(b.covered(t.Start, t.End, depth, revision))...)
	}
	return alerts
}

// brief is an alert on one line: rule, scope, state, and whether it is final.
func brief(a watchlist.Alert) string {
	s := fmt.Sprintf("%s %s %s>%s", a.Rule, a.Scope, a.Previous, a.State)
	if a.Final {
		s += " final"
	}
	return s
}

// briefs are alerts, each on one line.
func briefs(alerts []watchlist.Alert) []string {
	lines := []string{}
	for _, a := range alerts {
		lines = append(lines, brief(a))
	}
	return lines
}

// trimmed keeps of v's annotation the fields that rules read, so that the golden
// file does not change with all other fields of a variant.
func trimmed(v *event.Variant) *event.Variant {
	for i, c := range v.Annotation.Consequences {
		v.Annotation.Consequences[i] = annotate.Consequence{
			Allele: c.Allele, Gene: c.Gene, Feature: c.Feature, Terms: c.Terms, Impact: c.Impact, HGVSc: c.HGVSc, HGVSp: c.HGVSp, Protein: c.Protein,
		}
	}
	return v
}

// TestGoldenAlerts plays a run of lambda that has the four differences of the
// recorded strain, and holds the documents to a file that was checked by hand
// against testdata/lambda/truth.vcf.
func TestGoldenAlerts(t *testing.T) {
	b := newBench(t, filepath.Join("testdata", "lambda", "panel.yaml"))
	require.Empty(t, b.w.Warnings())
	tr := b.w.NewTracker("lambda")
	cover := func(depth int, revision uint64) (alerts []watchlist.Alert) {
		for _, t := range b.w.Targets() {
			c := b.covered(t.Start, t.End, depth, revision)
			for _, pos := range []int{37587, 37742, 45351} { // a codon, a base and a codon
				c = shows(c, pos, depth-depth/8)
			}
			alerts = append(alerts, tr.Coverage(c)...)
		}
		return alerts
	}
	alerts := cover(8, 1)
	first := trimmed(b.allele(t, 37589, "C", "T", 5, 6))
	stop := trimmed(b.allele(t, 45352, "G", "A", 9, 11))
	alerts = append(alerts, tr.Variant(first)...)
	alerts = append(alerts, tr.Variant(stop)...)
	alerts = append(alerts, cover(26, 2)...)
	for _, v := range []*event.Variant{
		revised(first, "FINAL", 41.0, 17, 20),
		revised(stop, "FINAL", 15.7, 19, 22),
		revised(trimmed(b.allele(t, 37742, "C", "T", 0, 0)), "FINAL", 14.9, 17, 20),
	} {
		alerts = append(alerts, tr.Variant(v)...)
	}
	alerts = append(alerts, tr.RunEnd("run")...)

	var got bytes.Buffer
	for _, a := range alerts {
		doc, err := a.JSON()
		require.NoError(t, err)
		got.Write(append(doc, '\n'))
	}
	path := filepath.Join("testdata", "lambda", "alerts.jsonl")
	if *update {
		require.NoError(t, os.WriteFile(path, got.Bytes(), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

// TestAnEventTakesThePlaceOfItsAtoms says that a rule for one base goes on where a SNP that was seen first is taken back for the
// event that it is a part of.
func TestAnEventTakesThePlaceOfItsAtoms(t *testing.T) {
	b := written(t, "- id: r\n  match: {vcf: \"J02459.1:37589:C:T\"}\n")
	tr := b.w.NewTracker("s")
	single, event := b.allele(t, 37589, "C", "T", 10, 12), b.allele(t, 37588, "TC", "CT", 14, 15)
	alerts := tr.Variant(single)
	alerts = append(alerts, tr.Variant(event)...)
	alerts = append(alerts, tr.Variant(revised(single, "RETRACTED", 0, 0, 15))...)
	alerts = append(alerts, tr.Variant(revised(event, "FINAL", 40, 20, 22))...)
	alerts = append(alerts, tr.RunEnd("run")...)
	require.Equal(t, []string{"r allele PENDING>DETECTED", "r allele DETECTED>DETECTED final"}, briefs(alerts))
	last := alerts[len(alerts)-1]
	require.Equal(t, event.Allele, *last.Allele)
	require.Equal(t, single.Allele.VRSID, last.Subject)
}

func TestStates(t *testing.T) {
	const exact = "- id: r\n  match: {vcf: \"J02459.1:37589:C:T\"}\n"
	const gene = "- id: r\n  match: {gene: cI, consequence: missense_variant}\n"
	for _, tt := range []struct {
		name, rules string
		play        func(b *bench, tr *watchlist.Tracker) []watchlist.Alert
		want        []string
	}{
		{"nothing known", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert { return tr.RunEnd("run") },
			[]string{"r allele PENDING>NOT_CALLABLE final"}},
		{"not deep enough", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			return append(b.coverAll(tr, 14, 1), tr.RunEnd("run")...)
		}, []string{"r allele PENDING>NOT_CALLABLE final"}},
		{"deep enough", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			return append(b.coverAll(tr, 15, 1), tr.RunEnd("run")...)
		}, []string{"r allele PENDING>NEGATIVE", "r allele NEGATIVE>NEGATIVE final"}},
		{"grows", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			v := b.allele(t, 37589, "C", "T", 3, 4)
			alerts := tr.Variant(v)
			return append(alerts, tr.Variant(revised(v, "STABLE", 30, 10, 12))...)
		}, []string{"r allele PENDING>SUSPECTED", "r allele SUSPECTED>DETECTED"}},
		{"hysteresis", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			v := b.allele(t, 37589, "C", "T", 10, 12)
			alerts := tr.Variant(v)
			v = revised(v, "PROVISIONAL", 8, 10, 14) // below MinQual, above RetractQual
			alerts = append(alerts, tr.Variant(v)...)
			v = revised(v, "PROVISIONAL", 5, 10, 15)
			return append(alerts, tr.Variant(v)...)
		}, []string{"r allele PENDING>DETECTED", "r allele DETECTED>SUSPECTED"}},
		{"retracted", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			v := b.allele(t, 37589, "C", "T", 10, 12)
			alerts := tr.Variant(v)
			alerts = append(alerts, tr.Variant(revised(v, "RETRACTED", 2, 3, 12))...)
			alerts = append(alerts, b.coverAll(tr, 40, 1)...)
			return append(alerts, tr.RunEnd("run")...)
		}, []string{"r allele PENDING>DETECTED", "r allele DETECTED>PENDING", "r allele PENDING>NEGATIVE", "r allele NEGATIVE>NEGATIVE final"}},
		{"filtered at the end", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			v := b.allele(t, 37589, "C", "T", 20, 22)
			v.Call.Filters = []string{"StrandBias"}
			return append(tr.Variant(v), append(b.coverAll(tr, 22, 1), tr.RunEnd("run")...)...)
		}, []string{"r allele PENDING>SUSPECTED", "r allele SUSPECTED>SUSPECTED final"}},
		{"explained by carry-over from some time on", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			v := b.allele(t, 37589, "C", "T", 20, 22)
			alerts := tr.Variant(v)
			share := 0.9
			v = revised(v, "FINAL", 30, 20, 22)
			v.Call.Filters, v.Call.CarryOver = []string{"CarryOver"}, &event.CarryOver{Explained: true, Share: &share, Basis: "hopping", Control: "water", ControlAlt: 2, ControlDepth: 3}
			alerts = append(alerts, tr.Variant(v)...)
			alerts = append(alerts, append(b.coverAll(tr, 22, 1), tr.RunEnd("run")...)...)
			require.Nil(t, alerts[0].CarryOver)
			for _, a := range alerts[1:] {
				require.Equal(t, "20 of 22 reads show it; carry-over explains J02459.1:37589 C>T: at most 90 % of its reads are carry-over, by reads of other samples (control water: 2 of 3 reads)", a.Reason)
				require.Equal(t, v.Call.CarryOver, a.CarryOver)
			}
			return alerts
		}, []string{"r allele PENDING>DETECTED", "r allele DETECTED>SUSPECTED", "r allele SUSPECTED>SUSPECTED final"}},
		{"shown by most reads, and never called", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			alerts := tr.Coverage(shows(b.covered(37588, 37589, 30, 1), 37589, 28))
			alerts = append(alerts, tr.RunEnd("run")...)
			for _, a := range alerts {
				require.Equal(t, "28 of 30 reads show it, but it is not called", a.Reason)
				require.Equal(t, watchlist.Carried{Depth: 30, AltForward: 14, AltReverse: 14, AlleleFraction: 0.9333, LogLikelihoodRatio: 51.803, Explained: 8}, *a.Carried)
			}
			return alerts
		}, []string{"r allele PENDING>SUSPECTED", "r allele SUSPECTED>SUSPECTED final"}},
		{"shown by most reads, and taken back by the caller", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			v := b.allele(t, 37589, "C", "T", 10, 12)
			alerts := tr.Variant(v)
			alerts = append(alerts, tr.Coverage(shows(b.covered(37588, 37589, 30, 1), 37589, 28))...)
			alerts = append(alerts, tr.Variant(revised(v, "RETRACTED", 2, 3, 12))...)
			return append(alerts, tr.RunEnd("run")...)
		}, []string{"r allele PENDING>DETECTED", "r allele DETECTED>SUSPECTED", "r allele SUSPECTED>SUSPECTED final"}},
		{"shown by most reads, called and filtered", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			v := b.allele(t, 37589, "C", "T", 28, 30)
			v.Call.Filters = []string{"LowQual"}
			alerts := append(tr.Variant(v), tr.Coverage(shows(b.covered(37588, 37589, 30, 1), 37589, 28))...)
			alerts = append(alerts, tr.RunEnd("run")...)
			for _, a := range alerts {
				require.Equal(t, "28 of 30 reads show it; called, but filtered as LowQual", a.Reason)
			}
			return alerts
		}, []string{"r allele PENDING>SUSPECTED", "r allele SUSPECTED>SUSPECTED final"}},
		{"shown by as many reads as err", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			alerts := append(tr.Coverage(shows(b.covered(37588, 37589, 30, 1), 37589, 8)), tr.RunEnd("run")...)
			require.Equal(t, "not called at a depth of at least 30, where 8 of 30 reads show it", alerts[1].Reason)
			// Reads for it: 8 of 30, so 14 more against it.
			require.InEpsilon(t, max(missByHand(1e-4, 30), math.Pow(0.12/0.88, 14)), *alerts[1].Probability.Miss, 1e-9)
			return alerts
		}, []string{"r allele PENDING>NEGATIVE", "r allele NEGATIVE>NEGATIVE final"}},
		{"shown by more reads than err", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			return append(tr.Coverage(shows(b.covered(37588, 37589, 30, 1), 37589, 9)), tr.RunEnd("run")...)
		}, []string{"r allele PENDING>SUSPECTED", "r allele SUSPECTED>SUSPECTED final"}},
		{"shown by many of very many reads", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			c := shows(b.covered(37588, 37589, 120, 1), 37589, 22)
			alerts := append(tr.Coverage(c), tr.RunEnd("run")...)
			require.InEpsilon(t, max(missByHand(1e-4, 120), math.Pow(0.12/0.88, 76)), *alerts[1].Probability.Miss, 1e-9)
			return alerts
		}, []string{"r allele PENDING>NEGATIVE", "r allele NEGATIVE>NEGATIVE final"}},
		{"not counted", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			c := b.covered(37588, 37589, 40, 1)
			c.Shown = nil
			alerts := append(tr.Coverage(c), tr.RunEnd("run")...)
			require.Equal(t, "how many reads show it is not known", alerts[0].Reason)
			return alerts
		}, []string{"r allele PENDING>NOT_CALLABLE final"}},
		{"told apart by few reads", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			c := b.covered(37588, 37589, 40, 1)
			c.Shown[0].Depth = 9
			alerts := append(tr.Coverage(c), tr.RunEnd("run")...)
			require.Equal(t, "9 reads distinguish it from its absence at J02459.1:37589, 15 needed", alerts[0].Reason)
			return alerts
		}, []string{"r allele PENDING>NOT_CALLABLE final"}},
		{"a codon that most reads translate so", "- id: r\n  match: {hgvs: \"cI:p.Glu118Lys\"}\n", func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			return append(tr.Coverage(shows(b.covered(37586, 37589, 30, 1), 37587, 28)), tr.RunEnd("run")...)
		}, []string{"r protein PENDING>SUSPECTED", "r protein SUSPECTED>SUSPECTED final"}},
		{"gene, an allele that fulfils the rule and is not called", gene, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			c := b.covered(b.w.Targets()[0].Start, b.w.Targets()[0].End, 40, 1)
			c.Shown = []watchlist.Shown{{Pos: 37589, Ref: "C", Alt: "T", Forward: 17, Reverse: 20, Depth: 40}}
			alerts := append(tr.Coverage(c), tr.RunEnd("run")...)
			require.Equal(t, "37 of 40 reads show it, but it is not called", alerts[0].Reason)
			require.EqualValues(t, 37589, alerts[0].Allele.Pos)
			require.Equal(t, "lambdap88:p.Glu118Lys", alerts[0].Consequence.HGVSp)
			return alerts
		}, []string{"r rule PENDING>SUSPECTED", "r rule SUSPECTED>SUSPECTED final"}},
		{"gene, an allele that does not fulfil the rule and is not called", gene, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			c := b.covered(b.w.Targets()[0].Start, b.w.Targets()[0].End, 40, 1)
			c.Shown = []watchlist.Shown{{Pos: 37587, Ref: "C", Alt: "T", Forward: 17, Reverse: 20, Depth: 40}} // silent by itself
			alerts := append(tr.Coverage(c), tr.RunEnd("run")...)
			require.Equal(t, "37 of 40 reads show C>T at J02459.1:37587, which is not called", alerts[0].Reason)
			return alerts
		}, []string{"r rule PENDING>NOT_CALLABLE final"}},
		{"gene, an allele that few reads show", gene, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			c := b.covered(b.w.Targets()[0].Start, b.w.Targets()[0].End, 40, 1)
			c.Shown = []watchlist.Shown{{Pos: 37589, Ref: "C", Alt: "T", Forward: 6, Reverse: 6, Depth: 40}}
			return append(tr.Coverage(c), tr.RunEnd("run")...)
		}, []string{"r rule PENDING>NEGATIVE", "r rule NEGATIVE>NEGATIVE final"}},
		{"an identifier, and a part of it that is not called", "- id: r\n  match: {vrs: ga4gh:VA.SFsq6OGFrOAymMifAYl2Tp4K1n8rU4cH, region: \"J02459.1:37580-37600\"}\n", func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			c := b.covered(37579, 37600, 40, 1)
			alerts := tr.Coverage(c)
			c.Revision, c.Shown = 2, []watchlist.Shown{{Pos: 37588, Ref: "T", Alt: "C", Forward: 17, Reverse: 20, Depth: 40}}
			alerts = append(alerts, tr.Coverage(c)...)
			c.Revision, c.Shown = 3, []watchlist.Shown{{Pos: 37589, Ref: "C", Alt: "T", Forward: 17, Reverse: 20, Depth: 40}}
			return append(alerts, tr.Coverage(c)...)
		}, []string{"r allele PENDING>NEGATIVE", "r allele NEGATIVE>PENDING", "r allele PENDING>SUSPECTED"}},
		{"filter accepted", "- id: r\n  match: {vcf: \"J02459.1:37589:C:T\"}\n  thresholds: {accept_filters: StrandBias}\n", func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			v := b.allele(t, 37589, "C", "T", 20, 22)
			v.Call.Filters = []string{"StrandBias"}
			return tr.Variant(v)
		}, []string{"r allele PENDING>DETECTED"}},
		{"called but the reads speak against it", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			v := b.allele(t, 37589, "C", "T", 8, 40)
			v.Call.Filters = []string{"LowQual"}
			return append(tr.Variant(v), append(b.coverAll(tr, 40, 1), tr.RunEnd("run")...)...)
		}, []string{"r allele PENDING>NEGATIVE", "r allele NEGATIVE>NEGATIVE final"}},
		{"an old revision and the same again", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			v := b.allele(t, 37589, "C", "T", 10, 12)
			next := revised(v, "STABLE", 30, 12, 14)
			alerts := tr.Variant(next)
			alerts = append(alerts, tr.Variant(v)...)
			return append(alerts, tr.Variant(next)...)
		}, []string{"r allele PENDING>DETECTED"}},
		{"another allele there", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			return tr.Variant(b.allele(t, 37589, "C", "G", 10, 12))
		}, []string{}},
		{"gene", gene, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			alerts := tr.Variant(b.allele(t, 37589, "C", "T", 17, 18))
			alerts = append(alerts, tr.Variant(b.allele(t, 37588, "T", "C", 17, 18))...)
			return append(alerts, tr.Variant(b.allele(t, 37742, "C", "T", 4, 5))...)
		}, []string{"r allele PENDING>DETECTED", "r rule PENDING>DETECTED", "r allele PENDING>DETECTED", "r allele PENDING>SUSPECTED"}},
		{"gene, one position uncovered", gene, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			alerts := b.coverAll(tr, 40, 1)
			target := b.w.Targets()[0]
			hole := b.covered(target.Start, target.End, 40, 2)
			hole.Blocks = []watchlist.DepthBlock{{Start: target.Start, End: target.Start + 7, Depth: 40}, {Start: target.Start + 8, End: target.End, Depth: 40}}
			alerts = append(alerts, tr.Coverage(hole)...)
			return append(alerts, tr.RunEnd("run")...)
		}, []string{"r rule PENDING>NEGATIVE", "r rule NEGATIVE>PENDING", "r rule PENDING>NOT_CALLABLE final"}},
		{"gene, one position may be uncovered", "- id: r\n  match: {gene: cI}\n  thresholds: {max_not_callable: 0.01}\n", func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			target := b.w.Targets()[0]
			hole := b.covered(target.Start, target.End, 40, 2)
			hole.Blocks = []watchlist.DepthBlock{{Start: target.Start, End: target.Start + 7, Depth: 30}, {Start: target.Start + 8, End: target.End, Depth: 40}}
			alerts := tr.Coverage(hole)
			require.Equal(t, watchlist.Covered{Positions: 714, NotCallable: 1, DepthNeeded: 23, Worst: &watchlist.Place{Contig: "J02459.1", Pos: target.Start + 8}}, *alerts[0].Coverage)
			require.Equal(t, "not called at a depth of at least 30", alerts[0].Reason)
			require.InEpsilon(t, missByHand(1e-4/4096, 30), *alerts[0].Probability.Miss, 1e-9)
			return alerts
		}, []string{"r rule PENDING>NEGATIVE"}},
		{"posteriors", "- id: r\n  match: {vcf: \"J02459.1:37589:C:T\"}\n  thresholds: {confirm_posterior: 0.999, retract_posterior: 0.9}\n", func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			v := b.allele(t, 37589, "C", "T", 10, 12)
			v.Call.Qual = 29
			alerts := tr.Variant(v)
			for _, qual := range []float64{31, 11, 9} {
				v = revised(v, "PROVISIONAL", qual, 10, 12)
				alerts = append(alerts, tr.Variant(v)...)
			}
			return alerts
		}, []string{"r allele PENDING>SUSPECTED", "r allele SUSPECTED>DETECTED", "r allele DETECTED>SUSPECTED"}},
		{"a run that has begun", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			tr.RunStart("run")
			tr.RunStart("other")
			alerts := append(b.coverAll(tr, 20, 1), tr.RunEnd("run")...)
			return append(alerts, tr.RunEnd("other")...)
		}, []string{"r allele PENDING>NEGATIVE", "r allele NEGATIVE>NEGATIVE final"}},
		{"an allele that was spelled otherwise before", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			v := b.allele(t, 37589, "C", "T", 10, 12)
			alerts := tr.Variant(v)
			v = revised(v, "RETRACTED", 3, 2, 12)
			v.Allele.Pos, v.Allele.Ref, v.Allele.Alt = 37588, "TC", "TT"
			return append(alerts, tr.Variant(v)...)
		}, []string{"r allele PENDING>DETECTED", "r allele DETECTED>PENDING"}},
		{"two runs", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			first := b.covered(37588, 37589, 30, 1)
			other := b.covered(37588, 37589, 31, 2)
			other.Run = "other"
			alerts := tr.Coverage(first)
			alerts = append(alerts, tr.Coverage(other)...)
			alerts = append(alerts, tr.RunEnd("run")...) // the other goes on
			return append(alerts, tr.RunEnd("other")...)
		}, []string{"r allele PENDING>NEGATIVE", "r allele NEGATIVE>NEGATIVE final"}},
		{"amended after the end", exact, func(b *bench, tr *watchlist.Tracker) []watchlist.Alert {
			alerts := append(b.coverAll(tr, 20, 1), tr.RunEnd("run")...)
			return append(alerts, tr.Variant(revised(b.allele(t, 37589, "C", "T", 0, 0), "AMENDED", 30, 20, 22))...)
		}, []string{"r allele PENDING>NEGATIVE", "r allele NEGATIVE>NEGATIVE final", "r allele NEGATIVE>DETECTED final"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := written(t, tt.rules)
			require.Equal(t, tt.want, briefs(tt.play(b, b.w.NewTracker("s"))))
		})
	}
}

// TestMatching holds which alleles each way of writing a rule means.
func TestMatching(t *testing.T) {
	type edit struct {
		pos      int
		ref, alt string
	}
	e118k, other118, frame, stop := edit{37589, "C", "T"}, edit{37588, "T", "C"}, edit{37588, "TC", "T"}, edit{45352, "G", "A"}
	silent := edit{37587, "C", "T"}
	// Events of several bases: TC>CT holds both single ones, CAGG>TAGA makes p.Pro117_Glu118delinsSerLys, C>TAA is a delins.
	both, twoCodons, delins := edit{37588, "TC", "CT"}, edit{37589, "CAGG", "TAGA"}, edit{37589, "C", "TAA"}
	for _, tt := range []struct {
		match string
		yes   []edit
		no    []edit
	}{
		{`{hgvs: "cI:p.Glu118Lys"}`, []edit{e118k}, []edit{other118, frame, stop}},
		{`{hgvs: "lambdap88:p.(E118K)"}`, []edit{e118k}, []edit{other118}},
		{`{hgvs: "lambdap88:p.Glu118fs"}`, []edit{frame}, []edit{e118k}},
		{`{hgvs: "J02459.1:g.37589C>T"}`, []edit{e118k}, []edit{other118}},
		{`{hgvs: "lambdap88:c.352G>A"}`, []edit{e118k}, []edit{other118}},
		{`{hgvs: ["lambdap88:c.352G>A", "lambdap74:p.W56*"]}`, []edit{e118k, stop}, []edit{other118}},
		{`{vrs: "ga4gh:VA.SFsq6OGFrOAymMifAYl2Tp4K1n8rU4cH", region: "J02459.1:37589"}`, []edit{e118k}, []edit{other118, stop}},
		{`{vcf: "J02459.1-37589-C-T"}`, []edit{e118k}, []edit{other118}},
		{`{vcf: "J02459.1:37588:TCA:TTA"}`, []edit{e118k}, []edit{other118}},
		{`{vcf: "J02459.1:37589:C:T"}`, []edit{e118k, both, twoCodons}, []edit{other118, {37588, "TC", "CA"}}},
		{`{vcf: "J02459.1:37588:TC:CT"}`, []edit{both}, []edit{e118k, other118, twoCodons}},
		{`{vcf: "J02459.1:37589:C:TAA"}`, []edit{delins}, []edit{e118k}},
		{`{hgvs: "J02459.1:g.37589_37592delinsTAGA"}`, []edit{twoCodons}, []edit{e118k, both}},
		{`{hgvs: "cI:p.Glu118Lys"}`, []edit{e118k, twoCodons}, []edit{both}},
		{`{hgvs: "cI:p.Pro117Ser"}`, []edit{twoCodons, {37592, "G", "A"}}, []edit{e118k}},
		{`{hgvs: "cI:p.Pro117_Glu118delinsSerLys"}`, []edit{twoCodons}, []edit{e118k, {37592, "G", "A"}}},
		{`{gene: cI}`, []edit{e118k, other118, frame, silent}, []edit{stop}},
		{`{gene: cI, codon: 118}`, []edit{e118k, other118, frame}, []edit{{37742, "C", "T"}, stop}},
		{`{gene: cI, codon: 60-70}`, []edit{{37742, "C", "T"}}, []edit{e118k}},
		{`{gene: cI, codon: ["60-70", 118], consequence: [missense_variant, stop_gained]}`, []edit{{37742, "C", "T"}, e118k}, []edit{frame, silent}},
		{`{gene: cI, consequence: missense_variant}`, []edit{e118k, other118}, []edit{silent, stop}},
		{`{gene: [cI, S], impact: HIGH}`, []edit{stop, frame}, []edit{e118k, silent}},
		{`{transcript: lambdap74, nmd: escaping}`, []edit{stop}, []edit{e118k}},
		{`{transcript: lambdap74, nmd: predicted}`, nil, []edit{stop}},
		{`{gene: cI, score: ">= 0.5"}`, nil, []edit{e118k}}, // which no network has scored
		{`{impact: [moderate, high]}`, []edit{e118k, stop, frame}, []edit{silent}},
		{`{region: "J02459.1:37580-37600"}`, []edit{e118k, silent}, []edit{stop}},
		{`{region: "J02459.1:37580-37600", impact: LOW}`, []edit{silent}, []edit{e118k}},
		{`{region: "J02459.1:37588-37600", gene: cI}`, []edit{e118k}, []edit{silent, stop}},
		{`{region: "J02459.1"}`, []edit{e118k, silent, stop}, nil},
		{`{region: [ "J02459.1:1-100", "J02459.1:45,352"]}`, []edit{stop}, []edit{e118k}},
	} {
		t.Run(tt.match, func(t *testing.T) {
			b := written(t, "- id: r\n  match: "+tt.match+"\n")
			for _, e := range tt.yes {
				require.True(t, b.w.Concerns(b.allele(t, e.pos, e.ref, e.alt, 1, 1)), "%v", e)
			}
			for _, e := range tt.no {
				require.False(t, b.w.Concerns(b.allele(t, e.pos, e.ref, e.alt, 1, 1)), "%v", e)
			}
		})
	}
}

// TestScoresFulfilRules: a rule that asks for a score is fulfilled by one that is there and high enough, and a retracted allele is
// taken back whatever its score was.
func TestScoresFulfilRules(t *testing.T) {
	b := written(t, "- id: r\n  match: {gene: cI, score: \">= 0.5\"}\n")
	require.Equal(t, "r", b.w.Scored())
	v := b.allele(t, 37589, "C", "T", 1, 1)
	require.False(t, b.w.Concerns(v))
	low, high := 0.49, 0.5
	v.Annotation.Scores = []annotate.Score{{Network: "a", Unscored: "x"}, {Network: "b", Score: &low}}
	require.False(t, b.w.Concerns(v))
	v.Annotation.Scores = append(v.Annotation.Scores, annotate.Score{Network: "c", Score: &high})
	require.True(t, b.w.Concerns(v))
	v.Annotation.Scores, v.Status = nil, "RETRACTED"
	require.True(t, b.w.Concerns(v))
}

// TestSpellingDoesNotMatter says that an indel is found however panel and caller
// place it within its repeat.
func TestSpellingDoesNotMatter(t *testing.T) {
	g, _ := lambda(t)
	seq := g.Contigs[0].Seq
	at := bytes.Index(seq, []byte("GAAAAAAC"))
	require.Positive(t, at)
	left := fmt.Sprintf("J02459.1:%d:GA:G", at+1)
	right := fmt.Sprintf("J02459.1:%d:AC:C", at+7)
	for _, match := range []string{
		"{vcf: \"" + left + "\"}", "{vcf: \"" + right + "\"}",
		fmt.Sprintf("{region: \"J02459.1:%d\"}", at+3), fmt.Sprintf("{hgvs: \"J02459.1:g.%ddel\"}", at+4),
	} {
		b := written(t, "- id: r\n  match: "+match+"\n")
		require.True(t, b.w.Concerns(b.allele(t, at+1, "GA", "G", 1, 1)), match)
		require.True(t, b.w.Concerns(b.allele(t, at+7, "AC", "C", 1, 1)), match)
	}
}

// observation is one call of a tracker.
type observation func(tr *watchlist.Tracker) []watchlist.Alert

// TestFinalAlertsAreAFunctionOfTheEvidence plays the same observations in many
// orders, with repetitions, and ends of runs in between: the last alert of
// every key is the same but for its revision and what was before.
func TestFinalAlertsAreAFunctionOfTheEvidence(t *testing.T) {
	b := newBench(t, filepath.Join("testdata", "lambda", "panel.yaml"))
	rng := rand.New(rand.NewPCG(7, 11))
	for range cases(t, 40) {
		runs := []string{"run", "second"}[:1+rng.IntN(2)]
		all := b.evidence(t, rng, runs)
		for _, run := range runs {
			all = append(all, func(tr *watchlist.Tracker) []watchlist.Alert { return tr.RunEnd(run) })
		}
		var want map[string]string
		for range 6 {
			got := play(t, b.w, rng, all)
			if want == nil {
				want = got
			}
			require.Equal(t, want, got)
		}
	}
}

// evidence is a random set of observations in several revisions.
func (b *bench) evidence(t *testing.T, rng *rand.Rand, runs []string) []observation {
	var all []observation
	run := func() string { return runs[rng.IntN(len(runs))] }
	for _, e := range []struct {
		pos      int
		ref, alt string
	}{{37589, "C", "T"}, {37588, "T", "C"}, {37742, "C", "T"}, {43082, "G", "A"}, {45352, "G", "A"}, {45353, "G", "A"}, {45300, "T", "TA"}} {
		if string(b.g.Contigs[0].Seq[e.pos-1:e.pos-1+len(e.ref)]) != e.ref {
			continue
		}
		v := b.allele(t, e.pos, e.ref, e.alt, 0, 0)
		for range rng.IntN(4) {
			depth := uint32(rng.IntN(40))
			status := []string{"PROVISIONAL", "STABLE", "FINAL", "RETRACTED"}[rng.IntN(4)]
			v = revised(v, status, 40*rng.Float64(), uint32(rng.IntN(int(depth)+1)), depth)
			v.Run = run()
			v.Call.Filters = [][]string{nil, {"LowQual"}, {"StrandBias"}}[rng.IntN(3)]
			next := v
			all = append(all, func(tr *watchlist.Tracker) []watchlist.Alert { return tr.Variant(next) })
		}
	}
	for _, target := range b.w.Targets() {
		mid := (target.Start + target.End) / 2
		for i, part := range []watchlist.Target{
			{Start: target.Start, End: mid},
			{Start: mid, End: target.End},
			{Start: target.Start - 5, End: mid + 1}, // overlaps the first
		} {
			if part.Start == part.End || i == 1 && rng.IntN(8) == 0 || i == 2 && rng.IntN(4) > 0 {
				continue
			}
			for revision := range rng.Uint64N(4) {
				c := b.covered(part.Start, part.End, rng.IntN(50), revision+1)
				c.Run = run()
				for i := range c.Shown {
					if rng.IntN(3) == 0 {
						c.Shown[i].Forward, c.Shown[i].Reverse = rng.IntN(c.Shown[i].Depth+1)/2, rng.IntN(c.Shown[i].Depth+1)/2
					}
				}
				for _, pos := range []int{37589, 45300, 45352} {
					if pos > c.Start && pos <= c.End && rng.IntN(3) == 0 {
						ref := string(b.g.Contigs[0].Seq[pos-1])
						c.Shown = append(c.Shown, watchlist.Shown{Pos: pos, Ref: ref, Alt: strings.Replace("ACGT", ref, "", 1)[:1], Forward: rng.IntN(20), Reverse: rng.IntN(20), Depth: 40})
					}
				}
				all = append(all, func(tr *watchlist.Tracker) []watchlist.Alert { return tr.Coverage(c) })
			}
		}
	}
	return all
}

// play gives a tracker the observations in random order, some of them twice, and
// returns the last alert of every key.
func play(t *testing.T, w *watchlist.Watch, rng *rand.Rand, all []observation) map[string]string {
	all = slices.Clone(all)
	for range rng.IntN(len(all)) {
		all = append(all, all[rng.IntN(len(all))])
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	tr := w.NewTracker("s")
	last, revision, state := map[string]string{}, map[string]uint64{}, map[string]watchlist.State{}
	ids := map[string]bool{}
	for _, o := range all {
		for _, a := range o(tr) {
			require.Equal(t, revision[a.Key()]+1, a.Revision, "revisions go on without gaps")
			require.False(t, ids[a.ID], "ids are of one revision")
			before := state[a.Key()]
			if before == "" {
				before = watchlist.Pending
			}
			require.Equal(t, before, a.Previous)
			revision[a.Key()], state[a.Key()], ids[a.ID] = a.Revision, a.State, true
			key := a.Key()
			a.Revision, a.Previous, a.ID = 0, "", ""
			doc, err := a.JSON()
			require.NoError(t, err)
			last[key] = string(doc)
		}
	}
	for key, doc := range last {
		require.Contains(t, doc, `"final":true`, key)
	}
	return last
}

// TestReplayGivesTheSameAlerts says that a tracker is a function of its calls:
// alerts delivered again after a crash have the same ids.
func TestReplayGivesTheSameAlerts(t *testing.T) {
	b := newBench(t, filepath.Join("testdata", "lambda", "panel.yaml"))
	rng := rand.New(rand.NewPCG(3, 5))
	all := b.evidence(t, rng, []string{"run"})
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var runs [2][]watchlist.Alert
	for i := range runs {
		tr := b.w.NewTracker("s")
		for _, o := range all {
			runs[i] = append(runs[i], o(tr)...)
		}
		runs[i] = append(runs[i], tr.RunEnd("run")...)
	}
	require.NotEmpty(t, runs[0])
	require.Equal(t, runs[0], runs[1])
}

// TestSpikePanel watches the spike of SARS-CoV-2, and a change behind the
// ribosomal slippage of ORF1ab.
func TestSpikePanel(t *testing.T) {
	dir := filepath.Join("..", "testdata", "sarscov2")
	g, err := genome.Load(filepath.Join(dir, "reference.fa.gz"))
	require.NoError(t, err)
	m, err := annotate.LoadModel(filepath.Join(dir, "genes.gff3"), g)
	require.NoError(t, err)
	p, err := watchlist.Load(filepath.Join("testdata", "sarscov2", "spike.yaml"))
	require.NoError(t, err)
	b := &bench{g: g, a: annotate.New(g, m), p: p}
	b.w, err = watchlist.New(g, b.a, p)
	require.NoError(t, err)
	for _, tt := range []struct {
		pos      int
		ref, alt string
		want     []string
	}{
		{23403, "A", "G", []string{"D614G"}},
		{23063, "A", "T", []string{"N501Y", "binding-domain"}},
		{23012, "G", "A", []string{"E484", "binding-domain"}},
		{21764, "ATACATG", "A", []string{"del69-70"}},
		{21766, "ACATGTC", "A", []string{"del69-70"}}, // the same, spelled otherwise
		{14408, "C", "T", []string{"P4715L"}},
		{22200, "TG", "T", []string{"spike-lost"}},
		{3037, "C", "T", nil},
		{241, "C", "T", nil},
		{23010, "T", "C", []string{"binding-domain"}},
	} {
		v := b.allele(t, tt.pos, tt.ref, tt.alt, 30, 32)
		require.Equal(t, len(tt.want) > 0, b.w.Concerns(v), "%d", tt.pos)
		var rules []string
		for _, a := range b.w.NewTracker("s").Variant(v) {
			if a.Scope != watchlist.ScopeAllele {
				rules = append(rules, a.Rule)
				require.Equal(t, watchlist.Detected, a.State)
			}
		}
		require.Equal(t, tt.want, rules, "%d", tt.pos)
	}
}

// TestManyAlleles bounds what one alert lists: the rule's alert about more
// alleles than fit names those that were detected.
func TestManyAlleles(t *testing.T) {
	b := written(t, "- id: r\n  match: {region: \"J02459.1:1001-1300\"}\n")
	tr := b.w.NewTracker("s")
	for pos := 1001; pos <= 1300; pos++ {
		ref := string(b.g.Contigs[0].Seq[pos-1])
		alt := "A"
		if ref == "A" {
			alt = "C"
		}
		reads := uint32(4)
		if pos > 1250 {
			reads = 40
		}
		tr.Variant(b.allele(t, pos, ref, alt, reads, reads))
	}
	alerts := tr.RunEnd("run")
	last := alerts[len(alerts)-1]
	require.Equal(t, watchlist.ScopeRule, last.Scope)
	require.Equal(t, 300, last.AlleleCount)
	require.Len(t, last.Alleles, 100)
	for i, a := range last.Alleles {
		require.Equal(t, i >= 50, a.State == watchlist.Detected, i)
	}
}

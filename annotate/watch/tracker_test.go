package watch_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/annotate/watch"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vrs"
)

// lambda is the genome and the genes of phage lambda.
func lambda(t testing.TB) (*genome.Genome, *annotate.Annotator) {
	t.Helper()
	dir := filepath.Join("..", "..", "testdata", "lambda")
	g, err := genome.Load(filepath.Join(dir, "reference.fa"))
	require.NoError(t, err)
	m, err := annotate.LoadGFF3(filepath.Join(dir, "genes.gff3"), g)
	require.NoError(t, err)
	return g, annotate.New(g, m)
}

// called is a revision of an allele with alt of depth reads.
func called(t testing.TB, g *genome.Genome, a *annotate.Annotator, pos int, ref, alt string, altReads, depth uint32) *event.Variant {
	t.Helper()
	contig := g.Contigs[0]
	id, err := vrs.AlleleID(contig.Digest, contig.Seq, pos-1, ref, alt)
	require.NoError(t, err)
	annotation, err := a.Annotate(contig.Name, pos, ref, alt)
	require.NoError(t, err)
	return &event.Variant{
		SchemaVersion: event.SchemaVersion, Run: "run", Sample: "lambda", Revision: 1, Status: "PROVISIONAL",
		Allele:     event.Allele{VRSID: id, Contig: contig.Name, Pos: int64(pos), Ref: ref, Alt: alt},
		Call:       event.Call{Qual: 30, Depth: depth, AltForward: altReads / 2, AltReverse: altReads - altReads/2, Genotype: []uint32{1}},
		Annotation: annotation,
	}
}

// covered is a stretch covered to one depth.
func covered(start, end, depth int, revision uint64) watch.Coverage {
	return watch.Coverage{Run: "run", Contig: "J02459.1", Start: start, End: end, Revision: revision,
		Blocks: []watch.DepthBlock{{Start: start, End: end, Depth: depth}}}
}

func TestLambdaDemoPanel(t *testing.T) {
	g, a := lambda(t)
	p, err := watch.Load(filepath.Join("testdata", "lambda", "panel.yaml"))
	require.NoError(t, err)
	w, err := watch.New(g, a, p)
	require.NoError(t, err)
	require.Empty(t, w.Warnings())

	tr := w.NewTracker("lambda")
	for _, target := range w.Targets() {
		tr.Coverage(covered(target.Start, target.End, 30, 1))
	}
	states := map[string]watch.State{}
	note := func(alerts []watch.Alert) {
		for _, a := range alerts {
			states[a.Key()] = a.State
		}
	}
	note(tr.Variant(called(t, g, a, 37589, "C", "T", 17, 20)))
	note(tr.Variant(called(t, g, a, 37742, "C", "T", 4, 5)))
	note(tr.Variant(called(t, g, a, 45352, "G", "A", 13, 14)))
	require.Equal(t, map[string]watch.State{
		"lambda/lambda-demo/cI-E118K/cI:p.Glu118Lys":                          watch.Detected,
		"lambda/lambda-demo/cI-A67T/lambdap88:p.Ala67Thr":                     watch.Suspected,
		"lambda/lambda-demo/S-stop/":                                          watch.Detected,
		"lambda/lambda-demo/S-stop/ga4gh:VA.T8KbScZAqN7VRrIetvmXto0w-mq5tcJF": watch.Detected,
	}, states)
	note(tr.RunEnd("run"))
	require.Equal(t, map[string]watch.State{
		"lambda/lambda-demo/cI-E118K/cI:p.Glu118Lys":                             watch.Detected,
		"lambda/lambda-demo/cI-A67T/lambdap88:p.Ala67Thr":                        watch.NotCallable,
		"lambda/lambda-demo/NinH-A15T/ga4gh:VA.1MjdqH94ssSKJFHApQJnp6refESPPLrU": watch.Negative,
		"lambda/lambda-demo/S-stop/":                                             watch.Detected,
		"lambda/lambda-demo/S-stop/ga4gh:VA.T8KbScZAqN7VRrIetvmXto0w-mq5tcJF":    watch.Detected,
	}, states)
}

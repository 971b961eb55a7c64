package variant_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/testenv"
	"github.com/porestream/porestream/variant"
)

// lambdaTruth is what the recording's phages have against J02459.1. At the last of them
// the shipped basecallers often show the reference, beside an inserted C, in reads of the
// forward strand.
var lambdaTruth = []string{"37589 C>T", "37742 C>T", "43082 G>A", "45352 G>A"}

// thinned is a random part of segments that covers a contig about depth times.
func thinned(contig *genome.Contig, segments []*streampb.Segment, depth float64, seed uint64) []*streampb.Segment {
	bases := 0
	for _, s := range segments {
		bases += len(s.GetQualities())
	}
	part := depth * float64(len(contig.Seq)) / float64(bases)
	rng := rand.New(rand.NewPCG(seed, 9))
	keep := make(map[string]bool) // by read
	var out []*streampb.Segment
	for _, s := range segments {
		kept, seen := keep[s.GetReadId()]
		if !seen {
			kept = rng.Float64() < part
			keep[s.GetReadId()] = kept
		}
		if kept {
			out = append(out, s)
		}
	}
	return out
}

// lambdaSum is what was called of several random parts of the recording.
type lambdaSum struct {
	samples int
	whole   int // samples with every SNP
	clear   int // samples with every SNP but the last
	found   int
	wrong   []string
}

func (s *lambdaSum) add(called, truth []string) {
	s.samples++
	here := make(map[string]bool)
	for _, name := range called {
		if slices.Contains(truth, name) {
			here[name] = true
		} else {
			s.wrong = append(s.wrong, name)
		}
	}
	s.found += len(here)
	if len(here) == len(truth) {
		s.whole++
	}
	if len(truth) > 0 && (len(here) == len(truth) || len(here) == len(truth)-1 && !here[truth[len(truth)-1]]) {
		s.clear++
	}
}

// TestLambda calls random parts of the recording against the sequence that its phages
// differ from by four substitutions, and against their own. It takes minutes:
// make eval-lambda runs it, and docs/files/variant-calling.md has its figures.
func TestLambda(t *testing.T) {
	const seeds, all = 20, 1000
	// The same reads are drawn whatever order they were called and written in, so that
	// basecallers can be compared.
	reads := slices.SortedFunc(lambdaReads(t), func(a, b *align.Read) int { return strings.Compare(a.ID, b.ID) })
	for _, caller := range []string{"network", "analytic"} {
		var cfg variant.Config
		if caller == "network" {
			cfg.Network = shippedNetwork(t)
		}
		for _, set := range []struct {
			reference string
			truth     []string
		}{{"J02459.1.fa", lambdaTruth}, {"NEB.fa", nil}} {
			contig, segments := aligned(t, changed(t, testenv.Recordings(t, "lambda-r9/"+set.reference), unchanged), slices.Values(reads))
			for _, depth := range []float64{10, 12, 15, 20, all} {
				var sum lambdaSum
				for seed := range uint64(seeds) {
					r := region(t, contig, 0, cfg)
					apply(t, r, thinned(contig, segments, depth, seed)...)
					sum.add(passing(finalize(t, r)), set.truth)
					if depth == all {
						break
					}
				}
				t.Logf("%s, %s, %gx: of %d samples %d with all SNPs, %d with all but %s; %d of %d found, %d wrong %v",
					caller, set.reference, depth, sum.samples, sum.whole, sum.clear, lambdaTruth[3], sum.found, sum.samples*len(set.truth), len(sum.wrong), sum.wrong)
				// What the shipped models reach with calls of the default basecaller.
				if limit := map[float64]int{10: 2, 12: 2}[depth] + map[bool]int{true: 1}[caller == "analytic"]; len(sum.wrong) > limit {
					t.Errorf("%s, %gx: %d calls are wrong, more than %d", caller, depth, len(sum.wrong), limit)
				}
				if caller == "network" && set.truth != nil && depth >= 12 && 20*sum.clear < 17*sum.samples {
					t.Errorf("%gx: only %d of %d samples have all SNPs but %s", depth, sum.clear, sum.samples, lambdaTruth[3])
				}
			}
		}
	}
}

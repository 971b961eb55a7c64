package genes

import (
	"context"
	"math"
	"slices"
)

const (
	// weightRounds: weights depend on what a genome teaches with them.
	weightRounds = 2
	// crowded is how many bases of a true gene a frame may cover and still be a full example of none: one that covers more loses to the gene itself.
	crowded = 40
	// shadow is the weight of a frame that covers more.
	shadow = 0.05
)

// firstNetwork is a sum of features with the weights that the models' log odds have by definition, to begin with.
func firstNetwork(weights []float64) *Network {
	n := &Network{Direct: weights}
	for range len(weights) - 1 {
		n.Mean, n.Scale = append(n.Mean, 0), append(n.Scale, 1)
	}
	return n
}

func firstWeights() Weights {
	first := make([]float64, startFeatures+1)
	first[featureCoding], first[featureKind], first[featureBinding], first[featureDown], first[featureReach] = .3, .8, .5, .2, 6
	gene := make([]float64, geneFeatures+1)
	gene[geneBest], gene[geneBinding], gene[geneKind], gene[geneFeatures] = .5, .3, .3, -5
	return Weights{Start: firstNetwork(first), Gene: firstNetwork(gene), Heat: .8}
}

// fit trains both networks on the genomes' frames: which start, and whether gene or not.
func (p *Prior) fit(ctx context.Context, genomes []Annotated) error {
	var choices, verdicts []example
	for i := range genomes {
		g := &genomes[i]
		f := finder{prior: p}
		if f.load([]Contig{g.Contig}) < shortest {
			continue
		}
		learned, err := f.learn(ctx, g.Code, rounds-1)
		if err != nil {
			return err
		}
		starts, frames := learned.examples(g)
		// A genome counts as the square root of how many genes it has: a thousand genes of one are less than of ten.
		weight := 1 / math.Sqrt(float64(max(1, len(starts))))
		for k := range starts {
			starts[k].weight = weight
		}
		for k := range frames {
			frames[k].weight *= weight
		}
		choices, verdicts = append(choices, starts...), append(verdicts, frames...)
	}
	if len(choices) == 0 {
		return errNoExamples
	}
	p.Weights.Start = newNetwork(rowsOf(choices))
	p.Weights.Start.train(choices, func(e *example, values, out []float64) {
		sum := math.Inf(-1)
		for _, v := range values {
			sum = logAdd(sum, v)
		}
		for i, v := range values {
			out[i] = -math.Exp(v - sum)
		}
		out[e.right]++
	})
	p.Weights.Gene = newNetwork(rowsOf(verdicts))
	p.Weights.Gene.train(verdicts, func(e *example, values, out []float64) {
		out[0] = float64(e.right) - 1/(1+math.Exp(-values[0]))
	})
	return nil
}

func rowsOf(list []example) func(yield func(x []float64)) {
	return func(yield func(x []float64)) {
		for i := range list {
			for _, row := range list[i].rows {
				yield(row)
			}
		}
	}
}

// example is one observation: rows to choose among, or one row that is right (1) or not (0).
type example struct {
	rows   [][]float64
	right  int
	weight float64
}

// examples are the frames of an annotated genome.
func (f *finder) examples(g *Annotated) (starts, frames []example) {
	type key struct {
		stop    int
		reverse bool
	}
	known := map[key]Known{}
	n := len(g.Seq)
	covered := make([]bool, n)
	for _, k := range g.Genes {
		stop := k.End
		if k.Reverse {
			stop = n - k.Start
		}
		known[key{stop, k.Reverse}] = k
	}
	for _, k := range slices.Concat(g.Genes, g.Others) {
		for i := k.Start; i < min(k.End, n); i++ {
			covered[i] = true
		}
	}
	forward := encode(g.Seq)
	for s, seq := range [][]byte{forward, complemented(forward)} {
		reverse := s == 1
		list := scan(seq, false, f.code, &f.tables)
		for i := range list {
			fr := &list[i]
			if fr.open {
				continue
			}
			var sc scored
			f.features(seq, fr, &sc)
			f.weigh(seq, fr, &sc)
			e := example{rows: [][]float64{slices.Clone(sc.gene[:])}, weight: 1}
			k, gene := known[key{int(fr.stop), reverse}]
			at := k.Start
			if reverse {
				at = n - k.End
			}
			switch {
			case gene:
				e.right = 1
				right := slices.IndexFunc(fr.starts, func(b start) bool { return int(b.at) == at && b.kind != startOpen })
				if right < 0 {
					break
				}
				choice := example{right: right}
				for i := range sc.starts {
					choice.rows = append(choice.rows, slices.Clone(sc.starts[i][:]))
				}
				starts = append(starts, choice)
			default:
				low, high := int(fr.starts[sc.best].at), int(fr.stop)
				if reverse {
					low, high = n-high, n-low
				}
				inside := 0
				for _, c := range covered[low:high] {
					if c {
						inside++
					}
				}
				if inside > crowded {
					e.weight = shadow
				}
			}
			frames = append(frames, e)
		}
	}
	return starts, frames
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

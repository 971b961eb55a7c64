package genes

import (
	"context"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/genes/rna"
)

const (
	// weightRounds: weights depend on what a genome teaches with them.
	weightRounds = 2
	// crowded is how many bases of a true gene a frame may cover and still be a full example of none: one that covers more loses to the gene itself.
	crowded = 40
	// shadow is the weight of a frame that covers more. There are ten times as many as other frames: one of shadowsFor stands for that many.
	shadow     = 0.05
	shadowsFor = 5
	// glance is how many bases of a genome the first of the rounds reads: its weights are soon replaced.
	glance = 1_000_000
	// atOnce is how many genomes are read at once.
	atOnce = 2
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

// begins is the genome without what is behind its first bases.
func (g *Annotated) begins(bases int) Annotated {
	if len(g.Seq) <= bases {
		return *g
	}
	beyond := func(k Known) bool { return k.End > bases }
	cut := *g
	cut.Seq, cut.Circular = g.Seq[:bases], false
	cut.Genes = slices.DeleteFunc(slices.Clone(g.Genes), beyond)
	cut.Others = slices.DeleteFunc(slices.Clone(g.Others), beyond)
	return cut
}

// lessons are the examples of a genome, with its weight: it counts as the square root of how many genes it has, as a thousand genes of one are less
// than of ten.
func (p *Prior) lessons(ctx context.Context, g *Annotated) (starts, frames []example, err error) {
	f := finder{prior: p}
	if f.load([]Contig{g.Contig}) < shortest {
		return nil, nil, nil
	}
	learned, err := f.learn(ctx, g.Code, rounds-1)
	if err != nil {
		return nil, nil, err
	}
	starts, frames = learned.examples(g)
	weight := 1 / math.Sqrt(float64(max(1, len(starts))))
	for k := range starts {
		starts[k].weight = weight
	}
	for k := range frames {
		frames[k].weight *= weight
	}
	return starts, frames, nil
}

// fit trains both networks on the frames of so many bases of each genome: which start, and whether gene or not.
func (p *Prior) fit(ctx context.Context, genomes []Annotated, bases int) error {
	starts, frames := make([][]example, len(genomes)), make([][]example, len(genomes))
	reading, ctx := errgroup.WithContext(ctx)
	reading.SetLimit(atOnce)
	for i := range genomes {
		reading.Go(func() (err error) {
			g := genomes[i].begins(bases)
			starts[i], frames[i], err = p.lessons(ctx, &g)
			return err
		})
	}
	if err := reading.Wait(); err != nil {
		return err
	}
	choices, verdicts := slices.Concat(starts...), slices.Concat(frames...)
	if len(choices) == 0 {
		return errNoExamples
	}
	var start, gene *Network
	var both sync.WaitGroup
	both.Go(func() {
		start = trainSeveral(choices, func(e *example, values, out []float64) {
			sum := math.Inf(-1)
			for _, v := range values {
				sum = logAdd(sum, v)
			}
			for i, v := range values {
				out[i] = -math.Exp(v - sum)
			}
			out[e.right]++
		})
	})
	both.Go(func() {
		gene = trainSeveral(verdicts, pullOne)
	})
	both.Wait()
	p.Weights.Start, p.Weights.Gene = start, gene
	return nil
}

// pullOne pulls the one value of an example towards right or wrong.
func pullOne(e *example, values, out []float64) {
	out[0] = float64(e.right) - 1/(1+math.Exp(-values[0]))
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
	shadows := 0
	for s, seq := range [][]byte{forward, rna.Complemented(forward)} {
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
					if shadows++; shadows%shadowsFor != 0 {
						continue
					}
					e.weight = shadow * shadowsFor
				}
			}
			frames = append(frames, e)
		}
	}
	return starts, frames
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += float64(a[i] * b[i])
	}
	return sum
}

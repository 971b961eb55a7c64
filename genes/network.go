package genes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
)

// hidden is the number of units of a network's one hidden layer: what is weighed are a dozen numbers.
const hidden = 16

// Network is a network with one hidden layer of rectified units beside a straight way through: a sum of weighted features, bent where that explains
// more. All figures are of features less Mean, divided by Scale.
type Network struct {
	Mean   []float64   `json:"mean"`
	Scale  []float64   `json:"scale"`
	Direct []float64   `json:"direct"` // with a constant behind the features
	Hidden [][]float64 `json:"hidden"` // by unit, with a constant behind the features
	Out    []float64   `json:"out"`    // by unit
}

// check refuses a network that isn't for so many features.
func (n *Network) check(features int) error {
	ok := len(n.Mean) == features && len(n.Scale) == features && len(n.Direct) == features+1 && len(n.Hidden) == len(n.Out)
	for _, u := range n.Hidden {
		ok = ok && len(u) == features+1
	}
	if !ok {
		return fmt.Errorf("a network isn't for %d features", features)
	}
	return nil
}

// value is the network's log odds.
func (n *Network) value(x []float64) float64 {
	var z [32]float64
	m := len(x)
	sum := n.Direct[m]
	for k, v := range x {
		z[k] = (v - n.Mean[k]) / n.Scale[k]
		sum += float64(n.Direct[k] * z[k])
	}
	for u, w := range n.Hidden {
		a := w[m]
		for k, v := range z[:m] {
			a += float64(w[k] * v)
		}
		if a > 0 {
			sum += float64(n.Out[u] * a)
		}
	}
	return sum
}

// newNetwork is a network that hasn't learnt, for features of that mean and spread. Its number decides its first weights.
func newNetwork(number uint64, rows func(yield func(x []float64))) *Network {
	var sum, square []float64
	count := 0.0
	rows(func(x []float64) {
		if sum == nil {
			sum, square = make([]float64, len(x)), make([]float64, len(x))
		}
		for k, v := range x {
			sum[k] += v
			square[k] += float64(v * v)
		}
		count++
	})
	n := &Network{Direct: make([]float64, len(sum)+1)}
	for k := range sum {
		mean := sum[k] / count
		n.Mean = append(n.Mean, rounded(mean))
		n.Scale = append(n.Scale, rounded(math.Sqrt(max(square[k]/count-float64(mean*mean), 0))+1e-3))
	}
	draw := rand.New(rand.NewPCG(1+2*number, 45))
	for range hidden {
		u := make([]float64, len(sum)+1)
		for k := range u {
			u[k] = draw.NormFloat64() / math.Sqrt(float64(len(sum)))
		}
		n.Hidden, n.Out = append(n.Hidden, u), append(n.Out, 0.1*draw.NormFloat64())
	}
	return n
}

func rounded(x float64) float64 { return math.Round(1e4*x) / 1e4 }

// parameters calls do for each slice of parameters.
func (n *Network) parameters(do func(i int, p []float64)) {
	do(0, n.Direct)
	do(1, n.Out)
	for u := range n.Hidden {
		do(2+u, n.Hidden[u])
	}
}

// like is a network of the same shape, all zeros.
func (n *Network) like() *Network {
	c := &Network{Direct: make([]float64, len(n.Direct)), Out: make([]float64, len(n.Out))}
	for _, u := range n.Hidden {
		c.Hidden = append(c.Hidden, make([]float64, len(u)))
	}
	return c
}

// back adds to g what the value of x would change with each parameter, times weight.
func (n *Network) back(x []float64, weight float64, g *Network) {
	m := len(x)
	z := make([]float64, m+1)
	z[m] = 1
	for k, v := range x {
		z[k] = (v - n.Mean[k]) / n.Scale[k]
		g.Direct[k] += float64(weight * z[k])
	}
	g.Direct[m] += weight
	for u, w := range n.Hidden {
		a := dot(w, z)
		if a <= 0 {
			continue
		}
		g.Out[u] += float64(weight * a)
		for k, v := range z {
			g.Hidden[u][k] += float64(weight * n.Out[u] * v)
		}
	}
}

// trainSeveral trains members from different first weights, and has their mean: what only one has learnt, by the accident of where it began, counts less.
func trainSeveral(examples []example, pull func(e *example, values, out []float64)) *Network {
	var list [members]*Network
	var all sync.WaitGroup
	for i := range list {
		all.Go(func() {
			list[i] = newNetwork(uint64(i), rowsOf(examples))
			list[i].train(uint64(i), examples, pull)
		})
	}
	all.Wait()
	return mean(list[:])
}

// mean is the network that gives the mean of networks for the same features: it has the units of all.
func mean(list []*Network) *Network {
	share := 1 / float64(len(list))
	n := &Network{Mean: list[0].Mean, Scale: list[0].Scale, Direct: make([]float64, len(list[0].Direct))}
	for _, m := range list {
		for k, w := range m.Direct {
			n.Direct[k] += float64(w * share)
		}
		n.Hidden = append(n.Hidden, m.Hidden...)
		for _, w := range m.Out {
			n.Out = append(n.Out, rounded(w*share))
		}
	}
	for k := range n.Direct {
		n.Direct[k] = rounded(n.Direct[k])
	}
	return n
}

const (
	// members is how many networks one is the mean of.
	members   = 3
	epochs    = 24
	batch     = 64
	pace      = 0.004
	decayRate = 1e-4
)

// train climbs by Adam (Kingma and Ba, 2015). The order of examples and the first weights come from the network's number: the same examples make the
// same network. pull gives for the values of an example's rows how much each should grow.
func (n *Network) train(number uint64, examples []example, pull func(e *example, values, out []float64)) {
	draw := rand.New(rand.NewPCG(2+2*number, 45))
	first, second := n.like(), n.like()
	step := 0
	var values, out []float64
	total := 0.0
	for i := range examples {
		total += examples[i].weight
	}
	mean := total / float64(max(1, len(examples)))
	order := draw.Perm(len(examples))
	for epoch := range epochs {
		speed := pace * (1 - float64(epoch)/epochs)
		draw.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for from := 0; from < len(order); from += batch {
			g := n.like()
			for _, i := range order[from:min(from+batch, len(order))] {
				e := &examples[i]
				values, out = values[:0], out[:0]
				for _, row := range e.rows {
					values, out = append(values, n.value(row)), append(out, 0)
				}
				pull(e, values, out)
				for r, row := range e.rows {
					if math.Abs(out[r]) > 1e-5 {
						n.back(row, out[r]*e.weight/mean/batch, g)
					}
				}
			}
			step++
			n.adam(g, first, second, step, speed)
		}
	}
	n.parameters(func(_ int, p []float64) {
		for k := range p {
			p[k] = rounded(p[k])
		}
	})
}

func (n *Network) adam(g, first, second *Network, step int, speed float64) {
	slices := func(x *Network) (all [][]float64) {
		x.parameters(func(_ int, p []float64) { all = append(all, p) })
		return all
	}
	p, d, a, b := slices(n), slices(g), slices(first), slices(second)
	c1, c2 := 1-math.Pow(.9, float64(step)), 1-math.Pow(.999, float64(step))
	for i := range p {
		for k := range p[i] {
			v := d[i][k] - float64(decayRate*p[i][k])
			a[i][k] = float64(.9*a[i][k]) + float64(.1*v)
			b[i][k] = float64(.999*b[i][k]) + float64(.001*v*v)
			p[i][k] += float64(speed * (a[i][k] / c1) / (math.Sqrt(b[i][k]/c2) + 1e-8))
		}
	}
}

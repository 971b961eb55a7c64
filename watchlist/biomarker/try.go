package biomarker

import (
	"fmt"
	"math"
)

// alike is how far numbers of a row may lie apart that is computed by itself and among others, as a share of 1 and the number: sums of another order differ by less.
const alike = 1e-4

// Try has the network compute samples that are made up, and returns an error if it doesn't give what the manifest says: a sample of which nothing is known, one
// without any change, and one with a change everywhere, together and each by itself.
//
// Problem: the ends of a network may have the right shape, and the numbers be none, or hang together with those of other samples, as those of layers do that
// normalise over the batch. Answers of real samples would then fail, or depend on what is computed beside them.
func (m *Model) Try(n Network) error {
	rows := m.madeUp()
	var inputs []float32
	for i := range rows {
		inputs = m.input(inputs, &rows[i], -1, 0)
	}
	together, err := m.compute(n, len(rows), inputs)
	if err != nil {
		return err
	}
	for i := range rows {
		alone, err := m.compute(n, 1, inputs[i*m.Width():(i+1)*m.Width()])
		if err != nil {
			return err
		}
		for k, v := range alone {
			if other := together[i*m.Numbers()+k]; math.Abs(float64(v)-float64(other)) > alike*(1+math.Abs(float64(v))) {
				return fmt.Errorf("the network gives %v for a sample alone and %v beside others: each row of a batch has to be computed by itself", v, other)
			}
		}
	}
	return nil
}

// compute has the network compute rows, and returns an error if the numbers aren't as many as the outputs need, or aren't finite.
func (m *Model) compute(n Network, rows int, inputs []float32) ([]float32, error) {
	numbers, err := n.Compute(rows, inputs)
	if err != nil {
		return nil, err
	}
	if len(numbers) != rows*m.Numbers() {
		return nil, fmt.Errorf("the network gives %d numbers for %d rows, the manifest has outputs of %d", len(numbers), rows, m.Numbers())
	}
	for _, v := range numbers {
		if x := float64(v); math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("the network gives %v, which is no finite number", v)
		}
	}
	return numbers, nil
}

// madeUp are samples that a network has to answer.
func (m *Model) madeUp() [3]Genotype {
	var rows [3]Genotype
	for i := range rows {
		g := &rows[i]
		*g = Genotype{Sites: make([]Site, len(m.Codons)), Alleles: make([]Allele, len(m.Alleles)), Methylations: make([]Methylation, len(m.Regions))}
		if i == 0 {
			continue
		}
		changed := i == 2
		for c := range g.Sites {
			residue := m.Wild(c)
			if changed && len(m.residues[c]) > 0 {
				residue = m.residues[c][0]
			}
			g.Sites[c] = Site{Known: true, Shares: []Share{{Residue: residue, Share: 1}}, Depth: 100}
		}
		for a := range g.Alleles {
			g.Alleles[a].Known = true
			if changed {
				g.Alleles[a].Share = 1
			}
		}
		for r := range g.Methylations {
			k := &g.Methylations[r]
			if k.Calls = max(1, m.Manifest.Encoding.Calls); changed {
				k.Modified = k.Calls
			}
		}
	}
	return rows
}

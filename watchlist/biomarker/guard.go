package biomarker

import (
	"fmt"
	"slices"
)

// How many numbers of the network's input the residues that Guarded tries may make, and the residues that it may try of any model.
const (
	triesOfRun = 1 << 16
	triesOfEnd = 1 << 22
	leastTries = 8
)

// Guarded is what the model says of an output, and never SUSCEPTIBLE where a codon that isn't known could make it another class.
//
// Problem: without a decisive codon nothing but RESISTANT is said. Beside the changes that are there, another codon may decide, too: reads that miss its change, or
// that speak for one that isn't called, would leave the sample SUSCEPTIBLE.
//
// Strategy: each residue that the model knows at such a codon is taken as the sample's, by itself, and the network is asked again. Codons because of which the
// class becomes another one are Missing, as decisive ones are.
//
// Consequences: changes of two unknown codons that are harmless by themselves aren't tried together. If there are more residues than a bound, which is higher once the
// runs have ended, none is tried and all these codons are Missing. Outputs with classes of their own have no lowest one, and are left as they are.
func (j *Prediction) Guarded(n Network, out int, final bool) (Answer, error) {
	m, o := j.model, &j.model.Manifest.Outputs[out]
	a := j.Answer(out)
	if a.Class != Susceptible || len(o.Classes) > 0 {
		return a, nil
	}
	var open []int
	residues := 0
	for _, c := range m.outputs[out].codons {
		if k := len(m.residues[c]); k > 0 && !j.genotype.Sites[c].Known {
			open, residues = append(open, c), residues+k
		}
	}
	most := triesOfRun
	if final {
		most = triesOfEnd
	}
	many := residues > max(leastTries, most/m.Width())
	for _, c := range open {
		decides := many
		if !many {
			rows, err := j.try(n, c)
			if err != nil {
				return Answer{}, err
			}
			decides = slices.ContainsFunc(rows, func(numbers []float32) bool {
				class, _, _ := o.read(numbers[m.outputs[out].at:])
				return class != Susceptible
			})
		}
		if decides {
			a.Missing = append(a.Missing, m.Codons[c])
		}
	}
	if len(a.Missing) > 0 {
		a.Class = NotCallable
	}
	return a, nil
}

// try is what the network says with each of a codon's residues. Outputs share it.
func (j *Prediction) try(n Network, codon int) ([][]float32, error) {
	if rows, ok := j.tried[codon]; ok {
		return rows, nil
	}
	m := j.model
	with := *j.genotype
	with.Sites = slices.Clone(with.Sites)
	residues := m.residues[codon]
	inputs := make([]float32, 0, len(residues)*m.Width())
	for _, r := range residues {
		with.Sites[codon] = Site{Known: true, Shares: []Share{{Residue: r, Share: 1}}, Depth: with.Sites[codon].Depth}
		inputs = m.input(inputs, &with, -1, 0)
	}
	numbers, err := m.compute(n, len(residues), inputs)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Manifest.Name, err)
	}
	rows := slices.Collect(slices.Chunk(numbers, m.Numbers()))
	if j.tried == nil {
		j.tried = make(map[int][][]float32)
	}
	j.tried[codon] = rows
	return rows, nil
}

// known collects the residues of each codon that features and scores name, in order.
func (m *Model) known() {
	m.residues = make([][]byte, len(m.Codons))
	for i := range m.features {
		if f := &m.features[i]; f.kind == featureResidue {
			m.residues[f.codon] = append(m.residues[f.codon], f.residue)
		}
	}
	for _, s := range m.scores {
		for _, g := range s.groups {
			for _, t := range g.terms {
				for _, c := range t.clauses {
					m.residues[c.codon] = append(m.residues[c.codon], c.residues...)
				}
			}
		}
	}
	for i := range m.residues {
		slices.Sort(m.residues[i])
		m.residues[i] = slices.Compact(m.residues[i])
	}
}

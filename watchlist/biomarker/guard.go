package biomarker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// How many numbers of the network's input the residues that Guarded tries may make, and the residues that it may try of any model.
const (
	triesOfRun = 1 << 16
	triesOfEnd = 1 << 22
	leastTries = 8

	// Rows of scores are narrow, and what each takes isn't: so many pairs are tried of any model at most, and so many passed by for an output.
	pairsOfRun = 1 << 10
	pairsOfEnd = 1 << 13
	mostPassed = 1 << 16
)

// Guarded is what the model says of an output, and never SUSCEPTIBLE where a codon that isn't known could make it another class.
//
// Problem: without a decisive codon nothing but RESISTANT is said. Beside the changes that are there, another codon may decide, too: reads that miss its change, or
// that speak for one that isn't called, would leave the sample SUSCEPTIBLE.
//
// Strategy: each residue that the model knows at such a codon is taken as the sample's, by itself, and the network is asked again. Codons because of which the
// class becomes another one are Missing, as decisive ones are.
//
// Where no residue changes the class by itself, two may together. Of each such codon the residue is taken that brings the class nearest to another one, and pairs of these are
// tried, of those first that bring it nearest; both codons of a pair that changes it are Missing.
//
// Consequences: pairs of other residues, and three codons, aren't tried. If there are more residues than a bound, which is higher once the
// runs have ended, none is tried and all these codons are Missing; as many pairs as the bound again, and a few thousand at most, for all outputs together, are tried of more. Outputs with classes of their own have no
// lowest one, and are left as they are.
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
	most, mostPairs := triesOfRun, pairsOfRun
	if final {
		most, mostPairs = triesOfEnd, pairsOfEnd
	}
	most = max(leastTries, most/m.Width())
	many := residues > most
	at := m.outputs[out].at
	var nearest []choice
	for _, c := range open {
		decides := many
		if !many {
			rows, err := j.try(n, c)
			if err != nil {
				return Answer{}, err
			}
			best := 0
			for i, numbers := range rows {
				if numbers[at] > rows[best][at] {
					best = i
				}
			}
			nearest = append(nearest, choice{c, best, rows[best][at]})
			class, _, _ := o.read(rows[best][at:])
			decides = class != Susceptible
		}
		if decides {
			a.Missing = append(a.Missing, m.Codons[c])
		}
	}
	if len(a.Missing) == 0 {
		missing, err := j.tryPairs(n, out, nearest, min(most, mostPairs))
		if err != nil {
			return Answer{}, err
		}
		a.Missing = missing
	}
	if len(a.Missing) > 0 {
		a.Class = NotCallable
	}
	return a, nil
}

// choice is a residue of a codon, by its place among those that the model knows there, and the number that the network gives an output with it.
type choice struct {
	codon, residue int
	number         float32
}

// pair is two choices, without their numbers.
type pair [4]int

// tryPairs are the codons of which two choices together make an output another class than SUSCEPTIBLE. At most so many pairs are tried for all outputs of the prediction.
func (j *Prediction) tryPairs(n Network, out int, nearest []choice, most int) ([]Codon, error) {
	m, o := j.model, &j.model.Manifest.Outputs[out]
	slices.SortStableFunc(nearest, func(a, b choice) int { return cmp.Compare(b.number, a.number) })
	var asked, anew []pair
	passed := 0
	for second := 1; second < len(nearest) && len(asked) < most && passed < mostPassed; second++ {
		passed += second
		for first := range second {
			a, b := nearest[first], nearest[second]
			if a.codon > b.codon {
				a, b = b, a
			}
			p := pair{a.codon, a.residue, b.codon, b.residue}
			if _, known := j.pairs[p]; !known {
				if len(j.pairs)+len(anew) == most {
					continue
				}
				anew = append(anew, p)
			}
			asked = append(asked, p)
		}
	}
	if len(anew) > 0 {
		with := *j.genotype
		inputs := make([]float32, 0, len(anew)*m.Width())
		with.Sites = slices.Clone(j.genotype.Sites)
		for _, p := range anew {
			for i := 0; i < len(p); i += 2 {
				with.Sites[p[i]] = Site{Known: true, Shares: []Share{{Residue: m.residues[p[i]][p[i+1]], Share: 1}}, Depth: with.Sites[p[i]].Depth}
			}
			inputs = m.input(inputs, &with, -1, 0)
			for _, c := range [...]int{p[0], p[2]} {
				with.Sites[c] = j.genotype.Sites[c]
			}
		}
		numbers, err := m.compute(n, len(anew), inputs)
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", m.Manifest.Name, err)
		}
		if j.pairs == nil {
			j.pairs = make(map[pair][]float32)
		}
		for i, p := range anew {
			j.pairs[p] = numbers[i*m.Numbers() : (i+1)*m.Numbers()]
		}
	}
	decide := make(map[int]bool)
	for _, p := range asked {
		if class, _, _ := o.read(j.pairs[p][m.outputs[out].at:]); class != Susceptible {
			decide[p[0]], decide[p[2]] = true, true
		}
	}
	var missing []Codon
	for _, c := range slices.Sorted(maps.Keys(decide)) {
		missing = append(missing, m.Codons[c])
	}
	return missing, nil
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

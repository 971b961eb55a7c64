package biomarker

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// indelResidue is the residue of a codon that is changed otherwise than by replaced bases.
const indelResidue = '-'

// Share is a residue at a codon and the share of the sample that has it.
type Share struct {
	Residue byte // '-' where the codon is changed otherwise than by replaced bases
	Share   float64
	// Undecided says that the share is less than that from which a residue is present, and that reads don't exclude it is: then it counts as present.
	Undecided bool
}

// Site is what a sample shows at a codon.
type Site struct {
	Known  bool
	Shares []Share // if it is known
	Depth  int     // the least over its bases
}

// Allele is what a sample shows of a feature that names an allele.
type Allele struct {
	Known     bool
	Share     float64
	Undecided bool // as of Share
}

// Methylation is the calls of a modification in a region, on both strands.
type Methylation struct{ Modified, Calls int }

// Genotype is what a sample shows of a model's features, in the order of Model.Codons, Model.Alleles and Model.Regions.
type Genotype struct {
	Sites        []Site
	Alleles      []Allele
	Methylations []Methylation
}

// Network computes the numbers of rows: of rows times Width values, rows times Numbers. What a row gives must not depend on the
// others.
type Network interface {
	Compute(rows int, inputs []float32) ([]float32, error)
}

// The answers of outputs without classes of their own, and the answer where none can be given.
const (
	Resistant    = "RESISTANT"
	Intermediate = "INTERMEDIATE"
	Susceptible  = "SUSCEPTIBLE"
	NotCallable  = "NOT_CALLABLE"
)

// Answer is what a model says of one output.
type Answer struct {
	// Class is one of the constants, or of the output's own classes.
	Class string
	// Probability is of RESISTANT, or of the likeliest class, by the known codons; it is set for NOT_CALLABLE, too.
	Probability   float64
	Probabilities []float64 // by class; nil without
	// Missing are the decisive codons that are not covered, or, of Guarded, those that could make SUSCEPTIBLE another class, and Unknown how many of the Codons used are not.
	Missing         []Codon
	Unknown, Codons int
	// Indels are the codons that an insertion or a deletion touches, which the model has neither a feature nor a score for: what it means isn't known.
	Indels []Codon
	// RegionsKnown of the Regions whose methylation is a feature have calls that say which it is.
	RegionsKnown, Regions int
}

// Driver is a feature that is present, and how much more probable the answer's class is with it.
type Driver struct {
	Feature string
	Effect  float64
}

// Prediction is a genotype with what the network says of it.
type Prediction struct {
	model    *Model
	genotype *Genotype
	numbers  []float32
	tried    map[int][][]float32 // by codon: the numbers with each of its residues
	pairs    map[pair][]float32  // the numbers with two residues
}

// Score has the network compute the answer for a genotype.
func (m *Model) Score(n Network, g *Genotype) (*Prediction, error) {
	numbers, err := m.compute(n, 1, m.input(nil, g, -1, 0))
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Manifest.Name, err)
	}
	return &Prediction{model: m, genotype: g, numbers: numbers}, nil
}

// Answer is what the model says of an output.
func (j *Prediction) Answer(out int) Answer {
	m, o := j.model, &j.model.Manifest.Outputs[out]
	a := Answer{Codons: len(m.outputs[out].codons)}
	for _, c := range m.outputs[out].decisive {
		if !j.genotype.Sites[c].Known {
			a.Missing = append(a.Missing, m.Codons[c])
		}
	}
	for _, c := range m.outputs[out].codons {
		if !j.genotype.Sites[c].Known {
			a.Unknown++
		}
	}
	if len(o.Classes) == 0 {
		for _, c := range m.outputs[out].codons {
			if m.present(j.genotype, c, indelResidue) && !slices.Contains(m.residues[c], indelResidue) {
				a.Indels = append(a.Indels, m.Codons[c])
			}
		}
	}
	a.Class, a.Probability, a.Probabilities = o.read(j.numbers[m.outputs[out].at:])
	missing := defaultMissing
	if o.MaxMissing != nil {
		missing = *o.MaxMissing
	}
	few := float64(a.Unknown) > missing*float64(a.Codons)
	if a.Regions = len(m.Regions); a.Regions > 0 {
		for i := range m.Regions {
			if _, known := m.methylation(j.genotype, i); known {
				a.RegionsKnown++
			}
		}
		few = few || a.RegionsKnown < max(1, o.LeastSites)
	}
	// Uncovered codons, and changes that the model doesn't know, may add resistance; they seldom take away the resistance found.
	if few || len(a.Missing)+len(a.Indels) > 0 && a.Class != Resistant {
		a.Class = NotCallable
	}
	return a
}

// read turns the numbers of an output into an answer.
func (o *Output) read(numbers []float32) (class string, probability float64, all []float64) {
	line := func(v float32) float64 { return float64(o.Calibration[0]*float64(v)) + o.Calibration[1] }
	if len(o.Classes) == 0 {
		p := rounded(1 / (1 + math.Exp(-line(numbers[0]))))
		switch {
		case p >= o.Resistant:
			return Resistant, p, nil
		case p < o.Susceptible:
			return Susceptible, p, nil
		}
		return Intermediate, p, nil
	}
	all = make([]float64, len(o.Classes))
	largest, sum := math.Inf(-1), 0.0
	for i := range all {
		all[i] = line(numbers[i])
		largest = max(largest, all[i])
	}
	for i := range all {
		all[i] = math.Exp(all[i] - largest)
		sum += all[i]
	}
	best := 0
	for i := range all {
		all[i] = rounded(all[i] / sum)
		if all[i] > all[best] {
			best = i
		}
	}
	if all[best] < o.Least {
		return NotCallable, all[best], all
	}
	return o.Classes[best], all[best], all
}

// rounded keeps four decimals: more would say more than a network knows.
func rounded(p float64) float64 { return math.Round(p*1e4) / 1e4 }

// leastEffect is how much a driver changes the probability at least.
const leastEffect = 0.005

// Drivers are the residues and alleles that are present and without which the answer's class would be less, or more, probable, the strongest first.
// One row is computed for each feature that is present.
func (j *Prediction) Drivers(n Network, out int, most int) ([]Driver, error) {
	m, o := j.model, &j.model.Manifest.Outputs[out]
	changes := j.present(o)
	if len(changes) == 0 {
		return nil, nil
	}
	inputs := make([]float32, 0, len(changes)*m.Width())
	for _, c := range changes {
		if c.site >= 0 {
			inputs = m.input(inputs, j.genotype, c.site, c.residue)
			continue
		}
		without := *j.genotype
		without.Alleles = slices.Clone(without.Alleles)
		without.Alleles[c.allele] = Allele{Known: true}
		inputs = m.input(inputs, &without, -1, 0)
	}
	numbers, err := m.compute(n, len(changes), inputs)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Manifest.Name, err)
	}
	at, width := m.outputs[out].at, m.Numbers()
	class, with, all := o.read(j.numbers[at:])
	own := slices.Index(o.Classes, class)
	var drivers []Driver
	for i, c := range changes {
		_, without, others := o.read(numbers[i*width+at:])
		effect := with - without
		if len(all) > 0 {
			k := max(own, 0)
			effect = all[k] - others[k]
		}
		if math.Abs(effect) < leastEffect {
			continue
		}
		drivers = append(drivers, Driver{m.changeName(c), math.Round(effect*1e3) / 1e3})
	}
	slices.SortFunc(drivers, func(a, b Driver) int {
		return cmp.Or(cmp.Compare(math.Abs(b.Effect), math.Abs(a.Effect)), strings.Compare(a.Feature, b.Feature))
	})
	return drivers[:min(len(drivers), most)], nil
}

// presentChange is a residue or an allele that is present.
type presentChange struct {
	site    int // in Sites; -1: an allele
	residue byte
	allele  int
}

// present are the residues in an output's genes, and the alleles, that are present, each once.
func (j *Prediction) present(o *Output) []presentChange {
	m := j.model
	var changes []presentChange
	seen := map[presentChange]bool{}
	for i := range m.features {
		f := &m.features[i]
		c := presentChange{site: -1}
		switch {
		case f.kind == featureResidue && m.present(j.genotype, f.codon, f.residue) && slices.Contains(o.Genes, m.Codons[f.codon].Gene):
			c.site, c.residue = f.codon, f.residue
		case f.kind == featureAllele && m.presentAllele(&j.genotype.Alleles[f.allele]):
			c.allele = f.allele
		default:
			continue
		}
		if !seen[c] {
			seen[c] = true
			changes = append(changes, c)
		}
	}
	return changes
}

func (m *Model) changeName(c presentChange) string {
	if c.site < 0 {
		return m.Alleles[c.allele]
	}
	return m.residueName(c.site, c.residue)
}

// residueName is a residue at a codon as people write it: "RT:M184V".
func (m *Model) residueName(codon int, residue byte) string {
	c := m.Codons[codon]
	return fmt.Sprintf("%s:%s%d%c", c.Gene, strings.Trim(string(m.Wild(codon)), "X"), c.Number, residue)
}

// Wild is the residue of the numbering's sequence at a codon; 'X': it isn't known.
func (m *Model) Wild(codon int) byte {
	c := m.Codons[codon]
	for i := range m.Manifest.Genes {
		if g := &m.Manifest.Genes[i]; g.Name == c.Gene {
			return g.Sequence[c.Number-1]
		}
	}
	return 'X'
}

// share is how much of the sample has a residue at a codon.
func (m *Model) share(g *Genotype, codon int, residue byte) float64 {
	site := &g.Sites[codon]
	if !site.Known {
		return 0
	}
	total := 0.0
	for _, s := range site.Shares {
		if s.Residue == residue {
			total += s.Share
		}
	}
	return min(total, 1)
}

// present reports whether a residue counts as present at a codon.
func (m *Model) present(g *Genotype, codon int, residue byte) bool {
	site := &g.Sites[codon]
	return site.Known && (m.share(g, codon, residue) >= m.Manifest.Encoding.PresentFrom ||
		slices.ContainsFunc(site.Shares, func(s Share) bool { return s.Undecided && s.Residue == residue }))
}

// presentAllele reports whether an allele counts as present.
func (m *Model) presentAllele(a *Allele) bool {
	return a.Share >= m.Manifest.Encoding.PresentFrom || a.Undecided
}

// methylation is a region's value, and whether it is known: that of a state isn't where as many calls say the one as the other.
func (m *Model) methylation(g *Genotype, region int) (value float32, known bool) {
	c := g.Methylations[region]
	switch {
	case c.Calls < max(1, m.Manifest.Encoding.Calls):
		return 0, false
	case m.Manifest.Encoding.Fractions:
		return float32(c.Modified) / float32(c.Calls), true
	case 2*c.Modified > c.Calls:
		return 1, true
	}
	return 0, 2*c.Modified < c.Calls
}

// input appends a row: values, and which are known. The residue of a codon that is given as removed is left out; -1 removes none.
func (m *Model) input(dst []float32, g *Genotype, removed int, residue byte) []float32 {
	at := len(dst)
	dst = append(dst, make([]float32, 2*len(m.features))...)
	values, known := dst[at:at+len(m.features)], dst[at+len(m.features):]
	left := func(codon int, of byte) bool { return codon != removed || of != residue }
	encode := func(share float64, present bool) float32 {
		switch {
		case m.Manifest.Encoding.Fractions:
			return float32(share)
		case present:
			return 1
		}
		return 0
	}
	for i := range m.features {
		f := &m.features[i]
		is := true
		switch f.kind {
		case featureResidue:
			if is = g.Sites[f.codon].Known; is && left(f.codon, f.residue) {
				values[i] = encode(m.share(g, f.codon, f.residue), m.present(g, f.codon, f.residue))
			}
		case featureAllele:
			if is = g.Alleles[f.allele].Known; is {
				values[i] = encode(g.Alleles[f.allele].Share, m.presentAllele(&g.Alleles[f.allele]))
			}
		case featureScore:
			values[i] = float32(m.scores[f.score].of(func(c clause) bool {
				return slices.ContainsFunc([]byte(c.residues), func(r byte) bool { return left(c.codon, r) && m.present(g, c.codon, r) })
			}))
		case featureUnseen:
			values[i] = float32(m.scores[f.score].unseen(g))
		case featureCovered:
			values[i] = float32(m.coveredShare(g, f.gene))
		case featureDepth:
			values[i] = float32(math.Log2(1 + float64(m.leastDepth(g, f.gene))))
		case featureMethylation:
			values[i], is = m.methylation(g, f.region)
		}
		if is {
			known[i] = 1
		}
	}
	if !m.Manifest.Encoding.Signed {
		return dst
	}
	for i := range values {
		values[i] = known[i] * (2*values[i] - 1)
	}
	return dst[:at+len(values)]
}

// of is the score of the changes present.
func (s *score) of(met func(clause) bool) float64 {
	total := 0.0
	for i := range s.groups {
		most, least := 0.0, 0.0
		for _, t := range s.groups[i].terms {
			if !slices.ContainsFunc(t.clauses, func(c clause) bool { return !met(c) }) {
				most, least = max(most, t.points), min(least, t.points)
			}
		}
		if most > 0 {
			total += most
		} else {
			total += least
		}
	}
	return total
}

// unseen is what codons that are not known could add, each by itself.
func (s *score) unseen(g *Genotype) float64 {
	total := 0.0
	for i := range s.groups {
		if t := &s.groups[i].terms[0]; len(t.clauses) == 1 && !g.Sites[t.clauses[0].codon].Known {
			total += s.groups[i].largest
		}
	}
	return total
}

// coveredShare is the share of the codons of a gene that are known.
func (m *Model) coveredShare(g *Genotype, gene int) float64 {
	known, all := 0, 0
	for i, c := range m.Codons {
		if c.Gene == m.Manifest.Genes[gene].Name {
			all++
			if g.Sites[i].Known {
				known++
			}
		}
	}
	if all == 0 {
		return 0
	}
	return float64(known) / float64(all)
}

// leastDepth is the least depth over the codons of a gene.
func (m *Model) leastDepth(g *Genotype, gene int) int {
	least := -1
	for i, c := range m.Codons {
		if c.Gene == m.Manifest.Genes[gene].Name && (least < 0 || g.Sites[i].Depth < least) {
			least = g.Sites[i].Depth
		}
	}
	return max(least, 0)
}

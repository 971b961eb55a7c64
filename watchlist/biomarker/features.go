package biomarker

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Codon is a codon of a gene, from 1.
type Codon struct {
	Gene   string
	Number int
}

// String is the codon as manifests name it.
func (c Codon) String() string { return c.Gene + ":" + strconv.Itoa(c.Number) }

func (c Codon) compare(o Codon) int {
	return cmp.Or(strings.Compare(c.Gene, o.Gene), cmp.Compare(c.Number, o.Number))
}

// parseCodon reads "RT:184".
func parseCodon(text string) (Codon, error) {
	gene, number, ok := strings.Cut(text, ":")
	n, err := strconv.Atoi(number)
	if !ok || gene == "" || err != nil || n < 1 {
		return Codon{}, fmt.Errorf("%q: %w", text, errCodon)
	}
	return Codon{gene, n}, nil
}

// featureKind is what a number of the input is about.
type featureKind uint8

const (
	featureResidue featureKind = iota
	featureAllele
	featureScore
	featureUnseen
	featureCovered
	featureDepth
	featureMethylation
)

var featureKinds = map[string]featureKind{
	"residue": featureResidue, "allele": featureAllele, "score": featureScore, "unseen": featureUnseen, "covered": featureCovered, "depth": featureDepth,
	"methylation": featureMethylation,
}

// feature is one number of the input.
type feature struct {
	kind    featureKind
	codon   int // residue: in Model.Codons
	residue byte
	allele  int // in Model.Alleles
	score   int // in Model.scores
	gene    int // in Model.Manifest.Genes
	region  int // methylation: in Model.Regions
}

// Region is a place whose methylation is a feature.
type Region struct {
	Text string // a region as panels name it: CONTIG:START-END, counted from 1, CONTIG:POSITION or CONTIG
	Code string // of the modification, as in MM
}

// score is a sum over groups of terms; one term of each group counts.
type score struct {
	name   string
	groups []group
}

// group is terms with the same codons.
type group struct {
	terms   []term
	largest float64 // what a codon that isn't known could add; 0 of several codons
}

// term is a condition and what it adds.
type term struct {
	clauses []clause
	points  float64
}

type clause struct {
	codon    int // in Model.Codons
	residues string
}

// Model is a model as its folder has it.
type Model struct {
	Manifest Manifest
	Network  []byte // ONNX
	Digest   string // SHA-256 over all files, hexadecimal
	// Codons are all that a part of the model uses, by gene and number.
	Codons []Codon
	// Alleles are the descriptions of features that name alleles.
	Alleles []string
	// Regions are those of features about methylation.
	Regions []Region

	features []feature
	scores   []score
	outputs  []output
	residues [][]byte // by codon: those that features and scores name
}

// output is an Output with its codons found.
type output struct {
	at       int   // of its first number
	decisive []int // in Model.Codons
	codons   []int // used in its genes
}

// Size is the number of features.
func (m *Model) Size() int { return len(m.features) }

// Width is how many numbers an input has: of each feature its value and whether it is known, or one for both.
func (m *Model) Width() int {
	if m.Manifest.Encoding.Signed {
		return len(m.features)
	}
	return 2 * len(m.features)
}

// Numbers is how many numbers the network gives for a row.
func (m *Model) Numbers() int {
	n := 0
	for i := range m.Manifest.Outputs {
		n += m.Manifest.Outputs[i].width()
	}
	return n
}

// Output finds an output by name.
func (m *Model) Output(name string) (int, bool) {
	i := slices.IndexFunc(m.Manifest.Outputs, func(o Output) bool { return o.Name == name })
	return i, i >= 0
}

// builder collects the codons of a model.
type builder struct {
	model  *Model
	genes  map[string]int
	codons map[Codon]int
}

// build reads the lists of features and scores.
func (m *Model) build(features, scores []byte) error {
	b := &builder{model: m, genes: map[string]int{}, codons: map[Codon]int{}}
	for i, g := range m.Manifest.Genes {
		b.genes[g.Name] = i
	}
	if err := eachLine(m.Manifest.Scores.File, scores, b.term); err != nil {
		return err
	}
	if err := eachLine(m.Manifest.Features.File, features, b.feature); err != nil {
		return err
	}
	if len(m.features) == 0 {
		return fmt.Errorf("%s: no feature: a model needs one at least", m.Manifest.Features.File)
	}
	at := 0
	for i := range m.Manifest.Outputs {
		o := &m.Manifest.Outputs[i]
		out := output{at: at}
		at += o.width()
		for _, text := range o.Decisive {
			c, err := parseCodon(text)
			if err != nil {
				return err // validated
			}
			out.decisive = append(out.decisive, b.codon(c))
		}
		m.outputs = append(m.outputs, out)
	}
	b.sort()
	m.known()
	return nil
}

// sort puts the codons in order, so that they don't depend on where they were named first.
func (b *builder) sort() {
	m := b.model
	order := make([]int, len(m.Codons)) // new number by old one
	sorted := slices.SortedFunc(slices.Values(m.Codons), Codon.compare)
	for i, c := range sorted {
		order[b.codons[c]] = i
	}
	m.Codons = sorted
	for i := range m.features {
		if f := &m.features[i]; f.kind == featureResidue {
			f.codon = order[f.codon]
		}
	}
	for _, s := range m.scores {
		for _, g := range s.groups {
			for _, t := range g.terms {
				for i := range t.clauses {
					t.clauses[i].codon = order[t.clauses[i].codon]
				}
			}
		}
	}
	for i := range m.outputs {
		o := &m.outputs[i]
		for k, c := range o.decisive {
			o.decisive[k] = order[c]
		}
		for c, at := range m.Codons {
			if slices.Contains(m.Manifest.Outputs[i].Genes, at.Gene) {
				o.codons = append(o.codons, c)
			}
		}
	}
}

// codon is the number of a codon.
func (b *builder) codon(c Codon) int {
	n, ok := b.codons[c]
	if !ok {
		n = len(b.model.Codons)
		b.codons[c] = n
		b.model.Codons = append(b.model.Codons, c)
	}
	return n
}

// eachLine gives the cells of each line that is neither empty nor a comment.
func eachLine(name string, text []byte, take func(cells []string) error) error {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		s := strings.TrimRight(string(line), "\r\n")
		if s == "" || s[0] == '#' {
			continue
		}
		if err := take(strings.Split(s, "\t")); err != nil {
			return fmt.Errorf("%s:%d: %w", name, number, err)
		}
	}
	return nil
}

// within says which of the model's genes a codon is in, and that it is in it.
func (b *builder) within(c Codon) error {
	i, ok := b.genes[c.Gene]
	if !ok {
		return fmt.Errorf("gene %q is not among the manifest's", c.Gene)
	}
	if n := len(b.model.Manifest.Genes[i].Sequence); c.Number > n {
		return fmt.Errorf("codon %s is outside of the gene, which has %d", c, n)
	}
	return nil
}

// letters reports whether text is made of one-letter symbols of residues.
func letters(text string) bool {
	return text != "" && strings.Trim(text, "ACDEFGHIKLMNPQRSTVWY*-") == ""
}

// feature reads a line of the list of features.
func (b *builder) feature(cells []string) error {
	m := b.model
	if len(m.features) == maxFeatures {
		return fmt.Errorf("more than %d features", maxFeatures)
	}
	kind, ok := featureKinds[cells[0]]
	want := 2
	switch {
	case kind == featureResidue:
		want = 4
	case kind == featureMethylation && len(cells) == 3:
		want = 3
	}
	if !ok || len(cells) != want {
		return fmt.Errorf("%q is no feature: want residue GENE CODON RESIDUE, allele NAME, score NAME, unseen NAME, covered GENE, depth GENE or methylation REGION [CODE], separated by tabs", strings.Join(cells, " "))
	}
	f := feature{kind: kind}
	switch kind {
	case featureResidue:
		c, err := parseCodon(cells[1] + ":" + cells[2])
		if err != nil {
			return err
		}
		if err := b.within(c); err != nil {
			return err
		}
		if len(cells[3]) != 1 || !letters(cells[3]) {
			return fmt.Errorf("residue %q: want one letter", cells[3])
		}
		f.codon, f.residue = b.codon(c), cells[3][0]
	case featureAllele:
		f.allele = len(m.Alleles)
		m.Alleles = append(m.Alleles, cells[1])
	case featureScore, featureUnseen:
		f.score = slices.IndexFunc(m.scores, func(s score) bool { return s.name == cells[1] })
		if f.score < 0 {
			return fmt.Errorf("score %q is not in the list of scores", cells[1])
		}
	case featureMethylation:
		f.region = len(m.Regions)
		r := Region{cells[1], "m"}
		if len(cells) == 3 {
			r.Code = cells[2]
		}
		m.Regions = append(m.Regions, r)
	case featureCovered, featureDepth:
		if f.gene, ok = b.genes[cells[1]]; !ok {
			return fmt.Errorf("gene %q is not among the manifest's", cells[1])
		}
	}
	m.features = append(m.features, f)
	return nil
}

// term reads a line of the list of scores.
func (b *builder) term(cells []string) error {
	m := b.model
	if len(cells) != 3 {
		return fmt.Errorf("want a name, a condition and points, separated by tabs, have %d cells", len(cells))
	}
	points, err := strconv.ParseFloat(cells[2], 64)
	if err != nil || points != points || points < -1e6 || points > 1e6 {
		return fmt.Errorf("points %q are not a number", cells[2])
	}
	t := term{points: points}
	for part := range strings.SplitSeq(cells[1], "+") {
		at := strings.TrimRight(part, "ACDEFGHIKLMNPQRSTVWY*-")
		c, err := parseCodon(at)
		if err != nil {
			return fmt.Errorf("condition %q: want codons with residues, such as RT:41L+RT:215FY", cells[1])
		}
		if err := b.within(c); err != nil {
			return err
		}
		residues := part[len(at):]
		if !letters(residues) {
			return fmt.Errorf("condition %q names no residue at %s", cells[1], c)
		}
		t.clauses = append(t.clauses, clause{b.codon(c), residues})
	}
	i := slices.IndexFunc(m.scores, func(s score) bool { return s.name == cells[0] })
	if i < 0 {
		i = len(m.scores)
		m.scores = append(m.scores, score{name: cells[0]})
	}
	m.scores[i].take(t)
	return nil
}

// take files a term with those of the same codons.
func (s *score) take(t term) {
	slices.SortFunc(t.clauses, func(a, b clause) int { return a.codon - b.codon })
	same := func(a, b clause) bool { return a.codon == b.codon }
	i := slices.IndexFunc(s.groups, func(g group) bool { return slices.EqualFunc(g.terms[0].clauses, t.clauses, same) })
	if i < 0 {
		i = len(s.groups)
		s.groups = append(s.groups, group{})
	}
	g := &s.groups[i]
	g.terms = append(g.terms, t)
	if len(t.clauses) == 1 {
		g.largest = max(g.largest, t.points)
	}
}

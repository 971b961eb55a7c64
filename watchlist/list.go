package watchlist

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/porestream/porestream/watchlist/biomarker"
)

// Listed is a sample that is known by its mutations alone, not by reads.
type Listed struct {
	Sample    string
	mutations map[biomarker.Codon]string // residues
	covered   []codonRange               // nil: everything
	line      int
}

// codonRange is some codons of a gene.
type codonRange struct {
	gene     string
	from, to int // 0, 0: all
}

// mutationForm is a mutation with its gene: RT:M184V, or RT:M184MV of a mixture.
var mutationForm = regexp.MustCompile(`^([^:+\s]+):([A-Z]?)([1-9][0-9]{0,4})([A-Z*-]+)$`)

// maxListLine bounds a line of a list.
const maxListLine = 1 << 20

// ReadList reads samples, one a line: a name, mutations as RT:M184V with commas or spaces between them, and, if not everything is covered, genes
// or parts of them that are, as "PR RT:1-240". Tabs separate the three. Errors name the line.
func ReadList(r io.Reader) ([]Listed, error) {
	var list []Listed
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxListLine)
	for number := 1; lines.Scan(); number++ {
		text := strings.TrimRight(lines.Text(), "\r")
		if text == "" || text[0] == '#' {
			continue
		}
		l, err := parseListed(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		l.line = number
		list = append(list, l)
	}
	return list, lines.Err()
}

func parseListed(text string) (Listed, error) {
	cells := strings.Split(text, "\t")
	if cells[0] == "" || len(cells) > 3 {
		return Listed{}, fmt.Errorf("want a sample, mutations and perhaps what is covered, separated by tabs, have %d cells", len(cells))
	}
	l := Listed{Sample: cells[0], mutations: map[biomarker.Codon]string{}}
	words := func(cell string) []string {
		return strings.FieldsFunc(cell, func(r rune) bool { return r == ',' || r == ' ' || r == ';' })
	}
	if len(cells) > 1 {
		for _, word := range words(cells[1]) {
			m := mutationForm.FindStringSubmatch(word)
			if m == nil {
				return Listed{}, fmt.Errorf("%q is not a mutation such as RT:M184V", clip(word))
			}
			n, _ := strconv.Atoi(m[3]) // digits, by the pattern
			at := biomarker.Codon{Gene: m[1], Number: n}
			l.mutations[at] += m[4]
		}
	}
	if len(cells) > 2 {
		l.covered = []codonRange{}
		for _, word := range words(cells[2]) {
			gene, codons, part := strings.Cut(word, ":")
			k := codonRange{gene: gene}
			if part {
				var err error
				if k.from, k.to, err = parseCodons(codons); err != nil {
					return Listed{}, fmt.Errorf("what is covered: %w", err)
				}
			}
			l.covered = append(l.covered, k)
		}
	}
	return l, nil
}

// covers reports whether a codon is covered.
func (l *Listed) covers(c biomarker.Codon) bool {
	for _, k := range l.covered {
		if k.gene == c.Gene && (k.to == 0 || k.from <= c.Number && c.Number <= k.to) {
			return true
		}
	}
	return l.covered == nil
}

// AnswerList is what the models say of a sample that is known by its mutations, as alerts of a run that has ended. What isn't listed is as in the
// models' numbering, not as in the reference. Features that name alleles are missing.
func (w *Watch) AnswerList(l Listed) ([]Alert, error) {
	genes := map[string]int{}
	for _, u := range w.uses {
		for _, g := range u.model.Manifest.Genes {
			genes[g.Name] = max(genes[g.Name], len(g.Sequence))
		}
	}
	for at := range l.mutations {
		if at.Number > genes[at.Gene] {
			return nil, fmt.Errorf("line %d: %s is no codon of the models' genes", l.line, at)
		}
	}
	for _, k := range l.covered {
		if genes[k.gene] == 0 {
			return nil, fmt.Errorf("line %d: %q is none of the models' genes", l.line, clip(k.gene))
		}
	}
	t := w.NewTracker(l.Sample)
	t.runs["list"] = true
	for i, u := range w.uses {
		state := &t.uses[i]
		state.dirty = true
		for c, at := range u.model.Codons {
			if l.covers(at) {
				state.genotype.Sites[c] = siteOf(u.model.Wild(c), l.mutations[at])
			}
		}
	}
	alerts := t.answerModels(nil)
	return alerts, t.Err()
}

// siteOf is a codon with the residues of a list, in equal shares.
func siteOf(wild byte, residues string) biomarker.Site {
	if residues == "" {
		residues = string(wild)
	}
	site := biomarker.Site{Known: true}
	for i := range len(residues) {
		site.Shares = append(site.Shares, biomarker.Share{Residue: residues[i], Share: 1 / float64(len(residues))})
	}
	return site
}

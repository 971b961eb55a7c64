package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/genes/genbank"
)

// place identifies a gene: its contig, strand and stop.
type place struct {
	contig  string
	reverse bool
	stop    int
}

type coding struct {
	place
	start  int
	low    int
	high   int
	pseudo bool
	parts  []genbank.Span // its rows
	// symbols are the names of its gene, the one in use first.
	symbols []string
	similar bool // named after a known protein, or its product is
	// posterior and startPosterior are the probabilities of the gene and of its start, NaN without any.
	posterior, startPosterior float64
}

// load reads the coding sequences of GFF3. Rows of one sequence have one ID, or one Parent.
func load(path string) ([]*coding, error) {
	byID := map[string]*coding{}
	symbols := map[string][]string{} // of genes and transcripts, by ID
	var list []*coding
	err := eachRow(path, func(column []string) error {
		attributes := map[string]string{}
		for _, a := range strings.Split(column[8], ";") {
			key, v, _ := strings.Cut(a, "=")
			attributes[key] = v
		}
		id := attributes["ID"]
		if names := symbolsOf(attributes); column[2] == "gene" || column[2] == "pseudogene" {
			symbols[id] = names
		} else if column[2] == "mRNA" {
			symbols[id] = symbols[attributes["Parent"]]
		}
		if column[2] != "CDS" && column[2] != "pseudogene" {
			return nil
		}
		low, err := strconv.Atoi(column[3])
		if err != nil {
			return err
		}
		high, err := strconv.Atoi(column[4])
		if err != nil {
			return err
		}
		c := byID[id]
		if c == nil || id == "" {
			c = &coding{low: low, high: high, pseudo: column[2] == "pseudogene" || strings.Contains(column[8], "pseudo=true")}
			c.contig, c.reverse = column[0], column[6] == "-"
			c.symbols, c.similar = symbols[attributes["Parent"]], attributes["similar_to"] != ""
			c.posterior, c.startPosterior = number(attributes["posterior"]), number(attributes["start_posterior"])
			byID[id] = c
			list = append(list, c)
		}
		c.low, c.high = min(c.low, low), max(c.high, high)
		c.parts = append(c.parts, genbank.Span{Start: low, End: high})
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		c.start, c.stop = c.low, c.high
		if c.reverse {
			c.start, c.stop = c.high, c.low
		}
	}
	return list, nil
}

// both reads the genes of an annotation and those that were found.
func both[T any](read func(path string) ([]T, error), truthPath, foundPath string) (truth, found []T, err error) {
	if truth, err = read(truthPath); err != nil {
		return nil, nil, err
	}
	found, err = read(foundPath)
	return truth, found, err
}

// byStop has the genes that aren't pseudogenes, by where they end.
func byStop(list []*coding) map[place]*coding {
	known := map[place]*coding{}
	for _, c := range list {
		if !c.pseudo {
			known[c.place] = c
		}
	}
	return known
}

// number is the number that an attribute has, NaN if there is none.
func number(text string) float64 {
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		return v
	}
	return math.NaN()
}

// eachRow gives the nine columns of each row of GFF3.
func eachRow(path string, do func(column []string) error) error {
	return reading(path, func(r io.Reader) error {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			column := strings.Split(lines.Text(), "\t")
			if len(column) != 9 {
				continue
			}
			if err := do(column); err != nil {
				return err
			}
		}
		return lines.Err()
	})
}

// symbolsOf are the names of a gene; none if its name is but its number.
func symbolsOf(attributes map[string]string) []string {
	name := attributes["gene"]
	if name == "" {
		name = attributes["Name"]
	}
	if name == "" || name == attributes["locus_tag"] {
		return nil
	}
	return append([]string{name}, strings.Split(attributes["gene_synonym"], ",")...)
}

// names counts of the genes that were found where the truth has one: those that a known protein is similar to, those that got a symbol, and of these those
// that have it in the truth, and those that have it there among their synonyms.
func names(truthPath, foundPath string, out io.Writer) error {
	truth, found, err := both(load, truthPath, foundPath)
	if err != nil {
		return err
	}
	known := byStop(truth)
	var hits, similar, symbols, right, synonyms int
	for _, c := range found {
		t := known[c.place]
		if t == nil || c.pseudo {
			continue
		}
		hits++
		if c.similar {
			similar++
		}
		if len(c.symbols) == 0 || len(t.symbols) == 0 {
			continue
		}
		symbols++
		switch {
		case c.symbols[0] == t.symbols[0]:
			right++
		case slices.ContainsFunc(t.symbols[1:], func(s string) bool { return strings.EqualFold(s, c.symbols[0]) }):
			synonyms++
		}
	}
	_, err = fmt.Fprintf(out, "%d\t%d\t%d\t%d\t%d\n", hits, similar, symbols, right, synonyms)
	return err
}

// counts are what a comparison comes to.
type counts struct {
	truth, found, hits, starts int
	broken                     int    // found in annotated pseudogenes
	missed, wrong              [4]int // by classOf
}

// classOf is the class of a gene's length: below 90, 150, 300 bases, and more.
func (c *coding) classOf() int {
	class := 0
	for _, bound := range []int{90, 150, 300} {
		if c.high-c.low+1 >= bound {
			class++
		}
	}
	return class
}

// compare counts the genes of the truth that were found by their stops, those of them with their starts, and those found that aren't in it.
func compare(truthPath, foundPath string, out io.Writer) error {
	truth, found, err := both(load, truthPath, foundPath)
	if err != nil {
		return err
	}
	n := count(truth, found)
	_, err = fmt.Fprintf(out, "%d\t%d\t%d\t%.4f\t%.4f\t%.4f\t%d\t%v\t%v\n", n.truth, n.found, n.hits, float64(n.hits)/float64(max(1, n.truth)),
		float64(n.hits)/float64(max(1, n.found)), float64(n.starts)/float64(max(1, n.hits)), n.broken, n.missed, n.wrong)
	return err
}

func count(truth, found []*coding) (n counts) {
	known := byStop(truth)
	pseudo := slices.DeleteFunc(slices.Clone(truth), func(c *coding) bool { return !c.pseudo })
	n.truth = len(known)
	seen := map[place]bool{}
	for _, c := range found {
		if c.pseudo {
			continue // reported as broken, and so not as a gene
		}
		n.found++
		if t := known[c.place]; t != nil && !seen[c.place] {
			seen[c.place] = true
			n.hits++
			if t.start == c.start {
				n.starts++
			}
			continue
		}
		if slices.ContainsFunc(pseudo, func(p *coding) bool { return p.contig == c.contig && p.low < c.high && c.low < p.high }) {
			n.broken++
		} else {
			n.wrong[c.classOf()]++
		}
	}
	for p, c := range known {
		if !seen[p] {
			n.missed[c.classOf()]++
		}
	}
	return n
}

// reliability compares probabilities with how often what they are of is true.
type reliability struct {
	n, said, right float64
	bins           [10]struct{ n, said, right float64 } // of equal width
}

func (r *reliability) add(p float64, right bool) {
	if math.IsNaN(p) {
		return
	}
	b := &r.bins[max(0, min(int(10*p), 9))]
	r.n++
	r.said += p
	b.n++
	b.said += p
	if right {
		r.right++
		b.right++
	}
}

// off is the expected calibration error: how far the probabilities of a bin are from the share that is true, on average over all.
func (r *reliability) off() (sum float64) {
	for _, b := range r.bins {
		sum += math.Abs(b.said-b.right) / max(1, r.n)
	}
	return sum
}

// calibration compares the probabilities of genes, and of starts of genes that the truth has, with what is true.
func calibration(truthPath, foundPath string, out io.Writer) error {
	truth, found, err := both(load, truthPath, foundPath)
	if err != nil {
		return err
	}
	known := byStop(truth)
	var gene, start reliability
	for _, c := range found {
		if c.pseudo {
			continue
		}
		t := known[c.place]
		gene.add(c.posterior, t != nil)
		if t != nil {
			start.add(c.startPosterior, t.start == c.start)
		}
	}
	for _, r := range []struct {
		of string
		*reliability
	}{{"genes", &gene}, {"starts", &start}} {
		n := max(1, r.n)
		if _, err := fmt.Fprintf(out, "%s\t%.0f\t%.4f\t%.4f\t%.4f\n", r.of, r.n, r.said/n, r.right/n, r.off()); err != nil {
			return err
		}
	}
	return nil
}

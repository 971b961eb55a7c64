package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vcf"
)

// allele is a left-aligned parsimonious allele on a contig.
type allele struct {
	pos      int // 0-based, of the first base of ref
	ref, alt string
}

func (a allele) compare(b allele) int {
	return cmp.Or(cmp.Compare(a.pos, b.pos), strings.Compare(a.ref, b.ref), strings.Compare(a.alt, b.alt))
}

// lengthChange is how many bases longer than the reference the allele is.
func (a allele) lengthChange() int { return len(a.alt) - len(a.ref) }

// indel reports whether the allele is a pure insertion or deletion, behind its anchor.
func (a allele) indel() bool { return min(len(a.ref), len(a.alt)) == 1 && len(a.ref) != len(a.alt) }

// span is the interval of the reference in which the allele could be written as
// well: for an insertion or deletion the repeat that it is in.
func (a allele) span(ref []byte) (start, end int) {
	if !a.indel() {
		return a.pos, a.pos + len(a.ref)
	}
	unit := (a.ref + a.alt)[1:]
	if len(a.alt) > 1 {
		unit = a.alt[1:]
	}
	start, end = a.pos+1, a.pos+len(a.ref)
	for i := 0; end < len(ref) && ref[end] == unit[i%len(unit)]; i++ {
		end++
	}
	return start, max(end, start+1)
}

// known is an allele of the truth.
type known struct {
	allele
	haplotypes []bool // which haplotypes have it
	start, end int    // span
	proposed   bool   // whether there is an example for it
}

func (k *known) copies() int {
	n := 0
	for _, has := range k.haplotypes {
		if has {
			n++
		}
	}
	return n
}

// truth is what a sample has, by contig, in the order of positions.
type truth map[string][]*known

// readTruth reads a VCF whose first sample has genotypes of so many haplotypes.
func readTruth(path string, g *genome.Genome, haplotypes int) (truth, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading truth: %w", err)
	}
	defer f.Close()
	t, err := parseTruth(f, g, haplotypes)
	if err != nil {
		return nil, fmt.Errorf("reading truth %s: %w", path, err)
	}
	return t, nil
}

func parseTruth(in io.Reader, g *genome.Genome, haplotypes int) (truth, error) {
	r, err := vcf.NewReader(in)
	if err != nil {
		return nil, err
	}
	t := make(truth)
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		found, err := alleles(rec, g, haplotypes)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", rec.Line(), err)
		}
		t[rec.Chrom] = append(t[rec.Chrom], found...)
	}
	for _, list := range t {
		slices.SortFunc(list, func(a, b *known) int { return a.compare(b.allele) })
	}
	return t, nil
}

// alleles are the alternate alleles of a record that a haplotype has.
func alleles(rec *vcf.Record, g *genome.Genome, haplotypes int) ([]*known, error) {
	contig := g.Contig(rec.Chrom)
	if contig == nil {
		return nil, fmt.Errorf("%s isn't in the reference", rec.Chrom)
	}
	pos, ref := rec.Pos-1, strings.ToUpper(rec.Ref)
	if pos < 0 || pos+len(ref) > len(contig.Seq) || string(contig.Seq[pos:pos+len(ref)]) != ref {
		return nil, fmt.Errorf("REF %s isn't what the reference has at %s:%d", rec.Ref, rec.Chrom, rec.Pos)
	}
	genotype, err := genotype(rec, haplotypes)
	if err != nil {
		return nil, err
	}
	var out []*known
	for n, alt := range rec.Alt {
		k := known{allele: normalise(contig.Seq, allele{pos, ref, strings.ToUpper(alt)}), haplotypes: make([]bool, haplotypes)}
		for h, number := range genotype {
			k.haplotypes[h] = number == n+1
		}
		if k.copies() == 0 {
			continue
		}
		if strings.Trim(k.alt, "ACGT") != "" {
			return nil, fmt.Errorf("ALT %s isn't a sequence", alt)
		}
		k.start, k.end = k.span(contig.Seq)
		out = append(out, &k)
	}
	return out, nil
}

// genotype is the allele number of each haplotype of the first sample.
func genotype(rec *vcf.Record, haplotypes int) ([]int, error) {
	if len(rec.Samples) == 0 || len(rec.Format) == 0 || rec.Format[0] != "GT" || len(rec.Samples[0]) == 0 {
		return nil, errors.New("it has no genotype (GT)")
	}
	text := rec.Samples[0][0]
	called, err := vcf.ParseGenotype(text, len(rec.Alt))
	if err != nil {
		return nil, err
	}
	if len(called) != haplotypes {
		return nil, fmt.Errorf("genotype %q: want %d alleles", text, haplotypes)
	}
	out := make([]int, haplotypes)
	for i, a := range called {
		if a.Number == vcf.MissingAllele {
			return nil, fmt.Errorf("genotype %q: an allele is not known", text)
		}
		out[i] = a.Number
	}
	return out, nil
}

// normalise left-aligns an allele and leaves out what ref and alt share.
func normalise(ref []byte, a allele) allele {
	for {
		n, m := len(a.ref), len(a.alt)
		if n > 0 && m > 0 && a.ref[n-1] == a.alt[m-1] && (n > 1 || m > 1) {
			a.ref, a.alt = a.ref[:n-1], a.alt[:m-1]
		}
		if len(a.ref) > 0 && len(a.alt) > 0 {
			if len(a.ref) == n {
				break
			}
			continue
		}
		if a.pos == 0 {
			break
		}
		a.pos--
		a.ref, a.alt = string(ref[a.pos])+a.ref, string(ref[a.pos])+a.alt
	}
	for len(a.ref) > 1 && len(a.alt) > 1 && a.ref[0] == a.alt[0] {
		a.pos++
		a.ref, a.alt = a.ref[1:], a.alt[1:]
	}
	return a
}

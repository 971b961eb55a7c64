package simulate

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vcf"
)

// FromVCF reads variants to plant. The genotypes are those of the first sample; without
// one, all haplotypes have the first alternate allele. Unphased ones are given to
// haplotypes at random. Sites without an alternate allele are left out, all others
// become left-aligned and parsimonious. The result is in the order of the reference.
func FromVCF(r *vcf.Reader, g *genome.Genome, ploidy int, seed uint64) ([]Site, error) {
	rnd, _ := newRand(seed, phaseStream, 0)
	return FromVCFWith(r, g, ploidy, func(rec *vcf.Record) ([]uint8, error) {
		genotype, phased, err := genotypeOf(rec, ploidy)
		if err == nil && !phased && ploidy == 2 && rnd.IntN(2) == 1 {
			genotype[0], genotype[1] = genotype[1], genotype[0]
		}
		return genotype, err
	})
}

// FromVCFWith is [FromVCF] with genotypes that a function gives to records: the allele
// of each haplotype.
func FromVCFWith(r *vcf.Reader, g *genome.Genome, ploidy int, genotype func(*vcf.Record) ([]uint8, error)) ([]Site, error) {
	var sites []Site
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return normalised(g.Contigs, sites), nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading variants to plant: %w", err)
		}
		c := g.Contig(rec.Chrom)
		if c == nil {
			return nil, fmt.Errorf("reading variants to plant: line %d: %s is not in the reference", rec.Line(), rec.Chrom)
		}
		alleles, err := genotype(rec)
		if err != nil {
			return nil, fmt.Errorf("reading variants to plant: line %d: %w", rec.Line(), err)
		}
		s := Site{Contig: rec.Chrom, Start: rec.Pos - 1, Ref: strings.ToUpper(rec.Ref), Genotype: alleles}
		for _, alt := range rec.Alt {
			alt = strings.ToUpper(alt)
			if strings.Trim(alt, letters) != "" {
				return nil, fmt.Errorf("reading variants to plant: line %d: ALT %s is no sequence of A, C, G and T", rec.Line(), clip(alt))
			}
			s.Alts = append(s.Alts, alt)
		}
		if err := s.fits(c, ploidy); err != nil {
			return nil, fmt.Errorf("reading variants to plant: line %d: %w", rec.Line(), err)
		}
		sites = append(sites, s)
	}
}

// normalised returns sites as normalise makes them, in the order of contigs and positions. No
// indel moves over a change of the same haplotype: next to that it would be another one.
func normalised(contigs []*genome.Contig, sites []Site) []Site {
	sortSites(contigs, sites)
	var out []Site
	var ends []int // of the changes before, by haplotype
	for i, rest := 0, contigs; i < len(sites); i++ {
		s := &sites[i]
		if i == 0 || sites[i-1].Contig != s.Contig {
			for rest[0].Name != s.Contig {
				rest = rest[1:]
			}
			ends = make([]int, len(s.Genotype))
		}
		floor := 0
		for h, a := range s.Genotype {
			if a > 0 {
				floor = max(floor, ends[h])
			}
		}
		if !s.normalise(rest[0].Seq, floor) {
			continue
		}
		for h, a := range s.Genotype {
			if a > 0 {
				ends[h] = max(ends[h], trim(s.Start, s.Ref, s.Allele(h)).end)
			}
		}
		out = append(out, *s)
	}
	sortSites(contigs, out)
	return out
}

// genotypeOf returns the alleles of a record's first sample.
func genotypeOf(rec *vcf.Record, ploidy int) (alleles []uint8, phased bool, err error) {
	if len(rec.Samples) == 0 {
		if len(rec.Alt) > 1 {
			return nil, false, errors.New("several alternate alleles, and no genotype says which haplotype has which")
		}
		alleles = make([]uint8, ploidy)
		for i := range alleles {
			alleles[i] = uint8(len(rec.Alt))
		}
		return alleles, true, nil
	}
	if len(rec.Format) == 0 || rec.Format[0] != "GT" {
		return nil, false, errors.New("no genotype (GT)")
	}
	text := rec.Samples[0][0]
	called, err := vcf.ParseGenotype(text, min(len(rec.Alt), math.MaxUint8))
	if err != nil {
		return nil, false, err
	}
	for _, a := range called {
		if a.Number == vcf.MissingAllele {
			return nil, false, fmt.Errorf("genotype %q names no alleles", clip(text))
		}
		alleles = append(alleles, uint8(a.Number))
	}
	if len(alleles) == 1 && ploidy == 2 {
		alleles = append(alleles, alleles[0])
	}
	if len(alleles) == 2 && ploidy == 1 && alleles[0] == alleles[1] {
		alleles = alleles[:1]
	}
	if len(alleles) != ploidy {
		return nil, false, fmt.Errorf("genotype %q of a sample of %d haplotypes", clip(text), ploidy)
	}
	return alleles, called.Ordered(), nil
}

// normalise makes a site parsimonious and left-aligned, as far as no base before floor would
// be inserted or deleted, drops alternate alleles that no haplotype has, and reports whether
// any are left.
func (s *Site) normalise(seq []byte, floor int) bool {
	var alts []string
	number := make([]uint8, len(s.Alts)+1)
	for i, a := range s.Genotype {
		if a == 0 || s.Alts[a-1] == s.Ref {
			s.Genotype[i] = 0
			continue
		}
		if number[a] == 0 {
			alts = append(alts, s.Alts[a-1])
			number[a] = uint8(len(alts))
		}
		s.Genotype[i] = number[a]
	}
	if s.Alts = alts; len(alts) == 0 {
		return false
	}
	// As in Tan, Abecasis, Kang 2015: while all alleles end alike, cut that off, and give
	// those that become empty the base before.
	for {
		last, empty := s.Ref[len(s.Ref)-1], len(s.Ref) == 1
		same := true
		for _, alt := range s.Alts {
			same = same && alt[len(alt)-1] == last
			empty = empty || len(alt) == 1
		}
		if !same || empty && (s.Start == 0 || s.Start < floor) {
			break
		}
		before := ""
		if empty {
			s.Start--
			before = string(seq[s.Start])
		}
		s.Ref = before + s.Ref[:len(s.Ref)-1]
		for i, alt := range s.Alts {
			s.Alts[i] = before + alt[:len(alt)-1]
		}
	}
	for {
		same := len(s.Ref) > 1
		for _, alt := range s.Alts {
			same = same && len(alt) > 1 && alt[0] == s.Ref[0]
		}
		if !same {
			return true
		}
		s.Start++
		s.Ref = s.Ref[1:]
		for i, alt := range s.Alts {
			s.Alts[i] = alt[1:]
		}
	}
}

package simulate

import (
	"fmt"
	"strconv"
	"strings"
)

// Amount is a number of variants, or how many there are per base.
type Amount struct {
	Count   int     // 0: by Density
	PerBase float64 // variants per base of A, C, G or T
}

// of returns the number for a genome of so many bases.
func (a Amount) of(bases int) int {
	if a.Count > 0 {
		return a.Count
	}
	return int(float64(a.PerBase*float64(bases)) + 0.5)
}

// Spec says which variants are planted. The zero value plants none; [Human] is a
// beginning for most purposes.
type Spec struct {
	SNPs   Amount
	Indels Amount
	// MNPs replace 2 to 5 bases in a row, each by another one.
	MNPs Amount
	// Delins replace bases by more or fewer ones: 1 to 5 on the shorter side, and on the
	// longer one 1 to 15 more. Their first and last bases differ, so none is a simpler event.
	Delins Amount
	// Neighbours are pairs with 1 to 10 bases between that no variant has: a SNP and an
	// indel, or, a quarter of them, two indels in one repeat. Of diploids each of the two
	// has its own genotype.
	Neighbours Amount
	// TransitionRatio is transitions per transversion.
	TransitionRatio float64
	// Homopolymers and Tandems are the shares of indels that change the number of
	// copies in a homopolymer of 4 and more, and in a tandem repeat of units of 2 to 6.
	Homopolymers, Tandems float64
	// MaxLength is the longest insertion or deletion, in bases.
	MaxLength int
	// Het is the share of sites where the haplotypes differ; of diploids only.
	Het float64
	// MultiAllelic is the share of indels in repeats at which the haplotypes have two
	// different alternate alleles; of SNPs it is a tenth of that. Of diploids only.
	MultiAllelic float64
}

// Human has the densities and kinds of a human genome's small variants: 1 SNP per
// 1,000 bases and 1 indel per 8,000, of which most are copies of repeats gained or
// lost, twice as many transitions as transversions, and 1.5 heterozygous sites for
// each homozygous one (as in the benchmark sets of the Genome in a Bottle consortium,
// which have somewhat more of both).
func Human() Spec {
	return Spec{
		SNPs: Amount{PerBase: 1. / 1000}, Indels: Amount{PerBase: 1. / 8000},
		TransitionRatio: 2, Homopolymers: 0.4, Tandems: 0.2, MaxLength: 20, Het: 0.6, MultiAllelic: 0.03,
	}
}

// HumanEvents is [Human] with the events of several bases that public call sets have
// beside: one variant in thirty is an MNP or a delins, two of the former for each of the
// latter, and as many pairs as delins are neighbours.
func HumanEvents() Spec {
	s := Human()
	s.MNPs, s.Delins, s.Neighbours = Amount{PerBase: 1. / 40_000}, Amount{PerBase: 1. / 80_000}, Amount{PerBase: 1. / 80_000}
	return s
}

// preset returns the Spec of a name.
func preset(name string) (Spec, bool) {
	s := Human()
	switch name {
	case "human":
	case "human-events":
		s = HumanEvents()
	case "none":
		s.SNPs, s.Indels = Amount{}, Amount{}
	default:
		return Spec{}, false
	}
	return s, true
}

// ParseSpec reads a Spec: settings that differ from [Human], as
// "snp=1/1000,indel=1/8000,max=50" or "snp=200,indel=100,homopolymer=0,tandem=0".
// They can follow a name: "human" for [Human], "human-events" for [HumanEvents], "none"
// for no variants.
func ParseSpec(text string) (Spec, error) {
	s, settings := Human(), text
	name, rest, more := strings.Cut(text, ",")
	if named, known := preset(name); known {
		if !more {
			return named, nil
		}
		s, settings = named, rest
	}
	for setting := range strings.SplitSeq(settings, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(setting), "=")
		var err error
		switch key {
		case "snp":
			s.SNPs, err = parseAmount(value)
		case "indel":
			s.Indels, err = parseAmount(value)
		case "mnp":
			s.MNPs, err = parseAmount(value)
		case "delins":
			s.Delins, err = parseAmount(value)
		case "neighbours":
			s.Neighbours, err = parseAmount(value)
		case "titv":
			s.TransitionRatio, err = parseNumber(value, 1000)
		case "homopolymer":
			s.Homopolymers, err = parseNumber(value, 1)
		case "tandem":
			s.Tandems, err = parseNumber(value, 1)
		case "het":
			s.Het, err = parseNumber(value, 1)
		case "multi":
			s.MultiAllelic, err = parseNumber(value, 1)
		case "max":
			s.MaxLength, err = strconv.Atoi(value)
			if err != nil || s.MaxLength < 1 || s.MaxLength > 10_000 {
				err = fmt.Errorf("%q is no length from 1 to 10,000", value)
			}
		default:
			err = fmt.Errorf("want snp, indel, mnp, delins, neighbours, max, het, multi, titv, homopolymer or tandem")
		}
		if err != nil {
			return Spec{}, fmt.Errorf("reading variants %q: %s: %w", text, key, err)
		}
	}
	if s.Homopolymers+s.Tandems > 1 {
		return Spec{}, fmt.Errorf("reading variants %q: shares of homopolymers and tandem repeats are more than 1 together", text)
	}
	return s, nil
}

// parseAmount reads "200", "1/1000" or "0.001".
func parseAmount(text string) (Amount, error) {
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return Amount{Count: n}, nil
	}
	over, under, fraction := strings.Cut(text, "/")
	a, err := strconv.ParseFloat(over, 64)
	b := 1.0
	if fraction && err == nil {
		b, err = strconv.ParseFloat(under, 64)
	}
	if v := a / b; err == nil && v >= 0 && v <= 0.1 {
		return Amount{PerBase: v}, nil
	}
	return Amount{}, fmt.Errorf("%q is neither a number of variants nor a density up to 1/10 such as 1/1000", text)
}

func parseNumber(text string, most float64) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= most) {
		return 0, fmt.Errorf("%q is no number from 0 to %g", text, most)
	}
	return v, nil
}

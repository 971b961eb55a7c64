package genes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/porestream/porestream/genes/rna"
)

// Prior is what is known of genes before a genome is read. It is made of annotated genomes by train/genes.
type Prior struct {
	// Genomes are the accessions that it was made of.
	Genomes []string `json:"genomes"`
	// Codons has for each sense codon of code 11, and for TGA as in code 4, the coefficients of a log odds that is a polynomial of the
	// GC content g: c0 + c1 (g-½) + c2 (g-½)².
	Codons map[string][3]float64 `json:"codons"`
	Start  startPrior            `json:"start"`
	// Spacing are distances of neighbours.
	Spacing spacingCounts `json:"spacing"`
	// Pairs are the log odds of two amino acids at a distance of one to four in proteins, against chance, in the order of aminoLetters.
	Pairs   [separations][aminos][aminos]float32 `json:"pairs"`
	Weights Weights                              `json:"weights"`
	// Ribosomal is the ribosomal RNA of the genomes, one of each kind.
	Ribosomal []rna.Known `json:"ribosomal"`
}

// Weights say how much each part of what is known counts.
type Weights struct {
	Start *Network `json:"start"` // which of a frame's starts
	Gene  *Network `json:"gene"`  // whether a frame is a gene
	Joint *Network `json:"joint"` // whether two neighbours are one broken gene
	// Heat: scores times this are log odds. Neighbouring codons know of each other, so that their sum is too sure.
	Heat float64 `json:"heat"`
}

// ReadPrior reads what train/genes has written.
func ReadPrior(r io.Reader) (*Prior, error) {
	p := new(Prior)
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		return nil, fmt.Errorf("decoding a prior of gene models: %w", err)
	}
	if len(p.Codons) != codons-2 {
		return nil, fmt.Errorf("decoding a prior of gene models: %d codons, not %d", len(p.Codons), codons-2)
	}
	if p.Weights.Start == nil || p.Weights.Gene == nil || p.Weights.Joint == nil {
		return nil, errors.New("decoding a prior of gene models: it lacks a network: it is of another version, make it anew with train/genes")
	}
	if p.Ribosomal == nil {
		return nil, errors.New("decoding a prior of gene models: it has no ribosomal RNA: it is of another version, make it anew with train/genes")
	}
	if err := errors.Join(p.Weights.Start.check(startFeatures), p.Weights.Gene.check(geneFeatures), p.Weights.Joint.check(jointFeatures)); err != nil {
		return nil, fmt.Errorf("decoding a prior of gene models: %w: it is of another version, make it anew with train/genes", err)
	}
	return p, nil
}

// usage are the shares of codons in genes of a genome of that GC content.
func (p *Prior) usage(gc float64, code *geneticCode) [codons]float64 {
	var out [codons]float64
	total := 0.0
	x := min(max(gc, .2), .75) - .5
	for i := range out {
		c, ok := p.Codons[codonName(i)]
		if !ok || code.stops(i) {
			continue
		}
		out[i] = math.Exp(c[0] + float64(c[1]*x) + float64(c[2]*x*x))
		total += out[i]
	}
	for i := range out {
		out[i] /= total
	}
	return out
}

// aminoLetters are the amino acids in the order of the prior's tables.
const (
	aminoLetters = "ACDEFGHIKLMNPQRSTVWY"
	aminos       = len(aminoLetters)
)

// pairTables are the prior's pairs by codons.
func (p *Prior) pairTables(code *geneticCode, out *[separations][codons * codons]float32) {
	for a := range codons {
		for b := range codons {
			i, j := strings.IndexByte(aminoLetters, code.amino[a]), strings.IndexByte(aminoLetters, code.amino[b])
			for d := range out {
				out[d][a<<6|b] = 0
				if i >= 0 && j >= 0 {
					out[d][a<<6|b] = p.Pairs[d][i][j]
				}
			}
		}
	}
}

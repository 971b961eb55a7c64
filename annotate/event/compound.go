package event

import "slices"

// Compound is what several alleles on one haplotype do to a transcript together,
// in the words of bcftools csq (INFO/BCSQ): one change of the protein, or nothing
// behind a stop that another allele brought ("*" before the first term).
type Compound struct {
	Gene       string   `json:"gene,omitempty"`
	Transcript string   `json:"transcript"`
	Biotype    string   `json:"biotype,omitempty"`
	Terms      []string `json:"terms"`
	// AminoAcids is the change of the protein, such as "5TY>5I".
	AminoAcids string `json:"amino_acids,omitempty"`
	// Changes are the alleles of the compound by place, such as
	// "121ACG>A+124TA>T".
	Changes string `json:"changes,omitempty"`
	// With are the VRS ids of the other alleles of the compound; empty for an allele
	// that only comes behind a stop.
	With []string `json:"with,omitempty"`
}

// Equal reports whether both have the same content.
func (c Compound) Equal(o Compound) bool {
	return c.Gene == o.Gene && c.Transcript == o.Transcript && c.Biotype == o.Biotype && slices.Equal(c.Terms, o.Terms) &&
		c.AminoAcids == o.AminoAcids && c.Changes == o.Changes && slices.Equal(c.With, o.With)
}

package annotate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// csqField is a sub-field of INFO/CSQ.
type csqField uint8

// The sub-fields, those of csqFields first.
const (
	csqAllele csqField = iota
	csqConsequence
	csqImpact
	csqSymbol
	csqGene
	csqFeatureType
	csqFeature
	csqBiotype
	csqExon
	csqIntron
	csqHGVSc
	csqHGVSp
	csqCDNA
	csqCDS
	csqProtein
	csqAminoAcids
	csqCodons
	csqExisting
	csqDistance
	csqStrand
	csqFlags
	csqPick
	csqCanonical
	csqManeSelect
	csqHGVSOffset
	csqHGVSg
	csqManePlusClinical
	csqTSL
	csqAPPRIS
	csqCCDS
	csqENSP
	csqNMD
	csqAlleleNum
	csqDomains
	csqGO
	csqFieldCount

	// What else steps are made of.
	csqText         // text as it is: of sub-fields that stay empty
	csqOfTranscript // neighbouring sub-fields that the transcript alone decides
	csqNothing      // stands behind the last text of an entry

	// Parts of two sub-fields of an entry about one base of an intron: "1" and "/6|" of csqIntron, "NM_003002.4:c." and
	// "53-12A>G" of csqHGVSc. The transcript alone decides the longer ones.
	csqIntronNumber
	csqIntronCount
	csqReference
	csqBaseInIntron
)

// csqNames are Ensembl VEP's names of the sub-fields.
var csqNames = [csqFieldCount]string{
	"Allele", "Consequence", "IMPACT", "SYMBOL", "Gene", "Feature_type", "Feature", "BIOTYPE", "EXON", "INTRON", "HGVSc", "HGVSp",
	"cDNA_position", "CDS_position", "Protein_position", "Amino_acids", "Codons", "Existing_variation", "DISTANCE", "STRAND", "FLAGS",
	"PICK", "CANONICAL", "MANE_SELECT", "HGVS_OFFSET", "HGVSg",
	"MANE_PLUS_CLINICAL", "TSL", "APPRIS", "CCDS", "ENSP", "NMD", "ALLELE_NUM", "DOMAINS", "GO",
}

// CSQSubfields are the names of the sub-fields that INFO/CSQ can have; the first defaults of them it has unless others
// are chosen.
func CSQSubfields() (names []string, defaults int) {
	return slices.Clone(csqNames[:]), strings.Count(csqFields, "|") + 1
}

// csqClass is a class of entries by what they certainly leave empty. Most entries of a genome are about introns and about
// genes beside the variant, and nearly all of their text is always the same.
type csqClass uint8

// The classes.
const (
	insideEntry     csqClass = iota // of a variant in the transcript
	wholeEntry                      // of one beside it, or that concerns it as a whole
	intronEntry                     // of one in an intron, away from its ends
	intronBaseEntry                 // the same of one base, in a transcript whose names can stand in CSQ as they are
	nowhereEntry                    // of one that is on no transcript and no regulatory feature
	csqClassCount
)

// csqStep is text that was made for the first of many entries, and behind it a sub-field that is written for each.
type csqStep struct {
	fixed []csqPiece // what the text is made of: nothing if two such sub-fields are neighbours
	field csqField   // csqNothing behind the last text
}

// csqPiece is a piece of the text of a step.
type csqPiece struct {
	field csqField
	text  string // of csqText
	run   int    // of csqOfTranscript: which of csqLayout.runs
}

// csqLayout says which sub-fields INFO/CSQ has.
type csqLayout struct {
	fields []csqField
	runs   [][]csqField // neighbours among fields that the transcript alone decides
}

// newCSQLayout is the layout with the sub-fields of the given names; the usual ones if there are none.
func newCSQLayout(names []string) (*csqLayout, error) {
	if len(names) == 0 {
		names = strings.Split(csqFields, "|")
	}
	l := &csqLayout{}
	for _, name := range names {
		i := slices.IndexFunc(csqNames[:], func(s string) bool { return strings.EqualFold(s, name) })
		if i < 0 {
			return nil, fmt.Errorf("CSQ has no sub-field %q: there are %s", name, strings.Join(csqNames[:], ", "))
		}
		if slices.Contains(l.fields, csqField(i)) {
			return nil, fmt.Errorf("sub-field %q of CSQ is named twice", name)
		}
		l.fields = append(l.fields, csqField(i))
	}
	for i, f := range l.fields {
		if l.beginsRun(i) {
			l.runs = append(l.runs, nil)
		}
		if f.ofTranscript() {
			last := &l.runs[len(l.runs)-1]
			*last = append(*last, f)
		}
	}
	return l, nil
}

// beginsRun reports whether the i-th sub-field is the first of one of runs.
func (l *csqLayout) beginsRun(i int) bool {
	return l.fields[i].ofTranscript() && (i == 0 || !l.fields[i-1].ofTranscript())
}

// description is the Description of INFO/CSQ in a header.
func (l *csqLayout) description() string {
	names := make([]string, len(l.fields))
	for i, f := range l.fields {
		names[i] = csqNames[f]
	}
	return csqFormat + strings.Join(names, "|")
}

// emptyIn reports whether f is empty in all entries of a class.
func (f csqField) emptyIn(class csqClass) bool {
	switch class {
	case wholeEntry:
		return f.ofPlace()
	case nowhereEntry:
		return f.ofPlace() || f.ofTranscript() || f == csqDistance
	case intronEntry, intronBaseEntry:
		switch f {
		case csqExon, csqHGVSp, csqCDNA, csqCDS, csqProtein, csqAminoAcids, csqCodons, csqNMD, csqDistance:
			return true
		case csqHGVSOffset:
			return class == intronBaseEntry // it can stand nowhere else
		}
	case insideEntry:
		return f == csqDistance
	}
	return false
}

// ofTranscript reports whether the transcript alone decides f.
func (f csqField) ofTranscript() bool {
	switch f {
	case csqSymbol, csqGene, csqFeatureType, csqFeature, csqBiotype, csqStrand, csqFlags, csqCanonical, csqManeSelect, csqManePlusClinical,
		csqTSL, csqAPPRIS, csqCCDS, csqENSP:
		return true
	}
	return false
}

// ofPlace reports whether f describes a place in the transcript or the change there: it is empty for a variant beside it.
func (f csqField) ofPlace() bool {
	switch f {
	case csqExon, csqIntron, csqHGVSc, csqHGVSp, csqCDNA, csqCDS, csqProtein, csqAminoAcids, csqCodons, csqHGVSOffset, csqNMD:
		return true
	}
	return false
}

// appendCSQ appends a sub-field that t alone decides; all others, and those of no transcript, are empty.
func (t *transcript) appendCSQ(b []byte, f csqField) []byte {
	if t == nil {
		return b
	}
	from := len(b)
	yes := func(ok bool, s string) {
		if ok {
			b = append(b, s...)
		}
	}
	switch f {
	case csqSymbol:
		b = append(b, t.gene.name.Symbol...)
	case csqGene:
		b = append(b, t.gene.name.ID...)
	case csqFeatureType:
		b = append(b, t.name.Type...)
	case csqFeature:
		b = append(b, t.name.ID...)
	case csqBiotype:
		b = append(b, t.name.Biotype...)
	case csqStrand:
		yes(t.forward, "1")
		yes(!t.forward, "-1")
	case csqFlags:
		yes(t.startNF, "cds_start_NF")
		yes(t.startNF && t.endNF, "&")
		yes(t.endNF, "cds_end_NF")
		return b
	case csqCanonical:
		yes(t.canonical, "YES")
	case csqManeSelect:
		yes(t.maneSelect, t.id)
	case csqManePlusClinical:
		yes(t.manePlus, t.id)
	case csqTSL:
		if t.labels.tsl > 0 {
			b = strconv.AppendInt(b, int64(t.labels.tsl), 10)
		}
	case csqAPPRIS:
		b = append(b, t.labels.appris...)
	case csqCCDS:
		b = append(b, t.labels.ccds...)
	case csqENSP:
		b = append(b, t.protein...)
	}
	if t.plain {
		return b
	}
	return escapeFrom(b, from)
}

// escapeFrom escapes what was appended to b from the given index on.
func escapeFrom(b []byte, from int) []byte {
	if plainInCSQ(b[from:]) {
		return b
	}
	return append(b[:from], escapeCSQ(string(b[from:]))...)
}

package annotate

import (
	"strconv"
	"strings"

	"github.com/porestream/porestream/vcf"
)

// csqFields are the sub-fields of INFO/CSQ: Ensembl VEP's names, its default order first.
const csqFields = "Allele|Consequence|IMPACT|SYMBOL|Gene|Feature_type|Feature|BIOTYPE|EXON|INTRON|HGVSc|HGVSp|" +
	"cDNA_position|CDS_position|Protein_position|Amino_acids|Codons|Existing_variation|DISTANCE|STRAND|FLAGS|" +
	"PICK|CANONICAL|MANE_SELECT|HGVS_OFFSET|HGVSg"

// csqFormat begins the Description of INFO/CSQ in a VCF header. Parsers of VEP's output know it by this.
const csqFormat = "Consequence annotations from Ensembl VEP. Format: "

// CSQDescription is the Description of INFO/CSQ with the usual sub-fields.
const CSQDescription = csqFormat + csqFields

// csqEscapes replaces characters that would end a sub-field, an entry or an INFO field, as VEP does. It leaves the "%"
// of text that is encoded already.
var csqEscapes = vcf.NewEscaper(";=", ",", "&", "|", "&")

// escapeCSQ is s as the text of a sub-field. Every run of white space becomes one underscore.
func escapeCSQ(s string) string {
	if !strings.ContainsAny(s, " \t\n\v\f\r") {
		return csqEscapes.Escape(s)
	}
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		switch {
		case !isSpace(s[i]):
			b = append(b, s[i])
		case i == 0 || !isSpace(s[i-1]):
			b = append(b, '_')
		}
	}
	return csqEscapes.Escape(string(b))
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// AppendCSQ appends the annotation as the value of INFO/CSQ: an entry for each consequence, separated by commas.
func (ann *Annotation) AppendCSQ(b []byte) []byte {
	hgvsg := escapeCSQ(ann.HGVSg)
	for i := range ann.Consequences {
		if i > 0 {
			b = append(b, ',')
		}
		b = ann.Consequences[i].appendCSQ(b, ann.Known)
		b = append(b, hgvsg...)
	}
	return b
}

// plainInCSQ reports whether a sub-field can be written as it is.
func plainInCSQ[S []byte | string](s S) bool {
	for i := range len(s) {
		if specialInCSQ[s[i]] {
			return false
		}
	}
	return true
}

var specialInCSQ = func() (special [256]bool) {
	for c := range special {
		special[c] = c <= ' ' || c >= 0x7f || strings.IndexByte(",|;=", byte(c)) >= 0
	}
	return special
}()

// appendCSQ appends all sub-fields but the last, HGVSg.
func (c *Consequence) appendCSQ(b []byte, known []Known) []byte {
	text := func(s string) {
		if !plainInCSQ(s) {
			s = escapeCSQ(s)
		}
		b = append(append(b, s...), '|')
	}
	number := func(n int) {
		if n != 0 {
			b = strconv.AppendInt(b, int64(n), 10)
		}
		b = append(b, '|')
	}
	flag := func(on bool, value string) {
		if on {
			b = append(b, value...)
		}
		b = append(b, '|')
	}
	text(c.Allele)
	for i, t := range c.Terms {
		if i > 0 {
			b = append(b, '&')
		}
		b = append(b, t.Name...)
	}
	b = append(b, '|')
	text(string(c.Impact))
	var g Gene
	var f Feature
	if c.Gene != nil {
		g = *c.Gene
	}
	if c.Feature != nil {
		f = *c.Feature
	}
	text(g.Symbol)
	text(g.ID)
	text(f.Type)
	text(f.ID)
	text(f.Biotype)
	text(c.Exon)
	text(c.Intron)
	text(c.HGVSc)
	text(c.HGVSp)
	text(c.CDNA)
	text(c.CDS)
	text(c.Protein)
	text(c.AminoAcids)
	text(c.Codons)
	b = append(appendExisting(b, known), '|')
	number(c.Distance)
	number(c.Strand)
	var canonical, mane bool
	n := 0
	for _, flag := range c.Flags {
		switch flag {
		case "canonical":
			canonical = true
		case "mane_select":
			mane = true
		case "cds_start_NF", "cds_end_NF":
			if n > 0 {
				b = append(b, '&')
			}
			b = append(b, flag...)
			n++
		}
	}
	b = append(b, '|')
	flag(c.Pick, "1")
	flag(canonical, "YES")
	flag(mane, f.ID)
	number(c.HGVSOffset)
	return b
}

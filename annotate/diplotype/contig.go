package diplotype

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/porestream/porestream/vcf"
)

// grch38 is the length of a contig of GRCh38, from its assembly report (GCF_000001405.40); 0 for those that no table has.
func grch38(contig string) int {
	return map[string]int{
		"chr1": 248956422, "chr2": 242193529, "chr3": 198295559, "chr4": 190214555, "chr5": 181538259, "chr6": 170805979,
		"chr7": 159345973, "chr8": 145138636, "chr9": 138394717, "chr10": 133797422, "chr11": 135086622, "chr12": 133275309,
		"chr13": 114364328, "chr14": 107043718, "chr15": 101991189, "chr16": 90338345, "chr17": 83257441, "chr18": 80373285,
		"chr19": 58617616, "chr20": 64444167, "chr21": 46709983, "chr22": 50818468, "chrX": 156040895, "chrY": 57227415,
	}[contig]
}

// build is the genome of the definitions.
func (d *Definitions) build() string { return cmp.Or(d.genome, "GRCh38") }

// alias reports whether a name is another one of the definitions' contig: without chr, in other case, or an accession of any
// version.
func (d *Definitions) alias(name string) bool {
	short := strings.TrimPrefix(d.Contig, "chr")
	accession, _, _ := strings.Cut(d.accession, ".")
	has, _, _ := strings.Cut(name, ".")
	return name != d.Contig && (strings.EqualFold(name, d.Contig) || strings.EqualFold(name, short) || short == "M" && name == "MT" || accession != "" && has == accession)
}

// Contigs watches whether a file has the contig of definitions, and by which name.
type Contigs struct {
	definitions *Definitions
	found       bool
	alias, last string // last is the contig of the last record
}

// NewContigs begins with what a header declares. An error says that the file is of another genome than the definitions, or names the contig otherwise.
func NewContigs(d *Definitions, header *vcf.Header) (*Contigs, error) {
	c := &Contigs{definitions: d}
	want := grch38(d.Contig)
	for _, contig := range header.Contigs() {
		c.Add(contig.Name)
		if contig.Name == d.Contig && strings.HasPrefix(d.build(), "GRCh38") && contig.Length > 0 && want > 0 && contig.Length != want {
			return nil, fmt.Errorf("the header has %s with %d bases, and the definitions of %s are on %s, where it has %d: calls on another genome? Call against %s", contig.Name, contig.Length, d.Gene, d.build(), want, d.build())
		}
	}
	return c, c.Err()
}

// Add takes the contig of a record in.
func (c *Contigs) Add(name string) {
	if name == c.last {
		return
	}
	c.last = name
	switch {
	case name == c.definitions.Contig:
		c.found = true
	case c.alias == "" && c.definitions.alias(name):
		c.alias = name
	}
}

// Err says that there is the contig by another name only.
func (c *Contigs) Err() error {
	if c.found || c.alias == "" {
		return nil
	}
	d := c.definitions
	return fmt.Errorf("the contig is named %s, and the definitions of %s have %s: rename it, by bcftools annotate --rename-chrs FILE with a line \"%s %s\", if the calls are on %s", c.alias, d.Gene, d.Contig, c.alias, d.Contig, d.build())
}

package homology

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vcf"
)

// row is what a row of GFF3 tells of a feature.
type row struct {
	parent, name, product string
	pseudo                bool
}

// codingRows are the rows of one coding sequence.
type codingRows struct {
	line    int
	contig  string
	reverse bool
	parts   []stretch
	skips   []int // phase of each part
	id      string
	parent  string
	attrs   map[string]string
}

// readGFF3 reads the coding sequences of GFF3 in NCBI's, Ensembl's, Prokka's and Bakta's dialects. Their genes' names are taken if they
// themselves have none.
func readGFF3(r *bufio.Reader, sequences map[string][]byte) ([]Protein, error) {
	features := map[string]row{}
	byID := map[string]*codingRows{}
	var all []*codingRows
	// The lines are read one by one, so that what follows ##FASTA is left for the reader of genomes.
	for n := 1; ; n++ {
		text, err := r.ReadString('\n')
		if len(text) > maxLine {
			return nil, fmt.Errorf("line %d: longer than %d bytes", n, maxLine)
		}
		line := strings.TrimRight(text, "\r\n")
		if line == "##FASTA" {
			g, err := genome.Read(r)
			if err != nil {
				return nil, fmt.Errorf("its FASTA section: %w", err)
			}
			if sequences == nil {
				sequences = make(map[string][]byte, len(g.Contigs))
			}
			for _, c := range g.Contigs {
				sequences[c.Name] = c.Seq
			}
			break
		}
		if line != "" && line[0] != '#' {
			if err := takeRow(line, n, features, byID, &all); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
	}
	if len(all) > 0 && len(sequences) == 0 {
		return nil, errors.New("it has no sequence: add the genome behind a comma, as GENES.gff3,GENOME.fa")
	}
	var list []Protein
	for _, c := range all {
		p, ok := c.protein(features)
		if !ok {
			continue
		}
		var err error
		if p.Seq, err = c.translate(sequences); err != nil {
			return nil, fmt.Errorf("line %d: %w", c.line, err)
		}
		list = append(list, p)
	}
	return list, nil
}

func takeRow(line string, n int, features map[string]row, byID map[string]*codingRows, all *[]*codingRows) error {
	column := strings.Split(line, "\t")
	if len(column) != 9 {
		return fmt.Errorf("%d columns, want the nine of GFF3", len(column))
	}
	attrs := map[string]string{}
	for field := range strings.SplitSeq(column[8], ";") {
		if key, value, found := strings.Cut(strings.TrimSpace(field), "="); found {
			attrs[key] = value
		}
	}
	id, parent := vcf.Unescape(attrs["ID"]), attrs["Parent"]
	parent, _, _ = strings.Cut(parent, ",")
	parent = vcf.Unescape(parent)
	if column[2] != "CDS" {
		if id != "" {
			features[id] = row{
				parent: parent, name: vcf.Unescape(firstOf(attrs["gene"], attrs["Name"])), product: vcf.Unescape(firstOf(attrs["product"], attrs["description"])),
				pseudo: column[2] == "pseudogene" || attrs["pseudo"] == "true" || strings.Contains(attrs["biotype"], "pseudogene"),
			}
		}
		return nil
	}
	start, err := strconv.Atoi(column[3])
	if err != nil || start < 1 {
		return fmt.Errorf("start %q is no position", column[3])
	}
	end, err := strconv.Atoi(column[4])
	if err != nil || end < start {
		return fmt.Errorf("end %q is no position behind the start", column[4])
	}
	skip, _ := strconv.Atoi(column[7]) // "." is 0
	if skip < 0 || skip > 2 {
		return fmt.Errorf("phase %q is not 0, 1 or 2", column[7])
	}
	key := column[0] + "\x00" + firstOf(id, parent)
	c := byID[key]
	if c == nil || key == column[0]+"\x00" {
		c = &codingRows{line: n, contig: vcf.Unescape(column[0]), reverse: column[6] == "-", id: id, parent: parent, attrs: attrs}
		byID[key] = c
		*all = append(*all, c)
	}
	c.parts = append(c.parts, stretch{start - 1, end})
	c.skips = append(c.skips, skip)
	return nil
}

// protein is what a coding sequence and its gene tell, but for its residues; false if it is no protein.
func (c *codingRows) protein(features map[string]row) (Protein, bool) {
	p := Protein{
		ID:   firstOf(c.get("protein_id"), c.get("locus_tag"), c.get("Name"), bareID(c.id)),
		Gene: c.get("gene"), Product: c.get("product"),
	}
	pseudo := c.get("pseudo") == "true"
	at := c.parent
	for range 3 { // transcript, gene
		f, known := features[at]
		if !known {
			break
		}
		pseudo = pseudo || f.pseudo
		if f.parent == "" { // the gene
			if p.Gene == "" && f.name != bareID(at) {
				p.Gene = f.name
			}
			p.ID = firstOf(p.ID, bareID(at))
		}
		p.Product = firstOf(p.Product, f.product)
		at = f.parent
	}
	for _, text := range []string{c.attrs["Ontology_term"], c.attrs["Dbxref"]} {
		for term := range strings.SplitSeq(text, ",") {
			if term = vcf.Unescape(term); strings.HasPrefix(term, "GO:") && !slices.Contains(p.Terms, term) {
				p.Terms = append(p.Terms, term)
			}
		}
	}
	return p, !pseudo && p.ID != ""
}

// translate reads the sequence. Without transl_table it has the code of bacteria, whose amino acids are those of the standard one.
func (c *codingRows) translate(sequences map[string][]byte) ([]byte, error) {
	seq, known := sequences[c.contig]
	if !known {
		return nil, fmt.Errorf("sequence %q is not in the FASTA", c.contig)
	}
	table := 11
	if text := c.get("transl_table"); text != "" {
		var err error
		if table, err = strconv.Atoi(text); err != nil {
			return nil, fmt.Errorf("transl_table %q is no number", text)
		}
	}
	order := make([]int, len(c.parts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return c.parts[a].start - c.parts[b].start })
	parts := make([]stretch, len(order))
	for i, k := range order {
		parts[i] = c.parts[k]
	}
	first := order[0]
	if c.reverse {
		first = order[len(order)-1]
	}
	return translated(seq, parts, c.reverse, c.skips[first], c.get("partial") != "true", table)
}

// get is an attribute; empty if there is none.
func (c *codingRows) get(key string) string { return vcf.Unescape(c.attrs[key]) }

// bareID is an ID without the prefix that makes it unique in its file.
func bareID(id string) string {
	for _, prefix := range []string{"CDS:", "cds-", "gene:", "gene-", "transcript:", "rna-"} {
		if s, found := strings.CutPrefix(id, prefix); found {
			return s
		}
	}
	return id
}

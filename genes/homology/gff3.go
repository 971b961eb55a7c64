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

// row is what a row of GFF3 states about a feature.
type row struct {
	parent, name, product string
	pseudo                bool
}

// codingRows are the rows of one coding sequence.
type codingRows struct {
	line    int
	contig  string
	reverse bool
	both    bool // has rows on both strands
	parts   []stretch
	skips   []int // phase of each part
	id      string
	parent  string
	attrs   map[string]string
}

// gff3 is what was read of a file.
type gff3 struct {
	features map[string]row // by ID
	circular map[string]bool
	byID     map[string]*codingRows
	all      []*codingRows
}

// readGFF3 reads the coding sequences of GFF3 in NCBI's, Ensembl's, Prokka's and Bakta's dialects. Their genes' names are taken if they
// themselves have none.
func readGFF3(r *bufio.Reader, sequences map[string][]byte) ([]Protein, error) {
	file := gff3{features: map[string]row{}, circular: map[string]bool{}, byID: map[string]*codingRows{}}
	// The lines are read one by one, so that what follows ##FASTA is left for the reader of genomes.
	for n := 1; ; n++ {
		text, err := readLine(r, maxRow)
		if errors.Is(err, errLongLine) {
			return nil, fmt.Errorf("line %d: %w", n, err)
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
			if err := file.take(line, n); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
	}
	if len(file.all) > 0 && len(sequences) == 0 {
		return nil, errors.New("it has no sequence: add the genome behind a comma, as GENES.gff3,GENOME.fa")
	}
	var list []Protein
	for _, c := range file.all {
		p, ok := c.protein(file.features)
		if !ok || c.both {
			continue
		}
		var err error
		if p.Seq, err = c.translate(sequences, file.circular[c.contig]); err != nil {
			return nil, fmt.Errorf("line %d: %w", c.line, err)
		}
		list = append(list, p)
	}
	return list, nil
}

// maxRow bounds a row of GFF3: notes of some files have tens of thousands of bytes.
const maxRow = 1 << 24

var errLongLine = errors.New("the line is too long")

// readLine is the next line with its end, and io.EOF if it is the last.
func readLine(r *bufio.Reader, most int) (string, error) {
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		if len(line)+len(piece) > most {
			return "", fmt.Errorf("%w: more than %d bytes", errLongLine, most)
		}
		line = append(line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return string(line), err
		}
	}
}

// take takes a row.
func (g *gff3) take(line string, n int) error {
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
		if attrs["Is_circular"] == "true" {
			g.circular[vcf.Unescape(column[0])] = true
		}
		if id != "" {
			g.features[id] = row{
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
	c := g.byID[key]
	if c == nil || key == column[0]+"\x00" {
		c = &codingRows{line: n, contig: vcf.Unescape(column[0]), reverse: column[6] == "-", id: id, parent: parent, attrs: attrs}
		g.byID[key] = c
		g.all = append(g.all, c)
	}
	c.both = c.both || c.reverse != (column[6] == "-")
	c.parts = append(c.parts, stretch{start - 1, end})
	c.skips = append(c.skips, skip)
	return nil
}

// protein is what the rows of a coding sequence and of its gene state, but for its residues; false if
// it is no protein.
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
func (c *codingRows) translate(sequences map[string][]byte, circular bool) ([]byte, error) {
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
	n := len(seq)
	all := slices.Clone(c.parts)
	for i, p := range all {
		if circular && n <= p.start && p.end <= 2*n { // behind the origin, counted on
			all[i] = stretch{p.start - n, p.end - n}
		}
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return all[a].start - all[b].start })
	if circular {
		turn(all, order, n)
	}
	parts := make([]stretch, len(order))
	for i, k := range order {
		parts[i] = all[k]
	}
	first := order[0]
	if c.reverse {
		first = order[len(order)-1]
	}
	return translated(seq, parts, c.reverse, c.skips[first], c.get("partial") != "true", table)
}

// turn has the order of the parts begin before the origin of a circular sequence where they cross it: with the one behind the longest stretch that is
// in none of them.
func turn(parts []stretch, order []int, length int) {
	end := 0
	for _, p := range parts {
		end = max(end, p.end)
	}
	start := parts[order[0]].start
	if end < length || end == length && start > 0 {
		return
	}
	at, longest := 0, start+length-end
	end = start
	for i, k := range order {
		if gap := parts[k].start - end; gap > longest {
			at, longest = i, gap
		}
		end = max(end, parts[k].end)
	}
	slices.Reverse(order[:at])
	slices.Reverse(order[at:])
	slices.Reverse(order)
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

package annotate

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/porestream/porestream/genome"
)

// maxGFF3Line bounds one line of a GFF3 file; attributes of real files reach some tens of kilobytes.
const maxGFF3Line = 8 << 20

// row is a line of a GFF3 file that says something about a gene.
type row struct {
	line       int
	contig     *genome.Contig
	kind       string // column 3
	start, end int    // inter-residue; of exons, coding and untranslated rows only
	strand     byte   // '+', '-', or '.' when unknown
	phase      int8   // bases to skip to the next codon; -1 when unknown
	attributes string // column 9 as written
}

// part says whether a row is a part of a transcript rather than a feature that has parts.
func (r *row) part() bool {
	switch r.kind {
	case "exon", "CDS", "five_prime_UTR", "three_prime_UTR", "UTR":
		return true
	}
	return false
}

// get is the decoded value of an attribute, or "".
func (r *row) get(key string) string {
	rest := r.attributes
	for rest != "" {
		var field string
		field, rest, _ = strings.Cut(rest, ";")
		field = strings.TrimLeft(field, " ")
		if len(field) > len(key) && field[len(key)] == '=' && field[:len(key)] == key {
			return decode(field[len(key)+1:])
		}
	}
	return ""
}

// first is the first of the attributes that is there, or "".
func (r *row) first(keys ...string) string {
	for _, k := range keys {
		if v := r.get(k); v != "" {
			return v
		}
	}
	return ""
}

// decode resolves GFF3's percent-encoding; what is not an encoding stays as it is.
func decode(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b = append(b, byte(c))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

// GFF3 reads gene models. Its zero value is what most files need.
type GFF3 struct {
	// GeneticCode is the number of NCBI's genetic code for coding sequences whose rows have no transl_table, as in
	// Ensembl's files; 0 is the standard code, 1.
	GeneticCode int
}

// LoadGFF3 is GFF3{}.Load.
func LoadGFF3(path string, g *genome.Genome) (*Model, error) { return GFF3{}.Load(path, g) }

// ReadGFF3 is GFF3{}.Read.
func ReadGFF3(r io.Reader, g *genome.Genome) (*Model, error) { return GFF3{}.Read(r, g) }

// Load reads the gene model of a GFF3 file (NCBI's or Ensembl's style; plain, gzip or bgzip) for the genome. Errors
// name the file and the line. A model that does not fit the genome is refused.
func (o GFF3) Load(path string, g *genome.Genome) (*Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading gene model: %w", err)
	}
	defer f.Close()
	m, err := o.Read(f, g)
	if err != nil {
		return nil, fmt.Errorf("reading gene model %s: %w", path, err)
	}
	return m, nil
}

// Read is Load for a stream.
func (o GFF3) Read(r io.Reader, g *genome.Genome) (*Model, error) {
	table := cmp.Or(o.GeneticCode, standardCode)
	if codeOf(table) == nil {
		return nil, fmt.Errorf("genetic code %d is not one of NCBI's", table)
	}
	br := bufio.NewReaderSize(r, 64<<10)
	if magic, _ := br.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		gz, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("decompressing: %w", err)
		}
		defer gz.Close()
		br = bufio.NewReaderSize(gz, 64<<10)
	}
	p := gff3{genome: g, foreign: map[string]int{}, circular: map[string]bool{}}
	sc := bufio.NewScanner(br)
	sc.Buffer(make([]byte, 0, 64<<10), maxGFF3Line)
	for sc.Scan() {
		p.line++
		if bytes.HasPrefix(sc.Bytes(), []byte("##FASTA")) || bytes.HasPrefix(sc.Bytes(), []byte(">")) {
			break // the sequences are the genome's business
		}
		if err := p.add(sc.Text()); err != nil {
			return nil, fmt.Errorf("line %d: %w", p.line, err)
		}
	}
	if err := sc.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("longer than %d bytes", maxGFF3Line)
		}
		return nil, fmt.Errorf("line %d: %w", p.line+1, err)
	}
	if p.line == 0 {
		return nil, errors.New("the file is empty: not GFF3")
	}
	if err := p.checkContigs(); err != nil {
		return nil, err
	}
	for _, name := range p.order {
		p.warnings = append(p.warnings, fmt.Sprintf("contig %q is not in the reference: its %d rows are left out", name, p.foreign[name]))
	}
	return buildModel(p.rows, table, p.warnings)
}

// gff3 collects the rows of a file.
type gff3 struct {
	genome  *genome.Genome
	line    int
	rows    []*row
	foreign map[string]int // rows by contig that the genome does not have
	known   int            // rows on contigs that it has
	order   []string       // keys of foreign in the order of the file

	circular map[string]bool // contigs declared circular
	warnings []string
}

// add takes a line.
func (p *gff3) add(line string) error {
	line = strings.TrimSuffix(line, "\r")
	if line == "" {
		return nil
	}
	if line[0] == '#' {
		if strings.HasPrefix(line, "##sequence-region") {
			return p.sequenceRegion(strings.Fields(line))
		}
		return nil
	}
	var f [9]string
	rest := line
	for i := range f {
		var more bool
		f[i], rest, more = strings.Cut(rest, "\t")
		if more != (i < 8) {
			return fmt.Errorf("%d columns, want 9 separated by tabs: not GFF3", 1+strings.Count(line, "\t"))
		}
	}
	if isGTF(f[8]) {
		return errors.New(`this is GTF (attributes like gene_id "x";), which is not read: convert it to GFF3, for example with gffread`)
	}
	r := &row{line: p.line, kind: f[2], attributes: f[8], phase: -1}
	if f[2] == "region" && r.get("Is_circular") == "true" {
		p.circular[decode(f[0])] = true
	}
	if !r.part() && (r.get("ID") == "" || isLandmark(f[2])) {
		return nil // says nothing about genes
	}
	contig := decode(f[0])
	if r.contig = p.genome.Contig(contig); r.contig == nil {
		if p.foreign[contig] == 0 {
			p.order = append(p.order, contig)
		}
		p.foreign[contig]++
		return nil
	}
	p.known++
	if err := r.orient(f[6], f[7]); err != nil {
		return err
	}
	// Genes and transcripts are where their parts are; excerpts of annotations have them reach outside.
	if r.part() {
		if err := p.place(r, f[3], f[4]); err != nil {
			return err
		}
	}
	p.rows = append(p.rows, r)
	return nil
}

// place sets the row's coordinates.
func (p *gff3) place(r *row, start, end string) error {
	s, err := strconv.Atoi(start)
	if err != nil || s < 1 {
		return fmt.Errorf("%s: start %q is not a position", r.kind, start)
	}
	e, err := strconv.Atoi(end)
	if err != nil || e < s {
		return fmt.Errorf("%s: end %q is not a position at or after start %d", r.kind, end, s)
	}
	if name, length := r.contig.Name, len(r.contig.Seq); e > length {
		if !p.circular[name] || s > length {
			return fmt.Errorf("%s ends at %d, but contig %q of the reference has %d bases: they do not belong together", r.kind, e, name, length)
		}
		p.warnings = append(p.warnings, fmt.Sprintf("line %d: %s crosses the origin of circular contig %q: its part after the origin is left out", r.line, r.kind, name))
		e = length
	}
	r.start, r.end = s-1, e
	return nil
}

// orient sets the row's strand and phase.
func (r *row) orient(strand, phase string) error {
	switch strand {
	case "+", "-":
		r.strand = strand[0]
	case ".", "?":
		r.strand = '.'
	default:
		return fmt.Errorf("%s: strand %q, want + - . or ?", r.kind, strand)
	}
	switch phase {
	case "0", "1", "2":
		r.phase = int8(phase[0] - '0')
	case ".":
	default:
		return fmt.Errorf("%s: phase %q is none of 0, 1, 2 and %q", r.kind, phase, ".")
	}
	return nil
}

// isGTF recognises GTF's attributes: key "value"; pairs.
func isGTF(attributes string) bool {
	key, rest, ok := strings.Cut(strings.TrimSpace(attributes), " ")
	return ok && !strings.Contains(key, "=") && strings.HasPrefix(strings.TrimLeft(rest, " "), `"`)
}

// isLandmark says whether rows of this type describe stretches of sequence: they may have any coordinates and are
// nobody's parent.
func isLandmark(kind string) bool {
	switch kind {
	case "region", "chromosome", "contig", "scaffold", "supercontig", "biological_region", "match", "match_part", "cDNA_match",
		"sequence_feature", "mobile_genetic_element", "origin_of_replication", "intron":
		return true
	}
	return false
}

// sequenceRegion compares a declared contig with the genome's.
func (p *gff3) sequenceRegion(f []string) error {
	if len(f) != 4 {
		return errors.New("##sequence-region: want a name, a start and an end")
	}
	c := p.genome.Contig(decode(f[1]))
	if c == nil {
		return nil
	}
	end, err := strconv.Atoi(f[3])
	if err != nil {
		return fmt.Errorf("##sequence-region: end %q is not a number", f[3])
	}
	if end != len(c.Seq) {
		return fmt.Errorf("##sequence-region: contig %q ends at %d, but the reference has %d bases: they do not belong together", c.Name, end, len(c.Seq))
	}
	return nil
}

// checkContigs refuses a file that shares no contig with the genome.
func (p *gff3) checkContigs() error {
	if p.known == 0 && len(p.order) == 0 {
		return errors.New("no gene, exon or CDS in it: not GFF3")
	}
	if p.known == 0 {
		return fmt.Errorf("no contig in common: the gene model has %s, the reference has %s", nameList(p.order), nameList(p.genome.Names()))
	}
	return nil
}

// nameList names the first few of many.
func nameList(names []string) string {
	const shown = 5
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

package homology

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/porestream/porestream/genes/genbank"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/textfile"
)

// maxLine bounds a line: whole chromosomes stand in one.
const maxLine = 1 << 28

// Load reads the proteins of files: FASTA of proteins, GenBank's flat files, or GFF3 with its sequence in a ##FASTA section or in another file,
// as GFF3,FASTA. What a file is shows in its beginning.
func Load(paths ...string) ([]Protein, error) {
	var all []Protein
	for _, path := range paths {
		list, err := load(path)
		if err != nil {
			return nil, fmt.Errorf("reading proteins of %s: %w", path, err)
		}
		all = append(all, list...)
	}
	return all, nil
}

// split parts GFF3,FASTA. A file that has a comma in its name is one file.
func split(path string) []string {
	if gff, fasta, found := strings.Cut(path, ","); found {
		if _, err := os.Stat(path); err != nil {
			return []string{gff, fasta}
		}
	}
	return []string{path}
}

func load(path string) ([]Protein, error) {
	files := split(path)
	var sequences map[string][]byte
	if len(files) > 1 {
		g, err := genome.Load(files[1])
		if err != nil {
			return nil, err
		}
		sequences = make(map[string][]byte, len(g.Contigs))
		for _, c := range g.Contigs {
			sequences[c.Name] = c.Seq
		}
	}
	f, err := os.Open(files[0])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(f, filepath.Base(files[0]), sequences)
}

// Read is Load for a stream. name is the file's; sequences are those of GFF3 without a ##FASTA section, nil for none.
func Read(r io.Reader, name string, sequences map[string][]byte) ([]Protein, error) {
	br, err := textfile.NewReader(r, 1<<18)
	if err != nil {
		return nil, err
	}
	head, err := br.Peek(1 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var list []Protein
	switch head := bytes.TrimLeft(head, " \t\r\n"); {
	case bytes.HasPrefix(head, []byte(">")):
		if sequences != nil {
			return nil, errors.New("it is FASTA; before the comma, GFF3 is wanted")
		}
		list, err = readFASTA(br)
	case bytes.HasPrefix(head, []byte("LOCUS ")):
		list, err = readGenBank(br)
	case bytes.HasPrefix(head, []byte("##gff")) || bytes.Count(head[:max(0, bytes.IndexByte(head, '\n'))], []byte("\t")) == 8:
		list, err = readGFF3(br.Reader, sequences)
	default:
		err = errors.New("it is neither FASTA of proteins, nor a GenBank file, nor GFF3")
	}
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("no protein is in it")
	}
	for i := range list {
		list[i].Source = name
		list[i].Product = strings.TrimPrefix(list[i].Product, "MULTISPECIES: ")
	}
	return list, nil
}

// readFASTA reads proteins whose titles are those of UniProt, NCBI, Ensembl, Prokka's databases, or anything else.
func readFASTA(r io.Reader) ([]Protein, error) {
	var list []Protein
	lines := newLines(r)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if title, found := bytes.CutPrefix(line, []byte(">")); found {
			p := titled(string(title))
			if p.ID == "" {
				return nil, fmt.Errorf("line %d: a protein without a name", n)
			}
			list = append(list, p)
			continue
		}
		if len(list) == 0 {
			continue // blank lines before the first title
		}
		for _, c := range line {
			if c|0x20 < 'a' || c|0x20 > 'z' {
				if c != '*' && c != '-' && c != '.' {
					return nil, fmt.Errorf("line %d: %q is no residue of a protein", n, c)
				}
			}
		}
		p := &list[len(list)-1]
		p.Seq = append(p.Seq, line...)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return list, ofProteins(list)
}

// ofProteins refuses FASTA of bases.
func ofProteins(list []Protein) error {
	bases, all := 0, 0
	for i := range list {
		for _, c := range list[i].Seq {
			if strings.IndexByte("ACGTUN", c&^0x20) >= 0 {
				bases++
			}
		}
		if all += len(list[i].Seq); all > 10_000 {
			break
		}
	}
	if all > 0 && bases*10 > all*9 {
		return errors.New("its letters are bases: proteins are wanted, or GFF3,FASTA for a genome and its genes")
	}
	return nil
}

// titled reads a title.
func titled(title string) Protein {
	id, rest, _ := strings.Cut(title, " ")
	p := Protein{ID: id, Product: strings.TrimSpace(rest)}
	if parts := strings.Split(id, "|"); len(parts) == 3 && (parts[0] == "sp" || parts[0] == "tr") { // UniProt
		p.ID = parts[1]
		p.Product, rest, _ = strings.Cut(p.Product, " OS=")
		if _, gene, found := strings.Cut(rest, " GN="); found {
			p.Gene, _, _ = strings.Cut(gene, " ")
		}
		return p
	}
	if parts := strings.Split(p.Product, "~~~"); len(parts) >= 3 { // Prokka's: EC number, gene, product
		p.Gene, p.Product = parts[1], parts[2]
		return p
	}
	if strings.HasPrefix(p.Product, "pep ") { // Ensembl
		p.Product = ""
		if _, text, found := strings.Cut(rest, " description:"); found {
			p.Product, _, _ = strings.Cut(text, " [Source:")
		}
		if _, text, found := strings.Cut(rest, " gene_symbol:"); found {
			p.Gene, _, _ = strings.Cut(text, " ")
		}
		return p
	}
	if strings.HasPrefix(p.Product, "[") { // NCBI's coding sequences
		tags := map[string]string{}
		list := strings.TrimSuffix(p.Product[1:], "]") // values may end in a bracket of their own
		for part := range strings.SplitSeq(list, "] [") {
			key, value, _ := strings.Cut(part, "=")
			tags[key] = value
		}
		p.Gene, p.Product = tags["gene"], tags["protein"]
		if tags["protein_id"] != "" {
			p.ID = tags["protein_id"]
		}
		return p
	}
	if at := strings.LastIndex(p.Product, " ["); at >= 0 && strings.HasSuffix(p.Product, "]") { // NCBI's proteins: the organism
		p.Product = p.Product[:at]
	}
	return p
}

func readGenBank(r io.Reader) ([]Protein, error) {
	records, err := genbank.Read(r)
	if err != nil {
		return nil, err
	}
	var list []Protein
	for _, record := range records {
		for i := range record.Coding {
			c := &record.Coding[i]
			if c.Pseudo {
				continue
			}
			p := Protein{ID: firstOf(c.Protein, c.Locus, c.Gene), Gene: c.Gene, Product: c.Product, Terms: c.Terms, Seq: []byte(c.Translation)}
			if p.ID == "" {
				continue
			}
			if len(p.Seq) == 0 {
				if len(record.Seq) == 0 || c.BothStrands {
					continue
				}
				parts := make([]stretch, len(c.Parts))
				for k, part := range c.Parts {
					parts[k] = stretch{part.Start - 1, part.End}
				}
				begins := !c.CutLow && !c.Reverse || !c.CutHigh && c.Reverse
				if p.Seq, err = translated(record.Seq, parts, c.Reverse, c.Skip, begins, c.Code); err != nil {
					return nil, fmt.Errorf("CDS %s: %w", p.ID, err)
				}
			}
			list = append(list, p)
		}
	}
	return list, nil
}

func firstOf(names ...string) string {
	for _, n := range names {
		if n != "" {
			return n
		}
	}
	return ""
}

// translated is the protein of parts of a sequence, of which the first skip bases in reading direction belong to a codon that began before.
func translated(seq []byte, parts []stretch, reverse bool, skip int, begins bool, table int) ([]byte, error) {
	code, err := NewCode(table)
	if err != nil {
		return nil, err
	}
	coding, err := join(seq, parts, reverse)
	if err != nil {
		return nil, err
	}
	return code.Translate(coding[min(skip, len(coding)):], begins && skip == 0), nil
}

// newLines reads lines of any sensible length.
func newLines(r io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	return lines
}

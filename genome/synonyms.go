package genome

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/porestream/porestream/textfile"
)

// maxSynonymLine bounds a line of a table of synonyms, in bytes.
const maxSynonymLine = 1 << 20

// LoadSynonyms is AddSynonyms of a file, which may be gzipped.
func (g *Genome) LoadSynonyms(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading contig synonyms: %w", err)
	}
	defer f.Close()
	r, err := textfile.NewReader(f, 64<<10)
	if err == nil {
		err = g.AddSynonyms(r)
	}
	if err != nil {
		return fmt.Errorf("reading contig synonyms %s: %w", path, err)
	}
	return nil
}

// AddSynonyms reads a table whose rows hold names of one contig each, separated by tabs; from
// then on [Genome.Contig] knows contigs by all of them. Names that share a row anywhere in the
// table are one contig's. A column of other things than names is recognised by the line of
// column names, which begins with #: NCBI's assembly report, UCSC's chromAlias of both kinds.
// It is an error if two contigs of the genome are one, or if none of the names is a contig. It
// is not safe to use while another goroutine uses the genome.
func (g *Genome) AddSynonyms(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxSynonymLine)
	table := synonyms{genome: g, number: make(map[string]int)}
	columns := func(row []string) []string { return row }
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimRight(strings.TrimPrefix(lines.Text(), "\ufeff"), "\r")
		switch {
		case strings.TrimSpace(line) == "":
			continue
		case line[0] == '#':
			if named := nameColumns(strings.Split(strings.TrimLeft(line, "# "), "\t")); named != nil {
				columns = named
			}
			continue
		}
		row := strings.Split(line, "\t")
		if len(row) == 1 { // two names in a line of blanks are no doubt two names
			row = strings.Fields(line)
		}
		if len(row) < 2 {
			return fmt.Errorf("line %d: it has one column; want the names of a contig, separated by tabs", n)
		}
		if err := table.add(columns(row)); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("line %d: longer than %d bytes", n+1, maxSynonymLine)
	case err != nil:
		return err
	}
	return table.enter()
}

// nameColumns returns a function that picks the names from a row, by the names of the columns;
// nil if header is no line of column names.
func nameColumns(header []string) func(row []string) []string {
	for i := range header {
		header[i] = strings.ToLower(strings.TrimSpace(header[i]))
	}
	pick := func(row []string, columns ...string) []string {
		var names []string
		for _, column := range columns {
			if i := slices.Index(header, column); i >= 0 && i < len(row) {
				names = append(names, row[i])
			}
		}
		return names
	}
	switch {
	case slices.Contains(header, "sequence-name"): // an assembly report of NCBI's
		return func(row []string) []string {
			names := pick(row, "sequence-name", "genbank-accn", "refseq-accn", "ucsc-style-name")
			// Of a scaffold it is the chromosome that the scaffold is of.
			if slices.Equal(pick(row, "sequence-role"), []string{"assembled-molecule"}) {
				names = append(names, pick(row, "assigned-molecule")...)
			}
			return names
		}
	case len(header) < 2:
		return nil
	case slices.Contains(header, "alias") && slices.Contains(header, "chrom"): // UCSC's table; the third column is where the alias is from
		return func(row []string) []string { return pick(row, "alias", "chrom") }
	}
	return func(row []string) []string { return row[:min(len(row), len(header))] }
}

// synonyms joins names that are one contig's.
type synonyms struct {
	genome *Genome
	number map[string]int // of names
	names  []string
	joined []int     // a name of the same contig, by number; itself for one of them
	contig []*Contig // of names that stand for themselves; nil: none of the genome
}

// root is the name that stands for all that are one with a name.
func (s *synonyms) root(i int) int {
	for s.joined[i] != i {
		s.joined[i] = s.joined[s.joined[i]]
		i = s.joined[i]
	}
	return i
}

func (s *synonyms) add(row []string) error {
	first := -1
	for _, name := range row {
		if name = strings.TrimSpace(name); !isName(name) {
			continue
		}
		i, known := s.number[name]
		if !known {
			i = len(s.names)
			name = strings.Clone(name) // not its whole line
			s.number[name], s.names = i, append(s.names, name)
			s.joined, s.contig = append(s.joined, i), append(s.contig, s.genome.byName[name])
		}
		if i = s.root(i); first < 0 {
			first = i
			continue
		}
		if i == first {
			continue
		}
		a, b := s.contig[first], s.contig[i]
		if a != nil && b != nil && a != b {
			return fmt.Errorf("%s and %s are two contigs of the reference, and the table makes them one", a.Name, b.Name)
		}
		s.joined[i] = first
		if a == nil {
			s.contig[first] = b
		}
	}
	return nil
}

// isName reports whether a cell is a name rather than a sign that there is none.
func isName(cell string) bool {
	switch strings.ToLower(cell) {
	case "", "na", "n/a", ".":
		return false
	}
	return true
}

// enter gives the genome the names.
func (s *synonyms) enter() error {
	found := false
	for i, name := range s.names {
		c := s.contig[s.root(i)]
		if c == nil {
			continue
		}
		found = true
		if s.genome.byName[name] == nil {
			if s.genome.synonyms == nil {
				s.genome.synonyms = make(map[string]*Contig)
			}
			s.genome.synonyms[name] = c
		}
	}
	if !found {
		return fmt.Errorf("none of its names (%s) is a contig of the reference (%s)", firstOf(s.names), firstOf(s.genome.Names()))
	}
	return nil
}

// firstOf names the first few of many.
func firstOf(names []string) string {
	const shown = 5
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

package motif

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/textfile"
)

// Read reads a table of motifs, as [Header] and [Motif.Append] write it; of the columns behind the third, which are
// counts, it reads none. A file may also have the motifs alone, one a line, as GATC,1. Name is that of errors.
func Read(r io.Reader, name string) ([]Motif, error) {
	var all []Motif
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimRight(lines.Text(), "\r")
		if line == "" || line[0] == '#' || line == strings.TrimRight(Header, "\n") {
			continue
		}
		m, err := parse(strings.Split(line, "\t"))
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, n, err)
		}
		all = append(all, m)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w: want a table of motifs, as pore pileup --find-motifs writes it", name, err)
	}
	return all, nil
}

// Letters are those of motifs, each once, sorted.
func Letters(list []Motif) []string {
	var all []string
	for _, m := range list {
		all = append(all, m.Letters)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// parse reads the columns of a line.
func parse(columns []string) (m Motif, err error) {
	read, err := pileup.ParseMotif(columns[0])
	if err != nil {
		return m, fmt.Errorf("motif %s", clipped(err))
	}
	m.Letters, m.Place, m.Palindrome = read.Letters(), read.Place(), read.Palindrome()
	if width := 2*Reach + 1; len(m.Letters) > width {
		return m, fmt.Errorf("motif of %d letters: want at most %d", len(m.Letters), width)
	}
	if len(columns) == 1 {
		return m, nil
	}
	if len(columns) < 3 {
		return m, errors.New("want motif, code and whether it is a palindrome, with tabs between, or the motif alone")
	}
	if m.Code, err = modbase.ParseCode(columns[1]); err != nil {
		return m, fmt.Errorf("code %s", clipped(err))
	}
	if said, err := strconv.ParseBool(columns[2]); err != nil || said != m.Palindrome {
		return m, fmt.Errorf("palindrome is %q, and of %s it is %t", textfile.Clip(columns[2], 20), &m, m.Palindrome)
	}
	return m, nil
}

// clipped is an error's text, of a bounded length: it may quote a line.
func clipped(err error) string { return textfile.Clip(err.Error(), 120) }

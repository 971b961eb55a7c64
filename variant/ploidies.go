package variant

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/genome"
)

// PloidySpan is a stretch of a contig that has a ploidy of its own.
type PloidySpan struct {
	Span
	Ploidy Ploidy
}

// Ploidies are the stretches, by contig, that have a ploidy of their own: those of
// a contig in their order, none overlapping another.
type Ploidies map[string][]PloidySpan

// maxPloidyLine is longer than any line that names a stretch.
const maxPloidyLine = 1 << 16

// ReadPloidies reads stretches of contigs of g from BED: contig, start, end, and in
// the fourth column 1, 2 or mixture. Errors begin with name and the line.
func ReadPloidies(r io.Reader, name string, g *genome.Genome) (Ploidies, error) {
	type found struct {
		PloidySpan
		line int
	}
	contigs := make(map[string][]found)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxPloidyLine)
	n := 0
	for lines.Scan() {
		n++
		contig, span, err := parsePloidySpan(lines.Text(), g)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		if contig != "" {
			contigs[contig] = append(contigs[contig], found{span, n})
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, fmt.Errorf("%s:%d: the line is longer than %d bytes", name, n+1, maxPloidyLine)
		}
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(contigs) == 0 {
		return nil, fmt.Errorf("%s: no stretches: a line has a contig, a start from 0, an end and a ploidy", name)
	}
	ploidies := make(Ploidies, len(contigs))
	for _, contig := range g.Names() { // in an order, so that the same fault is named every time
		list := contigs[contig]
		slices.SortStableFunc(list, func(a, b found) int { return cmp.Compare(a.Start, b.Start) })
		for i, f := range list {
			if i > 0 && f.Start < list[i-1].End {
				first, second := min(f.line, list[i-1].line), max(f.line, list[i-1].line)
				return nil, fmt.Errorf("%s:%d: the stretch overlaps that of line %d", name, second, first)
			}
			ploidies[contig] = append(ploidies[contig], f.PloidySpan)
		}
	}
	return ploidies, nil
}

// parsePloidySpan parses a line of BED. The contig is empty when the line names no
// stretch.
func parsePloidySpan(line string, g *genome.Genome) (contig string, s PloidySpan, err error) {
	fields := strings.Fields(line)
	if len(fields) == 0 || fields[0][0] == '#' || fields[0] == "track" || fields[0] == "browser" {
		return "", s, nil
	}
	if len(fields) < 4 {
		return "", s, fmt.Errorf("%d columns; want contig, start, end and ploidy (1, 2 or mixture)", len(fields))
	}
	c := g.Contig(fields[0])
	if c == nil {
		return "", s, fmt.Errorf("contig %q is not in the reference (it has %s)", fields[0], some(g.Names()))
	}
	start, startErr := strconv.Atoi(fields[1])
	end, endErr := strconv.Atoi(fields[2])
	if startErr != nil || endErr != nil || start < 0 || end <= start {
		return "", s, fmt.Errorf("%s to %s is no stretch: want 0 <= start < end", fields[1], fields[2])
	}
	if end > len(c.Seq) {
		return "", s, fmt.Errorf("the stretch ends at %d, but %s has %d bases", end, c.Name, len(c.Seq))
	}
	ploidy, err := ParsePloidy(fields[3])
	if err != nil {
		return "", s, err
	}
	return c.Name, PloidySpan{Span{start, end}, ploidy}, nil
}

// at is the ploidy of a 0-based position, which is otherwise where no stretch lies.
func (p Ploidies) at(contig string, pos int, otherwise Ploidy) Ploidy {
	spans := p[contig]
	i, _ := slices.BinarySearchFunc(spans, pos, func(s PloidySpan, pos int) int { return cmp.Compare(s.End, pos+1) })
	if i < len(spans) && spans[i].Start <= pos {
		return spans[i].Ploidy
	}
	return otherwise
}

// has reports whether a stretch has a ploidy.
func (p Ploidies) has(ploidy Ploidy) bool {
	for _, spans := range p {
		if slices.ContainsFunc(spans, func(s PloidySpan) bool { return s.Ploidy == ploidy }) {
			return true
		}
	}
	return false
}

// validate says what is wrong with stretches that were not read from a file.
func (p Ploidies) validate() error {
	contigs := make([]string, 0, len(p))
	for contig := range p {
		contigs = append(contigs, contig)
	}
	slices.Sort(contigs)
	for _, contig := range contigs {
		end := 0
		for _, s := range p[contig] {
			if s.Start < end || s.End <= s.Start {
				return fmt.Errorf("ploidies of %s: %d to %d is empty, out of order or overlaps the one before", contig, s.Start, s.End)
			}
			if !s.Ploidy.known() {
				return fmt.Errorf("ploidies of %s: %d to %d: ploidy %s: want 1, 2 or mixture", contig, s.Start, s.End, s.Ploidy)
			}
			end = s.End
		}
	}
	return nil
}

// haploid reports whether nothing but haploid stretches is in p.
func (p Ploidies) haploid() bool {
	for _, spans := range p {
		if slices.ContainsFunc(spans, func(s PloidySpan) bool { return s.Ploidy != Haploid }) {
			return false
		}
	}
	return true
}

// some is a short list of names.
func some(names []string) string {
	switch {
	case len(names) == 1:
		return names[0]
	case len(names) > 3:
		return fmt.Sprintf("%s, %s and %d more", names[0], names[1], len(names)-2)
	}
	return fmt.Sprint(names)
}

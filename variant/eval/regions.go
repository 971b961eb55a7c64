package eval

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/genome"
)

// Regions are stretches of a reference.
type Regions struct {
	stretches map[string][]stretch // sorted, merged where they touch
}

// stretch is 0-based, half open.
type stretch struct{ start, end int }

// ReadRegions reads BED: contig, start and end, 0-based, half open, separated by tabs or blanks; further columns, comments
// and track lines are passed over. Contigs that the reference does not have are an error, with the line's number.
func ReadRegions(r io.Reader, g *genome.Genome) (*Regions, error) {
	rs := &Regions{stretches: make(map[string][]stretch)}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' || strings.HasPrefix(text, "track") || strings.HasPrefix(text, "browser") {
			continue
		}
		f := strings.Fields(text)
		if len(f) < 3 {
			return nil, fmt.Errorf("line %d: %d columns, want contig, start and end: not BED", n, len(f))
		}
		start, errStart := strconv.Atoi(f[1])
		end, errEnd := strconv.Atoi(f[2])
		contig := g.Contig(f[0])
		switch {
		case errStart != nil || errEnd != nil:
			return nil, fmt.Errorf("line %d: start %q and end %q, want whole numbers: not BED", n, f[1], f[2])
		case contig == nil:
			return nil, fmt.Errorf("line %d: the reference has no contig %s", n, f[0])
		case start < 0 || end < start || end > len(contig.Seq):
			return nil, fmt.Errorf("line %d: %d to %d is no stretch of %s, which has %d bases", n, start, end, f[0], len(contig.Seq))
		}
		rs.stretches[f[0]] = append(rs.stretches[f[0]], stretch{start, end})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading BED: %w", err)
	}
	for name, list := range rs.stretches {
		slices.SortFunc(list, func(a, b stretch) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end)) })
		merged := list[:0]
		for _, s := range list {
			if n := len(merged); n > 0 && s.start <= merged[n-1].end {
				merged[n-1].end = max(merged[n-1].end, s.end)
			} else {
				merged = append(merged, s)
			}
		}
		rs.stretches[name] = merged
	}
	return rs, nil
}

// Bases is the number of bases in the regions.
func (rs *Regions) Bases() int {
	n := 0
	for _, list := range rs.stretches {
		for _, s := range list {
			n += s.end - s.start
		}
	}
	return n
}

// overlap reports whether a base of [start, end) is in one of the regions.
func (rs *Regions) overlap(contig string, start, end int) bool {
	list := rs.stretches[contig]
	i, _ := slices.BinarySearchFunc(list, start, func(s stretch, at int) int { return cmp.Compare(s.end, at+1) })
	return i < len(list) && list[i].start < end
}

// contain reports whether [start, end) is in one of the regions.
func (rs *Regions) contain(contig string, start, end int) bool {
	list := rs.stretches[contig]
	i, _ := slices.BinarySearchFunc(list, start, func(s stretch, at int) int { return cmp.Compare(s.start, at+1) })
	return i > 0 && end <= list[i-1].end
}

// holds reports whether an atom is in the regions, with vcfeval's rules for their edges: one of the bases
// that it replaces is, or both of those that an insertion stands between are (at the end of a contig the
// one). An indel is where it is left-aligned.
func (rs *Regions) holds(contig *genome.Contig, a *atom) bool {
	if a.start == a.end {
		return rs.contain(contig.Name, max(0, a.from-1), min(len(contig.Seq), a.from+1))
	}
	return rs.overlap(contig.Name, a.from, a.from+a.end-a.start)
}

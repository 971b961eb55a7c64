package panel

import (
	"errors"
	"fmt"
	"io"

	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/textfile"
)

// Site is a place whose state is wanted, such as the CpG of a probe of a methylation array: positions [Start, End) of a contig, on both
// strands.
type Site struct {
	Contig     string
	Start, End int
	Name       string
}

// maxSite is how long a site may be: CpG has 2 bases.
const maxSite = 1000

// ReadSites reads a BED file with names in its fourth column. Name is that of errors.
func ReadSites(r io.Reader, name string) ([]Site, error) {
	var all []Site
	err := eachLine(r, name, func(columns []string) (err error) {
		if len(columns) < 4 || columns[3] == "" {
			return errors.New("want contig, start, end and a name, with tabs between")
		}
		s := Site{Name: columns[3]}
		if s.Contig, s.Start, s.End, err = parsePlace(columns); err != nil {
			return err
		}
		if s.End-s.Start > maxSite {
			return fmt.Errorf("site %s has %d bases: want at most %d", textfile.Clip(s.Name, 40), s.End-s.Start, maxSite)
		}
		all = append(all, s)
		return nil
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s: %w", name, errNoSites)
	}
	return all, err
}

// Vector is the states of sites. Counts are of 5mC (code m), or of all modifications of C where these are counted as one.
type Vector struct {
	sites  []Site
	counts [][2]int // modified and valid calls
	at     index
}

// NewVector has no calls yet.
func NewVector(sites []Site) *Vector {
	return &Vector{sites, make([][2]int, len(sites)), newIndex(len(sites), func(i int) (string, int, int) { return sites[i].Contig, sites[i].Start, sites[i].End })}
}

// Add takes a row of a contig's pile-up, one for each position, strand and modification; strands may be added up.
func (v *Vector) Add(contig string, row *pileup.Row) {
	if row.Code != 'm' && row.Code != 'C' {
		return
	}
	v.at.each(contig, row.Pos, func(i int) {
		v.counts[i][0] += row.Modified
		v.counts[i][1] += row.Valid()
	})
}

// VectorHeader names the columns of a table of states.
const VectorHeader = "#site\tstate\tmodified\tcalls\n"

// Append appends a line for each site, in the order of the list: its name, 1 if most calls are modified, 0 if
// most aren't, and a point if there is none or as many of both; modified calls, and calls.
func (v *Vector) Append(b []byte) []byte {
	for i, c := range v.counts {
		state := "."
		switch unmodified := c[1] - c[0]; {
		case c[0] > unmodified:
			state = "1"
		case c[0] < unmodified:
			state = "0"
		}
		b = fmt.Appendf(b, "%s\t%s\t%d\t%d\n", v.sites[i].Name, state, c[0], c[1])
	}
	return b
}

package diplotype

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/porestream/porestream/genome"
)

// TableHeader is the first line of a table of calls, without its end.
const TableHeader = "#sample\tgene\tdiplotypes\talso_possible\tnot_looked_at\tmissing\tunknown_bases\tdefinitions\treason"

// Row is a line of a table of calls, in words.
type Row struct {
	Sample       string   `json:"sample"`
	Gene         string   `json:"gene"`
	Diplotypes   []string `json:"diplotypes"`
	AlsoPossible []string `json:"also_possible,omitempty"`
	Unexamined   []string `json:"not_looked_at,omitempty"`
	Missing      []string `json:"missing,omitempty"` // positions, by rs number where they have one
	UnknownBases []string `json:"unknown_bases,omitempty"`
	Definitions  string   `json:"definitions,omitempty"` // version
	Reason       string   `json:"reason,omitempty"`
}

// Row is a sample's call in words.
func (d *Definitions) Row(sample string, c Call) Row {
	r := Row{
		Sample: sample, Gene: c.Gene, Diplotypes: spelled(c.Pairs), AlsoPossible: spelled(c.Also), Unexamined: c.Lost,
		Missing: placed(c.Missing), UnknownBases: placed(c.Unknown), Definitions: d.Version, Reason: c.Reason(),
	}
	if r.Reason == "" && c.Combined {
		r.Reason = "combinations: no pair of alleles has these bases"
	}
	return r
}

// String is the line, without its end. Names hold commas and blanks, so semicolons are between them.
func (r Row) String() string {
	join := func(list []string, between string) string { return cmp.Or(strings.Join(list, between), ".") }
	return strings.Join([]string{
		r.Sample, r.Gene, join(r.Diplotypes, "; "), join(r.AlsoPossible, "; "), join(r.Unexamined, "; "), join(r.Missing, ","), join(r.UnknownBases, ","),
		cmp.Or(r.Definitions, "."), cmp.Or(r.Reason, "."),
	}, "\t")
}

// ParseRow reads a line that String has made.
func ParseRow(line string) (Row, error) {
	fields := strings.Split(line, "\t")
	if want := strings.Count(TableHeader, "\t") + 1; len(fields) != want {
		return Row{}, fmt.Errorf("a line of named alleles has %d columns, want %d", len(fields), want)
	}
	for i, f := range fields {
		if f == "." {
			fields[i] = ""
		}
	}
	split := func(text, between string) []string {
		if text == "" {
			return nil
		}
		return strings.Split(text, between)
	}
	return Row{
		Sample: fields[0], Gene: fields[1], Diplotypes: split(fields[2], "; "), AlsoPossible: split(fields[3], "; "), Unexamined: split(fields[4], "; "),
		Missing: split(fields[5], ","), UnknownBases: split(fields[6], ","), Definitions: fields[7], Reason: fields[8],
	}, nil
}

func spelled(pairs []Pair) []string {
	var words []string
	for _, p := range pairs {
		words = append(words, p.String())
	}
	return words
}

func placed(list []Position) []string {
	var words []string
	for _, p := range list {
		words = append(words, cmp.Or(p.Name, strconv.Itoa(p.Pos)))
	}
	return words
}

// On says why calls against a reference can't be named by the definitions, and what to do; nil if they can.
func (d *Definitions) On(g *genome.Genome) error {
	contig := g.Contig(d.Contig)
	if contig == nil {
		for _, c := range g.Contigs {
			if d.alias(c.Name) {
				return fmt.Errorf("the reference has %s, and the definitions of %s have %s: rename it in the reference, if that is %s", c.Name, d.Gene, d.Contig, d.build())
			}
		}
		return fmt.Errorf("the reference has no %s, on which the definitions of %s are: take %s as the reference", d.Contig, d.Gene, d.build())
	}
	if want := grch38(d.Contig); strings.HasPrefix(d.build(), "GRCh38") && want > 0 && len(contig.Seq) != want {
		return fmt.Errorf("the reference has %s with %d bases, and the definitions of %s are on %s, where it has %d: take %s as the reference", d.Contig, len(contig.Seq), d.Gene, d.build(), want, d.build())
	}
	for _, p := range d.Positions {
		end := p.Pos - 1 + len(p.Ref)
		if end > len(contig.Seq) {
			return fmt.Errorf("%s:%d of the definitions of %s is behind the end of the reference's contig, which has %d bases: take %s as the reference", d.Contig, p.Pos, d.Gene, len(contig.Seq), d.build())
		}
		has := strings.ToUpper(string(contig.Seq[p.Pos-1 : end]))
		for i := range has {
			if has[i] != p.Ref[i] && has[i] != 'N' {
				return fmt.Errorf("the reference has %s at %s:%d, and the definitions of %s have %s: take %s as the reference", has[i:i+1], d.Contig, p.Pos+i, d.Gene, p.Ref[i:i+1], d.build())
			}
		}
	}
	return nil
}

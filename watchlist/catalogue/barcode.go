package catalogue

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/porestream/porestream/genome"
)

// Barcode reports how a barcode of lineages was converted.
type Barcode struct {
	Rules   int      // lineages with a rule
	LeftOut int      // positions where the reference itself has the lineage's base
	Without []string // lineages that have no other positions, so no rule, in the table's order: the reference is of them
}

// Lineages writes a panel of a barcode of lineages: a BED file of single positions, whose fourth column is the lineage and whose fifth the base that
// its members have. The first column isn't read, as the reference has one contig. There is one rule for each lineage, with all of its positions.
// Where the reference itself has the lineage's base there is no change to watch for.
func Lineages(w io.Writer, barcode io.Reader, h Head, g *genome.Genome) (Barcode, error) {
	contig, err := only(g)
	if err == nil {
		err = h.Check()
	}
	if err != nil {
		return Barcode{}, err
	}
	var rules []rule
	var made Barcode
	byName := map[string]int{}
	err = rows(barcode, func(_ bool, cells []string) error {
		if len(cells) < 5 {
			return fmt.Errorf("want 5 cells, contig, start, end, lineage and base, with tabs between them, have %d", len(cells))
		}
		start, err := strconv.Atoi(cells[1])
		end, err2 := strconv.Atoi(cells[2])
		name, base := cells[3], cells[4]
		switch {
		case err != nil || err2 != nil || end != start+1 || start < 0 || end > len(contig.Seq):
			return fmt.Errorf("%s to %s is not one position of %s, which has %d bases", clip(cells[1]), clip(cells[2]), contig.Name, len(contig.Seq))
		case len(base) != 1 || base[0] != 'A' && base[0] != 'C' && base[0] != 'G' && base[0] != 'T':
			return fmt.Errorf("the base of %s is %q, not one of A, C, G and T", clip(name), clip(base))
		case !isID(name):
			return fmt.Errorf("the lineage %q is not made of letters, digits, dots, hyphens and underscores", clip(name))
		}
		if contig.Seq[start] == base[0] {
			made.LeftOut++
			if !slices.Contains(made.Without, name) {
				made.Without = append(made.Without, name)
			}
			return nil
		}
		i, there := byName[name]
		if !there {
			i = len(rules)
			byName[name] = i
			rules = append(rules, rule{id: name, label: "lineage " + name, severity: "info", key: "vcf"})
		}
		value := fmt.Sprintf("%s:%d:%c:%s", contig.Name, end, contig.Seq[start], base)
		if !slices.Contains(rules[i].values, value) {
			rules[i].values = append(rules[i].values, value)
		}
		return nil
	})
	if err != nil {
		return Barcode{}, err
	}
	if len(rules) == 0 {
		return Barcode{}, errors.New("no position where a lineage differs from the reference")
	}
	made.Rules = len(rules)
	made.Without = slices.DeleteFunc(made.Without, func(name string) bool { _, there := byName[name]; return there })
	return made, writePanel(w, h, contig, rules)
}

// isID reports whether a panel takes s as an id.
func isID(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' {
			continue
		}
		return false
	}
	return s != "" && len(s) <= maxID
}

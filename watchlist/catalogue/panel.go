package catalogue

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/porestream/porestream/genome"
)

// Head is what a panel says of itself.
type Head struct {
	ID, Version, Title, Assembly string
	Source, Date, Licence        string
}

// rule is one rule of a panel.
type rule struct {
	id, label, severity string
	key                 string   // hgvs, vcf; "" where match is written out
	values              []string // of the key
	match               string   // in YAML's flow style
}

// writePanel writes a panel for one contig. Whoever reads it finds the rules in the order of the table.
func writePanel(w io.Writer, h Head, contig *genome.Contig, rules []rule) error {
	out := bufio.NewWriter(w)
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(out, "%s: %s\n", key, strconv.Quote(value))
		}
	}
	fmt.Fprintf(out, "panel: %s\n", h.ID)
	line("version", h.Version)
	line("title", h.Title)
	line("assembly", h.Assembly)
	line("source", h.Source)
	line("date", h.Date)
	line("licence", h.Licence)
	fmt.Fprintf(out, "reference:\n  %s: {length: %d, digest: %s}\nrules:\n", strconv.Quote(contig.Name), len(contig.Seq), contig.Digest())
	for _, r := range rules {
		fmt.Fprintf(out, "- id: %s\n", strconv.Quote(r.id))
		if r.label != "" {
			fmt.Fprintf(out, "  label: %s\n", strconv.Quote(r.label))
		}
		fmt.Fprintf(out, "  severity: %s\n", r.severity)
		if r.key == "" {
			fmt.Fprintf(out, "  match: %s\n", r.match)
			continue
		}
		quoted := make([]string, len(r.values))
		for i, v := range r.values {
			quoted[i] = strconv.Quote(v)
		}
		fmt.Fprintf(out, "  match: {%s: [%s]}\n", r.key, strings.Join(quoted, ", "))
	}
	return out.Flush()
}

// maxFaults bounds how many faults of a table are told at once.
const maxFaults = 20

// faults collects what is wrong with a table, one line each.
type faults struct {
	list []error
	more int
}

func (f *faults) add(line int, err error) {
	if len(f.list) == maxFaults {
		f.more++
		return
	}
	f.list = append(f.list, fmt.Errorf("line %d: %w", line, err))
}

func (f *faults) err() error {
	if f.more > 0 {
		return errors.Join(append(f.list, fmt.Errorf("and %d lines more", f.more))...)
	}
	return errors.Join(f.list...)
}

// maxLine bounds a line of a table, maxRows their number.
const (
	maxLine = 1 << 16
	maxRows = 1_000_000
)

// rows gives the cells of each line of a table with tabs, whose lines may begin with # to say nothing.
func rows(r io.Reader, take func(line int, cells []string) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var all faults
	n := 0
	for lines.Scan() {
		if n++; n > maxRows {
			return fmt.Errorf("more than %d lines", maxRows)
		}
		text := strings.TrimRight(lines.Text(), "\r")
		if strings.TrimSpace(text) == "" || text[0] == '#' {
			continue
		}
		if err := take(n, strings.Split(text, "\t")); err != nil {
			all.add(n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n+1, err)
	}
	return all.err()
}

// clip shortens what a table says for an error.
func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

package catalogue

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/textfile"
)

// Head is what a panel says of itself.
type Head struct {
	ID, Version, Title, Assembly string
	Source, Date, Licence        string
}

// Limits of a panel's texts, those of the reader of panels.
const (
	maxID   = 200
	maxText = 1000
)

// Check refuses what no panel can say of itself.
func (h Head) Check() error {
	if !isID(h.ID) {
		return fmt.Errorf("the panel's id %q is not made of 1 to %d letters, digits, dots, hyphens and underscores", clip(h.ID), maxID)
	}
	if h.Version == "" {
		return errors.New("the panel's version is empty: want a text or a number, to be raised with every change")
	}
	for _, text := range [][2]string{{"version", h.Version}, {"title", h.Title}, {"assembly", h.Assembly}, {"source", h.Source}, {"date", h.Date}, {"licence", h.Licence}} {
		if len(text[1]) > maxText || strings.ContainsFunc(text[1], func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("the panel's %s %q is longer than %d bytes, or has line breaks or control characters", text[0], clip(text[1]), maxText)
		}
	}
	return nil
}

// rule is one rule of a panel.
type rule struct {
	id, label, severity string
	key                 string   // hgvs, vcf; "" where match is written out
	values              []string // of the key
	match               string   // in YAML's flow style
}

// writePanel writes a panel for one contig. The rules are in the order of the table.
func writePanel(w io.Writer, h Head, contig *genome.Contig, rules []rule) error {
	out := bufio.NewWriter(w)
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(out, "%s: %s\n", key, strconv.Quote(value))
		}
	}
	line("panel", h.ID)
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

// maxFaults bounds how many faults of a table are reported at once.
const maxFaults = 20

// faults collects the faults of a table, one line each.
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

// rows gives the cells of each line of a table with tabs, without blanks around them, and says which line is the first that has
// any. Lines may begin with # to say nothing, and the table may be compressed.
func rows(r io.Reader, take func(first bool, cells []string) error) error {
	text, err := textfile.NewReader(r, maxLine)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, maxLine)
	var all faults
	n, first := 0, true
	for lines.Scan() {
		if n++; n > maxRows {
			return fmt.Errorf("more than %d lines", maxRows)
		}
		row := strings.TrimRightFunc(lines.Text(), unicode.IsSpace)
		if row == "" || row[0] == '#' {
			continue
		}
		cells := strings.Split(row, "\t")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if err := take(first, cells); err != nil {
			all.add(n, err)
		}
		first = false
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n+1, err)
	}
	return all.err()
}

// clip shortens what a table says for an error.
func clip(s string) string { return textfile.Clip(s, 60) }

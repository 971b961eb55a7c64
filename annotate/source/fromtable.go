package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/textfile"
)

// maxLine bounds a line of a BED or TSV.
const maxLine = 4 << 20

// lines reads lines without their ends.
type lines struct {
	in   *input
	n    int // of the last line, from 1
	long []byte
}

func (l *lines) next() (string, error) {
	l.long = l.long[:0]
	for {
		chunk, err := l.in.br.ReadSlice('\n')
		l.long = append(l.long, chunk...)
		switch {
		case len(l.long) > maxLine:
			return "", fmt.Errorf("line %d: longer than %d bytes", l.n+1, maxLine)
		case err == nil || errors.Is(err, io.EOF) && len(l.long) > 0:
			l.n++
			return string(bytes.TrimSuffix(bytes.TrimSuffix(l.long, []byte("\n")), []byte("\r"))), nil
		case errors.Is(err, io.EOF):
			return "", io.EOF
		case len(chunk) == 0 || !errors.Is(err, bufio.ErrBufferFull):
			return "", fmt.Errorf("line %d: %w", l.n+1, err)
		}
	}
}

// column is a field that is taken from a column.
type column struct {
	annotate.SourceField
	at int // from 0
}

// parseColumns reads NAME[=COLUMN][:TYPE]; index finds the columns.
func parseColumns(specs []string, index func(string) (int, error)) ([]column, error) {
	var list []column
	for _, spec := range specs {
		name, typ := spec, annotate.String
		if at := strings.LastIndexByte(spec, ':'); at >= 0 {
			name, typ = spec[:at], annotate.ValueType(spec[at+1:])
		}
		name, from, ok := strings.Cut(name, "=")
		if !ok {
			from = name
		}
		at, err := index(from)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", name, err)
		}
		list = append(list, column{annotate.SourceField{Name: name, Number: "1", Type: typ}, at})
	}
	return list, nil
}

// appendColumns makes c.values of a line's columns. Empty ones and "." are missing.
func (c *compiler) appendColumns(line int, f []string, columns []column) error {
	c.values = c.values[:0]
	for i, col := range columns {
		if col.at >= len(f) || f[col.at] == "" || f[col.at] == "." {
			continue
		}
		text := f[col.at]
		switch col.Type {
		case annotate.Flag:
			if text == "0" || strings.EqualFold(text, "false") || strings.EqualFold(text, "no") {
				continue
			}
		case annotate.Integer, annotate.Float:
			if !isNumber(text, col.Type) {
				return fmt.Errorf("line %d: column %d: %q is not of the type %s", line, col.at+1, clip(text), col.Type)
			}
		}
		c.values = c.dict.appendField(c.values, i+ownFields, col.Type, annotate.EscapeValue(text))
	}
	return nil
}

func isNumber(s string, typ annotate.ValueType) bool {
	var err error
	if typ == annotate.Integer {
		_, err = strconv.ParseInt(s, 10, 64)
	} else {
		_, err = strconv.ParseFloat(s, 64)
	}
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// fieldsOf lists the fields of columns.
func fieldsOf(columns []column) []annotate.SourceField {
	list := make([]annotate.SourceField, len(columns))
	for i := range columns {
		list[i] = columns[i].SourceField
	}
	return list
}

// byNumber finds a column by its number.
func byNumber(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 100000 {
		return 0, fmt.Errorf("column %q: want a number from 1", s)
	}
	return n - 1, nil
}

// bedColumns are what a BED's columns from the fifth on are named.
var bedColumns = []string{"score=5", "strand=6"}

// readBED adds the intervals of a BED. The fourth column is the identifier.
func (c *compiler) readBED(in *input) error {
	l := &lines{in: in}
	var columns []column
	for begun := false; ; {
		text, err := l.next()
		if errors.Is(err, io.EOF) && begun {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return errors.New("no intervals")
		}
		if err != nil {
			return err
		}
		if text == "" || text[0] == '#' || isWord(text, "browser") || isWord(text, "track") {
			continue
		}
		f := strings.Split(text, "\t")
		if len(f) == 1 {
			f = strings.Fields(text)
		}
		if !begun {
			begun = true
			specs := c.cfg.Fields
			if specs == nil {
				specs = bedColumns[:max(0, min(len(bedColumns), len(f)-4))]
			}
			if columns, err = parseColumns(specs, byNumber); err != nil {
				return err
			}
			if err := c.begin(fieldsOf(columns), annotate.MatchOverlap); err != nil {
				return err
			}
		}
		if err := c.addBED(l.n, f, columns); err != nil {
			return err
		}
	}
}

func isWord(line, word string) bool {
	rest, ok := strings.CutPrefix(line, word)
	return ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t')
}

func (c *compiler) addBED(line int, f []string, columns []column) error {
	if len(f) < 3 {
		return fmt.Errorf("line %d: %d columns, want at least chrom, start and end, separated by tabs", line, len(f))
	}
	start, err1 := strconv.ParseUint(f[1], 10, 31)
	end, err2 := strconv.ParseUint(f[2], 10, 31)
	if err1 != nil || err2 != nil || start > end {
		return fmt.Errorf("line %d: %q to %q is not an interval", line, clip(f[1]), clip(f[2]))
	}
	c.meta.Counts.Records++
	contig := c.contig(line, f[0])
	if contig < 0 {
		return nil
	}
	if err := c.appendColumns(line, f, columns); err != nil {
		return err
	}
	id := ""
	if len(f) > 3 && f[3] != "." {
		id = f[3]
	}
	return c.addInterval(line, contig, int(start), int(end), "", id)
}

// tableRoles are what Config.Columns can name.
var tableRoles = []string{"chrom", "pos", "start", "end", "ref", "alt", "id"}

// tsvTable holds the columns of a TSV by meaning; -1 for those it lacks.
type tsvTable struct {
	chrom, pos, start, end, ref, alt, id int
	columns                              []column
	width                                int // columns that a line must have
}

// readTSV adds the lines of a table. Its header is the last line of those at the beginning that start with "#", or
// else the first line, if columns are named; without a header columns have numbers only.
func (c *compiler) readTSV(in *input) error {
	for role := range c.cfg.Columns {
		if !slices.Contains(tableRoles, role) {
			return fmt.Errorf("column %q: want some of %s", role, strings.Join(tableRoles, ", "))
		}
	}
	l := &lines{in: in}
	var header []string
	for {
		text, err := l.next()
		if errors.Is(err, io.EOF) {
			return errors.New("no data lines")
		}
		if err != nil {
			return err
		}
		if text == "" {
			continue
		}
		if text[0] == '#' {
			header = strings.Split(strings.TrimLeft(text, "# "), "\t")
			continue
		}
		f := strings.Split(text, "\t")
		isHeader := header == nil && c.namesColumns()
		if isHeader {
			header = f
		}
		t, err := c.table(header, len(f))
		if err != nil {
			return err
		}
		if !isHeader {
			if err := c.addTSV(l.n, f, t); err != nil {
				return err
			}
		}
		return c.addRows(l, t)
	}
}

func (c *compiler) addRows(l *lines, t *tsvTable) error {
	for {
		text, err := l.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if text == "" || text[0] == '#' {
			continue
		}
		if err := c.addTSV(l.n, strings.Split(text, "\t"), t); err != nil {
			return err
		}
	}
}

// namesColumns reports whether some column is given by name.
func (c *compiler) namesColumns() bool {
	for _, v := range c.cfg.Columns {
		if _, err := strconv.Atoi(v); err != nil {
			return true
		}
	}
	return false
}

// table resolves the columns.
func (c *compiler) table(header []string, width int) (*tsvTable, error) {
	index := func(s string) (int, error) {
		if i := slices.Index(header, s); i >= 0 {
			return i, nil
		}
		if n, err := strconv.Atoi(s); err == nil && 1 <= n && n <= width {
			return n - 1, nil
		}
		if len(header) == 0 {
			return 0, fmt.Errorf("column %q: the table has no header line and %d columns", s, width)
		}
		return 0, fmt.Errorf("no column %q; the header has %s", s, strings.Join(first(header, 20), ", "))
	}
	t := &tsvTable{}
	used := map[int]bool{}
	for i, at := range []*int{&t.chrom, &t.pos, &t.start, &t.end, &t.ref, &t.alt, &t.id} {
		*at = -1
		spec, ok := c.cfg.Columns[tableRoles[i]]
		if !ok {
			continue
		}
		n, err := index(spec)
		if err != nil {
			return nil, err
		}
		*at, used[n] = n, true
		t.width = max(t.width, n+1)
	}
	switch {
	case t.chrom < 0 || (t.pos < 0) == (t.start < 0):
		return nil, errors.New("a table needs --columns chrom=… and either pos=… (1-based) or start=… (0-based)")
	case (t.ref < 0) != (t.alt < 0):
		return nil, errors.New("--columns ref and alt come together")
	}
	specs := c.cfg.Fields
	if specs == nil {
		for i, name := range header {
			if !used[i] {
				specs = append(specs, name)
			}
		}
	}
	var err error
	if t.columns, err = parseColumns(specs, index); err != nil {
		return nil, err
	}
	match := annotate.MatchOverlap
	if t.ref >= 0 {
		match = annotate.MatchExact
	}
	return t, c.begin(fieldsOf(t.columns), match)
}

func (c *compiler) addTSV(line int, f []string, t *tsvTable) error {
	if len(f) < t.width {
		return fmt.Errorf("line %d: %d columns, want at least %d", line, len(f), t.width)
	}
	number := func(at int) (int, error) {
		n, err := strconv.ParseUint(f[at], 10, 31)
		if err != nil {
			return 0, fmt.Errorf("line %d: column %d: %q is not a position", line, at+1, clip(f[at]))
		}
		return int(n), nil
	}
	var start int
	var err error
	if t.pos >= 0 {
		start, err = number(t.pos)
		start--
	} else {
		start, err = number(t.start)
	}
	if err != nil {
		return err
	}
	end := start + 1
	if t.end >= 0 {
		if end, err = number(t.end); err != nil {
			return err
		}
	}
	c.meta.Counts.Records++
	contig := c.contig(line, f[t.chrom])
	if contig < 0 {
		return nil
	}
	if err := c.appendColumns(line, f, t.columns); err != nil {
		return err
	}
	id := ""
	if t.id >= 0 && f[t.id] != "." {
		id = f[t.id]
	}
	if t.ref < 0 {
		return c.addInterval(line, contig, start, end, "", id)
	}
	for alt := range strings.SplitSeq(f[t.alt], ",") {
		if err := c.addAllele(line, contig, start, dashed(f[t.ref]), dashed(alt), id); err != nil {
			return err
		}
	}
	return nil
}

// dashed is an allele of a table, where "-" stands for none.
func dashed(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

// clip shortens text for an error message.
func clip(s string) string { return textfile.Clip(s, 40) }

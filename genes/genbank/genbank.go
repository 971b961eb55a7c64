// Package genbank reads what gene finding is trained on and evaluated by, and what genes are named by: the
// sequence, the coding sequences and the genes of RNA of GenBank's flat files (The DDBJ/ENA/GenBank Feature Table, version 11).
// Everything else in them is passed over.
package genbank

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// maxLine bounds one line; the format has 80 columns.
const maxLine = 1 << 20

// maxQualifier bounds what goes on over lines: the longest known proteins have 36,000 residues.
const maxQualifier = 1 << 17

// Record is one sequence with its coding sequences.
type Record struct {
	Name     string // VERSION, or LOCUS where there is none
	Circular bool
	Seq      []byte // upper case
	Coding   []Coding
	RNA      []RNA
}

// RNA is a gene of ribosomal or transfer RNA in one stretch.
type RNA struct {
	Span
	Kind    string // rRNA or tRNA
	Reverse bool
	Product string
}

// Coding is a coding sequence as it is annotated.
type Coding struct {
	// Parts are in the order in which they are read, or against it if Reverse is set: what crosses a circle's origin has its first bases after its last.
	Parts   []Span
	Reverse bool
	// BothStrands says that parts are of different strands, as trans-splicing joins them: Reverse is that of the first to be read.
	BothStrands bool
	// CutLow and CutHigh say that the sequence goes on beyond its lowest and its highest base.
	CutLow, CutHigh bool
	Pseudo          bool // marked pseudo or pseudogene: no protein comes of it
	Code            int  // transl_table, 1 where it isn't said
	Skip            int  // bases before the first whole codon: codon_start less one

	Gene, Locus, Product, Protein string // gene, locus_tag, product and protein_id
	Translation                   string
	Terms                         []string // of the Gene Ontology
}

// Span is a stretch of bases, 1-based, both ends included.
type Span struct{ Start, End int }

// Read reads all records of a file. Errors name the line.
func Read(r io.Reader) ([]*Record, error) {
	p := parser{lines: bufio.NewScanner(r)}
	p.lines.Buffer(nil, maxLine)
	for p.lines.Scan() {
		p.line++
		if err := p.take(p.lines.Text()); err != nil {
			return nil, fmt.Errorf("line %d: %w", p.line, err)
		}
	}
	if err := p.lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", p.line+1, err)
	}
	if p.record != nil {
		return nil, fmt.Errorf("line %d: record %s has no end (//): the file is cut", p.line, p.record.Name)
	}
	if len(p.records) == 0 {
		return nil, errors.New("no LOCUS line: this is no GenBank file")
	}
	return p.records, nil
}

type parser struct {
	lines    *bufio.Scanner
	line     int
	records  []*Record
	record   *Record // nil between records
	origin   bool
	features bool
	kind     string // key of the feature at hand
	location strings.Builder
	notes    []string // its qualifiers
}

func (p *parser) take(line string) error {
	key, rest, _ := strings.Cut(line, " ")
	if key == "LOCUS" {
		fields := strings.Fields(rest)
		if p.record != nil || len(fields) == 0 {
			return errors.New("LOCUS where no record can begin")
		}
		p.record = &Record{Name: fields[0], Circular: strings.Contains(rest, " circular ")}
		return nil
	}
	if p.record == nil {
		if strings.TrimSpace(line) == "" {
			return nil
		}
		return errors.New("text before LOCUS: this is no GenBank file")
	}
	switch {
	case key == "VERSION":
		if fields := strings.Fields(rest); len(fields) > 0 {
			p.record.Name = fields[0]
		}
	case key == "FEATURES":
		p.features = true
	case key == "//":
		p.records, p.record, p.origin, p.features = append(p.records, p.record), nil, false, false
	case key == "ORIGIN":
		p.origin, p.features = true, false
		return p.finish()
	case p.origin:
		p.sequence(line)
	case p.features && key != "":
		p.features = false
		return p.finish()
	case p.features:
		return p.feature(line)
	}
	return nil
}

// sequence takes the letters of a line of the sequence, which has numbers and blanks besides.
func (p *parser) sequence(line string) {
	for i := range len(line) {
		if c := line[i] &^ 0x20; 'A' <= c && c <= 'Z' {
			p.record.Seq = append(p.record.Seq, c)
		}
	}
}

// feature takes a line of the feature table: a key in column 6, a location or qualifier in column 22.
func (p *parser) feature(line string) error {
	if len(line) > 5 && line[5] != ' ' {
		if err := p.finish(); err != nil {
			return err
		}
		p.kind, line, _ = strings.Cut(strings.TrimSpace(line), " ")
		p.location.WriteString(strings.TrimSpace(line))
		return nil
	}
	text := strings.TrimSpace(line)
	// A line of a text in quotes may begin with a slash.
	quoted := p.kind == coding && len(p.notes) > 0 && strings.Count(p.notes[len(p.notes)-1], `"`)%2 == 1
	switch {
	case strings.HasPrefix(text, "/") && !quoted:
		p.notes = append(p.notes, text[1:])
	case len(p.notes) == 0:
		p.location.WriteString(text)
	case p.kind == coding:
		last := &p.notes[len(p.notes)-1]
		if !strings.HasPrefix(*last, "translation=") {
			*last += " "
		}
		if len(*last)+len(text) > maxQualifier {
			return fmt.Errorf("a qualifier is longer than %d bytes", maxQualifier)
		}
		*last += text
	}
	return nil
}

// The keys of the features that are read.
const (
	coding    = "CDS"
	ribosomal = "rRNA"
	transfer  = "tRNA"
)

// rna takes a gene of RNA. What is in several parts, or cut, is left out.
func (p *parser) rna(kind, location string, notes []string) error {
	parts, err := located(location, deepest)
	if err != nil {
		return fmt.Errorf("%s before this line: %w", kind, err)
	}
	if len(parts) != 1 || parts[0].cutLow || parts[0].cutHigh {
		return nil
	}
	r := RNA{Span: parts[0].Span, Kind: kind, Reverse: parts[0].reverse}
	for _, q := range notes {
		if value, ok := strings.CutPrefix(q, "product="); ok {
			r.Product = strings.Trim(value, `"`)
		}
	}
	p.record.RNA = append(p.record.RNA, r)
	return nil
}

// finish ends the feature at hand.
func (p *parser) finish() error {
	kind, location, notes := p.kind, p.location.String(), p.notes
	p.kind, p.notes = "", nil
	p.location.Reset()
	if kind == ribosomal || kind == transfer {
		return p.rna(kind, location, notes)
	}
	if kind != coding {
		return nil
	}
	c := Coding{Code: 1}
	if err := c.locate(location); err != nil {
		return fmt.Errorf("CDS before this line: %w", err)
	}
	for _, q := range notes {
		name, value, _ := strings.Cut(q, "=")
		text := strings.ReplaceAll(strings.Trim(value, `"`), `""`, `"`)
		switch name {
		case "pseudo", "pseudogene":
			c.Pseudo = true
		case "transl_table":
			n, err := strconv.Atoi(text)
			if err != nil {
				return fmt.Errorf("transl_table %q is no number", value)
			}
			c.Code = n
		case "codon_start":
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > 3 {
				return fmt.Errorf("codon_start %q is not 1, 2 or 3", value)
			}
			c.Skip = n - 1
		case "gene":
			c.Gene = text
		case "locus_tag":
			c.Locus = text
		case "product":
			c.Product = text
		case "protein_id":
			c.Protein = text
		case "translation":
			c.Translation = text
		case "GO_function", "GO_process", "GO_component", "db_xref":
			if term, _, _ := strings.Cut(text, " "); isTerm(term) && !slices.Contains(c.Terms, term) {
				c.Terms = append(c.Terms, term)
			}
		}
	}
	p.record.Coding = append(p.record.Coding, c)
	return nil
}

// isTerm reports whether s is a term of the Gene Ontology, such as GO:0003677.
func isTerm(s string) bool {
	digits, found := strings.CutPrefix(s, "GO:")
	return found && len(digits) == 7 && strings.Trim(digits, "0123456789") == ""
}

// deepest is how many times complement, join and order may stand within each other.
const deepest = 8

// locate reads a location: spans in join, order and complement, in any nesting.
func (c *Coding) locate(text string) error {
	parts, err := located(text, deepest)
	if err != nil {
		return err
	}
	c.Reverse = parts[0].reverse
	for _, p := range parts {
		c.CutLow, c.CutHigh = c.CutLow || p.cutLow, c.CutHigh || p.cutHigh
		c.BothStrands = c.BothStrands || p.reverse != c.Reverse
		c.Parts = append(c.Parts, p.Span)
	}
	if c.Reverse && !c.BothStrands {
		slices.Reverse(c.Parts)
	}
	return nil
}

// part is a span of a location.
type part struct {
	Span
	reverse, cutLow, cutHigh bool
}

// located are the spans of a location in the order in which they are read; depth is how much deeper it may go.
func located(text string, depth int) ([]part, error) {
	wrong := fmt.Errorf("location %q is not understood", text[:min(len(text), 100)])
	name, inner, within := strings.Cut(text, "(")
	if !within {
		return span(text, wrong)
	}
	inner, closed := strings.CutSuffix(inner, ")")
	if !closed || depth == 0 {
		return nil, wrong
	}
	var out []part
	for inner != "" {
		one, rest, err := first(inner)
		if err != nil {
			return nil, wrong
		}
		parts, err := located(one, depth-1)
		if err != nil {
			return nil, err
		}
		out, inner = append(out, parts...), rest
	}
	switch name {
	case "join", "order":
	case "complement":
		slices.Reverse(out)
		for i := range out {
			out[i].reverse = !out[i].reverse
		}
	default:
		return nil, wrong
	}
	if len(out) == 0 {
		return nil, wrong
	}
	return out, nil
}

// first parts a list at its first comma that isn't within brackets.
func first(list string) (one, rest string, err error) {
	depth := 0
	for i, c := range list {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			return list[:i], list[i+1:], nil
		}
	}
	if depth != 0 {
		return "", "", errors.New("brackets that don't match")
	}
	return list, "", nil
}

// span reads a stretch of bases, or one base.
func span(text string, wrong error) ([]part, error) {
	low, high, found := strings.Cut(text, "..")
	if !found {
		high = low
	}
	start, err := strconv.Atoi(strings.TrimLeft(low, "<>"))
	if err != nil {
		return nil, wrong
	}
	end, err := strconv.Atoi(strings.TrimLeft(high, "<>"))
	if err != nil || start < 1 || end < start {
		return nil, wrong
	}
	return []part{{Span: Span{start, end}, cutLow: strings.HasPrefix(low, "<"), cutHigh: strings.HasPrefix(high, ">")}}, nil
}

package function

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/porestream/porestream/annotate"
)

// The formats. GAF: geneontology.org/docs/go-annotation-file-gaf-format-2.2; GPAD:
// geneontology.org/docs/gene-product-association-data-gpad-format-2.0; InterProScan:
// interproscan-docs.readthedocs.io, output formats; GMT: MSigDB's gene matrix transposed; OBO: flat file format 1.4.
var (
	gaf          = format{"GAF", (*File).gafLine}
	gpad1        = format{"GPAD 1", (*File).gpad1Line}
	gpad2        = format{"GPAD 2", (*File).gpad2Line}
	interProScan = format{"InterProScan", (*File).interProScanLine}
	interPro     = format{"InterPro", (*File).interProLine}
	gmt          = format{"GMT", (*File).gmtLine}
	obo          = format{name: "OBO"}
)

// splitQualifier is the relation in a qualifier such as NOT|involved_in, and whether it is negated.
func splitQualifier(s string) (relation string, negated bool) {
	for part := range strings.SplitSeq(s, "|") {
		if strings.EqualFold(part, "NOT") {
			negated = true
		} else if relation == "" {
			relation = part
		}
	}
	return relation, negated
}

// annotation adds a term of an ontology.
func (f *File) annotation(q *product, term, relation, evidence string) error {
	db, _, ok := strings.Cut(term, ":")
	if !ok || db == "" {
		return fmt.Errorf("term %q: want one such as GO:0008150", term)
	}
	f.add(q, annotate.Function{Kind: annotate.GeneTerm, DB: db, ID: term, Relation: relation}, evidence)
	return nil
}

func (f *File) gafLine(c []string) error {
	if len(c) < 15 {
		return fmt.Errorf("%d columns, want at least 15 of a GAF", len(c))
	}
	db, id, symbol := c[0], c[1], c[2]
	relation, negated := splitQualifier(c[3])
	if id == "" {
		return fmt.Errorf("no identifier in column 2")
	}
	if negated {
		f.Negated++
		return nil
	}
	q := f.product(db + ":" + id)
	f.call(f.byID, id, q)
	f.call(f.bySymbol, symbol, q)
	for synonym := range strings.SplitSeq(c[10], "|") {
		f.call(f.bySynonym, synonym, q)
	}
	return f.annotation(q, c[4], relation, c[6])
}

func (f *File) gpad1Line(c []string) error {
	if len(c) < 10 {
		return fmt.Errorf("%d columns, want at least 10 of a GPAD 1", len(c))
	}
	relation, negated := splitQualifier(c[2])
	evidence := c[5]
	if len(c) > 11 {
		for property := range strings.SplitSeq(c[11], "|") {
			if code, ok := strings.CutPrefix(property, "go_evidence="); ok {
				evidence = code
			}
		}
	}
	return f.gpad(c[0]+":"+c[1], c[3], relation, evidence, negated)
}

func (f *File) gpad2Line(c []string) error {
	if len(c) < 10 {
		return fmt.Errorf("%d columns, want at least 10 of a GPAD 2", len(c))
	}
	return f.gpad(c[0], c[3], c[2], c[5], strings.EqualFold(c[1], "NOT"))
}

func (f *File) gpad(id, term, relation, evidence string, negated bool) error {
	_, bare, ok := strings.Cut(id, ":")
	if !ok || bare == "" {
		return fmt.Errorf("identifier %q: want DB:ID", id)
	}
	if negated {
		f.Negated++
		return nil
	}
	q := f.product(id)
	f.call(f.byID, bare, q)
	return f.annotation(q, term, relation, evidence)
}

// interProScanLine takes: protein, MD5, length, analysis, signature, description, start, end, score, status, date,
// InterPro accession, its description, GO terms, pathways.
func (f *File) interProScanLine(c []string) error {
	if len(c) < 11 {
		return fmt.Errorf("%d columns, want at least 11 of InterProScan", len(c))
	}
	c = append(c, "", "", "", "")
	if c[9] == "F" {
		return nil // the match was found false
	}
	q, err := f.domain(c[0], c[6], c[7], c[3], c[4], c[5])
	if err != nil {
		return err
	}
	if err := f.interProEntry(q, c[0], c[6], c[7], c[11], c[12], c[13]); err != nil {
		return err
	}
	for pathway := range strings.SplitSeq(dashless(c[14]), "|") {
		if db, id, ok := strings.Cut(pathway, ":"); ok {
			f.add(q, annotate.Function{Kind: annotate.GeneSet, DB: db, ID: strings.TrimSpace(id)}, "")
		}
	}
	return nil
}

// interProLine takes: protein, start, end, database, accession, and if given description, InterPro accession, GO terms.
func (f *File) interProLine(c []string) error {
	if len(c) < 5 {
		return fmt.Errorf("%d columns, want at least protein, start, end, database and accession", len(c))
	}
	c = append(c, "", "", "")
	q, err := f.domain(c[0], c[1], c[2], c[3], c[4], c[5])
	if err != nil {
		return err
	}
	return f.interProEntry(q, c[0], c[1], c[2], c[6], "", c[7])
}

// interProEntry adds the entry of InterPro that a match belongs to, and its GO terms.
func (f *File) interProEntry(q *product, protein, start, end, accession, name, terms string) error {
	if accession = dashless(accession); accession != "" {
		if _, err := f.domain(protein, start, end, "InterPro", accession, name); err != nil {
			return err
		}
	}
	for term := range strings.SplitSeq(dashless(terms), "|") {
		term, _, _ = strings.Cut(strings.TrimSpace(term), "(") // GO:0005515(InterPro)
		if term == "" {
			continue
		}
		if err := f.annotation(q, term, "", ""); err != nil {
			return err
		}
	}
	return nil
}

// domain adds a domain to a protein.
func (f *File) domain(protein, start, end, db, accession, name string) (*product, error) {
	first, err1 := strconv.ParseUint(start, 10, 31)
	last, err2 := strconv.ParseUint(end, 10, 31)
	if err1 != nil || err2 != nil || first < 1 || last < first {
		return nil, fmt.Errorf("%q to %q is not a stretch of a protein", start, end)
	}
	if protein == "" || db == "" || dashless(accession) == "" {
		return nil, fmt.Errorf("protein, database or accession is missing")
	}
	q := f.product(protein)
	f.add(q, annotate.Function{
		Kind: annotate.Domain, DB: db, ID: accession, Name: dashless(name), Start: int(first), End: int(last),
	}, "")
	return q, nil
}

// dashless is s, or "" if it is "-", which stands for nothing.
func dashless(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

// gmtLine takes: set, description, genes.
func (f *File) gmtLine(c []string) error {
	if len(c) < 3 || c[0] == "" {
		return fmt.Errorf("%d columns, want a set, its description and genes", len(c))
	}
	description := dashless(c[1])
	if strings.Contains(description, "://") || strings.EqualFold(description, "na") {
		description = ""
	}
	for _, gene := range c[2:] {
		if gene == "" {
			continue
		}
		q := f.product(gene)
		f.call(f.bySymbol, gene, q)
		f.add(q, annotate.Function{Kind: annotate.GeneSet, DB: f.Name, ID: c[0], Name: description}, "")
	}
	return nil
}

// ontologyTerm is a term of an OBO.
type ontologyTerm struct {
	id, name string
	alt      []string
	obsolete bool
}

// oboLine takes a line of an OBO: the names of terms, and which are obsolete.
func (p *parser) oboLine(line string) error {
	if strings.HasPrefix(line, "[") {
		if p.term != nil {
			p.f.addTerm(p.term)
		}
		p.term = nil
		if line == "[Term]" {
			p.term = &ontologyTerm{}
		}
		if p.f.ontology == nil {
			p.f.ontology = map[string]*ontologyTerm{}
		}
		return nil
	}
	key, value, ok := strings.Cut(line, ": ")
	if !ok {
		return nil
	}
	if p.f.ontology == nil { // the header
		return p.comment(key + ":" + value)
	}
	if p.term == nil {
		return nil
	}
	switch key {
	case "id":
		p.term.id = value
	case "name":
		p.term.name = value
	case "alt_id":
		p.term.alt = append(p.term.alt, value)
	case "is_obsolete":
		p.term.obsolete = strings.HasPrefix(value, "true")
	}
	return nil
}

func (f *File) addTerm(t *ontologyTerm) {
	if t.id == "" {
		return
	}
	f.Entries++
	if t.obsolete {
		f.obsolete++
	}
	f.ontology[t.id] = t
	for _, id := range t.alt {
		f.ontology[id] = t
	}
}

package annotate

import (
	"math"
	"strconv"
	"strings"

	"github.com/porestream/porestream/vcf"
)

// Function is something that a gene or its product does or is part of.
type Function struct {
	Kind FunctionKind `json:"kind"`
	DB   string       `json:"db"` // GO, Pfam, InterPro, Reactome, or the name of a file of gene sets
	ID   string       `json:"id"`
	Name string       `json:"name,omitempty"`
	// Relation is the product's to the term, such as enables or part_of.
	Relation string `json:"relation,omitempty"`
	// Evidence are the codes of the evidence, such as IDA or ECO:0000314, in alphabetical order.
	Evidence []string `json:"evidence,omitempty"`
	// Start and End are where a domain is in the protein: residues, 1-based, both included.
	Start int `json:"start,omitempty"`
	End   int `json:"end,omitempty"`

	Source  string `json:"source"` // name of the file
	Version string `json:"version"`
	Date    string `json:"date,omitempty"`
}

// FunctionKind is the kind of a Function.
type FunctionKind string

// The kinds.
const (
	GeneTerm FunctionKind = "term"   // of an ontology
	Domain   FunctionKind = "domain" // stretch of the protein
	GeneSet  FunctionKind = "set"    // pathway, or another set of genes
)

// Product is what functions are asked of: a transcript and what becomes of it.
type Product struct {
	Gene                *Gene
	Transcript, Protein string // Protein is "" if the transcript is not coding
	// First and Last are the residues that a variant concerns, from 1; none if Last is 0. Between two residues, for an
	// insertion, First is the one after and Last the one before.
	First, Last int
}

// Functions knows the functions of genes and proteins. It is safe for concurrent use. Its answers are shared and must
// not be changed.
type Functions interface {
	// Functions are those of p: terms and sets of the gene or the protein, and the domains that the residues are in.
	Functions(p Product) []Function
}

// WithFunctions is a copy of a that fills Consequence.Functions from f, for variants within a gene.
func (a *Annotator) WithFunctions(f Functions) *Annotator {
	b := *a
	b.functions = f
	return &b
}

// Products are what functions are asked of by variants within the genes of the model, in no order.
func (m *Model) Products(yield func(Product) bool) {
	for _, k := range m.contigs {
		for _, t := range k.transcripts {
			if !yield(Product{Gene: t.gene.name, Transcript: t.id, Protein: t.protein}) {
				return
			}
		}
	}
}

// describeFunctions fills the functions of consequences, which are those of effects.
func (a *Annotator) describeFunctions(cs []Consequence, effects []*effect) {
	if a.functions == nil {
		return
	}
	for i, e := range effects[:len(cs)] {
		cs[i].Functions = a.functionsOf(e)
	}
}

// functionsOf are the functions of what e is about, unless it is only near.
func (a *Annotator) functionsOf(e *effect) []Function {
	if a.functions == nil || e.t == nil || e.distance != 0 {
		return nil
	}
	p := Product{Gene: e.t.gene.name, Transcript: e.t.id, Protein: e.t.protein}
	switch {
	case e.t.cds == nil:
	case e.whole:
		p.First, p.Last = 1, math.MaxInt32
	case e.codon != nil:
		p.First, p.Last = e.codon.first+1, e.codon.first+len(e.codon.refPep)
	case e.cdsFrom >= 0 && e.cdsTo >= e.cdsFrom && e.cdsTo > 0:
		p.First, p.Last = e.cdsFrom/3+1, (e.cdsTo+2)/3
	}
	return a.functions.Functions(p)
}

// functionsDescription is the Description of INFO/FUNCTIONS.
const functionsDescription = "Functions of genes and proteins; Feature is empty for what concerns all transcripts of the gene. " +
	"Format: Allele|Gene|Feature|Kind|DB|ID|Name|Relation|Evidence|Start|End|Source|Version"

// functionsKey is the INFO field of functions.
const functionsKey = "FUNCTIONS"

// declareFunctions adds INFO/FUNCTIONS to a header.
func declareFunctions(h *vcf.Header) { h.AddInfo(functionsKey, ".", "String", functionsDescription) }

// functionWriter writes INFO/FUNCTIONS. It is for one goroutine.
type functionWriter struct {
	begun map[functionPlace]bool // of the record
}

// functionPlace is what an entry must be the only one for.
type functionPlace struct {
	allele  int
	gene    *Gene
	feature string
	kind    FunctionKind
	source  string
	db, id  string
	start   int
	end     int
}

// append appends the functions of alternate allele number, with a comma before each unless b has nothing but from
// bytes. What several transcripts of a gene have is there once.
func (w *functionWriter) append(b []byte, from int, number int, allele, feature string, gene *Gene, list []Function) []byte {
	for i := range list {
		f := &list[i]
		of := feature
		if f.Kind != Domain {
			of = ""
		}
		place := functionPlace{number, gene, of, f.Kind, f.Source, f.DB, f.ID, f.Start, f.End}
		if w.begun[place] {
			continue
		}
		w.begun[place] = true
		if len(b) > from {
			b = append(b, ',')
		}
		name := gene.Symbol
		if name == "" {
			name = gene.ID
		}
		for k, text := range [...]string{allele, name, of, string(f.Kind), f.DB, f.ID, f.Name, f.Relation, strings.Join(f.Evidence, "&")} {
			if k > 0 {
				b = append(b, '|')
			}
			b = append(b, escapeFunction(text)...)
		}
		b = append(b, '|')
		if f.Kind == Domain {
			b = strconv.AppendInt(b, int64(f.Start), 10)
			b = strconv.AppendInt(append(b, '|'), int64(f.End), 10)
		} else {
			b = append(b, '|')
		}
		b = append(append(b, '|'), escapeFunction(f.Source)...)
		b = append(append(b, '|'), escapeFunction(f.Version)...)
	}
	return b
}

// appendFunctions appends INFO/FUNCTIONS to INFO, which is not empty if filled, and reports whether INFO is not empty
// afterwards.
func (r *Rows) appendFunctions(dst []byte, filled bool) ([]byte, bool) {
	clear(r.does.begun)
	before := len(dst)
	if filled {
		dst = append(dst, ';')
	}
	dst = append(dst, functionsKey+"="...)
	from := len(dst)
	for i := range r.evaluated {
		j := &r.evaluated[i]
		for _, e := range j.effects {
			if list := r.a.functionsOf(e); len(list) > 0 {
				dst = r.does.append(dst, from, i, j.name, e.t.id, e.t.gene.name, list)
			}
		}
	}
	if len(dst) == from {
		return dst[:before], filled
	}
	return dst, true
}

// escapeFunction percent-encodes what would end a sub-field, an entry or an INFO field.
func escapeFunction(s string) string {
	if !strings.ContainsAny(s, "%;=,| \t\r\n") {
		return s
	}
	return functionEscapes.Replace(s)
}

var functionEscapes = strings.NewReplacer("%", "%25", ";", "%3B", "=", "%3D", ",", "%2C", "|", "%7C", " ", "_", "\t", "_", "\r", "_", "\n", "_")

// appendFunctionsCSQ appends the functions of a kind as VEP writes them, "&" between them: domains as database and
// accession (DOMAINS), terms as identifier and name (GO).
func appendFunctionsCSQ(b []byte, list []Function, kind FunctionKind) []byte {
	from := len(b)
	for i := range list {
		f := &list[i]
		if f.Kind != kind {
			continue
		}
		text := f.ID
		switch {
		case kind == Domain:
			text = f.DB + ":" + f.ID
		case f.Name != "":
			text += ":" + f.Name
		}
		if len(b) > from {
			b = append(b, '&')
		}
		b = append(b, escapeCSQ(text)...)
	}
	return b
}

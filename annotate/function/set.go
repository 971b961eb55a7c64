package function

import (
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/porestream/porestream/annotate"
)

// Set is what several files say. It is safe for concurrent use.
type Set struct {
	Files    []*File
	Obsolete int // annotations left out because their term is obsolete

	known sync.Map // of productKey: the functions of a product wherever it is changed, []annotate.Function
}

var _ annotate.Functions = (*Set)(nil)

// productKey identifies a product of a gene model.
type productKey struct{ id, symbol, transcript, protein string }

// NewSet joins files. Those in OBO format name the terms of the others; terms that they call obsolete are left out,
// and alternative identifiers become the main one.
func NewSet(files ...*File) *Set {
	s := &Set{}
	var ontologies []*File
	for _, f := range files {
		if f.ontology != nil {
			ontologies = append(ontologies, f)
		} else {
			s.Files = append(s.Files, f)
		}
	}
	if len(ontologies) == 0 {
		return s
	}
	for i, f := range s.Files {
		s.Files[i] = s.named(f, ontologies)
	}
	return s
}

// LoadSet is NewSet for files at paths.
func LoadSet(paths ...string) (*Set, error) {
	var files []*File
	for _, path := range paths {
		f, err := Load(path)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return NewSet(files...), nil
}

// named is f with the names of ontologies.
func (s *Set) named(f *File, ontologies []*File) *File {
	out := *f
	done := map[*product]*product{}
	each := func(index map[string][]*product) map[string][]*product {
		renamed := make(map[string][]*product, len(index))
		for key, list := range index {
			l := make([]*product, len(list))
			for i, q := range list {
				if done[q] == nil {
					done[q] = s.namedProduct(q, ontologies)
				}
				l[i] = done[q]
			}
			renamed[key] = l
		}
		return renamed
	}
	out.byID, out.bySymbol, out.bySynonym = each(f.byID), each(f.bySymbol), each(f.bySynonym)
	return &out
}

func (s *Set) namedProduct(q *product, ontologies []*File) *product {
	out := &product{}
	for _, fn := range q.functions {
		if fn.Kind == annotate.GeneTerm {
			t := find(ontologies, fn.ID)
			if t != nil && t.obsolete {
				s.Obsolete++
				continue
			}
			if t != nil {
				fn.ID, fn.Name = t.id, t.name
			}
		}
		out.functions = appendNew(out.functions, fn)
	}
	return out
}

func find(ontologies []*File, id string) *ontologyTerm {
	for _, o := range ontologies {
		if t := o.ontology[id]; t != nil {
			return t
		}
	}
	return nil
}

// appendNew appends fn unless list has it; the evidence is joined then.
func appendNew(list []annotate.Function, fn annotate.Function) []annotate.Function {
	for i := range list {
		g := &list[i]
		if g.Kind == fn.Kind && g.DB == fn.DB && g.ID == fn.ID && g.Relation == fn.Relation && g.Start == fn.Start && g.End == fn.End && g.Source == fn.Source {
			g.Evidence = slices.Concat(g.Evidence, fn.Evidence)
			slices.Sort(g.Evidence)
			g.Evidence = slices.Compact(g.Evidence)
			return list
		}
	}
	return append(list, fn)
}

func keyOf(p *annotate.Product) productKey {
	key := productKey{transcript: p.Transcript, protein: p.Protein}
	if p.Gene != nil {
		key.id, key.symbol = p.Gene.ID, p.Gene.Symbol
	}
	return key
}

// Functions are those of p. A file knows it by the identifier of the gene, protein or transcript, else by the gene's
// symbol, else by a synonym: what a stricter name finds is not mixed with what a looser one would.
func (s *Set) Functions(p annotate.Product) []annotate.Function {
	key := keyOf(&p)
	all, ok := s.known.Load(key)
	if !ok {
		all, _ = s.known.LoadOrStore(key, s.all(key))
	}
	list := all.([]annotate.Function)
	out := func(f *annotate.Function) bool { return f.Kind == annotate.Domain && !concerns(f, p.First, p.Last) }
	first := slices.IndexFunc(list, func(f annotate.Function) bool { return out(&f) })
	if first < 0 {
		return list
	}
	kept := slices.Clip(list[:first]) // shared: appending allocates anew
	for i := first + 1; i < len(list); i++ {
		if !out(&list[i]) {
			kept = append(kept, list[i])
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// Unused are the names of files that know none of products: their identifiers are others than those of the genes.
func (s *Set) Unused(products iter.Seq[annotate.Product]) []string {
	rest := slices.Clone(s.Files)
	for p := range products {
		if len(rest) == 0 {
			break
		}
		rest = slices.DeleteFunc(rest, func(f *File) bool { return len(f.find(keyOf(&p))) > 0 })
	}
	var names []string
	for _, f := range rest {
		names = append(names, f.Name)
	}
	return names
}

// concerns reports whether residues first to last touch a domain. Between two residues, with first after last, both must
// be in it.
func concerns(f *annotate.Function, first, last int) bool {
	return last > 0 && f.Start <= last && first <= f.End
}

// all are the functions of a product and its domains anywhere.
func (s *Set) all(key productKey) []annotate.Function {
	var list []annotate.Function
	for _, f := range s.Files {
		for _, q := range f.find(key) {
			for _, fn := range q.functions {
				list = appendNew(list, fn)
			}
		}
	}
	return slices.Clip(list)
}

// find are the products that a key means.
func (f *File) find(key productKey) []*product {
	var found []*product
	take := func(list []*product) {
		for _, q := range list {
			if !slices.Contains(found, q) {
				found = append(found, q)
			}
		}
	}
	for _, id := range []string{key.id, key.protein, key.transcript} {
		for _, name := range spellings(id) {
			if list := f.byID[name]; len(list) > 0 {
				take(list)
				break
			}
		}
	}
	for _, index := range []map[string][]*product{f.bySymbol, f.bySynonym} {
		if len(found) > 0 {
			return found
		}
		for _, name := range []string{key.symbol, key.id} {
			take(index[name])
		}
	}
	return found
}

// versionEnd is the version at an accession's end.
var versionEnd = regexp.MustCompile(`\.[0-9]+$`)

// spellings are an identifier as it is, without the prefix that a GFF3 may give it, and without version.
func spellings(id string) []string {
	if id == "" {
		return nil
	}
	bare := id
	for _, prefix := range []string{"gene:", "gene-", "transcript:", "rna-", "protein:", "cds-"} {
		bare = strings.TrimPrefix(bare, prefix)
	}
	return []string{id, bare, versionEnd.ReplaceAllString(bare, "")}
}

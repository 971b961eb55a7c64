package annotate

import (
	"slices"
	"strings"

	"github.com/porestream/porestream/vcf"
)

// KnownInfo writes what sources know to INFO of a VCF: a field SOURCE_FIELD for each field of each source, and
// SOURCE_ID, with a value for each alternate allele, "." where there is none. Values of several entries, and the
// elements of lists, have "&" between them. A source whose matches are not all exact has SOURCE_MATCH and SOURCE_PLACE,
// too, with a value for each entry in the same order. Of entries of atoms ([MatchAtom]) there is the identifier alone, in
// SOURCE_ATOM_ID: what they say is not said of the allele.
type KnownInfo struct {
	sources []SourceInfo
	columns []knownColumn
	keys    []string // of columns
}

// knownColumn is one INFO field.
type knownColumn struct {
	source SourceInfo
	field  SourceField
	atoms  bool                          // of entries of atoms, else of all others
	value  func(k *Known) (string, bool) // of an entry of the source
}

// NewKnownInfo is a KnownInfo for sources.
func NewKnownInfo(sources []SourceInfo) *KnownInfo {
	w := &KnownInfo{sources: sources}
	for _, s := range sources {
		id := func(k *Known) (string, bool) { return EscapeValue(strings.ReplaceAll(k.ID, ";", "&")), k.ID != "" }
		w.column(s, SourceField{Name: "ID", Type: String, Description: "Identifier"}, id)
		if slices.Contains(s.Matches, MatchExact) {
			w.column(s, SourceField{Name: "ATOM_ID", Type: String, Description: "Identifiers of the single changes of an allele of several bases"}, id)
			w.columns[len(w.columns)-1].atoms = true
		}
		if len(s.Matches) != 1 || s.Matches[0] != MatchExact {
			w.column(s, SourceField{Name: "MATCH", Type: String, Description: "How entries match: exact, position or overlap"},
				func(k *Known) (string, bool) { return string(k.Match), true })
			w.column(s, SourceField{Name: "PLACE", Type: String, Description: "Place of entries that do not match exactly"},
				func(k *Known) (string, bool) { return k.Place, k.Place != "" })
		}
		for _, f := range s.Fields {
			w.column(s, f, func(k *Known) (string, bool) { return k.Fields.text(f.Name) })
		}
	}
	return w
}

// KnownInfoOf is a KnownInfo for the sources that entries name, in the order in which they come up.
func KnownInfoOf(entries func(yield func(*Known) bool)) *KnownInfo {
	var sources []SourceInfo
	for k := range entries {
		i := slices.IndexFunc(sources, func(s SourceInfo) bool { return s.Name == k.Source })
		if i < 0 {
			i = len(sources)
			sources = append(sources, SourceInfo{Name: k.Source, Version: k.Version, Date: k.Date, Matches: []Match{MatchExact}})
		}
		s := &sources[i]
		if !slices.Contains(strings.Split(s.Version, " and "), k.Version) { // the source was replaced meanwhile
			s.Version, s.Date = s.Version+" and "+k.Version, ""
		}
		if k.Match != MatchAtom && !slices.Contains(s.Matches, k.Match) {
			s.Matches = append(s.Matches, k.Match)
		}
		for _, f := range k.Fields {
			if !slices.ContainsFunc(s.Fields, func(g SourceField) bool { return g.Name == f.Name }) {
				s.Fields = append(s.Fields, SourceField{Name: f.Name, Number: ".", Type: f.Type})
			}
		}
	}
	return NewKnownInfo(sources)
}

func (w *KnownInfo) column(s SourceInfo, f SourceField, value func(*Known) (string, bool)) {
	key := s.Name + "_" + strings.ReplaceAll(f.Name, "-", "_") // no "-" in keys (VCF 4.3, section 1.6.1)
	for slices.Contains(w.keys, key) {
		key += "_" // a field of the source is named ID, or as another but for "-"
	}
	w.keys = append(w.keys, key)
	w.columns = append(w.columns, knownColumn{source: s, field: f, value: value})
}

// text is the text of a field for INFO.
func (fs KnownFields) text(name string) (string, bool) {
	for i := range fs {
		if f := &fs[i]; f.Name == name {
			if f.Type == Flag {
				return "1", true
			}
			return f.Value, true
		}
	}
	return "", false
}

// Declare adds the fields to a header, with version and date of their sources.
func (w *KnownInfo) Declare(h *vcf.Header) {
	for i := range w.columns {
		c := &w.columns[i]
		typ := String
		// A number can only be declared where no more than one entry has a say.
		if s := &c.source; s.Unique && len(s.Matches) == 1 && s.Matches[0] == MatchExact && !c.field.List() && c.field.Type != String {
			typ = c.field.Type
			if typ == Flag {
				typ = Integer
			}
		}
		about := c.source.Name + " " + c.source.Version
		if c.source.Date != "" {
			about += ", " + c.source.Date
		}
		description := "(" + about + ")"
		if c.field.Description != "" {
			description = c.field.Description + " " + description
		}
		h.AddInfo(w.keys[i], "A", string(typ), description)
	}
}

// Set sets the fields of a record, where known(i) holds the entries on its alternate allele i.
func (w *KnownInfo) Set(rec *vcf.Record, known func(i int) []Known) {
	for i := range w.columns {
		if value := w.columns[i].append(nil, len(rec.Alt), known); value != nil {
			rec.Info.Set(w.keys[i], string(value))
		}
	}
}

// append appends the fields to INFO, which is not empty if filled, and reports whether it is not empty afterwards.
func (w *KnownInfo) append(dst []byte, filled bool, alleles int, known func(i int) []Known) ([]byte, bool) {
	some := false
	for i := range alleles {
		some = some || len(known(i)) > 0
	}
	if !some {
		return dst, filled
	}
	for i := range w.columns {
		before := len(dst)
		if filled {
			dst = append(dst, ';')
		}
		dst = append(append(dst, w.keys[i]...), '=')
		if value := w.columns[i].append(dst, alleles, known); value != nil {
			dst, filled = value, true
		} else {
			dst = dst[:before]
		}
	}
	return dst, filled
}

// append appends the values of the alternate alleles; nil if there are none. It leaves b as it is then.
func (c *knownColumn) append(b []byte, alleles int, known func(i int) []Known) []byte {
	found := false
	for i := range alleles {
		if i > 0 {
			b = append(b, ',')
		}
		from := len(b)
		for k := range c.entries(known(i)) {
			text, ok := c.value(k)
			if !ok {
				text = "."
			}
			if len(b) > from {
				b = append(b, '&')
			}
			b = appendInAllele(b, text)
			found = found || ok
		}
		if len(b) == from {
			b = append(b, '.')
		}
	}
	if !found {
		return nil
	}
	return b
}

// entries are those of c's source that c is about.
func (c *knownColumn) entries(known []Known) func(yield func(*Known) bool) {
	return func(yield func(*Known) bool) {
		for i := range known {
			if known[i].Source == c.source.Name && (known[i].Match == MatchAtom) == c.atoms && !yield(&known[i]) {
				return
			}
		}
	}
}

// appendInAllele appends a value of one allele, in which a comma can't be.
func appendInAllele(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c == ',' || c == ';' {
			b = append(b, '&')
		} else {
			b = append(b, c)
		}
	}
	return b
}

// appendExisting appends the identifiers of exact matches, "&" between them: CSQ's Existing_variation.
func appendExisting(b []byte, known []Known) []byte {
	from := len(b)
	for i := range known {
		if known[i].Match != MatchExact || known[i].ID == "" {
			continue
		}
		if len(b) > from {
			b = append(b, '&')
		}
		b = append(b, escapeCSQ(strings.ReplaceAll(known[i].ID, ";", "&"))...)
	}
	return b
}

package annotate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vcf"
)

// Match says how an entry of a source and a variant belong together.
type Match string

// The matches, from the strictest.
const (
	MatchExact Match = "exact" // the same change, whatever the spelling
	// MatchAtom is one of the changes that a variant of several bases is made of ([vrs.Edit.Atoms]): sources have 28881 G>A
	// by itself, and the variant is GGG>AAC. A source that gives exact matches gives these, too.
	MatchAtom     Match = "atom"
	MatchPosition Match = "position" // another change of the same reference bases
	MatchOverlap  Match = "overlap"  // the reference bases concerned overlap
)

// Known is what an entry of a source, such as ClinVar, says about a variant or the place where it is.
type Known struct {
	Source  string `json:"source"`
	Version string `json:"version"`
	Date    string `json:"date,omitempty"` // of the source's release, YYYY-MM-DD
	ID      string `json:"id,omitempty"`   // several are separated by ";"
	Match   Match  `json:"match"`
	// Place is the entry's own place where the match is not exact: CONTIG:FIRST-LAST, 1-based; for an insertion the
	// bases on its two sides.
	Place string `json:"place,omitempty"`
	// Fields are what the entry says, in the order of the source.
	Fields KnownFields `json:"fields,omitempty"`
}

// KnownFields are the values of an entry. In JSON they are an object: Integer and Float are numbers, digit for digit as
// the source has them, Flag is true, String is text, and lists are arrays, null for a missing element. A number that
// JSON can't express, such as "nan", is text.
type KnownFields []KnownField

// KnownField is one value.
type KnownField struct {
	Name string
	Type ValueType
	// List says that Value holds elements separated by commas.
	List bool
	// Value is the source's text, escaped as in VCF (%3B for ";"); "" for a Flag.
	Value string
}

// ValueType is the type of a field's values, named as in VCF.
type ValueType string

// The types.
const (
	Integer ValueType = "Integer"
	Float   ValueType = "Float"
	Flag    ValueType = "Flag"
	String  ValueType = "String"
)

// Change is a variant that sources are asked about.
type Change struct {
	Contig *genome.Contig
	// Start and End bound the reference bases concerned: inter-residue, 0-based.
	Start, End int
	Ref, Alt   string // Alt is symbolic ("<DEL>") for a variant without a sequence, and Ref empty then
}

// Symbolic reports whether c has no sequence.
func (c *Change) Symbolic() bool { return strings.HasPrefix(c.Alt, "<") }

// Sources knows variants. It is safe for concurrent use.
type Sources interface {
	// AppendKnown appends what all sources know of c to dst. What one call appends is of one state of the sources,
	// though they may be replaced at any time.
	AppendKnown(dst []Known, c Change) ([]Known, error)
	// Describe lists the current sources.
	Describe() []SourceInfo
}

// SourceInfo describes a source.
type SourceInfo struct {
	Name, Version, Date string
	Matches             []Match // kinds of match it gives
	Unique              bool    // no two entries have the same allele, so that an exact match is at most one entry
	Fields              []SourceField
}

// SourceField describes a field of a source.
type SourceField struct {
	Name        string    `json:"name"`
	Number      string    `json:"number"` // as in VCF
	Type        ValueType `json:"type"`
	Description string    `json:"description,omitempty"`
}

// List reports whether a value of f, for one allele, is split into elements. Lists of text without a fixed number of
// elements are not: sources such as ClinVar use commas within them for other ends.
func (f *SourceField) List() bool {
	switch f.Number {
	case "0", "1", "A":
		return false
	case ".":
		return f.Type != String
	}
	return true
}

// WithSources is a copy of a that fills Annotation.Known from s.
func (a *Annotator) WithSources(s Sources) *Annotator {
	b := *a
	b.sources = s
	return &b
}

// Sources are those of WithSources, or nil.
func (a *Annotator) Sources() Sources { return a.sources }

// known is what the sources know of v, which a record spells alt.
func (a *Annotator) known(v *variant, alt string) ([]Known, error) {
	switch {
	case a.sources == nil || v == nil:
		return nil, nil
	case v.kind == svNone:
		return a.sources.AppendKnown(nil, Change{Contig: v.contig, Start: v.start, End: v.end, Ref: v.ref, Alt: v.alt})
	case v.kind == svBreakend:
		return nil, nil // it has a place, but no bases that something could overlap
	}
	return a.sources.AppendKnown(nil, Change{Contig: v.contig, Start: v.start, End: v.end, Alt: alt})
}

// MarshalJSON writes an object.
func (fs KnownFields) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i := range fs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendJSONText(b, fs[i].Name), ':')
		b = fs[i].appendJSON(b)
	}
	return append(b, '}'), nil
}

func (f *KnownField) appendJSON(b []byte) []byte {
	switch {
	case f.Type == Flag:
		return append(b, "true"...)
	case !f.List:
		return f.appendElement(b, f.Value)
	}
	b = append(b, '[')
	for i, rest, more := 0, f.Value, true; more; i++ {
		var s string
		s, rest, more = strings.Cut(rest, ",")
		if i > 0 {
			b = append(b, ',')
		}
		if s == "." {
			b = append(b, "null"...)
		} else {
			b = f.appendElement(b, s)
		}
	}
	return append(b, ']')
}

func (f *KnownField) appendElement(b []byte, s string) []byte {
	if f.Type != String && isJSONNumber(s) {
		return append(b, s...)
	}
	return appendJSONText(b, vcf.Unescape(s))
}

// appendJSONText appends s quoted. Bytes that aren't UTF-8 become U+FFFD.
func appendJSONText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			var buf bytes.Buffer
			enc := json.NewEncoder(&buf)
			enc.SetEscapeHTML(false)
			_ = enc.Encode(s) // text always encodes
			return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// isJSONNumber reports whether s is a number literal (RFC 8259, section 6).
func isJSONNumber(s string) bool {
	digits := func() bool {
		n := 0
		for n < len(s) && '0' <= s[n] && s[n] <= '9' {
			n++
		}
		s = s[n:]
		return n > 0
	}
	s = strings.TrimPrefix(s, "-")
	if leading := strings.TrimPrefix(s, "0"); len(leading) < len(s) {
		s = leading
	} else if !digits() {
		return false
	}
	if rest, ok := strings.CutPrefix(s, "."); ok {
		if s = rest; !digits() {
			return false
		}
	}
	if len(s) > 0 && s[0]|0x20 == 'e' {
		s = s[1:]
		if len(s) > 0 && (s[0] == '+' || s[0] == '-') {
			s = s[1:]
		}
		return digits() && s == ""
	}
	return s == ""
}

// UnmarshalJSON reads what MarshalJSON writes, in its order.
func (fs *KnownFields) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	t, err := dec.Token()
	if err != nil {
		return fmt.Errorf("reading fields: %w", err)
	}
	if t == nil {
		return nil
	}
	if t != json.Delim('{') {
		return errors.New("reading fields: not an object")
	}
	*fs = (*fs)[:0]
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return fmt.Errorf("reading fields: %w", err)
		}
		var value any
		if err := dec.Decode(&value); err != nil {
			return fmt.Errorf("reading field %v: %w", name, err)
		}
		f := KnownField{Name: name.(string)}
		if err := f.set(value); err != nil {
			return fmt.Errorf("reading field %v: %w", name, err)
		}
		*fs = append(*fs, f)
	}
	return nil
}

// set gives f a decoded JSON value.
func (f *KnownField) set(value any) error {
	list, ok := value.([]any)
	if !ok {
		var err error
		f.Type, f.Value, err = element(value)
		return err
	}
	f.List, f.Type = true, Integer
	for i, v := range list {
		typ, text := f.Type, "."
		if v != nil {
			var err error
			if typ, text, err = element(v); err != nil || typ == Flag {
				return fmt.Errorf("element %d is not a number or text", i)
			}
		}
		if typ == String || typ == Float && f.Type == Integer {
			f.Type = typ
		}
		if i > 0 {
			f.Value += ","
		}
		f.Value += strings.ReplaceAll(text, ",", "%2C")
	}
	return nil
}

// element is the type and text of a decoded JSON scalar.
func element(value any) (ValueType, string, error) {
	switch v := value.(type) {
	case bool:
		if v {
			return Flag, "", nil
		}
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return Float, v.String(), nil
		}
		return Integer, v.String(), nil
	case string:
		return String, EscapeValue(v), nil
	}
	return "", "", fmt.Errorf("%v is not true, a number or text", value)
}

// EscapeValue percent-encodes what would end or split an INFO value, but for commas, which separate elements.
// vcf.Unescape is the way back.
func EscapeValue(s string) string { return valueText.Escape(s) }

// EscapeSpace percent-encodes white space in a value that is escaped otherwise: VCF before 4.3 forbids it in INFO, but
// files have it.
func EscapeSpace(s string) string { return spaceText.Escape(s) }

var (
	valueText = vcf.NewEscaper("%;= ")
	spaceText = vcf.NewEscaper(" ")
)

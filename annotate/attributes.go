package annotate

import (
	"bytes"
	"slices"
	"strings"

	"github.com/porestream/porestream/vcf"
)

// attributes are column 9 of a GFF3 or GTF row as written.
type attributes struct {
	text []byte
	gtf  bool   // key "value"; instead of key=value;
	keys keySet // of those in text; zero if it isn't known
}

// keySet is a set of keys, a bit each; several keys share one. Most questions about a transcript are about keys that its
// rows don't have: the set answers these without reading the row.
type keySet uint64

// keyBit is the bit of a key.
func keyBit[S []byte | string](key S) keySet {
	n := len(key)
	if n == 0 {
		return 1
	}
	return 1 << ((3*n + 5*int(key[0]) + 11*int(key[n-1])) % 64)
}

// indexed is a with the set of its keys.
func (a attributes) indexed() attributes {
	for rest := a.text; len(rest) > 0; {
		var k []byte
		k, _, rest = a.next(rest)
		a.keys |= keyBit(k)
	}
	return a
}

// lacks reports whether there certainly is no attribute of that key.
func (a attributes) lacks(key string) bool { return a.keys != 0 && a.keys&keyBit(key) == 0 }

// isGTF recognises GTF's attributes: key "value"; pairs. The quotes may be single ones or missing, as some programs
// write them.
func isGTF(text []byte) bool {
	for len(text) > 0 && (text[0] == ' ' || text[0] == ';') {
		text = text[1:]
	}
	i := slices.IndexFunc(text, func(c byte) bool { return c == ' ' || c == '=' || c == ';' || c == '"' || c == '\'' })
	if i <= 0 || text[i] != ' ' {
		return false
	}
	value := bytes.TrimLeft(text[i:], " ")
	return len(value) > 0 && value[0] != '=' && value[0] != ';'
}

// next cuts the first attribute off text. Its value is as written, without quotes.
func (a attributes) next(text []byte) (key, value, rest []byte) {
	for len(text) > 0 && (text[0] == ' ' || text[0] == ';') {
		text = text[1:]
	}
	if !a.gtf {
		field := text
		if i := bytes.IndexByte(text, ';'); i >= 0 {
			field, rest = text[:i], text[i+1:]
		}
		if i := bytes.IndexByte(field, '='); i >= 0 {
			return field[:i], field[i+1:], rest
		}
		return field, nil, rest
	}
	i := bytes.IndexByte(text, ' ')
	if i < 0 {
		return text, nil, nil
	}
	key, text = text[:i], bytes.TrimLeft(text[i:], " ")
	if len(text) > 0 && (text[0] == '"' || text[0] == '\'') { // a quoted value may hold a semicolon
		if i = bytes.IndexByte(text[1:], text[0]); i >= 0 {
			return key, text[1 : 1+i], text[i+2:]
		}
	}
	if i = bytes.IndexByte(text, ';'); i >= 0 {
		return key, bytes.TrimRight(text[:i], " "), text[i+1:]
	}
	return key, bytes.TrimRight(text, " "), nil
}

// raw is the value of an attribute as written, or nil.
func (a attributes) raw(key string) []byte {
	if a.lacks(key) {
		return nil
	}
	for rest := a.text; len(rest) > 0; {
		var k, v []byte
		if k, v, rest = a.next(rest); string(k) == key {
			return v
		}
	}
	return nil
}

// get is the decoded value of an attribute, or "".
func (a attributes) get(key string) string { return a.decode(a.raw(key)) }

// first is the first of the attributes that is there, or "".
func (a attributes) first(keys ...string) string {
	for _, k := range keys {
		if v := a.raw(k); len(v) > 0 {
			return a.decode(v)
		}
	}
	return ""
}

// list are the decoded values of an attribute that may have several: GFF3 has commas between them, GTF repeats the key.
func (a attributes) list(key string) []string {
	if a.lacks(key) {
		return nil
	}
	var values []string
	for rest := a.text; len(rest) > 0; {
		var k, v []byte
		if k, v, rest = a.next(rest); string(k) != key {
			continue
		}
		for _, s := range bytes.Split(v, []byte(",")) {
			values = append(values, a.decode(s))
		}
	}
	return values
}

// decode resolves the escapes of a value; GTF has none.
func (a attributes) decode(value []byte) string {
	if a.gtf {
		return string(value)
	}
	return decode(string(value))
}

// decode resolves GFF3's percent-encoding, which is VCF's; other text stays as it is.
func decode(s string) string { return vcf.Unescape(s) }

// accession is an ID without the prefix that makes it unique in its file.
func accession(id string) string {
	for _, prefix := range []string{"gene:", "transcript:", "CDS:", "gene-", "rna-", "cds-"} {
		if s, ok := strings.CutPrefix(id, prefix); ok {
			return s
		}
	}
	return id
}

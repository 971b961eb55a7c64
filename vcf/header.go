package vcf

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/porestream/porestream/textfile"
)

// fixedColumns are the columns of every data line.
const fixedColumns = "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO"

// Header is everything before the first data line.
type Header struct {
	Meta    []string // the lines that start with "##", without newline; the first is ##fileformat
	Samples []string

	formatColumn bool // there is a FORMAT column, even without samples
}

// NewHeader is a header that declares the given version, such as "VCFv4.3", and has the given samples.
func NewHeader(version string, samples ...string) *Header {
	return &Header{Meta: []string{"##fileformat=" + version}, Samples: samples}
}

// Clone is a copy that can be changed on its own.
func (h *Header) Clone() *Header {
	return &Header{
		Meta:         append([]string(nil), h.Meta...),
		Samples:      append([]string(nil), h.Samples...),
		formatColumn: h.formatColumn,
	}
}

// AddMeta appends a meta line; line starts with "##".
func (h *Header) AddMeta(line string) { h.Meta = append(h.Meta, line) }

// AddContig declares a contig and its length in bases.
func (h *Header) AddContig(name string, length int) {
	h.AddMeta("##contig=<ID=" + name + ",length=" + strconv.Itoa(length) + ">")
}

// AddFilter declares a filter.
func (h *Header) AddFilter(id, description string) {
	h.AddMeta("##FILTER=<ID=" + id + ",Description=" + quote(description) + ">")
}

// AddInfo declares an INFO field, replacing an earlier declaration in its place. number is a count or A, R, G or
// "."; typ is Integer, Float, Flag, Character or String.
func (h *Header) AddInfo(id, number, typ, description string) {
	h.declare("INFO", id, number, typ, description)
}

// AddFormat declares a FORMAT field as AddInfo does an INFO field.
func (h *Header) AddFormat(id, number, typ, description string) {
	h.declare("FORMAT", id, number, typ, description)
}

func (h *Header) declare(kind, id, number, typ, description string) {
	line := "##" + kind + "=<ID=" + id + ",Number=" + number + ",Type=" + typ + ",Description=" + quote(description) + ">"
	for i, m := range h.Meta {
		if strings.HasPrefix(m, "##"+kind+"=<") && attribute(m, "ID") == id {
			h.Meta[i] = line
			return
		}
	}
	h.AddMeta(line)
}

// quote is s as a quoted attribute.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// Contig is one contig declaration.
type Contig struct {
	Name   string
	Length int // 0 when not declared
}

// Contigs are the declared contigs in the order of the header.
func (h *Header) Contigs() []Contig {
	var cs []Contig
	for _, m := range h.Meta {
		if !strings.HasPrefix(m, "##contig=<") {
			continue
		}
		n, err := strconv.Atoi(attribute(m, "length"))
		if err != nil {
			n = 0
		}
		cs = append(cs, Contig{Name: attribute(m, "ID"), Length: n})
	}
	return cs
}

// InfoDescription is the Description of an INFO declaration, or "".
func (h *Header) InfoDescription(id string) string {
	for _, m := range h.Meta {
		if strings.HasPrefix(m, "##INFO=<") && attribute(m, "ID") == id {
			return attribute(m, "Description")
		}
	}
	return ""
}

// attribute is the value of key in a structured meta line (##KIND=<key=value,key="quoted value",…>), or "".
func attribute(line, key string) string {
	_, body, ok := strings.Cut(line, "=<")
	if !ok {
		return ""
	}
	body = strings.TrimSuffix(body, ">")
	for body != "" {
		k, rest, ok := strings.Cut(body, "=")
		if !ok {
			return ""
		}
		var value string
		if strings.HasPrefix(rest, `"`) {
			value, rest = unquote(rest[1:])
			rest = strings.TrimPrefix(rest, ",")
		} else {
			value, rest, _ = strings.Cut(rest, ",")
		}
		if k == key {
			return value
		}
		body = rest
	}
	return ""
}

// unquote reads up to the closing quote of s, and also returns what follows it.
func unquote(s string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] == '"':
			return b.String(), s[i+1:]
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), ""
}

// columns parses the #CHROM line.
func (h *Header) columns(line string) error {
	if !strings.HasPrefix(line, fixedColumns) {
		return fmt.Errorf("column line %q: want %q", clip(line), fixedColumns)
	}
	rest := line[len(fixedColumns):]
	if rest == "" {
		return nil
	}
	f := strings.Split(rest, "\t")
	if f[0] != "" || f[1] != "FORMAT" {
		return errors.New("column line: the ninth column must be FORMAT")
	}
	h.formatColumn = true
	h.Samples = f[2:]
	seen := make(map[string]bool, len(h.Samples))
	for _, s := range h.Samples {
		if s == "" {
			return errors.New("column line: a sample without a name")
		}
		if seen[s] {
			return fmt.Errorf("column line: sample %q appears twice", s)
		}
		seen[s] = true
	}
	return nil
}

// append appends the header's text.
func (h *Header) append(b []byte) []byte {
	for _, m := range h.Meta {
		b = append(b, m...)
		b = append(b, '\n')
	}
	b = append(b, fixedColumns...)
	if len(h.Samples) > 0 || h.formatColumn {
		b = append(b, "\tFORMAT"...)
		for _, s := range h.Samples {
			b = append(b, '\t')
			b = append(b, s...)
		}
	}
	return append(b, '\n')
}

// clip shortens text for an error message.
func clip(s string) string { return textfile.Clip(s, 60) }

package blow5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/porestream/porestream/signal/internal/text"
)

// Signature is how every BLOW5 file begins.
const Signature = "BLOW5\x01"

// endMarker is how every complete BLOW5 file ends.
const endMarker = "5WOLB"

// headLen is the length of the fixed part before the header's length.
const headLen = 64

// maxReadGroups is far more than any merge of runs has; each read group has a
// column in the header.
const maxReadGroups = 1 << 16

// maxHeader bounds the text header: a few kilobytes per read group.
const maxHeader = 64 << 20

type recordPress uint8

const (
	recordPlain recordPress = iota
	recordZlib
	recordZstd
)

type signalPress uint8

const (
	signalPlain signalPress = iota
	signalSVBZD
	signalEXZD
)

// Header is what a BLOW5 file says about its runs and record fields.
type Header struct {
	Major, Minor, Patch uint8
	// Groups are the attributes of each read group, which is one run. An attribute
	// that a group doesn't have is absent.
	Groups []map[string]string
	// Aux are the auxiliary fields, in record order.
	Aux []Field

	record recordPress
	signal signalPress
}

// Field is an auxiliary field.
type Field struct {
	Name string
	Type string // as written, for example uint8_t, char* or enum{unknown,signal_positive}
	// Labels are the names of an enum's values, nil for other types.
	Labels []string

	kind  kind
	array bool
}

// primary are the fields that every record begins with.
var primary = [...]struct{ typ, name string }{
	{"char*", "read_id"},
	{"uint32_t", "read_group"},
	{"double", "digitisation"},
	{"double", "offset"},
	{"double", "range"},
	{"double", "sampling_rate"},
	{"uint64_t", "len_raw_signal"},
	{"int16_t*", "raw_signal"},
}

// parseHeader reads everything before the first record and returns the offset of
// that record.
func parseHeader(file []byte) (*Header, int, error) {
	if !bytes.HasPrefix(file, []byte(Signature)) {
		return nil, 0, errors.New("byte 0: not a BLOW5 signature")
	}
	if len(file) < headLen+4 {
		return nil, 0, fmt.Errorf("byte %d: the file ends inside its head: it is truncated", len(file))
	}
	h := &Header{Major: file[6], Minor: file[7], Patch: file[8]}
	if h.Major > 1 {
		return nil, 0, fmt.Errorf("byte 6: version %d.%d.%d is newer than this reader, which knows 0 and 1", h.Major, h.Minor, h.Patch)
	}
	h.record = recordPress(file[9])
	if h.record > recordZstd {
		return nil, 0, fmt.Errorf("byte 9: unknown record compression %d", file[9])
	}
	groups := binary.LittleEndian.Uint32(file[10:])
	if groups == 0 || groups > maxReadGroups {
		return nil, 0, fmt.Errorf("byte 10: %d read groups", groups)
	}
	// Version 0.1.0 had no signal compression; its byte was padding.
	if h.Major > 0 || h.Minor >= 2 {
		h.signal = signalPress(file[14])
		if h.signal > signalEXZD {
			return nil, 0, fmt.Errorf("byte 14: unknown signal compression %d", file[14])
		}
	}
	length := binary.LittleEndian.Uint32(file[headLen:])
	rest := file[headLen+4:]
	switch {
	case uint64(length) > uint64(len(rest)):
		return nil, 0, fmt.Errorf("byte %d: the header is %d bytes long, but only %d follow: the file is truncated", headLen, length, len(rest))
	case length > maxHeader:
		return nil, 0, fmt.Errorf("byte %d: a header of %d bytes is not plausible", headLen, length)
	}
	if err := h.parseText(string(rest[:length]), int(groups)); err != nil {
		return nil, 0, fmt.Errorf("header: %w", err)
	}
	return h, headLen + 4 + int(length), nil
}

// parseText reads the text header: a line per attribute, with a column per read
// group, then a line of types and a line of names.
func (h *Header) parseText(all string, groups int) error {
	if !utf8.ValidString(all) {
		return errors.New("is not UTF-8")
	}
	h.Groups = make([]map[string]string, groups)
	for i := range h.Groups {
		h.Groups[i] = make(map[string]string)
	}
	lines := strings.Split(strings.TrimSuffix(all, "\n"), "\n")
	if len(lines) < 2 {
		return errors.New("has no lines of field types and names")
	}
	seen := make(map[string]bool)
	for n, line := range lines[:len(lines)-2] {
		if strings.ContainsAny(line, "\r\x00") {
			return fmt.Errorf("line %d holds a carriage return or zero byte", n+1)
		}
		cols := strings.Split(line, "\t")
		name, ok := strings.CutPrefix(cols[0], "@")
		switch {
		case !ok || name == "":
			return fmt.Errorf("line %d is not an @attribute: %q", n+1, text.Clip(line))
		case seen[name]:
			return fmt.Errorf("line %d: attribute %q occurs twice", n+1, text.Clip(name))
		case len(cols)-1 != groups:
			return fmt.Errorf("line %d: attribute %q has %d values for %d read groups", n+1, text.Clip(name), len(cols)-1, groups)
		}
		seen[name] = true
		for g, v := range cols[1:] {
			if v != "." { // the format's sign for a missing value
				h.Groups[g][name] = v
			}
		}
	}
	return h.parseFields(lines[len(lines)-2], lines[len(lines)-1])
}

func (h *Header) parseFields(types, names string) error {
	t, ok1 := strings.CutPrefix(types, "#")
	n, ok2 := strings.CutPrefix(names, "#")
	if !ok1 || !ok2 {
		return errors.New("doesn't end with a line of field types and one of names")
	}
	typ, name := strings.Split(t, "\t"), strings.Split(n, "\t")
	if len(typ) != len(name) || len(typ) < len(primary) {
		return fmt.Errorf("has %d field types and %d field names", len(typ), len(name))
	}
	for i, p := range primary {
		if typ[i] != p.typ || name[i] != p.name {
			return fmt.Errorf("field %d is %s %q, not %s %q", i+1, text.Clip(typ[i]), text.Clip(name[i]), p.typ, p.name)
		}
	}
	seen := make(map[string]bool)
	for i := len(primary); i < len(typ); i++ {
		f, err := parseField(name[i], typ[i])
		if err != nil {
			return err
		}
		if seen[f.Name] {
			return fmt.Errorf("field %q occurs twice", text.Clip(f.Name))
		}
		seen[f.Name] = true
		h.Aux = append(h.Aux, f)
	}
	return nil
}

func parseField(name, typ string) (Field, error) {
	if name == "" || strings.ContainsAny(name, "\r\x00") {
		return Field{}, fmt.Errorf("field name %q is empty or holds control characters", text.Clip(name))
	}
	f := Field{Name: name, Type: typ}
	base, array := strings.CutSuffix(typ, "*")
	f.array = array
	if labels, ok := strings.CutPrefix(base, "enum{"); ok {
		labels, ok = strings.CutSuffix(labels, "}")
		if !ok || labels == "" {
			return Field{}, fmt.Errorf("field %q has an unreadable type %q", text.Clip(name), text.Clip(typ))
		}
		f.kind, f.Labels = kindEnum, strings.Split(labels, ",")
		return f, nil
	}
	for k, names := range kindNames {
		if names == base {
			f.kind = kind(k)
			return f, nil
		}
	}
	return Field{}, fmt.Errorf("field %q has unknown type %q", text.Clip(name), text.Clip(typ))
}

// Compression names how records and the signal in them are packed, as slow5tools
// does: "zstd+svb-zd", "zlib+none".
func (h *Header) Compression() string {
	records := map[recordPress]string{recordPlain: "none", recordZlib: "zlib", recordZstd: "zstd"}
	signals := map[signalPress]string{signalPlain: "none", signalSVBZD: "svb-zd", signalEXZD: "ex-zd"}
	return records[h.record] + "+" + signals[h.signal]
}

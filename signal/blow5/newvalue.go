package blow5

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/porestream/porestream/signal/internal/text"
)

// NewField returns an auxiliary field of the given type, written as in a header:
// a C type, enum{label,label}, and either with a star for an array.
func NewField(name, typ string) (Field, error) { return parseField(name, typ) }

// Text returns a value for a char* or enum field; one that the enum doesn't have is
// an error.
func (f *Field) Text(s string) (Value, error) {
	switch {
	case f.kind == kindChar && f.array:
		if err := text.Check(s); err != nil {
			return Value{}, fmt.Errorf("field %q %w (%q)", f.Name, err, text.Clip(s))
		}
		return Value{field: f, raw: []byte(s)}, nil
	case f.kind == kindEnum && !f.array:
		for i, label := range f.Labels {
			if label == s {
				return Value{field: f, raw: []byte{byte(i)}}, nil
			}
		}
		return Value{}, fmt.Errorf("field %q: %q is none of its labels", f.Name, text.Clip(s))
	}
	return Value{}, fmt.Errorf("field %q of type %s can't hold text", f.Name, f.Type)
}

// Uint returns a value for a field of integers; one that doesn't fit, or that
// stands for a missing value there, is an error.
func (f *Field) Uint(u uint64) (Value, error) {
	if f.array || f.kind > kindUint64 {
		return Value{}, fmt.Errorf("field %q of type %s can't hold an integer", f.Name, f.Type)
	}
	raw := binary.LittleEndian.AppendUint64(nil, u)[:f.kind.size()]
	v := Value{field: f, raw: raw}
	if got, ok := v.Uint(); !ok || got != u {
		return Value{}, fmt.Errorf("field %q of type %s can't hold %d", f.Name, f.Type, u)
	}
	return v, nil
}

// Float returns a value for a field of float or double; NaN is a missing value.
func (f *Field) Float(x float64) (Value, error) {
	switch {
	case f.array:
	case f.kind == kindFloat:
		return Value{field: f, raw: binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(x)))}, nil
	case f.kind == kindDouble:
		return Value{field: f, raw: binary.LittleEndian.AppendUint64(nil, math.Float64bits(x))}, nil
	}
	return Value{}, fmt.Errorf("field %q of type %s can't hold a fraction", f.Name, f.Type)
}

// Union returns a field that holds what both hold: they must have one type, or be
// enums, whose labels it has all.
func (f Field) Union(o Field) (Field, error) {
	if f.Type == o.Type {
		return f, nil
	}
	if f.kind != kindEnum || o.kind != kindEnum || f.array || o.array {
		return Field{}, fmt.Errorf("field %q is %s, but %s", f.Name, text.Clip(o.Type), text.Clip(f.Type))
	}
	labels := slices.Clone(f.Labels)
	for _, l := range o.Labels {
		if !slices.Contains(labels, l) {
			labels = append(labels, l)
		}
	}
	if len(labels) > math.MaxUint8 {
		return Field{}, fmt.Errorf("field %q has more than %d labels together with those", f.Name, math.MaxUint8)
	}
	return parseField(f.Name, "enum{"+strings.Join(labels, ",")+"}")
}

// Convert makes a value of another file's field of the same name one of this field,
// which must be its Union with others.
func (f *Field) Convert(v Value) (Value, error) {
	switch {
	case v.field == nil || !v.Present():
		return Value{}, nil
	case v.field.Type == f.Type:
		return v, nil
	}
	label, ok := v.Text()
	if !ok {
		return Value{}, fmt.Errorf("field %q of type %s can't hold a value of type %s", f.Name, f.Type, v.field.Type)
	}
	return f.Text(label)
}

// Declared reports whether the file has the field at all.
func (v Value) Declared() bool { return v.field != nil }

// Present reports whether the record has a value, as opposed to the format's sign
// for a missing one.
func (v Value) Present() bool {
	if v.field == nil {
		return false
	}
	if v.field.array {
		return len(v.raw) > 0
	}
	if v.field.kind == kindFloat || v.field.kind == kindDouble {
		_, ok := v.Float()
		return ok
	}
	return !bytes.Equal(v.raw, v.field.appendMissing(nil)) && (v.field.kind != kindEnum || int(v.raw[0]) < len(v.field.Labels))
}

// append appends the value as a record keeps it. The value must be one of the given
// field's type.
func (v Value) append(dst []byte, f *Field) ([]byte, error) {
	if v.field == nil {
		return f.appendMissing(dst), nil
	}
	if v.field.Type != f.Type {
		return dst, fmt.Errorf("field %q of type %s can't hold a value of type %s", f.Name, f.Type, v.field.Type)
	}
	if f.array {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(len(v.raw)/f.kind.size()))
	}
	return append(dst, v.raw...), nil
}

// appendMissing appends the format's sign for a missing value.
func (f *Field) appendMissing(dst []byte) []byte {
	if f.array {
		return binary.LittleEndian.AppendUint64(dst, 0)
	}
	var u uint64
	switch f.kind {
	case kindChar:
	case kindInt8, kindInt16, kindInt32, kindInt64:
		u = 1<<(8*f.kind.size()-1) - 1
	case kindFloat:
		u = uint64(math.Float32bits(float32(math.NaN())))
	case kindDouble:
		u = 0x7ff8000000000000 // C's nan("")
	default:
		u = math.MaxUint64
	}
	return append(dst, binary.LittleEndian.AppendUint64(nil, u)[:f.kind.size()]...)
}

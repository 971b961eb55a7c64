package blow5

import (
	"encoding/binary"
	"fmt"
	"math"

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
		u = math.Float64bits(math.NaN())
	default:
		u = math.MaxUint64
	}
	return append(dst, binary.LittleEndian.AppendUint64(nil, u)[:f.kind.size()]...)
}

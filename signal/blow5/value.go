package blow5

import (
	"encoding/binary"
	"math"
)

// kind is the type of an auxiliary field's elements.
type kind uint8

const (
	kindInt8 kind = iota
	kindInt16
	kindInt32
	kindInt64
	kindUint8
	kindUint16
	kindUint32
	kindUint64
	kindFloat
	kindDouble
	kindChar
	kindEnum
)

var kindNames = [...]string{
	kindInt8: "int8_t", kindInt16: "int16_t", kindInt32: "int32_t", kindInt64: "int64_t",
	kindUint8: "uint8_t", kindUint16: "uint16_t", kindUint32: "uint32_t", kindUint64: "uint64_t",
	kindFloat: "float", kindDouble: "double", kindChar: "char",
}

func (k kind) size() int {
	switch k {
	case kindInt16, kindUint16:
		return 2
	case kindInt32, kindUint32, kindFloat:
		return 4
	case kindInt64, kindUint64, kindDouble:
		return 8
	}
	return 1
}

// Value is the value of an auxiliary field. It refers to the record it came from.
// The format marks a missing number by the largest of its type (NaN for floats)
// and a missing text or array by length 0; the methods report those as absent.
type Value struct {
	field *Field
	raw   []byte
}

// Text returns the value of a char* or enum field. An enum's text is its label.
func (v Value) Text() (string, bool) {
	switch {
	case v.field == nil:
		return "", false
	case v.field.kind == kindChar && v.field.array:
		return string(v.raw), len(v.raw) > 0
	case v.field.kind == kindChar:
		return string(v.raw), v.raw[0] != 0
	case v.field.kind == kindEnum && !v.field.array && int(v.raw[0]) < len(v.field.Labels):
		return v.field.Labels[v.raw[0]], true
	}
	return "", false
}

// Uint returns the value of an integer field that isn't negative.
func (v Value) Uint() (uint64, bool) {
	if v.field == nil || v.field.array {
		return 0, false
	}
	var u, most uint64
	switch v.field.kind {
	case kindInt8:
		u, most = uint64(int64(int8(v.raw[0]))), math.MaxInt8
	case kindInt16:
		u, most = uint64(int64(int16(binary.LittleEndian.Uint16(v.raw)))), math.MaxInt16
	case kindInt32:
		u, most = uint64(int64(int32(binary.LittleEndian.Uint32(v.raw)))), math.MaxInt32
	case kindInt64:
		u, most = binary.LittleEndian.Uint64(v.raw), math.MaxInt64
	case kindUint8:
		u, most = uint64(v.raw[0]), math.MaxUint8
	case kindUint16:
		u, most = uint64(binary.LittleEndian.Uint16(v.raw)), math.MaxUint16
	case kindUint32:
		u, most = uint64(binary.LittleEndian.Uint32(v.raw)), math.MaxUint32
	case kindUint64:
		u, most = binary.LittleEndian.Uint64(v.raw), math.MaxUint64
	default:
		return 0, false
	}
	return u, u < most
}

// Float returns the value of a float or double field.
func (v Value) Float() (float64, bool) {
	if v.field == nil || v.field.array {
		return 0, false
	}
	var f float64
	switch v.field.kind {
	case kindFloat:
		f = float64(math.Float32frombits(binary.LittleEndian.Uint32(v.raw)))
	case kindDouble:
		f = math.Float64frombits(binary.LittleEndian.Uint64(v.raw))
	default:
		return 0, false
	}
	return f, !math.IsNaN(f)
}

// Ints returns the elements of an array of signed integers, or of an enum array.
func (v Value) Ints() ([]int64, bool) {
	if v.field == nil || !v.field.array || len(v.raw) == 0 {
		return nil, false
	}
	size := v.field.kind.size()
	out := make([]int64, len(v.raw)/size)
	for i := range out {
		e := v.raw[i*size:]
		switch v.field.kind {
		case kindInt8:
			out[i] = int64(int8(e[0]))
		case kindInt16:
			out[i] = int64(int16(binary.LittleEndian.Uint16(e)))
		case kindInt32:
			out[i] = int64(int32(binary.LittleEndian.Uint32(e)))
		case kindInt64:
			out[i] = int64(binary.LittleEndian.Uint64(e))
		case kindUint8, kindEnum:
			out[i] = int64(e[0])
		case kindUint16:
			out[i] = int64(binary.LittleEndian.Uint16(e))
		case kindUint32:
			out[i] = int64(binary.LittleEndian.Uint32(e))
		default:
			return nil, false
		}
	}
	return out, true
}

package source

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"github.com/porestream/porestream/annotate"
)

// The forms that a value has in a record. All give back the source's text to the byte.
const (
	formFlag     = iota // nothing follows
	formText            // length and text
	formDict            // number of a text in the dictionary
	formInteger         // zigzag
	formDecimal         // digits without the point, zigzag, and how many are behind it: -0.0012
	formExponent        // as formDecimal, and the exponent, zigzag: 6.57895e-06
	formBits     = 3
)

// The first field numbers of records are not fields of the source.
const (
	fieldID     = iota // identifier
	fieldAllele        // number of reference bases, then the new bases or the symbolic allele
	ownFields
)

// maxText bounds one value.
const maxText = 1 << 20

var errRecord = errors.New("record is malformed")

func appendUvarint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

// appendTag begins a value.
func appendTag(b []byte, field int, form uint64) []byte {
	return appendUvarint(b, uint64(field)<<formBits|form)
}

// appendNumber appends a number as compactly as its text can be restored, and reports whether it is one of the forms.
func appendNumber(b []byte, field int, s string) ([]byte, bool) {
	n := parseNumber(s)
	var scratch [40]byte
	if n.form == formText || string(n.append(scratch[:0])) != s {
		return b, false
	}
	b = appendTag(b, field, uint64(n.form))
	b = binary.AppendVarint(b, n.digits)
	if n.form != formInteger {
		b = append(b, n.frac)
	}
	if n.form == formExponent {
		b = binary.AppendVarint(b, n.exp)
	}
	return b, true
}

// number is a decimal number as written: digits with frac of them behind the point, and an exponent.
type number struct {
	form   int
	digits int64
	frac   byte
	exp    int64
}

// parseNumber reads a number; the form is formText if it is none.
func parseNumber(s string) number {
	n := number{form: formInteger}
	neg, count := false, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '-' && i == 0:
			neg = true
		case '0' <= c && c <= '9' && count < 17:
			n.digits = n.digits*10 + int64(c-'0')
			count++
			if n.form == formDecimal {
				n.frac++
			}
		case c == '.' && n.form == formInteger && count > 0:
			n.form = formDecimal
		case c == 'e' && count > 0:
			exp, err := strconv.ParseInt(s[i+1:], 10, 16)
			if err != nil {
				return number{form: formText}
			}
			n.form, n.exp = formExponent, exp
			return n.signed(neg)
		default:
			return number{form: formText}
		}
	}
	if count == 0 {
		return number{form: formText}
	}
	return n.signed(neg)
}

func (n number) signed(neg bool) number {
	if neg {
		n.digits = -n.digits
	}
	return n
}

// append writes n as text.
func (n number) append(b []byte) []byte {
	if n.form == formInteger {
		return strconv.AppendInt(b, n.digits, 10)
	}
	abs := uint64(n.digits)
	if n.digits < 0 {
		b, abs = append(b, '-'), -abs
	}
	var scratch [20]byte
	digits := strconv.AppendUint(scratch[:0], abs, 10)
	if frac := int(n.frac); frac > 0 {
		for i := len(digits); i <= frac; i++ {
			b = append(b, '0')
			if i == len(digits) {
				b = append(b, '.')
			}
		}
		if whole := len(digits) - frac; whole > 0 {
			b = append(append(b, digits[:whole]...), '.')
			digits = digits[whole:]
		}
	}
	b = append(b, digits...)
	if n.form != formExponent {
		return b
	}
	b, exp := append(b, 'e'), n.exp
	if exp < 0 {
		b, exp = append(b, '-'), -exp
	} else {
		b = append(b, '+')
	}
	if exp < 10 {
		b = append(b, '0')
	}
	return strconv.AppendInt(b, exp, 10)
}

// value is a decoded value: a number, or text that the file holds.
type value struct {
	field int
	form  int
	text  []byte // of formText
	num   number
	dict  uint64
}

// nextValue decodes the value at the start of b, and returns what follows.
func nextValue(b []byte) (value, []byte, error) {
	tag, n := binary.Uvarint(b)
	if n <= 0 || tag>>formBits >= maxFields+ownFields {
		return value{}, nil, errRecord
	}
	v := value{field: int(tag >> formBits), form: int(tag & (1<<formBits - 1))}
	b = b[n:]
	switch v.form {
	case formFlag:
	case formText:
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return value{}, nil, errRecord
		}
		v.text, b = b[n:n+int(size)], b[n+int(size):]
	case formDict:
		if v.dict, n = binary.Uvarint(b); n <= 0 {
			return value{}, nil, errRecord
		}
		b = b[n:]
	case formInteger, formDecimal, formExponent:
		v.num.form = v.form
		if v.num.digits, n = binary.Varint(b); n <= 0 {
			return value{}, nil, errRecord
		}
		b = b[n:]
		if v.form != formInteger {
			if len(b) == 0 || b[0] > 20 {
				return value{}, nil, errRecord
			}
			v.num.frac, b = b[0], b[1:]
		}
		if v.form == formExponent {
			if v.num.exp, n = binary.Varint(b); n <= 0 || v.num.exp > math.MaxInt16 || v.num.exp < math.MinInt16 {
				return value{}, nil, errRecord
			}
			b = b[n:]
		}
	default:
		return value{}, nil, errRecord
	}
	return v, b, nil
}

// dictionary gives numbers to texts that come again and again. It is bounded: texts that come when a field has had its
// share are not in it.
type dictionary struct {
	numbers map[string]uint64
	texts   []string
	bytes   int
	share   []int // of each field, texts that it may still add
}

const (
	dictPerField = 1 << 16
	dictBytes    = 128 << 20
	dictText     = 4 << 10 // longest text
)

func newDictionary(fields int) *dictionary {
	d := &dictionary{numbers: map[string]uint64{}, share: make([]int, fields+ownFields)}
	for i := range d.share {
		d.share[i] = dictPerField
	}
	d.share[fieldID], d.share[fieldAllele] = 0, 0
	return d
}

// append appends a text, by number if it has one or can have one.
func (d *dictionary) append(b []byte, field int, s string) []byte {
	n, ok := d.numbers[s]
	if !ok && d.share[field] > 0 && len(s) <= dictText && d.bytes+len(s) <= dictBytes {
		d.share[field]--
		n, ok = uint64(len(d.texts)), true
		d.numbers[s] = n
		d.texts = append(d.texts, s)
		d.bytes += len(s)
	}
	if ok {
		return appendUvarint(appendTag(b, field, formDict), n)
	}
	return appendText(b, field, s)
}

// appendText appends a text itself.
func appendText(b []byte, field int, s string) []byte {
	b = appendUvarint(appendTag(b, field, formText), uint64(len(s)))
	return append(b, s...)
}

// appendField appends a field of the source; s is escaped as in VCF.
func (d *dictionary) appendField(b []byte, field int, typ annotate.ValueType, s string) []byte {
	switch typ {
	case annotate.Flag:
		return appendTag(b, field, formFlag)
	case annotate.Integer, annotate.Float:
		if out, ok := appendNumber(b, field, s); ok {
			return out
		}
	}
	return d.append(b, field, s)
}

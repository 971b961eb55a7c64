package vcf

import "unicode/utf8"

// Escaper writes text into a field of VCF. Whatever may stand in no field (control characters, line ends, bytes that
// are not UTF-8) it percent-encodes; further characters that have a meaning in the field are given when it is made. Every
// text that comes from outside, such as a gene's name, goes through one. It may be shared.
type Escaper struct {
	special [256]bool
	text    [256]string
}

// NewEscaper makes an escaper that percent-encodes each of the ASCII characters in encoded and writes others as
// replaced says, in pairs of a character and what stands for it.
func NewEscaper(encoded string, replaced ...string) *Escaper {
	e := &Escaper{}
	for c := range 256 {
		e.special[c] = c < ' ' || c >= 0x7f
		e.text[c] = percent(byte(c))
	}
	for i := range len(encoded) {
		e.special[encoded[i]] = true
	}
	for i := 0; i+1 < len(replaced); i += 2 {
		e.special[replaced[i][0]], e.text[replaced[i][0]] = true, replaced[i+1]
	}
	return e
}

func percent(c byte) string {
	const digits = "0123456789ABCDEF"
	return string([]byte{'%', digits[c>>4], digits[c&15]})
}

// plain is how many bytes s begins with that are written as they are.
func (e *Escaper) plain(s string) int {
	for i := range len(s) {
		if e.special[s[i]] {
			return i
		}
	}
	return len(s)
}

// Append appends s to dst.
func (e *Escaper) Append(dst []byte, s string) []byte {
	for {
		n := e.plain(s)
		dst = append(dst, s[:n]...)
		if s = s[n:]; s == "" {
			return dst
		}
		if s[0] >= utf8.RuneSelf {
			if r, size := utf8.DecodeRuneInString(s); r != utf8.RuneError || size > 1 {
				dst, s = append(dst, s[:size]...), s[size:]
				continue
			}
		}
		dst, s = append(dst, e.text[s[0]]...), s[1:]
	}
}

// Escape is s as Append writes it.
func (e *Escaper) Escape(s string) string {
	if e.plain(s) == len(s) {
		return s
	}
	return string(e.Append(make([]byte, 0, len(s)+8), s))
}

// values is for elements of INFO and FORMAT (VCF 4.3, section 1.2).
var values = NewEscaper("%:;=,")

// Escape percent-encodes one value for an INFO or FORMAT field.
func Escape(s string) string { return values.Escape(s) }

// Unescape decodes percent-encoded bytes. A "%" that no two hexadecimal digits follow stays.
func Unescape(s string) string {
	b := []byte(nil)
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			if b == nil {
				b = append(make([]byte, 0, len(s)), s[:i]...)
			}
			b = append(b, hexValue(s[i+1])<<4|hexValue(s[i+2]))
			i += 2
		} else if b != nil {
			b = append(b, s[i])
		}
	}
	if b == nil {
		return s
	}
	return string(b)
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

package vcf

import (
	"math"
	"strconv"
)

// Record is one data line.
type Record struct {
	Chrom   string
	Pos     int      // 1-based; 0 is the telomere before the first base
	ID      string   // "" when missing
	Ref     string   // as written, usually upper-case
	Alt     []string // empty when there is none (".")
	Qual    float64  // Phred-scaled; NaN when missing
	Filter  []string // empty: filters not applied ("."); ["PASS"]: passed
	Info    Info
	Format  []string   // empty when there are no samples
	Samples [][]string // per sample its FORMAT values; trailing ones may be absent

	line      int     // number of the line it was read from
	qualText  string  // QUAL as read, written again while Qual is unchanged
	qualValue float64 // the value of qualText
}

// Line is the number of the line that the record was read from, or 0 if it was not read.
func (rec *Record) Line() int { return rec.line }

// InfoField is one entry of the INFO column: Key=Value, or the bare Key of a flag.
type InfoField struct {
	Key   string
	Value string // as written, percent-encoding included
	Flag  bool   // there is no "=" and no value
}

// Info is the INFO column in the order of the line.
type Info []InfoField

// Get is the value of key, and whether the key is present. A flag's value is "".
func (in Info) Get(key string) (string, bool) {
	for i := range in {
		if in[i].Key == key {
			return in[i].Value, true
		}
	}
	return "", false
}

// Set gives key a value: in its place if it is present, else at the end.
func (in *Info) Set(key, value string) {
	for i := range *in {
		if (*in)[i].Key == key {
			(*in)[i] = InfoField{Key: key, Value: value}
			return
		}
	}
	*in = append(*in, InfoField{Key: key, Value: value})
}

// SetFlag adds a flag, unless it is there.
func (in *Info) SetFlag(key string) {
	if _, ok := in.Get(key); !ok {
		*in = append(*in, InfoField{Key: key, Flag: true})
	}
}

// Delete removes key.
func (in *Info) Delete(key string) {
	kept := (*in)[:0]
	for _, f := range *in {
		if f.Key != key {
			kept = append(kept, f)
		}
	}
	*in = kept
}

// floatDigits is how many significant digits are written: what a 32-bit float, VCF's Float type, holds.
const floatDigits = 6

// FormatFloat is the deterministic spelling of a number: at most six significant digits, no trailing zeros, "." for
// NaN.
func FormatFloat(v float64) string {
	if math.IsNaN(v) {
		return "."
	}
	return strconv.FormatFloat(v, 'g', floatDigits, 64)
}

// AppendLine appends the record as a data line with its newline. It does not check the record as a Writer does.
func (rec *Record) AppendLine(b []byte) []byte {
	b = append(b, rec.Chrom...)
	b = append(b, '\t')
	b = strconv.AppendInt(b, int64(rec.Pos), 10)
	b = append(b, '\t')
	b = appendField(b, rec.ID)
	b = append(b, '\t')
	b = append(b, rec.Ref...)
	b = append(b, '\t')
	b = appendList(b, rec.Alt, ',')
	b = append(b, '\t')
	if rec.qualText != "" && (rec.qualValue == rec.Qual || math.IsNaN(rec.qualValue) && math.IsNaN(rec.Qual)) {
		b = append(b, rec.qualText...)
	} else {
		b = append(b, FormatFloat(rec.Qual)...)
	}
	b = append(b, '\t')
	b = appendList(b, rec.Filter, ';')
	b = append(b, '\t')
	if len(rec.Info) == 0 {
		b = append(b, '.')
	}
	for i := range rec.Info {
		f := &rec.Info[i]
		if i > 0 {
			b = append(b, ';')
		}
		b = append(b, f.Key...)
		if !f.Flag {
			b = append(b, '=')
			b = append(b, f.Value...)
		}
	}
	if len(rec.Samples) > 0 || len(rec.Format) > 0 {
		b = append(b, '\t')
		b = appendList(b, rec.Format, ':')
		for _, s := range rec.Samples {
			b = append(b, '\t')
			b = appendList(b, s, ':')
		}
	}
	return append(b, '\n')
}

// appendField appends s, or "." when it is empty.
func appendField(b []byte, s string) []byte {
	if s == "" {
		return append(b, '.')
	}
	return append(b, s...)
}

// appendList appends the elements of list separated by sep, or "." when it is empty.
func appendList(b []byte, list []string, sep byte) []byte {
	if len(list) == 0 {
		return append(b, '.')
	}
	for i, s := range list {
		if i > 0 {
			b = append(b, sep)
		}
		b = append(b, s...)
	}
	return b
}

package filter

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/vcf"
)

// field is a column or a field of a record.
type field struct {
	name    string
	isText  bool
	flag    bool
	samples bool // one list of values for each sample
	value   int  // only this one; -1: all
	sample  int
	// read returns the values as written.
	read func(f *field, rec *vcf.Record, sample int) []string
	// special makes the comparisons with a string that the field has rules of its own for; nil: none for this one.
	special func(f *field, op, constant string) (c predicate, reason string)
}

func (f *field) textual() bool { return f.isText }

// fieldOf is the field of that name, or the reason why there is none.
func fieldOf(name string, h *vcf.Header) (*field, string) {
	if c, ok := columns[name]; ok {
		f := c
		f.name, f.value, f.sample = name, -1, -1
		return &f, ""
	}
	kind, id, declared := strings.Cut(name, "/")
	if !declared {
		kind, id = "", name
	}
	if id == "GT" && kind != "INFO" {
		return &field{name: id, isText: true, samples: true, value: -1, sample: -1, read: readGenotype, special: genotype}, ""
	}
	info, inInfo := h.Declared("INFO", id)
	format, inFormat := h.Declared("FORMAT", id)
	switch {
	case kind == "" && inInfo && inFormat:
		return nil, name + " is declared as INFO and as FORMAT: write INFO/" + id + " or FORMAT/" + id
	case inInfo && (kind == "" || kind == "INFO"):
		return &field{
			name: id, isText: info == "String" || info == "Character", flag: info == "Flag", value: -1, sample: -1, read: readInfo,
		}, ""
	case inFormat && kind != "INFO":
		return &field{
			name: id, isText: format == "String" || format == "Character", samples: true, value: -1, sample: -1, read: readFormat,
		}, ""
	}
	return nil, name + " is no column and the header does not declare it"
}

// columns are the fields that every record has.
var columns = map[string]field{
	"CHROM": {isText: true, read: func(_ *field, rec *vcf.Record, _ int) []string { return []string{rec.Chrom} }},
	"POS":   {read: func(_ *field, rec *vcf.Record, _ int) []string { return []string{strconv.Itoa(rec.Pos)} }},
	"REF":   {isText: true, read: func(_ *field, rec *vcf.Record, _ int) []string { return []string{rec.Ref} }},
	"ALT":   {isText: true, read: func(_ *field, rec *vcf.Record, _ int) []string { return rec.Alt }},
	"N_ALT": {read: func(_ *field, rec *vcf.Record, _ int) []string { return []string{strconv.Itoa(len(rec.Alt))} }},
	"QUAL":  {read: func(_ *field, rec *vcf.Record, _ int) []string { return []string{spell(rec.Qual)} }},
	"ID": {isText: true, read: func(_ *field, rec *vcf.Record, _ int) []string {
		if rec.ID == "" {
			return nil
		}
		return strings.Split(rec.ID, ";")
	}},
	"FILTER": {isText: true, special: filters, read: func(_ *field, rec *vcf.Record, _ int) []string { return rec.Filter }},
	"TYPE":   {isText: true, special: types, read: func(_ *field, rec *vcf.Record, _ int) []string { return typesOf(rec) }},
}

func spell(v float64) string {
	if math.IsNaN(v) {
		return "."
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func readInfo(f *field, rec *vcf.Record, _ int) []string {
	v, ok := rec.Info.Get(f.name)
	if f.flag {
		if ok {
			return []string{"1"}
		}
		return []string{"0"}
	}
	if !ok || v == "" {
		return nil
	}
	return strings.Split(v, ",")
}

func readFormat(f *field, rec *vcf.Record, sample int) []string {
	i := slices.Index(rec.Format, f.name)
	if i < 0 || i >= len(rec.Samples[sample]) {
		return nil
	}
	return strings.Split(rec.Samples[sample][i], ",")
}

// readGenotype is GT without a sign in front of its first allele that says nothing, as htslib prints it.
func readGenotype(f *field, rec *vcf.Record, sample int) []string {
	values := readFormat(f, rec, sample)
	if len(values) == 1 && values[0] != "" && (values[0][0] == '|' || values[0][0] == '/') {
		if g, err := vcf.ParseGenotype(values[0], len(rec.Alt)); err == nil {
			values[0] = g.String()
		}
	}
	return values
}

// subscript chooses values; it returns the reason why it can not.
func (f *field) subscript(s string) string {
	if _, isColumn := columns[f.name]; isColumn || f.flag || f.name == "GT" {
		return f.name + " has no subscripts"
	}
	first, second, two := strings.Cut(s, ":")
	set := func(to *int, s string) bool {
		if s == "*" || s == "" {
			return true
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return false
		}
		*to = n
		return true
	}
	ok := false
	switch {
	case f.samples && two:
		ok = set(&f.sample, first) && set(&f.value, second)
	case f.samples:
		ok = set(&f.sample, first)
	case !two:
		ok = set(&f.value, first)
	}
	if !ok {
		return "subscript [" + s + "] is not supported: want a number from 0 or *"
	}
	return ""
}

// values are the chosen values of the site, or of one sample.
func (f *field) values(rec *vcf.Record, sample int) []string {
	if f.samples && f.sample >= 0 && sample != f.sample {
		return nil
	}
	v := f.read(f, rec, sample)
	if f.value < 0 {
		return v
	}
	if len(v) == 1 && !f.samples && !f.isText {
		return v // as in bcftools, which ignores the subscript of a number that is alone
	}
	if f.value >= len(v) {
		return nil
	}
	return v[f.value : f.value+1]
}

func (f *field) eval(rec *vcf.Record) vector {
	n := 1
	if f.samples {
		n = len(rec.Samples)
	}
	v := vector{perSample: f.samples, isText: f.isText}
	for i := range n {
		if f.samples && f.sample >= 0 && i != f.sample {
			v.add(nil, f.isText, true)
			continue
		}
		v.add(f.values(rec, i), f.isText, false)
	}
	return v
}

// filters compares FILTER with a list: = and != ask for exactly those, ~ and !~ for those among others.
func filters(_ *field, op, constant string) (predicate, string) {
	var want []string
	if constant != "." {
		want = strings.FieldsFunc(constant, func(r rune) bool { return r == ';' || r == ',' })
	}
	test := func(rec *vcf.Record) bool {
		have := rec.Filter
		if len(want) == 0 {
			return len(have) == 0
		}
		for _, w := range want {
			if !slices.Contains(have, w) {
				return false
			}
		}
		return op == "~" || op == "!~" || len(have) == len(want)
	}
	switch op {
	case "=", "~":
		return site(test), ""
	case "!=", "!~":
		return site(func(rec *vcf.Record) bool { return !test(rec) }), ""
	}
	return nil, "FILTER is compared with =, !=, ~ and !~"
}

// types compares TYPE with one: = asks for all alleles to be of it, ~ for one.
func types(_ *field, op, constant string) (predicate, string) {
	if !slices.Contains([]string{"snp", "indel", "mnp", "bnd", "overlap", "other", "ref"}, constant) {
		return nil, "TYPE is one of snp, indel, mnp, bnd, overlap, other and ref"
	}
	test := func(rec *vcf.Record) bool {
		have := typesOf(rec)
		if op == "~" || op == "!~" {
			return slices.Contains(have, constant)
		}
		return len(have) == 1 && have[0] == constant
	}
	switch op {
	case "=", "~":
		return site(test), ""
	case "!=", "!~":
		return site(func(rec *vcf.Record) bool { return !test(rec) }), ""
	}
	return nil, "TYPE is compared with =, !=, ~ and !~"
}

// typesOf are the types of a record's alleles, each once; "ref" only if there is no other.
func typesOf(rec *vcf.Record) []string {
	var out []string
	for _, alt := range rec.Alt {
		if t := typeOf(rec.Ref, alt); t != "ref" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	if out == nil {
		return []string{"ref"}
	}
	return out
}

func typeOf(ref, alt string) string {
	switch {
	case alt == "*":
		return "overlap"
	case alt == "<*>" || alt == "<X>" || alt == "<NON_REF>" || alt == "." || strings.EqualFold(ref, alt):
		return "ref"
	case strings.ContainsAny(alt, "[]"):
		return "bnd"
	case alt[0] == '<':
		return "other"
	}
	r, a := strings.ToUpper(ref), strings.ToUpper(alt)
	for len(r) > 0 && len(a) > 0 && r[0] == a[0] {
		r, a = r[1:], a[1:]
	}
	for len(r) > 0 && len(a) > 0 && r[len(r)-1] == a[len(a)-1] {
		r, a = r[:len(r)-1], a[:len(a)-1]
	}
	switch {
	case len(r) == 0 || len(a) == 0:
		return "indel"
	case len(r) != len(a):
		return "other"
	case len(r) == 1:
		return "snp"
	}
	return "mnp"
}

// genotype compares GT with a class of genotypes; nil for one that is spelled out.
func genotype(f *field, op, constant string) (predicate, string) {
	if op != "=" && op != "!=" {
		return nil, ""
	}
	var test func(vcf.Genotype) bool
	switch lower := strings.ToLower(constant); {
	case lower == "mis":
		test = func(a vcf.Genotype) bool { return !complete(a) }
	case lower == "ref":
		test = known(func(a vcf.Genotype) bool { return nonReference(a) == 0 })
	case lower == "alt":
		test = known(func(a vcf.Genotype) bool { return nonReference(a) > 0 })
	case lower == "het":
		test = known(func(a vcf.Genotype) bool { return len(a) > 1 && !alike(a) })
	case lower == "hom":
		test = known(func(a vcf.Genotype) bool { return len(a) > 1 && alike(a) })
	case lower == "hap":
		test = known(func(a vcf.Genotype) bool { return len(a) == 1 })
	case lower == "r":
		test = known(func(a vcf.Genotype) bool { return len(a) == 1 && nonReference(a) == 0 })
	case constant == "A" || constant == "a":
		test = known(func(a vcf.Genotype) bool { return len(a) == 1 && nonReference(a) == 1 })
	case lower == "rr":
		test = known(func(a vcf.Genotype) bool { return len(a) > 1 && nonReference(a) == 0 })
	case lower == "ra" || lower == "ar":
		test = known(func(a vcf.Genotype) bool { n := nonReference(a); return n > 0 && n < len(a) })
	case constant == "AA" || constant == "aa":
		test = known(func(a vcf.Genotype) bool { return len(a) > 1 && nonReference(a) == len(a) && alike(a) })
	case constant == "aA" || constant == "Aa":
		test = known(func(a vcf.Genotype) bool { return len(a) > 1 && nonReference(a) == len(a) && !alike(a) })
	default:
		return nil, ""
	}
	return &genotypeClass{f, test, op == "!="}, ""
}

// known is test for genotypes without a missing allele.
func known(test func(vcf.Genotype) bool) func(vcf.Genotype) bool {
	return func(g vcf.Genotype) bool { return complete(g) && test(g) }
}

func complete(g vcf.Genotype) bool {
	return !slices.ContainsFunc(g, func(a vcf.CalledAllele) bool { return a.Number == vcf.MissingAllele })
}

func nonReference(g vcf.Genotype) int {
	n := 0
	for _, a := range g {
		if a.Number != 0 {
			n++
		}
	}
	return n
}

func alike(g vcf.Genotype) bool {
	for _, a := range g {
		if a.Number != g[0].Number {
			return false
		}
	}
	return true
}

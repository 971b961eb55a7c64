package filter

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/vcf"
)

// verdict says whether something is true of a record, and of which samples if it is about them.
type verdict struct {
	site    bool
	samples []bool // nil: about the site
}

type predicate interface {
	evaluate(rec *vcf.Record) verdict
}

// operand is what is compared.
type operand interface {
	textual() bool
	eval(rec *vcf.Record) vector
}

// vector is the values of an operand: of the site, or of each sample. A missing value is NaN or ".".
type vector struct {
	perSample bool
	isText    bool
	rows      []row
}

// row is the values of the site or of a sample; with none, all are missing.
type row struct {
	numbers  []float64
	texts    []string
	excluded bool // not asked for
}

func (v *vector) add(values []string, isText, excluded bool) {
	r := row{excluded: excluded}
	if isText {
		r.texts = values
	} else {
		for _, s := range values {
			x, err := strconv.ParseFloat(s, 64)
			if err != nil {
				x = math.NaN()
			}
			r.numbers = append(r.numbers, x)
		}
	}
	v.rows = append(v.rows, r)
}

// row is the values for a sample: those of the site stand for all.
func (v *vector) row(i int) *row {
	if !v.perSample {
		i = 0
	}
	return &v.rows[i]
}

type (
	number  float64
	text    string
	nothing struct{} // the missing value
)

func (number) textual() bool  { return false }
func (text) textual() bool    { return true }
func (nothing) textual() bool { return false }

func (n number) eval(*vcf.Record) vector {
	return vector{rows: []row{{numbers: []float64{float64(n)}}}}
}

func (t text) eval(*vcf.Record) vector {
	return vector{isText: true, rows: []row{{texts: strings.Split(string(t), ",")}}}
}

func (nothing) eval(*vcf.Record) vector {
	return vector{rows: []row{{numbers: []float64{math.NaN()}}}}
}

// arithmetic calculates value by value; one value stands for a list.
type arithmetic struct {
	op          byte
	left, right operand
}

func (*arithmetic) textual() bool { return false }

func (a *arithmetic) eval(rec *vcf.Record) vector {
	l, r := a.left.eval(rec), a.right.eval(rec)
	out := vector{perSample: l.perSample || r.perSample}
	n := 1
	if out.perSample {
		n = len(rec.Samples)
	}
	for i := range n {
		x, y := l.row(i), r.row(i)
		k := max(len(x.numbers), len(y.numbers))
		if len(x.numbers) == 0 || len(y.numbers) == 0 {
			k = 0
		}
		sum := row{excluded: x.excluded || y.excluded}
		for j := range k {
			sum.numbers = append(sum.numbers, a.calculate(at(x.numbers, j), at(y.numbers, j)))
		}
		out.rows = append(out.rows, sum)
	}
	return out
}

// at is element i of v, or its only one; NaN where there is none.
func at(v []float64, i int) float64 {
	if len(v) == 1 {
		return v[0]
	}
	if i >= len(v) {
		return math.NaN()
	}
	return v[i]
}

func (a *arithmetic) calculate(x, y float64) float64 {
	switch a.op {
	case '+':
		return x + y
	case '-':
		return x - y
	case '*':
		return x * y
	}
	return x / y
}

// comparison is true if it is for a pair of values. Where one of the pair is missing, != is true; where both are, = is.
type comparison struct {
	op          string
	left, right operand
	re          *regexp.Regexp // of ~ and !~
}

func (c *comparison) evaluate(rec *vcf.Record) verdict {
	l, r := c.left.eval(rec), c.right.eval(rec)
	if !l.perSample && !r.perSample {
		return verdict{site: c.rows(l.row(0), r.row(0), l.isText)}
	}
	v := verdict{samples: make([]bool, len(rec.Samples))}
	for i := range v.samples {
		x, y := l.row(i), r.row(i)
		v.samples[i] = !x.excluded && !y.excluded && c.rows(x, y, l.isText)
		v.site = v.site || v.samples[i]
	}
	return v
}

func (c *comparison) rows(x, y *row, isText bool) bool {
	if !isText {
		return pairs(x.numbers, y.numbers, math.NaN(), c.numbers)
	}
	if c.re == nil {
		return pairs(x.texts, y.texts, ".", c.texts)
	}
	values := x.texts
	if len(values) == 0 {
		values = []string{"."}
	}
	return slices.ContainsFunc(values, func(s string) bool {
		if s == "." {
			return c.op == "!~"
		}
		return c.re.MatchString(s) == (c.op == "~")
	})
}

// pairs says whether test holds for a pair of values. A row without values has a missing one.
func pairs[T any](x, y []T, missing T, test func(T, T) bool) bool {
	if len(x) == 0 {
		x = []T{missing}
	}
	if len(y) == 0 {
		y = []T{missing}
	}
	for _, a := range x {
		for _, b := range y {
			if test(a, b) {
				return true
			}
		}
	}
	return false
}

func (c *comparison) texts(a, b string) bool { return (a == b) == (c.op == "=") }

func (c *comparison) numbers(a, b float64) bool {
	if math.IsNaN(a) || math.IsNaN(b) {
		both := math.IsNaN(a) && math.IsNaN(b)
		return c.op == "=" && both || c.op == "!=" && !both
	}
	if max(a, b) <= maxExact { // values of records are single-precision
		a, b = float64(float32(a)), float64(float32(b))
	}
	switch c.op {
	case "=":
		return a == b
	case "!=":
		return a != b
	case "<":
		return a < b
	case "<=":
		return a <= b
	case ">":
		return a > b
	}
	return a >= b
}

// maxExact is the greatest integer up to which single precision represents all integers exactly.
const maxExact = 1 << 24

// logic joins two conditions. within asks for the same sample, where both are about samples.
type logic struct {
	left, right predicate
	and, within bool
}

func (g *logic) evaluate(rec *vcf.Record) verdict {
	l, r := g.left.evaluate(rec), g.right.evaluate(rec)
	if g.and && (!l.site || !r.site) || !g.and && !l.site && !r.site {
		return verdict{samples: g.none(l, r)}
	}
	switch {
	case l.samples == nil && r.samples == nil:
		return verdict{site: true}
	case l.samples == nil || r.samples == nil:
		return g.mixed(l, r)
	}
	v := verdict{site: true, samples: make([]bool, len(l.samples))}
	for i := range v.samples {
		a, b := l.samples[i], r.samples[i]
		switch {
		case g.and && g.within:
			v.samples[i] = a && b
		case !g.and && !g.within:
			v.samples[i] = true
		default:
			v.samples[i] = a || b
		}
	}
	if g.and && g.within {
		v.site = slices.Contains(v.samples, true)
	}
	return v
}

// none is the samples of a condition that is false.
func (g *logic) none(l, r verdict) []bool {
	if l.samples == nil && r.samples == nil {
		return nil
	}
	return make([]bool, max(len(l.samples), len(r.samples)))
}

// mixed is for one condition about the site and one about samples, that are true together.
func (g *logic) mixed(l, r verdict) verdict {
	about, other := l, r
	if about.samples == nil {
		about, other = r, l
	}
	v := verdict{site: true, samples: slices.Clone(about.samples)}
	if !g.and && !g.within && other.site && about.site {
		for i := range v.samples {
			v.samples[i] = true
		}
	}
	return v
}

// site is a condition about the site.
type site func(rec *vcf.Record) bool

func (s site) evaluate(rec *vcf.Record) verdict { return verdict{site: s(rec)} }

// genotypeClass is a condition about genotypes.
type genotypeClass struct {
	field *field
	test  func(vcf.Genotype) bool
	not   bool
}

func (g *genotypeClass) evaluate(rec *vcf.Record) verdict {
	v := verdict{samples: make([]bool, len(rec.Samples))}
	for i := range v.samples {
		values := g.field.values(rec, i)
		gt := "."
		if len(values) > 0 {
			gt = values[0]
		}
		called, err := vcf.ParseGenotype(gt, len(rec.Alt))
		v.samples[i] = (err == nil && g.test(called)) != g.not
		v.site = v.site || v.samples[i]
	}
	return v
}

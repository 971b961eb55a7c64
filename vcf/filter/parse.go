package filter

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/porestream/porestream/vcf"
)

// maxNesting bounds the depth of parentheses.
const maxNesting = 100

// SyntaxError is a fault in an expression.
type SyntaxError struct {
	Expression string
	Offset     int // of the fault, in bytes
	Reason     string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("expression %q: at character %d: %s", e.Expression, e.Offset+1, e.Reason)
}

// Filter is an expression. It does not change and may be shared.
type Filter struct{ root predicate }

// Parse reads an expression about records with the given header. The error is a *SyntaxError.
func Parse(expression string, h *vcf.Header) (*Filter, error) {
	p := &parser{text: expression, header: h}
	root, err := p.or()
	if err == nil && p.next() != 0 {
		err = p.fail(p.at, "expected an operator or the end")
	}
	if err != nil {
		return nil, err
	}
	return &Filter{root}, nil
}

// Match says whether the expression is true of a record.
func (f *Filter) Match(rec *vcf.Record) bool { return f.root.evaluate(rec).site }

type parser struct {
	text   string
	at     int
	depth  int
	header *vcf.Header
}

func (p *parser) fail(at int, format string, args ...any) error {
	return &SyntaxError{p.text, at, fmt.Sprintf(format, args...)}
}

// next is the next character that is no space, 0 at the end.
func (p *parser) next() byte {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

// take takes one of the given operators, the longer ones before their beginnings, if it comes next.
func (p *parser) take(operators ...string) string {
	p.next()
	for _, o := range operators {
		if strings.HasPrefix(p.text[p.at:], o) {
			p.at += len(o)
			return o
		}
	}
	return ""
}

func (p *parser) or() (predicate, error) {
	left, err := p.and()
	for err == nil {
		op := p.take("||", "|")
		if op == "" {
			break
		}
		var right predicate
		right, err = p.and()
		left = &logic{left, right, false, op == "|"}
	}
	return left, err
}

func (p *parser) and() (predicate, error) {
	left, err := p.condition()
	for err == nil {
		op := p.take("&&", "&")
		if op == "" {
			break
		}
		var right predicate
		right, err = p.condition()
		left = &logic{left, right, true, op == "&"}
	}
	return left, err
}

// condition is a comparison, a flag, or an expression in parentheses. Whether a parenthesis holds an expression or a
// number shows only behind it.
func (p *parser) condition() (predicate, error) {
	if p.next() == '(' {
		before := *p
		if c, err := p.parenthesis(); err == nil && !p.goesOn() {
			return c, nil
		} else if p.depth > maxNesting {
			return nil, err
		}
		*p = before
	}
	return p.comparison()
}

func (p *parser) parenthesis() (predicate, error) {
	open := p.at
	p.at++
	if p.depth++; p.depth > maxNesting {
		return nil, p.fail(open, "parentheses are nested deeper than %d", maxNesting)
	}
	c, err := p.or()
	if err != nil {
		return nil, err
	}
	if p.take(")") == "" {
		return nil, p.fail(open, "this parenthesis is not closed")
	}
	p.depth--
	return c, nil
}

// goesOn says whether what comes next continues a number.
func (p *parser) goesOn() bool {
	c := p.next()
	return c != 0 && strings.IndexByte("+-*/=<>~!", c) >= 0
}

func (p *parser) comparison() (predicate, error) {
	begun := p.skip()
	left, err := p.sum()
	if err != nil {
		return nil, err
	}
	at := p.skip()
	op := p.take("==", "=", "!=", "!~", "<=", "<", ">=", ">", "~")
	if op == "" {
		if f, ok := left.(*field); ok && f.flag {
			return &comparison{"!=", left, number(0), nil}, nil
		}
		return nil, p.fail(begun, "this is no condition: compare it with something")
	}
	if op == "==" {
		op = "="
	}
	from := p.skip()
	right, err := p.sum()
	if err != nil {
		return nil, err
	}
	return p.compare(op, at, left, right, from)
}

func (p *parser) skip() int {
	p.next()
	return p.at
}

// compare makes the comparison that the operands ask for.
func (p *parser) compare(op string, at int, left, right operand, from int) (predicate, error) {
	if _, ok := left.(text); ok {
		left, right = right, left
		if i := strings.Index("<>", op[:1]); i >= 0 {
			return nil, p.fail(at, "strings are compared with =, !=, ~ and !~")
		}
	}
	constant, isText := right.(text)
	f, isField := left.(*field)
	if isField && isText && f.special != nil {
		c, reason := f.special(f, op, string(constant))
		if reason != "" {
			return nil, p.fail(from, "%s", reason)
		}
		if c != nil {
			return c, nil
		}
	}
	if op == "~" || op == "!~" {
		if !isText || !left.textual() {
			return nil, p.fail(at, "%s compares a string with a regular expression", op)
		}
		re, err := regexp.Compile(string(constant))
		if err != nil {
			return nil, p.fail(from, "not a regular expression: %s", err)
		}
		return &comparison{op, left, right, re}, nil
	}
	if isText && constant == "." && !left.textual() {
		right = nothing{}
	}
	if left.textual() != right.textual() {
		return nil, p.fail(at, "a string and a number are compared")
	}
	if left.textual() && op != "=" && op != "!=" {
		return nil, p.fail(at, "strings are compared with =, !=, ~ and !~")
	}
	return &comparison{op, left, right, nil}, nil
}

func (p *parser) sum() (operand, error) {
	left, err := p.product()
	for err == nil {
		at := p.skip()
		op := p.take("+", "-")
		if op == "" {
			break
		}
		var right operand
		if right, err = p.product(); err == nil {
			left, err = p.arithmetic(op[0], at, left, right)
		}
	}
	return left, err
}

func (p *parser) product() (operand, error) {
	left, err := p.value()
	for err == nil {
		at := p.skip()
		op := p.take("*", "/")
		if op == "" {
			break
		}
		var right operand
		if right, err = p.value(); err == nil {
			left, err = p.arithmetic(op[0], at, left, right)
		}
	}
	return left, err
}

func (p *parser) arithmetic(op byte, at int, left, right operand) (operand, error) {
	if left.textual() || right.textual() {
		return nil, p.fail(at, "%c calculates with numbers", op)
	}
	return &arithmetic{op, left, right}, nil
}

func (p *parser) value() (operand, error) {
	switch c := p.next(); {
	case c == 0:
		return nil, p.fail(p.at, "the expression ends where a value is expected")
	case c == '(':
		return p.group()
	case c == '"' || c == '\'':
		return p.quoted(c)
	case c == '-':
		p.at++
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		return p.arithmetic('-', p.at, number(0), v)
	case c >= '0' && c <= '9' || c == '.':
		return p.number()
	case isNameByte(c):
		return p.name()
	default:
		return nil, p.fail(p.at, "%q is not expected here", c)
	}
}

// group is a number in parentheses.
func (p *parser) group() (operand, error) {
	open := p.at
	p.at++
	if p.depth++; p.depth > maxNesting {
		return nil, p.fail(open, "parentheses are nested deeper than %d", maxNesting)
	}
	v, err := p.sum()
	if err != nil {
		return nil, err
	}
	if p.take(")") == "" {
		return nil, p.fail(open, "this parenthesis is not closed")
	}
	p.depth--
	return v, nil
}

func (p *parser) quoted(quote byte) (operand, error) {
	n := strings.IndexByte(p.text[p.at+1:], quote)
	if n < 0 {
		return nil, p.fail(p.at, "this string is not closed")
	}
	s := p.text[p.at+1 : p.at+1+n]
	if strings.HasPrefix(s, "@") {
		return nil, p.fail(p.at, "lists in files are not supported")
	}
	p.at += n + 2
	return text(s), nil
}

func (p *parser) number() (operand, error) {
	end := p.at
	for end < len(p.text) {
		c := p.text[end]
		sign := (c == '+' || c == '-') && (p.text[end-1]|0x20) == 'e'
		if !sign && (c < '0' || c > '9') && c != '.' && c|0x20 != 'e' {
			break
		}
		if sign && end == p.at {
			break
		}
		end++
	}
	s := p.text[p.at:end]
	if s == "." {
		p.at = end
		return nothing{}, nil
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, p.fail(p.at, "%q is not a number", s)
	}
	p.at = end
	return number(v), nil
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.'
}

// name is a column or a declared field.
func (p *parser) name() (operand, error) {
	begun := p.at
	for p.at < len(p.text) && (isNameByte(p.text[p.at]) || p.text[p.at] == '/' && isKind(p.text[begun:p.at])) {
		p.at++
	}
	name := p.text[begun:p.at]
	if p.at < len(p.text) && p.text[p.at] == '(' {
		return nil, p.fail(begun, "functions such as %s() are not supported", name)
	}
	f, reason := fieldOf(name, p.header)
	if reason != "" {
		return nil, p.fail(begun, "%s", reason)
	}
	if p.at < len(p.text) && p.text[p.at] == '[' {
		n := strings.IndexByte(p.text[p.at:], ']')
		if n < 0 {
			return nil, p.fail(p.at, "this bracket is not closed")
		}
		if reason := f.subscript(p.text[p.at+1 : p.at+n]); reason != "" {
			return nil, p.fail(p.at, "%s", reason)
		}
		p.at += n + 1
	}
	return f, nil
}

// isKind says whether s is what stands before the slash of a field.
func isKind(s string) bool { return s == "INFO" || s == "FORMAT" || s == "FMT" }

package hgvs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/porestream/porestream/textfile"
)

// MaxLength bounds a description, in bytes.
const MaxLength = 1 << 20

// maxNumber bounds positions, sizes and numbers of copies: longer than any chromosome known.
const maxNumber = 1 << 40

// maxChanges bounds the changes and pieces of one description.
const maxChanges = 10_000

// Parse reads one description. An error names the column and the fault.
func Parse(s string) (Description, error) {
	if len(s) > MaxLength {
		return Description{}, fmt.Errorf("a description of %d bytes: at most %d are read", len(s), MaxLength)
	}
	var d Description
	at, err := d.head(s)
	if err != nil {
		return Description{}, err
	}
	p := parser{s: s, at: at, kind: d.Type}
	if d.Alleles, err = p.alleles(); err != nil {
		return Description{}, err
	}
	return d, nil
}

// head reads what stands before the positions and returns where they begin.
func (d *Description) head(s string) (int, error) {
	if s == "" {
		return 0, errors.New("empty description")
	}
	if i := strings.IndexAny(s, " \t\r\n"); i >= 0 {
		return 0, fmt.Errorf("column %d: a description has no blanks", i+1)
	}
	colon := typeColon(s)
	if colon < 0 {
		if len(s) > 1 && s[1] == '.' {
			return 0, fmt.Errorf("no reference sequence: write REFERENCE:%s", clip(s))
		}
		if strings.Contains(s, ":") {
			return 0, errors.New("no coordinate type: write g., m., o., c. or n. behind the colon")
		}
		return 0, errors.New("no reference sequence and coordinate type: both stand before the change, as in REFERENCE:c.76A>C")
	}
	d.Type = s[colon+1]
	switch d.Type {
	case 'g', 'm', 'o', 'c', 'n':
	case 'p':
		return 0, errors.New("p. describes a protein, which does not say what the DNA is: give a g., m., o., c. or n. description")
	case 'r':
		return 0, errors.New("r. describes RNA, which is not supported: give a g., m., o., c. or n. description")
	default:
		return 0, fmt.Errorf("column %d: coordinate type %q is none of g., m., o., c. and n. for DNA", colon+2, s[colon+1:colon+3])
	}
	d.Reference = s[:colon]
	if strings.HasSuffix(d.Reference, ")") {
		open := strings.IndexByte(d.Reference, '(')
		if open < 0 {
			return 0, errors.New("the reference has a closing parenthesis without an opening one")
		}
		d.Reference, d.Selector = s[:open], s[open+1:colon-1]
		if d.Selector == "" || strings.ContainsAny(d.Selector, "()") {
			return 0, fmt.Errorf("column %d: want the name of one transcript, protein or gene in the parentheses", open+2)
		}
		if d.Reference == "" { // "(GENE):c." is the gene alone
			return 0, fmt.Errorf("column 1: no reference sequence before (%s)", d.Selector)
		}
	}
	if d.Reference == "" {
		return 0, errors.New("column 1: no reference sequence before the colon")
	}
	if strings.ContainsAny(d.Reference, "()[];") {
		return 0, fmt.Errorf("the reference %q is not a name, or a name with another in parentheses", clip(d.Reference))
	}
	return colon + 3, nil
}

// typeColon is the index of the first colon that a coordinate type follows, or -1: names may have colons.
func typeColon(s string) int {
	for i := 0; i+2 < len(s); i++ {
		if s[i] == ':' && s[i+2] == '.' && (s[i+1] >= 'a' && s[i+1] <= 'z') {
			return i
		}
	}
	return -1
}

func clip(s string) string { return textfile.Clip(s, 60) }

// parser reads the part behind the coordinate type.
type parser struct {
	s    string
	at   int
	kind byte
	n    int // changes and pieces so far
}

func (p *parser) errorf(format string, args ...any) error {
	return fmt.Errorf("column %d: %w", p.at+1, fmt.Errorf(format, args...))
}

// peek is the next byte, or 0 at the end.
func (p *parser) peek() byte {
	if p.at < len(p.s) {
		return p.s[p.at]
	}
	return 0
}

// take reads the literal if it is next.
func (p *parser) take(literal string) bool {
	if strings.HasPrefix(p.s[p.at:], literal) {
		p.at += len(literal)
		return true
	}
	return false
}

// count bounds what one description may ask for.
func (p *parser) count() error {
	if p.n++; p.n > maxChanges {
		return p.errorf("more than %d changes and pieces", maxChanges)
	}
	return nil
}

// rest describes the next characters, for an error.
func (p *parser) rest() string {
	if p.at >= len(p.s) {
		return "the end"
	}
	return fmt.Sprintf("%q", clip(p.s[p.at:]))
}

// alleles reads one allele or several.
func (p *parser) alleles() ([]Allele, error) {
	var list []Allele
	unphased := false
	for {
		more, err := p.allele(unphased)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
		switch {
		case p.at == len(p.s):
			return list, nil
		case p.take("(;)"):
			unphased = true
		case p.take(";"):
			unphased = false
			if list[len(list)-1].Bare || p.peek() != '[' {
				return nil, p.errorf("several changes stand in brackets: [A;B] on one molecule, [A];[B] on two, A(;)B if it is not known")
			}
		default:
			return nil, p.trailing()
		}
	}
}

// allele reads a change, or changes in brackets; more than one allele comes of changes in brackets that "(;)"
// separates.
func (p *parser) allele(unphased bool) ([]Allele, error) {
	if !p.take("[") {
		c, err := p.change()
		return []Allele{{Changes: []Change{c}, Unphased: unphased, Bare: true}}, err
	}
	list := []Allele{{Unphased: unphased}}
	for {
		c, err := p.change()
		if err != nil {
			return nil, err
		}
		last := &list[len(list)-1]
		last.Changes = append(last.Changes, c)
		switch {
		case p.take("]"):
			return list, nil
		case p.take(";"):
		case p.take("(;)"):
			list = append(list, Allele{Unphased: true})
		case p.peek() == ',':
			return nil, p.errorf("several sequences that come of one change (,) are not supported")
		case p.at == len(p.s):
			return nil, p.errorf("the bracket is not closed")
		default:
			return nil, p.trailing()
		}
	}
}

// trailing names what stands where a change should have ended.
func (p *parser) trailing() error {
	switch {
	case p.take("//"), p.take("/"):
		return p.errorf("mosaic and chimeric descriptions (/ and //) are not supported")
	case p.take("^"):
		return p.errorf("alternatives (^) are not supported")
	case p.take("|"):
		return p.errorf("methylation and other modifications (|) are not supported")
	case p.take("::"):
		return p.errorf("rearranged chromosomes (::) are not supported")
	}
	return p.errorf("want the end of the change, have %s", p.rest())
}

// change reads one change.
func (p *parser) change() (Change, error) {
	if err := p.count(); err != nil {
		return Change{}, err
	}
	switch {
	case p.take("="):
		return Change{Kind: Equal, Whole: true}, nil
	case p.at == len(p.s):
		return Change{}, p.errorf("no change")
	case p.isAlone('?'):
		return Change{}, p.errorf("an unknown change (?) has no sequence")
	case p.isAlone('0'):
		return Change{}, p.errorf("the absence of a molecule (0) is not a change of one")
	}
	if strings.HasPrefix(p.s[p.at:], "IVS") {
		return Change{}, p.errorf("positions by intron number (IVS) are not part of the nomenclature: write the nearest exonic base, as in c.88-2")
	}
	l, err := p.location()
	if err != nil {
		return Change{}, err
	}
	c := Change{Location: l}
	return c, p.what(&c)
}

// isAlone reports whether a single letter is all of the change.
func (p *parser) isAlone(letter byte) bool {
	if p.peek() != letter {
		return false
	}
	return p.at+1 == len(p.s) || p.s[p.at+1] == ']' || p.s[p.at+1] == ';'
}

// location reads a position or a range.
func (p *parser) location() (Location, error) {
	start, err := p.point()
	if err != nil {
		return Location{}, err
	}
	l := Location{Start: start, End: start}
	if p.take("_") {
		l.Range = true
		l.End, err = p.point()
	}
	return l, err
}

// point reads a position or two in parentheses.
func (p *parser) point() (Point, error) {
	if !p.take("(") {
		pos, err := p.position()
		return Point{Position: pos}, err
	}
	from, err := p.position()
	if err != nil {
		return Point{}, err
	}
	if !p.take("_") {
		return Point{}, p.errorf("want _ and another position: parentheses are for uncertain positions, (100_200), and not for predicted changes of DNA")
	}
	to, err := p.position()
	if err != nil {
		return Point{}, err
	}
	if !p.take(")") {
		return Point{}, p.errorf("want ) behind an uncertain position, have %s", p.rest())
	}
	return Point{Position: from, Uncertain: true, To: to}, nil
}

// position reads one position.
func (p *parser) position() (Position, error) {
	if p.take("?") {
		return Position{Unknown: true}, nil
	}
	for _, word := range []string{"pter", "qter"} {
		switch {
		case !strings.HasPrefix(p.s[p.at:], word):
		case p.kind == 'm' || p.kind == 'o':
			return Position{}, p.errorf("%s is the end of a linear molecule: m. and o. describe circular ones", word)
		default:
			p.at += len(word)
			return Position{End: word[0]}, nil
		}
	}
	if strings.HasPrefix(p.s[p.at:], "cen") {
		return Position{}, p.errorf("cen, a place without a number, is not supported")
	}
	var pos Position
	transcript := p.kind == 'c' || p.kind == 'n'
	switch c := p.peek(); {
	case (c == '-' || c == '*') && p.kind == 'c':
		pos.Region = c
		p.at++
	case c == '-' || c == '*':
		return pos, p.errorf("%q: positions before the start codon or behind the stop codon are for c. only", c)
	}
	n, err := p.number("a position")
	if err != nil {
		return pos, err
	}
	if n == 0 {
		return pos, p.errorf("there is no position 0: bases count from 1")
	}
	pos.Base = n
	sign := p.peek()
	if sign != '+' && sign != '-' {
		return pos, nil
	}
	if !transcript {
		return pos, p.errorf("offsets into introns are for c. and n. only")
	}
	p.at++
	if p.take("?") {
		pos.UnknownOffset = sign
		return pos, nil
	}
	if pos.Offset, err = p.number("an offset"); err != nil {
		return pos, err
	}
	if pos.Offset == 0 {
		return pos, p.errorf("there is no offset 0: the bases of an intron count from 1")
	}
	if sign == '-' {
		pos.Offset = -pos.Offset
	}
	return pos, nil
}

// number reads digits.
func (p *parser) number(what string) (int, error) {
	begin, n := p.at, 0
	for ; p.peek() >= '0' && p.peek() <= '9'; p.at++ {
		if n = 10*n + int(p.peek()-'0'); n > maxNumber {
			return 0, p.errorf("the number is too large for %s", what)
		}
	}
	if p.at == begin {
		return 0, p.errorf("want %s, have %s", what, p.rest())
	}
	return n, nil
}

// what reads the kind of change and its sequences.
func (p *parser) what(c *Change) error {
	switch {
	case p.take("delins"):
		c.Kind = Delins
		return p.inserted(c)
	case p.take("del"):
		return p.deletion(c)
	case p.take("dup"):
		c.Kind = Duplication
		if err := p.present(c); err != nil {
			return err
		}
		if strings.HasPrefix(p.s[p.at:], "ins") {
			return p.errorf("dupins is not part of the nomenclature: write [%sdup;…ins…]", c.Location)
		}
		return nil
	case p.take("inv"):
		c.Kind = Inversion
		return p.present(c)
	case p.take("ins"):
		c.Kind = Insertion
		return p.inserted(c)
	case p.take("con"): // a conversion, since version 20 a delins
		c.Kind = Delins
		return p.inserted(c)
	case p.take("="):
		c.Kind = Equal
		return nil
	case p.peek() == '[':
		return p.repeat(c, "")
	case p.take("sup"):
		return p.errorf("supernumerary chromosomes (sup) are not supported")
	case p.at == len(p.s) || p.peek() == ']' || p.peek() == ';':
		return p.errorf("no change behind the position")
	case p.take(">"): // without the base that is replaced
		return p.substitution(c, "")
	}
	begin := p.at
	bases, err := p.bases()
	if err != nil {
		return err
	}
	switch {
	case bases == "":
		p.at = begin
		return p.trailing()
	case p.take("="):
		c.Kind, c.Ref = Equal, bases
		return nil
	case p.take(">"):
		return p.substitution(c, bases)
	case p.peek() == '[':
		return p.repeat(c, bases)
	}
	return p.errorf("want > or [ behind the bases, have %s", p.rest())
}

// substitution reads the new bases. One base is replaced by one; people write the sign for others, too, which is a
// delins.
func (p *parser) substitution(c *Change, ref string) error {
	alt, err := p.bases()
	switch {
	case err != nil:
		return err
	case alt == "":
		return p.errorf("want the new base behind >, have %s", p.rest())
	}
	c.Kind, c.Ref, c.New = Substitution, ref, []Part{{Bases: alt, Copies: 1}}
	if len(ref) != 1 || len(alt) != 1 || c.Location.Range {
		c.Kind = Delins
	}
	return nil
}

// deletion reads what follows "del": nothing, the bases or their number, and what takes their place.
func (p *parser) deletion(c *Change) error {
	c.Kind = Deletion
	if err := p.present(c); err != nil {
		return err
	}
	if p.take("ins") {
		c.Kind = Delins
		return p.inserted(c)
	}
	return nil
}

// present reads the bases that are said to be there, or their number.
func (p *parser) present(c *Change) (err error) {
	if d := p.peek(); d >= '0' && d <= '9' {
		if c.Size, err = p.number("a size"); err == nil && c.Size == 0 {
			return p.errorf("a size of 0 bases")
		}
		return err
	}
	c.Ref, err = p.bases()
	if err == nil && c.Ref != "" && p.peek() == '[' {
		return p.errorf("an unknown place of bases that are counted is not supported")
	}
	return err
}

// repeat reads units with their numbers of copies; the first unit's bases are read already.
func (p *parser) repeat(c *Change, bases string) error {
	c.Kind = Repeat
	for {
		if err := p.count(); err != nil {
			return err
		}
		u := Part{Bases: bases}
		if err := p.copies(&u); err != nil {
			return err
		}
		c.New = append(c.New, u)
		var err error
		if bases, err = p.bases(); err != nil {
			return err
		}
		if bases == "" {
			return nil
		}
		if p.peek() != '[' {
			return p.errorf("want the number of copies in brackets, have %s", p.rest())
		}
	}
}

// copies reads "[n]".
func (p *parser) copies(u *Part) error {
	if !p.take("[") {
		u.Copies = 1
		return nil
	}
	if p.peek() == '(' || p.peek() == '?' {
		return p.errorf("an uncertain number of copies has no single sequence")
	}
	n, err := p.number("a number of copies")
	if err != nil {
		return err
	}
	if !p.take("]") {
		return p.errorf("want ] behind the number of copies, have %s", p.rest())
	}
	u.Copies, u.Counted = n, true
	return nil
}

// inserted reads a piece of sequence, or several in brackets.
func (p *parser) inserted(c *Change) error {
	if !p.take("[") {
		for {
			part, err := p.part()
			if err != nil {
				return err
			}
			c.New = append(c.New, part)
			// Units with counts follow each other: A[10]T[3].
			if !part.Counted || p.at == len(p.s) || !isBase(p.peek()) {
				return nil
			}
		}
	}
	for {
		part, err := p.part()
		if err != nil {
			return err
		}
		c.New = append(c.New, part)
		switch {
		case p.take("]"):
			return nil
		case p.take(";"):
		case part.Counted && isBase(p.peek()):
		default:
			return p.errorf("want ; or ] in the inserted sequence, have %s", p.rest())
		}
	}
}

// part reads one piece: bases, or a range of this or of another sequence.
func (p *parser) part() (Part, error) {
	if err := p.count(); err != nil {
		return Part{}, err
	}
	part := Part{Copies: 1}
	end := p.at + strings.IndexAny(p.s[p.at:]+"]", ";]")
	kind := p.kind
	if colon := typeColon(p.s[p.at:end]); colon >= 0 {
		part.Reference, part.Type = p.s[p.at:p.at+colon], p.s[p.at+colon+1]
		if part.Reference == "" || strings.ContainsAny(part.Reference, "[") || !strings.ContainsRune("gmocn", rune(part.Type)) {
			return part, p.errorf("want the name of a sequence and g., m., o., c. or n., have %s", p.rest())
		}
		p.at += colon + 3
		p.kind = part.Type
	} else if strings.Contains(p.s[p.at:end], ":") {
		return part, p.errorf("no coordinate type behind the name of the inserted sequence: want g., m., o., c. or n., have %s", p.rest())
	}
	defer func() { p.kind = kind }()
	var err error
	if part.Reference == "" {
		if part.Bases, err = p.bases(); err != nil {
			return part, err
		}
	}
	if part.Bases == "" {
		if err := p.copied(&part); err != nil {
			return part, err
		}
	}
	part.Inverted = p.take("inv")
	if p.peek() == '[' {
		err = p.copies(&part)
	}
	part.Inverted = part.Inverted || p.take("inv")
	return part, err
}

// copied reads the range that a piece is copied from.
func (p *parser) copied(part *Part) error {
	switch c := p.peek(); {
	case p.at == len(p.s) || c == ']' || c == ';':
		return p.errorf("what is inserted is not said: give its bases, or the range that it is a copy of")
	case c == '?' && p.isAlone('?'):
		return p.errorf("unknown bases (?) are not supported")
	}
	begin := p.at
	l, err := p.location()
	if err != nil {
		return err
	}
	if !l.Range && part.Reference == "" {
		p.at = begin
		return p.errorf("a number of unknown bases (%s) is not supported: give the bases, or the range that they are a copy of", l)
	}
	part.Location = &l
	return nil
}

func isBase(c byte) bool {
	return strings.IndexByte("ACGTURYKMSWBDHVNacgturykmswbdhvn", c) >= 0 && c != 0
}

// bases reads nucleotide letters and returns them in upper case. What begins a keyword is not a base.
func (p *parser) bases() (string, error) {
	begin := p.at
	for isBase(p.peek()) && !p.keyword() {
		p.at++
	}
	s := strings.ToUpper(p.s[begin:p.at])
	if i := strings.IndexByte(s, 'U'); i >= 0 {
		p.at = begin + i
		return "", p.errorf("U is a base of RNA: a description of DNA has T")
	}
	return s, nil
}

// keyword reports whether the next letters are a word of the grammar rather than bases.
func (p *parser) keyword() bool {
	switch c := p.peek(); c {
	case 'd':
		return strings.HasPrefix(p.s[p.at:], "del") || strings.HasPrefix(p.s[p.at:], "dup")
	case 'c':
		return strings.HasPrefix(p.s[p.at:], "con")
	case 's':
		return strings.HasPrefix(p.s[p.at:], "sup")
	}
	return false
}

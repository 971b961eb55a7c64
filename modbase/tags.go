package modbase

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/porestream/porestream/textfile"
)

// What can be wrong with the tags of a read. Each is of its read alone: the read is still a read.
var (
	// ErrSyntax is an MM that isn't as the specification has it.
	ErrSyntax = errors.New("MM is no list of modified bases")
	// ErrProbabilities is an ML that has fewer or more values than MM has bases.
	ErrProbabilities = errors.New("ML doesn't fit MM")
	// ErrBehind is an MM that skips more bases than the read has.
	ErrBehind = errors.New("MM points behind the read")
	// ErrNoProbabilities is an MM without an ML, of which nothing can be counted.
	ErrNoProbabilities = errors.New("MM has no ML")
	// ErrSum is an ML of which the probabilities of one base add up to more than 1.
	ErrSum = errors.New("ML gives one base probabilities that add up to more than 1")
	// ErrKinds is an MM with modifications of more kinds than are kept apart.
	ErrKinds = errors.New("there are more than 64 kinds of modifications")
	// ErrLength is an MN that is not the length of the read: it was cut, and its tags were not.
	ErrLength = errors.New("MN is not the length of the read")
)

// Skipped says what the bases are that a list doesn't name though they are of its kind.
type Skipped byte

// The choices; what isn't said means Unmodified.
const (
	Unstated   Skipped = 0
	Unmodified Skipped = '.'
	Unknown    Skipped = '?'
)

// List is what one entry of MM says.
type List struct {
	// Base is A, C, G, T, U or N as it stands in the read; N is any base. T and U are the same
	// in a BAM file.
	Base byte
	// Opposite says that the modification is on the other strand, of which the read shows the
	// complement, as of duplex reads.
	Opposite bool
	// Codes are the modifications that were searched for at each place, at least one.
	Codes []Code
	// Skipped says what those bases are that aren't listed.
	Skipped Skipped
	// Skips has for each base that is listed how many of its kind stand before it, behind the
	// one that is listed before.
	Skips []int32
	// Probabilities are of each base in turn those of all codes, in 256ths: p stands for what
	// is at least p/256 and less than (p+1)/256. Nil: there is no ML.
	Probabilities []byte
}

// Implicit reports whether bases that aren't listed are unmodified.
func (l *List) Implicit() bool { return l.Skipped != Unknown }

// Tags are the tags MM, ML and MN of a read.
type Tags struct {
	Lists []List
	// Length is how long the read was; 0: it isn't said.
	Length int
}

// Parse reads the tags. ml is nil and length 0 where the tag isn't there. Lists keep parts of ml.
// What it returns is consistent in itself; whether it is of a read, [Tags.Check] reports. Errors
// are ErrSyntax and ErrProbabilities, with details.
func Parse(mm string, ml []byte, length int) (*Tags, error) {
	t := &Tags{Length: length}
	if err := t.parse(mm, ml); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Tags) parse(mm string, ml []byte) error {
	left := ml
	for rest := mm; rest != ""; {
		entry, after, ended := strings.Cut(rest, ";")
		if !ended {
			return fmt.Errorf("%w: %q has no ; at its end", ErrSyntax, clip(entry))
		}
		rest = after
		t.Lists = append(t.Lists, List{})
		l := &t.Lists[len(t.Lists)-1]
		if err := l.parse(entry); err != nil {
			return err
		}
		if ml == nil {
			continue
		}
		n := len(l.Skips) * len(l.Codes)
		if n > len(left) {
			return fmt.Errorf("%w: it has %d values, and %s needs more", ErrProbabilities, len(ml), l.head(nil))
		}
		l.Probabilities, left = left[:n:n], left[n:]
	}
	if len(left) > 0 {
		return fmt.Errorf("%w: it has %d values, of which %d are of no base", ErrProbabilities, len(ml), len(left))
	}
	return nil
}

// parse reads an entry without the semicolon.
func (l *List) parse(entry string) error {
	wrong := func(what string) error { return fmt.Errorf("%w: %q: %s", ErrSyntax, clip(entry), what) }
	head, skips, some := strings.Cut(entry, ",")
	if len(head) < 3 || strings.IndexByte("ACGTUN", head[0]) < 0 || head[1] != '+' && head[1] != '-' {
		return wrong("want a base of ACGTUN, + or -, and a code")
	}
	l.Base, l.Opposite = head[0], head[1] == '-'
	codes := head[2:]
	if last := codes[len(codes)-1]; last == byte(Unmodified) || last == byte(Unknown) {
		l.Skipped, codes = Skipped(last), codes[:len(codes)-1]
	}
	if codes == "" {
		return wrong("it has no code")
	}
	if codes[0] >= '0' && codes[0] <= '9' {
		n, err := strconv.ParseInt(codes, 10, 32)
		if err != nil || n == 0 {
			return wrong("a number must stand alone, and be one of ChEBI")
		}
		l.Codes = []Code{Code(-n)}
	} else {
		l.Codes = make([]Code, len(codes))
		for i := range len(codes) {
			if !letter(codes[i]) {
				return wrong("a code is a letter or a number")
			}
			l.Codes[i] = Code(codes[i])
		}
	}
	if !some {
		return nil
	}
	l.Skips = make([]int32, 0, 1+strings.Count(skips, ","))
	n, digits := int64(0), 0
	for i := 0; i <= len(skips); i++ {
		switch {
		case i < len(skips) && skips[i] >= '0' && skips[i] <= '9':
			if n = 10*n + int64(skips[i]-'0'); n > math.MaxInt32 {
				return wrong("it skips more bases than a read can have")
			}
			digits++
		case digits > 0 && (i == len(skips) || skips[i] == ','):
			l.Skips = append(l.Skips, int32(n))
			n, digits = 0, 0
		default:
			return wrong("bases are skipped by whole numbers")
		}
	}
	return nil
}

// clip shortens a text for an error.
func clip(s string) string { return textfile.Clip(s, 40) }

// head appends what an entry begins with.
func (l *List) head(b []byte) []byte {
	strand := byte('+')
	if l.Opposite {
		strand = '-'
	}
	b = append(b, l.Base, strand)
	for _, c := range l.Codes {
		if c < 0 {
			b = strconv.AppendInt(b, -int64(c), 10)
		} else {
			b = append(b, byte(c))
		}
	}
	if l.Skipped != Unstated {
		b = append(b, byte(l.Skipped))
	}
	return b
}

// MM is the text of the tag MM.
func (t *Tags) MM() string {
	var b []byte
	for i := range t.Lists {
		l := &t.Lists[i]
		b = l.head(b)
		for _, n := range l.Skips {
			b = strconv.AppendInt(append(b, ','), int64(n), 10)
		}
		b = append(b, ';')
	}
	return string(b)
}

// ML is the value of the tag ML; nil: there is none.
func (t *Tags) ML() []byte {
	var b []byte
	for i := range t.Lists {
		if t.Lists[i].Probabilities != nil && b == nil {
			b = []byte{}
		}
		b = append(b, t.Lists[i].Probabilities...)
	}
	return b
}

// Unlisted are the codes to which the specification gives no meaning, each once. They are read
// and written as any other.
func (t *Tags) Unlisted() []Code {
	var codes []Code
	seen := make(map[Code]bool)
	for i := range t.Lists {
		for _, c := range t.Lists[i].Codes {
			if !c.Known() && !seen[c] {
				seen[c] = true
				codes = append(codes, c)
			}
		}
	}
	return codes
}

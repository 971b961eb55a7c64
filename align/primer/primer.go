// Package primer reads primer schemes of tiled amplicons and says which bases of a read are a primer's.
//
// The bases of a primer were synthesized and don't come from the sample: where a variant lies under a primer, reads that begin
// with the primer show the reference. So they are no evidence there; the neighbouring amplicon's reads, which pass through
// the place, are.
package primer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/textfile"
)

// slack is how many bases beside a primer an alignment may end and still end in it: adapters align by chance.
const slack = 10

// Bounds of what is read.
const (
	maxLine    = 64 << 10
	maxPrimers = 100_000
)

// Primer is a stretch of the reference that a primer binds.
type Primer struct {
	Name       string
	Amplicon   string // the name up to _LEFT or _RIGHT
	Start, End int    // 0-based, half open
	Right      bool   // it primes the reverse strand: the amplicon's right end
}

// Scheme is the primers of a panel of amplicons.
type Scheme struct {
	contigs   map[string]*sides
	primers   int
	amplicons int
}

type sides struct{ left, right []Primer }

// Ends says which primers an alignment's ends lie in.
type Ends int

// The kinds of ends.
const (
	Both    Ends = iota // the two of one amplicon
	Mixed               // of two amplicons
	One                 // one end lies in a primer
	None                // neither
	Nothing             // nothing but primers
	Kinds               // how many there are
)

func (e Ends) String() string {
	return [Kinds]string{"both", "mixed", "one", "none", "nothing_left"}[e]
}

// Primers and Amplicons are how many there are.
func (s *Scheme) Primers() int { return s.primers }

// Amplicons is how many amplicons the primers make.
func (s *Scheme) Amplicons() int { return s.amplicons }

// Open reads a scheme. length is that of a contig of the reference.
func Open(path string, length func(contig string) (int, bool)) (*Scheme, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the primer scheme: %w", err)
	}
	defer f.Close()
	return Read(f, path, length)
}

// Read reads a scheme in BED: contig, start from 0, end, name, pool, strand, and what may follow. A name ends in
// _LEFT or _RIGHT, and what alternative primers have behind that, as _LEFT_alt1 or _LEFT_1.
func Read(r io.Reader, path string, length func(contig string) (int, bool)) (*Scheme, error) {
	text, err := textfile.NewReader(r, 64<<10)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s := &Scheme{contigs: make(map[string]*sides)}
	ends := make(map[string][2]bool)
	in := bufio.NewScanner(text)
	in.Buffer(nil, maxLine)
	n := 0
	for in.Scan() {
		n++
		line := strings.TrimRight(in.Text(), "\r")
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "track") || strings.HasPrefix(line, "browser") {
			continue
		}
		contig, p, err := parse(line, length)
		if err == nil && s.primers == maxPrimers {
			err = fmt.Errorf("more than %d primers", maxPrimers)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if s.contigs[contig] == nil {
			s.contigs[contig] = new(sides)
		}
		side, has := &s.contigs[contig].left, ends[contig+"\t"+p.Amplicon]
		if p.Right {
			side, has[1] = &s.contigs[contig].right, true
		} else {
			has[0] = true
		}
		*side, ends[contig+"\t"+p.Amplicon] = append(*side, p), has
		s.primers++
	}
	if err := in.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a line has more than %d bytes: is this a BED file?", maxLine)
		}
		return nil, fmt.Errorf("%s:%d: %w", path, n+1, err)
	}
	if s.primers == 0 {
		return nil, fmt.Errorf("%s: no primers: a line has contig, start from 0, end, name, pool and strand", path)
	}
	var names []string
	for name := range ends {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if has := ends[name]; has[0] && has[1] {
			s.amplicons++
			continue
		}
		_, amplicon, _ := strings.Cut(name, "\t")
		return nil, fmt.Errorf("%s: amplicon %s has primers at one end only: want NAME_LEFT and NAME_RIGHT", path, amplicon)
	}
	return s, nil
}

var primerName = regexp.MustCompile(`^(.+)_(LEFT|RIGHT)([_-].*)?$`)

func parse(line string, length func(string) (int, bool)) (contig string, p Primer, err error) {
	f := strings.Split(line, "\t")
	if len(f) < 4 {
		f = strings.Fields(line)
	}
	if len(f) < 4 {
		return "", p, fmt.Errorf("%d columns: want contig, start, end, name, pool and strand, separated by tabs", len(f))
	}
	size, known := length(f[0])
	if !known {
		return "", p, fmt.Errorf("the reference has no contig %q: is the scheme for another reference?", f[0])
	}
	start, err1 := strconv.Atoi(f[1])
	end, err2 := strconv.Atoi(f[2])
	if err1 != nil || err2 != nil || start < 0 || end <= start || end > size {
		return "", p, fmt.Errorf("%s-%s: want 0 <= start < end on the contig of %d bases", f[1], f[2], size)
	}
	m := primerName.FindStringSubmatch(f[3])
	if m == nil {
		return "", p, fmt.Errorf("primer %q: want a name that ends in _LEFT or _RIGHT", f[3])
	}
	p = Primer{Name: f[3], Amplicon: m[1], Start: start, End: end, Right: m[2] == "RIGHT"}
	if len(f) > 5 {
		if want := map[bool]string{false: "+", true: "-"}[p.Right]; f[5] != want {
			return "", p, fmt.Errorf("primer %s on strand %q: want %s", p.Name, f[5], want)
		}
	}
	return f[0], p, nil
}

// Trim cuts an alignment to the part outside primers. With [Nothing] it leaves the alignment as it was.
func (s *Scheme) Trim(a *align.Alignment) Ends {
	lo, hi, ends := s.Inside(a.Contig, a.Start, a.End)
	if ends == Nothing || !a.Trim(lo, hi) {
		return Nothing
	}
	return ends
}

// Inside returns the part of an alignment on [start, end) of a contig that is outside primers, and which ends lie in
// primers. Where one amplicon has a primer at either end, its primers count. Of several alternative primers that an end
// lies in, the innermost counts. With [Nothing], hi is not above lo.
func (s *Scheme) Inside(contig string, start, end int) (lo, hi int, ends Ends) {
	lo, hi = start, end
	c := s.contigs[contig]
	if c == nil {
		return lo, hi, None
	}
	var left, right []*Primer
	for i := range c.left {
		if p := &c.left[i]; p.Start-slack <= start && start < p.End {
			left = append(left, p)
		}
	}
	for i := range c.right {
		if p := &c.right[i]; p.Start < end && end <= p.End+slack {
			right = append(right, p)
		}
	}
	has := func(list []*Primer, amplicon string) bool {
		return slices.ContainsFunc(list, func(p *Primer) bool { return p.Amplicon == amplicon })
	}
	paired := slices.ContainsFunc(left, func(p *Primer) bool { return has(right, p.Amplicon) })
	for _, p := range left {
		if !paired || has(right, p.Amplicon) {
			lo = max(lo, p.End)
		}
	}
	for _, p := range right {
		if !paired || has(left, p.Amplicon) {
			hi = min(hi, p.Start)
		}
	}
	switch {
	case hi <= lo:
		return lo, hi, Nothing
	case paired:
		return lo, hi, Both
	case len(left) > 0 && len(right) > 0:
		return lo, hi, Mixed
	case len(left)+len(right) > 0:
		return lo, hi, One
	}
	return lo, hi, None
}

package pileup

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/genome"
)

// Motif is a sequence and the place in it of the base that is modified.
type Motif struct {
	text              string
	sets              []uint8 // of bases by number, as bits
	reverseComplement []uint8 // those of the other strand
	offset            int     // on the plus strand
	reverse           int     // on the minus strand, from the motif's beginning
}

// ParseMotif reads a motif of IUPAC letters and the place of the modified base in it, from 0 on: CG,0.
func ParseMotif(text string) (Motif, error) {
	letters, place, ok := strings.Cut(text, ",")
	if !ok {
		return Motif{}, fmt.Errorf("%q: want a motif and the place of the modified base in it, from 0 on, such as CG,0", text)
	}
	letters = strings.ToUpper(letters)
	m := Motif{text: letters + "," + place}
	for i := range len(letters) {
		set := genome.BaseSet(letters[i])
		if set == 0 {
			return Motif{}, fmt.Errorf("%q: %q is no letter of IUPAC's for bases", text, letters[i])
		}
		m.sets = append(m.sets, set)
		// The complement of base b is 3-b, so the complement of a set is its bits reversed.
		m.reverseComplement = append(m.reverseComplement, set&1<<3|set&2<<1|set&4>>1|set&8>>3)
	}
	slices.Reverse(m.reverseComplement)
	var err error
	if m.offset, err = strconv.Atoi(place); err != nil || m.offset < 0 || m.offset >= len(letters) {
		return Motif{}, fmt.Errorf("%q: the place of the modified base is a number from 0 to %d", text, len(letters)-1)
	}
	m.reverse = len(letters) - 1 - m.offset
	return m, nil
}

// String is the motif as it was written.
func (m *Motif) String() string { return m.text }

// Letters are IUPAC's, in upper case.
func (m *Motif) Letters() string { return m.text[:len(m.sets)] }

// Place is that of the modified base in the letters, from 0 on.
func (m *Motif) Place() int { return m.offset }

// Palindrome reports whether the motif reads the same on both strands.
func (m *Motif) Palindrome() bool { return slices.Equal(m.sets, m.reverseComplement) }

// at reports whether the modified base of a motif on a strand is at a position.
func (m *Motif) at(seq []byte, pos, strand int) bool {
	sets, offset := m.sets, m.offset
	if strand == 1 {
		sets, offset = m.reverseComplement, m.reverse
	}
	start := pos - offset
	if start < 0 || start+len(sets) > len(seq) {
		return false
	}
	for i, set := range sets {
		if set>>number[seq[start+i]]&1 == 0 {
			return false
		}
	}
	return true
}

// site is one place of a motif, of which both strands are added up.
type site struct {
	pos, motif int
	rows       []Row
}

// hold keeps the rows of a position until all of their motifs' places are counted.
func (p *Pile) hold(rows []Row, at, strand int) {
	for _, row := range rows {
		m := &p.cfg.Motifs[row.Motif]
		start := at - m.offset
		if strand == 1 {
			start = at - m.reverse
		}
		pos := start + m.offset
		order := func(s *site, of [2]int) int {
			return cmp.Or(cmp.Compare(s.pos, of[0]), cmp.Compare(s.motif, of[1]))
		}
		i, there := slices.BinarySearchFunc(p.waiting, [2]int{pos, row.Motif}, order)
		if !there {
			p.waiting = slices.Insert(p.waiting, i, &site{pos: pos, motif: row.Motif})
		}
		s := p.waiting[i]
		k := slices.IndexFunc(s.rows, func(r Row) bool { return r.Code == row.Code && r.Group == row.Group })
		if k >= 0 {
			s.rows[k].add(&row)
			continue
		}
		row.Pos, row.Strand = pos, Both
		s.rows = append(s.rows, row)
	}
}

// settle emits what is added up when the positions before end are counted. All wait as long as the
// longest motif needs, so that they come in order.
func (p *Pile) settle(end int) error {
	done := 0
	for ; done < len(p.waiting) && p.waiting[done].pos+p.longest <= end; done++ {
		s := p.waiting[done]
		slices.SortStableFunc(s.rows, func(a, b Row) int { return cmp.Or(cmp.Compare(a.Group, b.Group), a.Code.Compare(b.Code)) })
		for i := range s.rows {
			if err := p.emit(&s.rows[i]); err != nil {
				return err
			}
		}
	}
	p.waiting = slices.Delete(p.waiting, 0, done)
	return nil
}

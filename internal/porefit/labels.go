package porefit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/signal"
)

// Stretch is a part of a read's current, in picoamperes, with its bases if they are
// known.
type Stretch struct {
	Read        string
	Picoamperes []float32
	Bases       []byte // codes; empty if they aren't known
	Begins      []int  // about where each base begins, in samples
}

// molecule is a read as it was aligned.
type molecule struct {
	name       string
	reverse    bool
	start, end int // on the contig
	bases      []byte
	queries    map[int]int // base of the read at a position of the contig
	begins     []int       // samples of the read's bases, in the order in which they passed
}

// pileup is what reads show at each position of a contig.
type pileup struct {
	reference map[int]byte
	votes     map[int]map[byte]int   // a base, or '-' for none
	inserted  map[int]map[string]int // before the position
}

// votesNeeded is how many reads, and what share of them, must agree on something that is
// not in the reference.
const (
	votesNeeded  = 3
	votesPercent = 60
)

// Labelled returns the reads of a recording that a BAM file has aligned, with the bases
// that passed: those of the reference, with what most reads show otherwise, so that
// errors of single reads are none. The BAM file needs the tags MD, mv and ts.
func Labelled(recording, bam string) ([]Stretch, error) {
	molecules, p, err := readAlignments(bam)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", bam, err)
	}
	current, err := Current(recording)
	if err != nil {
		return nil, err
	}
	var out []Stretch
	for _, m := range molecules {
		samples, ok := current[m.name]
		if !ok {
			continue
		}
		bases, begins := p.truth(m)
		first, last := begins[0], begins[len(begins)-1]
		if last > len(samples) {
			return nil, fmt.Errorf("reading %s: read %s has moves behind its last sample", bam, m.name)
		}
		for i := range begins {
			begins[i] -= first
		}
		// The last base's end isn't known.
		out = append(out, Stretch{m.name, samples[first:last], bases[:len(bases)-1], begins[:len(begins)-1]})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no read of %s is in %s", recording, bam)
	}
	return out, nil
}

// Current reads the current of all reads of a recording, by their names.
func Current(path string) (map[string][]float32, error) {
	f, err := signal.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := make(map[string][]float32)
	for {
		read, err := f.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		pa := make([]float32, len(read.Samples))
		for i, s := range read.Samples {
			pa[i] = read.Calibration.Picoamperes(s)
		}
		out[read.ID] = pa
	}
}

func readAlignments(path string) ([]*molecule, *pileup, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	in, err := hts.NewBAMReader(f, 1)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	p := &pileup{make(map[int]byte), make(map[int]map[byte]int), make(map[int]map[string]int)}
	var out []*molecule
	for {
		rec, err := in.Read()
		if errors.Is(err, io.EOF) {
			return out, p, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if rec.Flags&(sam.Unmapped|sam.Secondary|sam.Supplementary) != 0 {
			continue
		}
		m, err := p.add(rec)
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", rec.Name, err)
		}
		out = append(out, m)
	}
}

// add takes a record in.
func (p *pileup) add(rec *sam.Record) (*molecule, error) {
	m := &molecule{name: rec.Name, reverse: rec.Flags&sam.Reverse != 0, start: rec.Pos, bases: rec.Seq.Expand(), queries: make(map[int]int)}
	var matched []int // positions of the contig under M
	query, at := 0, rec.Pos
	gone := make(map[int]bool)
	for _, op := range rec.Cigar {
		n := op.Len()
		switch op.Type() {
		case sam.CigarMatch, sam.CigarEqual, sam.CigarMismatch:
			for range n {
				m.queries[at] = query
				matched = append(matched, at)
				vote(p.votes, at, m.bases[query])
				query, at = query+1, at+1
			}
		case sam.CigarInsertion:
			vote(p.inserted, at, string(m.bases[query:query+n]))
			query += n
		case sam.CigarDeletion:
			for range n {
				gone[at] = true
				vote(p.votes, at, '-')
				at++
			}
		case sam.CigarSoftClipped:
			query += n
		}
	}
	m.end = at
	if err := p.restore(rec, m, matched, gone); err != nil {
		return nil, err
	}
	return m, m.moves(rec)
}

func vote[T comparable](votes map[int]map[T]int, at int, what T) {
	if votes[at] == nil {
		votes[at] = make(map[T]int)
	}
	votes[at][what]++
}

// restore works out the reference under a record from its tag MD.
func (p *pileup) restore(rec *sam.Record, m *molecule, matched []int, gone map[int]bool) error {
	tag := rec.AuxFields.Get(sam.NewTag("MD"))
	md, ok := tag.Value().(string)
	if tag == nil || !ok {
		return errors.New("no tag MD")
	}
	for _, at := range matched {
		p.reference[at] = m.bases[m.queries[at]]
	}
	at := m.start
	for i := 0; i < len(md); {
		switch c := md[i]; {
		case c >= '0' && c <= '9':
			j := i
			for j < len(md) && md[j] >= '0' && md[j] <= '9' {
				j++
			}
			n, err := strconv.Atoi(md[i:j])
			if err != nil {
				return fmt.Errorf("tag MD: %w", err)
			}
			at += n
			i = j
		case c == '^':
			for i++; i < len(md) && strings.IndexByte("ACGTN", md[i]) >= 0; i++ {
				p.reference[at] = md[i]
				at++
			}
		default:
			p.reference[at] = c
			at++
			i++
		}
	}
	if at != m.end {
		return fmt.Errorf("tag MD is of %d bases, the CIGAR of %d", at-m.start, m.end-m.start)
	}
	return nil
}

// moves works out with which sample each base begins.
func (m *molecule) moves(rec *sam.Record) error {
	tag, ts := rec.AuxFields.Get(sam.NewTag("mv")), rec.AuxFields.Get(sam.NewTag("ts"))
	if tag == nil || ts == nil {
		return errors.New("no tags mv and ts")
	}
	moves, ok := tag.Value().([]int8)
	trimmed, err := strconv.Atoi(fmt.Sprint(ts.Value()))
	if !ok || err != nil || len(moves) < 2 {
		return errors.New("tags mv and ts: want bytes and a number")
	}
	for i, moved := range moves[1:] {
		if moved != 0 {
			m.begins = append(m.begins, trimmed+i*int(moves[0]))
		}
	}
	if len(m.begins) != len(m.bases) {
		return fmt.Errorf("%d moves of %d bases", len(m.begins), len(m.bases))
	}
	return nil
}

// truth returns the bases under an alignment, and about where each begins.
func (p *pileup) truth(m *molecule) (bases []byte, begins []int) {
	var letters []byte
	var queries []int // -1: not of the read
	for at := m.start; at < m.end; at++ {
		all := 0
		for _, n := range p.votes[at] {
			all += n
		}
		agreed := func(n int) bool { return n >= votesNeeded && 100*n > votesPercent*all }
		if most, n := winner(p.inserted[at]); agreed(n) && at > m.start {
			for _, c := range []byte(most) {
				letters, queries = append(letters, c), append(queries, -1)
			}
		}
		base := p.reference[at]
		if most, n := winner(p.votes[at]); agreed(n) {
			base = most
		}
		if base == '-' {
			continue
		}
		query, ok := m.queries[at]
		if !ok {
			query = -1
		}
		letters, queries = append(letters, base), append(queries, query)
	}
	if m.reverse {
		slices.Reverse(letters)
		slices.Reverse(queries)
		for i, c := range letters {
			letters[i] = "TGCA"[strings.IndexByte("ACGT", c)]
		}
		for i, q := range queries {
			if q >= 0 {
				queries[i] = len(m.bases) - 1 - q
			}
		}
	}
	for _, c := range letters {
		bases = append(bases, byte(bytes.IndexByte([]byte("ACGT"), c)))
	}
	return bases, places(queries, m.begins)
}

// winner is what has most votes; among equals the least.
func winner[T cmp.Ordered](votes map[T]int) (most T, n int) {
	for what, v := range votes {
		if v > n || v == n && what < most {
			most, n = what, v
		}
	}
	return most, n
}

// places are the begins of bases, between which those that the read doesn't have lie
// evenly.
func places(queries, begins []int) []int {
	out := make([]int, len(queries))
	last := -1 // the last base that is the read's
	for i, q := range queries {
		if q < 0 {
			continue
		}
		out[i] = begins[q]
		for j := last + 1; j < i; j++ {
			if last < 0 {
				out[j] = out[i]
				continue
			}
			out[j] = out[last] + (out[i]-out[last])*(j-last)/(i-last)
		}
		last = i
	}
	for j := last + 1; last >= 0 && j < len(out); j++ {
		out[j] = out[last]
	}
	return out
}

package variant_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// edit is a planted difference of the sample from the reference: reference bases
// [pos, pos+del) become seq.
type edit struct {
	pos, del int
	seq      string
}

// sample is a simulated haploid sample with a reference.
type sample struct {
	rnd    *rand.Rand
	contig *genome.Contig
	edits  []edit // by position
	// systematic makes this share of one strand's reads show a wrong base at a
	// reference position.
	systematic map[int]float64
	// misread is what reads of a strand, the forward one first, show at a position of the
	// reference, and how often; see misreadMotif.
	misread [2]map[int]misread
	// Rates of errors per base.
	mismatch, gap float64
}

func newSample(t testing.TB, seed uint64, length int, edits ...edit) *sample {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 0))
	seq := make([]byte, length)
	for i := range seq {
		seq[i] = "ACGT"[rnd.IntN(4)]
	}
	return &sample{rnd: rnd, contig: contig(t, string(seq)), edits: edits, mismatch: 0.02, gap: 0.01}
}

func contig(t testing.TB, seq string) *genome.Contig {
	t.Helper()
	g, err := genome.Read(strings.NewReader(">chr\n" + seq + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return g.Contigs[0]
}

// misread is a base that a share of reads shows.
type misread struct {
	shows byte
	share float64
}

func strandOf(reverse bool) int {
	if reverse {
		return 1
	}
	return 0
}

// misreadMotif makes reads show a base instead of the at-th of a motif, wherever they read it.
func (s *sample) misreadMotif(motif string, at int, shows byte, share float64) (sites int) {
	expression := "(?i)" + strings.NewReplacer("W", "[AT]", "Y", "[CT]", "R", "[AG]", "N", ".").Replace(motif)
	find := regexp.MustCompile(expression)
	for strand := range 2 {
		if s.misread[strand] == nil {
			s.misread[strand] = make(map[int]misread)
		}
		seq := slices.Clone(s.contig.Seq)
		if strand == 1 {
			genome.ReverseComplement(seq)
		}
		for i := range len(seq) - len(motif) + 1 {
			if !find.Match(seq[i : i+len(motif)]) {
				continue
			}
			sites++
			pos, b := i+at, []byte{shows}
			if strand == 1 {
				pos = len(seq) - 1 - pos
				genome.ReverseComplement(b)
			}
			s.misread[strand][pos] = misread{b[0], share}
		}
	}
	return sites
}

// other is a base that is not b.
func other(b byte) byte { return "CATG"[strings.IndexByte("ACGT", b)] }

// read simulates one read of reference positions [start, end) with its alignment.
func (s *sample) read(id string, start, end int, reverse bool) (*align.Read, *align.Alignment) {
	ref := s.contig.Seq
	var seq, qual []byte
	var ops []align.Op
	add := func(k align.OpKind) {
		if l := len(ops); l > 0 && ops[l-1].Kind == k {
			ops[l-1].Len++
		} else {
			ops = append(ops, align.Op{Kind: k, Len: 1})
		}
	}
	base := func(b, against byte) {
		if b == 'N' {
			b = 'A' // a read has some base where the reference knows none
		}
		q := byte(20 + s.rnd.IntN(10))
		if s.rnd.Float64() < s.mismatch {
			b = "ACGT"[s.rnd.IntN(4)]
			q = byte(5 + s.rnd.IntN(10))
		}
		seq, qual = append(seq, b), append(qual, q)
		switch {
		case against == 0:
			add(align.Insertion)
		case b == against:
			add(align.Match)
		default:
			add(align.Mismatch)
		}
	}
	next := 0
	for next < len(s.edits) && s.edits[next].pos < start+5 {
		next++
	}
	for p := start; p < end; {
		inner := p > start+5 && p < end-20
		if next < len(s.edits) && s.edits[next].pos == p && inner {
			e := s.edits[next]
			next++
			n := min(e.del, len(e.seq))
			for i := range n {
				base(e.seq[i], ref[p+i])
			}
			for i := n; i < e.del; i++ {
				add(align.Deletion)
			}
			for i := n; i < len(e.seq); i++ {
				base(e.seq[i], 0)
			}
			p += e.del
			if e.del > 0 {
				continue
			}
		}
		switch x := s.rnd.Float64(); {
		case inner && x < s.gap/2:
			add(align.Deletion)
			p++
			continue
		case inner && x < s.gap:
			base("ACGT"[s.rnd.IntN(4)], 0)
		}
		b := ref[p]
		if share, ok := s.systematic[p]; ok && reverse && s.rnd.Float64() < share {
			b = other(b)
		}
		if m, ok := s.misread[strandOf(reverse)][p]; ok && b == ref[p] && s.rnd.Float64() < m.share {
			b = m.shows
		}
		base(b, ref[p])
		p++
	}
	a := &align.Alignment{Contig: s.contig.Name, Start: start, End: end, QueryEnd: len(seq), Ops: ops, Reverse: reverse, MappingQuality: 60}
	if reverse {
		genome.ReverseComplement(seq)
		slices.Reverse(qual)
	}
	return &align.Read{Run: "run", Sample: "s", ID: id, Seq: seq, Qualities: qual}, a
}

// segments simulates n reads of the given length over [start, end) of the contig.
func (s *sample) segments(t testing.TB, n, length, start, end int) []*streampb.Segment {
	t.Helper()
	var out []*streampb.Segment
	for i := range n {
		at := start + s.rnd.IntN(end-start-length)
		id := fmt.Sprintf("read-%d-%d", start, i)
		r, a := s.read(id, at, at+length, i%2 == 1)
		r.LastChunkMs = int64(1000 + i)
		segs, err := align.Segments(r, a, s.contig.Seq)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, segs...)
	}
	return out
}

func region(t testing.TB, c *genome.Contig, index int, cfg variant.Config) *variant.Region {
	t.Helper()
	r, err := variant.NewRegion(c, index, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func apply(t testing.TB, r *variant.Region, segments ...*streampb.Segment) {
	t.Helper()
	for _, s := range segments {
		if _, err := r.Apply(s); err != nil {
			t.Fatal(err)
		}
	}
}

func evaluate(t testing.TB, r *variant.Region) []*streampb.Call {
	t.Helper()
	calls, err := r.Evaluate()
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

func finalize(t testing.TB, r *variant.Region) []*streampb.Call {
	t.Helper()
	calls, err := r.Finalize()
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

// name spells a call.
func name(c *streampb.Call) string {
	return fmt.Sprintf("%d %s>%s", c.GetPos(), c.GetRef(), c.GetAlt())
}

// passing are the names of final calls without filters.
func passing(calls []*streampb.Call) []string {
	var out []string
	for _, c := range calls {
		if c.GetStatus() == streampb.CallStatus_FINAL && len(c.GetFilters()) == 0 {
			out = append(out, name(c))
		}
	}
	return out
}

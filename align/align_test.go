package align_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
)

func randomBases(rnd *rand.Rand, n int, alphabet string) []byte {
	s := make([]byte, n)
	for i := range s {
		s[i] = alphabet[rnd.IntN(len(alphabet))]
	}
	return s
}

// randomAlignment mutates ref[start:end] into a read and says how.
func randomAlignment(rnd *rand.Rand, ref []byte, start, end int) (*align.Read, *align.Alignment) {
	var seq []byte
	var ops []align.Op
	add := func(k align.OpKind, n int) {
		if l := len(ops); l > 0 && ops[l-1].Kind == k {
			ops[l-1].Len += n
		} else {
			ops = append(ops, align.Op{Kind: k, Len: n})
		}
	}
	for p := start; p < end; {
		inner := p > start && p < end-10
		switch x := rnd.IntN(100); {
		case x < 4 && inner:
			n := 1 + rnd.IntN(3)
			add(align.Deletion, n)
			p += n
		case x < 8 && inner:
			n := 1 + rnd.IntN(3)
			seq = append(seq, randomBases(rnd, n, "ACGT")...)
			add(align.Insertion, n)
			fallthrough
		default:
			b := ref[p]
			if x >= 95 {
				b = "ACGT"[rnd.IntN(4)]
			}
			seq = append(seq, b)
			if b == ref[p] {
				add(align.Match, 1)
			} else {
				add(align.Mismatch, 1)
			}
			p++
		}
	}
	a := &align.Alignment{Contig: "c", Start: start, End: end, Ops: ops, Reverse: rnd.IntN(2) == 1, MappingQuality: 60}
	// Unaligned ends.
	pre, post := randomBases(rnd, rnd.IntN(5), "ACGT"), randomBases(rnd, rnd.IntN(5), "ACGT")
	full := slices.Concat(pre, seq, post)
	a.QueryStart, a.QueryEnd = len(pre), len(pre)+len(seq)
	if a.Reverse {
		genome.ReverseComplement(full)
		a.QueryStart, a.QueryEnd = len(post), len(post)+len(seq)
	}
	r := &align.Read{ID: "r", Seq: full, Qualities: randomBases(rnd, len(full), "\x05\x0a\x14\x1e"), Dwells: randomBases(rnd, len(full), "\x01\x02\x03")}
	return r, a
}

// aligned is the aligned part of a per-base field, on the reference's strand.
func aligned(a *align.Alignment, field []byte) []byte {
	s := slices.Clone(field[a.QueryStart:a.QueryEnd])
	if a.Reverse {
		slices.Reverse(s)
	}
	return s
}

// A segment and the reference give back the read.
func TestSegmentsKeepTheRead(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		ref := randomBases(rnd, 600, "AACCGT") // repeats, so that gaps move
		start := rnd.IntN(100)
		r, a := randomAlignment(rnd, ref, start, start+100+rnd.IntN(300))
		segments, err := align.Segments(r, a, ref)
		if err != nil {
			t.Fatal(err)
		}
		if len(segments) != 1 {
			t.Fatalf("%d segments in one region", len(segments))
		}
		s := segments[0]
		extent, err := align.Check(s, len(ref))
		if err != nil {
			t.Fatal(err)
		}
		seq := slices.Clone(r.Seq)
		if a.Reverse {
			genome.ReverseComplement(seq)
			seq = seq[len(seq)-a.QueryEnd : len(seq)-a.QueryStart]
		} else {
			seq = seq[a.QueryStart:a.QueryEnd]
		}
		// A gap that moved to the very end of the alignment is left out.
		got := align.Query(s, ref)
		at := bytes.Index(seq, got)
		if at < 0 || len(got) != extent.Query || len(got) < len(seq)-10 {
			t.Fatalf("segment spells\n%s, the read is\n%s", got, seq)
		}
		if want := aligned(a, r.Qualities)[at : at+len(got)]; !bytes.Equal(s.GetQualities(), want) {
			t.Fatalf("qualities %v, want %v", s.GetQualities(), want)
		}
		if want := aligned(a, r.Dwells)[at : at+len(got)]; !bytes.Equal(s.GetDwells(), want) {
			t.Fatalf("dwells %v, want %v", s.GetDwells(), want)
		}
	}
}

// columns lists what a segment says at every reference position.
func columns(s *streampb.Segment, ref []byte) map[int]string {
	out := make(map[int]string)
	pos, bases := int(s.GetStart()), s.GetBases()
	for op, rest, ok := align.Ops(s.GetOps()).Next(); ok; op, rest, ok = rest.Next() {
		for i := range op.Len {
			switch op.Kind {
			case align.Match:
				out[pos+i] += string(ref[pos+i])
			case align.Mismatch:
				out[pos+i] += string(bases[i])
			case align.Deletion:
				out[pos+i] += "-"
			case align.Insertion:
				out[pos-1] += strings.ToLower(string(bases[i]))
			}
		}
		if op.Kind == align.Mismatch || op.Kind == align.Insertion {
			bases = bases[op.Len:]
		}
		if op.Kind != align.Insertion {
			pos += op.Len
		}
	}
	return out
}

// Segments of neighbouring regions agree in their overlap, and every segment
// stays within its region and halo.
func TestSegmentsAtBorders(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	ref := randomBases(rnd, 2*align.RegionWidth+5000, "ACGT")
	for range 30 {
		start := align.RegionWidth - 3000 + rnd.IntN(3500)
		r, a := randomAlignment(rnd, ref, start, start+3000)
		if rnd.IntN(2) == 0 {
			a.Start += align.RegionWidth
			a.End += align.RegionWidth
			r, a = randomAlignment(rnd, ref, a.Start, a.End)
		}
		segments, err := align.Segments(r, a, ref)
		if err != nil {
			t.Fatal(err)
		}
		var seen []map[int]string
		for _, s := range segments {
			if _, err := align.Check(s, len(ref)); err != nil {
				t.Fatal(err)
			}
			cols := columns(s, ref)
			for _, other := range seen {
				for pos, c := range cols {
					// The first and last columns of a segment have lost their gaps.
					if o, ok := other[pos]; ok && o != c && !strings.HasPrefix(o, c) && !strings.HasPrefix(c, o) {
						t.Fatalf("position %d: %q and %q", pos, o, c)
					}
				}
			}
			seen = append(seen, cols)
		}
		first, last := a.Start/align.RegionWidth, (a.End-1)/align.RegionWidth
		if len(segments) < last-first || len(segments) > last-first+1 {
			t.Fatalf("alignment %d-%d made %d segments", a.Start, a.End, len(segments))
		}
	}
}

func TestLeftAlign(t *testing.T) {
	type ops = []align.Op
	m := func(n int) align.Op { return align.Op{Kind: align.Match, Len: n} }
	x := func(n int) align.Op { return align.Op{Kind: align.Mismatch, Len: n} }
	ins := func(n int) align.Op { return align.Op{Kind: align.Insertion, Len: n} }
	del := func(n int) align.Op { return align.Op{Kind: align.Deletion, Len: n} }
	for _, tc := range []struct {
		name, ref, query string
		in, want         ops
	}{
		{"deletion in a homopolymer", "CAAAAG", "CAAAG", ops{m(4), del(1), m(1)}, ops{m(1), del(1), m(4)}},
		{"insertion in a homopolymer", "CAAAG", "CAAAAG", ops{m(4), ins(1), m(1)}, ops{m(1), ins(1), m(4)}},
		{"deletion of a unit", "GCACACAT", "GCACAT", ops{m(5), del(2), m(1)}, ops{m(1), del(2), m(5)}},
		{"insertion of a unit", "GCACAT", "GCACACAT", ops{m(5), ins(2), m(1)}, ops{m(1), ins(2), m(5)}},
		{"already leftmost", "CGAT", "CAT", ops{m(1), del(1), m(2)}, ops{m(1), del(1), m(2)}},
		{"stopped by a mismatch", "CAATAAG", "CAACAG", ops{m(3), x(1), m(1), del(1), m(1)}, ops{m(3), x(1), del(1), m(2)}},
		{"met by another gap", "CAAAAAG", "CAAAG", ops{m(2), del(1), m(2), del(1), m(1)}, ops{m(1), del(2), m(4)}},
		{"to the start", "AAAC", "AAC", ops{m(2), del(1), m(1)}, ops{del(1), m(3)}},
	} {
		got := align.LeftAlign(tc.in, []byte(tc.query), []byte(tc.ref))
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// Left-aligning twice changes nothing more.
func TestLeftAlignIsStable(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	for range 500 {
		ref := randomBases(rnd, 300, "AAAC")
		r, a := randomAlignment(rnd, ref, 0, 200)
		if a.Reverse {
			continue
		}
		q := r.Seq[a.QueryStart:a.QueryEnd]
		once := align.LeftAlign(a.Ops, q, ref[:200])
		if twice := align.LeftAlign(once, q, ref[:200]); !slices.Equal(once, twice) {
			t.Fatalf("%v, then %v", once, twice)
		}
	}
}

func TestSegmentsRefuses(t *testing.T) {
	ref := []byte("ACGTACGTAC")
	good := align.Alignment{Contig: "c", Start: 2, End: 6, QueryEnd: 4, Ops: []align.Op{{Kind: align.Match, Len: 4}}}
	for _, tc := range []struct {
		name   string
		change func(*align.Read, *align.Alignment)
		want   string
	}{
		{"good", func(*align.Read, *align.Alignment) {}, ""},
		{"beyond the contig", func(_ *align.Read, a *align.Alignment) { a.End = 11 }, "outside the contig"},
		{"beyond the read", func(_ *align.Read, a *align.Alignment) { a.QueryEnd = 5 }, "query interval"},
		{"operations too long", func(_ *align.Read, a *align.Alignment) { a.Ops = []align.Op{{Kind: align.Match, Len: 5}} }, "longer"},
		{"operations too short", func(_ *align.Read, a *align.Alignment) { a.Ops = []align.Op{{Kind: align.Match, Len: 3}} }, "shorter"},
		{"not a match", func(r *align.Read, _ *align.Alignment) { r.Seq = []byte("GTAA") }, "contradicts"},
		{"qualities missing", func(r *align.Read, _ *align.Alignment) { r.Qualities = []byte{1} }, "1 qualities for 4 bases"},
	} {
		r, a := &align.Read{ID: "x", Seq: []byte("GTAC")}, good
		tc.change(r, &a)
		_, err := align.Segments(r, &a, ref)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

func FuzzCheck(f *testing.F) {
	rnd := rand.New(rand.NewPCG(7, 7))
	ref := randomBases(rnd, 3000, "ACGT")
	for range 5 {
		r, a := randomAlignment(rnd, ref, 100, 400)
		segments, err := align.Segments(r, a, ref)
		if err != nil {
			f.Fatal(err)
		}
		b, err := proto.Marshal(segments[0])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var s streampb.Segment
		if proto.Unmarshal(b, &s) != nil {
			return
		}
		extent, err := align.Check(&s, len(ref))
		if err != nil {
			return
		}
		if got := align.Query(&s, ref); len(got) != extent.Query {
			t.Fatalf("%d bases, the segment says %d", len(got), extent.Query)
		}
		if int(s.GetStart())+extent.Reference > len(ref) {
			t.Fatal("a segment beyond the contig was accepted")
		}
	})
}

func BenchmarkSegments(b *testing.B) {
	rnd := rand.New(rand.NewPCG(9, 9))
	ref := randomBases(rnd, 20_000, "ACGT")
	r, a := randomAlignment(rnd, ref, 1000, 11_000)
	b.SetBytes(int64(len(r.Seq)))
	b.ReportAllocs()
	var c align.Cutter
	for b.Loop() {
		if _, err := c.Segments(r, a, ref); err != nil {
			b.Fatal(err)
		}
	}
}

package variant

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/stream/streampb"
)

// randomSegment is a segment of any shape that a record may have, on ref.
func randomSegment(rnd *rand.Rand, ref []byte, changes int) (s *streampb.Segment, end int) {
	start := rnd.IntN(len(ref) / 4)
	s = &streampb.Segment{ReadId: "r", Contig: "c", Start: int64(start), LastChunkMs: rnd.Int64N(1 << 41), Run: "run", Reverse: rnd.IntN(2) == 1}
	pos, query := start, 0
	add := func(kind align.OpKind, n int) {
		s.Ops = binary.AppendUvarint(s.Ops, uint64(n)<<3|uint64(kind))
		switch kind {
		case align.Mismatch:
			for i := range n {
				b := "ACGTN"[rnd.IntN(5)]
				if ref[pos+i] != 'N' && b == ref[pos+i] {
					b = 'N'
				}
				s.Bases = append(s.Bases, b)
			}
		case align.Insertion:
			for range n {
				s.Bases = append(s.Bases, "ACGTN"[rnd.IntN(5)])
			}
		}
		if kind != align.Insertion {
			pos += n
		}
		if kind != align.Deletion {
			query += n
		}
	}
	match := func() {
		add(align.Match, 1+rnd.IntN([]int{1, 3, 30, 300}[rnd.IntN(4)]))
	}
	match()
	for range changes {
		n := 1
		if rnd.IntN(4) == 0 {
			n = 1 + rnd.IntN(40)
		}
		add(align.OpKind(1+rnd.IntN(3)), n)
		if rnd.IntN(3) > 0 {
			match()
		}
		if pos > len(ref)-400 {
			break
		}
	}
	add(align.Match, 1)
	if rnd.IntN(5) > 0 {
		for range query {
			s.Qualities = append(s.Qualities, byte(rnd.IntN(50)))
		}
	}
	return s, pos
}

// columns spells what a segment is column by column: the base or gap, the bin of a
// base that is changed, and what is inserted before.
func columns(s *streampb.Segment, ref []byte) (out []string) {
	query, base := 0, 0
	inserted := ""
	put := func(what string, bin byte) {
		out = append(out, inserted+what+string('0'+bin))
		inserted = ""
	}
	bin := func(i int) byte {
		if len(s.GetQualities()) == 0 {
			return noQuality
		}
		return binOf(s.GetQualities()[i])
	}
	for op, rest, ok := align.Ops(s.GetOps()).Next(); ok; op, rest, ok = rest.Next() {
		for range op.Len {
			switch op.Kind {
			case align.Match:
				put("=", 0)
				query++
			case align.Mismatch:
				put(string(s.GetBases()[base]), bin(query))
				query, base = query+1, base+1
			case align.Deletion:
				put("-", 0)
			case align.Insertion:
				inserted += string(s.GetBases()[base]) + string('0'+bin(query)) + "+"
				query, base = query+1, base+1
			}
		}
	}
	return out
}

// unpacked is the same of a packed read from position from on, where the checkpoint
// that it is read from allows it.
func unpacked(u *unpacker, b []byte, start, end, from int, ref []byte) (first int, out []string) {
	u.open(b, start, end, from, ref)
	first = u.pos
	at := first
	inserted := ""
	put := func(what string, bin byte) {
		out = append(out, inserted+what+string('0'+bin))
		inserted = ""
		at++
	}
	for {
		c, ok := u.next()
		if !ok {
			c.pos = end
		}
		for at < c.pos {
			put("=", 0)
		}
		if !ok {
			return first, out
		}
		switch c.kind {
		case align.Mismatch:
			put(string("ACGTN"[c.base]), c.bin)
		case align.Deletion:
			for range c.n {
				put("-", 0)
			}
		case align.Insertion:
			for i, b := range u.bases {
				inserted += string("ACGTN"[b]) + string('0'+u.bins[i]) + "+"
			}
		}
	}
}

// TestPackedReads: what is packed is what comes out, from any position on.
func TestPackedReads(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	var p packer
	var u unpacker
	for range 400 {
		ref := randomSeq(rnd, 2000+rnd.IntN(40_000), "AACCGGTTN")
		s, end := randomSegment(rnd, ref, rnd.IntN(600))
		if _, err := align.Check(s, len(ref)); err != nil {
			t.Fatal(err)
		}
		start, class := int(s.GetStart()), classOf(s.GetQualities())
		b := p.append([]byte("before"), s, 3, s.GetLastChunkMs(), class, ref)[len("before"):]
		want := columns(s, ref)
		for range 5 {
			from := start + rnd.IntN(end-start)
			first, got := unpacked(&u, slices.Concat(b, []byte("behind")), start, end, from, ref)
			if first > from || len(got) != end-first {
				t.Fatalf("from %d of %d-%d come %d columns from %d on", from, start, end, len(got), first)
			}
			for i, want := range want[first-start:] {
				if got[i] != want && (i > 0 || !strings.HasSuffix(want, got[i])) { // an insertion may lie before a checkpoint
					t.Fatalf("at %d of %d-%d (from %d on) is %q, want %q", first+i, start, end, first, got[i], want)
				}
			}
			if u.run != 3 || u.lastChunk != s.GetLastChunkMs() || u.class != class {
				t.Fatalf("run %d, last chunk %d, class %d", u.run, u.lastChunk, u.class)
			}
		}
		if err := u.check(b, start, end, ref, &p); err != nil {
			t.Fatal(err)
		}
		if err := u.check(b[:len(b)-1], start, end, ref, &p); err == nil {
			t.Fatal("a read without its last byte is accepted")
		}
		if err := u.check(append(b, 0), start, end, ref, &p); err == nil {
			t.Fatal("a byte too many is accepted")
		}
	}
}

// TestCheckpointsAreNear: reading doesn't begin more than so many changes before
// where it should.
func TestCheckpointsAreNear(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 6))
	var p packer
	var u unpacker
	ref := randomSeq(rnd, 200_000, "ACGT")
	s, end := randomSegment(rnd, ref, 3000)
	b := p.append(nil, s, 0, 0, classOf(s.GetQualities()), ref)
	for from := int(s.GetStart()); from < end; from += 500 {
		u.open(b, int(s.GetStart()), end, from, ref)
		for n := 0; ; n++ {
			if n > checkpointEvery {
				t.Fatalf("%d changes are read before %d", n, from)
			}
			if c, ok := u.next(); !ok || c.pos >= from {
				break
			}
		}
	}
}

// TestQualityCodes: each is complete and free of prefixes.
func TestQualityCodes(t *testing.T) {
	for i, c := range qualityCodes {
		for bin := 1; bin < firstClass; bin++ {
			code := c.codes[bin]
			for rest := range uint64(1 << (maxQualityBits - code.n)) {
				if got := c.decode[code.bits|rest<<code.n]; int(got.bin) != bin || uint(got.n) != code.n {
					t.Errorf("code %d: bin %d is read as %d of %d bits", i, bin, got.bin, got.n)
				}
			}
		}
		for v, d := range c.decode {
			if d.n == 0 {
				t.Errorf("code %d: bits %06b mean nothing", i, v)
			}
		}
	}
}

// FuzzUnpack: bytes from outside never upset it, and those that it takes for a read
// are the only ones for what they stand for.
func FuzzUnpack(f *testing.F) {
	rnd := rand.New(rand.NewPCG(7, 7))
	ref := randomSeq(rnd, 3000, "ACGTN")
	var p packer
	for range 4 {
		s, end := randomSegment(rnd, ref, 30)
		f.Add(p.append(nil, s, 1, 5, classOf(s.GetQualities()), ref), uint16(s.GetStart()), uint16(end))
	}
	f.Fuzz(func(t *testing.T, b []byte, start, end uint16) {
		if start >= end || int(end) > len(ref) {
			return
		}
		var u unpacker
		if u.check(b, int(start), int(end), ref, &p) != nil {
			return
		}
		if _, got := unpacked(&u, b, int(start), int(end), 0, ref); len(got) != int(end-start) {
			t.Fatalf("%d columns of %d", len(got), end-start)
		}
		if bytes.Contains(u.bins, []byte{firstClass}) {
			t.Fatal("a class as a bin")
		}
	})
}

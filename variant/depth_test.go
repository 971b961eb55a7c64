package variant

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/porestream/porestream/stream/streampb"
)

// place is where a read lies.
type place struct {
	id            string
	start, end    int
	reverse, supp bool
}

// pileOf is a set of reads, added in random order.
func pileOf(rnd *rand.Rand, places []place) *reads {
	x := &reads{limit: 1 << 20, cull: 1 << 30}
	var p packer
	ref := make([]byte, 10_000)
	for _, i := range rnd.Perm(len(places)) {
		pl := places[i]
		s := &streampb.Segment{
			ReadId: pl.id, Start: int64(pl.start), Reverse: pl.reverse, Supplementary: pl.supp,
			Ops: binary.AppendUvarint(nil, uint64(pl.end-pl.start)<<3),
		}
		if key := keyOf(s); !x.has(key) {
			x.add(key, s, pl.start, pl.end, 0, ref, &p)
		}
	}
	return x
}

// chosen is, for each column, the keys of the reads that it shows.
func chosen(x *reads, c *chooser, width int) []map[readKey]bool {
	out := make([]map[readKey]bool, width)
	for i := range out {
		out[i] = make(map[readKey]bool)
	}
	for _, p := range c.picks {
		for s := p.first; s != none; s = c.spans[s].next {
			for col := c.spans[s].from; col < c.spans[s].to; col++ {
				out[col][x.table[p.number].key] = true
			}
		}
	}
	return out
}

// rounds is the rule as it is documented, column by column.
func rounds(x *reads, col, limit int) map[readKey]bool {
	groups := make(map[string][]*read)
	for _, rd := range x.all() {
		if int(rd.start) <= col && col < int(rd.end) {
			group := fmt.Sprint("forward ", rd.start/startWidth)
			if rd.is(readReverse) {
				group = fmt.Sprint("reverse ", (rd.end-1)/startWidth)
			}
			groups[group] = append(groups[group], rd)
		}
	}
	out := make(map[readKey]bool)
	for len(groups) > 0 && len(out) < limit {
		var round []*read
		for name, group := range groups {
			round = append(round, group[0])
			if groups[name] = group[1:]; len(group) == 1 {
				delete(groups, name)
			}
		}
		slices.SortFunc(round, func(a, b *read) int { return a.key.compare(b.key) })
		for _, rd := range round[:min(len(round), limit-len(out))] {
			out[rd.key] = true
		}
	}
	return out
}

func randomPlaces(rnd *rand.Rand, n, width int) []place {
	list := make([]place, n)
	for i := range list {
		start := rnd.IntN(width - 10)
		if rnd.IntN(2) == 0 { // an amplicon's
			start = 100*rnd.IntN(width/100-1) + rnd.IntN(4)
		}
		end := min(width, start+10+rnd.IntN(400))
		list[i] = place{fmt.Sprint("read", i), start, end, rnd.IntN(10) == 0, false}
	}
	return list
}

// TestChooserKeepsItsRule compares with the rule written down plainly.
func TestChooserKeepsItsRule(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 8))
	const width = 900
	for range 30 {
		x := pileOf(rnd, randomPlaces(rnd, 5+rnd.IntN(200), width))
		limit := 1 + rnd.IntN(30)
		var c chooser
		c.choose(x, 0, 0, width, limit)
		for col, got := range chosen(x, &c, width) {
			want := rounds(x, col, limit)
			if !equalSets(got, want) {
				t.Fatalf("column %d with room for %d shows %d reads, want %d others", col, limit, len(got), len(want))
			}
		}
	}
}

func equalSets(a, b map[readKey]bool) bool {
	for k := range a {
		if !b[k] {
			return false
		}
	}
	return len(a) == len(b)
}

// TestLettingGoChangesNothing: reads that were let go of at any time, in any order
// of arrival, are reads that are not shown in the end.
func TestLettingGoChangesNothing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 9))
	const width = 900
	for trial := range 40 {
		places := randomPlaces(rnd, 20+rnd.IntN(200), width)
		for i := range places {
			if i > 0 && rnd.IntN(8) == 0 {
				places[i].supp, places[i].id = true, places[i-1].id
			}
		}
		limit := 1 + rnd.IntN(12)
		var c chooser
		whole := pileOf(rnd, places)
		c.choose(whole, 0, 0, width, limit)
		want := chosen(whole, &c, width)

		left := slices.Clone(places)
		rnd.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		var here []place
		var x *reads
		dropped := 0
		for len(left) > 0 {
			n := 1 + rnd.IntN(len(left))
			here, left = append(here, left[:n]...), left[n:]
			x = pileOf(rnd, here)
			c.limit(x.ended(), x, 0, 0, width, limit)
			wanted := make([]bool, len(x.table))
			for _, p := range c.picks {
				wanted[p.number] = p.first != none
			}
			x.drop(wanted)
			keys := make(map[readKey]bool)
			for _, rd := range x.all() {
				keys[rd.key] = true
			}
			before := len(here)
			here = slices.DeleteFunc(here, func(p place) bool {
				return !keys[keyOf(&streampb.Segment{ReadId: p.id, Start: int64(p.start), Reverse: p.reverse, Supplementary: p.supp})]
			})
			dropped += before - len(here)
		}
		x = pileOf(rnd, here)
		c.choose(x, 0, 0, width, limit)
		for col, got := range chosen(x, &c, width) {
			if !equalSets(got, want[col]) {
				t.Fatalf("trial %d: column %d shows other reads after %d were let go of", trial, col, dropped)
			}
		}
		if trial == 0 && dropped == 0 {
			t.Fatal("no read was let go of")
		}
	}
}

// TestAmpliconsAreSharedFairly: where one strand, or one of two overlapping
// amplicons, has most of the reads, the other has its share of the reads that are
// used.
func TestAmpliconsAreSharedFairly(t *testing.T) {
	rnd := rand.New(rand.NewPCG(10, 10))
	var places []place
	add := func(n, start, end int, reverse bool) {
		for range n {
			places = append(places, place{fmt.Sprint("r", len(places)), start + rnd.IntN(3), end - rnd.IntN(3), reverse, false})
		}
	}
	add(3800, 130, 530, false)
	add(200, 130, 530, true)
	add(60, 450, 850, false)
	add(4, 450, 850, true)
	x := pileOf(rnd, places)
	var c chooser
	c.choose(x, 0, 0, 900, 120)
	for _, tt := range []struct {
		col  int
		want [4]int // amplicon 1 forward, reverse, amplicon 2 forward, reverse
	}{
		{300, [4]int{60, 60, 0, 0}},
		{500, [4]int{39, 39, 38, 4}},
		{700, [4]int{0, 0, 60, 4}},
	} {
		var got [4]int
		for key := range chosen(x, &c, 900)[tt.col] {
			i := 0
			for _, rd := range x.all() {
				if rd.key != key {
					continue
				}
				if rd.start > 400 {
					i = 2
				}
				if rd.is(readReverse) {
					i++
				}
			}
			got[i]++
		}
		sum := got[0] + got[1] + got[2] + got[3]
		off := 0
		for i := range got {
			off = max(off, max(got[i]-tt.want[i], tt.want[i]-got[i]))
		}
		if want := tt.want[0] + tt.want[1] + tt.want[2] + tt.want[3]; sum != want || off > 1 {
			t.Errorf("column %d shows %v, want %v", tt.col, got, tt.want)
		}
	}
}

// TestFoldedBackReadCountsOnce: where a supplementary alignment lies over the primary
// one, a column shows the read once.
func TestFoldedBackReadCountsOnce(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 11))
	for range 20 { // hashes and orders differ
		id := fmt.Sprint("read", rnd.Uint32())
		x := pileOf(rnd, []place{
			{id, 100, 300, false, false}, {id, 150, 400, true, true}, {id, 350, 500, true, true}, {"other", 0, 600, false, false},
		})
		var c chooser
		c.choose(x, 0, 0, 600, 10)
		for col, got := range chosen(x, &c, 600) {
			want := 1
			if col >= 100 && col < 500 {
				want = 2
			}
			if len(got) != want {
				t.Fatalf("column %d shows %d segments, want %d", col, len(got), want)
			}
			for _, rd := range x.all() {
				if rd.start == 100 && col >= 100 && col < 300 && !got[rd.key] {
					t.Fatalf("column %d doesn't show the primary alignment", col)
				}
			}
		}
	}
}

// TestNumbersStayInOrder: reads are found, and listed in the order of their keys,
// whatever the order in which they came.
func TestNumbersStayInOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(12, 12))
	x := &reads{limit: 200, cull: 1 << 30}
	var p packer
	ref := make([]byte, 100)
	for i := range 700 {
		s := &streampb.Segment{ReadId: fmt.Sprint(rnd.Uint64()), Ops: []byte{80}}
		key := keyOf(s)
		if x.has(key) {
			t.Fatal("a read that wasn't added is there")
		}
		x.add(key, s, 0, 10, 0, ref, &p)
		if !x.has(key) {
			t.Fatal("a read that was added isn't there")
		}
		if i%50 > 0 {
			continue
		}
		var keys []readKey
		for _, rd := range x.all() {
			keys = append(keys, rd.key)
		}
		if len(keys) != i+1 || !slices.IsSortedFunc(keys, func(a, b readKey) int { return cmp.Or(a.compare(b)) }) {
			t.Fatalf("%d of %d reads, or in the wrong order", len(keys), i+1)
		}
	}
	if len(x.batches) < 10 {
		t.Errorf("%d batches", len(x.batches))
	}
}

package variant

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
)

func randomSeq(rnd *rand.Rand, n int, alphabet string) []byte {
	s := make([]byte, n)
	for i := range s {
		s[i] = alphabet[rnd.IntN(len(alphabet))]
	}
	return s
}

// spelled is ref with the indel.
func spelled(ref []byte, a indel) string {
	return string(ref[:a.pos]) + a.ins + string(ref[a.pos+a.del:])
}

// The leftmost form spells the same sequence, and no form further left does; the
// slack is how many forms lie to its right.
func TestLeftmost(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		ref := randomSeq(rnd, 30, "AAC")
		a := indel{pos: 1 + rnd.IntN(20)}
		if rnd.IntN(2) == 0 {
			a.del = 1 + rnd.IntN(4)
		} else {
			a.ins = string(randomSeq(rnd, 1+rnd.IntN(4), "AAC"))
		}
		want := spelled(ref, a)
		forms := 0
		first := -1
		for p := 0; p+a.del <= len(ref); p++ {
			b := indel{pos: p, del: a.del}
			if a.del == 0 {
				b.ins = want[p : p+len(a.ins)]
			}
			if spelled(ref, b) == want {
				forms++
				if first < 0 {
					first = p
				}
			}
		}
		l := a.leftmost(ref)
		if got := spelled(ref, l); got != want || l.pos != first {
			t.Fatalf("%+v of %s became %+v, which spells %s; want position %d", a, ref, l, got, first)
		}
		if got := l.slack(ref); got != forms-1 {
			t.Fatalf("slack of %+v in %s: %d, want %d", l, ref, got, forms-1)
		}
	}
}

// slowCost is the recurrence of realigner.align written down plainly.
func slowCost(g *realigner, h, strand int) int32 {
	hap, price, m := g.haps[h].seq, g.haps[h].price[strand], g.model
	type key struct {
		i, j  int
		state byte
	}
	memo := make(map[key]int32)
	var cost func(i, j int, state byte) int32
	best := func(i, j int) int32 { return min(cost(i, j, 'M'), cost(i, j, 'I'), cost(i, j, 'D')) }
	cost = func(i, j int, state byte) int32 {
		k := key{i, j, state}
		if c, ok := memo[k]; ok {
			return c
		}
		c := int32(infinite)
		switch {
		case state == 'M' && i == 0 && j == 0:
			c = 0
		case state == 'M' && i > 0 && j > 0:
			c = best(i-1, j-1) + m.pair[strand][g.bins[i-1]][g.query[i-1]][hap[j-1]]
		case state == 'I' && i > 0:
			open := m.openOther
			if j > 0 && g.query[i-1] == hap[j-1] {
				open = price[j-1].openIns
			} else if j < len(hap) && g.query[i-1] == hap[j] {
				open = price[j].openIns
			}
			c = min(cost(i-1, j, 'M')+open, cost(i-1, j, 'I')+m.extIns)
		case state == 'D' && j > 0:
			c = min(cost(i, j-1, 'M')+price[j-1].openDel, cost(i, j-1, 'D')+m.extendDel)
		}
		memo[k] = min(c, infinite)
		return memo[k]
	}
	return g.haps[h].base[strand] + best(len(g.query), len(hap))
}

// A gap that reads have in a homopolymer is distinguished from a change beside it, and
// whatever spelling is chosen, it is the same haplotype.
func TestAGapBesideAChangeIsAHomopolymers(t *testing.T) {
	for _, tt := range []struct{ name, ref, hap, want string }{
		{"two bases, and a C less behind them", "TGACGTTTCTACCCCCCGTGAGGT", "TGACGTTTCTGTCCCCGTGAGGT", "10A>G 11C>T 12C>"},
		{"two bases, and a T less before them", "ACGATTTTTGCATGA", "ACGATTTTAAATGA", "4T> 9G>A 10C>A"},
		{"five bases, and a G less behind them", "CATCCCTCGGGCCGGGGGATTG", "CATCCCTCAAATTGGGGATTG", "8G>A 9G>A 10G>A 11C>T 12C>T 13G>"},
		{"four bases by one, and not three and an A too many", "GGCGCAAAGCATGTACC", "GGCGCAAAAGTACC", "7AGC> 11T>A"},
		{"a deletion by itself", "GAAAAAGATCGAG", "GAAAAAGTCGAG", "7A>"},
		{"two bases, nothing less", "TGACGTTTCTACCCCCGTGAGGT", "TGACGTTTCTGTCCCCGTGAGGT", "10A>G 11C>T"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code := func(s string) []byte {
				out := []byte(s)
				for i, b := range out {
					out[i] = baseCode[b]
				}
				return out
			}
			g, err := genome.Read(strings.NewReader(">one\n" + tt.ref + "\n"))
			if err != nil {
				t.Fatal(err)
			}
			var counts errorCounts
			model := counts.model(nil)
			r := &Region{contig: g.Contigs[0]}
			r.work = &Workspace{}
			r.work.counts = make([][2][codes]int32, len(tt.ref))
			groups := r.spelled(&matrix{}, model, 0, code(tt.ref), code(tt.hap))
			if len(groups) != 1 {
				t.Fatalf("%d groups of changes, want one", len(groups))
			}
			var got []string
			for _, c := range groups[0] {
				got = append(got, fmt.Sprintf("%d%s>%s", c.from, tt.ref[c.from:c.to], c.seq))
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%v, want %s", got, tt.want)
			}
			if seq := r.codes(0, len(tt.ref), groups[0]); !slices.Equal(seq, code(tt.hap)) {
				t.Errorf("%v spells %s, want %s", got, letters(seq), tt.hap)
			}
		})
	}
}

func TestRealignerCost(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	var counts errorCounts
	usual := counts.model(nil)
	sound := counts.model(fewErrors())
	poor := *usual // longer runs are seldom shown right, so that a gap is gained by
	poor.openDel[2][0], poor.openIns[1][1] = -500, -300
	g := &realigner{}
	for n := range 600 {
		model := []*errorModel{usual, sound, &poor}[n%3]
		haps := [][]byte{randomSeq(rnd, 5+rnd.IntN(15), "AACGT")}
		for range 1 + rnd.IntN(5) {
			alt := randomSeq(rnd, 5+rnd.IntN(15), "AACGT")
			if rnd.IntN(4) > 0 { // as haplotypes are: equal up to somewhere
				like := haps[rnd.IntN(len(haps))]
				alt = append(slices.Clone(like[:rnd.IntN(len(like)+1)]), alt...)
			}
			haps = append(haps, alt)
		}
		g.begin(model)
		for _, h := range haps {
			g.add(h)
		}
		for range 3 { // reads, the last one twice
			g.query, g.bins = g.query[:0], g.bins[:0]
			for range 1 + rnd.IntN(20) {
				g.query = append(g.query, byte(rnd.IntN(baseN+1)))
				g.bins = append(g.bins, byte(rnd.IntN(binCount)))
			}
			if rnd.IntN(3) > 0 { // as reads are: a haplotype with an error or two
				g.query, g.bins = g.query[:0], g.bins[:0]
				for _, b := range haps[rnd.IntN(len(haps))] {
					code := baseCode[b]
					switch rnd.IntN(25) {
					case 0:
						continue
					case 1:
						code = byte(rnd.IntN(baseN + 1))
					case 2:
						g.query, g.bins = append(g.query, byte(rnd.IntN(baseN))), append(g.bins, byte(rnd.IntN(binCount)))
					}
					g.query, g.bins = append(g.query, code), append(g.bins, byte(rnd.IntN(binCount)))
				}
			}
			for _, strand := range []int{0, 1, 0} {
				for h, got := range g.align(strand == 1) {
					if want := slowCost(g, h, strand); got != want {
						t.Fatalf("haplotype %d of %q, strand %d: cost %d, the plain recurrence says %d", h, haps, strand, got, want)
					}
				}
			}
		}
	}
}

// fewErrors are about those of R10.4.1 reads: gaps cost so much that most reads have the least
// of them.
func fewErrors() *ErrorRates {
	rates := UsualErrors()
	rates.Mismatch, rates.Gaps, rates.Other = 0.005, 0.005, 0.001
	for n := range rates.Deletion {
		rates.Deletion[n], rates.Insertion[n] = rates.Deletion[n]/20, rates.Insertion[n]/20
	}
	return &rates
}

// BenchmarkRealigner aligns a read's bases to the two haplotypes of a window: bases that have
// nothing to do with them, and those of the
// first one with an error, by reads that have few.
func BenchmarkRealigner(b *testing.B) {
	rnd := rand.New(rand.NewPCG(3, 3))
	var counts errorCounts
	ref := randomSeq(rnd, 40, "ACGT")
	like := slices.Clone(ref)
	like[30] = "ACGT"[(baseCode[like[30]]+1)%4]
	for _, tc := range []struct {
		name  string
		bases []byte
		model *errorModel
	}{
		{"any", randomSeq(rnd, 40, "ACGT"), counts.model(nil)},
		{"alike", like, counts.model(fewErrors())},
	} {
		b.Run(tc.name, func(b *testing.B) {
			g := &realigner{}
			for _, base := range tc.bases {
				g.query = append(g.query, baseCode[base])
				g.bins = append(g.bins, byte(rnd.IntN(binCount)))
			}
			for b.Loop() {
				g.begin(tc.model) // forget the read
				g.add(ref)
				g.add(append(ref[:20:20], ref[21:]...))
				g.align(false)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*2*40*40), "ns/cell")
		})
	}
}

// Ten reads of one strand that all agree, in the soundest context, don't make a
// call that passes; three of each strand do.
func TestOneStrandSaysLittle(t *testing.T) {
	sound := confused([2]float64{1e-4, 1e-4}, correlation)
	sys := [2]systematic{sound, sound}
	odds := func(forward, reverse int) float64 {
		e := &evidence{}
		for range forward {
			e.add(false, [2]float64{0.01, 1})
		}
		for range reverse {
			e.add(true, [2]float64{0.01, 1})
		}
		return e.logOdds(&sys) * 10 / math.Ln10 // in Phred
	}
	const prior = 34.8 // of one substitution at the default SNPRate
	if got := odds(10, 0) - prior; got >= 12 {
		t.Errorf("10 reads of one strand: QUAL %.1f", got)
	}
	if got := odds(3, 3) - prior; got < 20 {
		t.Errorf("3 reads of each strand: QUAL %.1f", got)
	}
	if odds(4, 5) != odds(5, 4) {
		t.Error("the strands aren't treated alike")
	}
}

// Counts of a segment don't depend on the strand that it is reported on: what the
// pore saw is counted.
func TestErrorCountsSeeTheReadsStrand(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	ref := randomSeq(rnd, 200, "ACGT")
	mirror := make([]byte, len(ref))
	for i, b := range ref {
		mirror[len(ref)-1-i] = "TGCA"[strings.IndexByte("ACGT", b)]
	}
	bases := func(c *errorCounts) (n uint32) {
		for k := range c.contexts {
			for b, m := range c.contexts[k] {
				if int(kmer(k).middle()) == b {
					n += m
				}
			}
		}
		return n
	}
	// 200 matching columns: 0x640 = 200<<3 | match.
	seg := &streampb.Segment{Ops: []byte{0xc0, 0x0c}}
	back := &streampb.Segment{Ops: []byte{0xc0, 0x0c}, Reverse: true}
	var forward, reverse errorCounts
	forward.add(seg, 200, 0, ref, new(passages))
	reverse.add(back, 200, 0, mirror, new(passages))
	if forward.runs != reverse.runs {
		t.Error("runs of a sequence and of its reverse complement read backwards differ")
	}
	// Away from the ends, where contexts run out of the contig, they agree too.
	differ := 0
	for k := range forward.contexts {
		if forward.contexts[k] != reverse.contexts[k] {
			differ++
		}
	}
	if differ > 8 || bases(&forward) != 200 || bases(&reverse) != 200 {
		t.Errorf("%d contexts differ; %d and %d bases match their context", differ, bases(&forward), bases(&reverse))
	}
}

// A record that passes the checks never upsets a region.
func FuzzApply(f *testing.F) {
	rnd := rand.New(rand.NewPCG(4, 4))
	ref := randomSeq(rnd, 1500, "ACGT")
	f.Add([]byte{0xc0, 0x0c, 0x0a, 0xc0, 0x0c}, []byte("A"), uint16(10), true)
	f.Add([]byte{0x50, 0x0b, 0x50, 0x09, 0x50}, []byte("C"), uint16(700), false)
	f.Fuzz(func(t *testing.T, ops, bases []byte, start uint16, reverse bool) {
		r, err := NewRegion(testContig(ref), 0, Config{EmitQual: 1e-9})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			s := &streampb.Segment{ReadId: id, Contig: "c", Start: int64(start), Ops: ops, Bases: bases, Reverse: reverse != (id > "c"), MappingQuality: 60}
			if _, err := r.Apply(s); err != nil {
				return
			}
			if _, err := r.Evaluate(); err != nil {
				t.Fatal(err)
			}
		}
		calls, err := r.Finalize()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range calls {
			pos := int(c.GetPos()) - 1
			if c.GetRef() == c.GetAlt() || string(ref[pos:pos+len(c.GetRef())]) != c.GetRef() {
				t.Fatalf("called %d %s>%s", c.GetPos(), c.GetRef(), c.GetAlt())
			}
		}
	})
}

func testContig(seq []byte) *genome.Contig {
	return &genome.Contig{Name: "c", Seq: seq}
}

// TestNumbersAreAllCounts: no count is left out of a state.
func TestNumbersAreAllCounts(t *testing.T) {
	n := 0
	new(errorCounts).numbers(func(v uint64) uint64 {
		n++
		return v
	})
	var count func(reflect.Type) int
	count = func(typ reflect.Type) int {
		switch typ.Kind() {
		case reflect.Array:
			return typ.Len() * count(typ.Elem())
		case reflect.Struct:
			sum := 0
			for f := range typ.Fields() {
				sum += count(f.Type)
			}
			return sum
		}
		return 1
	}
	if want := count(reflect.TypeFor[errorCounts]()); n != want {
		t.Errorf("%d numbers of %d", n, want)
	}
}

// The decision is that of trying every number of copies.
func TestVerdictsAreTheLikeliest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	shared := 0
	for trial := range 3000 {
		ploidy := []Ploidy{Haploid, Diploid, Mixture}[trial%3]
		var cs []candidate
		for range 1 + rnd.IntN(5) {
			c := candidate{pos: rnd.IntN(4), from: rnd.IntN(4), indel: rnd.IntN(2) == 0, ploidy: ploidy}
			c.to, c.start = c.from+1, c.from
			c.end = c.to + rnd.IntN(2)
			cs = append(cs, c)
		}
		opinions := make([]opinion, len(cs))
		for i := range opinions {
			scores := make([]float32, Scores)
			for at := range 6 {
				scores[at] = float32(-5 * rnd.Float64())
			}
			opinions[i] = newOpinion(scores, ploidy)
		}
		best, want := math.Inf(-1), make([]int, len(cs))
		copies := make([]int, len(cs))
		var try func(n int)
		try = func(n int) {
			if n < len(cs) {
				for copies[n] = range 3 {
					try(n + 1)
				}
				return
			}
			score := 0.0
			for i := range cs {
				most := copies[i]
				for j := range cs {
					if i != j && cs[i].conflicts(&cs[j]) {
						most = max(most, copies[j])
					}
				}
				score += opinions[i].copies[copies[i]] + opinions[i].zygosity[most]
			}
			if score > best && possible(cs, copies, ploidy) {
				best, want = score, slices.Clone(copies)
			}
		}
		try(0)
		for i, v := range verdicts(cs, opinions, 5) {
			got := 0
			if v != nil {
				got = v.copies
				if v.other != nil {
					shared++
				}
			}
			if got != want[i] {
				t.Fatalf("ploidy %s, %d alleles: allele %d has %d copies, want %v", ploidy, len(cs), i, got, want)
			}
		}
	}
	if shared < 100 {
		t.Errorf("only %d times two alleles share a site", shared)
	}
}

// possible reports whether two haplotypes, or any number in a mixture, can have so many
// copies, by trying.
func possible(cs []candidate, copies []int, ploidy Ploidy) bool {
	if ploidy == Mixture {
		for i := range cs {
			for j := range cs {
				if i != j && copies[i] == 2 && copies[j] > 0 && cs[i].conflicts(&cs[j]) {
					return false
				}
			}
		}
		return true
	}
	for sides := range 1 << len(cs) { // of the alleles with one copy
		on := func(i, haplotype int) bool { return copies[i] == 2 || copies[i] == 1 && sides>>i&1 == haplotype }
		fits := true
		for i := range cs {
			for j := range cs {
				if i != j && cs[i].conflicts(&cs[j]) {
					fits = fits && !(on(i, 0) && on(j, 0)) && !(on(i, 1) && on(j, 1))
				}
			}
		}
		if fits {
			return true
		}
	}
	return false
}

// Values of scipy.stats.fisher_exact.
func TestStrandPhred(t *testing.T) {
	for _, tc := range []struct {
		alt, ref [2]int
		p        float64
	}{
		{[2]int{8, 2}, [2]int{1, 5}, 0.034965034965034975},
		{[2]int{10, 0}, [2]int{0, 10}, 1.082508822446903e-05},
		{[2]int{5, 5}, [2]int{5, 5}, 1},
		{[2]int{0, 0}, [2]int{7, 3}, 1},
	} {
		c := candidate{outcome: outcome{altReads: tc.alt, refReads: tc.ref}}
		if got, want := strandPhred(&c), -10*math.Log10(tc.p); math.Abs(got-want) > 1e-6 {
			t.Errorf("%v against %v: %g, want %g", tc.alt, tc.ref, got, want)
		}
	}
}

// someIndels are those that reads with errors show of a tile's columns, and of places beside it.
func someIndels(rnd *rand.Rand, n int) []indel {
	out := make([]indel, n)
	for i := range out {
		out[i].pos = 995 + rnd.IntN(1300)
		if rnd.IntN(8) == 0 {
			out[i].pos = 1500 + rnd.IntN(3) // where many reads have one
		}
		if out[i].del = rnd.IntN(3); out[i].del == 0 {
			out[i].ins = string(randomSeq(rnd, 1+rnd.IntN(2), "ACGT"))
		}
	}
	return out
}

// Indels come by place as if all of them were sorted.
func TestIndelsByPlace(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 40))
	m := &matrix{lo: 1000, hi: 2280}
	var p places
	for n := range 300 {
		seen := someIndels(rnd, 3*n)
		var want, got [][]indel
		sorted := slices.SortedFunc(slices.Values(seen), indel.compare)
		for len(sorted) > 0 {
			n := 1
			for n < len(sorted) && sorted[n].pos == sorted[0].pos {
				n++
			}
			if n > 1 && sorted[0].pos > m.lo && sorted[0].pos < m.hi {
				want = append(want, sorted[:n])
			}
			sorted = sorted[n:]
		}
		for place := range p.of(seen, m) {
			got = append(got, slices.Clone(place))
		}
		if !slices.EqualFunc(got, want, slices.Equal[[]indel]) {
			t.Fatalf("of %d indels: %v, want %v", len(seen), got, want)
		}
	}
}

func BenchmarkIndelsByPlace(b *testing.B) {
	seen := someIndels(rand.New(rand.NewPCG(5, 41)), 600)
	m := &matrix{lo: 1000, hi: 2280}
	var p places
	b.ReportAllocs()
	for b.Loop() {
		for range p.of(seen, m) {
		}
	}
}

// TestLeastQuality: what is shown of a bin is the least quality that it has, and of a class the bound above which its reads are.
func TestLeastQuality(t *testing.T) {
	for q := range byte(94) {
		least := leastQuality[binOf(q)]
		if least > q || binOf(least) != binOf(q) || least > 0 && binOf(least-1) == binOf(q) {
			t.Errorf("quality %d is in bin %d, of which the least is shown as %d", q, binOf(q), least)
		}
		class := classOf([]byte{q, q})
		least = leastQuality[firstClass+class]
		if least > q || classOf([]byte{least + 1}) != class || least > 0 && classOf([]byte{least}) != class-1 {
			t.Errorf("reads of quality %d are of class %d, of which the least is shown as %d", q, class, least)
		}
	}
}

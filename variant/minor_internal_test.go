package variant

import (
	"testing"
)

// What reads of a mixture show is called from counts where both strands show it more often than reads err, and on no other ground.
func TestMinorAllelesNeedBothStrands(t *testing.T) {
	few := &errorModel{gapRate: 0.01}
	rates := [2]float64{0.005, 0.01}
	at := func(alt, all [2]int) *candidate {
		c := &candidate{ref: "A", alt: "G", seq: "G", to: 1, ploidy: Mixture, prior: 1e-3 / 3, outcome: outcome{altReads: alt, depth: all[0] + all[1]}}
		c.refReads = [2]int{all[0] - alt[0], all[1] - alt[1]}
		c.rates[0], c.sys[0] = rates, confused(rates, correlation)
		return c
	}
	r := &Region{cfg: Config{Ploidy: Mixture}.withDefaults()}
	for _, tt := range []struct {
		name     string
		alt, all [2]int
		called   bool
	}{
		{"a fifth of 300", [2]int{30, 30}, [2]int{150, 150}, true},
		{"a fifth of 300, few for chance", [2]int{20, 24}, [2]int{150, 150}, true},
		{"a seventh of 600", [2]int{43, 43}, [2]int{300, 300}, true},
		{"all", [2]int{140, 148}, [2]int{150, 150}, true},
		{"one strand, half of it", [2]int{75, 0}, [2]int{150, 150}, false},
		{"one strand, half of it, and errors of the other", [2]int{75, 4}, [2]int{150, 150}, false},
		{"errors", [2]int{3, 5}, [2]int{150, 150}, false},
		{"errors of a poor place", [2]int{9, 9}, [2]int{150, 150}, false},
		{"a fifth of 40", [2]int{4, 4}, [2]int{20, 20}, false},
	} {
		o, ok := r.minor(at(tt.alt, tt.all), few)
		if called := ok && phred(o.copies[0]) >= networkMinQual; called != tt.called {
			t.Errorf("%s: called %v with %.1f, want %v", tt.name, called, phred(o.copies[0]), tt.called)
		}
		if tt.called && (o.copies[2] > o.copies[1]) != (tt.name == "all") {
			t.Errorf("%s: some %g, all %g of the molecules", tt.name, o.copies[1], o.copies[2])
		}
	}
	fifth := at([2]int{30, 30}, [2]int{150, 150})
	if _, ok := r.minor(fifth, &errorModel{gapRate: 0.03}); ok {
		t.Error("reads with many gaps are counted")
	}
	diploid := *fifth
	diploid.ploidy = Diploid
	if _, ok := r.minor(&diploid, few); ok {
		t.Error("two copies are counted")
	}
	// A change of length of three bases and more, outside of repeats, is counted as a base is.
	gapAt := func(alt [2]int, ref, seq string, slack int) *candidate {
		c := at(alt, [2]int{150, 150})
		c.ref, c.alt, c.seq, c.to, c.indel, c.prior = "T"+ref, "T"+seq, seq, len(ref), true, 1e-4
		c.start, c.end, c.sys[0] = 0, len(ref)+slack, indelSystematic(1)
		return c
	}
	for _, tt := range []struct {
		name    string
		gap     *candidate
		counted bool
		called  bool
	}{
		{"a codon that a fifth lack", gapAt([2]int{30, 30}, "GAC", "", 0), true, true},
		{"a codon that a fifth have more", gapAt([2]int{26, 24}, "", "AGC", 1), true, true},
		{"of one strand", gapAt([2]int{60, 3}, "GAC", "", 0), true, false},
		{"errors", gapAt([2]int{7, 6}, "GAC", "", 0), true, false},
		{"a copy of a repeat", gapAt([2]int{30, 30}, "GAC", "", 3), false, false},
		{"two bases", gapAt([2]int{30, 30}, "GA", "", 0), false, false},
	} {
		o, ok := r.minor(tt.gap, few)
		if called := ok && phred(o.copies[0]) >= networkMinQual; ok != tt.counted || called != tt.called {
			t.Errorf("%s: counted %v, called %v with %.1f", tt.name, ok, called, phred(o.copies[0]))
		}
	}
}

// A network is shown at most so many reads of a mixture, with the shares of strands and alleles that all have.
func TestThinned(t *testing.T) {
	segments := []segment{{}, {reverse: true}}
	e := &encoder{m: &matrix{rows: []row{{seg: &segments[0]}, {seg: &segments[1]}}}, cfg: &Config{Ploidy: Diploid}}
	c := &candidate{ploidy: Mixture, readings: readings{paint: &painting{}}}
	for i := range 600 {
		s := support{row: i % 2, llr: -4}
		if i%5 == 0 {
			s.llr = 4
		}
		c.reads, c.paint.shown, c.haps.reads = append(c.reads, s), append(c.paint.shown, i), append(c.haps.reads, hapRead{llr: int32(i)})
	}
	c.depth = len(c.reads)
	thin := e.thinned(c)
	if len(thin.reads) != networkDepth || thin.depth != networkDepth || len(c.reads) != 600 || len(c.paint.shown) != 600 {
		t.Fatalf("%d reads, depth %d", len(thin.reads), thin.depth)
	}
	var count [groups]int
	for i := range thin.reads {
		count[e.group(&thin.reads[i])]++
		if of := thin.paint.shown[i]; c.reads[of] != thin.reads[i] || thin.haps.reads[i].llr != int32(of) {
			t.Fatalf("read %d has another one's row or haplotype", i)
		}
	}
	want := [groups]int{}
	want[groupAlt], want[groupAlt+1], want[groupOther], want[groupOther+1] = 12, 12, 48, 48
	if count != want {
		t.Errorf("by group %v, want %v", count, want)
	}
	c.ploidy = Diploid
	if e.thinned(c) != c {
		t.Error("a sample of two copies is thinned")
	}
	e.cfg = &Config{Ploidy: Mixture}
	if n := len(e.thinned(c).reads); n != networkDepth {
		t.Errorf("of a stretch of two copies in a mixture, which has reads as deep, a network is shown %d", n)
	}
}

// Of 600 reads at a place half end too close to it to be compared, as at an amplicon's end: a network sees that, however few of the others it is shown.
func TestThinnedBesideEnds(t *testing.T) {
	cfg := Config{Ploidy: Mixture}.withDefaults()
	ref := []byte("ACGTTGCA")
	m := &matrix{hi: len(ref), ref: []byte{0, 1, 2, 3, 3, 2, 1, 0}}
	e := &encoder{m: m, cfg: &cfg, ref: ref, model: new(errorModel)}
	c := &candidate{ploidy: Mixture, pos: 2, from: 2, to: 3, start: 2, end: 3, ref: "G", alt: "A", seq: "A", rates: [2][2]float64{{0.01, 0.01}, {0.01, 0.01}}}
	for i := range 600 {
		m.rows = append(m.rows, row{seg: new(segment), to: len(ref), code: m.ref, qual: make([]byte, len(ref))})
		e.edits = append(e.edits, 0)
		if i%2 == 0 {
			c.reads = append(c.reads, support{row: i, llr: -4})
		}
	}
	c.depth = len(c.reads)
	scalars := e.append(nil, c)[ExamplePlanes*ExampleColumns:]
	if scalars[scalarPartial] != 0.5 || scalars[scalarFull] != 1 {
		t.Errorf("%g of the reads end there, want 0.5; %g of those that a network has learned from, want 1", scalars[scalarPartial], scalars[scalarFull])
	}
}

// All reads are counted as a context's, and of a deep place some are used: what its other reads show isn't taken for errors of the context.
func TestConfusionOfDeepPlaces(t *testing.T) {
	var k kmer
	counts := &errorCounts{}
	// A place of 10,000 reads, a fifth of which have another base, and two more places where 1 % have it; of each 600 are used.
	counts.contexts[k] = [4]uint32{10_000 - 2000 + 2*9900, 2000 + 2*100, 0, 0}
	m := &errorModel{counts: counts, mismatch: 0.02}
	m.swap[0][1] = 0.5
	if rate := m.confusionOfUsed(k, 1, 120, 600, 0.06); rate < 0.009 || rate > 0.011 {
		t.Errorf("a rate of %g, want 0.01 as at the other places", rate)
	}
	counts.contexts[k] = [4]uint32{10_000 - 2000 + 4950, 2000 + 50, 0, 0}
	if rate := m.confusionOfUsed(k, 1, 80, 590, 0.06); rate != 0.01 {
		t.Errorf("a rate of %g where little is known beside the place, want that of all contexts, 0.01", rate)
	}
	if used, all := m.confusionOfUsed(k, 1, 2000, 10_000, 1), m.confusion(k, 1, 2000, 10_000); used != all {
		t.Errorf("%g where all are used, want %g", used, all)
	}
}

package eval_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/basecall/eval"
	"github.com/porestream/porestream/genome"
)

// byHand is a read with every kind of error, worked out by hand. In the direction of the
// read, gaps where the aligner has put them:
//
//	position      0         1
//	              0123456789 01 2345
//	target        TGATCAAAACCT-GGCA
//	query     gg  TGCTCAAA-CCTTGGCA
//
// Leftmost, the deletion is of position 5 and the first T of the query is the inserted one.
func byHand(reverse bool) (*align.Read, *align.Alignment, []byte) {
	const target, before, after = "TGATCAAAACCTGGCA", "CCCCC", "GTGTGTG"
	qualities := bytes.Repeat([]byte{20}, 18)
	qualities[0], qualities[1] = 5, 5 // clipped
	qualities[2+2] = 10               // A is called C
	qualities[2+10] = 10              // the inserted T
	read := &align.Read{ID: "hand", Seq: []byte("GGTGCTCAAACCTTGGCA"), Qualities: qualities}
	a := &align.Alignment{
		Contig: "c", Start: len(before), End: len(before) + len(target), QueryStart: 2, QueryEnd: 18, MappingQuality: 60,
		Ops: []align.Op{{Kind: align.Match, Len: 2}, {Kind: align.Mismatch, Len: 1}, {Kind: align.Match, Len: 5}, {Kind: align.Deletion, Len: 1}, {Kind: align.Match, Len: 3}, {Kind: align.Insertion, Len: 1}, {Kind: align.Match, Len: 4}},
	}
	ref := []byte(before + target + after)
	if reverse {
		genome.ReverseComplement(ref)
		a.Reverse, a.Start, a.End = true, len(after), len(after)+len(target)
		slices.Reverse(a.Ops)
	}
	return read, a, ref
}

func TestByHand(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		t.Run(fmt.Sprint("reverse ", reverse), func(t *testing.T) {
			tally := eval.NewTally(eval.Options{})
			read, a, ref := byHand(reverse)
			row, err := tally.Add(read, a, ref)
			require.NoError(t, err)
			assert.Equal(t, []int{14, 1, 1, 1, 16, 17}, []int{row.Matches, row.Substitutions, row.Inserted, row.Deleted, row.AlignedBases, row.Columns()})
			_, err = tally.Add(&align.Read{ID: "nowhere", Seq: []byte("ACGTACGTAC")}, nil, nil)
			require.NoError(t, err)

			r := tally.Report()
			one := func(v float64) *float64 { return &v }
			assert.Equal(t, eval.Reads{
				Reads: 2, Bases: 28, N50: 18, Aligned: 1, AlignedRate: one(0.5), AlignedBases: 16, ClippedBases: 2,
				ClippedRate: one(2.0 / 18), AlignedPart: one(0.888888889),
			}, r.Reads)
			assert.InDelta(t, 14.0/17, *r.Identity.Mean, 1e-9)
			assert.InDelta(t, 14.0/17, *r.Identity.Median, 1e-5)
			assert.EqualValues(t, 1, r.Identity.Histogram[82])
			e := r.Errors
			assert.Equal(t, []int64{17, 14, 1, 1, 1, 0, 1}, []int64{e.Columns, e.Matches, e.Substitutions, e.Insertions, e.Deletions, e.HomopolymerInsertions, e.HomopolymerDeletions})
			assert.InDelta(t, 1.0/17, *e.PerColumn.Deletions, 1e-12)
			assert.InDelta(t, 3000.0/16, *e.PerKilobase.All, 1e-9)
			assert.Equal(t, eval.Confusion{Counts: [4][4]int64{{4, 1, 0, 0}, {0, 4, 0, 0}, {0, 0, 3, 0}, {0, 0, 0, 3}}}, r.Confusion)
			assert.Equal(t, []eval.Lengths{{Length: 1, Count: 1}}, r.Insertions)
			assert.Equal(t, []eval.Lengths{{Length: 1, Count: 1}}, r.Deletions)

			// G, A, T, C, T and C; the first T and the last A may go on beyond the alignment.
			single := runs(r, "all", 1)
			assert.Equal(t, []int64{1, 4, 1}, single.Called[:3])
			assert.EqualValues(t, 6, single.Runs)
			assert.InDelta(t, 4.0/6, *single.Exact, 1e-12)
			assert.InDelta(t, 1.0/6, *single.Substituted, 1e-12)
			assert.InDelta(t, 0, *single.MeanError, 1e-12)
			assert.InDelta(t, 2.0/6, *single.MeanSize, 1e-12)
			assert.EqualValues(t, 2, runs(r, "T", 1).Runs)
			assert.InDelta(t, 1, *runs(r, "all", 2).Exact, 1e-12)
			four := runs(r, "A", 4)
			assert.EqualValues(t, 1, four.Called[3])
			assert.InDelta(t, -1, *four.MeanError, 1e-12)
			assert.Nil(t, runs(r, "all", 3).Exact)

			assert.Equal(t, eval.InMotif{Motif: "GATC", Occurrences: 1, Exact: one(0), Sites: 4, Substitutions: 1, Rate: one(0.25), Elsewhere: one(2.0 / 12)}, r.Motifs[0])
			assert.Equal(t, eval.InMotif{Motif: "CCWGG", Occurrences: 1, Exact: one(0), Sites: 5, Insertions: 1, Rate: one(0.2), Elsewhere: one(2.0 / 11)}, r.Motifs[1])
			assert.Equal(t, eval.InMotif{Motif: "CG", Elsewhere: one(3.0 / 16)}, r.Motifs[2])
			var wrong []string
			for _, c := range r.Contexts {
				if c.Substitutions+c.Insertions+c.Deletions > 0 {
					wrong = append(wrong, fmt.Sprint(c.Bases, c.Sites, c.Substitutions, c.Insertions, c.Deletions))
				}
			}
			assert.ElementsMatch(t, []string{"GAT1 1 0 0", "CAA1 0 0 1", "CCT1 0 1 0"}, wrong)

			q := r.Qualities
			require.Len(t, q.Bins, 2)
			// Of wrong bases alone, and of none, the interval ends at n/(n+z²) and z²/(n+z²).
			const z2 = 3.841458820694124
			assert.InDelta(t, -10*math.Log10(2/(2+z2)), q.Bins[0].Between[1], 1e-9)
			assert.InDelta(t, -10*math.Log10(z2/(14+z2)), q.Bins[1].Between[0], 1e-9)
			q.Bins[0].Between = [2]float64{}
			assert.Equal(t, eval.QualityBin{Quality: 10, Bases: 2, Substitutions: 1, Insertions: 1}, q.Bins[0])
			assert.EqualValues(t, 14, q.Bins[1].Bases)
			assert.InDelta(t, 10*math.Log10(28), q.Bins[1].Observed, 1e-9)
			assert.Nil(t, q.Deviation, "too few bases to judge")
			assert.EqualValues(t, 1, q.Without)
			require.Len(t, q.Reads, 1)
			// Two of 18 bases at Q5, two at Q10, 14 at Q20.
			assert.Equal(t, int(-10*math.Log10((2*math.Pow(10, -0.5)+2*0.1+14*0.01)/18)), q.Reads[0].Quality)
			assert.Equal(t, "c", r.Contigs[0].Name)
			assert.InDelta(t, 14.0/17, r.Contigs[0].Accuracy, 1e-9)
		})
	}
}

func runs(r *eval.Report, base string, length int) eval.Run {
	i := slices.IndexFunc(r.Homopolymers, func(h eval.Run) bool { return h.Base == base && h.Length == length })
	return r.Homopolymers[i]
}

func TestAddRefusesWhatContradicts(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*align.Read, *align.Alignment)
		want   string
	}{
		"another reference": {func(_ *align.Read, a *align.Alignment) { a.Start++; a.End++ }, "counting read hand: its alignment contradicts the sequences: is it to this reference?"},
		"beyond the contig": {func(_ *align.Read, a *align.Alignment) { a.End += 100 }, "counting read hand: it is said to be aligned to c:5-121, which has 28 bases"},
		"beyond the read":   {func(_ *align.Read, a *align.Alignment) { a.QueryEnd = 30 }, "counting read hand: bases 2-30 of 18 are said to be aligned"},
		"too short":         {func(_ *align.Read, a *align.Alignment) { a.Ops = a.Ops[:3] }, "counting read hand: its alignment is shorter than the sequences"},
		"too long":          {func(_ *align.Read, a *align.Alignment) { a.Ops[6].Len = 9 }, "counting read hand: its alignment is longer than the sequences"},
		"no operation":      {func(_ *align.Read, a *align.Alignment) { a.Ops[0].Len = 0 }, "counting read hand: an operation of its alignment is none"},
		"qualities":         {func(r *align.Read, _ *align.Alignment) { r.Qualities = r.Qualities[1:] }, "counting read hand: 17 qualities for 18 bases"},
	} {
		t.Run(name, func(t *testing.T) {
			tally := eval.NewTally(eval.Options{})
			read, a, ref := byHand(false)
			tt.change(read, a)
			_, err := tally.Add(read, a, ref)
			require.EqualError(t, err, tt.want)
			require.Zero(t, tally.Report().Reads.Reads)
		})
	}
}

// naive counts the same with gapped strings, column by column.
type naive struct {
	matches, substitutions, insertions, deletions int
	pairs                                         map[string]int
	wrong, bases                                  map[byte]int // by quality
	called                                        map[string]int
}

// columns writes an alignment as two gapped strings and the qualities of the query's
// letters, in the direction of the read.
func columns(read *align.Read, a *align.Alignment, ref []byte) (top, bottom, qualities []byte) {
	target, ops := slices.Clone(ref[a.Start:a.End]), slices.Clone(a.Ops)
	if a.Reverse {
		genome.ReverseComplement(target)
		slices.Reverse(ops)
	}
	q, r := a.QueryStart, 0
	for _, op := range ops {
		for range op.Len {
			x, y, quality := byte('-'), byte('-'), byte(0)
			if op.Kind != align.Insertion {
				x = target[r]
				r++
			}
			if op.Kind != align.Deletion {
				y, quality = read.Seq[q], read.Qualities[q]
				q++
			}
			top, bottom, qualities = append(top, x), append(bottom, y), append(qualities, quality)
		}
	}
	return top, bottom, qualities
}

// shiftLeft moves each gap of top over matches one column at a time until none moves.
func shiftLeft(top, bottom, qualities []byte) {
	for moved := true; moved; {
		moved = false
		for i := 1; i < len(top); i++ {
			for _, gapped := range [][]byte{top, bottom} {
				if gapped[i] != '-' || gapped[i-1] == '-' || top[i-1] != bottom[i-1] {
					continue
				}
				end := i
				for end < len(gapped) && gapped[end] == '-' {
					end++
				}
				full := bottom
				if &gapped[0] == &bottom[0] {
					full = top
				}
				if full[i-1] != full[end-1] {
					continue
				}
				gapped[i-1], gapped[end-1] = '-', gapped[i-1]
				if &full[0] == &top[0] { // the query's letter has moved, its quality with it
					qualities[end-1], qualities[i-1] = qualities[i-1], 0
				}
				moved = true
			}
		}
	}
}

func (n *naive) add(top, bottom, qualities []byte) {
	for i := range top {
		x, y := top[i], bottom[i]
		switch {
		case x == '-':
			n.insertions++
			n.wrong[qualities[i]]++
		case y == '-':
			n.deletions++
		default:
			n.pairs[string([]byte{x, y})]++
			if x == y {
				n.matches++
			} else {
				n.substitutions++
				n.wrong[qualities[i]]++
			}
		}
		if y != '-' {
			n.bases[qualities[i]]++
		}
	}
	// Runs: from the column of their first base to that of their last, and what is inserted beside.
	bases := strings.ReplaceAll(string(top), "-", "")
	at := []int{}
	for i, x := range top {
		if x != '-' {
			at = append(at, i)
		}
	}
	for start := 0; start < len(bases); {
		end := start
		for end < len(bases) && bases[end] == bases[start] {
			end++
		}
		if start > 0 && end < len(bases) {
			from, to := at[start], at[end-1]
			for from > 0 && top[from-1] == '-' && bottom[from-1] == bases[start] {
				from--
			}
			for top[to+1] == '-' && bottom[to+1] == bases[start] {
				to++
			}
			called := bytes.Count(bottom[from:to+1], []byte{bases[start]})
			n.called[fmt.Sprintf("%c %d called %d", bases[start], min(10, end-start), min(15, called))]++
		}
		start = end
	}
}

// randomCase is a read with random errors of a contig with long runs.
func randomCase(rnd *rand.Rand, name string) (*align.Read, *align.Alignment, []byte) {
	var ref []byte
	for len(ref) < 300 {
		ref = append(ref, bytes.Repeat([]byte{"ACGT"[rnd.IntN(4)]}, 1+rnd.IntN(1+rnd.IntN(13)))...)
	}
	a := &align.Alignment{Contig: "c", Start: rnd.IntN(50), Reverse: rnd.IntN(2) == 1, QueryStart: rnd.IntN(5)}
	a.End = a.Start + 100 + rnd.IntN(150)
	target := slices.Clone(ref[a.Start:a.End])
	if a.Reverse {
		genome.ReverseComplement(target)
	}
	var ops []align.Op
	add := func(kind align.OpKind) {
		if n := len(ops); n > 0 && ops[n-1].Kind == kind {
			ops[n-1].Len++
		} else {
			ops = append(ops, align.Op{Kind: kind, Len: 1})
		}
	}
	seq := bytes.Repeat([]byte("A"), a.QueryStart)
	for i, b := range target {
		x := rnd.IntN(10)
		if i == 0 || i == len(target)-1 {
			x = 9
		}
		switch x {
		case 0:
			add(align.Deletion)
		case 1:
			other := "ACGT"[rnd.IntN(4)]
			seq = append(seq, other)
			add(map[bool]align.OpKind{true: align.Match, false: align.Mismatch}[other == b])
		case 2:
			for range 1 + rnd.IntN(3) {
				inserted := "ACGT"[rnd.IntN(4)]
				if rnd.IntN(2) == 0 {
					inserted = b
				}
				seq = append(seq, inserted)
				add(align.Insertion)
			}
			fallthrough
		default:
			seq = append(seq, b)
			add(align.Match)
		}
	}
	a.QueryEnd = len(seq)
	seq = append(seq, bytes.Repeat([]byte("C"), rnd.IntN(4))...)
	a.Ops = ops
	if a.Reverse {
		slices.Reverse(a.Ops)
	}
	qualities := make([]byte, len(seq))
	for i := range qualities {
		qualities[i] = byte(1 + rnd.IntN(40))
	}
	return &align.Read{ID: name, Seq: seq, Qualities: qualities}, a, ref
}

// TestEqualsColumnWalk holds the counts of random alignments to those of gapped strings.
func TestEqualsColumnWalk(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	tally := eval.NewTally(eval.Options{})
	n := &naive{pairs: map[string]int{}, wrong: map[byte]int{}, bases: map[byte]int{}, called: map[string]int{}}
	for i := range 500 {
		read, a, ref := randomCase(rnd, fmt.Sprint(i))
		top, bottom, qualities := columns(read, a, ref)
		shiftLeft(top, bottom, qualities)
		n.add(top, bottom, qualities)
		_, err := tally.Add(read, a, ref)
		require.NoError(t, err)
	}
	r := tally.Report()
	e := r.Errors
	assert.Equal(t, []int{n.matches, n.substitutions, n.insertions, n.deletions}, []int{int(e.Matches), int(e.Substitutions), int(e.Insertions), int(e.Deletions)})
	for x := range 4 {
		for y := range 4 {
			assert.EqualValues(t, n.pairs[string([]byte{"ACGT"[x], "ACGT"[y]})], r.Confusion.Counts[x][y])
		}
	}
	for _, bin := range r.Qualities.Bins {
		assert.EqualValues(t, n.bases[byte(bin.Quality)], bin.Bases, "Q%d", bin.Quality)
		assert.EqualValues(t, n.wrong[byte(bin.Quality)], bin.Substitutions+bin.Insertions, "Q%d", bin.Quality)
		share := float64(bin.Substitutions+bin.Insertions) / float64(bin.Bases)
		for i, end := range bin.Between {
			p := math.Pow(10, -end/10)
			if p < 1e-8 || p > 1-1e-8 {
				continue // none wrong, or all
			}
			// What defines the interval: its ends are as unlikely to give that share.
			assert.InDelta(t, 1.959963984540054, math.Abs(share-p)/math.Sqrt(p*(1-p)/float64(bin.Bases)), 1e-6, "Q%d, end %d", bin.Quality, i)
			assert.Equal(t, i == 0, p > share)
		}
	}
	called := map[string]int{}
	for _, run := range r.Homopolymers {
		for k, count := range run.Called {
			if run.Base != "all" && count > 0 {
				called[fmt.Sprintf("%s %d called %d", run.Base, run.Length, k)] = int(count)
			}
		}
	}
	assert.Equal(t, n.called, called)
}

// TestAnyOrderAndAnyWorkers: the report is a function of the set of reads.
func TestAnyOrderAndAnyWorkers(t *testing.T) {
	report := func(order []int, workers int) string {
		tallies := make([]*eval.Tally, workers)
		for i := range tallies {
			tallies[i] = eval.NewTally(eval.Options{})
		}
		for _, i := range order {
			read, a, ref := randomCase(rand.New(rand.NewPCG(3, uint64(i))), fmt.Sprint(i))
			a.Contig = fmt.Sprint("c", i%3)
			if i%10 == 0 {
				a, ref = nil, nil
			}
			_, err := tallies[i%workers].Add(read, a, ref)
			require.NoError(t, err)
		}
		for _, other := range tallies[1:] {
			require.NoError(t, tallies[0].Merge(other))
		}
		doc, err := json.Marshal(tallies[0].Report())
		require.NoError(t, err)
		return string(doc)
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	order := rnd.Perm(200)
	want := report(order, 1)
	rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	assert.JSONEq(t, want, report(order, 4))
	assert.Equal(t, want, report(order, 7))
}

func TestMergeRefusesOtherOptions(t *testing.T) {
	other := eval.NewTally(eval.Options{Motifs: []eval.Motif{}})
	require.Error(t, eval.NewTally(eval.Options{}).Merge(other))
}

// TestEmpty: a report of nothing can be written.
func TestEmpty(t *testing.T) {
	r := eval.NewTally(eval.Options{}).Report()
	doc, err := json.Marshal(r)
	require.NoError(t, err)
	assert.Contains(t, string(doc), `"mean":null`)
	assert.Nil(t, r.Qualities)
}

func TestLettersThatAreNoBases(t *testing.T) {
	tally := eval.NewTally(eval.Options{})
	row, err := tally.Add(&align.Read{ID: "n", Seq: []byte("acnt")}, &align.Alignment{
		Contig: "c", Start: 0, End: 4, QueryEnd: 4,
		Ops: []align.Op{{Kind: align.Match, Len: 2}, {Kind: align.Mismatch, Len: 1}, {Kind: align.Match, Len: 1}},
	}, []byte("ACNT"))
	require.NoError(t, err)
	assert.Equal(t, 1, row.Substitutions)
	assert.EqualValues(t, 1, tally.Report().Confusion.Ambiguous)
}

func TestParseMotif(t *testing.T) {
	for text, want := range map[string]string{
		"A": `motif "A": want 2 to 32 letters`, "GAXC": `motif "GAXC": 'X' is no letter for bases`, strings.Repeat("A", 33): `motif "` + strings.Repeat("A", 33) + `": want 2 to 32 letters`,
	} {
		_, err := eval.ParseMotif(text)
		require.EqualError(t, err, want)
	}
	m, err := eval.ParseMotif("ccwgg")
	require.NoError(t, err)
	assert.Equal(t, "CCWGG", m.String())
}

// Overlapping occurrences: AAAA has three of AA, whose bases count once.
func TestOverlappingMotifs(t *testing.T) {
	aa, err := eval.ParseMotif("AA")
	require.NoError(t, err)
	tally := eval.NewTally(eval.Options{Motifs: []eval.Motif{aa}})
	_, err = tally.Add(&align.Read{ID: "r", Seq: []byte("CAATACG")}, &align.Alignment{
		Contig: "c", Start: 0, End: 7, QueryEnd: 7,
		Ops: []align.Op{{Kind: align.Match, Len: 3}, {Kind: align.Mismatch, Len: 1}, {Kind: align.Match, Len: 3}},
	}, []byte("CAAAACG"))
	require.NoError(t, err)
	m := tally.Report().Motifs[0]
	assert.Equal(t, []int64{3, 4, 1}, []int64{m.Occurrences, m.Sites, m.Substitutions})
	assert.InDelta(t, 1.0/3, *m.Exact, 1e-12)
}

const labels = "contig\tread_id\tstart\tend\tstrand\tidentity\n" +
	"c\thand\t0\t15\t+\t0.9\n" +
	"c\tother\t5\t21\t-\t0.9\n" +
	"c\tmissing\t5\t21\t-\t0.9\n" +
	"c\tnowhere\t5\t21\t-\t0.9\n"

func TestLabels(t *testing.T) {
	l, err := eval.ReadLabels(strings.NewReader(labels))
	require.NoError(t, err)
	tally := eval.NewTally(eval.Options{Labels: l})
	for _, name := range []string{"hand", "other", "nowhere", "unlabelled", "hand"} {
		read, a, ref := byHand(false)
		read.ID = name
		if name == "nowhere" {
			a, ref = nil, nil
		}
		_, err := tally.Add(read, a, ref)
		require.NoError(t, err)
	}
	got := tally.Report().Labels
	// hand overlaps by 10 of 15, other is on the wrong strand.
	assert.Equal(t, []int{4, 3, 2, 1}, []int{got.Reads, got.Called, got.Aligned, got.Placed})
	assert.InDelta(t, 0.5, *got.Rate, 1e-12)
}

func TestReadLabelsRefuses(t *testing.T) {
	head := "read_id\tcontig\tstart\tend\tstrand\n"
	for text, want := range map[string]string{
		"":                                      "there are no labels",
		"read_id,contig\n":                      "line 1: there is no column read_id; want read_id, contig, start, end, strand, separated by tabs",
		head + "r\tc\t1\t2\n":                   "line 2: 4 fields: strand is missing",
		head + "r\tc\tx\t2\t+\n":                `line 2: start "x" is no position`,
		head + "r\tc\t3\t2\t+\n":                `line 2: end "2" is no position after 3`,
		head + "r\tc\t1\t2\t*\n":                `line 2: strand "*": want + or -`,
		head + "\tc\t1\t2\t+\n":                 "line 2: a read without a name",
		head + "r\tc\t1\t2\t+\nr\tc\t1\t2\t+\n": "line 3: read r has a label already",
		strings.Repeat("a", 1<<21):              "line 1: longer than 1048576 bytes: these are no labels",
	} {
		_, err := eval.ReadLabels(strings.NewReader(text))
		require.EqualError(t, err, want)
	}
}

func FuzzReadLabels(f *testing.F) {
	f.Add([]byte(labels))
	f.Add([]byte("read_id\tcontig\tstart\tend\tstrand\r\nr\tc\t1\t2\t+\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := eval.ReadLabels(bytes.NewReader(b))
		if err == nil {
			require.Positive(t, eval.NewTally(eval.Options{Labels: l}).Report().Labels.Reads)
		}
	})
}

// TestPictureIsXML: with reads and without.
func TestPictureIsXML(t *testing.T) {
	tally := eval.NewTally(eval.Options{})
	for range 2 {
		var b bytes.Buffer
		require.NoError(t, tally.Report().WriteSVG(&b, "a <b> & c"))
		var into struct {
			Title string `xml:"title"`
		}
		require.NoError(t, xml.Unmarshal(b.Bytes(), &into))
		assert.Equal(t, "a <b> & c", into.Title)
		read, a, ref := byHand(false)
		_, err := tally.Add(read, a, ref)
		require.NoError(t, err)
	}
}

func TestText(t *testing.T) {
	tally := eval.NewTally(eval.Options{})
	var empty bytes.Buffer
	before := tally.Report()
	require.NoError(t, before.WriteText(&empty))
	assert.Contains(t, empty.String(), "Identity  mean -, median -\n")
	read, a, ref := byHand(true)
	_, err := tally.Add(read, a, ref)
	require.NoError(t, err)
	var b bytes.Buffer
	r := tally.Report()
	require.NoError(t, r.WriteText(&b))
	for _, want := range []string{
		"Reads 1, 18 bases, N50 18\n",
		"Clipped 2 bases (11.11 %)\n",
		" substitutions 1 5.88 % 62.50\n",
		" in homopolymers of 3 and more 1 5.88 %\n",
		" 4 1 0.00 % -1.000 0.00 % - - -\n",
		" CCWGG 1 0.00 % 20.00 % 18.18 % 0.00 % 20.00 % 0.00 %\n",
	} {
		assert.Contains(t, narrow(&b), want)
	}
	b.Reset()
	require.NoError(t, r.WriteComparison(&b, before))
	assert.Contains(t, narrow(&b), "identity, mean - 82.35 % -\n")
	b.Reset()
	require.NoError(t, r.WriteComparison(&b, r))
	assert.Contains(t, narrow(&b), "identity, mean 82.35 % 82.35 % +0.00\n")
}

// narrow is a table with its columns one space apart.
func narrow(b *bytes.Buffer) string {
	return regexp.MustCompile(" +").ReplaceAllString(b.String(), " ")
}

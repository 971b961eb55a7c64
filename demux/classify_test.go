package demux

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// golden is a line of testdata/golden.tsv.gz, which testdata/oracle.py wrote.
type golden struct {
	kit                 string
	bothEnds            bool
	truth, rate         string
	sequence            []byte
	barcode, rest, ends string
}

func readGolden(tb testing.TB) []golden {
	tb.Helper()
	f, err := os.Open("testdata/golden.tsv.gz")
	require.NoError(tb, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	require.NoError(tb, err)
	var list []golden
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		v := strings.Split(lines.Text(), "\t")
		require.Len(tb, v, 11)
		list = append(list, golden{v[0], v[1] == "1", v[2], v[3], []byte(v[4]), v[5], strings.Join(v[6:9], " "), v[9] + " " + v[10]})
	}
	require.NoError(tb, lines.Err())
	require.Greater(tb, len(list), 900)
	return list
}

func classifiers(tb testing.TB) func(kit string, bothEnds bool) *Classifier {
	made := make(map[string]*Classifier)
	return func(name string, bothEnds bool) *Classifier {
		key := fmt.Sprint(name, bothEnds)
		if made[key] == nil {
			kit, err := OpenKit(name)
			require.NoError(tb, err)
			made[key] = NewClassifier(kit, bothEnds)
		}
		return made[key]
	}
}

// TestNumbersAreThoseOfEdlib: the results for reads with known barcodes, and all intermediate numbers, are
// those of an implementation over edlib.
func TestNumbersAreThoseOfEdlib(t *testing.T) {
	classifier := classifiers(t)
	for i, g := range readGolden(t) {
		c := classifier(g.kit, g.bothEnds)
		got := c.Classify(g.sequence)
		barcode := strings.TrimPrefix(c.Name(got.Barcode), g.kit+"_")
		end := func(e End) string {
			if e.Barcode < 0 {
				return "-"
			}
			return fmt.Sprintf("%d,%d,%d,%.6f", e.Penalty, e.Start, e.End, e.FlankScore)
		}
		require.Equal(t, []string{g.barcode, g.rest, g.ends},
			[]string{barcode, fmt.Sprint(got.Reason, " ", got.Penalty, " ", got.Margin), end(got.Front) + " " + end(got.Rear)},
			"line %d, %s of %s", i+2, g.truth, g.kit)
	}
}

// TestGoldenIsRight holds the rules, not only their two implementations, to the truth.
func TestGoldenIsRight(t *testing.T) {
	found, wrong, of := 0, 0, 0
	for _, g := range readGolden(t) {
		if g.rate == "0.16" || g.rate == "0.2" || g.bothEnds || !strings.HasPrefix(g.truth, "barcode") {
			continue
		}
		of++
		switch g.barcode {
		case g.truth:
			found++
		case Unclassified:
		default:
			wrong++
		}
	}
	require.Greater(t, of, 400)
	require.Zero(t, wrong)
	require.Greater(t, float64(found)/float64(of), 0.9, "%d of %d", found, of)
}

// TestBarcodesBehindEachOther: a read with two barcodes one behind the other, as when barcodes
// are ligated to each other, is assigned to no sample, except where it is one barcode twice;
// then both copies are cut off.
func TestBarcodesBehindEachOther(t *testing.T) {
	classifier := classifiers(t)
	counts := make(map[string]int)
	for _, g := range readGolden(t) {
		c := classifier(g.kit, false)
		got := c.Classify(g.sequence)
		counts[g.truth+" "+got.Reason.String()]++
		if g.truth != "same" || got.Reason != Found {
			continue
		}
		inside := NewTrimmer(nil, nil).Inside(g.sequence, got)
		left := string(g.sequence[inside.Start:inside.End])
		barcode := c.kit.Barcodes[got.Barcode].Front
		require.NotContains(t, left, barcode, g.kit)
		require.NotContains(t, left, reverseComplement(barcode), g.kit)
	}
	require.GreaterOrEqual(t, counts["same found"], 30, "of 32: %v", counts)
	require.LessOrEqual(t, counts["other found"], 2, "of 64: %v", counts)
	require.Greater(t, counts["other second_barcode"], 40, "of 64: %v", counts)
}

// dual is a kit with native barcodes around PCR barcodes, with the listed pairs.
func dual(tb testing.TB, pairs ...string) Kit {
	tb.Helper()
	outer, err := OpenKit("SQK-NBD114-24")
	require.NoError(tb, err)
	inner, err := OpenKit("EXP-PBC096")
	require.NoError(tb, err)
	outer.Inner = &inner
	if len(pairs) > 0 {
		outer, err = outer.Only(pairs)
		require.NoError(tb, err)
	}
	return outer
}

// damaged is a sequence in which a share of the bases are errors, of the kinds of testdata/oracle.py.
func damaged(sequence string, rate float64, rng *rand.Rand) string {
	var out []byte
	for i := range len(sequence) {
		switch kind := rng.IntN(100); {
		case rng.Float64() >= rate:
			out = append(out, sequence[i])
		case kind < 32:
			out = append(out, "CGTA"[strings.IndexByte("ACGT", sequence[i])])
		case kind < 51:
			out = append(out, "ACGT"[rng.IntN(4)], sequence[i])
		}
	}
	return string(out)
}

// dualRead is a read with outer and inner barcodes around an insert; ends says where the
// outer one is: "f", "r" or both.
func dualRead(kit Kit, outer, inner int, insert string, rate float64, ends string, rng *rand.Rand) []byte {
	side := func(flanks Flanks, b string) string { return flanks.Outer + b + flanks.Inner }
	o, n := kit.Barcodes[outer], kit.Inner.Barcodes[inner]
	front, rear := side(kit.Inner.Front, n.Front), side(kit.Inner.Rear, n.Rear)
	if strings.Contains(ends, "f") {
		front = side(kit.Front, o.Front) + front
	}
	if strings.Contains(ends, "r") {
		rear = side(kit.Rear, o.Rear) + rear
	}
	return []byte(damaged("CCTGTACTTCGTTCAGTTACGTATTGCT"+front, rate, rng) + insert + damaged(reverseComplement("GTTCAGTTACGTATTGCT"+rear), rate, rng))
}

// TestDualBarcodes: of a library with two barcodes one behind the other both are found and cut
// off, also where one end is damaged, on either strand; a pair that no sample has is none.
func TestDualBarcodes(t *testing.T) {
	inserts := make([]string, 0, 64)
	for _, g := range readGolden(t) {
		if g.truth == "-" && len(g.sequence) > 300 {
			inserts = append(inserts, string(g.sequence[60:len(g.sequence)-60]))
		}
	}
	all := dual(t)
	listed := NewClassifier(dual(t, "barcode01_13", "barcode13_01", "barcode13_13", "barcode24_96"), false)
	every := NewClassifier(all, false)
	require.Len(t, every.Barcodes(), 24*96)
	require.Equal(t, []string{"barcode01_13", "barcode13_01", "barcode13_13", "barcode24_96"}, listed.Barcodes())
	trimmer := NewTrimmer(Adapters(), nil)
	for _, tt := range []struct {
		rate  float64
		ends  string
		found float64 // share, at least
	}{{0, "fr", 1}, {0.05, "fr", 0.98}, {0.05, "f", 0.98}, {0.05, "r", 0.98}, {0.12, "fr", 0.95}} {
		t.Run(fmt.Sprint(tt.rate, " ", tt.ends), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			const reads = 300
			right := 0
			for i := range reads {
				outer, inner := rng.IntN(24), rng.IntN(96)
				insert := inserts[i%len(inserts)]
				sequence := dualRead(all, outer, inner, insert, tt.rate, tt.ends, rng)
				if i%2 == 1 {
					sequence, insert = ReverseComplement(sequence), reverseComplement(insert)
				}
				got := every.Classify(sequence)
				require.NotNil(t, Info(&got))
				if got.Reason != Found {
					require.Equal(t, -1, got.Barcode)
					continue
				}
				require.Equal(t, fmt.Sprintf("SQK-NBD114-24_EXP-PBC096_barcode%02d_%02d", outer+1, inner+1), every.Name(got.Barcode))
				require.Len(t, Info(&got), 14)
				right++
				inside := trimmer.Inside(sequence, got)
				if tt.rate == 0 {
					require.Equal(t, insert, string(sequence[inside.Start:inside.End]))
				}
			}
			t.Logf("%.3f found", float64(right)/reads)
			require.GreaterOrEqual(t, float64(right)/reads, tt.found)
		})
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for _, tt := range []struct {
		outer, inner int
		name         string
		reason       Reason
	}{
		{1, 13, "SQK-NBD114-24_EXP-PBC096_barcode01_13", Found},
		{13, 1, "SQK-NBD114-24_EXP-PBC096_barcode13_01", Found},
		{24, 96, "SQK-NBD114-24_EXP-PBC096_barcode24_96", Found},
		{1, 1, Unclassified, UnlistedPair}, // both are there, but not together
		{1, 40, Unclassified, NoInner},
		{2, 13, Unclassified, NoBarcode},
	} {
		sequence := dualRead(all, tt.outer-1, tt.inner-1, inserts[0], 0, "fr", rng)
		got := listed.Classify(sequence)
		require.Equal(t, tt.reason, got.Reason, tt)
		require.Equal(t, tt.name, listed.Name(got.Barcode))
		if tt.reason != Found {
			require.Equal(t, Interval{0, len(sequence)}, NewTrimmer(nil, nil).Inside(sequence, got), "a read without a sample stays whole")
		}
	}
	// A library without inner barcodes has none.
	single := []byte(all.Front.Outer + all.Barcodes[4].Front + all.Front.Inner + inserts[1])
	require.Equal(t, NoInner, every.Classify(single).Reason)

	_, err := dual(t).Only([]string{"barcode01"})
	require.ErrorContains(t, err, "barcode01 is not a pair of an outer barcode of kit SQK-NBD114-24 and an inner one of kit EXP-PBC096, as barcode07_02")
	_, err = dual(t).Only([]string{"barcode25_01"})
	require.ErrorContains(t, err, "barcode25 is not a barcode of kit SQK-NBD114-24")
	_, err = dual(t).Only([]string{"barcode01_97"})
	require.ErrorContains(t, err, "barcode97 is not a barcode of kit EXP-PBC096")
}

// FuzzClassify: whatever a read is like, what is said of it lies within it.
func FuzzClassify(f *testing.F) {
	f.Add("")
	f.Add("ACGT")
	f.Add("GCTTGGGTGTTTAACCAAGAAAGTTGTCGGTGTCTTTGTGGTTTTCGCATTTATCGTGAAACGCTTTCGCGTTTTTCGTGCGCCGCTTCA")
	f.Add(strings.Repeat("ACGTTGCA", 100))
	classifier := classifiers(f)
	kits := []*Classifier{classifier("SQK-RBK114-96", false), classifier("SQK-NBD114-24", true), classifier("SQK-PBK004", false), NewClassifier(dual(f), false)}
	trimmer := NewTrimmer(Adapters(), Primers())
	f.Fuzz(func(t *testing.T, sequence string) {
		for _, c := range kits {
			got := c.Classify([]byte(sequence))
			require.Equal(t, got.Barcode >= 0, got.Reason == Found)
			for _, e := range []End{got.Front, got.Rear} {
				require.True(t, 0 <= e.Start && e.Start <= e.End && e.End <= len(sequence), "%+v of %d", e, len(sequence))
			}
			inside := trimmer.Inside([]byte(sequence), got)
			require.True(t, 0 <= inside.Start && inside.Start <= inside.End && inside.End <= len(sequence), "%+v", inside)
			require.True(t, inside.Start < inside.End || sequence == "")
		}
	})
}

// BenchmarkClassify is one read against a kit, on one core.
func BenchmarkClassify(b *testing.B) {
	reads := readGolden(b)
	classifier := classifiers(b)
	trimmer := NewTrimmer(Adapters(), Primers())
	for _, kit := range []string{"SQK-RBK004", "SQK-RBK114-96", "SQK-NBD114-24", "SQK-NBD114-96"} {
		c := classifier(kit, false)
		b.Run(kit, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				sequence := reads[i%len(reads)].sequence
				trimmer.Inside(sequence, c.Classify(sequence))
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reads/s")
		})
	}
}

// TestRealReads: reads of barcoded libraries, with the truth that the authors of qcat give
// for their tests (github.com/nanoporetech/qcat, qcat/test/data, MPL-2.0; the ends of
// the first reads of each file). Calls of 2018: one base in ten is wrong, adapters more.
func TestRealReads(t *testing.T) {
	text, err := os.ReadFile("testdata/qcat.tsv")
	require.NoError(t, err)
	classifier := classifiers(t)
	found := 0
	for line := range strings.Lines(string(text)) {
		v := strings.Split(strings.TrimSpace(line), "\t")
		if v[0][0] == '#' {
			continue
		}
		require.Len(t, v, 5)
		c := classifier(v[0], false)
		got := c.Classify([]byte(v[3] + strings.Repeat("ACGGTCATTGCAACTG", 20) + strings.TrimPrefix(v[4], "-")))
		require.Equal(t, v[0]+"_"+v[1], c.Name(got.Barcode), "%s: %+v", v[2], got)
		found++
	}
	require.Equal(t, 12, found)
}

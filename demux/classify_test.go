package demux

import (
	"bufio"
	"compress/gzip"
	"fmt"
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

// TestGolden: what is found of reads with known barcodes, and all numbers on the way, is
// what an implementation over edlib says.
func TestGolden(t *testing.T) {
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
		if g.rate == "0.16" || g.rate == "0.2" || g.bothEnds || g.truth == "-" || g.truth == "two" {
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

// FuzzClassify: whatever a read is like, what is said of it lies within it.
func FuzzClassify(f *testing.F) {
	f.Add("")
	f.Add("ACGT")
	f.Add("GCTTGGGTGTTTAACCAAGAAAGTTGTCGGTGTCTTTGTGGTTTTCGCATTTATCGTGAAACGCTTTCGCGTTTTTCGTGCGCCGCTTCA")
	f.Add(strings.Repeat("ACGTTGCA", 100))
	classifier := classifiers(f)
	kits := []*Classifier{classifier("SQK-RBK114-96", false), classifier("SQK-NBD114-24", true), classifier("SQK-PBK004", false)}
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

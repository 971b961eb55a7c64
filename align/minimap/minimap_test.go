package minimap_test

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/minimap"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/testenv"
)

type read struct {
	name string
	seq  []byte
}

// fastq reads the first n reads of a gzipped FASTQ file.
func fastq(t testing.TB, path string, n int) []read {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var reads []read
	sc := bufio.NewScanner(gz)
	sc.Buffer(nil, 1<<24)
	for line := 0; len(reads) < n && sc.Scan(); line++ {
		switch line % 4 {
		case 0:
			name, _, _ := strings.Cut(sc.Text()[1:], " ")
			reads = append(reads, read{name: name})
		case 1:
			reads[len(reads)-1].seq = []byte(sc.Text())
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return reads[:len(reads)-1] // the last may lack its sequence
}

func load(t testing.TB, path string) *genome.Genome {
	t.Helper()
	g, err := genome.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func index(t testing.TB, g *genome.Genome, cfg minimap.Config) *minimap.Index {
	t.Helper()
	x, err := minimap.NewIndex(g, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// random is a genome of random contigs of the given lengths.
func random(t testing.TB, lengths ...int) *genome.Genome {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	var fa strings.Builder
	for i, n := range lengths {
		fmt.Fprintf(&fa, ">c%d\n", i+1)
		for range n {
			fa.WriteByte("ACGT"[rnd.IntN(4)])
		}
		fa.WriteByte('\n')
	}
	g, err := genome.Read(strings.NewReader(fa.String()))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestMapMatchesMappy(t *testing.T) {
	g := load(t, testenv.Recordings(t, "sarscov2-r9/NC_045512.2.fa"))
	reads := fastq(t, testenv.Recordings(t, "sarscov2-r9/SP1.fastq.gz"), 41)

	golden, err := os.ReadFile("testdata/mappy.tsv")
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]int)
	for _, line := range strings.Split(strings.TrimSpace(string(golden)), "\n")[1:] {
		want[line]++
	}
	for _, preset := range []string{"map-ont", "lr:hq"} {
		a := index(t, g, minimap.Config{Preset: preset}).NewAligner()
		defer a.Close()
		for _, r := range reads {
			alns, err := a.Map(r.name, r.seq)
			if err != nil {
				t.Fatal(err)
			}
			for _, aln := range alns {
				strand := "1"
				if aln.Reverse {
					strand = "-1"
				}
				line := strings.Join([]string{
					preset, r.name, aln.Contig, strconv.Itoa(aln.Start), strconv.Itoa(aln.End), strand,
					strconv.Itoa(aln.QueryStart), strconv.Itoa(aln.QueryEnd),
					strconv.Itoa(int(aln.MappingQuality)), strconv.Itoa(aln.NM), aln.Cigar(),
				}, "\t")
				if want[line] == 0 {
					t.Errorf("not what mappy says: %s", line)
				}
				want[line]--
			}
		}
	}
	for line, n := range want {
		if n > 0 {
			t.Errorf("missing: %s", line)
		}
	}
}

func TestMapPlaces(t *testing.T) {
	g := random(t, 20_000, 30_000)
	a := index(t, g, minimap.Config{}).NewAligner()
	defer a.Close()
	c := g.Contig("c2").Seq

	forward := append([]byte(nil), c[5000:8000]...)
	reverse := append([]byte(nil), c[9000:12000]...)
	genome.ReverseComplement(reverse)
	chimera := append(append([]byte(nil), c[1000:4000]...), g.Contig("c1").Seq[2000:4000]...)
	for _, tc := range []struct {
		name string
		seq  []byte
		want []align.Alignment
	}{
		{"forward", forward, []align.Alignment{{Contig: "c2", Start: 5000, End: 8000}}},
		{"reverse", reverse, []align.Alignment{{Contig: "c2", Start: 9000, End: 12000, Reverse: true}}},
		{"chimera", chimera, []align.Alignment{{Contig: "c2", Start: 1000, End: 4000}, {Contig: "c1", Start: 2000, End: 4000, Supplementary: true}}},
		{"short", []byte("ACGTACGTAC"), nil},
		{"empty", nil, nil},
	} {
		got, err := a.Map(tc.name, tc.seq)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(tc.want) {
			t.Errorf("%s: %d alignments, want %d", tc.name, len(got), len(tc.want))
			continue
		}
		for i, w := range tc.want {
			g := got[i]
			// A chimera's break may move by the bases that both sides share.
			near := func(a, b int) bool { return a-b < 10 && b-a < 10 }
			if g.Contig != w.Contig || !near(g.Start, w.Start) || !near(g.End, w.End) || g.Reverse != w.Reverse || g.Supplementary != w.Supplementary {
				t.Errorf("%s: %+v, want %+v", tc.name, g, w)
			}
			if g.NM != 0 && !strings.HasPrefix(tc.name, "chimera") {
				t.Errorf("%s: NM %d of an exact read", tc.name, g.NM)
			}
		}
	}
}

// Aligners of one index work at the same time and say what one alone says.
func TestMapConcurrently(t *testing.T) {
	g := random(t, 100_000)
	x := index(t, g, minimap.Config{})
	rnd := rand.New(rand.NewPCG(3, 4))
	var reads []read
	for i := range 100 {
		n := 500 + rnd.IntN(2000)
		at := rnd.IntN(100_000 - n)
		seq := append([]byte(nil), g.Contigs[0].Seq[at:at+n]...)
		for range n / 10 {
			seq[rnd.IntN(n)] = "ACGT"[rnd.IntN(4)]
		}
		reads = append(reads, read{fmt.Sprint("read", i), seq})
	}
	mapAll := func() (out [][]align.Alignment, err error) {
		a := x.NewAligner()
		defer a.Close()
		for _, r := range reads {
			alns, err := a.Map(r.name, r.seq)
			if err != nil {
				return nil, err
			}
			out = append(out, alns)
		}
		return out, nil
	}
	want, err := mapAll()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			got, err := mapAll()
			if err != nil {
				t.Error(err)
			} else if !reflect.DeepEqual(got, want) {
				t.Error("another result than alone")
			}
		})
	}
	wg.Wait()
}

func TestClose(t *testing.T) {
	x, err := minimap.NewIndex(random(t, 5000), minimap.Config{})
	if err != nil {
		t.Fatal(err)
	}
	a, b := x.NewAligner(), x.NewAligner()
	for range 2 {
		a.Close()
	}
	if _, err := a.Map("r", []byte("ACGT")); !errors.Is(err, minimap.ErrClosed) {
		t.Errorf("mapping with a closed aligner: %v", err)
	}
	for range 2 {
		x.Close()
	}
	if _, err := b.Map("r", []byte("ACGT")); !errors.Is(err, minimap.ErrClosed) {
		t.Errorf("mapping to a closed index: %v", err)
	}
	b.Close()
}

func TestNewIndexRefuses(t *testing.T) {
	if _, err := minimap.NewIndex(random(t, 1000), minimap.Config{Preset: "no-such"}); err == nil || !strings.Contains(err.Error(), `"no-such"`) {
		t.Errorf("unknown preset: %v", err)
	}
	if _, err := minimap.NewIndex(&genome.Genome{}, minimap.Config{}); err == nil {
		t.Error("an empty genome was indexed")
	}
}

func BenchmarkMap(b *testing.B) {
	g := load(b, testenv.Recordings(b, "sarscov2-r9/NC_045512.2.fa"))
	reads := fastq(b, testenv.Recordings(b, "sarscov2-r9/SP1.fastq.gz"), 1000)
	bases := 0
	for _, r := range reads {
		bases += len(r.seq)
	}
	for _, preset := range []string{"map-ont", "lr:hq"} {
		b.Run(preset, func(b *testing.B) {
			a := index(b, g, minimap.Config{Preset: preset}).NewAligner()
			defer a.Close()
			b.SetBytes(int64(bases))
			b.ReportAllocs()
			for b.Loop() {
				for _, r := range reads {
					if _, err := a.Map(r.name, r.seq); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

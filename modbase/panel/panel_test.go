package panel

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/modbase/pileup"
)

const rules = "#a comment\nchr1\t100\t200\tMGMT\tmethylated\nchr1\t150\t400\tH19\thalf\tm\t2\r\n\nchr2\t0\t50\tp16\tunmethylated\n"

func regions(t testing.TB, text string) []Region {
	list, err := ReadRegions(strings.NewReader(text), "rules.tsv")
	require.NoError(t, err)
	return list
}

// molecules are the rows of reads of a region, each of which is methylated all along or not at all, with a share, and
// covers a part of the region: calls of a molecule say the same.
func molecules(rng *rand.Rand, depth int, share float64) []*pileup.Row {
	const sites = 20
	rows := make([]*pileup.Row, 2*sites)
	for i := range rows {
		rows[i] = &pileup.Row{Pos: 105 + i/2*2 + i%2, Strand: []pileup.Strand{pileup.Plus, pileup.Minus}[i%2], Code: 'm'}
	}
	for n := range depth {
		is := rng.Float64() < share
		for i := rng.IntN(sites / 2); i < sites-rng.IntN(sites/2); i++ {
			if row := rows[2*i+n%2]; is {
				row.Modified++
			} else {
				row.Canonical++
			}
		}
	}
	return rows
}

func ask(list []Region, rows []*pileup.Row, alpha float64) Answer {
	r := NewRegions(list)
	for _, row := range rows {
		r.Add("chr1", row)
	}
	return r.Answers(alpha)[0]
}

// However the molecules' shares come about, wrong answers are no more frequent than is said, though hundreds of calls are of
// few molecules.
func TestErrorsAreAsStated(t *testing.T) {
	const alpha, samples = 0.05, 4000
	for _, tt := range []struct {
		kind  string
		share float64
		wrong []State
	}{
		{"methylated", 0.2, []State{Detected, Suspected}},
		{"methylated", 0.5, []State{Negative}},
		{"unmethylated", 0.5, []State{Detected, Suspected}},
		{"unmethylated", 0.2, []State{Negative}},
		{"half", 0.2, []State{Detected, Suspected}},
		{"half", 0.8, []State{Detected, Suspected}},
		{"half", 0.35, []State{Negative}},
	} {
		list := regions(t, "chr1\t100\t200\tr\t"+tt.kind+"\n")
		rng := rand.New(rand.NewPCG(1, uint64(100*tt.share)))
		wrong, said := 0, 0
		for range samples {
			a := ask(list, molecules(rng, 4+rng.IntN(60), tt.share), alpha)
			for _, s := range tt.wrong {
				if a.State == s {
					wrong++
				}
			}
			if a.State != NotCallable {
				said++
				assert.LessOrEqual(t, a.Wrong, alpha)
			}
		}
		t.Logf("%s at %v: %d of %d wrong, %d answered", tt.kind, tt.share, wrong, samples, said)
		assert.LessOrEqual(t, float64(wrong), alpha*samples, "%s at %v", tt.kind, tt.share)
	}
}

// A molecule over all of one strand's positions weighs as much as many that have calls at one position of the other: it is not made up for by these.
func TestOneMoleculeDoesNotDecide(t *testing.T) {
	const alpha, samples, share = 0.05, 2000, 0.2
	list := regions(t, "chr1\t100\t200\tr\tmethylated\ta\n")
	rng := rand.New(rand.NewPCG(1, 7))
	wrong := 0
	for range samples {
		rows := []*pileup.Row{{Pos: 199, Strand: pileup.Minus, Code: 'a'}}
		for range 20 {
			if rng.Float64() < share {
				rows[0].Modified++
			} else {
				rows[0].Canonical++
			}
		}
		is := rng.Float64() < share
		for i := range 20 {
			row := &pileup.Row{Pos: 100 + i, Strand: pileup.Plus, Code: 'a', Canonical: 1}
			if is {
				row.Modified, row.Canonical = 1, 0
			}
			rows = append(rows, row)
		}
		a := ask(list, rows, alpha)
		require.InDelta(t, 2, a.Depth, 1e-9)
		if a.State == Detected || a.State == Suspected {
			wrong++
		}
	}
	assert.LessOrEqual(t, float64(wrong), alpha*samples)
}

// What is clear is answered; reads cover half of the region on average, so the depth is half as large.
func TestClearRegionsAreAnswered(t *testing.T) {
	for _, tt := range []struct {
		kind  string
		share float64
		depth int
		want  State
	}{
		{"methylated", 0.95, 30, Detected},
		{"methylated", 0.02, 30, Negative},
		{"methylated", 0.35, 400, Suspected},
		{"methylated", 0.35, 20, NotCallable},
		{"methylated", 0.95, 2, NotCallable},
		{"unmethylated", 0.02, 30, Detected},
		{"unmethylated", 0.95, 30, Negative},
		{"half", 0.5, 100, Detected},
		{"half", 0.02, 60, Negative},
		{"half", 0.98, 60, Negative},
		{"half", 0.73, 2000, Suspected},
	} {
		list := regions(t, "chr1\t100\t200\tr\t"+tt.kind+"\n")
		hits := 0
		for seed := range uint64(20) {
			if ask(list, molecules(rand.New(rand.NewPCG(2, seed)), tt.depth, tt.share), 0.01).State == tt.want {
				hits++
			}
		}
		assert.GreaterOrEqual(t, hits, 16, "%+v", tt)
	}
}

// A row counts for every rule over its position, for no other modification, in any order; rules without calls say so.
func TestRegions(t *testing.T) {
	list := regions(t, rules)
	rows := []*pileup.Row{
		{Pos: 99, Strand: '+', Code: 'm', Modified: 9}, {Pos: 160, Strand: '+', Code: 'm', Modified: 3, Canonical: 1}, {Pos: 161, Strand: '-', Code: 'm', Other: 2},
		{Pos: 170, Strand: '+', Code: 'h', Modified: 9}, {Pos: 199, Strand: '+', Code: 'm', Failed: 9}, {Pos: 200, Strand: '+', Code: 'm', Modified: 2}, {Pos: 400, Strand: '+', Code: 'm', Modified: 9},
	}
	var tables []string
	for range 5 {
		r := NewRegions(list)
		for _, row := range rows {
			r.Add("chr1", row)
		}
		r.Add("chr3", rows[1])
		table := []byte(RegionHeader)
		for _, a := range r.Answers(0.01) {
			table = a.Append(table)
		}
		tables = append(tables, string(table))
		rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	}
	for _, table := range tables {
		require.Equal(t, RegionHeader+
			"MGMT\tchr1\t100\t200\tmethylated\tm\tNOT_CALLABLE\t0.5000\t6.0\t2\t1\t2 positions have calls, and 4 must\n"+
			"H19\tchr1\t150\t400\thalf\tm\tNOT_CALLABLE\t0.6250\t4.0\t3\t1\ttoo few molecules to decide\n"+
			"p16\tchr2\t0\t50\tunmethylated\tm\tNOT_CALLABLE\t0.0000\t0.0\t0\t1\t0 positions have calls, and 4 must\n", table)
	}
}

func TestIsCpG(t *testing.T) {
	plus, minus := "", ""
	for pos := -1; pos < 8; pos++ {
		if IsCpG([]byte("GCGTCCG"), pos, pileup.Plus) {
			plus += strconv.Itoa(pos)
		}
		if IsCpG([]byte("GCGTCCG"), pos, pileup.Minus) {
			minus += strconv.Itoa(pos)
		}
	}
	assert.Equal(t, "15", plus)
	assert.Equal(t, "26", minus)
}

// States are those of most calls, of both strands, in the order of the list.
func TestVector(t *testing.T) {
	sites, err := ReadSites(strings.NewReader("chr1\t10\t12\tcg2\t0\t+\nchr1\t4\t6\tcg1\nchr1\t20\t22\tcg3\nchr1\t30\t32\tcg4\n"), "sites.bed")
	require.NoError(t, err)
	v := NewVector(sites)
	for _, row := range []pileup.Row{
		{Pos: 4, Code: 'm', Modified: 1, Canonical: 1}, {Pos: 5, Code: 'm', Modified: 1}, {Pos: 5, Code: 'h', Modified: 9}, {Pos: 6, Code: 'm', Canonical: 9},
		{Pos: 10, Code: 'm', Canonical: 1, Other: 1}, {Pos: 11, Code: 'm', Modified: 1}, {Pos: 20, Code: 'C', Modified: 2, Canonical: 2},
	} {
		v.Add("chr1", &row)
		v.Add("chr2", &row)
	}
	require.Equal(t, VectorHeader+"cg2\t0\t1\t3\ncg1\t1\t2\t3\ncg3\t.\t2\t4\ncg4\t.\t0\t0\n", string(v.Append([]byte(VectorHeader))))
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "r: there is no rule"},
		{"chr1\t1\t2\ta\n", "r: line 1: it has 4 columns: want contig, start, end, name and kind"},
		{"chr1\t2\t2\ta\thalf\n", "r: line 1: want a contig and 0 <= start < end"},
		{"chr1\t-1\t2\ta\thalf\n", "r: line 1: want a contig and 0 <= start < end"},
		{"#\nchr1\t1\t2\ta\tsome\n", `r: line 2: name "a" and kind "some": want a name, and methylated, unmethylated or half`},
		{"chr1\t1\t2\ta\thalf\t!\n", `r: line 1: code "!"`},
		{"chr1\t1\t2\ta\thalf\tm\t0\n", `r: line 1: sites "0": want a number from 1 on`},
		{"chr1\t1\t2\ta\thalf\nchr1\t1\t2\ta\thalf\n", "r: line 2: there is another rule a"},
		{strings.Repeat("x", 1<<17), "r: bufio.Scanner: token too long"},
	} {
		_, err := ReadRegions(strings.NewReader(tt.text), "r")
		assert.ErrorContains(t, err, tt.want)
	}
	for _, tt := range []struct{ text, want string }{
		{"#x\n", "s: there is no site"},
		{"chr1\t1\t2\n", "s: line 1: want contig, start, end and a name"},
		{"chr1\t1\t2000\ta\n", "s: line 1: site a has 1999 bases: want at most 1000"},
	} {
		_, err := ReadSites(strings.NewReader(tt.text), "s")
		assert.ErrorContains(t, err, tt.want)
	}
}

// Any text is read or refused in a line of bounded length, and any counts are answered.
func FuzzReadRegions(f *testing.F) {
	f.Add(rules)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ReadRegions(strings.NewReader(text), "f")
		if err != nil {
			require.Less(t, len(err.Error()), 400)
			return
		}
		r := NewRegions(list)
		for _, region := range list {
			r.Add(region.Contig, &pileup.Row{Pos: region.Start, Code: region.Code, Modified: 3, Strand: pileup.Plus})
		}
		for _, a := range r.Answers(0.01) {
			require.True(t, a.Wrong >= 0 && a.Wrong <= 1)
		}
	})
}

// BenchmarkAdd is what a row costs beside rules on 20,000 promoters and 400,000 sites.
func BenchmarkAdd(b *testing.B) {
	var list []Region
	var sites []Site
	for i := range 400_000 {
		if i%20 == 0 {
			list = append(list, Region{Contig: "chr1", Start: 100 * i, End: 100*i + 1500, Kind: Methylated, Code: 'm', Sites: 4})
		}
		sites = append(sites, Site{Contig: "chr1", Start: 100 * i, End: 100*i + 2})
	}
	r, v := NewRegions(list), NewVector(sites)
	b.ReportAllocs()
	row, n := &pileup.Row{Code: 'm', Modified: 3, Strand: pileup.Plus}, 0
	for b.Loop() {
		row.Pos, n = n*50%40_000_000, n+1
		r.Add("chr1", row)
		v.Add("chr1", row)
	}
}

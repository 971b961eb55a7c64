package motif

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/aligntest"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/testenv"
)

// planted is a motif that a genome is modified at, in a share of molecules.
type planted struct {
	motif string
	code  modbase.Code
	share float64
}

func cut(t testing.TB, motif string) (letters string, place int) {
	letters, number, _ := strings.Cut(motif, ",")
	place, err := strconv.Atoi(number)
	require.NoError(t, err)
	return letters, place
}

func fits(letters string, word []byte) bool {
	for i := range word {
		if genome.BaseSet(letters[i])&genome.BaseSet(word[i]) == 0 {
			return false
		}
	}
	return true
}

// rows are what reads of a depth say of a genome's C and A. Callers err as in a native E. coli, called by Dorado with all contexts: 95 %
// of GATC and 96.6 % of CCWGG called modified, 10.6 % of other A and 3.3 % of other C; how often differs by the bases around.
func rows(t testing.TB, seed uint64, seq []byte, depth int, errs float64, motifs []planted) []*pileup.Row {
	rng := rand.New(rand.NewPCG(seed, 44))
	type site struct {
		pos   int
		minus bool
		code  modbase.Code
	}
	modified := make(map[site]float64)
	number := func(b byte) int { return strings.IndexByte("ACGT", b) }
	for _, m := range motifs {
		letters, place := cut(t, m.motif)
		for start := range len(seq) - len(letters) + 1 {
			for strand := range 2 {
				word := slices.Clone(seq[start : start+len(letters)])
				if strand == 1 {
					genome.ReverseComplement(word)
				}
				if fits(letters, word) {
					pos := start + place
					if strand == 1 {
						pos = start + len(letters) - 1 - place
					}
					modified[site{pos, strand == 1, m.code}] = m.share
				}
			}
		}
	}
	noise := make(map[int]float64)
	for word := range 256 {
		noise[word] = math.Exp(rng.NormFloat64()*0.7 - 0.25)
	}
	var list []*pileup.Row
	for pos := 2; pos+2 < len(seq); pos++ {
		for strand := range 2 {
			base, around := number(seq[pos]), 0
			for i := -2; i <= 2; i++ {
				if n := number(seq[pos+i]); i != 0 && strand == 0 {
					around = around<<2 | n
				} else if i != 0 {
					around = around>>2 | (3-n)<<6
				}
			}
			if strand == 1 {
				base = 3 - base
			}
			if base > 1 {
				continue
			}
			code, wrong, right := modbase.Code('a'), 0.106, 0.953
			if base == 1 {
				code, wrong, right = 'm', 0.033, 0.966
			}
			p := min(0.4, errs*wrong*noise[around])
			if share, is := modified[site{pos, strand == 1, code}]; is {
				p = share * right
			}
			row := &pileup.Row{Pos: pos, Strand: []pileup.Strand{pileup.Plus, pileup.Minus}[strand], Code: code}
			for range rng.IntN(2*depth + 1) {
				if rng.Float64() < p {
					row.Modified++
				} else {
					row.Canonical++
				}
			}
			list = append(list, row)
		}
	}
	return list
}

func random(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, seed))
	seq := make([]byte, n)
	for i := range seq {
		seq[i] = "ACGT"[rng.IntN(4)]
	}
	return seq
}

func find(t testing.TB, cfg Config, seq []byte, rows []*pileup.Row) []Motif {
	f := NewFinder(cfg)
	for _, row := range rows {
		f.Add(seq, row)
	}
	found, err := f.Find(t.Context())
	require.NoError(t, err)
	return found
}

// names are motifs as they are planted, by code and then by place.
func names(motifs []Motif) []string {
	list := []string{}
	for _, m := range motifs {
		list = append(list, m.String()+" "+m.Code.String())
	}
	slices.Sort(list)
	return list
}

// TestPlanted: exactly the motifs that were planted are found, under the errors of a caller, and with the share that they were planted with.
func TestPlanted(t *testing.T) {
	lambda := aligntest.LambdaGenome(t).Contigs[0].Seq
	for name, tt := range map[string]struct {
		seq   []byte
		depth int
		errs  float64 // of the caller's rates of errors
		want  []planted
	}{
		"none":               {lambda, 20, 1, nil},
		"E. coli's":          {lambda, 20, 1, []planted{{"GATC,1", 'a', 1}, {"CCWGG,1", 'm', 1}}},
		"few reads":          {lambda, 4, 1, []planted{{"GATC,1", 'a', 1}, {"CCWGG,1", 'm', 1}}},
		"in some molecules":  {lambda, 30, 1, []planted{{"GATC,1", 'a', 0.8}}},
		"with a gap":         {random(1, 1_000_000), 12, 0.3, []planted{{"AACNNNNNNGTGC,1", 'a', 1}, {"GCACNNNNNNGTT,2", 'a', 1}, {"GATC,1", 'a', 1}}},
		"of several bases":   {random(2, 300_000), 20, 1, []planted{{"GANTC,1", 'a', 1}, {"RAATTY,2", 'a', 1}, {"VCATG,2", 'a', 1}}},
		"of one strand":      {random(3, 300_000), 20, 1, []planted{{"CAGAG,3", 'a', 1}, {"GCCGGC,2", 'm', 1}}},
		"within one another": {random(4, 600_000), 12, 1, []planted{{"CATG,1", 'a', 1}, {"TCAGGA,2", 'a', 1}, {"GTATAC,4", 'a', 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := rows(t, 7, tt.seq, tt.depth, tt.errs, tt.want)
			got := find(t, Config{}, tt.seq, list)
			want := []string{}
			for _, m := range tt.want {
				want = append(want, m.motif+" "+m.code.String())
			}
			slices.Sort(want)
			require.Equal(t, want, names(got))
			for _, m := range got {
				i := slices.IndexFunc(tt.want, func(p planted) bool { return p.motif == m.String() })
				right := map[modbase.Code]float64{'a': 0.953, 'm': 0.966}[m.Code]
				assert.InDelta(t, tt.want[i].share*right, m.Plus.Add(m.Minus).Share(), 0.04, "%s", &m)
				assert.Equal(t, m.Letters == reversed(m.Letters), m.Palindrome)
				assert.InDelta(t, m.Plus.Covered, m.Minus.Covered, 30+float64(m.Plus.Covered)/3)
			}
			rand.New(rand.NewPCG(1, 1)).Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
			require.Equal(t, got, find(t, Config{}, tt.seq, list), "motifs depend on the order of rows")
			var letters []string
			for _, parts := range []int{1, 5} {
				found := findInParts(t, parts, tt.seq, list)
				if letters == nil {
					letters = found
				}
				require.Equal(t, letters, found, "motifs depend on who has which row")
			}
			slices.Sort(letters)
			require.ElementsMatch(t, Letters(got), letters)
		})
	}
}

// findInParts finds motifs in excerpts of parts of the rows.
func findInParts(t testing.TB, parts int, seq []byte, rows []*pileup.Row) []string {
	all := NewExcerpt(Config{}, len(seq))
	for part := range slices.Chunk(rows, (len(rows)+parts-1)/parts) {
		e := NewExcerpt(Config{}, len(seq))
		for _, row := range part {
			e.Add(seq, row)
		}
		for _, list := range e.Surroundings() {
			all.Put(list)
		}
	}
	letters, err := all.Letters(t.Context())
	require.NoError(t, err)
	return letters
}

func reversed(letters string) string {
	b := []byte(letters)
	slices.Reverse(b)
	for i := range b {
		b[i] = "TGYRSWMKVBDHANC"[strings.IndexByte("ACRYSWKMBVHDTNG", b[i])]
	}
	return string(b)
}

// TestCommonContext: of a modification that a caller evaluates at CG alone, CG is a part of every motif, and is
// one itself if most are modified.
func TestCommonContext(t *testing.T) {
	seq := random(9, 200_000)
	for share, want := range map[float64][]string{0.75: {"CG,0 m"}, 0.05: {}} {
		var list []*pileup.Row
		rng := rand.New(rand.NewPCG(3, 3))
		for pos := range len(seq) - 1 {
			if seq[pos] == 'C' && seq[pos+1] == 'G' {
				for strand, at := range map[pileup.Strand]int{pileup.Plus: pos, pileup.Minus: pos + 1} {
					row := &pileup.Row{Pos: at, Strand: strand, Code: 'm', Canonical: 20}
					if rng.Float64() < share {
						row.Modified, row.Canonical = 18, 2
					}
					list = append(list, row)
				}
			}
		}
		assert.Equal(t, want, names(find(t, Config{}, seq, list)))
	}
}

// TestThinned: of more places than are kept a part is enough, and which it is doesn't depend on their order.
func TestThinned(t *testing.T) {
	lambda := aligntest.LambdaGenome(t).Contigs[0].Seq
	list := rows(t, 8, lambda, 20, 1, []planted{{"GATC,1", 'a', 1}})
	whole, part := find(t, Config{}, lambda, list), find(t, Config{MaxPlaces: 15_000}, lambda, list)
	require.Equal(t, []string{"GATC,1 a"}, names(part))
	require.Less(t, part[0].Plus.Covered, whole[0].Plus.Covered)
	slices.Reverse(list)
	require.Equal(t, part, find(t, Config{MaxPlaces: 15_000}, lambda, list))
}

// BenchmarkFind finds four motifs, two of them with a gap, in a genome as long as that of E. coli at 20x: processor time of a search,
// without what counting takes.
func BenchmarkFind(b *testing.B) {
	seq := random(7, 4_600_000)
	f := NewFinder(Config{})
	for _, row := range rows(b, 7, seq, 20, 1, []planted{{"GATC,1", 'a', 1}, {"CCWGG,1", 'm', 1}, {"AACNNNNNNGTGC,1", 'a', 1}, {"GCACNNNNNNGTT,2", 'a', 1}}) {
		f.Add(seq, row)
	}
	before, found := testenv.ProcessorTime(b), 0
	for b.Loop() {
		motifs, err := f.Find(b.Context())
		require.NoError(b, err)
		found = len(motifs)
	}
	b.ReportMetric((testenv.ProcessorTime(b)-before).Seconds()/float64(b.N), "processor-s/op")
	b.ReportMetric(float64(found), "motifs")
}

package watchlist_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/modbase/panel"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/watchlist"
)

// methylationRules are on a region that reaches over two stretches of 4,096 positions, and on parts of it.
const methylationRules = `- id: promoter
  label: a promoter
  methylation: {region: "J02459.1:3901-4400", is: methylated}
  thresholds: {alpha: 0.01, beta: 0.01, min_depth: 1}
- id: open
  methylation: {region: "J02459.1:3901-4400", is: unmethylated}
- id: imprinted
  methylation: {region: "J02459.1:3901-4400", is: half}
- id: adenines
  methylation: {region: "J02459.1:4101-4200", is: methylated, code: a, positions: 1}
- id: far
  methylation: {region: "J02459.1:40000-41000", is: methylated}
- id: allele
  match: {vcf: "J02459.1:37589:C:T"}
`

// molecules are reads over the region, each methylated all along or not at all.
type molecules struct {
	rng   *rand.Rand
	sites []int // C of CpGs of the region, on the forward strand
	marks map[watchlist.Mark]*[2]int
	plain []int // other C, which callers of all contexts score, and which don't count
}

func newMolecules(b *bench, rng *rand.Rand) *molecules {
	m := &molecules{rng: rng, marks: map[watchlist.Mark]*[2]int{}}
	seq := string(b.g.Contigs[0].Seq)
	for i := 3900; i < 4400; i++ {
		switch {
		case seq[i:i+2] == "CG":
			m.sites = append(m.sites, i)
		case seq[i] == 'C':
			m.plain = append(m.plain, i)
		}
	}
	return m
}

// read adds a molecule over a part of the region.
func (m *molecules) read(methylated bool) {
	from, reverse := m.rng.IntN(len(m.sites)/2), m.rng.IntN(2) == 1
	to := len(m.sites) - m.rng.IntN(len(m.sites)/2)
	add := func(pos int, is bool) {
		key := watchlist.Mark{Pos: pos, Reverse: reverse}
		if m.marks[key] == nil {
			m.marks[key] = new([2]int)
		}
		m.marks[key][1]++
		if is {
			m.marks[key][0]++
		}
	}
	for _, site := range m.sites[from:to] {
		if reverse {
			site++
		}
		add(site, methylated)
	}
	if !reverse {
		for _, pos := range m.plain {
			add(pos, !methylated)
		}
	}
}

// revisions are those of the two stretches.
func (m *molecules) revisions(run string, revision uint64) []watchlist.Methylation {
	list := []watchlist.Methylation{
		{Run: run, Contig: "J02459.1", Start: 0, End: 4096, Code: "m", Revision: revision}, {Run: run, Contig: "J02459.1", Start: 4096, End: 8192, Code: "m", Revision: revision},
	}
	for key, n := range m.marks {
		key.Modified, key.Calls = n[0], n[1]
		s := &list[key.Pos/4096]
		s.Marks = append(s.Marks, key)
	}
	for i := range list {
		slices.SortFunc(list[i].Marks, func(a, b watchlist.Mark) int {
			if a.Pos != b.Pos {
				return a.Pos - b.Pos
			}
			return len(fmt.Sprint(b.Reverse)) - len(fmt.Sprint(a.Reverse)) // false before true
		})
	}
	return list
}

// answered are the alerts of a sample in which molecules come one after the other, with an evaluation after each, up to the end of the run.
func answered(b *bench, rng *rand.Rand, share float64, depth int) (all []watchlist.Alert) {
	m, tr := newMolecules(b, rng), b.w.NewTracker("s")
	tr.RunStart("run")
	for n := range depth {
		m.read(rng.Float64() < share)
		for _, r := range m.revisions("run", uint64(n+1)) {
			all = append(all, tr.Methylation(r)...)
		}
	}
	return append(all, tr.RunEnd("run")...)
}

func TestMethylationRules(t *testing.T) {
	b := written(t, methylationRules)
	require.Equal(t, "promoter", b.w.AsksMethylation())
	for _, tt := range []struct {
		share float64
		depth int
		want  []string
	}{
		{0.97, 80, []string{"open methylation PENDING>NEGATIVE", "promoter methylation PENDING>DETECTED", "promoter methylation DETECTED>DETECTED final", "open methylation NEGATIVE>NEGATIVE final"}},
		{0.03, 80, []string{"promoter methylation PENDING>NEGATIVE", "open methylation PENDING>DETECTED", "promoter methylation NEGATIVE>NEGATIVE final", "open methylation DETECTED>DETECTED final"}},
		{0.5, 400, []string{"imprinted methylation PENDING>DETECTED", "imprinted methylation DETECTED>DETECTED final"}},
		{0.97, 1, []string{"promoter methylation PENDING>NOT_CALLABLE final", "open methylation PENDING>NOT_CALLABLE final"}},
	} {
		alerts := answered(b, rand.New(rand.NewPCG(1, 2)), tt.share, tt.depth)
		lines := briefs(alerts)
		for _, want := range append(tt.want, "adenines methylation PENDING>NOT_CALLABLE final", "far methylation PENDING>NOT_CALLABLE final", "allele allele PENDING>NOT_CALLABLE final") {
			require.Contains(t, lines, want)
		}
		for _, a := range alerts {
			switch {
			case a.Scope != watchlist.ScopeMethylation:
				require.Nil(t, a.Methylation)
			case a.Rule == "promoter":
				require.Equal(t, 3901, a.Methylation.Start)
				require.InDelta(t, tt.share, a.Methylation.Share, 0.2, "C elsewhere count")
			case a.Rule == "far":
				require.Equal(t, "no calls of modified bases", a.Reason)
			}
			require.Equal(t, a.State == watchlist.Detected || a.State == watchlist.Suspected, a.Probability.FalseAlarm != nil, brief(a))
			if a.State == watchlist.Negative {
				require.LessOrEqual(t, *a.Probability.Miss, 0.01)
			}
		}
	}
}

// TestMethylationErrorsOverAllEvaluations: a rule is evaluated after each of many molecules, and is still wrong, at any evaluation, no more often than is
// said.
func TestMethylationErrorsOverAllEvaluations(t *testing.T) {
	const alpha = 0.05
	samples := cases(t, 300)
	for _, tt := range []struct {
		is    string
		share float64
		wrong []watchlist.State
	}{
		{"methylated", 0.2, []watchlist.State{watchlist.Detected, watchlist.Suspected}},
		{"methylated", 0.5, []watchlist.State{watchlist.Negative}},
		{"unmethylated", 0.5, []watchlist.State{watchlist.Detected, watchlist.Suspected}},
		{"half", 0.2, []watchlist.State{watchlist.Detected, watchlist.Suspected}},
		{"half", 0.65, []watchlist.State{watchlist.Negative}},
	} {
		b := written(t, fmt.Sprintf("- id: r\n  methylation: {region: \"J02459.1:3901-4400\", is: %s}\n  thresholds: {alpha: %v, beta: %v, min_depth: 1}\n", tt.is, alpha, alpha))
		rng := rand.New(rand.NewPCG(7, uint64(100*tt.share)))
		wrong, said := 0, 0
		for range samples {
			ever := false
			for _, a := range answered(b, rng, tt.share, 5+rng.IntN(60)) {
				ever = ever || slices.Contains(tt.wrong, a.State)
				if a.State != watchlist.NotCallable && a.State != watchlist.Pending {
					said++
				}
			}
			if ever {
				wrong++
			}
		}
		t.Logf("%s at %v: %d of %d wrong at any evaluation", tt.is, tt.share, wrong, samples)
		require.LessOrEqual(t, float64(wrong), alpha*float64(samples), "%s at %v", tt.is, tt.share)
	}
}

// TestMethylationEndsAlike: what is said at the end follows from the newest revisions, whatever came before and in whatever order, and
// whether the state was written and restored in between; and it is what the same counts give in a file.
func TestMethylationEndsAlike(t *testing.T) {
	b := written(t, methylationRules)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		m := newMolecules(b, rng)
		var all []watchlist.Methylation
		for n := range 1 + rng.IntN(60) {
			m.read(rng.Float64() < 0.8)
			all = append(all, m.revisions("run", uint64(n+1))...)
		}
		var want map[string]string
		for round := range 4 {
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			tr := b.w.NewTracker("s")
			tr.RunStart("run")
			var alerts []watchlist.Alert
			end := len(all) - rng.IntN(2)*rng.IntN(len(all)) // some come late
			for i, r := range all {
				if i == end {
					alerts = append(alerts, tr.RunEnd("run")...)
				}
				alerts = append(alerts, tr.Methylation(r)...)
				if rng.IntN(10) == 0 {
					state := stateOf(t, tr)
					tr = restored(t, b.w, state)
					require.Equal(t, state, stateOf(t, tr))
				}
			}
			alerts = append(alerts, tr.RunEnd("run")...)
			last := map[string]string{}
			for _, a := range alerts {
				if a.Final {
					a.ID, a.Revision, a.Previous = "", 0, ""
					document, err := a.JSON()
					require.NoError(t, err)
					last[a.Rule] = string(document)
				}
			}
			require.Len(t, last, 6)
			if round == 0 {
				want = last
			}
			require.Equal(t, want, last, "seed %d", seed)
		}
		regions, err := panel.ReadRegions(strings.NewReader("J02459.1\t3900\t4400\tpromoter\tmethylated\n"), "r")
		require.NoError(t, err)
		counted := panel.NewRegions(regions)
		plain := map[int]bool{}
		for _, pos := range m.plain {
			plain[pos] = true
		}
		for key, n := range m.marks {
			if !plain[key.Pos] {
				strand := map[bool]pileup.Strand{false: pileup.Plus, true: pileup.Minus}[key.Reverse]
				counted.Add("J02459.1", &pileup.Row{Pos: key.Pos, Strand: strand, Code: 'm', Modified: n[0], Canonical: n[1] - n[0]})
			}
		}
		offline := counted.Answers(0.005)[0] // half of the rule's: the other half is for the evaluations before
		require.Contains(t, want["promoter"], fmt.Sprintf(`"state":"%s"`, offline.State))
	}
}

// TestMethylationOfManyStretches: regions that have whole stretches of counts and parts of them are answered as the same counts are in a file, with every
// revision.
func TestMethylationOfManyStretches(t *testing.T) {
	places := [][2]int{{0, 48_502}, {4096, 12_288}, {4000, 12_300}, {8191, 8193}, {16_384, 40_000}}
	text, lines := "", ""
	for i, p := range places {
		text += fmt.Sprintf("- id: r%d\n  methylation: {region: \"J02459.1:%d-%d\", is: methylated, code: a, positions: 1}\n", i, p[0]+1, p[1])
		lines += fmt.Sprintf("J02459.1\t%d\t%d\tr%d\tmethylated\ta\t1\n", p[0], p[1], i)
	}
	b := written(t, text)
	regions, err := panel.ReadRegions(strings.NewReader(lines), "r")
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(5, 6))
	newest, tr := map[int]watchlist.Methylation{}, b.w.NewTracker("s")
	tr.RunStart("run")
	for revision := range uint64(60) {
		start := 4096 * rng.IntN(12)
		m := watchlist.Methylation{Run: "run", Contig: "J02459.1", Start: start, End: min(start+4096, 48_502), Code: "a", Revision: revision + 1}
		for pos := start + rng.IntN(9); pos < m.End; pos += 1 + rng.IntN(9) {
			calls := 1 + rng.IntN(30)
			m.Marks = append(m.Marks, watchlist.Mark{Pos: pos, Reverse: rng.IntN(2) == 1, Modified: rng.IntN(calls + 1), Calls: calls})
		}
		newest[start] = m
		tr.Methylation(m)
	}
	state := stateOf(t, tr)
	require.Less(t, len(state), 24_000, "whole stretches are kept as sums")
	tr = restored(t, b.w, state)
	counted := panel.NewRegions(regions)
	for _, m := range newest {
		for _, k := range m.Marks {
			strand := map[bool]pileup.Strand{false: pileup.Plus, true: pileup.Minus}[k.Reverse]
			counted.Add(m.Contig, &pileup.Row{Pos: k.Pos, Strand: strand, Code: 'a', Modified: k.Modified, Canonical: k.Calls - k.Modified})
		}
	}
	alerts := tr.RunEnd("run")
	require.Len(t, alerts, len(places))
	for i, want := range counted.Answers(0.5) {
		got := alerts[slices.IndexFunc(alerts, func(a watchlist.Alert) bool { return a.Rule == fmt.Sprintf("r%d", i) })].Methylation
		require.Equal(t, want.Covered, got.Positions, "r%d", i)
		require.InDelta(t, want.Share, got.Share, 1e-4, "r%d", i)
		require.InDelta(t, want.Depth, got.Depth, 0.06, "r%d", i)
	}
}

// goldenMethylation knows of methylation, was evaluated, and has said something.
func goldenMethylation(t testing.TB) (*bench, *watchlist.Tracker) {
	t.Helper()
	b := written(t, methylationRules)
	m, tr := newMolecules(b, rand.New(rand.NewPCG(1, 4))), b.w.NewTracker("sample/1")
	tr.RunStart("run")
	for n := range 40 {
		m.read(n%20 > 0)
		for _, r := range m.revisions("run", uint64(n+1)) {
			tr.Methylation(r)
		}
	}
	return b, tr
}

// TestGoldenMethylation: state that versions 4 and 5 wrote is read by every later program, and becomes that of the newest.
func TestGoldenMethylation(t *testing.T) {
	for _, version := range []string{"v4", "v5"} {
		t.Run(version, func(t *testing.T) { goldenState(t, version) })
	}
}

func goldenState(t *testing.T, version string) {
	b, tr := goldenMethylation(t)
	path := filepath.Join("testdata", "state", "tracker."+version+".hex")
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) && *update {
		var s strings.Builder
		for line := range slices.Chunk([]byte(stateOf(t, tr)), 40) {
			s.WriteString(hex.EncodeToString(line) + "\n")
		}
		text = []byte(s.String())
		err = os.WriteFile(path, text, 0o644)
	}
	require.NoError(t, err)
	golden, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	require.NoError(t, err)
	again := restored(t, b.w, string(golden))
	newest := stateOf(t, again)
	require.EqualValues(t, 5, newest[0])
	require.Equal(t, newest, stateOf(t, restored(t, b.w, newest)))
	if version == "v5" {
		require.Equal(t, string(golden), newest)
	}
	require.Contains(t, briefs(again.RunEnd("run")), "promoter methylation DETECTED>DETECTED final")
	for n := range len(golden) {
		_, err := b.w.RestoreTracker(golden[:n])
		require.Error(t, err, "the first %d bytes", n)
	}
	other, _ := goldenTracker(t)
	_, err = other.w.RestoreTracker(golden)
	require.ErrorContains(t, err, "reads version 2")
}

func FuzzRestoreMethylation(f *testing.F) {
	b, tr := goldenMethylation(f)
	f.Add([]byte(stateOf(f, tr)))
	f.Fuzz(func(t *testing.T, state []byte) {
		tr, err := b.w.RestoreTracker(state)
		if err != nil {
			return
		}
		first := stateOf(t, tr)
		require.Equal(t, first, stateOf(t, restored(t, b.w, first)))
		tr.RunEnd("run")
	})
}

func TestMethylationAsked(t *testing.T) {
	b := written(t, methylationRules)
	require.Equal(t, [][2]int{{3900, 4096}}, b.w.Asked("J02459.1", "m", 0, 4096))
	require.Equal(t, [][2]int{{4096, 4400}}, b.w.Asked("J02459.1", "m", 4096, 8192))
	require.Equal(t, [][2]int{{4100, 4200}}, b.w.Asked("J02459.1", "a", 4096, 8192))
	require.Empty(t, b.w.Asked("J02459.1", "m", 4400, 39_999))
	require.Empty(t, b.w.Asked("J02459.1", "h", 0, 48_502))
	require.Empty(t, b.w.Asked("other", "m", 0, 8192))
	for _, target := range b.w.Targets() {
		require.Equal(t, watchlist.Target{Contig: "J02459.1", Start: 37_588, End: 37_589}, target, "depth is not measured for methylation")
	}
	lines := []string{}
	for _, r := range b.w.Resolve() {
		lines = append(lines, r.Text())
	}
	require.Contains(t, lines, "p\tpromoter\tmethylation\tmethylated\tJ02459.1:3901-4400\t500\t8\t4\t0.01")
}

package watchlist_test

import (
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/watchlist"
)

func stateOf(t testing.TB, tr *watchlist.Tracker) string {
	t.Helper()
	b, err := tr.AppendState([]byte("x"))
	require.NoError(t, err)
	return string(b[1:])
}

func restored(t testing.TB, w *watchlist.Watch, state string) *watchlist.Tracker {
	t.Helper()
	b := []byte(state)
	tr, err := w.RestoreTracker(b)
	require.NoError(t, err)
	clear(b)
	return tr
}

// lawful are panels with all kinds of rules.
func lawful(t testing.TB) []*bench {
	return []*bench{
		newBench(t, filepath.Join("testdata", "lambda", "panel.yaml")),
		written(t, `- {id: codon, match: {gene: cI, codon: 118}}
- {id: region, match: {region: "J02459.1:45300-45400"}, thresholds: {max_not_callable: 0.3}}
- {id: allele, match: {vcf: ["J02459.1:37742:C:T", "J02459.1:43082:G:A"]}}
- {id: high, match: {gene: [S, NinH], impact: [HIGH, MODERATE]}}
`),
	}
}

// TestRestoredTrackerGoesOn: a tracker that is restored anywhere says of what
// follows what one says that never was, and has the same state.
func TestRestoredTrackerGoesOn(t *testing.T) {
	for i, b := range lawful(t) {
		rng := rand.New(rand.NewPCG(uint64(i), 17))
		said := 0
		for range cases(t, 25) {
			all := b.evidence(t, rng, []string{"run", "second"})
			for _, run := range []string{"run", "second", "second", "third"} {
				all = append(all,
					func(tr *watchlist.Tracker) []watchlist.Alert { return tr.RunEnd(run) },
					func(tr *watchlist.Tracker) []watchlist.Alert { tr.RunStart(run); return nil })
			}
			for range rng.IntN(len(all)) {
				all = append(all, all[rng.IntN(len(all))])
			}
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			all = append(all, func(tr *watchlist.Tracker) []watchlist.Alert {
				return slices.Concat(tr.RunEnd("run"), tr.RunEnd("second"), tr.RunEnd("third"))
			})

			whole, broken := b.w.NewTracker("s"), b.w.NewTracker("s")
			versions := make(map[uint64]string)
			for _, o := range all {
				if rng.IntN(3) == 0 {
					state := stateOf(t, whole)
					broken = restored(t, b.w, state)
					require.Equal(t, state, stateOf(t, broken))
				}
				want := o(whole)
				require.Equal(t, want, o(broken))
				said += len(want)
				state := stateOf(t, whole)
				require.Equal(t, state, stateOf(t, broken))
				if old, ok := versions[whole.Version()]; ok {
					require.Equal(t, old, state, "a version stands for two states")
				}
				versions[whole.Version()] = state
			}
		}
		require.Greater(t, said, 100)
	}
}

// TestStateOfOrderedPanels: the order in which panels are named is not in the state.
func TestStateOfOrderedPanels(t *testing.T) {
	b := newBench(t, filepath.Join("testdata", "lambda", "panel.yaml"))
	path := filepath.Join(t.TempDir(), "another.yaml")
	require.NoError(t, os.WriteFile(path, []byte("panel: a\nversion: 1\nrules:\n- {id: codon, match: {gene: cI, codon: 118}}\n"), 0o600))
	another, err := watchlist.Load(path)
	require.NoError(t, err)
	var states []string
	for _, panels := range [][]*watchlist.Panel{{b.p, another}, {another, b.p}} {
		w, err := watchlist.New(b.g, b.a, panels...)
		require.NoError(t, err)
		tr := w.NewTracker("s")
		tr.Variant(b.allele(t, 37589, "C", "T", 18, 20))
		tr.RunEnd("run")
		states = append(states, stateOf(t, tr))
		require.Equal(t, states[0], stateOf(t, restored(t, w, states[0])))
	}
	require.Equal(t, states[0], states[1])
}

// goldenTracker knows of alleles, depths, ended runs and others, and has said
// all kinds of things.
func goldenTracker(t testing.TB) (*bench, *watchlist.Tracker) {
	t.Helper()
	b := newBench(t, filepath.Join("testdata", "lambda", "panel.yaml"))
	tr := b.w.NewTracker("sample/1")
	tr.RunStart("other")
	tr.RunEnd("run")
	tr.Variant(trimmed(b.allele(t, 37589, "C", "T", 18, 20)))
	tr.Variant(trimmed(b.allele(t, 45352, "G", "A", 3, 20)))
	tr.Variant(trimmed(b.allele(t, 45353, "G", "A", 12, 12)))
	b.coverAll(tr, 25, 3)
	c := b.covered(45300, 45360, 25, 1)
	c.Shown = append(c.Shown, watchlist.Shown{Pos: 45301, Ref: string(b.g.Contigs[0].Seq[45300:45302]), Alt: string(b.g.Contigs[0].Seq[45300]), Forward: 9, Reverse: 8, Depth: 25})
	tr.Coverage(shows(c, 45351, 21))
	tr.RunEnd("other")
	tr.RunStart("third")
	return b, tr
}

// TestGoldenTracker: state that version 2 wrote is read by every later program; version 1 knew nothing of what reads show.
func TestGoldenTracker(t *testing.T) {
	b, tr := goldenTracker(t)
	path := filepath.Join("testdata", "state", "tracker.v2.hex")
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
	require.Equal(t, string(golden), stateOf(t, again))
	require.Equal(t, "sample/1", again.Sample())
	require.NotEmpty(t, again.RunEnd("third"))
	_, err = b.w.RestoreTracker(append([]byte{1}, golden[1:]...))
	require.ErrorContains(t, err, "start the stage anew from its topic")
}

func TestDamagedTrackers(t *testing.T) {
	b, tr := goldenTracker(t)
	whole := stateOf(t, tr)
	for n := range len(whole) {
		_, err := b.w.RestoreTracker([]byte(whole[:n]))
		require.Error(t, err, "the first %d of %d bytes", n, len(whole))
	}
	_, err := b.w.RestoreTracker([]byte(whole + "\x00"))
	require.ErrorContains(t, err, "too many")
	other := written(t, "- {id: codon, match: {gene: cI, codon: 118}}\n")
	_, err = other.w.RestoreTracker([]byte(whole))
	require.ErrorContains(t, err, "no panel has rule")
}

func FuzzRestoreTracker(f *testing.F) {
	b, tr := goldenTracker(f)
	f.Add([]byte(stateOf(f, tr)))
	f.Add([]byte(stateOf(f, b.w.NewTracker("s"))))
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

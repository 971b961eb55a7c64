package watchlist_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/watchlist"
)

// TestListsAnswerLikeReads: a sample's mutations as a list lead to the same classes and probabilities as reads that show them.
func TestListsAnswerLikeReads(t *testing.T) {
	b := withModel(t)
	for _, tt := range []struct {
		list    string
		changes [][3]any
	}{
		{"s", nil},
		{"s\tcI:E118K", [][3]any{{37589, "C", "T"}}},
		{"s\tcI:E118K, cI:A67T", [][3]any{{37589, "C", "T"}, {37742, "C", "T"}}},
		{"s\tcI:67V", [][3]any{{37741, "G", "A"}}},
		{"s\tcI:A67I", [][3]any{{37742, "C", "T"}, {37741, "G", "A"}}},
	} {
		list, err := watchlist.ReadList(strings.NewReader("# sample, mutations\n" + tt.list + "\n"))
		require.NoError(t, err)
		require.Len(t, list, 1)
		want, err := b.w.AnswerList(list[0])
		require.NoError(t, err)
		tr := b.w.NewTracker("s")
		b.coverAll(tr, 60, 1)
		for _, c := range tt.changes {
			tr.Variant(revised(b.allele(t, c[0].(int), c[1].(string), c[2].(string), 0, 0), "FINAL", 90, 40, 40))
		}
		final := tr.RunEnd("run")
		for _, rule := range []string{"drug", "lineage"} {
			got := named(final, rule)
			require.Len(t, got, 1)
			require.Equal(t, named(want, rule)[0].Model, got[0].Model, tt.list)
			require.Equal(t, named(want, rule)[0].State, got[0].State)
		}
	}
}

func TestListsWithoutCoverage(t *testing.T) {
	b := withModel(t)
	list, err := watchlist.ReadList(strings.NewReader("none\t\t\na part\tcI:A67T\tcI:1-100\n"))
	require.NoError(t, err)
	answers, err := b.w.AnswerList(list[0])
	require.NoError(t, err)
	require.Equal(t, watchlist.NotCallable, named(answers, "drug")[0].State)
	answers, err = b.w.AnswerList(list[1])
	require.NoError(t, err)
	require.Equal(t, []string{"cI:118"}, named(answers, "drug")[0].Model.Missing)
	require.Equal(t, 1, named(answers, "drug")[0].Model.CodonsKnown)
}

func TestListFaults(t *testing.T) {
	b := withModel(t)
	for text, want := range map[string]string{
		"s\tE118K":               `line 1: "E118K" is not a mutation such as RT:M184V`,
		"\n#\ns\tcI:E118K\tcI:0": `line 3: what is covered: codon "0"`,
		"s\ta\tb\tc":             "line 1: want a sample, mutations and perhaps what is covered",
		"s\tcro:K1A":             "line 1: cro:1 is no codon of the models' genes",
		"s\tcI:A900V":            "line 1: cI:900 is no codon of the models' genes",
		"s\tcI:E118K\tcro":       `line 1: "cro" is none of the models' genes`,
	} {
		list, err := watchlist.ReadList(strings.NewReader(text))
		if err == nil {
			_, err = b.w.AnswerList(list[0])
		}
		require.ErrorContains(t, err, want)
	}
}

func FuzzReadList(f *testing.F) {
	f.Add("s\tcI:E118K, cI:A67TV\tcI:1-100 cI\n")
	b := withModel(f)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := watchlist.ReadList(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, l := range list {
			_, _ = b.w.AnswerList(l)
		}
	})
}

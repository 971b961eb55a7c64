package aligned_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/aligned"
)

// forHac is a network for models whose names hold hac, that calls every allele.
type forHac struct{}

func (forHac) Score(dst, examples []float32) ([]float32, error) {
	for range len(examples) / variant.ExampleSize {
		scores := make([]float32, variant.Scores)
		for i := range scores {
			scores[i] = -8
		}
		scores[variant.ScoreCopies+2], scores[variant.ScoreZygosity+2] = -1e-4, -1e-4
		dst = append(dst, scores...)
	}
	return dst, nil
}

func (forHac) Fingerprint() string { return "for hac" }

func (forHac) Suits() []variant.Suit {
	return []variant.Suit{{Name: "hac", Matches: func(m string) bool { return strings.Contains(m, "hac") }, Network: forHac{}}}
}

// TestModelsOfAlignments: the basecalling model of an alignment is named by its read group, by the name
// of one that the header doesn't have, by its own tag DS, or by the caller; calls and counts follow
// from the set of alignments, sorted or not, on any number of threads.
func TestModelsOfAlignments(t *testing.T) {
	l, reads, _ := border(t)
	const run = "f08e85a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"
	groups := "@RG\tID:1\tSM:patient\tDS:runid=x basecall_model=dna_r10.4.1_e8.2_400bps_hac@v5.0.0\n@RG\tID:2\tSM:patient\tDS:basecall_model=fast@v5\n@RG\tID:3\tSM:patient\n"
	tags := []string{"\tRG:Z:1", "\tRG:Z:1", "\tRG:Z:2", "\tRG:Z:" + run + "_dna_hac@v4", "\tRG:Z:3", "\tRG:Z:3\tDS:Z:basecall_model=old", ""}
	named := func(sorted bool) string {
		var b strings.Builder
		for line := range strings.Lines(l.file(reads, sorted)) {
			switch {
			case strings.HasPrefix(line, "@RG"):
				b.WriteString(groups)
			case strings.HasPrefix(line, "@"):
				b.WriteString(line)
			default:
				sum := 0
				for _, c := range strings.SplitN(line, "\t", 2)[0] {
					sum += int(c)
				}
				b.WriteString(strings.TrimSuffix(line, "\n") + tags[sum%len(tags)] + "\n")
			}
		}
		return b.String()
	}
	call := func(text, calledBy string, threads int) (said []string, models map[string]uint64) {
		a, err := aligned.Read(strings.NewReader(text), l.genome)
		require.NoError(t, err)
		defer a.Close()
		models = make(map[string]uint64)
		_, err = a.Call(t.Context(), aligned.Options{Variant: variant.Config{Network: forHac{}}, Threads: threads, CalledBy: calledBy}, func(r *aligned.Region) error {
			for _, c := range r.Calls {
				said = append(said, fmt.Sprintf("%d %s>%s %v", c.GetPos(), c.GetRef(), c.GetAlt(), c.GetModelMismatch()))
			}
			for _, m := range r.Models {
				models[m.Name] += m.Reads
				require.Equal(t, m.Name != "" && !strings.Contains(m.Name, "hac"), m.Match == variant.Mismatched, m.Name)
			}
			return nil
		})
		require.NoError(t, err)
		return said, models
	}
	said, models := call(named(true), "", 1)
	require.NotEmpty(t, said)
	for _, line := range said {
		require.Contains(t, line, "fast@v5")
		require.Contains(t, line, "old")
		require.NotContains(t, line, "hac")
	}
	total := uint64(0)
	for _, n := range models {
		total += n
	}
	require.Equal(t, uint64(len(reads)-15), total, "each read once, those over a border of regions too; not what is of no use")
	require.Len(t, models, 5, "%v", models)
	unsorted, again := call(named(false), "", 3)
	require.Equal(t, said, unsorted)
	require.Equal(t, models, again)
	_, models = call(named(true), "hac by hand", 2)
	require.NotContains(t, models, "")
	require.Positive(t, models["hac by hand"])
}

// TestStrictCallsRefuse: the first alignment of another model, or of none, ends the call and is named.
func TestStrictCallsRefuse(t *testing.T) {
	l, reads, _ := border(t)
	for _, tt := range []struct{ description, calledBy, want string }{
		{"\tDS:basecall_model=dna_hac@v5", "", ""},
		{"", "dna_hac@v5", ""},
		{"\tDS:basecall_model=fast@v5", "dna_hac@v5", "fast@v5 has called them, and caller is for those of hac"},
		{"", "", "no basecalling model is named for them"},
	} {
		lines := strings.Split(strings.Replace(l.file(reads, true), "@RG\tID:a\tSM:patient", "@RG\tID:a\tSM:patient"+tt.description, 1), "\n")
		for i, line := range lines {
			if line != "" && line[0] != '@' {
				lines[i] += "\tRG:Z:a"
			}
		}
		a, err := aligned.Read(strings.NewReader(strings.Join(lines, "\n")), l.genome)
		require.NoError(t, err)
		var calls []*streampb.Call
		_, err = a.Call(t.Context(), aligned.Options{Variant: variant.Config{Network: forHac{}}, CalledBy: tt.calledBy, NetworkName: "caller", Strict: true}, func(r *aligned.Region) error {
			calls = append(calls, r.Calls...)
			return nil
		})
		if tt.want == "" {
			require.NoError(t, errors.Join(err, a.Close()))
			require.NotEmpty(t, calls)
			continue
		}
		require.ErrorIs(t, err, variant.ErrModelMismatch)
		require.ErrorContains(t, err, "reading alignment 1, read ")
		require.ErrorContains(t, err, tt.want)
		require.NotContains(t, err.Error(), "\n")
		require.NoError(t, a.Close())
	}
}

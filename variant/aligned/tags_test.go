package aligned_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/samtag"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/aligned"
)

// noVariants is a network that calls nothing: reads have haplotypes without one.
type noVariants struct{}

func (noVariants) Judge(dst, examples []float32) ([]float32, error) {
	return append(dst, make([]float32, len(examples)/variant.ExampleSize*variant.Scores)...), nil
}

func (noVariants) Fingerprint() string { return "none" }

// TestHaplotypeTags: reads of two haplotypes that differ at some sites are told apart,
// all of each have one tag, over the border of regions too; reads of a contig without such
// a site have none; and tags of another program are gone.
func TestHaplotypeTags(t *testing.T) {
	l := newLaboratory(t, 9, 1_006_000, 3_000)
	var reads []alignment
	first := l.reads("c1", 997_000, 1_003_000, 14)
	var sites []int
	for _, at := range []int{998_000, 998_700, 999_500, 1_000_800, 1_001_500, 1_002_300} {
		var pos int
		_, err := fmt.Sscanf(l.plant("c1", at, false), "c1:%d", &pos)
		require.NoError(t, err)
		sites = append(sites, pos)
	}
	second := l.reads("c1", 997_000, 1_003_000, 14)
	for i := range first {
		first[i].name, second[i].name = "one-"+first[i].name, "two-"+second[i].name
	}
	reads = append(append(append(reads, first...), second...), l.reads("c2", 100, 2_900, 10)...)
	text := l.file(reads, true)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "c2-") {
			lines[i] += "\tHP:i:2\tPS:i:7"
		}
	}
	content := toBAM(t, strings.Join(lines, "\n"))

	open := func() *aligned.Alignments {
		a, err := aligned.Read(bytes.NewReader(content), l.genome)
		require.NoError(t, err)
		t.Cleanup(func() { _ = a.Close() })
		return a
	}
	tags := make(aligned.HaplotypeTags)
	_, err := open().Call(t.Context(), aligned.Options{
		Caller: variant.Config{Ploidy: variant.Diploid, Network: noVariants{}}, Haplotag: true, Threads: 2,
	}, func(r *aligned.Region) error {
		tags.Add(r)
		return nil
	})
	require.NoError(t, err)
	var out bytes.Buffer
	counts, err := tags.WriteBAM(t.Context(), open(), &out, 1, [3]string{"pore", "1", "pore call"})
	require.NoError(t, err)
	require.Equal(t, aligned.TagCounts{Records: 38, Tagged: 28}, counts)

	tagged, err := hts.NewBAMReader(&out, 1)
	require.NoError(t, err)
	programs := tagged.Header().Progs()
	require.Equal(t, "pore", programs[len(programs)-1].Name())
	haplotype := make(map[string]int)
	for {
		rec, err := tagged.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		hp, is := samtag.Int(rec, "HP")
		ps, _ := samtag.Int(rec, "PS")
		pc, _ := samtag.Int(rec, "PC")
		from, _, _ := strings.Cut(rec.Name, "-")
		if from == "c2" {
			require.False(t, is, rec.Name)
			require.Zero(t, ps)
			continue
		}
		require.Contains(t, []int{1, 2}, hp, rec.Name)
		require.Greater(t, pc, 20)
		require.Contains(t, []int{sites[0], sites[3]}, ps, "a phase set is named by its first site, and is of one region")
		key := from + " of " + map[bool]string{true: "the first region", false: "the second"}[ps < 1_000_000]
		if before, known := haplotype[key]; known {
			require.Equal(t, before, hp, rec.Name)
		}
		haplotype[key] = hp
	}
	for _, region := range []string{"the first region", "the second"} {
		require.Equal(t, haplotype["one of "+region] == 0, haplotype["two of "+region] == 0)
		if haplotype["one of "+region] != 0 {
			require.NotEqual(t, haplotype["one of "+region], haplotype["two of "+region], region)
		}
	}
}

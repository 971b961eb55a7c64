package aligned_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/align/hts/samtag"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/aligned"
)

// noVariants is a network that calls nothing: reads have haplotypes without one.
type noVariants struct{}

func (noVariants) Score(dst, examples []float32) ([]float32, error) {
	return append(dst, make([]float32, len(examples)/variant.ExampleSize*variant.Scores)...), nil
}

func (noVariants) Fingerprint() string { return "none" }

// TestHaplotypeTags: reads of two haplotypes that differ at some sites are distinguished;
// all reads of one have one tag, over the border of regions too; reads of a contig without
// such a site have none; and tags of another program are gone.
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
		Variant: variant.Config{Ploidy: variant.Diploid, Network: noVariants{}}, Haplotag: true, Threads: 2,
	}, func(r *aligned.Region) error {
		tags.Add(r)
		return nil
	})
	require.NoError(t, err)
	var out bytes.Buffer
	counts, err := tags.WriteBAM(t.Context(), open(), &out, "", 1, [3]string{"pore", "1", "pore call"})
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

// TestHaplotagLeavesTheRest: but for the tags HP, PS and PC, and a line for the program, a file of
// tagged alignments is what was read, to the byte: forward, reverse, secondary, supplementary, duplicate
// and unmapped records, with and without qualities, with tags of every kind, and records of
// no use.
func TestHaplotagLeavesTheRest(t *testing.T) {
	l := newLaboratory(t, 9, 6_000)
	first := l.reads("c1", 1_000, 5_000, 12)
	for _, at := range []int{1_500, 2_300, 3_100, 4_200} {
		l.plant("c1", at, false)
	}
	reads := append(slices.Clone(first), l.reads("c1", 1_000, 5_000, 12)...)
	flags := []int{0, 16, 2048, 2064, 256, 272, 1024, 1040, 0, 16}
	tags := []string{"NM:i:7", "ML:B:C", "MM:Z:\tML:B:C,1,255", "er:Z:\tqs:f:17.5", "XH:H:1AE3\ttp:A:P", "mv:B:c,5,1,0,-1", "HP:i:2\tRG:Z:a", "PC:i:3\txs:B:s,-300", "RG:Z:b", ""}
	for i := range reads {
		reads[i].name = fmt.Sprint("r", i)
		reads[i].flag = flags[i%len(flags)]
		if i%5 == 4 {
			reads[i].qual = "*"
		} else {
			reads[i].qual = "I5" + reads[i].qual[:len(reads[i].qual)-2]
		}
	}
	text := l.file(reads, true)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		if tag := tags[i%len(tags)]; line[0] != '@' && tag != "" {
			lines[i] += "\t" + tag
		}
	}
	lines[0] += "\tGO:reference"
	lines = append(lines,
		"spliced\t0\tc1\t5001\t60\t5M10N5M\t*\t0\t0\tACGTACGTAC\tIIIII55555", "clipped\t16\tc1\t5001\t60\t10S\t*\t0\t0\tACGTACGTAC\tIIIII55555\tRG:Z:b",
		"empty\t0\tc1\t5001\t60\t10M\t*\t0\t0\t*\t*", "unmapped\t4\t*\t0\t0\t*\t*\t0\t0\tACGTAC\tI5I5I5\tRG:Z:a")
	for i, line := range lines {
		if strings.HasPrefix(line, "@RG") {
			lines[i] = "@RG\tID:a\tSM:one\tDT:2026-03-01T10:11:12.345+02:00\n@RG\tID:b\tSM:two\n@PG\tID:pore\tPN:pore\n@CO\ta\tb"
		}
	}
	text = strings.Join(lines, "\n") + "\n"
	without := func(line string) string {
		return strings.Join(slices.DeleteFunc(strings.Split(line, "\t"), func(column string) bool {
			return strings.HasPrefix(column, "HP:i:") || strings.HasPrefix(column, "PS:i:") || strings.HasPrefix(column, "PC:i:")
		}), "\t")
	}
	for _, sample := range []string{"", "one"} {
		open := func() *aligned.Alignments {
			a, err := aligned.Read(strings.NewReader(text), l.genome)
			require.NoError(t, err)
			return a
		}
		tags := make(aligned.HaplotypeTags)
		_, err := open().Call(t.Context(), aligned.Options{
			Variant: variant.Config{Ploidy: variant.Diploid, Network: noVariants{}}, Haplotag: true,
		}, func(r *aligned.Region) error {
			tags.Add(r)
			return nil
		})
		require.NoError(t, err)
		var tagged, out bytes.Buffer
		n, err := tags.WriteBAM(t.Context(), open(), &tagged, sample, 1, [3]string{"pore", "1", "pore call"})
		require.NoError(t, err)
		r, err := hts.NewBAMReader(&tagged, 1)
		require.NoError(t, err)
		w, err := hts.NewWriter(&out, hts.SAM, r.Lines(), r.Header().Refs(), 1)
		require.NoError(t, err)
		for {
			rec, err := r.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.NoError(t, w.Write(rec))
		}
		require.NoError(t, w.Close())
		got := strings.Replace(out.String(), "@PG\tID:pore.1\tPN:pore\tCL:pore call\tPP:pore\tVN:1\n", "", 1)
		require.NotEqual(t, out.String(), got)
		before, after := strings.Split(text, "\n"), strings.Split(got, "\n")
		require.Equal(t, len(before), len(after))
		changed := 0
		for i := range before {
			require.Equal(t, without(before[i]), without(after[i]))
			if before[i] != after[i] {
				changed++
			}
			if sample == "one" && !strings.Contains(before[i], "RG:Z:a") {
				require.Equal(t, before[i], after[i], "another sample's")
			}
		}
		require.Greater(t, changed, 0)
		if sample == "" {
			require.Greater(t, n.Tagged, 10)
		}
	}
}

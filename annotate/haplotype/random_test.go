package haplotype

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/vrs"
)

// unpack reads a tar.gz of folders with files.
func unpack(t testing.TB, name string) map[string]map[string][]byte {
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	gz, err := gzip.NewReader(f)
	require.NoError(t, err)
	all := map[string]map[string][]byte{}
	for tr := tar.NewReader(gz); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		folder, file := path.Split(h.Name)
		if file == "" {
			continue
		}
		folder = path.Base(folder)
		if all[folder] == nil {
			all[folder] = map[string][]byte{}
		}
		all[folder][file], err = io.ReadAll(tr)
		require.NoError(t, err)
	}
}

// TestRandomGenes compares with what bcftools csq 1.24 says of random variants in random genes: both strands, short
// exons and introns, incomplete coding sequences, several samples and all options.
func TestRandomGenes(t *testing.T) {
	records := 0
	for name, files := range unpack(t, "testdata/random.tar.gz") {
		t.Run(name, func(t *testing.T) {
			mode := strings.Split(string(files["mode"]), "|")
			opts := Options{Local: mode[0] == "-l", Phase: Phase(mode[1][0])}
			table := readOption(t, &opts, mode[2])
			genes := load(t, files["r.fa"], files["r.gff"], table)
			_, recs := run(t, genes, files["r.vcf"], opts, nil)
			r, err := vcf.NewReader(bytes.NewReader(files["want.vcf"]))
			require.NoError(t, err)
			for _, got := range recs {
				want, err := r.Next()
				require.NoError(t, err)
				require.Equal(t, bcsq(want), bcsq(got), head(got))
				for sample := range got.Samples {
					for h := range 2 {
						require.Equal(t, onHaplotype(t, want, sample, h), onHaplotype(t, got, sample, h), "%s sample %d", head(got), sample)
					}
				}
				records++
			}
		})
	}
	require.Greater(t, records, 3000)
}

// readOption reads an option of bcftools csq and returns the genetic code.
func readOption(t *testing.T, opts *Options, text string) (table int) {
	if text == "" {
		return DefaultCode
	}
	var letter string
	var value int
	_, err := fmt.Sscan(text, &letter, &value)
	require.NoError(t, err)
	switch letter {
	case "-G":
		opts.Greedy = value == 1
	case "-B":
		opts.TrimProtein = value
	case "-C":
		return value
	case "-n":
		opts.PerHaplotype = value
	default:
		t.Fatal(text)
	}
	return DefaultCode
}

// TestEffectsAreWhatRecordsSay compares the pure function with the records of a file without samples, but for alleles that replace
// bases by more or fewer ones: see Options.replaced.
func TestEffectsAreWhatRecordsSay(t *testing.T) {
	compounds, compared := 0, 0
	for name, files := range unpack(t, "testdata/random.tar.gz") {
		genes := load(t, files["r.fa"], files["r.gff"], DefaultCode)
		var variants []Variant
		var text strings.Builder
		text.WriteString("##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n")
		for _, line := range strings.Split(string(files["r.vcf"]), "\n") {
			f := strings.Split(line, "\t")
			if line == "" || line[0] == '#' {
				continue
			}
			alt, _, _ := strings.Cut(f[4], ",")
			var pos int
			_, err := fmt.Sscan(f[1], &pos)
			require.NoError(t, err)
			if e := (vrs.Edit{Ref: f[3], Alt: alt}).Trim(); e.Ref != "" && e.Alt != "" && len(e.Ref) != len(e.Alt) {
				continue
			}
			variants = append(variants, Variant{pos, f[3], alt})
			fmt.Fprintf(&text, "c1\t%d\t.\t%s\t%s\t.\t.\t.\n", pos, f[3], alt)
		}
		_, recs := run(t, genes, []byte(text.String()), Options{}, nil)
		effects, err := genes.Effects("c1", variants, 0)
		require.NoError(t, err)
		for i, rec := range recs {
			compared++
			var values []string
			for _, e := range effects[i] {
				values = append(values, e.Value)
				if e.At >= 0 {
					require.Contains(t, e.Compound, i, name)
					require.Contains(t, e.Compound, e.At, name)
					compounds++
				}
			}
			if values == nil {
				values = []string{"."}
			}
			require.Equal(t, bcsq(rec), sorted(strings.Join(values, ",")), "%s %s", name, head(rec))
		}
	}
	require.Positive(t, compounds)
	require.Greater(t, compared, 2000)
}

func TestEffectsRefuse(t *testing.T) {
	files := unpack(t, "testdata/bcftools-csq.tar.gz")["EMN908947"]
	genes := load(t, files["EMN908947.fa"], files["simple.gff"], DefaultCode)
	for _, variants := range [][]Variant{
		{{20, "A", "C"}, {10, "A", "C"}}, {{0, "A", "C"}}, {{10, "", "C"}},
	} {
		_, err := genes.Effects("MN908947.3", variants, 0)
		require.Error(t, err)
	}
	_, err := genes.Effects("chr9", nil, 0)
	require.ErrorContains(t, err, `contig "chr9" is not in the reference`)
}

func BenchmarkAnnotator(b *testing.B) {
	files := unpack(b, "testdata/bcftools-csq.tar.gz")["ENST00000423372"]
	genes := load(b, files["ENST00000423372.fa"], files["ENST00000423372.gff"], DefaultCode)
	for _, opts := range []Options{{}, {Local: true}} {
		b.Run(fmt.Sprintf("local=%v", opts.Local), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				run(b, genes, files["snps.vcf"], opts, nil)
			}
		})
	}
}

// FuzzEffects searches for variants that make the rules fail: any alleles, as long as REF is the reference's.
func FuzzEffects(f *testing.F) {
	var all []*Genes
	for _, files := range unpack(f, "testdata/random.tar.gz") {
		all = append(all, load(f, files["r.fa"], files["r.gff"], DefaultCode))
	}
	f.Add(uint8(0), []byte{100, 1, 2, 0, 3, 3, 50, 9, 1})
	f.Add(uint8(3), []byte{1, 1, 1, 1, 1, 1, 1, 20, 0, 1, 30, 5})
	f.Fuzz(func(t *testing.T, which uint8, steps []byte) {
		genes := all[int(which)%len(all)]
		seq := genes.genome.Contig("c1").Flat()
		var variants []Variant
		for pos := 1; len(steps) >= 3; steps = steps[3:] {
			pos += int(steps[0])
			n := 1 + int(steps[1]%12)
			if pos-1+n > len(seq) {
				break
			}
			at := int(steps[2]) % (len(seq) - 12)
			variants = append(variants, Variant{pos, string(seq[pos-1 : pos-1+n]), string(seq[at : at+1+int(steps[2]%9)])})
		}
		effects, err := genes.Effects("c1", variants, 0)
		if err != nil || len(effects) != len(variants) {
			t.Fatal(err)
		}
	})
}

package haplotype

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/vcf"
)

// TestAgainstInstalledBcftools compares substitutions of single bases in random genes with the bcftools csq that is
// installed, 1.16 or later, with and without the others on their haplotype. Older versions know no start_retained,
// write no change beside start_lost and do not mark NMD, and take back no stop_gained where there is a stop_retained:
// records with these are left out.
func TestAgainstInstalledBcftools(t *testing.T) {
	bcftools, err := exec.LookPath("bcftools")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("bcftools is not installed")
		}
		t.Skip("bcftools is not installed")
	}
	compared := 0
	for name, files := range unpack(t, "testdata/random.tar.gz") {
		dir := t.TempDir()
		write := func(file string, text []byte) string {
			path := filepath.Join(dir, file)
			require.NoError(t, os.WriteFile(path, text, 0o600))
			return path
		}
		in := substitutions(string(files["r.vcf"]))
		fa, gff, path := write("r.fa", files["r.fa"]), write("r.gff", files["r.gff"]), write("r.vcf", in)
		genes := load(t, files["r.fa"], files["r.gff"], DefaultCode)
		for _, local := range []bool{false, true} {
			args := []string{"csq", "--force", "-v", "0", "-f", fa, "-g", gff}
			if local {
				args = append(args, "-l")
			}
			out, err := exec.Command(bcftools, append(args, path)...).Output()
			require.NoError(t, err, name)
			_, recs := run(t, genes, in, Options{Local: local}, nil)
			r, err := vcf.NewReader(bytes.NewReader(out))
			require.NoError(t, err)
			var pairs [][2]*vcf.Record
			later := []string{"start_", "NMD", "stop_retained"} // and values that name a record with these
			for _, got := range recs {
				want, err := r.Next()
				require.NoError(t, err)
				pairs = append(pairs, [2]*vcf.Record{want, got})
				both := bcsq(want) + bcsq(got)
				if slices.ContainsFunc(later[:3], func(s string) bool { return strings.Contains(both, s) }) {
					later = append(later, "@"+strconv.Itoa(got.Pos), strconv.Itoa(got.Pos)+got.Ref+">")
				}
			}
			for _, p := range pairs {
				w, v := bcsq(p[0]), bcsq(p[1])
				if !slices.ContainsFunc(later, func(s string) bool { return strings.Contains(w+v, s) }) {
					require.Equal(t, w, v, "%s local %v %s", name, local, head(p[1]))
					compared++
				}
			}
		}
	}
	require.Greater(t, compared, 1000)
}

// substitutions are the records of a VCF that replace one base by one, without samples, one for each position.
func substitutions(text string) []byte {
	var b bytes.Buffer
	last := ""
	for _, line := range strings.Split(text, "\n") {
		f := strings.Split(line, "\t")
		switch {
		case strings.HasPrefix(line, "##"):
			b.WriteString(line + "\n")
		case len(f) >= 8 && (f[0] == "#CHROM" || len(f[3]) == 1 && len(f[4]) == 1 && strings.Contains("ACGT", f[4]) && f[1] != last):
			last = f[1]
			b.WriteString(strings.Join(f[:8], "\t") + "\n")
		}
	}
	return b.Bytes()
}

package vcf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func create(t *testing.T, path string, contigs []Contig, records []*Record) {
	t.Helper()
	h := NewHeader("VCFv4.4")
	h.AddInfo("END", "1", "Integer", "End")
	h.AddMeta(`##ALT=<ID=*,Description="Any">`)
	for _, c := range contigs {
		h.AddContig(c.Name, c.Length)
	}
	f, err := Create(path, h)
	require.NoError(t, err)
	for _, r := range records {
		require.NoError(t, f.Write(r))
	}
	require.NoError(t, f.Commit())
	require.NoError(t, f.Discard(), "nothing is left to discard")
}

// scattered are records of every length over contigs: more than a block of text, and in bins of every level.
func scattered(contigs []Contig) []*Record {
	var list []*Record
	for _, c := range contigs {
		for i, pos := 0, 1; pos < c.Length-100; i, pos = i+1, pos+c.Length/2500+i%7 {
			r := &Record{Chrom: c.Name, Pos: pos, Ref: "A", Alt: []string{"C"}, ID: fmt.Sprintf("%s_%d", c.Name, i)}
			if i%5 == 0 {
				r.Alt = []string{"<*>"}
				r.Info.Set("END", fmt.Sprint(min(c.Length, pos+1<<(i%26))))
			}
			list = append(list, r)
		}
	}
	return list
}

// What tabix and bcftools find by the index is what a scan finds.
func TestIndexByTabixAndBcftools(t *testing.T) {
	for _, tool := range []string{"tabix", "bcftools"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skipf("%s is not installed", tool)
		}
	}
	for name, contigs := range map[string][]Contig{
		"tbi": {{"a", 400_000_000}, {"empty", 50_000}, {"b", 70_000}},
		"csi": {{"a", 400_000_000}, {"huge", 1_900_000_000}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.vcf.gz")
			records := scattered(contigs)
			create(t, path, contigs, records)
			_, err := os.Stat(path + "." + name)
			require.NoError(t, err)

			output := func(args ...string) string {
				out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
				require.NoError(t, err, string(out))
				return string(out)
			}
			var stats strings.Builder
			for _, c := range contigs {
				n := 0
				for _, r := range records {
					if r.Chrom == c.Name {
						n++
					}
				}
				if n > 0 {
					fmt.Fprintf(&stats, "%s\t%d\t%d\n", c.Name, c.Length, n)
				}
			}
			require.Equal(t, stats.String(), output("bcftools", "index", "--stats", path))
			for _, c := range contigs {
				for _, span := range [][2]int{{1, 1}, {1, c.Length}, {c.Length / 2, c.Length/2 + 1000}, {c.Length / 3, c.Length / 2}, {c.Length - 500, c.Length}, {16384, 16385}} {
					var want strings.Builder
					for _, r := range records {
						if r.Chrom == c.Name && r.Pos <= span[1] && r.end() >= span[0] {
							want.Write(r.AppendLine(nil))
						}
					}
					region := fmt.Sprintf("%s:%d-%d", c.Name, span[0], span[1])
					require.Equal(t, want.String(), output("tabix", path, region), region)
				}
			}
			require.Equal(t, fmt.Sprintln(len(records)), output("sh", "-c", "gzip -dc "+path+" | grep -vc '^#'"))
		})
	}
}

func TestEmptyFileHasAnIndex(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.vcf.gz")
	create(t, path, []Contig{{"a", 100}}, nil)
	_, err := os.Stat(path + ".tbi")
	require.NoError(t, err)
	if tool, err := exec.LookPath("bcftools"); err == nil {
		out, err := exec.CommandContext(t.Context(), tool, "view", "-H", "-r", "a", path).CombinedOutput()
		require.NoError(t, err, string(out))
		require.Empty(t, string(out))
	}
}

// A file keeps its old content until the new one is whole, and nothing else is left behind.
func TestCreateIsAtomic(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"x.vcf", "x.vcf.gz"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("before"), 0o600))
		f, err := Create(path, NewHeader("VCFv4.4"))
		require.NoError(t, err)
		require.NoError(t, f.Write(&Record{Chrom: "a", Pos: 1, Ref: "A"}))
		require.Error(t, f.Write(&Record{Chrom: "a", Pos: -1, Ref: "A"}))
		require.NoError(t, f.Discard())
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "before", string(text))
		require.NoError(t, os.Remove(path))
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = Create(filepath.Join(dir, "no", "x.vcf"), NewHeader("VCFv4.4"))
	require.EqualError(t, err, "creating "+filepath.Join(dir, "no", "x.vcf")+": no such file or directory")
}

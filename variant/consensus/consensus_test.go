package consensus_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/variant/consensus"
	"github.com/porestream/porestream/vcf"
)

const header = "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\n"

// of makes the consensus of one contig by the lines of a VCF, whose columns are separated by blanks.
func of(t testing.TB, reference string, cfg consensus.Config, lines ...string) (string, consensus.Counts, error) {
	t.Helper()
	g, err := genome.Read(strings.NewReader(">c\n" + reference + "\n"))
	require.NoError(t, err)
	text := header
	for _, line := range lines {
		text += strings.Join(strings.Fields(line), "\t") + "\n"
	}
	r, err := vcf.NewReader(strings.NewReader(text))
	require.NoError(t, err)
	c := consensus.New(g, cfg)
	for range lines {
		rec, err := r.Next()
		require.NoError(t, err)
		if err := c.Add(rec, 0); err != nil {
			return "", consensus.Counts{}, err
		}
	}
	seq, counts, err := c.Sequence("c")
	require.NoError(t, err)
	return string(seq), counts, nil
}

func TestConsensus(t *testing.T) {
	const ref = "ACGTACGTACGTACGTACGT"
	all := "c 1 . A <*> . . END=20 GT:DP:MIN_DP 0:30:20"
	for name, tt := range map[string]struct {
		cfg   consensus.Config
		lines []string
		want  string
		n     consensus.Counts
	}{
		"nothing is told":            {want: strings.Repeat("N", 20), n: consensus.Counts{Unknown: 20}},
		"all is as in the reference": {lines: []string{all}, want: ref},
		"a part has reads":           {lines: []string{"c 5 . A <*> . . END=8 GT:MIN_DP 0:10", "c 9 . A <*> . . END=20 GT:MIN_DP 0:9"}, want: "NNNNACGTNNNNNNNNNNNN", n: consensus.Counts{Unknown: 16}},
		"the genotype is not known":  {lines: []string{"c 1 . A <*> . . END=20 GT:MIN_DP .:30"}, want: strings.Repeat("N", 20), n: consensus.Counts{Unknown: 20}},
		"a substitution":             {lines: []string{all, "c 3 . G A 30 PASS . GT:DP 1:30"}, want: "ACATACGTACGTACGTACGT", n: consensus.Counts{Applied: 1}},
		"several bases":              {lines: []string{all, "c 3 . GTA CCC 30 PASS . GT 1"}, want: "ACCCCCGTACGTACGTACGT", n: consensus.Counts{Applied: 1}},
		"an insertion":               {lines: []string{all, "c 3 . G GTT 30 PASS . GT 1/1"}, want: "ACGTTTACGTACGTACGTACGT", n: consensus.Counts{Applied: 1}},
		"a deletion":                 {lines: []string{all, "c 3 . GTAC G 30 PASS . GT 1|1"}, want: "ACGGTACGTACGTACGT", n: consensus.Counts{Applied: 1}},
		"a delins":                   {lines: []string{all, "c 3 . GTAC CA 30 PASS . GT 1"}, want: "ACCAGTACGTACGTACGT", n: consensus.Counts{Applied: 1}},
		"a call is reads enough":     {lines: []string{"c 3 . G A 30 PASS . GT:DP 1:10"}, want: "NNA" + strings.Repeat("N", 17), n: consensus.Counts{Applied: 1, Unknown: 19}},
		"too few for a call":         {lines: []string{all, "c 3 . G A 30 PASS . GT:DP 1:9"}, want: "ACNTACGTACGTACGTACGT", n: consensus.Counts{Filtered: 1, Unknown: 1}},
		"it failed a filter":         {lines: []string{all, "c 3 . G A 3 LowQual . GT:DP 1:30"}, want: "ACNTACGTACGTACGTACGT", n: consensus.Counts{Filtered: 1, Unknown: 1}},
		"an indel failed":            {lines: []string{all, "c 3 . GTA G 3 LowQual . GT:DP 1:30"}, want: "ACGNNCGTACGTACGTACGT", n: consensus.Counts{Filtered: 1, Unknown: 2}},
		"heterozygous":               {lines: []string{all, "c 3 . G A 30 PASS . GT:AD 0/1:15,15"}, want: "ACRTACGTACGTACGTACGT", n: consensus.Counts{Ambiguous: 1}},
		"heterozygous, n":            {cfg: consensus.Config{Ambiguous: consensus.Any}, lines: []string{all, "c 3 . GT AT 30 PASS . GT:AD 0/1:15,15"}, want: "ACNTACGTACGTACGTACGT", n: consensus.Counts{Ambiguous: 1, Unknown: 1}},
		"heterozygous, major":        {cfg: consensus.Config{Ambiguous: consensus.Major}, lines: []string{all, "c 3 . G A 30 PASS . GT:AD 0/1:14,15"}, want: "ACATACGTACGTACGTACGT", n: consensus.Counts{Ambiguous: 1, Applied: 1}},
		"major, as many":             {cfg: consensus.Config{Ambiguous: consensus.Major}, lines: []string{all, "c 3 . G A 30 PASS . GT:AD 0/1:15,15"}, want: ref, n: consensus.Counts{Ambiguous: 1}},
		"two alternates":             {lines: []string{all, "c 3 . G A,T 30 PASS . GT:AD 1/2:0,15,15"}, want: "ACWTACGTACGTACGTACGT", n: consensus.Counts{Ambiguous: 1}},
		"a part of the molecules":    {lines: []string{all, "c 3 . G A 30 PASS . GT:AD 0/1:24,6"}, want: ref, n: consensus.Counts{Ambiguous: 1}},
		"most of the molecules":      {lines: []string{all, "c 3 . G A 30 PASS . GT:AD 0/1:5,25"}, want: "ACATACGTACGTACGTACGT", n: consensus.Counts{Ambiguous: 1, Applied: 1}},
		"a heterozygous insertion":   {lines: []string{all, "c 3 . G GTT 30 PASS . GT:AD 0/1:13,17"}, want: "ACGTTTACGTACGTACGTACGT", n: consensus.Counts{Ambiguous: 1, Applied: 1}},
		"a rarer one":                {lines: []string{all, "c 3 . G GTT 30 PASS . GT:AD 0/1:17,13"}, want: ref, n: consensus.Counts{Ambiguous: 1}},
		"deleted by another":         {lines: []string{all, "c 3 . GT G 30 PASS . GT 1", "c 4 . T *,A 30 PASS . GT 1"}, want: "ACGACGTACGTACGTACGT", n: consensus.Counts{Applied: 1}},
		"told in two ways":           {lines: []string{all, "c 3 . GTA G 30 PASS . GT 1", "c 5 . A C 30 PASS . GT 1"}, want: "ACGNNCGTACGTACGTACGT", n: consensus.Counts{Applied: 2, Conflicts: 1, Unknown: 2}},
		"told twice":                 {lines: []string{all, "c 3 . G A 30 PASS . GT 1", "c 3 . GT AT 30 PASS . GT 1"}, want: "ACATACGTACGTACGTACGT", n: consensus.Counts{Applied: 2}},
		"the genotype of a call":     {lines: []string{all, "c 3 . G A 30 PASS . GT ./."}, want: "ACNTACGTACGTACGTACGT", n: consensus.Counts{Unknown: 1}},
		"none of it":                 {lines: []string{all, "c 3 . G A 30 PASS . GT 0/0"}, want: ref},
		"an insertion failed":        {lines: []string{all, "c 4 . T TGG 3 LowQual . GT:DP 1:30"}, want: "ACGNACGTACGTACGTACGT", n: consensus.Counts{Filtered: 1, Unknown: 1}},
		"two insertions at one base": {lines: []string{all, "c 4 . T TGG 30 PASS . GT 1", "c 4 . T TCC 30 PASS . GT 1"}, want: "ACGNACGTACGTACGTACGT", n: consensus.Counts{Applied: 2, Conflicts: 1, Unknown: 1}},
		"two behind a change":        {lines: []string{all, "c 4 . T A 30 PASS . GT 1", "c 4 . T TGG 30 PASS . GT 1", "c 4 . T TCC 30 PASS . GT 1"}, want: "ACGNACGTACGTACGTACGT", n: consensus.Counts{Applied: 3, Conflicts: 1, Unknown: 1}},
		"insertions side by side":    {lines: []string{all, "c 4 . T TGG 30 PASS . GT 1", "c 5 . A ACA 30 PASS . GT 1"}, want: "ACGTGGACACGTACGTACGTACGT", n: consensus.Counts{Applied: 2}},
		"a structural deletion":      {lines: []string{all, "c 5 . A <DEL> 50 PASS END=15;SVTYPE=DEL GT:DP 1/1:30"}, want: "ACGTNNNNNNNNNNNTACGT", n: consensus.Counts{Unresolved: 1, Unknown: 11}},
		"a breakend":                 {lines: []string{all, "c 6 . C C[c:9[ 50 PASS . GT 0/1"}, want: "ACGTANGTACGTACGTACGT", n: consensus.Counts{Unresolved: 1, Unknown: 1}},
		"one that isn't there":       {lines: []string{all, "c 5 . A <DEL> 50 PASS END=15 GT:DP 0/0:30"}, want: ref},
		"reference of two reads":     {lines: []string{"c 6 . C T 3 LowQual . GT:DP 0/0:2", "c 1 . A <*> . . END=5 GT:MIN_DP 0/0:12"}, want: "ACGTA" + strings.Repeat("N", 15), n: consensus.Counts{Unknown: 15}},
		"an indel of two reads":      {lines: []string{"c 6 . CG C 30 PASS . GT:DP 1/1:2"}, want: strings.Repeat("N", 20), n: consensus.Counts{Filtered: 1, Unknown: 20}},
		"with an allele for others":  {lines: []string{all, "c 3 . G A,<*> 30 PASS . GT:AD 1:1,29,0"}, want: "ACATACGTACGTACGTACGT", n: consensus.Counts{Applied: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			got, n, err := of(t, ref, tt.cfg, tt.lines...)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
			tt.n.Bases = len(tt.want)
			assert.Equal(t, tt.n, n)
		})
	}
}

func TestRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"d 3 . G A 30 PASS . GT 1":             `the reference has no contig "d"`,
		"c 21 . G A 30 PASS . GT 1":            "c:21-21 is not within its 20 bases",
		"c 3 . C A 30 PASS . GT 1":             "REF is C, and the reference has G there: another reference",
		"c 3 . G A 30 PASS . GT 2":             `GT "2" is no genotype of the record`,
		"c 3 . G A 30 PASS . GT:AD 0/1:7":      "AD=7 has no number for allele 1",
		"c 3 . G A 30 PASS . GT:AD 0/1:7,x":    "AD=7,x is no list of numbers of reads",
		"c 3 . G <*> . . END=21 GT:MIN_DP 0:9": "END=21 is not a position from 3 to 20",
		"c 3 . G <*> . . . GT 0":               `MIN_DP and DP have no depth: ""`,
	} {
		_, _, err := of(t, "ACGTACGTACGTACGTACGT", consensus.Config{}, line)
		assert.ErrorContains(t, err, want, line)
	}
}

func TestReadBED(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "NNNNNNNNNN",
		"#x\ntrack name=y\nc\t2\t4\r\n\n": "NNGTNNNNNN",
		"c\t0\t3\tCALLABLE\nc\t3\t5\tLOW_DEPTH\nc\t5\t10\tCALLABLE\n": "ACGNNCGTAC",
		"c 1 2":               "b.bed:1: 1 columns, want at least contig, start and end with tabs between",
		"c\t1\t2\nc\t-1\t2":   "b.bed:2: c:0-2 is not within its 10 bases",
		"c\tone\t2":           `b.bed:1: "one" and "2" are no start and end`,
		"c\t5\t11":            "b.bed:1: c:6-11 is not within its 10 bases",
		"d\t5\t11\tLOW_DEPTH": `b.bed:1: the reference has no contig "d"`,
	} {
		g, err := genome.Read(strings.NewReader(">c\nACGTACGTAC\n"))
		require.NoError(t, err)
		c := consensus.New(g, consensus.Config{})
		if err := c.ReadBED(strings.NewReader(text), "b.bed"); err != nil {
			assert.EqualError(t, err, want)
			continue
		}
		seq, _, err := c.Sequence("c")
		require.NoError(t, err)
		assert.Equal(t, want, string(seq), text)
		assert.Equal(t, text != "", c.HasCoverage())
	}
}

// TestAgreesWithBcftools: of random samples bcftools consensus makes the same sequence.
func TestAgreesWithBcftools(t *testing.T) {
	bcftools, err := exec.LookPath("bcftools")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("bcftools is not installed")
		}
		t.Skip("bcftools is not installed")
	}
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 1))
		random := func(n int) string {
			b := make([]byte, n)
			for i := range b {
				b[i] = "ACGT"[rng.IntN(4)]
			}
			return string(b)
		}
		reference := random(3000)
		var lines []string
		var mask bytes.Buffer
		applied, before := 0, 0
		gap := 20
		for pos := 20; pos < 2900; pos += gap {
			if gap >= 10 && rng.IntN(4) == 0 { // a hole between two records
				start, end := pos-6, pos-2
				lines = append(lines, fmt.Sprintf("c %d . %c <*> . . END=%d GT:MIN_DP 0/0:12", before+1, reference[before], start))
				fmt.Fprintf(&mask, "c\t%d\t%d\n", start, end)
				before = end
			}
			length := 1 + rng.IntN(4)
			ref := reference[pos : pos+length]
			alt := ref[:1] + random(rng.IntN(4))
			genotype := "1/1"
			if gap = 10 + rng.IntN(40); rng.IntN(3) == 0 {
				gap = 0 // the next record begins where this one ends
			}
			if alt == ref {
				gap = max(gap, 1)
				continue
			}
			if len(alt) == len(ref) && rng.IntN(2) == 0 {
				genotype = "0/1"
			}
			lines = append(lines, fmt.Sprintf("c %d . %s %s 30 PASS . GT %s", pos+1, ref, alt, genotype))
			applied++
			pos += length
		}
		lines = append(lines, fmt.Sprintf("c %d . %c <*> . . END=3000 GT:MIN_DP 0/0:12", before+1, reference[before]))
		got, _, err := of(t, reference, consensus.Config{}, lines...)
		require.NoError(t, err)

		dir := t.TempDir()
		text := "##fileformat=VCFv4.2\n##FILTER=<ID=PASS,Description=\"\">\n##contig=<ID=c,length=3000>\n##FORMAT=<ID=GT,Number=1,Type=String,Description=\"\">\n" + strings.SplitAfterN(header, "\n", 2)[1]
		for _, line := range lines {
			if f := strings.Fields(line); f[4] != "<*>" {
				text += strings.Join(f, "\t") + "\n"
			}
		}
		write := func(name, text string) string {
			path := filepath.Join(dir, name)
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			return path
		}
		compressed := filepath.Join(dir, "calls.vcf.gz")
		for _, args := range [][]string{{"view", "-Oz", "-o", compressed, write("calls.vcf", text)}, {"index", compressed}} {
			out, err := exec.Command(bcftools, args...).CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
		args := []string{"consensus", "-I", "-s", "s", "-f", write("ref.fa", ">c\n"+reference+"\n")}
		if mask.Len() > 0 {
			args = append(args, "-m", write("mask.bed", mask.String()))
		}
		out, err := exec.Command(bcftools, append(args, compressed)...).Output()
		require.NoError(t, err)
		want := strings.Join(strings.Split(strings.TrimSpace(string(out)), "\n")[1:], "")
		require.Equal(t, want, got, "seed %d: %d records", seed, applied)
	}
}

// TestAnyOrderGivesTheSameSequence: the records of a sample are a set.
func TestAnyOrderGivesTheSameSequence(t *testing.T) {
	lines := []string{
		"c 1 . A <*> . . END=8 GT:MIN_DP 0:10", "c 9 . A <*> . . END=14 GT:MIN_DP 0:3", "c 12 . T <*> . . END=20 GT:MIN_DP 0:12",
		"c 3 . G A 30 PASS . GT 1", "c 5 . ACG A 30 PASS . GT 1", "c 6 . C T 30 PASS . GT 1", "c 17 . A AG 30 PASS . GT 1", "c 17 . A AT 30 PASS . GT 1",
	}
	want, n, err := of(t, "ACGTACGTACGTACGTACGT", consensus.Config{}, lines...)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		rng.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		got, m, err := of(t, "ACGTACGTACGTACGTACGT", consensus.Config{}, lines...)
		require.NoError(t, err)
		require.Equal(t, want, got, "%q", lines)
		require.Equal(t, n, m)
	}
}

// FuzzAdd: whatever a line says, there is a sequence or an error, and no base without a record that
// states it.
func FuzzAdd(f *testing.F) {
	for _, line := range []string{"c\t3\t.\tG\tA\t30\tPASS\t.\tGT:AD\t0/1:3,4", "c\t1\t.\tA\t<*>\t.\t.\tEND=20\tGT:MIN_DP\t0:10", "c\t5\t.\tACG\tA,*\t3\tq\t.\tGT\t1|2"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		g, err := genome.Read(strings.NewReader(">c\nACGTACGTACGTACGTACGT\n"))
		require.NoError(t, err)
		r, err := vcf.NewReader(strings.NewReader(header + line + "\n"))
		require.NoError(t, err)
		c := consensus.New(g, consensus.Config{})
		for {
			rec, err := r.Next()
			if err != nil {
				break
			}
			_ = c.Add(rec, 0) // refusing leaves what was recorded before
		}
		seq, n, err := c.Sequence("c")
		require.NoError(t, err)
		require.Len(t, seq, n.Bases)
		require.Equal(t, n.Unknown, bytes.Count(seq, []byte("N")))
		for _, b := range seq {
			require.True(t, slices.Contains([]byte("ACGTRYSWKMBDHVN"), b), "%q", b)
		}
	})
}

func FuzzReadBED(f *testing.F) {
	f.Add("c\t0\t3\tCALLABLE\nc\t3\t5\tLOW_DEPTH\n")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := genome.Read(strings.NewReader(">c\nACGTACGTAC\n"))
		require.NoError(t, err)
		c := consensus.New(g, consensus.Config{})
		if err := c.ReadBED(strings.NewReader(text), "b.bed"); err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "b.bed:"), err)
			require.NotContains(t, err.Error(), "\n")
		}
		seq, _, err := c.Sequence("c")
		require.NoError(t, err)
		require.Len(t, seq, 10)
	})
}

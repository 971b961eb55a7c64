package eval_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/variant/eval"
	"github.com/porestream/porestream/vcf"
)

// change is a record of the random sets.
type change struct {
	pos      int // 1-based
	ref, alt string
	gt       string
}

func (c change) String() string { return fmt.Sprintf("%d %s %s %s", c.pos, c.ref, c.alt, c.gt) }

// reach is how far an indel can be moved: the stretch of the reference that any spelling of it can touch.
func (c change) reach(seq string) (start, end int) {
	start, end = c.pos-1, c.pos-1+len(c.ref)
	for _, unit := range []int{len(c.ref) - 1, len(c.alt) - 1, 1} {
		if unit < 1 {
			continue
		}
		for start > unit && seq[start-1] == seq[start-1+unit] {
			start--
		}
		for end+unit < len(seq) && seq[end] == seq[end-unit] {
			end++
		}
	}
	return start, end
}

// repetitive is a sequence of stretches with repeats of units of one to four bases between random ones.
func repetitive(r *rand.Rand, n int) string {
	var b strings.Builder
	text := func(n int) string {
		t := make([]byte, n)
		for i := range t {
			t[i] = "ACGT"[r.IntN(4)]
		}
		return string(t)
	}
	for b.Len() < n {
		b.WriteString(text(10 + r.IntN(30)))
		b.WriteString(strings.Repeat(text(1+r.IntN(4)), 2+r.IntN(8)))
	}
	return b.String()[:n]
}

// randomChanges is a set of SNPs, MNPs, insertions, deletions and sites with two alternate alleles that are out of each
// other's reach.
func randomChanges(r *rand.Rand, seq string) []change {
	var set []change
	for at, last := 5, 0; at < len(seq)-20; at += 1 + r.IntN(60) {
		other := func(b byte) string {
			for {
				if o := "ACGT"[r.IntN(4)]; o != b {
					return string(o)
				}
			}
		}
		c := change{pos: at + 1, ref: seq[at : at+1], gt: []string{"0/1", "1/0", "1/1"}[r.IntN(3)]}
		switch r.IntN(6) {
		case 0, 1:
			c.alt = other(seq[at])
		case 2:
			c.ref = seq[at : at+3]
			c.alt = other(seq[at]) + seq[at+1:at+2] + other(seq[at+2])
		case 3:
			c.alt = c.ref + strings.Repeat(seq[at+1:at+2+r.IntN(3)], 1+r.IntN(2))
		case 4:
			c.ref = seq[at : at+2+r.IntN(6)]
			c.alt = c.ref[:1]
		case 5:
			first := other(seq[at])
			second := other(seq[at])
			if first == second {
				continue
			}
			c.alt, c.gt = first+","+second, "1/2"
		}
		start, end := c.reach(seq)
		if start < last+2 {
			continue
		}
		last = end
		set = append(set, c)
	}
	return set
}

// damaged is a set with some records missing, some with another genotype, and some that were not there.
func damaged(r *rand.Rand, seq string, set []change) []change {
	var list []change
	for _, c := range set {
		switch r.IntN(8) {
		case 0:
			continue
		case 1:
			if c.gt != "1/2" {
				c.gt = map[bool]string{true: "0/1", false: "1/1"}[c.gt == "1/1"]
			}
		case 2:
			if len(c.ref) > 2 && len(c.alt) == 1 {
				c.ref = c.ref[:len(c.ref)-1] // a deletion too short
			}
		}
		list = append(list, c)
	}
	return list
}

// respelled is a set that says the same in other words, sorted.
func respelled(r *rand.Rand, seq string, set []change) []change {
	var list []change
	for _, c := range set {
		if !strings.Contains(c.alt, ",") && (len(c.ref) == 1) != (len(c.alt) == 1) {
			c = c.moved(r, seq)
		}
		switch {
		case len(c.ref) == len(c.alt) && len(c.ref) > 1 && r.IntN(2) == 0 && c.gt == "1/1": // each SNP by itself
			for i := range c.ref {
				if c.ref[i] != c.alt[i] {
					list = append(list, change{c.pos + i, c.ref[i : i+1], c.alt[i : i+1], c.gt})
				}
			}
			continue
		case c.gt == "1/2" && r.IntN(2) == 0: // each allele by itself
			first, second, _ := strings.Cut(c.alt, ",")
			list = append(list, change{c.pos, c.ref, first, "0/1"}, change{c.pos, c.ref, second, "1/0"})
			continue
		case c.gt == "1/2":
			first, second, _ := strings.Cut(c.alt, ",")
			c.alt, c.gt = second+","+first, "2/1"
		case c.gt == "0/1" && r.IntN(2) == 0:
			c.gt = "1/0"
		}
		if before := seq[max(0, c.pos-1-r.IntN(3)) : c.pos-1]; before != "" { // padding in front and behind
			after := seq[c.pos-1+len(c.ref) : min(len(seq), c.pos-1+len(c.ref)+r.IntN(3))]
			alts := strings.Split(c.alt, ",")
			for i := range alts {
				alts[i] = before + alts[i] + after
			}
			c.ref, c.alt, c.pos = before+c.ref+after, strings.Join(alts, ","), c.pos-len(before)
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b change) int { return a.pos - b.pos })
	return list
}

// moved is an indel at another of its places.
func (c change) moved(r *rand.Rand, seq string) change {
	whole := seq[:c.pos-1] + c.alt + seq[c.pos-1+len(c.ref):]
	var places []change
	for at := max(1, c.pos-60); at < min(len(seq)-len(c.ref), c.pos+60); at++ {
		m := change{pos: at, ref: seq[at-1 : at-1+len(c.ref)], gt: c.gt}
		m.alt = m.ref[:1]
		if len(c.alt) > 1 {
			m.alt = whole[at-1 : at-1+len(c.alt)]
			m.ref = seq[at-1 : at]
		}
		if seq[:m.pos-1]+m.alt+seq[m.pos-1+len(m.ref):] == whole {
			places = append(places, m)
		}
	}
	return places[r.IntN(len(places))]
}

func lines(set []change) []string {
	var list []string
	for _, c := range set {
		list = append(list, c.String())
	}
	return list
}

// all is the outcome in short for SNPs and indels.
func all(r *eval.Result) string { return brief(r, "SNP") + " " + brief(r, "INDEL") }

func TestProperties(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 12))
	right := 0
	for n := range 80 {
		seq := repetitive(r, 600)
		truth := randomChanges(r, seq)
		query := damaged(r, seq, truth)
		describe := func() string { return fmt.Sprintf("case %d: %s\ntruth %v\nquery %v", n, seq, truth, query) }

		self := compare(t, seq, lines(truth), lines(truth), eval.Options{}).Row("all", "ALL")
		require.InDelta(t, 1, *self.Genotypes.F1, 0, "a set against itself: %s", describe())
		require.InDelta(t, 1, *self.Alleles.F1, 0)

		plain := compare(t, seq, lines(truth), lines(query), eval.Options{})
		want := all(plain)
		words := respelled(r, seq, query)
		require.Equal(t, want, all(compare(t, seq, lines(truth), lines(words), eval.Options{})), "respelled query: %s\n%v", describe(), words)
		words = respelled(r, seq, truth)
		require.Equal(t, want, all(compare(t, seq, lines(words), lines(query), eval.Options{})), "respelled truth: %s\n%v", describe(), words)

		swapped := compare(t, seq, lines(query), lines(truth), eval.Options{})
		for _, kind := range []string{"SNP", "INDEL", "ALL"} {
			a, b := plain.Row("all", kind), swapped.Row("all", kind)
			for _, f := range [][2]*eval.Figures{{a.Genotypes, b.Genotypes}, {&a.Alleles, &b.Alleles}} {
				require.Equal(t, []int{f[0].TruthTP, f[0].TruthFN, f[0].QueryTP, f[0].QueryFP}, []int{f[1].QueryTP, f[1].QueryFP, f[1].TruthTP, f[1].TruthFN}, describe())
			}
		}
		right += plain.Row("all", "ALL").Genotypes.QueryTP
	}
	require.Greater(t, right, 300)
}

// TestRespelledByBcftools has bcftools spell the calls: left-aligned, each allele on a line, complex ones taken apart.
func TestRespelledByBcftools(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bcftools"); err != nil {
		t.Skip("bcftools is not installed")
	}
	r := rand.New(rand.NewPCG(13, 14))
	seq := repetitive(r, 20000)
	truth := randomChanges(r, seq)
	query := respelled(r, seq, damaged(r, seq, truth))
	dir := t.TempDir()
	fasta, in := filepath.Join(dir, "ref.fa"), filepath.Join(dir, "in.vcf")
	require.NoError(t, os.WriteFile(fasta, []byte(">c\n"+seq+"\n"), 0o600))
	text := strings.Replace(vcfText(lines(query)...), "##contig=<ID=c>\n", fmt.Sprintf("##contig=<ID=c,length=%d>\n##FORMAT=<ID=GT,Number=1,Type=String,Description=\"Genotype\">\n", len(seq)), 1)
	require.NoError(t, os.WriteFile(in, []byte(text), 0o600))
	want := compare(t, seq, lines(truth), lines(query), eval.Options{})
	require.Greater(t, want.Row("all", "INDEL").Genotypes.QueryTP, 50)
	require.Greater(t, want.Row("all", "SNP").Genotypes.QueryTP, 50)
	for _, args := range [][]string{{}, {"-m", "-any"}, {"--atomize"}} {
		cmd := exec.CommandContext(t.Context(), "bcftools", append(append([]string{"norm", "-f", fasta}, args...), in)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, stderr.String())
		records, err := vcf.NewReader(bytes.NewReader(out))
		require.NoError(t, err)
		got, err := eval.Compare(t.Context(), reference(t, seq), set(t, "truth", lines(truth)...), eval.Set{Name: "norm", Records: records}, eval.Options{})
		require.NoError(t, err)
		require.Equal(t, all(want), all(got), "bcftools norm %v", args)
	}
}

// FuzzCompare compares whatever two texts hold with each other; the outcome must add up, and be that of the swapped sets.
func FuzzCompare(f *testing.F) {
	const seq = "GCTAAAAAAAAGTCACACACACAGTTGACCATGATTACAG"
	f.Add(vcfText("3 TA T 0/1", "12 G C,T 1|2", "20 CAC C 1"), vcfText("10 AA A 0/1", "12 GTC G ./1"))
	f.Add(vcfText("3 T TA 1/1", "6 A C 1/1", "9 AA A 1/1"), vcfText("6 A C,* 1/2 PS=4", "7 A <DEL> 0/1"))
	f.Add("##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\nc\t5\t.\tA\tG,T\t.\t.\t.\n", vcfText("39 AG A 1/1"))
	g, err := genome.Read(strings.NewReader(">c\n" + seq + "\n"))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, a, b string) {
		open := func(text string) (eval.Set, bool) {
			r, err := vcf.NewReader(strings.NewReader(text))
			return eval.Set{Name: "file", Records: r}, err == nil
		}
		run := func(a, b string, o eval.Options) *eval.Result {
			truth, ok := open(a)
			query, ok2 := open(b)
			if !ok || !ok2 {
				return nil
			}
			r, err := eval.Compare(context.Background(), g, truth, query, o)
			if err != nil {
				if strings.Contains(err.Error(), "\n") && len(err.Error()) > 2000 {
					t.Errorf("error of several lines: %v", err)
				}
				return nil
			}
			return r
		}
		opts := eval.Options{MaxPaths: 2000, Bootstrap: 50}
		r := run(a, b, opts)
		if r == nil {
			return
		}
		if err := r.WriteText(io.Discard); err != nil {
			t.Fatal(err)
		}
		s := run(b, a, opts)
		if s == nil {
			t.Fatal("the swapped sets cannot be compared")
		}
		if r.GivenUp > 0 {
			return
		}
		x, y := r.Row("all", "ALL"), s.Row("all", "ALL")
		if x.Primary().TruthTP+x.Primary().TruthFN != y.Primary().QueryTP+y.Primary().QueryFP {
			t.Errorf("%d of the truth, %d when it is the query", x.Primary().TruthTP+x.Primary().TruthFN, y.Primary().QueryTP+y.Primary().QueryFP)
		}
		if x.Alleles.TruthTP < x.Primary().TruthTP || x.Alleles.QueryTP < x.Primary().QueryTP {
			t.Error("a right genotype of a wrong allele")
		}
		if n, m := x.Primary().TruthTP+x.Primary().QueryTP, y.Primary().TruthTP+y.Primary().QueryTP; n != m && x.Genotypes != nil {
			t.Errorf("%d right, %d when swapped", n, m)
		}
	})
}

// FuzzReadRegions reads whatever text as BED: what it takes must lie in the reference.
func FuzzReadRegions(f *testing.F) {
	g, err := genome.Read(strings.NewReader(">c\nACGTACGTAC\n"))
	require.NoError(f, err)
	f.Add("c\t0\t5\nc 3 7 name\n#\ntrack\n")
	f.Add("c\t5\t-1\nd\t1\t2")
	f.Fuzz(func(t *testing.T, text string) {
		regions, err := eval.ReadRegions(strings.NewReader(text), g)
		if err != nil {
			return
		}
		if n := regions.Bases(); n < 0 || n > 10 {
			t.Errorf("%d of 10 bases", n)
		}
	})
}

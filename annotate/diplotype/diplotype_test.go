package diplotype_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate/diplotype"
	"github.com/porestream/porestream/vcf"
)

func definitions(t testing.TB, path string) *diplotype.Definitions {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	d, err := diplotype.Read(f)
	require.NoError(t, err)
	return d
}

// called names what a VCF has.
func called(t testing.TB, d *diplotype.Definitions, text io.Reader) diplotype.Call {
	t.Helper()
	r, err := vcf.NewReader(text)
	require.NoError(t, err)
	s := diplotype.NewSample(d)
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.NoError(t, s.Add(rec, 0))
	}
	c, err := s.Call()
	require.NoError(t, err)
	return c
}

func words(pairs []diplotype.Pair) string {
	var list []string
	for _, p := range pairs {
		list = append(list, p.String())
	}
	return strings.Join(list, " ")
}

const head = "##fileformat=VCFv4.2\n##INFO=<ID=END,Number=1,Type=Integer,Description=\"e\">\n##FORMAT=<ID=GT,Number=1,Type=String,Description=\"g\">\n##FORMAT=<ID=PS,Number=1,Type=Integer,Description=\"p\">\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\n"

// TestUGT1A1 has what calls, blocks of a gVCF, phase and holes make of a gene with a repeat: its alleles are *80 (T at 233759924), *28 (CATAT at 233760233, where the reference has CAT), *6 and *27.
func TestUGT1A1(t *testing.T) {
	d := definitions(t, filepath.Join("testdata", "UGT1A1_translation.json"))
	block := func(from, to string) string { return "chr2 " + from + " . A <*> . PASS END=" + to + " GT 0/0" }
	for _, c := range []struct {
		name              string
		rows              []string
		pairs, also       string
		missing, unknowns int
	}{
		{"nothing", nil, "", "", 4, 0},
		{"reference", []string{block("233759000", "233761000")}, "*1/*1", "", 0, 0},
		{"a block that ends within the repeat", []string{block("233759000", "233760234"), block("233760300", "233761000")}, "*1/*1", "", 1, 0},
		{"insertion in the caller's spelling", []string{block("233759000", "233760232"), "chr2 233760233 . C CAT . PASS . GT 0/1", block("233760234", "233761000")}, "*1/*28", "", 0, 0},
		{"insertion before a block", []string{block("233759000", "233761000"), "chr2 233760233 . CAT CATAT . PASS . GT 1/1"}, "*28/*28", "", 0, 0},
		{"in phase", []string{block("233759000", "233761000"), "chr2 233759924 . C T . PASS . GT:PS 0|1:7", "chr2 233760233 . CAT CATAT . PASS . GT:PS 0|1:7"}, "*1/*80+*28", "", 0, 0},
		{"not in phase", []string{block("233759000", "233761000"), "chr2 233759924 . C T . PASS . GT 0/1", "chr2 233760233 . CAT CATAT . PASS . GT 0/1"}, "*1/*80+*28", "*28/*80", 0, 0},
		{"out of phase", []string{block("233759000", "233761000"), "chr2 233759924 . C T . PASS . GT:PS 1|0:7", "chr2 233760233 . CAT CATAT . PASS . GT:PS 0|1:7"}, "*28/*80", "", 0, 0},
		{"phase of two sets", []string{block("233759000", "233761000"), "chr2 233759924 . C T . PASS . GT:PS 1|0:7", "chr2 233760973 . C A . PASS . GT:PS 1|0:9"}, "*27/*80", "", 0, 0},
		{"two alleles that no name joins", []string{block("233759000", "233761000"), "chr2 233759924 . C T . PASS . GT:PS 1|0:7", "chr2 233760973 . C A . PASS . GT:PS 1|0:7"}, "", "", 0, 0},
		{"filtered", []string{"chr2 233759924 . C T . LowQual . GT 0/1"}, "", "", 4, 0},
		{"another base", []string{block("233759000", "233761000"), "chr2 233759924 . C G . PASS . GT 0/1"}, "", "", 0, 1},
		{"deleted", []string{block("233759000", "233761000"), "chr2 233759920 . ACGTCC A . PASS . GT 0/1"}, "", "", 0, 1},
		{"told twice", []string{block("233759000", "233761000"), "chr2 233759924 . C T . PASS . GT 0/1", "chr2 233759924 . C G . PASS . GT 0/1"}, "*1/*1", "", 1, 0},
		{"within an event of several bases", []string{block("233759000", "233761000"), "chr2 233759923 . AC GT . PASS . GT 0/1"}, "*1/*80", "", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := called(t, d, strings.NewReader(head+strings.ReplaceAll(strings.Join(c.rows, "\n"), " ", "\t")+"\n"))
			require.Equal(t, c.pairs, words(got.Pairs))
			require.Equal(t, c.also, words(got.Also))
			if strings.HasPrefix(c.name, "a block that ends") {
				require.Equal(t, []string{"*28", "*36", "*37"}, got.Lost)
			}
			require.Len(t, got.Missing, c.missing)
			require.Len(t, got.Unknown, c.unknowns)
		})
	}
}

func TestDefinitionsThatDontFitAreRefused(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "UGT1A1_translation.json"))
	require.NoError(t, err)
	for _, c := range []struct{ old, new, want string }{
		{`"formatVersion"`, `"version3"`, "want PharmCAT's definitions of a gene in format 2"},
		{`{`, `[`, "not definitions of alleles in JSON"},
		{`"TA(8)"`, `"TA(99)"`, `"TA(99)" is none of the position's alleles`},
		{`"position": 233759924`, `"position": 0`, "variant 1 has no position"},
	} {
		broken := strings.ReplaceAll(string(text), c.old, c.new)
		if c.old == `"TA(8)"` {
			i := strings.Index(string(text), `"namedAlleles"`)
			broken = string(text[:i]) + strings.ReplaceAll(string(text[i:]), c.old, c.new)
		}
		_, err := diplotype.Read(strings.NewReader(broken))
		require.ErrorContains(t, err, c.want)
	}
}

func FuzzRead(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("testdata", "UGT1A1_translation.json"))
	require.NoError(f, err)
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := diplotype.Read(strings.NewReader(string(text)))
		if err != nil || len(d.Positions) > 8 {
			return
		}
		known := make([]diplotype.Genotype, len(d.Positions))
		for i, p := range d.Positions {
			known[i].Bases = []string{p.Ref, p.Ref}
		}
		_, err = d.Call(known)
		require.NoError(t, err)
	})
}

// pgxFolder is a folder of PharmCAT's definitions (GENE_translation.json) and of its tests (haplotype/GENE/*.vcf, haplotype/NAT2/tests.tsv).
const pgxFolder = "PORESTREAM_PHARMCAT"

// TestPharmCATsCases has PharmCAT's VCFs of single genes with what their names say, in the names of the definitions in use (CYP2C19 *4B is *4 now, *1 has a base of its own
// and isn't told from *38 where it is missing, UGT1A1 *60 is no allele any more). "" is no call.
func TestPharmCATsCases(t *testing.T) {
	dir := os.Getenv(pgxFolder)
	if dir == "" {
		t.Skip("needs " + pgxFolder + ", a folder of PharmCAT's definitions and tests")
	}
	want := map[string]string{
		"CYP2B6/s1s1": "*1/*1", "DPYD/c1129-5923c2846": "c.1129-5923C>G/c.2846A>T", "DPYD/c1156het": "Reference/c.1156G>T (*12)", "DPYD/c1679c1156": "c.1156G>T (*12)/c.1679T>G (*13)",
		"DPYD/c2846het": "Reference/c.2846A>T", "DPYD/novariant": "Reference/Reference", "DPYD/s1s2b": "c.1627A>G (*5)/c.1905+1G>A (*2A)",
		"IFNL3/rs12979860CT": "rs12979860 reference (C)/rs12979860 variant (T)", "NUDT15/refref": "*1/*1", "NUDT15/s2ref": "*1/*2", "NUDT15/s3ref": "*1/*3",
		"SLCO1B1/SLCO1B1_s1_s14_t1": "*1/*14", "SLCO1B1/SLCO1B1_s1_s15_t1": "*1/*15", "SLCO1B1/SLCO1B1_s1_s25_t1": "*1/*25",
		"SLCO1B1/SLCO1B1_s5_s14_t1": "*4/*15 *5/*14", "SLCO1B1/s1as15s1bs5missing": "*1/*15", "SLCO1B1/s1s1": "*1/*1", "SLCO1B1/s1s44": "*1/*44", "SLCO1B1/s2s2": "*2/*2",
		"TPMT/het3a": "*1/*3A", "TPMT/hom1s_het3a": "*1/*3A", "TPMT/s16s22": "*16/*22", "TPMT/s1s1": "*1/*1", "TPMT/unexpected.allele.with.s9": "",
		"UGT1A1/s1s1": "*1/*1", "UGT1A1/s1s28s60s80unphased": "*1/*80+*28", "UGT1A1/s1s60s80phased": "*1/*80", "UGT1A1/s1s60s80unphased": "*1/*80",
		"UGT1A1/s28het": "*1/*28", "UGT1A1/s28s60hom": "*1/*28", "UGT1A1/s28s80s6s60phased": "*6/*80+*28", "UGT1A1/s28s80unphased": "*1/*80+*28", "UGT1A1/s6s6": "*6/*6",
		"VKORC1/-1639A-1639A": "rs9923231 variant (T)/rs9923231 variant (T)", "VKORC1/-1639G-1639A": "rs9923231 reference (C)/rs9923231 variant (T)", "VKORC1/-1639G-1639G": "rs9923231 reference (C)/rs9923231 reference (C)",
		"CYP2C19/s1s1": "*1/*1", "CYP2C19/s1s17": "*38/*17 *1/*17", "CYP2C19/s1s17s1s4bmissingmore": "*1/*4 *1/*17", "CYP2C19/s1s1rs12248560missing": "*1/*1", "CYP2C19/s1s2rs3758581missing": "*38/*2 *1/*2",
		"CYP2C19/s1s35": "*38/*35 *1/*35", "CYP2C19/s2s2": "*2/*2", "CYP2C19/s2s3": "*2/*3", "CYP2C19/s4bs17": "*4/*17", "CYP2C19/s4bs17rs28399504missing": "*4/*4 *4/*17 *17/*17",
		"CYP2C19/s4s17het": "*4/*17", "CYP2C19/sUnks17": "", "CYP2C19/noCall": "",
		"CYP2C9/s1s1": "*1/*1", "CYP2C9/s24s24": "*24/*24", "CYP2C9/s2s24": "*2/*24", "CYP2C9/s2s3": "*2/*3",
		"CYP3A5/s1s1": "*1/*1", "CYP3A5/s1s1rs776746missing": "*1/*1", "CYP3A5/s1s3rs776746rs55965422het": "*1/*3", "CYP3A5/s1s7missing": "*1/*1", "CYP3A5/s3s9-homozygous": "*3/*9", "CYP3A5/s3s9": "*3/*9",
		"CYP4F2/s1s1": "*1/*1",
	}
	found := 0
	paths, err := filepath.Glob(filepath.Join(dir, "haplotype", "*", "*.vcf"))
	require.NoError(t, err)
	for _, path := range paths {
		gene := strings.ToUpper(filepath.Base(filepath.Dir(path)))
		name := gene + "/" + strings.TrimSuffix(filepath.Base(path), ".vcf")
		expected, ok := want[name]
		if !ok {
			continue
		}
		found++
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		repaired := strings.ReplaceAll(string(text), "\t\t", "\t.\t") // ids that are empty, which no VCF may have
		c := called(t, definitions(t, filepath.Join(dir, gene+"_translation.json")), strings.NewReader(repaired))
		require.Equal(t, expected, words(c.Pairs), name)
	}
	require.Equal(t, len(want), found)
}

// TestPharmCATsTableOfNAT2 has each row of PharmCAT's table of NAT2: five positions, unphased, the rest as the reference or missing.
func TestPharmCATsTableOfNAT2(t *testing.T) {
	dir := os.Getenv(pgxFolder)
	if dir == "" {
		t.Skip("needs " + pgxFolder + ", a folder of PharmCAT's definitions and tests")
	}
	d := definitions(t, filepath.Join(dir, "NAT2_translation.json"))
	table, err := os.ReadFile(filepath.Join(dir, "haplotype", "NAT2", "tests.tsv"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(table)), "\n")
	columns := strings.Split(lines[0], "\t")
	rsid := regexp.MustCompile(`rs\d+`)
	tried, more := 0, 0
	for _, line := range lines[1:] {
		cells := strings.Split(strings.TrimRight(line, "\r"), "\t")
		if cells[1] != "reference" {
			continue
		}
		missing := map[string]bool{}
		for _, name := range rsid.FindAllString(cells[0], -1) {
			missing[name] = true
		}
		known := make([]diplotype.Genotype, len(d.Positions))
		for i, p := range d.Positions {
			known[i].Bases = []string{p.Ref, p.Ref}
			for k, name := range columns {
				if name == p.Name {
					known[i].Bases = strings.Split(cells[k], "/")
				}
			}
			if missing[p.Name] {
				known[i].Bases = nil
			}
		}
		c, err := d.Call(known)
		require.NoError(t, err)
		pairs := map[string]bool{}
		for _, p := range append(c.Pairs, c.Also...) {
			pairs[p.String()] = true
		}
		expected := map[string]bool{}
		if cells[7] == "not called" {
			require.Empty(t, pairs, line)
		} else {
			for _, p := range strings.Split(cells[7], " or ") {
				expected[strings.TrimSpace(p)] = true
			}
		}
		if len(pairs) > len(expected) {
			more++
		}
		for pair := range expected {
			require.True(t, pairs[pair], "%s is not among the pairs: %s", pair, line)
		}
		tried++
	}
	// In a row *4/*15 explains the calls, too, and in six an allele that the missing position defines does.
	require.Equal(t, []int{75, 7}, []int{tried, more})
}

package diplotype_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
	s := diplotype.NewSample(d, diplotype.Least{Depth: 10, Quality: 10})
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.NoError(t, s.Add(rec, 0))
	}
	return s.Call()
}

func words(pairs []diplotype.Pair) string {
	var list []string
	for _, p := range pairs {
		list = append(list, p.String())
	}
	return strings.Join(list, " ")
}

const head = "##fileformat=VCFv4.2\n##INFO=<ID=END,Number=1,Type=Integer,Description=\"e\">\n##FORMAT=<ID=GT,Number=1,Type=String,Description=\"g\">\n##FORMAT=<ID=PS,Number=1,Type=Integer,Description=\"p\">\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\n"

// TestEvidence has what a record must state for a position to be known, and the result of several records at one position. The base of *80 is T at 233759924, that of *27 is A
// at 233760973.
func TestEvidence(t *testing.T) {
	d := definitions(t, filepath.Join("testdata", "UGT1A1_translation.json"))
	const all = "chr2 233759000 . A <*> . PASS END=233761000 "
	at := func(alt, format string) string { return "chr2 233759924 . C " + alt + " . PASS . " + format }
	for _, c := range []struct {
		name        string
		rows        []string
		pairs, also string
		missing     int
		reason      string
	}{
		{"block of enough reads", []string{all + "GT:GQ:DP:MIN_DP 0/0:10:12:10"}, "*1/*1", "", 0, ""},
		{"block of one read", []string{all + "GT:GQ:DP:MIN_DP 0/0:20:12:1"}, "", "", 4, "nothing is known of any position"},
		{"block of low quality", []string{all + "GT:GQ:DP:MIN_DP 0/0:9:12:12"}, "", "", 4, "nothing is known of any position"},
		{"quality of GATK's reference", []string{all + "GT:RGQ 0/0:0"}, "", "", 4, "nothing is known of any position"},
		{"DP where there is no MIN_DP", []string{all + "GT:DP:MIN_DP 0/0:9:."}, "", "", 4, "nothing is known of any position"},
		{"neither depth nor quality", []string{all + "GT:DP:GQ 0/0:.:."}, "*1/*1", "", 0, ""},
		{"failed filter of the sample", []string{all + "GT:FT 0/0:lowDP"}, "", "", 4, "nothing is known of any position"},
		{"passed filter of the sample", []string{all + "GT:FT 0/0:PASS"}, "*1/*1", "", 0, ""},
		{"call of too few reads in a block", []string{all + "GT 0/0", at("T", "GT:DP 0/1:3")}, "*1/*1", "", 1, ""},
		{"filtered call before a block", []string{at("T", "GT:FT 1/1:q10"), all + "GT 0/0"}, "*1/*1", "", 1, ""},
		{"no call in a block", []string{all + "GT 0/0", at("T", "GT ./.")}, "*1/*1", "", 1, ""},
		{"no deletion is no look at the bases", []string{"chr2 233759000 . N <DEL> . PASS END=233761000 GT 0/0"}, "", "", 4, "nothing is known of any position"},
		{"deletion", []string{all + "GT 0/0", "chr2 233759000 . N <DEL> . PASS END=233761000 GT 0/1"}, "", "", 0, "bases that no allele has"},
		{"block of an allele that isn't listed", []string{"chr2 233759000 . A <NON_REF> . PASS END=233761000 GT 0/0"}, "*1/*1", "", 0, ""},
		{"block without ALT", []string{"chr2 233759000 . A . . PASS END=233761000 GT 0/0"}, "*1/*1", "", 0, ""},
		{"the same record twice", []string{all + "GT 0/0", at("T", "GT 0/1"), at("T", "GT 0/1")}, "*1/*80", "", 0, ""},
		{"the same call, once in phase", []string{all + "GT 0/0", at("T", "GT 1/0"), at("T", "GT:PS 0|1:7"), "chr2 233760233 . CAT CATAT . PASS . GT:PS 0|1:7"}, "*1/*80+*28", "", 0, ""},
		{"the same call in two phases", []string{all + "GT 0/0", at("T", "GT:PS 1|0:7"), at("T", "GT:PS 0|1:7"), "chr2 233760233 . CAT CATAT . PASS . GT:PS 0|1:7"}, "*1/*80+*28", "*28/*80", 0, ""},
		{"one copy or two", []string{all + "GT 0/0", at("T", "GT 0/1"), at("T", "GT 1/1")}, "*1/*80", "*80/*80", 1, ""},
		{"half a call", []string{all + "GT 0/0", at("T", "GT ./1")}, "*1/*80", "*80/*80", 1, ""},
		{"half a call beside a call", []string{all + "GT 0/0", at("T", "GT ./1"), at("T", "GT 1/1")}, "*80/*80", "", 0, ""},
		{"half a call that no pair has", []string{all + "GT 0/0", at("T", "GT ./1"), "chr2 233760973 . C A . PASS . GT 1/1"}, "", "", 1, "no pair of alleles has these bases"},
		{"halves of a split record", []string{all + "GT 0/0", at("T", "GT ./1"), at("G", "GT 1/.")}, "", "", 0, "bases that no allele has"},
		{"two of one, two of another", []string{all + "GT 0/0", at("T", "GT 1/1"), at("G", "GT 1/1")}, "", "", 1, "records contradict each other at chr2:233759924: leave one of them out"},
		{"one copy", []string{all + "GT 0"}, "", "", 0, "ploidy 1 at chr2:233759924, and diplotypes are of two copies: call with pore call --ploidy 2"},
		{"three copies", []string{all + "GT 0/0/0"}, "", "", 0, "ploidy 3 at chr2:233759924, and diplotypes are of two copies: call with pore call --ploidy 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 2 {
				got := called(t, d, strings.NewReader(head+strings.ReplaceAll(strings.Join(c.rows, "\n"), " ", "\t")+"\n"))
				require.Equal(t, []string{c.pairs, c.also}, []string{words(got.Pairs), words(got.Also)})
				require.Equal(t, c.reason == "", got.Reason() == "")
				require.True(t, strings.HasPrefix(got.Reason(), c.reason), got.Reason())
				require.Len(t, got.Missing, c.missing)
				slices.Reverse(c.rows) // in any order
			}
		})
	}
}

// TestOrderOfRecords has any three records of one position in any order, with the same call, and no pair without a base that all three have.
func TestOrderOfRecords(t *testing.T) {
	d := definitions(t, filepath.Join("testdata", "UGT1A1_translation.json"))
	genotypes := []string{"0/0:.", "0/1:.", "1/0:.", "1/1:.", "./1:.", "./0:.", "0|1:7", "1|0:7", "1|0:9", "0/2:.", "2/2:.", "1/2:.", "./.:.", "1:."}
	call := func(list ...int) diplotype.Call {
		text := head + "chr2\t233760000\t.\tN\t<*>\t.\tPASS\tEND=233761000\tGT\t0/0\n"
		for _, i := range list {
			text += "chr2\t233759924\t.\tC\tT,G\t.\tPASS\t.\tGT:PS\t" + genotypes[i] + "\n"
		}
		return called(t, d, strings.NewReader(text))
	}
	for i := range genotypes {
		for k := range i + 1 {
			for m := range k + 1 {
				want := call(i, k, m)
				for _, order := range [][]int{{i, m, k}, {k, i, m}, {k, m, i}, {m, i, k}, {m, k, i}} {
					require.Equal(t, want, call(order...), "%s %s %s", genotypes[i], genotypes[k], genotypes[m])
				}
				for _, p := range append(want.Pairs, want.Also...) {
					one := func(n int) bool { return strings.Contains(strings.Split(genotypes[n], ":")[0], "1") }
					require.True(t, !one(i) || !one(k) || !one(m) || strings.Contains(p.String(), "*80"), "%s of %s %s %s", p, genotypes[i], genotypes[k], genotypes[m])
				}
			}
		}
	}
}

// TestManyOpenPhases has more heterozygous positions than orders can be tried of.
func TestManyOpenPhases(t *testing.T) {
	var variants, wild, words []string
	for i := range 17 {
		variants = append(variants, fmt.Sprintf(`{"position": %d, "ref": "A", "alts": ["G"], "cpicToVcfAlleleMap": {"A": "A", "G": "G"}}`, i+1))
		wild, words = append(wild, `"A"`), append(words, fmt.Sprint(i+1))
	}
	d, err := diplotype.Read(strings.NewReader(`{"formatVersion": "2", "gene": "G", "chromosome": "chr1", "variants": [` + strings.Join(variants, ",") + `], "namedAlleles": [{"name": "*1", "reference": true, "cpicAlleles": [` + strings.Join(wild, ",") + `]}]}`))
	require.NoError(t, err)
	text := head
	for _, pos := range words {
		text += "chr1\t" + pos + "\t.\tA\tG\t.\tPASS\t.\tGT\t0/1\n"
	}
	require.Equal(t, "17 groups of heterozygous positions without common phase, at most 16 can be examined: phase the calls", called(t, d, strings.NewReader(text)).Reason())
}

// TestTooManyCombinations has alleles that only missing positions would distinguish, more of them on a copy than can be reported.
func TestTooManyCombinations(t *testing.T) {
	var variants, wild []string
	for i := range 17 {
		variants = append(variants, fmt.Sprintf(`{"position": %d, "ref": "A", "alts": ["G"], "cpicToVcfAlleleMap": {"A": "A", "G": "G"}}`, i+1))
		wild = append(wild, `"A"`)
	}
	var alleles []string
	for i := range 5 * 12 {
		cells := slices.Repeat([]string{"null"}, 17)
		cells[i%5], cells[5+i/5] = `"G"`, `"G"`
		alleles = append(alleles, fmt.Sprintf(`{"name": "*%d", "cpicAlleles": [%s]}`, i+2, strings.Join(cells, ",")))
	}
	d, err := diplotype.Read(strings.NewReader(`{"formatVersion": "2", "gene": "G", "chromosome": "chr1", "variants": [` + strings.Join(variants, ",") + `], "namedAlleles": [{"name": "*1", "reference": true, "cpicAlleles": [` + strings.Join(wild, ",") + `]},` + strings.Join(alleles, ",") + `]}`))
	require.NoError(t, err)
	s := diplotype.NewSample(d, diplotype.Least{})
	s.Combinations = true
	for pos := range 5 {
		require.NoError(t, s.Add(&vcf.Record{Chrom: "chr1", Pos: pos + 1, Ref: "A", Alt: []string{"G"}, Filter: []string{"PASS"}, Format: []string{"GT"}, Samples: [][]string{{"1/1"}}}, 0))
	}
	got := s.Call()
	require.Empty(t, got.Pairs)
	require.Equal(t, "more than 4096 pairs of combinations of alleles: phase the calls", got.Reason())
}

// TestAnotherGenome has records whose REF isn't the definitions' and records that may not be compared.
func TestAnotherGenome(t *testing.T) {
	d := definitions(t, filepath.Join("testdata", "UGT1A1_translation.json"))
	for _, c := range []struct{ row, want string }{
		{"chr2 233759924 . C T . PASS . GT 0/1", ""},
		{"chr2 233759924 . c t . PASS . GT 0/1", ""},
		{"chr2 233759924 . N <*> . PASS END=233761000 GT 0/0", ""},
		{"chr2 233759925 . G <*> . PASS END=233761000 GT 0/0", ""},
		{"chr2 233759924 . G T . PASS . GT 0/1", "chr2:233759924: REF has G, and the definitions of UGT1A1 have C: calls on another genome? Call against GRCh38.p14"},
		{"chr2 233759924 . G T . LowQual . GT 0/1", "chr2:233759924: REF has G"},
		{"chr2 233759924 . G <*> . PASS END=233761000 GT 0/0", "chr2:233759924: REF has G"},
		{"chr2 233759922 . GTG G . PASS . GT 0/1", "chr2:233759924: REF has G"},
		{"chr2 233760235 . G A . PASS . GT 0/1", "chr2:233760235: REF has G, and the definitions of UGT1A1 have T"},
	} {
		r, err := vcf.NewReader(strings.NewReader(head + strings.ReplaceAll(c.row, " ", "\t") + "\n"))
		require.NoError(t, err)
		rec, err := r.Next()
		require.NoError(t, err)
		err = diplotype.NewSample(d, diplotype.Least{}).Add(rec, 0)
		if c.want == "" {
			require.NoError(t, err, c.row)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}

// TestContigs has names and lengths of the definitions' contig in headers and records.
func TestContigs(t *testing.T) {
	d := definitions(t, filepath.Join("testdata", "UGT1A1_translation.json"))
	for _, c := range []struct {
		declared []string // ID,length
		records  []string
		want     string
	}{
		{nil, nil, ""},
		{nil, []string{"chr3", "chr2"}, ""},
		{[]string{"chr2,242193529"}, nil, ""},
		{[]string{"chr2,0"}, nil, ""},
		{[]string{"chr2,243199373"}, nil, "chr2 with 243199373 bases, and the definitions of UGT1A1 are on GRCh38.p14, where it has 242193529: calls on another genome?"},
		{[]string{"2,242193529"}, nil, `the contig is named 2, and the definitions of UGT1A1 have chr2: rename it, by bcftools annotate --rename-chrs FILE with a line "2 chr2"`},
		{nil, []string{"2"}, "the contig is named 2,"},
		{nil, []string{"2", "chr2"}, ""},
		{[]string{"chr2,242193529"}, []string{"2"}, ""},
		{nil, []string{"NC_000002.12"}, "the contig is named NC_000002.12,"},
		{nil, []string{"NC_000002.11"}, "if the calls are on GRCh38"},
		{nil, []string{"CHR2"}, "the contig is named CHR2,"},
		{nil, []string{"22", "NC_000020.11"}, ""},
	} {
		h := vcf.NewHeader("VCFv4.2")
		for _, declared := range c.declared {
			name, length, _ := strings.Cut(declared, ",")
			n, err := strconv.Atoi(length)
			require.NoError(t, err)
			h.AddContig(name, n)
		}
		contigs, err := diplotype.NewContigs(d, h)
		if err == nil {
			for _, name := range c.records {
				contigs.Add(name)
			}
			err = contigs.Err()
		}
		if c.want == "" {
			require.NoError(t, err, "%v %v", c.declared, c.records)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}

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
		{"split by alleles, of which one has no name", []string{block("233759000", "233761000"), "chr2 233759924 . C T . PASS . GT 0/1", "chr2 233759924 . C G . PASS . GT 0/1"}, "", "", 0, 1},
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
		c := d.Call(known)
		require.Empty(t, c.Refused)
		require.Equal(t, len(c.Pairs) == 0, c.Reason() != "")
	})
}

// pgxFolder is a folder of PharmCAT's definitions (GENE_translation.json) and of its tests (haplotype/GENE/*.vcf, haplotype/NAT2/tests.tsv).
const pgxFolder = "PORESTREAM_PHARMCAT"

// TestPharmCATsCases has PharmCAT's VCFs of single genes with what their names say, in the names of the definitions in use (CYP2C19 *4B is *4 now, *1 has a base of its own
// and isn't distinguished from *38 where it is missing, UGT1A1 *60 is no allele any more). "" is no call.
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

		// As NamedAlleleMatcherCyp2c19Test, -Cyp2c9Test and PipelineTest of PharmCAT 3.1 say of the same bases.
		"CYP2C19/rs12769205call": "*1/*35", "CYP2C19/s15s28": "*15/*28 *28/*39", "CYP2C19/s1s4s17": "*1/*4", "CYP2C19/s4s17missingS1": "*38/*4 *1/*4", "CYP2C19/s1s2rs3758581missingRs58973490het": "*1/*2",
		"CYP2C9/s24s2pluss24": "", "CYP3A5/s1s3rs776746rs28383479het": "*3/*9", "CYP3A5/s1s3rs776746rs55965422rs28383479het": "*3/*9",
		"UGT1A1/NA19785_UGT1A1": "*80/*80+*28", "UGT1A1/s1s60s80s28s6phased": "", "UGT1A1/s1s60s80s6phased": "", "UGT1A1/s27s28unphaseds80s60missing": "*27/*28 *27/*80+*28", "UGT1A1/s80s28missing": "*1/*80 *1/*80+*28 *1/*80+*37",
		// PharmCAT makes reports of these and expects nothing: what a search over all orders and pairs by its documented scores gives.
		"CYP2C19/rs12769205only": "*38/*2 *38/*35 *1/*2 *1/*35", "CYP2C19/rs12769205ref": "*38/*35 *1/*35", "CYP2C9/s3s18m94981296": "*1/*18", "UGT1A1/s28hets60homounphaseds80missing": "*1/*28 *1/*80+*28",
		"SLCO1B1/SLCO1B1_s15_s45_t1": "*1/*45.002", "SLCO1B1/SLCO1B1_s19_s37_t1": "*1/*20", "SLCO1B1/s5s45": "*5/*45.001",
	}
	found := 0
	paths, err := filepath.Glob(filepath.Join(dir, "haplotype", "*", "*.vcf"))
	require.NoError(t, err)
	for _, path := range paths {
		gene := strings.ToUpper(filepath.Base(filepath.Dir(path)))
		name := gene + "/" + strings.TrimSuffix(filepath.Base(path), ".vcf")
		expected, ok := want[name]
		require.True(t, ok, "nothing is expected of %s", name)
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
		c := d.Call(known)
		require.Empty(t, c.Refused)
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

// TestCombinations has copies with alleles and changes that no named allele has together, by rows of a VCF of UGT1A1 whose other positions are the reference.
func TestCombinations(t *testing.T) {
	d := definitions(t, filepath.Join("testdata", "UGT1A1_translation.json"))
	const (
		star80   = "chr2 233759924 . C T . PASS . GT "
		repeats  = "chr2 233760233 . CAT CATAT,C,CATATAT . PASS . GT "
		star6    = "chr2 233760498 . G A . PASS . GT "
		star27   = "chr2 233760973 . C A . PASS . GT "
		unknown  = "chr2 233760973 . C T . PASS . GT "
		inserted = "chr2 233760973 . C CAA . PASS . GT "
		all      = "chr2 233759000 . A <*> . PASS END=233761000 GT 0/0"
	)
	for _, c := range []struct {
		name  string
		rows  []string
		pairs string
	}{
		{"a pair of alleles explains them", []string{all, star80 + "0/1", star6 + "0/1"}, "*6/*80"},
		{"two on one copy", []string{all, star80 + "1|0", star6 + "1|0"}, "*1/[*6 + *80]"},
		{"a larger allele leaves none of its parts", []string{all, star80 + "1|0", repeats + "1|0", star6 + "1|0"}, "*1/[*6 + *80+*28]"},
		{"homozygous and one more", []string{all, star6 + "1/1", star27 + "0/1"}, "*6/[*6 + *27]"},
		{"in no phase, in all orders", []string{all, repeats + "0/1", star6 + "0/1", star27 + "0/1"}, "*1/[*6 + *27 + *28], *6/[*27 + *28], *27/[*6 + *28], *28/[*6 + *27]"},
		{"a base that no allele has", []string{all, unknown + "0/1", star6 + "1/1"}, "*6/[*6 + g.233760973C>T]"},
		{"that alone", []string{all, unknown + "0/1"}, "*1/g.233760973C>T"},
		{"on both", []string{all, unknown + "1/1"}, "g.233760973C>T/g.233760973C>T"},
		{"in no phase", []string{all, repeats + "0/1", star6 + "0/1", unknown + "0/1"}, "*1/[*6 + *28 + g.233760973C>T], *6/[*28 + g.233760973C>T], *28/[*6 + g.233760973C>T], g.233760973C>T/[*6 + *28]"},
		{"an insertion", []string{all, inserted + "0/1"}, "*1/g.233760973_233760974insAA"},
		{"a missing position tells two apart", []string{"chr2 233760000 . N <*> . PASS END=233761000 GT 0/0", repeats + "1|0", star6 + "1|0"}, "*1/[*6 + *28], *1/[*6 + *80+*28]"},
		{"half a call counts as missing", []string{all, star80 + "./1", star6 + "1/1", star27 + "0/1"}, "*6/[*6 + *27]"},
		{"nothing is known", []string{"chr2 1 . N <*> . PASS END=100 GT 0/0"}, ""},
		{"one copy", []string{all, star80 + "1"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 2 {
				r, err := vcf.NewReader(strings.NewReader(head + strings.ReplaceAll(strings.Join(c.rows, "\n"), " ", "\t") + "\n"))
				require.NoError(t, err)
				s := diplotype.NewSample(d, diplotype.Least{})
				s.Combinations = true
				for {
					rec, err := r.Next()
					if errors.Is(err, io.EOF) {
						break
					}
					require.NoError(t, err)
					require.NoError(t, s.Add(rec, 0))
				}
				got := s.Call()
				var list []string
				for _, p := range got.Pairs {
					list = append(list, p.String())
				}
				require.Equal(t, c.pairs, strings.Join(list, ", "))
				require.Equal(t, strings.ContainsAny(c.pairs, "[g"), got.Combined)
				slices.Reverse(c.rows) // in any order
			}
		})
	}
}

// TestPharmCATsCombinations has PharmCAT's cases of combinations and partial alleles, as NamedAlleleMatcherTest of PharmCAT 3.1 expects them; HLA and CYP2D6 are none of these.
func TestPharmCATsCombinations(t *testing.T) {
	dir := os.Getenv(pgxFolder)
	if dir == "" {
		t.Skip("needs " + pgxFolder + ", a folder of PharmCAT's definitions and tests")
	}
	dir = filepath.Join(dir, "haplotype")
	for _, c := range []struct {
		definitions, calls string
		pairs              []string
	}{
		{"combination", "combinationBaseline", []string{"*1/*1"}},
		{"combination", "partial", []string{"*6/[*6 + g.233760973C>T]"}},
		{"combination", "partialWithCombination", []string{"*1/[*6 + *28 + g.233760973C>T]", "g.233760973C>T/[*6 + *28]", "*6/[*28 + g.233760973C>T]", "*28/[*6 + g.233760973C>T]"}},
		{"cyp2b6", "partialReferenceUnphased", []string{"*1/[*9 + g.41012316T>G]", "*9/g.41012316T>G"}},
		{"cyp2b6", "partialReferencePhased", []string{"*9/[g.41006968T>A + g.41012316T>G]"}},
		{"cyp2b6", "partialReferenceDouble", []string{"g.41006968T>A/g.41006968T>A"}},
		{"cyp2b6", "combinationLongestScore", []string{"*13/[*6 + *14]"}},
	} {
		d := definitions(t, filepath.Join(dir, "NamedAlleleMatcher-"+c.definitions+".json"))
		text, err := os.ReadFile(filepath.Join(dir, "NamedAlleleMatcher-"+c.calls+".vcf"))
		require.NoError(t, err)
		r, err := vcf.NewReader(strings.NewReader(strings.ReplaceAll(string(text), "\t\t", "\t.\t")))
		require.NoError(t, err)
		s := diplotype.NewSample(d, diplotype.Least{})
		s.Combinations = true
		for {
			rec, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.NoError(t, s.Add(rec, 0))
		}
		var got []string
		for _, p := range s.Call().Pairs {
			got = append(got, p.String())
		}
		require.ElementsMatch(t, c.pairs, got, c.calls)
	}
}

// TestListedAlleles has a gene each of whose alleles is one change: a pair of alleles isn't all that calls out of phase allow, and two on one copy
// need no flag.
func TestListedAlleles(t *testing.T) {
	const definitions = `{"formatVersion": "2", "gene": "DPYD", "chromosome": "chr1", "variants": [
		{"position": 10, "ref": "C", "alts": ["T"], "cpicAlleles": ["C", "T"], "cpicToVcfAlleleMap": {"C": "C", "T": "T"}},
		{"position": 20, "ref": "A", "alts": ["G"], "cpicAlleles": ["A", "G"], "cpicToVcfAlleleMap": {"A": "A", "G": "G"}},
		{"position": 30, "ref": "G", "alts": ["A"], "cpicAlleles": ["G", "A"], "cpicToVcfAlleleMap": {"G": "G", "A": "A"}}], "namedAlleles": [
		{"name": "Reference", "alleles": ["C", "A", "G"], "cpicAlleles": ["C", "A", "G"], "reference": true},
		{"name": "a", "alleles": ["T", null, null], "cpicAlleles": ["T", null, null]},
		{"name": "b", "alleles": [null, "G", null], "cpicAlleles": [null, "G", null]},
		{"name": "c", "alleles": [null, null, "A"], "cpicAlleles": [null, null, "A"]}]}`
	d, err := diplotype.Read(strings.NewReader(definitions))
	require.NoError(t, err)
	other, err := diplotype.Read(strings.NewReader(strings.Replace(definitions, "DPYD", "CYP2C9", 1)))
	require.NoError(t, err)
	for _, c := range []struct {
		a, b, c     string // genotypes
		pairs, also string
		combined    bool
	}{
		{"0/0", "0/0", "0/0", "Reference/Reference", "", false},
		{"0/1", "0/0", "0/0", "Reference/a", "", false},
		{"0/1", "0/1", "0/0", "a/b", "Reference/[a + b]", false},
		{"0|1", "1|0", "0/0", "a/b", "", false},
		{"0|1", "0|1", "0/0", "Reference/[a + b]", "", true},
		{"1/1", "0/1", "0/0", "a/[a + b]", "", true},
		{"0/1", "0/1", "0/1", "Reference/[a + b + c] a/[b + c] b/[a + c] c/[a + b]", "", true},
		{"0|1", "0|1", "0/1", "Reference/[a + b + c] c/[a + b]", "", true},
		{"0/1", "./.", "0/1", "a/c", "Reference/[a + c]", false},
	} {
		text := "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\n" +
			"chr1\t10\t.\tC\tT\t.\tPASS\t.\tGT\t" + c.a + "\nchr1\t20\t.\tA\tG\t.\tPASS\t.\tGT\t" + c.b + "\nchr1\t30\t.\tG\tA\t.\tPASS\t.\tGT\t" + c.c + "\n"
		got := called(t, d, strings.NewReader(text))
		require.Equal(t, []string{c.pairs, c.also}, []string{words(got.Pairs), words(got.Also)}, text)
		require.Equal(t, c.combined, got.Combined)
		if plain := called(t, other, strings.NewReader(text)); c.combined {
			require.Empty(t, plain.Pairs, "another gene has combinations only if they are asked for")
		}
	}
}

// TestPharmCATsTableOfDPYD has each row of PharmCAT's table of DPYD's HapB3 beside other variants. In phase the pair is the table's, out of phase it is among
// those that the calls allow. HapB3's exonic change by itself is the reference to PharmCAT, and is given as a change here.
func TestPharmCATsTableOfDPYD(t *testing.T) {
	dir := os.Getenv(pgxFolder)
	if dir == "" {
		t.Skip("needs " + pgxFolder + ", a folder of PharmCAT's definitions and tests")
	}
	d := definitions(t, filepath.Join(dir, "DPYD_translation.json"))
	table, err := os.ReadFile(filepath.Join(dir, "haplotype", "DPYD", "hapb3.tsv"))
	require.NoError(t, err)
	lines := strings.Split(string(table), "\n")
	names := strings.Split(strings.TrimSpace(lines[2]), "\t")[:7]
	copyOf := func(name string) string {
		var list []string
		for _, part := range strings.Split(strings.Trim(name, "[]"), "+") {
			switch part = strings.TrimSpace(part); part {
			case "HapB3":
				part = "c.1129-5923C>G, c.1236G>A (HapB3)"
			case "HapB3Intron":
				part = "c.1129-5923C>G"
			case "ref", "Reference", "g.97573863C>T":
				continue
			}
			list = append(list, part)
		}
		slices.Sort(list)
		return strings.Join(list, " + ")
	}
	pairOf := func(a, b string) string {
		list := []string{copyOf(a), copyOf(b)}
		slices.Sort(list)
		return strings.Join(list, " / ")
	}
	rows := 0
	for n, line := range lines[3:] {
		cells := strings.Split(strings.TrimRight(line, "\r"), "\t")
		if len(cells) < 8 || cells[7] == "" || cells[5] != "0/0" && cells[5] != "0|0" {
			continue // the sixth has bases that no allele has
		}
		one, two, ok := strings.Cut(cells[7], "/")
		require.True(t, ok)
		for _, phased := range []bool{true, false} {
			text := "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\n"
			for _, p := range d.Positions {
				genotype := "0/0"
				if k := slices.Index(names, p.Name); k >= 0 {
					genotype = strings.ReplaceAll(cells[k], "missing", "./.")
				}
				if phased {
					genotype = strings.ReplaceAll(genotype, "/", "|")
				} else {
					genotype = strings.ReplaceAll(genotype, "|", "/")
				}
				text += fmt.Sprintf("%s\t%d\t.\t%s\t%s\t.\tPASS\t.\tGT\t%s\n", d.Contig, p.Pos, p.Ref, strings.Join(p.Alts, ","), genotype)
			}
			c := called(t, d, strings.NewReader(text))
			pairs := map[string]bool{}
			for _, p := range append(slices.Clone(c.Pairs), c.Also...) {
				pairs[pairOf(p.First, p.Second)] = true
			}
			require.True(t, pairs[pairOf(one, two)], "row %d, phased %v: %s is not among %v, %v", n+4, phased, cells[7], c.Pairs, c.Also)
			if phased && !strings.Contains(line, "missing") {
				require.Len(t, pairs, 1, "row %d: %v, %v", n+4, c.Pairs, c.Also)
			}
		}
		rows++
	}
	require.Equal(t, 88, rows)
}

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/variant"
)

// 0         1         2         3         4         5         6
// 0123456789012345678901234567890123456789012345678901234567890123456789
const reference = "GATCTAGGCAAAAATCGGATCATATATATGCCTTGACGTTACGCATTGGCACGTCTAGATTCGAGCCTAA"

func load(t *testing.T) *genome.Genome {
	t.Helper()
	g, err := genome.Read(strings.NewReader(">c\n" + reference + "\n"))
	require.NoError(t, err)
	return g
}

const header = "##fileformat=VCFv4.2\n##contig=<ID=c,length=70>\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\n"

// row is a line of the truth.
func row(pos, ref, alt, gt string) string {
	return strings.Join([]string{"c", pos, ".", ref, alt, ".", ".", ".", "GT", gt}, "\t") + "\n"
}

func TestLabels(t *testing.T) {
	g := load(t)
	diploid := header +
		row("9", "CA", "C", "0|1") + // one A of five, at 9 to 13
		row("21", "CAT", "C", "1|1") + // a unit of the repeat at 21 to 28
		row("40", "T", "A,C", "1|2") +
		row("60", "T", "G", "1|0")
	haploid := header + row("9", "C", "CAA", "1") + row("60", "T", "G", "1")
	// Neighbours: on one haplotype, and on one each.
	near := header + row("50", "C", "T", "0|1") + row("52", "CG", "C", "0|1") + row("60", "T", "G", "1|0") + row("63", "G", "A", "0|1")
	mnp := header + row("50", "CAC", "TGT", "1")
	mixture := header + row("9", "CA", "C", "0|1") + row("60", "T", "G", "1|1")
	for _, tt := range []struct {
		name, truth string
		ploidy      variant.Ploidy
		allele      allele
		want        label
	}{
		{"heterozygous deletion", diploid, variant.Diploid, allele{8, "CA", "C"},
			label{pos: 8, copies: 1, zygosity: 1, length: -1, mode: 1, kind: kindDeletion, run: 5}},
		{"one base too many", diploid, variant.Diploid, allele{8, "CAA", "C"},
			label{pos: 8, zygosity: 1, length: -1, mode: 1, kind: kindDeletion, run: 5}},
		{"homozygous deletion of a unit", diploid, variant.Diploid, allele{20, "CAT", "C"},
			label{pos: 20, copies: 2, zygosity: 2, length: -2, mode: 1, kind: kindDeletion, run: 1}},
		{"two units", diploid, variant.Diploid, allele{20, "CATAT", "C"},
			label{pos: 20, zygosity: 2, length: -2, mode: 1, kind: kindDeletion, run: 1}},
		{"first of two alleles", diploid, variant.Diploid, allele{39, "T", "A"},
			label{pos: 39, copies: 1, zygosity: 1, mode: 1, kind: kindSNP, run: 2}},
		{"neither of two alleles", diploid, variant.Diploid, allele{39, "T", "G"},
			label{pos: 39, zygosity: 1, mode: 1, kind: kindSNP, run: 2}},
		{"beside a SNP", diploid, variant.Diploid, allele{58, "A", "G"},
			label{pos: 58, mode: 1, kind: kindSNP, run: 1}},
		{"far from all", diploid, variant.Diploid, allele{2, "T", "TC"},
			label{pos: 2, mode: 1, kind: kindInsertion, run: 1}},
		{"haploid insertion", haploid, variant.Haploid, allele{8, "C", "CAA"},
			label{pos: 8, copies: 2, zygosity: 2, length: 2, kind: kindInsertion, run: 5}},
		{"too short", haploid, variant.Haploid, allele{8, "C", "CA"},
			label{pos: 8, zygosity: 2, length: 2, kind: kindInsertion, run: 5}},
		{"neighbours as one event", near, variant.Diploid, allele{49, "CACG", "TAC"},
			label{pos: 49, copies: 1, zygosity: 1, length: -1, mode: 1, kind: kindDeletion, run: 1}},
		{"neighbours of two haplotypes as one event", near, variant.Diploid, allele{59, "TTCG", "GTCA"},
			label{pos: 59, zygosity: 1, mode: 1, kind: kindSNP, run: 2}},
		{"an event of several bases", mnp, variant.Haploid, allele{49, "CAC", "TGT"},
			label{pos: 49, copies: 2, zygosity: 2, kind: kindSNP, run: 1}},
		{"in a part of a mixture", mixture, variant.Mixture, allele{8, "CA", "C"},
			label{pos: 8, copies: 1, zygosity: 1, length: -1, mode: 2, kind: kindDeletion, run: 5}},
		{"in all of a mixture", mixture, variant.Mixture, allele{59, "T", "G"},
			label{pos: 59, copies: 2, zygosity: 2, mode: 2, kind: kindSNP, run: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			known, err := parseTruth(strings.NewReader(tt.truth), g, haplotypesOf(tt.ploidy))
			require.NoError(t, err)
			for _, k := range known["c"] {
				k.proposed = true
			}
			l := labeller{ref: g.Contigs[0].Seq, truth: known["c"], ploidy: tt.ploidy, mode: modeOf(tt.ploidy)}
			got, ok := l.label(tt.allele)
			require.True(t, ok)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestAmbiguousAllelesAreLeftOut(t *testing.T) {
	g := load(t)
	for _, tt := range []struct {
		name, truth string
		allele      allele
		proposed    bool
		ok          bool
	}{
		{"the true one isn't looked at", row("9", "C", "CAA", "1"), allele{8, "C", "CA"}, false, false},
		{"the true one is", row("9", "C", "CAA", "1"), allele{8, "C", "CA"}, true, true},
		{"a true one that is far doesn't matter", row("60", "T", "G", "1"), allele{8, "C", "CA"}, false, true},
		// GG>G and the next A>G together are GGA>GG: the deletion of the A.
		{"two make another", row("17", "GG", "G", "1") + row("19", "A", "G", "1"), allele{17, "GA", "G"}, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			known, err := parseTruth(strings.NewReader(header+tt.truth), g, 1)
			require.NoError(t, err)
			for _, k := range known["c"] {
				k.proposed = tt.proposed
			}
			l := labeller{ref: g.Contigs[0].Seq, truth: known["c"], ploidy: variant.Haploid}
			_, ok := l.label(tt.allele)
			assert.Equal(t, tt.ok, ok)
		})
	}
}

func TestNormalise(t *testing.T) {
	for _, tt := range []struct{ in, want allele }{
		{allele{3, "C", "T"}, allele{3, "C", "T"}},
		{allele{12, "AA", "A"}, allele{8, "CA", "C"}},
		{allele{13, "A", "AA"}, allele{8, "C", "CA"}},
		{allele{24, "TAT", "T"}, allele{20, "CAT", "C"}},
		{allele{2, "TCT", "TGT"}, allele{3, "C", "G"}},
		{allele{4, "TAG", "TCA"}, allele{5, "AG", "CA"}},
	} {
		assert.Equal(t, tt.want, normalise([]byte(reference), tt.in), tt.in)
	}
}

func TestTruthRefuses(t *testing.T) {
	g := load(t)
	for _, tt := range []struct{ name, row, message string }{
		{"another reference", row("9", "G", "T", "1"), "REF G isn't what the reference has at c:9"},
		{"no genotype", strings.Replace(row("9", "C", "T", "1"), "GT", "DP", 1), "genotype"},
		{"genotype of two", row("9", "C", "T", "0/1"), `genotype "0/1": want 1 alleles`},
		{"no such allele", row("9", "C", "T", "2"), "is no genotype of the record"},
		{"symbolic", row("9", "C", "<DEL>", "1"), "isn't a sequence"},
		{"unknown contig", strings.Replace(row("9", "C", "T", "1"), "c", "x", 1), "x isn't in the reference"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseTruth(strings.NewReader(header+tt.row), g, 1)
			assert.ErrorContains(t, err, tt.message)
		})
	}
}

func FuzzNormalise(f *testing.F) {
	f.Add(8, 2, "C")
	f.Add(20, 3, "CATAT")
	f.Add(0, 1, "GGA")
	f.Fuzz(func(t *testing.T, pos, length int, alt string) {
		if pos < 0 || length < 1 || length > 20 || pos > len(reference)-length || alt == "" || len(alt) > 30 || strings.Trim(alt, "ACGT") != "" {
			t.Skip()
		}
		a := allele{pos, reference[pos : pos+length], alt}
		if a.ref == a.alt {
			t.Skip()
		}
		b := normalise([]byte(reference), a)
		spelled := func(a allele) string { return reference[:a.pos] + a.alt + reference[a.pos+len(a.ref):] }
		require.Equal(t, spelled(a), spelled(b))
		require.Equal(t, b, normalise([]byte(reference), b))
		require.LessOrEqual(t, len(b.ref), max(len(a.ref), 1)+1)
	})
}

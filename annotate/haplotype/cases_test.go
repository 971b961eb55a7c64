package haplotype

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vcf"
)

// load reads a reference and its genes.
func load(t testing.TB, fasta, gff []byte, table int) *Genes {
	t.Helper()
	g, err := genome.Read(bytes.NewReader(fasta))
	require.NoError(t, err)
	g = g.Packed()
	var reader annotate.ModelReader
	if table != DefaultCode {
		require.NoError(t, reader.Codes.Set(strconv.Itoa(table)))
	}
	m, err := reader.Read(bytes.NewReader(gff), g)
	require.NoError(t, err)
	genes, err := NewGenes(g, m, reader.Codes.AllStarts)
	require.NoError(t, err)
	return genes
}

// run annotates a VCF and returns its records.
func run(t testing.TB, genes *Genes, in []byte, opts Options, choose Select) (*vcf.Header, []*vcf.Record) {
	t.Helper()
	r, err := vcf.NewReader(bytes.NewReader(in))
	require.NoError(t, err)
	a := NewAnnotator(genes, opts, func(*vcf.Header) (Select, error) { return choose, nil }, false, nil)
	h := r.Header().Clone()
	require.NoError(t, a.Declare(h))
	var out vcf.Lines
	for {
		block, err := r.NextBlock(nil)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		text, number := block.Text, block.Line
		for len(text) > 0 {
			var line []byte
			line, text = vcf.CutLine(text)
			if len(line) > 0 {
				var row vcf.Row
				require.NoError(t, r.Header().ParseRow(line, &row))
				require.NoError(t, a.Push(&out, &row, number))
			}
			number++
		}
	}
	require.NoError(t, a.Flush(&out))
	var recs []*vcf.Record
	for i, line := range bytes.Split(bytes.TrimSuffix(out.Text, []byte("\n")), []byte("\n")) {
		rec, err := h.Parse(line, out.Numbers[i])
		require.NoError(t, err)
		recs = append(recs, rec)
	}
	return h, recs
}

// sorted is a list of values in a fixed order.
func sorted(values string) string {
	v := strings.Split(values, ",")
	slices.Sort(v)
	return strings.Join(v, ",")
}

// bcsq is a record's INFO/BCSQ, in a fixed order.
func bcsq(rec *vcf.Record) string {
	v, ok := rec.Info.Get(Tag)
	if !ok {
		return "."
	}
	return sorted(v)
}

// onHaplotype are the consequences that FORMAT/BCSQ gives haplotype h of a sample.
func onHaplotype(t testing.TB, rec *vcf.Record, sample, h int) string {
	at := slices.Index(rec.Format, Tag)
	if at < 0 {
		return "."
	}
	info, _ := rec.Info.Get(Tag)
	var own []string
	for i, text := range strings.Split(rec.Samples[sample][at], ",") {
		mask, err := strconv.ParseUint(text, 10, 32)
		require.NoError(t, err)
		for j, v := range strings.Split(info, ",") {
			if bit := 2*j + h - maskBits*i; bit >= 0 && bit < maskBits && mask>>bit&1 == 1 {
				own = append(own, v)
			}
		}
	}
	if own == nil {
		return "."
	}
	slices.Sort(own)
	return strings.Join(own, ",")
}

// head are the columns by which a record is found.
func head(rec *vcf.Record) string {
	alt := strings.Join(rec.Alt, ",")
	if alt == "" {
		alt = "."
	}
	return strconv.Itoa(rec.Pos) + "\t" + rec.Ref + "\t" + alt
}

// blocks are the last lines of the paragraphs of an expected text.
func blocks(text string) []string {
	var out []string
	for _, p := range strings.Split(text, "\n\n") {
		if lines := strings.Split(strings.TrimSpace(p), "\n"); lines[0] != "" {
			out = append(out, lines[len(lines)-1])
		}
	}
	return out
}

// cases are the files of bcftools' test suite, by folder and name.
func cases(t testing.TB) map[string]map[string][]byte {
	return unpack(t, "testdata/bcftools-csq.tar.gz")
}

// haploidCase lists the consequences of each haplotype; its expectation has a line per sample.
const haploidCase = "haploid-diploid"

func TestCasesOfBcftools(t *testing.T) {
	records := 0
	for folder, files := range cases(t) {
		for name, want := range files {
			base, local := strings.CutSuffix(name, ".txt-l")
			if !local {
				var ok bool
				if base, ok = strings.CutSuffix(name, ".txt"); !ok {
					continue
				}
			}
			t.Run(folder+"/"+name, func(t *testing.T) {
				genes := load(t, files[folder+".fa"], files[folder+".gff"], DefaultCode)
				_, recs := run(t, genes, files[base+".vcf"], Options{Local: local, Phase: PhaseAsIs}, nil)
				if base == haploidCase {
					requireHaplotypes(t, recs, string(want))
					return
				}
				lines := blocks(string(want))
				require.Len(t, recs, len(lines))
				for i, rec := range recs {
					w := strings.Split(lines[i], "\t")
					require.Equal(t, strings.Join(w[:3], "\t"), head(rec))
					require.Equal(t, sorted(w[3]), bcsq(rec), head(rec))
					records++
				}
			})
		}
	}
	require.Equal(t, 181, records)
}

// requireHaplotypes compares what the samples' haplotypes have; a sample that has nothing has no line.
func requireHaplotypes(t *testing.T, recs []*vcf.Record, want string) {
	var got []string
	for _, rec := range recs {
		for sample := range rec.Samples {
			one, two := onHaplotype(t, rec, sample, 0), onHaplotype(t, rec, sample, 1)
			if one != "." || two != "." {
				got = append(got, head(rec)+"\t"+one+"\t"+two)
			}
		}
	}
	var lines []string
	for _, line := range strings.Split(want, "\n") {
		if line != "" {
			lines = append(lines, line)
		}
	}
	require.ElementsMatch(t, lines, got)
}

func TestCommandLinesOfBcftools(t *testing.T) {
	all := cases(t)
	except := func(pos int) Select { return func(rec *vcf.Record) bool { return rec.Pos != pos } }
	for _, c := range []struct {
		folder, name, gff, vcf string
		code                   int
		opts                   Options
		choose                 Select
		line                   func(t *testing.T, rec *vcf.Record) []string
	}{
		{"EMN908947", "simple", "simple.gff", "simple.vcf", 0, Options{}, nil, expected},
		{"EMN908947", "ribosomal-slippage", "ribosomal-slippage.gff", "ribosomal-slippage.vcf", 0, Options{}, nil, expected},
		{"ENST00000368801.2", "alt-gencode.1", "ENST00000368801.2.gff", "alt-gencode.vcf", 0, Options{}, nil, valueOnly},
		{"ENST00000368801.2", "alt-gencode.2", "ENST00000368801.2.gff", "alt-gencode.vcf", 1, Options{}, nil, valueOnly},
		{"ENST00000000000", "upstream-stop", "ENST00000000000.gff", "upstream-stop.vcf", 0, Options{Phase: PhaseAsIs}, nil, perSample},
		{"ENSMUST00000121418", "filter-problem.1", "ENSMUST00000121418.gff", "filter-problem.vcf", 0, Options{Phase: PhaseMerge}, except(25105), columns},
		{"ENSMUST00000121418", "filter-problem.2", "ENSMUST00000121418.gff", "filter-problem.vcf", 0, Options{Phase: PhaseMerge}, except(25496), columns},
		{"ENSMUST00000121418", "filter-problem.3", "ENSMUST00000121418.gff", "filter-problem.vcf", 0, Options{Phase: PhaseMerge}, except(25500), columns},
	} {
		t.Run(c.folder+"/"+c.name, func(t *testing.T) {
			files := all[c.folder]
			genes := load(t, files[c.folder+".fa"], files[c.gff], c.code)
			_, recs := run(t, genes, files[c.vcf], c.opts, c.choose)
			var got, want []string
			for _, rec := range recs {
				got = append(got, c.line(t, rec)...)
			}
			for _, line := range strings.Split(string(files[c.name+".cmd.out"]), "\n") {
				if line == "" {
					continue
				}
				f := strings.Split(line, "\t")
				for i := range f {
					f[i] = sorted(f[i])
				}
				want = append(want, strings.Join(f, "\t"))
			}
			require.Equal(t, want, got)
		})
	}
}

// expected, valueOnly, perSample and columns are a record in the forms that the command lines print.
func expected(_ *testing.T, rec *vcf.Record) []string {
	want, _ := rec.Info.Get("EXP")
	return []string{head(rec) + "\t" + sorted(want), head(rec) + "\t" + bcsq(rec)}
}

func valueOnly(_ *testing.T, rec *vcf.Record) []string { return []string{bcsq(rec)} }

func columns(_ *testing.T, rec *vcf.Record) []string { return []string{head(rec) + "\t" + bcsq(rec)} }

func perSample(t *testing.T, rec *vcf.Record) []string {
	var out []string
	for i, name := range []string{"aaa", "bbb"} {
		one, two := onHaplotype(t, rec, i, 0), onHaplotype(t, rec, i, 1)
		if one != "." || two != "." {
			out = append(out, strings.Join([]string{head(rec), name, rec.Samples[i][0], one, two}, "\t"))
		}
	}
	return out
}

// A phase in front of the first allele, which VCF 4.4 and 4.5 allow, makes no other haplotype of a genotype.
func TestPhaseBeforeTheFirstAllele(t *testing.T) {
	fasta := []byte(">c\n" + "ATGGCTGCTGCTGCTTAA" + "\n")
	gff := []byte("##gff-version 3\nc\t.\tgene\t1\t18\t.\t+\t.\tID=g;biotype=protein_coding;Name=G\n" +
		"c\t.\tmRNA\t1\t18\t.\t+\t.\tID=t;Parent=g;biotype=protein_coding\nc\t.\tCDS\t1\t18\t.\t+\t0\tParent=t\n")
	genes := load(t, fasta, gff, DefaultCode)
	mask := func(genotype string) string {
		in := "##fileformat=VCFv4.4\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\nc\t4\t.\tG\tA\t.\t.\t.\tGT\t" + genotype + "\n"
		_, recs := run(t, genes, []byte(in), Options{Phase: PhaseAsIs}, nil)
		require.Equal(t, []string{"GT", Tag}, recs[0].Format, genotype)
		return recs[0].Samples[0][1]
	}
	for genotype, want := range map[string]string{
		"0|1": "2", "|0|1": "2", "/0|1": "2", "0/1": "2", "/0/1": "2", "1": "1", "|1": "1", "/1": "1", "1/1": "3", "/1/1": "3", "|1|1": "3",
	} {
		require.Equal(t, want, mask(genotype), genotype)
	}
}

// Whatever phases the CDS rows have, the bases decide what a change of a codon is: on both strands, over exons, where the
// phases are all alike (converted files, snippy), and where a single row claims to begin inside a codon.
func TestPhasesDoNotDecideWhatIsCoding(t *testing.T) {
	// ATG GCT GC of the first exon, an intron of eight bases, A GCT GCA TAA of the second.
	fasta := func(forward bool) []byte {
		s := "ATGGCTGCGTGCTTAGAGCTGCATAA"
		if !forward {
			s = reverse(s)
		}
		return []byte(">c\n" + s + "\n")
	}
	for _, forward := range []bool{true, false} {
		strand, first, second, pos, ref, alt := "+", [2]int{1, 8}, [2]int{17, 26}, 19, "C", "T"
		if !forward {
			strand, first, second, pos, ref, alt = "-", [2]int{19, 26}, [2]int{1, 10}, 8, "G", "A"
		}
		want := ""
		for _, phases := range [][2]string{{"0", "1"}, {"0", "0"}, {"1", "1"}, {"2", "2"}, {".", "."}, {"0", "2"}} {
			gff := fmt.Sprintf("##gff-version 3\nc\t.\tgene\t1\t26\t.\t%[1]s\t.\tID=g;biotype=protein_coding;Name=G\n"+
				"c\t.\tmRNA\t1\t26\t.\t%[1]s\t.\tID=t;Parent=g;biotype=protein_coding\n"+
				"c\t.\texon\t%[2]d\t%[3]d\t.\t%[1]s\t.\tParent=t\nc\t.\texon\t%[4]d\t%[5]d\t.\t%[1]s\t.\tParent=t\n"+
				"c\t.\tCDS\t%[2]d\t%[3]d\t.\t%[1]s\t%[6]s\tParent=t\nc\t.\tCDS\t%[4]d\t%[5]d\t.\t%[1]s\t%[7]s\tParent=t\n",
				strand, first[0], first[1], second[0], second[1], phases[0], phases[1])
			genes := load(t, fasta(forward), []byte(gff), DefaultCode)
			in := fmt.Sprintf("##fileformat=VCFv4.3\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\nc\t%d\t.\t%s\t%s\t.\t.\t.\n", pos, ref, alt)
			_, recs := run(t, genes, []byte(in), Options{}, nil)
			got, _ := recs[0].Info.Get(Tag)
			require.Contains(t, got, "missense|G|t|protein_coding|"+strand+"|", "phases %v on %s", phases, strand)
			if want == "" {
				want = got
			}
			require.Equal(t, want, got, "phases %v on %s", phases, strand)
		}
	}
}

// reverse is the reverse complement.
func reverse(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return strings.NewReplacer("A", "T", "C", "G", "G", "C", "T", "A").Replace(string(b))
}

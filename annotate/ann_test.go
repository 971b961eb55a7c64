package annotate

import (
	"bufio"
	"compress/gzip"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vcf"
)

// snpEffColumns are the sub-fields of ANN that are compared with SnpEff's, and their places.
var snpEffColumns = []struct {
	name string
	at   int
}{
	{"Annotation", 1}, {"Annotation_Impact", 2}, {"Gene_Name", 3}, {"Feature_Type", 5}, {"Feature_ID", 6}, {"Transcript_BioType", 7}, {"Rank", 8},
	{"cDNA", 11}, {"CDS", 12}, {"AA", 13}, {"Distance", 14}, {"INFO", 15},
}

// TestANNIsAsSnpEff compares ANN with SnpEff's own (testdata/make_snpeff.sh). What differs:
//
//   - SnpEff says of an insertion with a stop codon, or of a replacement by another number of bases, also what the
//     amino acids do beside the stop or the shift, as missense_variant.
//   - On the reverse strand its cDNA position of more than one base is the last one; its CDS position is the first.
//   - Two entries of one insertion are in the other order, for SnpEff finds its stop worth a second term.
func TestANNIsAsSnpEff(t *testing.T) {
	dir := filepath.Join("..", "testdata", "lambda")
	g, err := genome.Load(filepath.Join(dir, "reference.fa"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := ModelReader{Codes: GeneticCodes{Default: 11}}.Load(g, filepath.Join(dir, "genes.gff3"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := New(g, m).Rows(Options{Fields: []Field{ANN}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join("testdata", "snpeff.tsv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	header := vcf.NewHeader("VCFv4.3")
	variant := ""
	var entries [][]string
	compared, differ := 0, map[string]int{}
	lines := bufio.NewScanner(zip)
	for lines.Scan() {
		want := strings.Split(lines.Text(), "\t")
		if v := strings.Join(want[:3], " "); v != variant {
			if len(entries) > 0 {
				t.Errorf("%s: SnpEff has no %v", variant, entries)
			}
			variant, entries = v, annEntries(t, rows, header, want)
		}
		if len(entries) == 0 {
			t.Fatalf("%s: there is no entry for %v", variant, want)
		}
		got := entries[0]
		entries = entries[1:]
		if got[6] != want[7] {
			differ["order"]++
			continue
		}
		compared++
		for i, c := range snpEffColumns {
			if got[c.at] != want[3+i] {
				differ[c.name]++
				if c.name != "Annotation" && c.name != "cDNA" {
					t.Errorf("%s %s: %s %q, want %q", variant, want[7], c.name, got[c.at], want[3+i])
				}
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if want := map[string]int{"Annotation": 13, "cDNA": 15, "order": 2}; compared < 500 || !maps.Equal(differ, want) {
		t.Errorf("of %d entries differ %v, want %v", compared, differ, want)
	}
}

// annEntries are the entries of ANN that are not more than 100 bases from a transcript.
func annEntries(t *testing.T, rows *Rows, h *vcf.Header, v []string) [][]string {
	t.Helper()
	var row vcf.Row
	if err := h.ParseRow([]byte("J02459.1\t"+v[0]+"\t.\t"+v[1]+"\t"+v[2]+"\t.\t.\t."), &row); err != nil {
		t.Fatal(err)
	}
	out, err := rows.Append(nil, &row)
	if err != nil {
		t.Fatal(err)
	}
	_, ann, _ := strings.Cut(strings.TrimSpace(string(out)), "ANN=")
	var entries [][]string
	for e := range strings.SplitSeq(ann, ",") {
		f := strings.Split(e, "|")
		if len(f) != 16 {
			t.Fatalf("%d sub-fields in %q", len(f), e)
		}
		if d := f[14]; len(d) < 3 || d == "100" {
			entries = append(entries, f)
		}
	}
	return entries
}

func TestANNWords(t *testing.T) {
	out, _, err := annotatedVCF(t, gene14.annotator(t, "+"), toyVCF, Options{Fields: []Field{ANN}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`##INFO=<ID=ANN,Number=.,Type=String,Description="Functional annotations: 'Allele | Annotation | Annotation_Impact | Gene_Name | Gene_ID | ` +
			`Feature_Type | Feature_ID | Transcript_BioType | Rank | HGVS.c | HGVS.p | cDNA.pos / cDNA.length | CDS.pos / CDS.length | AA.pos / AA.length | ` +
			"Distance | ERRORS / WARNINGS / INFO' \">\n",
		";ANN=T|stop_gained|HIGH|TOY|G|transcript|T|protein_coding|1/2|c.4A>T|p.Lys2Ter|10/63|4/45|2/14||,G|missense_variant|",
		"\tANN=AGGG|conservative_inframe_insertion|MODERATE|",
		"CTT|frameshift_variant|HIGH|TOY|G|transcript|T|protein_coding|1/2|c.20dup|",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

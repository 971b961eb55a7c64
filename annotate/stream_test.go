package annotate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/vrs"
)

const toyVCF = `##fileformat=VCFv4.3
##contig=<ID=c,length=6113>
##INFO=<ID=CSQ,Number=.,Type=String,Description="of long ago">
#CHROM	POS	ID	REF	ALT	QUAL	FILTER	INFO	FORMAT	s
c	20	rs1	A	T,<DEL>,G	50.0	PASS	DP=9;CSQ=old|entry	GT	1
c	22	.	A	AGGG	.	.	.	GT	1
c	30	.	CT	C,CTT	.	q10	.	GT	1
c	6000	.	G	.	.	.	DP=3	GT	0
`

// csqEntries are the entries of the record's INFO/CSQ, each by the names of its fields.
func csqEntries(t *testing.T, rec *vcf.Record, description string) []map[string]string {
	t.Helper()
	_, format, ok := strings.Cut(description, "Format: ")
	if !ok {
		t.Fatalf("description %q", description)
	}
	names := strings.Split(format, "|")
	value, ok := rec.Info.Get("CSQ")
	if !ok {
		return nil
	}
	var entries []map[string]string
	for _, e := range strings.Split(value, ",") {
		f := strings.Split(e, "|")
		if len(f) != len(names) {
			t.Fatalf("%d fields in %q, want %d", len(f), e, len(names))
		}
		m := map[string]string{}
		for i, n := range names {
			m[n] = f[i]
		}
		entries = append(entries, m)
	}
	return entries
}

func TestVCF(t *testing.T) {
	a := gene14.annotator(t, "+")
	var out bytes.Buffer
	stats, err := VCF(context.Background(), strings.NewReader(toyVCF), &out, a, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if stats != (Stats{Records: 4, Alleles: 5, Unsupported: 1}) {
		t.Errorf("%+v", stats)
	}
	r, err := vcf.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	description := r.Header().InfoDescription("CSQ")
	if !strings.HasPrefix(description, "Consequence annotations from Ensembl VEP. Format: Allele|Consequence|IMPACT|SYMBOL|Gene|") {
		t.Errorf("description %q", description)
	}
	var recs []*vcf.Record
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, rec)
	}
	if len(recs) != 4 {
		t.Fatalf("%d records", len(recs))
	}
	first := csqEntries(t, recs[0], description)
	if len(first) != 2 {
		t.Fatalf("%d entries, want one for each sequence", len(first))
	}
	for name, want := range map[string]string{
		"Allele": "T", "Consequence": "stop_gained", "IMPACT": "HIGH", "SYMBOL": "TOY", "Gene": "G", "Feature_type": "Transcript", "Feature": "T",
		"BIOTYPE": "protein_coding", "EXON": "1/2", "HGVSc": "T:c.4A>T", "HGVSp": "P:p.Lys2Ter", "cDNA_position": "10", "CDS_position": "4",
		"Protein_position": "2", "Amino_acids": "K/*", "Codons": "Aaa/Taa", "STRAND": "1", "PICK": "1", "HGVSg": "c:g.20A>T", "INTRON": "", "DISTANCE": "",
	} {
		if got := first[0][name]; got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if v, _ := recs[0].Info.Get("DP"); v != "9" || recs[0].Qual != 50 || recs[0].ID != "rs1" {
		t.Errorf("the record changed: %+v", recs[0])
	}
	if e := csqEntries(t, recs[1], description)[0]; e["Allele"] != "GGG" || e["CDS_position"] != "6-7" || e["Protein_position"] != "2-3" || e["Codons"] != "-/GGG" || e["Amino_acids"] != "-/G" {
		t.Errorf("insertion: %v", e)
	}
	if e := csqEntries(t, recs[2], description); e[0]["Allele"] != "-" || e[1]["Allele"] != "TT" || e[0]["HGVSc"] != "T:c.20del" || e[0]["HGVS_OFFSET"] != "5" {
		t.Errorf("two indels: %v", e)
	}
	if _, ok := recs[3].Info.Get("CSQ"); ok {
		t.Error("a record without an alternate allele has consequences")
	}
}

func TestCSQEscapes(t *testing.T) {
	ann := Annotation{HGVSg: "c:g.1=", Consequences: []Consequence{{
		Allele: "T", Terms: []Term{{"SO:1", "x_variant"}, {"SO:2", "y_variant"}}, Impact: Low, Gene: &Gene{Symbol: "a,b;c|d e"},
		HGVSp: "P:p.Lys2=", Flags: []string{"canonical", "cds_start_NF", "cds_end_NF"},
	}}}
	got := string(ann.AppendCSQ(nil))
	if want := "T|x_variant&y_variant|LOW|a&b%3Bc&d_e||||||||P:p.Lys2%3D|||||||||cds_start_NF&cds_end_NF|1|YES|||c:g.1%3D"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestJSONLines(t *testing.T) {
	a := gene14.annotator(t, "+")
	var out bytes.Buffer
	if _, err := JSONLines(context.Background(), strings.NewReader(toyVCF), &out, a, Options{Pick: true}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines, want one for each sequence", len(lines))
	}
	c := a.genome.Contig("c")
	id, err := vrs.AlleleID(c.Digest, c.Seq, 19, "A", "T")
	if err != nil {
		t.Fatal(err)
	}
	want := `{"variant":{"contig":"c","pos":20,"id":"rs1","ref":"A","alt":"T","vrs_id":"` + id + `"},"hgvsg":"c:g.20A>T",` +
		`"most_severe":{"term":"stop_gained","so":"SO:0001587","impact":"HIGH","gene":"TOY","transcript":"T"},` +
		`"consequences":[{"allele":"T","gene":{"symbol":"TOY","id":"G"},"feature":{"type":"Transcript","id":"T","biotype":"protein_coding"},` +
		`"terms":[{"so":"SO:0001587","name":"stop_gained"}],"impact":"HIGH","hgvsc":"T:c.4A>T","hgvsp":"P:p.Lys2Ter","exon":"1/2",` +
		`"cdna":"10","cds":"4","protein":"2","amino_acids":"K/*","codons":"Aaa/Taa","strand":1}]}`
	if lines[0] != want {
		t.Errorf("got  %s\nwant %s", lines[0], want)
	}
	var l Line
	if err := json.Unmarshal([]byte(lines[4]), &l); err != nil || l.Variant.Alt != "CTT" || l.Consequences[0].HGVSc != "T:c.20dup" {
		t.Errorf("%+v %v", l, err)
	}
}

func TestStreamErrors(t *testing.T) {
	a := gene14.annotator(t, "+")
	for _, c := range []struct{ name, in, want string }{
		{"not VCF", "hello", "reading VCF: line 1"},
		{"malformed", toyVCF + "c\tx\n", "reading VCF: line 9: 2 columns"},
		{"other reference", toyVCF + "c\t20\t.\tG\tT\t.\t.\t.\tGT\t1\n", "line 9: annotating c:20 G>T: REF is G, but the reference has A there"},
		{"other contig", toyVCF + "x\t20\t.\tG\tT\t.\t.\t.\tGT\t1\n", `line 9: annotating x:20 G>T: contig "x" is not in the reference`},
	} {
		if _, err := VCF(context.Background(), strings.NewReader(c.in), io.Discard, a, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
		if _, err := JSONLines(context.Background(), strings.NewReader(c.in), io.Discard, a, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := VCF(ctx, strings.NewReader(toyVCF), io.Discard, a, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

package annotate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

// annotated is what Rows make of a VCF text, in one or more lines, and the counts.
func annotated(t testing.TB, a *Annotator, in string, opts Options, line func(*Rows, *vcf.Row) ([]byte, error)) (string, Stats, error) {
	t.Helper()
	r, err := vcf.NewReader(strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	header := r.Header().Clone()
	rows, err := a.Rows(opts)
	if err != nil {
		t.Fatal(err)
	}
	rows.Declare(header)
	w, err := vcf.NewWriter(&out, header)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for {
		block, err := r.NextBlock(nil)
		if errors.Is(err, io.EOF) {
			return out.String(), rows.Stats, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		for text := block.Text; len(text) > 0; {
			var l []byte
			var row vcf.Row
			l, text = vcf.CutLine(text)
			if err := header.ParseRow(l, &row); err != nil {
				t.Fatal(err)
			}
			b, err := line(rows, &row)
			if err != nil {
				return out.String(), rows.Stats, err
			}
			out.Write(b)
		}
	}
}

// annotatedVCF annotates a VCF text.
func annotatedVCF(t testing.TB, a *Annotator, in string, opts Options) (string, Stats, error) {
	t.Helper()
	return annotated(t, a, in, opts, func(r *Rows, row *vcf.Row) ([]byte, error) { return r.Append(nil, row) })
}

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
	out, stats, err := annotatedVCF(t, a, toyVCF, Options{Fields: []Field{CSQ}})
	if err != nil {
		t.Fatal(err)
	}
	if stats != (Stats{Records: 4, Alleles: 5, Unsupported: Unsupported{NoExtent: 1}}) {
		t.Errorf("%+v", stats)
	}
	r, err := vcf.NewReader(strings.NewReader(out))
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
		HGVSp: "P:p.Lys2=", Flags: []string{"canonical", "cds_start_NF", "cds_end_NF"}, Pick: true,
	}}}
	got := string(ann.AppendCSQ(nil))
	if want := "T|x_variant&y_variant|LOW|a&b%3Bc&d_e||||||||P:p.Lys2%3D|||||||||cds_start_NF&cds_end_NF|1|YES|||c:g.1%3D"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEachAllele(t *testing.T) {
	a := gene14.annotator(t, "+")
	var lines []Line
	_, stats, err := annotated(t, a, toyVCF, Options{}, func(r *Rows, row *vcf.Row) ([]byte, error) {
		return nil, r.Each(row, func(l *Line) error { lines = append(lines, *l); return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 5 || stats != (Stats{Records: 4, Alleles: 5, Unsupported: Unsupported{NoExtent: 1}}) {
		t.Fatalf("%d lines, want one for each sequence; %+v", len(lines), stats)
	}
	c := a.genome.Contig("c")
	id, err := vrs.AlleleID(c.Digest(), c.Flat(), 19, "A", "T")
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(lines[0])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"variant":{"contig":"c","pos":20,"id":"rs1","ref":"A","alt":"T","vrs_id":"` + id + `"},"hgvsg":"c:g.20A\u003eT",` +
		`"most_severe":{"term":"stop_gained","so":"SO:0001587","impact":"HIGH","gene":"TOY","transcript":"T"},` +
		`"consequences":[{"allele":"T","gene":{"symbol":"TOY","id":"G"},"feature":{"type":"Transcript","id":"T","biotype":"protein_coding"},` +
		`"terms":[{"so":"SO:0001587","name":"stop_gained"}],"impact":"HIGH","hgvsc":"T:c.4A\u003eT","hgvsp":"P:p.Lys2Ter","exon":"1/2",` +
		`"cdna":"10","cds":"4","protein":"2","amino_acids":"K/*","codons":"Aaa/Taa","strand":1,"nmd":{"predicted":false,"rule":"last_50_bases_of_penultimate_exon"},"pick":true}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if l := lines[4]; l.Variant.Alt != "CTT" || l.Consequences[0].HGVSc != "T:c.20dup" {
		t.Errorf("%+v", l)
	}
}

// TestRowKeepsTheRest: the fields that aren't annotated stay byte for byte, and without a field to write the
// whole row does.
func TestRowKeepsTheRest(t *testing.T) {
	a := gene14.annotator(t, "+")
	const in = `##fileformat=VCFv4.3
##INFO=<ID=CSQ,Number=.,Type=String,Description="of long ago">
#CHROM	POS	ID	REF	ALT	QUAL	FILTER	INFO	FORMAT	s
c	20	rs1	A	T	5e1	PASS;q	DP=09;XX=CSQ=;CSQ=old|entry;DB	GT:GL	1
c	0020	.	A	<DEL>	.	.	CSQ=x	GT:GL	1:-.5
c	6000	.	G	.	.	.	DP=3	GT:GL	0
`
	out, _, err := annotatedVCF(t, a, in, Options{})
	if err != nil || out != in {
		t.Errorf("got\n%s\nwant\n%s\n%v", out, in, err)
	}
	a = a.WithPick(Pick{Mode: PickAllele})
	out, _, err = annotatedVCF(t, a, in, Options{Fields: []Field{CSQ}})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out, "\n")
	if l := lines[3]; !strings.HasPrefix(l, "c\t20\trs1\tA\tT\t5e1\tPASS;q\tDP=09;XX=CSQ=;DB;CSQ=T|stop_gained|") || !strings.HasSuffix(l, "\tGT:GL\t1") || strings.Count(l, "CSQ=") != 2 {
		t.Errorf("line %q", l)
	}
	if l, want := lines[4], "c\t0020\t.\tA\t<DEL>\t.\t.\t.\tGT:GL\t1:-.5"; l != want {
		t.Errorf("line %q, want %q", l, want)
	}
	if l, want := lines[5], "c\t6000\t.\tG\t.\t.\t.\tDP=3\tGT:GL\t0"; l != want {
		t.Errorf("line %q, want %q", l, want)
	}
}

func TestRowErrors(t *testing.T) {
	a := gene14.annotator(t, "+")
	for _, c := range []struct{ name, in, want string }{
		{"other reference", "c\t20\t.\tG\tT\t.\t.\t.\tGT\t1\n", "annotating c:20 G>T: REF is G, but the reference has A there"},
		{"other contig", "x\t20\t.\tG\tT\t.\t.\t.\tGT\t1\n", `annotating x:20 G>T: contig "x" is not in the reference`},
	} {
		out, _, err := annotatedVCF(t, a, toyVCF+c.in, Options{Fields: []Field{CSQ}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
		if !strings.HasSuffix(out, "\tDP=3\tGT\t0\n") {
			t.Errorf("%s: the line before the error ends %q", c.name, out)
		}
	}
}

func BenchmarkRows(b *testing.B) {
	a := ecoli(b)
	contig := a.genome.Contigs[0]
	const records = 2000
	header := vcf.NewHeader("VCFv4.2")
	var lines [records][]byte
	for i := range records {
		pos := i * (contig.Len() / records)
		ref := contig.At(pos)
		lines[i] = fmt.Appendf(nil, "%s\t%d\t.\t%c\t%c\t.\t.\t.", contig.Name, pos+1, ref, complement[ref])
	}
	b.ReportAllocs()
	rows, err := a.Rows(Options{Fields: []Field{CSQ}})
	if err != nil {
		b.Fatal(err)
	}
	var row vcf.Row
	var out []byte
	for b.Loop() {
		out = out[:0]
		for i := range lines {
			if err := header.ParseRow(lines[i], &row); err != nil {
				b.Fatal(err)
			}
			var err error
			if out, err = rows.Append(out, &row); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.SetBytes(int64(len(out)))
	b.ReportMetric(float64(b.N)*records/b.Elapsed().Seconds(), "variants/s")
}

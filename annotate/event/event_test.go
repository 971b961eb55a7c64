package event

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

var update = flag.Bool("update", false, "rewrite testdata/variant.v1.json")

func testCall() *streampb.Call {
	return &streampb.Call{
		Run: "run 1", Sample: "lambda", VrsId: "ga4gh:VA.mMMmXYS7bUV1LeQoNNMVzQjXC9CFRcIc", Contig: "J02459.1", Pos: 37_589, Ref: "C", Alt: "T",
		Revision: 3, Status: streampb.CallStatus_AMENDED, Reason: "reads came after the end of the run", Qual: 41.25, GenotypeQuality: 41,
		Genotype: []uint32{1}, Depth: 24, RefForward: 1, RefReverse: 2, AltForward: 11, AltReverse: 10,
		Filters: []string{"LowQual", "StrandBias"}, LastChunkMs: 1_510_000_111_222,
	}
}

// testAnnotation has every member set.
func testAnnotation() annotate.Annotation {
	return annotate.Annotation{
		HGVSg:      "J02459.1:g.37589C>T",
		MostSevere: annotate.MostSevere{Term: "missense_variant", SO: "SO:0001583", Impact: annotate.Moderate, Gene: "cI", Transcript: "tx1"},
		Consequences: []annotate.Consequence{{
			Allele: "T", Gene: &annotate.Gene{Symbol: "cI", ID: "gene1"}, Feature: &annotate.Feature{Type: "Transcript", ID: "tx1", Biotype: "protein_coding"},
			Terms: []annotate.Term{{SO: "SO:0001583", Name: "missense_variant"}}, Impact: annotate.Moderate,
			HGVSc: "tx1:c.352G>A", HGVSp: "tx1:p.Glu118Lys", HGVSOffset: 1, Exon: "1/1", Intron: "1/2", CDNA: "352", CDS: "352", Protein: "118",
			AminoAcids: "E/K", Codons: "Gag/Aag", Distance: 7, Strand: -1, Flags: []string{"canonical"},
		}},
	}
}

func headersOf(o stream.Out) map[string]string {
	m := make(map[string]string)
	for _, h := range o.Headers {
		m[h.Key] = string(h.Value)
	}
	return m
}

func asRecord(o stream.Out) stream.Record {
	return stream.Record{Topic: o.Topic, Partition: 4, Offset: 17, Key: o.Key, Value: o.Value, Headers: o.Headers}
}

// TestGoldenDocument: the document is a contract. Consumers that were written
// against the golden file read it.
func TestGoldenDocument(t *testing.T) {
	v := FromCall(testCall(), testAnnotation())
	v.AnnotationError = "none, but the member is shown"
	got, err := v.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsAny(got, "\n") {
		t.Error("the document is more than one line")
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, got, "", "  "); err != nil {
		t.Fatal(err)
	}
	indented.WriteByte('\n')
	path := filepath.Join("testdata", "variant.v1.json")
	if *update {
		if err := os.WriteFile(path, indented.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(indented.Bytes(), want) {
		t.Errorf("document\n%swant\n%s", indented.Bytes(), want)
	}
}

func TestRoundTrip(t *testing.T) {
	full := testCall()
	diploid := testCall()
	diploid.Genotype, diploid.PhaseSet, diploid.PhredLikelihoods = []uint32{2, 1}, 37_500, []uint32{90, 0, 80}
	diploid.Others = []*streampb.OtherAllele{{Pos: 37_588, Ref: "AC", Alt: "A"}}
	diploid.OtherForward, diploid.OtherReverse = 4, 5
	diploid.ModelMismatch = []string{"fast@v5"}
	bare := &streampb.Call{Sample: "s", VrsId: "ga4gh:VA.x", Contig: "c", Pos: 1, Ref: "A", Alt: "G", Revision: 1, Status: streampb.CallStatus_PROVISIONAL}
	for name, c := range map[string]*streampb.Call{"full": full, "diploid": diploid, "bare": bare} {
		v := FromCall(c, testAnnotation())
		o, err := v.Record("variants")
		if err != nil {
			t.Fatal(err)
		}
		back, end, err := Decode(asRecord(o))
		if err != nil || end != nil {
			t.Fatalf("%s: %v, %v", name, end, err)
		}
		if !reflect.DeepEqual(*back, v) {
			t.Errorf("%s: event became\n%+v\nfrom\n%+v", name, *back, v)
		}
		if got := back.ToCall(); !proto.Equal(got, c) {
			t.Errorf("%s: call became %v from %v", name, got, c)
		}
	}
}

func TestZygosity(t *testing.T) {
	for _, tc := range []struct {
		genotype []uint32
		copies   int
		zygosity string
	}{
		{nil, 0, ""},
		{[]uint32{1}, 1, ZygosityHemizygous},
		{[]uint32{0}, 0, ZygosityReference},
		{[]uint32{0, 1}, 1, ZygosityHeterozygous},
		{[]uint32{1, 1}, 2, ZygosityHomozygous},
		{[]uint32{2, 1}, 1, ZygosityHeterozygous},
	} {
		v := FromCall(&streampb.Call{Genotype: tc.genotype}, annotate.Annotation{})
		if v.Call.Copies != tc.copies || v.Call.Zygosity != tc.zygosity {
			t.Errorf("%v: %d copies, %q", tc.genotype, v.Call.Copies, v.Call.Zygosity)
		}
	}
}

func TestVariantRecord(t *testing.T) {
	v := FromCall(testCall(), testAnnotation())
	o, err := v.Record("variants")
	if err != nil {
		t.Fatal(err)
	}
	key := "lambda/ga4gh:VA.mMMmXYS7bUV1LeQoNNMVzQjXC9CFRcIc"
	if o.Topic != "variants" || o.Partition != stream.AnyPartition || string(o.Key) != key {
		t.Errorf("record %+v", o)
	}
	headers := headersOf(o)
	for k, want := range map[string]string{
		"ce_specversion":  "1.0",
		"ce_type":         "porestream.variant.v1",
		"ce_source":       "urn:porestream:run:run%201",
		"ce_subject":      "J02459.1:37589:C:T",
		"ce_partitionkey": key,
		"ce_time":         "2017-11-06T20:28:31.222Z",
		"content-type":    "application/json",
		"ce_id":           headers["ce_id"],
	} {
		if headers[k] != want {
			t.Errorf("header %s is %q, want %q", k, headers[k], want)
		}
	}
	if len(headers) != len(o.Headers) || len(headers) != 8 || headers["ce_id"] == "" {
		t.Errorf("headers %v", headers)
	}
	if _, err := time.Parse(time.RFC3339, headers["ce_time"]); err != nil {
		t.Error(err)
	}

	// Sent again it is the same event, and every other revision, allele, sample
	// or run another.
	id := func(edit func(*streampb.Call)) string {
		c := testCall()
		edit(c)
		o, err := FromCall(c, annotate.Annotation{}).Record("elsewhere")
		if err != nil {
			t.Fatal(err)
		}
		return headersOf(o)["ce_id"]
	}
	seen := map[string]string{id(func(*streampb.Call) {}): "itself"}
	if _, same := seen[headers["ce_id"]]; !same {
		t.Error("the id changed when the event was sent again")
	}
	for name, edit := range map[string]func(*streampb.Call){
		"revision": func(c *streampb.Call) { c.Revision++ },
		"allele":   func(c *streampb.Call) { c.VrsId = "ga4gh:VA.other" },
		"sample":   func(c *streampb.Call) { c.Sample = "phiX" },
		"run":      func(c *streampb.Call) { c.Run = "run 2" },
	} {
		id := id(edit)
		if other, dup := seen[id]; dup {
			t.Errorf("another %s has the id of %s", name, other)
		}
		seen[id] = name
	}
}

func TestRunEndRecords(t *testing.T) {
	mk := &streampb.Marker{Run: &streampb.Run{Id: "run 1", Sample: "lambda", SampleRate: 4000}, Source: 2, Sources: 6}
	outs, err := RunEndRecords("variants", 3, mk)
	if err != nil || len(outs) != 3 {
		t.Fatalf("%d records, %v", len(outs), err)
	}
	for p, o := range outs {
		h := headersOf(o)
		if o.Partition != int32(p) || string(o.Key) != "run\x00run 1/end/2" || h["ce_type"] != "porestream.run.ended.v1" ||
			h["ce_specversion"] != "1.0" || h["ce_source"] != "urn:porestream:run:run%201" || h["ce_id"] == "" || h["ce_id"] != headersOf(outs[0])["ce_id"] {
			t.Errorf("record %d: %+v, headers %v", p, o, h)
		}
		v, end, err := Decode(asRecord(o))
		if err != nil || v != nil || !reflect.DeepEqual(end, &RunEnd{Run: "run 1", Sample: "lambda", Source: 2, Sources: 6, Status: EndNormal}) {
			t.Errorf("record %d decodes to %v, %v, %v", p, v, end, err)
		}
	}

	// How it ended distinguishes events that have the same key.
	ids := make(map[string]string)
	for status, want := range map[streampb.EndStatus]string{
		streampb.EndStatus_END_STATUS_NORMAL: EndNormal, streampb.EndStatus_END_STATUS_TIMEOUT: EndTimeout, streampb.EndStatus_END_STATUS_ABORTED: EndAborted,
	} {
		mk.EndStatus = status
		outs, err := RunEndRecords("variants", 1, mk)
		if err != nil {
			t.Fatal(err)
		}
		_, end, err := Decode(asRecord(outs[0]))
		if err != nil || end.Status != want {
			t.Errorf("%v is told as %v, %v", status, end, err)
		}
		ids[headersOf(outs[0])["ce_id"]] = want
	}
	if len(ids) != 3 || ids[headersOf(outs[0])["ce_id"]] != EndNormal {
		t.Errorf("ids %v; a normal end keeps %s", ids, headersOf(outs[0])["ce_id"])
	}
}

func TestDecodeOthers(t *testing.T) {
	typed := func(typ, value string) stream.Record {
		return stream.Record{Topic: "variants", Partition: 4, Offset: 17, Value: []byte(value), Headers: []stream.Header{{Key: "ce_type", Value: []byte(typ)}}}
	}
	for _, rec := range []stream.Record{
		{}, {Value: []byte("{}")}, typed("org.example.other", "{}"), typed("porestream.variant.v2", "not even JSON"),
	} {
		if v, end, err := Decode(rec); v != nil || end != nil || err != nil {
			t.Errorf("%v: %v, %v, %v: want it left alone", rec, v, end, err)
		}
	}
	good := `{"schema_version":1,"sample":"s","revision":1,"status":"STABLE","variant":{"vrs_id":"ga4gh:VA.x"},"new_member":{"a":[1]}}`
	if v, _, err := Decode(typed(TypeVariant, good)); err != nil || v.Revision != 1 {
		t.Errorf("an event with a new member: %v, %v", v, err)
	}
	for _, bad := range []stream.Record{
		typed(TypeVariant, ""), typed(TypeVariant, "null"), typed(TypeVariant, "[]"), typed(TypeVariant, "{}"),
		typed(TypeVariant, strings.Replace(good, `"revision":1`, `"revision":-1`, 1)),
		typed(TypeVariant, strings.Replace(good, `"revision":1`, `"revision":0`, 1)),
		typed(TypeVariant, strings.Replace(good, `"sample":"s"`, `"sample":""`, 1)),
		typed(TypeVariant, good[:40]),
		typed(TypeRunEnd, "{}"), typed(TypeRunEnd, `{"run":"r","source":1,"sources":1}`), typed(TypeRunEnd, "x"),
	} {
		v, end, err := Decode(bad)
		if err == nil || v != nil || end != nil {
			t.Errorf("%s: %v, %v", bad.Value, v, end)
		} else if !strings.Contains(err.Error(), "record 17 of variants/4") {
			t.Errorf("%s: error %q doesn't say where", bad.Value, err)
		}
	}
}

func TestStatusAndFiltersDecideWhatPasses(t *testing.T) {
	for _, c := range []struct {
		status  string
		filters []string
		want    bool
	}{
		{"FINAL", nil, true}, {"PROVISIONAL", nil, true}, {"AMENDED", nil, true},
		{"FINAL", []string{"LowQual"}, false}, {"RETRACTED", nil, false},
	} {
		if got := (Variant{Status: c.status, Call: Call{Filters: c.filters}}).Passed(); got != c.want {
			t.Errorf("%s %v: passed %v", c.status, c.filters, got)
		}
	}
}

func TestEventIsOneLineOfText(t *testing.T) {
	v := FromCall(testCall(), testAnnotation())
	want := "AMENDED     J02459.1:37589 C>T  QUAL 41.2  21/24 reads  LowQual;StrandBias  missense_variant cI p.Glu118Lys  (reads came after the end of the run)  rev 3"
	if got := v.Text(); got != want {
		t.Errorf("text\n%s\nwant\n%s", got, want)
	}
	bare := Variant{Status: "FINAL", Revision: 1, Allele: Allele{Contig: "c", Pos: 5, Ref: "A", Alt: "G"}}
	if got, want := bare.Text(), "FINAL       c:5 A>G  QUAL 0.0  0/0 reads  PASS  rev 1"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}

func schema(t *testing.T) (*jsonschema.Schema, map[string]any) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", "consume", "variants.schema.json")
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string]any
	if err := json.Unmarshal(text, &raw); err != nil {
		t.Fatal(err)
	}
	return s, raw
}

// TestDocumentsFitThePublishedSchema checks real documents, and invalid ones, against the published JSON
// Schema.
func TestDocumentsFitThePublishedSchema(t *testing.T) {
	s, _ := schema(t)
	validate := func(doc []byte) error {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
		if err != nil {
			t.Fatal(err)
		}
		return s.Validate(v)
	}
	dir := filepath.Join("..", "..", "testdata", "lambda")
	g, err := genome.Load(filepath.Join(dir, "reference.fa"))
	if err != nil {
		t.Fatal(err)
	}
	model, err := annotate.LoadModel(filepath.Join(dir, "genes.gff3"), g)
	if err != nil {
		t.Fatal(err)
	}
	annotator, bare := annotate.New(g, model), annotate.New(g, nil)
	seq := g.Contigs[0].Seq
	terms := make(map[string]bool)
	for pos := 50; pos < len(seq)-20; pos += 97 {
		base := string(seq[pos-1])
		for _, change := range [][2]string{{base, "ACGT"[pos%4 : pos%4+1]}, {base, base + "AC"}, {string(seq[pos-1 : pos+3]), base}} {
			if change[0] == change[1] {
				continue
			}
			c := testCall()
			c.Pos, c.Ref, c.Alt = int64(pos), change[0], change[1]
			for _, a := range []*annotate.Annotator{annotator, bare} {
				annotation, err := a.Annotate(c.GetContig(), pos, c.GetRef(), c.GetAlt())
				if err != nil {
					t.Fatal(err)
				}
				terms[annotation.MostSevere.Term] = true
				doc, err := FromCall(c, annotation).JSON()
				if err != nil {
					t.Fatal(err)
				}
				if err := validate(doc); err != nil {
					t.Fatalf("%s: %v", doc, err)
				}
			}
		}
	}
	if len(terms) < 6 {
		t.Errorf("the documents cover only %v", terms)
	}

	full, err := FromCall(testCall(), testAnnotation()).JSON()
	if err != nil {
		t.Fatal(err)
	}
	unannotated := FromCall(&streampb.Call{Sample: "s", VrsId: "ga4gh:VA.x", Contig: "c", Pos: 1, Ref: "A", Alt: "G", Revision: 1, Status: streampb.CallStatus_FINAL}, annotate.Annotation{})
	unannotated.AnnotationError = "no such contig"
	minimal, err := unannotated.JSON()
	if err != nil {
		t.Fatal(err)
	}
	outs, err := RunEndRecords("variants", 1, &streampb.Marker{Run: &streampb.Run{Id: "r", Sample: "s"}, Sources: 1})
	if err != nil {
		t.Fatal(err)
	}
	call := testCall()
	call.Genotype, call.PhaseSet, call.PhredLikelihoods = []uint32{2, 1}, 37_500, []uint32{90, 0, 80}
	call.Others = []*streampb.OtherAllele{{Pos: 37_588, Ref: "AC", Alt: "A"}}
	call.OtherForward, call.OtherReverse = 4, 5
	call.ModelMismatch = []string{"fast@v5", "old"}
	diploid, err := FromCall(call, testAnnotation()).JSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, good := range [][]byte{full, diploid, minimal, outs[0].Value} {
		if err := validate(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, change := range [][2]string{
		{`"revision":3`, `"revision":0`}, {`"status":"AMENDED"`, `"status":"DONE"`}, {`"schema_version":1`, `"schema_version":2`},
		{`"pos":37589`, `"pos":0`}, {`"ref":"C"`, `"ref":""`}, {`"genotype":[1]`, `"genotype":null`}, {`"so":"SO:0001583"`, `"so":"missense"`},
		{`"strand":-1`, `"strand":2`}, {`"last_chunk_time":"2017`, `"last_chunk_time":"yesterday`}, {`"sample":"lambda",`, ``},
	} {
		bad := strings.Replace(string(full), change[0], change[1], 1)
		if bad == string(full) {
			t.Fatalf("no %s in %s", change[0], full)
		}
		if validate([]byte(bad)) == nil {
			t.Errorf("%s instead of %s passes", change[1], change[0])
		}
	}
}

// TestSchemaKnowsAllMembers compares the schema's properties with the Go types,
// both ways, and the required members with those never left out.
func TestSchemaKnowsAllMembers(t *testing.T) {
	_, raw := schema(t)
	defs := raw["$defs"].(map[string]any)
	for def, typ := range map[string]reflect.Type{
		"variant_event": reflect.TypeFor[Variant](), "allele": reflect.TypeFor[Allele](), "call": reflect.TypeFor[Call](),
		"annotation": reflect.TypeFor[annotate.Annotation](), "consequence": reflect.TypeFor[annotate.Consequence](), "run_end": reflect.TypeFor[RunEnd](), "compound": reflect.TypeFor[Compound](),
	} {
		compareMembers(t, def, defs[def].(map[string]any), typ)
	}
}

func compareMembers(t *testing.T, where string, schema map[string]any, typ reflect.Type) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	var required []string
	list, _ := schema["required"].([]any)
	for _, r := range list {
		required = append(required, r.(string))
	}
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	members := make(map[string]bool)
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		members[name] = true
		property, ok := properties[name].(map[string]any)
		if !ok {
			t.Errorf("%s: the schema lacks %s", where, name)
			continue
		}
		if optional := options == "omitempty"; optional == slices.Contains(required, name) {
			t.Errorf("%s: %s is optional: %v, in the schema it is required: %v", where, name, optional, !optional)
		}
		if items, ok := property["items"].(map[string]any); ok {
			property = items
		}
		if _, ok := property["properties"]; ok {
			compareMembers(t, where+"."+name, property, f.Type)
		}
	}
	for name := range properties {
		if !members[name] {
			t.Errorf("%s: the schema has %s, the documents don't", where, name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	o, err := FromCall(testCall(), testAnnotation()).Record("variants")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(TypeVariant, o.Value)
	f.Add(TypeVariant, []byte(`{"sample":"s","revision":1,"variant":{"vrs_id":"x"},"last_chunk_time":"2020-01-01T00:00:00+23:59"}`))
	f.Add(TypeRunEnd, []byte(`{"run":"r","sample":"s","source":0,"sources":1}`))
	f.Fuzz(func(t *testing.T, typ string, value []byte) {
		v, end, err := Decode(stream.Record{Value: value, Headers: []stream.Header{{Key: "ce_type", Value: []byte(typ)}}})
		if err != nil && (v != nil || end != nil) || v != nil && end != nil {
			t.Fatalf("%v, %v, %v", v, end, err)
		}
		if v == nil {
			return
		}
		_ = v.Text()
		v.ToCall()
		if _, err := v.Record("variants"); err != nil && !strings.Contains(err.Error(), "year outside of range") {
			t.Fatalf("what was read can't be written: %v", err)
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	v := FromCall(testCall(), testAnnotation())
	o, err := v.Record("variants")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(o.Value)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Record("variants"); err != nil {
			b.Fatal(err)
		}
	}
}

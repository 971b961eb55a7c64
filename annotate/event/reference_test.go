package event

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

func testReference() *streampb.Reference {
	return &streampb.Reference{
		Run: "run 1", Sample: "lambda", Contig: "J02459.1", Start: 36_864, End: 40_960, Revision: 391,
		Blocks: []*streampb.ReferenceBlock{
			{Start: 36_864, End: 37_588, Depth: 24, MinDepth: 20, Quality: 50, PhredLikelihoods: []uint32{0, 640}},
			{Start: 37_589, End: 41_000, PhredLikelihoods: []uint32{0, 0, 0}},
		},
		Callable: []*streampb.CallableSpan{
			{Start: 36_864, End: 37_000, Callability: streampb.Callability_CALLABILITY_CALLABLE},
			{Start: 37_000, End: 37_100, Callability: streampb.Callability_CALLABILITY_LOW_DEPTH},
			{Start: 37_100, End: 37_200, Callability: streampb.Callability_CALLABILITY_LOW_MAPPING_QUALITY},
			{Start: 37_200, End: 37_300, Callability: streampb.Callability_CALLABILITY_NO_COVERAGE},
			{Start: 37_300, End: 41_000, Callability: streampb.Callability_CALLABILITY_AMBIGUOUS},
		},
	}
}

// TestReferenceRecord: the document is the golden one and as the schema says, the
// headers are those of an event, and a reader gets the written record back.
func TestReferenceRecord(t *testing.T) {
	o, err := FromReference(testReference()).Record("variants")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "reference.v1.json")
	if *update {
		if err := os.WriteFile(path, append(bytes.Clone(o.Value), '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(o.Value)+"\n" != string(want) {
		t.Errorf("document\n%s\nwant\n%s", o.Value, want)
	}
	s, _ := schema(t)
	validate := func(doc string) error {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(doc))
		if err != nil {
			t.Fatal(err)
		}
		return s.Validate(v)
	}
	if err := validate(string(o.Value)); err != nil {
		t.Error(err)
	}
	for _, change := range [][2]string{{`"gq":50`, `"gq":100`}, {`"NO_COVERAGE"`, `"NOTHING"`}, {`"pl":[0,640]`, `"pl":[0]`}, {`"pos":36865`, `"pos":0`}} {
		bad := strings.Replace(string(o.Value), change[0], change[1], 1)
		if bad == string(o.Value) || validate(bad) == nil {
			t.Errorf("%s instead of %s passes", change[1], change[0])
		}
	}

	h := headersOf(o)
	key := "reference\x00lambda\x00J02459.1\x0036864"
	if string(o.Key) != key || o.Partition != stream.AnyPartition || h["ce_type"] != TypeReference || h["ce_subject"] != "J02459.1:36865-40960" || h["ce_partitionkey"] != key {
		t.Errorf("record %+v", o)
	}
	later := testReference()
	later.Revision++
	if other, err := FromReference(later).Record("variants"); err != nil || headersOf(other)["ce_id"] == h["ce_id"] {
		t.Errorf("two revisions have one id, %v", err)
	}

	back, err := DecodeReference(asRecord(o))
	if err != nil || !reflect.DeepEqual(*back, FromReference(testReference())) {
		t.Errorf("read back as %+v, %v", back, err)
	}
	if v, end, err := Decode(asRecord(o)); v != nil || end != nil || err != nil {
		t.Errorf("taken for %v, %v, %v", v, end, err)
	}
}

// TestProvisionalReference: who knows the events of the end alone ignores provisional ones, whose numbers of revision may be higher, by their type; a compacted
// topic keeps both, by their keys.
func TestProvisionalReference(t *testing.T) {
	end, err := FromReference(testReference()).Record("variants")
	if err != nil {
		t.Fatal(err)
	}
	r := testReference()
	r.Provisional, r.Callable = true, nil
	o, err := FromReference(r).Record("variants")
	if err != nil {
		t.Fatal(err)
	}
	h := headersOf(o)
	if h["ce_type"] != TypeProvisionalReference || bytes.Equal(o.Key, end.Key) || h["ce_partitionkey"] != string(o.Key) || h["ce_id"] == headersOf(end)["ce_id"] {
		t.Errorf("record %+v", o)
	}
	s, _ := schema(t)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(o.Value))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(doc); err != nil {
		t.Error(err)
	}
	back, err := DecodeReference(asRecord(o))
	if err != nil || !reflect.DeepEqual(*back, FromReference(r)) {
		t.Errorf("read back as %+v, %v", back, err)
	}
}

func TestDecodeReferenceOthers(t *testing.T) {
	o, err := FromReference(testReference()).Record("variants")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{{`"revision":391`, `"revision":0`}, {`"sample":"lambda"`, `"sample":""`}, {`"pos":36865`, `"pos":0`}, {`"end":40960`, `"end":1`}, {"{", ""}} {
		rec := asRecord(o)
		rec.Value = []byte(strings.Replace(string(rec.Value), change[0], change[1], 1))
		if r, err := DecodeReference(rec); err == nil || r != nil || !strings.Contains(err.Error(), "record 17 of variants/4") {
			t.Errorf("%s: %v, %v", change[1], r, err)
		}
	}
	rec := asRecord(o)
	rec.Headers = nil
	if r, err := DecodeReference(rec); r != nil || err != nil {
		t.Errorf("an event of no type: %v, %v", r, err)
	}
}

// TestReferenceFitsARecord: the largest that the variant stage makes, of 4,096 positions
// each of them a block and a span of its own, fits the brokers' limit.
func TestReferenceFitsARecord(t *testing.T) {
	const first = 248_000_000
	r := &streampb.Reference{Run: strings.Repeat("r", 512), Sample: strings.Repeat("s", 512), Contig: strings.Repeat("c", 512), Start: first, End: first + 4096, Revision: math.MaxUint32}
	for pos := r.Start; pos < r.End; pos++ {
		r.Blocks = append(r.Blocks, &streampb.ReferenceBlock{Start: pos, End: pos + 1, Depth: 120, MinDepth: 120, Quality: 99, PhredLikelihoods: []uint32{990, 990, 990}})
		r.Callable = append(r.Callable, &streampb.CallableSpan{Start: pos, End: pos + 1, Callability: streampb.Callability_CALLABILITY_LOW_MAPPING_QUALITY})
	}
	o, err := FromReference(r).Record("variants")
	if err != nil || len(o.Value) > stream.MaxRecord || !json.Valid(o.Value) {
		t.Errorf("%d bytes, %v", len(o.Value), err)
	}
}

package alert

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/watchlist"
)

var docs = filepath.Join("..", "..", "docs", "consume")

func readJSON(t *testing.T, name string) any {
	t.Helper()
	f, err := os.Open(filepath.Join(docs, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	doc, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// schema is docs/consume/alerts.schema.json, with that of variants, to which it refers.
func schema(t *testing.T) (compiled *jsonschema.Schema, raw map[string]any) {
	t.Helper()
	const base = "https://porestream.github.io/schemas/"
	raw = readJSON(t, "alerts.schema.json").(map[string]any)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for name, doc := range map[string]any{"alerts.v1.json": raw, "variants.v1.json": readJSON(t, "variants.schema.json")} {
		if err := c.AddResource(base+name, doc); err != nil {
			t.Fatal(err)
		}
	}
	compiled, err := c.Compile(base + "alerts.v1.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled, raw
}

func TestAlertsFitThePublishedSchema(t *testing.T) {
	s, _ := schema(t)
	validate := func(doc []byte) error {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
		if err != nil {
			t.Fatal(err)
		}
		return s.Validate(v)
	}
	complete, err := full().JSON()
	if err != nil {
		t.Fatal(err)
	}
	minimal, err := bare().JSON()
	if err != nil {
		t.Fatal(err)
	}
	outs, err := event.RunEndRecords("alerts", 1, &streampb.Marker{Run: &streampb.Run{Id: "r", Sample: "s"}, Sources: 1})
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(docs, "alerts.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := bytes.Cut(page, []byte("```json\n"))
	example, _, found := bytes.Cut(example, []byte("```"))
	if !found {
		t.Fatal("docs/consume/alerts.md has no example")
	}
	for _, good := range [][]byte{complete, minimal, outs[0].Value, example} {
		if err := validate(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, change := range [][2]string{
		{`"revision":3`, `"revision":0`}, {`"state":"DETECTED"`, `"state":"FOUND"`}, {`"schema_version":1`, `"schema_version":2`},
		{`"previous":"SUSPECTED"`, `"previous":""`}, {`"scope":"allele"`, `"scope":"gene"`}, {`"sha256:0f`, `"md5:0f`},
		{`"pos":37589`, `"pos":0`}, {`"false_alarm":0.0001`, `"false_alarm":1.5`}, {`"status":"FINAL"`, `"status":"DONE"`},
		{`"sample":"patient 7/b",`, ``}, {`"final":true`, `"final":"yes"`}, {`"terms":[`, `"terms":[],"t":[`},
	} {
		bad := strings.Replace(string(complete), change[0], change[1], 1)
		if bad == string(complete) {
			t.Fatalf("no %s in %s", change[0], complete)
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
	worst := defs["coverage"].(map[string]any)["properties"].(map[string]any)["worst"]
	for _, c := range []struct {
		schema any
		typ    reflect.Type
	}{
		{defs["alert"], reflect.TypeFor[watchlist.Alert]()}, {defs["panel"], reflect.TypeFor[watchlist.Source]()},
		{defs["evidence"], reflect.TypeFor[watchlist.Evidence]()}, {defs["coverage"], reflect.TypeFor[watchlist.Covered]()},
		{worst, reflect.TypeFor[watchlist.Place]()}, {defs["probability"], reflect.TypeFor[watchlist.Probability]()},
		{defs["allele_state"], reflect.TypeFor[watchlist.AlleleState]()}, {defs["model"], reflect.TypeFor[watchlist.ModelAnswer]()},
		{defs["class_odd"], reflect.TypeFor[watchlist.ClassOdd]()}, {defs["driver"], reflect.TypeFor[watchlist.Driver]()},
		{defs["methylation"], reflect.TypeFor[watchlist.MethylationAnswer]()},
	} {
		object := c.schema.(map[string]any)
		properties := object["properties"].(map[string]any)
		required, _ := object["required"].([]any)
		members := make(map[string]bool)
		for i := range c.typ.NumField() {
			name, options, _ := strings.Cut(c.typ.Field(i).Tag.Get("json"), ",")
			members[name] = true
			if properties[name] == nil {
				t.Errorf("%s: the schema lacks %s", c.typ, name)
			}
			if optional := options == "omitempty"; optional == slices.Contains(required, any(name)) {
				t.Errorf("%s: %s is optional: %v, in the schema it is required: %v", c.typ, name, optional, !optional)
			}
		}
		for name := range properties {
			if !members[name] {
				t.Errorf("%s: the schema has %s, the documents don't", c.typ, name)
			}
		}
	}
}

// TestAsyncAPI holds the AsyncAPI document to what the code writes.
func TestAsyncAPI(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docs, "asyncapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	at := func(path ...string) any {
		var v any = doc
		for _, key := range path {
			if list, ok := v.([]any); ok {
				var i int
				if json.Unmarshal([]byte(key), &i) != nil || i >= len(list) {
					return nil
				}
				v = list[i]
				continue
			}
			m, _ := v.(map[string]any)
			v = m[key]
		}
		return v
	}
	o, err := Record("alerts", full())
	if err != nil {
		t.Fatal(err)
	}
	written := headersOf(o)
	described := make(map[string]bool)
	for _, s := range []any{at("components", "schemas", "cloudEventHeaders"), at("components", "messages", "alertRevised", "headers", "allOf", "1")} {
		object, _ := s.(map[string]any)
		properties, _ := object["properties"].(map[string]any)
		for name, p := range properties {
			described[name] = true
			if c, ok := p.(map[string]any)["const"]; ok && c != written[name] {
				t.Errorf("header %s is %q, described as %v", name, written[name], c)
			}
		}
		required, _ := object["required"].([]any)
		for _, r := range required {
			if written[r.(string)] == "" {
				t.Errorf("header %v is required and not written", r)
			}
		}
	}
	for name := range written {
		if !described[name] {
			t.Errorf("header %s is not described", name)
		}
	}
	for path, want := range map[string]string{
		"components/messages/alertRevised/name":                              Type,
		"channels/alerts/address":                                            "{prefix}alerts",
		"channels/alerts/bindings/kafka/topicConfiguration/cleanup.policy/0": "compact",
	} {
		if got := at(strings.Split(path, "/")...); got != want {
			t.Errorf("%s is %v, want %s", path, got, want)
		}
	}
}

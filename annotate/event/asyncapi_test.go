package event

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/porestream/porestream/annotate"
)

// TestAsyncAPI holds the AsyncAPI document to what the code writes: event types,
// headers, topic, and references that lead somewhere.
func TestAsyncAPI(t *testing.T) {
	dir := filepath.Join("..", "..", "docs", "consume")
	text, err := os.ReadFile(filepath.Join(dir, "asyncapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	_, schema := schema(t)
	if text, err = os.ReadFile(filepath.Join(dir, "alerts.schema.json")); err != nil {
		t.Fatal(err)
	}
	var alerts map[string]any
	if err := json.Unmarshal(text, &alerts); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(filepath.Join(dir, "methylation.schema.json")); err != nil {
		t.Fatal(err)
	}
	var methylation map[string]any
	if err := json.Unmarshal(text, &methylation); err != nil {
		t.Fatal(err)
	}
	var walk func(where string, v any)
	walk = func(where string, v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(where, e)
			}
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				file, pointer, _ := strings.Cut(ref, "#")
				root := doc
				switch file {
				case "":
				case "variants.schema.json":
					root = schema
				case "alerts.schema.json":
					root = alerts
				case "methylation.schema.json":
					root = methylation
				default:
					t.Errorf("%s refers to another file: %s", where, ref)
				}
				if at(root, pointer) == nil {
					t.Errorf("%s: %s leads nowhere", where, ref)
				}
			}
			for k, e := range v {
				walk(where+"/"+k, e)
			}
		}
	}
	walk("", doc)

	v := FromCall(testCall(), annotate.Annotation{})
	o, err := v.Record("variants")
	if err != nil {
		t.Fatal(err)
	}
	written := headersOf(o)
	described := make(map[string]any)
	for _, pointer := range []string{"/components/schemas/cloudEventHeaders", "/components/messages/variantRevised/headers/allOf/1"} {
		s, _ := at(doc, pointer).(map[string]any)
		properties, _ := s["properties"].(map[string]any)
		for name, p := range properties {
			described[name] = p
			if c, ok := p.(map[string]any)["const"]; ok && c != written[name] {
				t.Errorf("header %s is %q, described as %v", name, written[name], c)
			}
		}
		required, _ := s["required"].([]any)
		for _, r := range required {
			if written[r.(string)] == "" {
				t.Errorf("header %v is required and not written", r)
			}
		}
	}
	for name := range written {
		if described[name] == nil {
			t.Errorf("header %s is not described", name)
		}
	}
	for pointer, want := range map[string]string{
		"/components/messages/variantRevised/name":                               TypeVariant,
		"/components/messages/runEnded/name":                                     TypeRunEnd,
		"/components/messages/runEnded/headers/allOf/1/properties/ce_type/const": TypeRunEnd,
		"/channels/variants/address":                                             "{prefix}variants",
		"/channels/variants/bindings/kafka/topicConfiguration/cleanup.policy/0":  "compact",
	} {
		if got := at(doc, pointer); got != want {
			t.Errorf("%s is %v, want %s", pointer, got, want)
		}
	}
}

// at follows a JSON pointer; nil if it leads nowhere.
func at(root map[string]any, pointer string) any {
	var v any = root
	for key := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch node := v.(type) {
		case map[string]any:
			v = node[key]
		case []any:
			var i int
			if json.Unmarshal([]byte(key), &i) != nil || i >= len(node) {
				return nil
			}
			v = node[i]
		default:
			return nil
		}
	}
	return v
}

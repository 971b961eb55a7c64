package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/pflag"
)

// schemaID names the schema of files of sources.
const schemaID = "https://porestream.example/ingest-sources.schema.json"

// fileSchema is the JSON Schema of a file of sources, made from the options that
// the commands have.
func fileSchema() ([]byte, error) {
	var p process
	self, kafka := newFlags(), newFlags()
	p.registerSelf(self)
	p.registerKafka(kafka)
	root := object(self, nil)
	properties(root)["kafka"] = described(object(kafka, []string{"brokers"}), "Kafka, once for all sources")
	var items []any
	for _, k := range kinds() {
		flags := newFlags()
		k.options(flags)
		required := []string{"kind", "name"}
		s := object(flags, nil)
		properties(s)["kind"] = map[string]any{"const": k.name}
		if k.formerly != "" {
			properties(s)["kind"] = map[string]any{"enum": []string{k.name, k.formerly}, "description": k.formerly + " is the former name"}
		}
		properties(s)["name"] = map[string]any{"type": "string", "pattern": sourceName.String(), "description": "distinguishes the source from the others in the log, in metrics and in ingest status"}
		if k.operands != "" {
			required = append(required, k.operands)
			properties(s)[k.operands] = described(texts(), k.operandsUsage)
		}
		s["required"] = required
		items = append(items, described(s, k.short))
	}
	properties(root)["sources"] = map[string]any{
		"type": "array", "minItems": 1, "maxItems": maxSources, "items": map[string]any{"oneOf": items}, "description": "the sources, each for itself",
	}
	root["required"] = []string{"kafka", "sources"}
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"], root["title"] = schemaID, "Sources of one ingest process"
	b, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the schema: %w", err)
	}
	return append(b, '\n'), nil
}

// object is a mapping with a flag set's options.
func object(flags *pflag.FlagSet, required []string) map[string]any {
	options := make(map[string]any)
	flags.VisitAll(func(f *pflag.Flag) {
		o := texts()
		if _, list := f.Value.(pflag.SliceValue); !list {
			o = typeOf(f).schema
			if def := f.DefValue; def != "" && def != "0s" {
				o["default"] = def
			}
		}
		_, usage := pflag.UnquoteUsage(f) // as help shows it
		options[optionName(f.Name)] = described(o, usage)
	})
	out := map[string]any{"type": "object", "additionalProperties": false, "properties": options}
	if required != nil {
		out["required"] = required
	}
	return out
}

func properties(object map[string]any) map[string]any {
	return object["properties"].(map[string]any)
}

// texts is a list of texts, or one that stands for it.
func texts() map[string]any {
	one := map[string]any{"type": "string", "minLength": 1}
	return map[string]any{"oneOf": []any{one, map[string]any{"type": "array", "items": one}}}
}

func described(schema map[string]any, text string) map[string]any {
	schema["description"] = text
	return schema
}

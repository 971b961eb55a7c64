package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Error is something wrong in a file of rules.
type Error struct {
	Path string
	Line int // from 1; 0: the file as a whole
	Text string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Path + ": " + e.Text
	}
	return fmt.Sprintf("%s:%d: %s", e.Path, e.Line, e.Text)
}

// Parse reads the text of a file of rules; path names it in errors. Its error is an [*Error]
// for the first fault.
func Parse(path string, text []byte) (*Rules, error) {
	p := parser{path: path}
	r, err := p.parse(text)
	if err != nil {
		return nil, err
	}
	return r, nil
}

type parser struct{ path string }

func (p *parser) fail(line int, format string, args ...any) error {
	return &Error{Path: p.path, Line: line, Text: fmt.Sprintf(format, args...)}
}

func (p *parser) parse(text []byte) (*Rules, error) {
	if len(text) > maxFile {
		return nil, p.fail(0, "larger than %d bytes, which no file of rules is", maxFile)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	err := dec.Decode(&document)
	switch {
	case errors.Is(err, io.EOF):
		return nil, p.fail(0, "it is empty: give at least one rule")
	case err != nil:
		return nil, p.fail(0, "%s", strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: "))
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, p.fail(0, "it holds more than one document: keep one")
	}
	r := &Rules{}
	err = p.mapping(document.Content[0], "the file", map[string]func(*yaml.Node) error{
		"rules": func(n *yaml.Node) error { return p.rules(n, r) },
		"default": func(n *yaml.Node) error {
			r.Default = new(Use)
			fields := p.use(r.Default)
			if n.Kind == yaml.ScalarNode { // default: none, or a model
				return fields["model"](n)
			}
			if err := p.mapping(n, "the default", fields); err != nil {
				return err
			}
			return p.complete(n.Line, "the default", r.Default)
		},
	})
	if err != nil {
		return nil, err
	}
	if len(r.List) == 0 && r.Default == nil {
		return nil, p.fail(0, "it has no rule: give at least one, or a default")
	}
	for i := range r.List {
		if r.List[i].matchesAll() && (i+1 < len(r.List) || r.Default != nil) {
			return nil, p.fail(r.List[i].Line, "this rule is for every run, so that none behind it counts: name what runs it is for, or put it last and leave out the default")
		}
	}
	return r, nil
}

func (p *parser) rules(n *yaml.Node, r *Rules) error {
	if n.Kind != yaml.SequenceNode {
		return p.fail(n.Line, "rules: want a list, each entry with a model")
	}
	if len(n.Content) > maxRules {
		return p.fail(n.Line, "rules: %d of them, more than %d", len(n.Content), maxRules)
	}
	for _, entry := range n.Content {
		rule := Rule{Line: entry.Line}
		fields := p.use(&rule.Use)
		for key, to := range map[string]*[]string{
			"flow_cell": &rule.FlowCell, "kit": &rule.Kit, "chemistry": &rule.Chemistry,
			"run": &rule.Run, "sample": &rule.Sample, "experiment": &rule.Experiment,
		} {
			fields[key] = func(n *yaml.Node) error { return p.texts(key, n, to) }
		}
		fields["sample_rate"] = func(n *yaml.Node) error { return p.rates(n, &rule.SampleRates) }
		if err := p.mapping(entry, "a rule", fields); err != nil {
			return err
		}
		if err := p.complete(entry.Line, "the rule", &rule.Use); err != nil {
			return err
		}
		r.List = append(r.List, rule)
	}
	return nil
}

// use returns the keys that say what a run is called with.
func (p *parser) use(u *Use) map[string]func(*yaml.Node) error {
	return map[string]func(*yaml.Node) error{
		"model": func(n *yaml.Node) error {
			text, err := p.text("model", n)
			if err != nil {
				return err
			}
			if text == "none" {
				u.None = true
				return nil
			}
			u.Model, u.Folder = text, strings.ContainsRune(text, filepath.Separator)
			return nil
		},
		"size":      func(n *yaml.Node) error { return p.word("size", n, Sizes(), &u.Size) },
		"precision": func(n *yaml.Node) error { return p.word("precision", n, precisions, &u.Precision) },
	}
}

// complete refuses what contradicts itself.
func (p *parser) complete(line int, what string, u *Use) error {
	switch {
	case u.None && (u.Size != "" || u.Precision != ""):
		return p.fail(line, "%s leaves runs out (model: none), so size and precision are of no use", what)
	case u.Model != "" && u.Size != "":
		return p.fail(line, "%s names both a model and a size: a size is for taking the run's model from --models-dir", what)
	case u.Model == "" && u.Size == "" && !u.None:
		return p.fail(line, "%s names no model: give model (a folder, a name, or none) or size (%s, of --models-dir)", what, strings.Join(Sizes(), ", "))
	}
	return nil
}

func (p *parser) mapping(n *yaml.Node, what string, fields map[string]func(*yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return p.fail(n.Line, "%s: want keys with values", what)
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read := fields[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || read == nil:
			return p.fail(key.Line, "%s has no key %q: it takes %s", what, clip(key.Value), strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		case seen[key.Value]:
			return p.fail(key.Line, "%s has the key %s twice: keep one", what, key.Value)
		}
		seen[key.Value] = true
		if err := read(value); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) text(what string, n *yaml.Node) (string, error) {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return "", p.fail(n.Line, "%s: anchors and aliases are not supported: write the value out", what)
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
		return "", p.fail(n.Line, "%s: want a text", what)
	case n.Value == "" || len(n.Value) > maxText || strings.ContainsFunc(n.Value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", p.fail(n.Line, "%s: want 1 to %d bytes on one line", what, maxText)
	}
	return n.Value, nil
}

func (p *parser) word(what string, n *yaml.Node, known []string, to *string) error {
	text, err := p.text(what, n)
	if err != nil {
		return err
	}
	if !slices.Contains(known, text) {
		return p.fail(n.Line, "%s: %q is none of %s", what, clip(text), strings.Join(known, ", "))
	}
	*to = text
	return nil
}

// each gives a value, or each of a list of them, to read.
func (p *parser) each(what string, n *yaml.Node, read func(*yaml.Node) error) error {
	if n.Kind != yaml.SequenceNode {
		return read(n)
	}
	if len(n.Content) == 0 || len(n.Content) > maxRules {
		return p.fail(n.Line, "%s: want 1 to %d values, have %d", what, maxRules, len(n.Content))
	}
	for _, one := range n.Content {
		if err := read(one); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) texts(what string, n *yaml.Node, to *[]string) error {
	return p.each(what, n, func(n *yaml.Node) error {
		text, err := p.text(what, n)
		*to = append(*to, text)
		return err
	})
}

func (p *parser) rates(n *yaml.Node, to *[]int) error {
	return p.each("sample_rate", n, func(n *yaml.Node) error {
		text, err := p.text("sample_rate", n)
		if err != nil {
			return err
		}
		rate, err := strconv.Atoi(text)
		if err != nil || rate < 1 || rate > 1_000_000 {
			return p.fail(n.Line, "sample_rate: %q is no number of samples a second, such as 5000", clip(text))
		}
		*to = append(*to, rate)
		return nil
	})
}

// clip shortens what is quoted in an error.
func clip(text string) string {
	if r := []rune(text); len(r) > 40 {
		return string(r[:40]) + "..."
	}
	return text
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/porestream/porestream/ingest/sources"
	"github.com/porestream/porestream/internal/cli"
)

// maxSources bounds the sources of a file.
const maxSources = 256

// listing is what a file of sources says.
type listing struct {
	process process
	// self is all that the file says of the process, written so that it is the same
	// exactly if that is.
	self    string
	sources []*listed
}

// listed is a source of a file.
type listed struct {
	name     string
	kind     kind
	source   source
	intake   *intake
	settings string
	claims   []sources.Claim
	node     *yaml.Node
	paths    []named
}

// named is a path that a file names, for checking.
type named struct {
	node *yaml.Node
	path string
	made bool // ingest makes it if it isn't there
}

// FileError is something wrong in a file of sources.
type FileError struct {
	Path         string
	Line, Column int // from 1; 0: of the whole file
	Text         string
}

func (e *FileError) Error() string {
	if e.Line == 0 {
		return e.Path + ": " + e.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.Path, e.Line, e.Column, e.Text)
}

// fileErrors are all that is wrong in a file, in its order.
type fileErrors []*FileError

func (all fileErrors) Error() string {
	if len(all) == 1 {
		return all[0].Error()
	}
	return fmt.Sprintf("%s (and %d more: ingest check lists them)", all[0], len(all)-1)
}

// fileParser reads a file of sources. It goes on behind errors, to find all.
type fileParser struct {
	path   string
	errors fileErrors
}

func (p *fileParser) fail(node *yaml.Node, format string, args ...any) {
	e := &FileError{Path: p.path, Text: fmt.Sprintf(format, args...)}
	if node != nil {
		e.Line, e.Column = node.Line, node.Column
	}
	p.errors = append(p.errors, e)
}

// parseFile reads the content of a file of sources: docs/attach/ingest-sources.md
// describes it. Its error is of all that is wrong.
func parseFile(path string, content []byte) (*listing, error) {
	p := &fileParser{path: path}
	l := p.parse(content)
	if len(p.errors) > 0 {
		slices.SortStableFunc(p.errors, func(a, b *FileError) int {
			if a.Line != b.Line {
				return a.Line - b.Line
			}
			return a.Column - b.Column
		})
		return nil, p.errors
	}
	return l, nil
}

func (p *fileParser) parse(content []byte) *listing {
	dec := yaml.NewDecoder(bytes.NewReader(content))
	var document, second yaml.Node
	if err := dec.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			p.fail(nil, "it is empty: name Kafka and the sources")
			return nil
		}
		p.fail(yamlPlace(err), "%s", strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: "))
		return nil
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		p.fail(&second, "there is a second document in the file: a file has one")
		return nil
	}
	l := new(listing)
	self, kafka := newFlags(), newFlags()
	l.process.registerSelf(self)
	l.process.registerKafka(kafka)
	var list *yaml.Node
	root := resolve(document.Content[0])
	p.fill(root, "the file", self, map[string]func(*yaml.Node){
		"kafka":   func(n *yaml.Node) { p.fill(n, "kafka", kafka, nil) },
		"sources": func(n *yaml.Node) { list = n },
	})
	p.checkProcess(l, root, kafka)
	l.self = canonical(self, nil) + canonical(kafka, nil)
	if list == nil || list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		if list == nil {
			list = root
		}
		p.fail(list, "it lists no sources: sources is a list with one at least")
		return l
	}
	if len(list.Content) > maxSources {
		p.fail(list, "%d sources, the limit is %d", len(list.Content), maxSources)
		return l
	}
	for _, node := range list.Content {
		if s := p.source(resolve(node)); s != nil {
			l.sources = append(l.sources, s)
		}
	}
	p.checkClaims(l)
	return l
}

func newFlags() *pflag.FlagSet { return pflag.NewFlagSet("", pflag.ContinueOnError) }

var yamlLine = regexp.MustCompile(`line (\d+)`)

// yamlPlace is where an error of the YAML parser is.
func yamlPlace(err error) *yaml.Node {
	found := yamlLine.FindStringSubmatch(err.Error())
	if found == nil {
		return nil
	}
	n := &yaml.Node{Column: 1}
	if _, err := fmt.Sscan(found[1], &n.Line); err != nil {
		return nil
	}
	return n
}

// resolve follows an alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// checkProcess checks what the file says of Kafka and the process.
func (p *fileParser) checkProcess(l *listing, root *yaml.Node, kafka *pflag.FlagSet) {
	if len(p.errors) > 0 {
		return
	}
	if kafka.Changed("sasl-mechanism") && !kafka.Changed("sasl-password-file") {
		p.fail(root, "kafka: sasl_mechanism needs sasl_password_file: secrets are named as files")
		return
	}
	if _, err := l.process.kafka.Config(nil, nil); err != nil {
		p.fail(root, "kafka: %s", optionText(err))
	}
	if _, err := l.process.log.Logger(io.Discard); err != nil {
		p.fail(root, "%s", optionText(err))
	}
}

// source reads one of the sources; nil if that can't be done.
func (p *fileParser) source(node *yaml.Node) *listed {
	s := &listed{node: node}
	if node.Kind != yaml.MappingNode {
		p.fail(node, "a source is a mapping with kind, name and its options")
		return nil
	}
	before := len(p.errors)
	for i := 0; i+1 < len(node.Content); i += 2 {
		value := resolve(node.Content[i+1])
		switch node.Content[i].Value {
		case "kind":
			p.kind(s, value)
		case "name":
			p.name(s, value)
		}
	}
	if s.kind.make == nil && len(p.errors) == before {
		p.fail(node, "a source without a kind: one of %s", strings.Join(kindNames(), ", "))
	}
	if s.name == "" && len(p.errors) == before {
		p.fail(node, "a source without a name, which distinguishes it in the log, in metrics and in ingest status")
	}
	if len(p.errors) > before {
		return nil
	}
	flags := newFlags()
	s.source, s.intake = s.kind.options(flags)
	var operands []string
	own := map[string]func(*yaml.Node){"kind": func(*yaml.Node) {}, "name": func(*yaml.Node) {}}
	if s.kind.operands != "" {
		own[s.kind.operands] = func(n *yaml.Node) {
			for _, item := range p.texts(n, s.kind.operands) {
				path := p.beside(item.Value)
				operands = append(operands, path)
				s.paths = append(s.paths, named{node: item, path: path})
			}
		}
	}
	p.fill(node, fmt.Sprintf("source %q", s.name), flags, own)
	if s.kind.operands != "" && len(operands) == 0 && len(p.errors) == before {
		p.fail(node, "source %q has no %s: %s", s.name, s.kind.operands, s.kind.operandsUsage)
	}
	if len(p.errors) > before {
		return nil
	}
	s.paths = append(s.paths, p.paths(node, flags)...)
	s.settings = canonical(flags, operands)
	if err := s.source.complete(&given{name: s.name, operands: operands, flags: flags, intake: s.intake}); err != nil {
		p.fail(node, "source %q: %s", s.name, optionText(err))
		return nil
	}
	own1, err := s.source.claims()
	own2, err2 := s.intake.commonClaims()
	if err := errors.Join(err, err2); err != nil {
		p.fail(node, "source %q: %v", s.name, err)
		return nil
	}
	s.claims = append(own1, own2...)
	return s
}

func kindNames() (names []string) {
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	return names
}

func (p *fileParser) kind(s *listed, value *yaml.Node) {
	for _, k := range kinds() {
		if k.name == value.Value || k.formerly != "" && k.formerly == value.Value {
			s.kind = k
			return
		}
	}
	p.fail(value, "no kind of source is called %q%s: one of %s", value.Value, suggestion(value.Value, kindNames()), strings.Join(kindNames(), ", "))
}

// sourceName is what sources may be called: it becomes part of folders' names and
// of metrics.
var sourceName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}$`)

func (p *fileParser) name(s *listed, value *yaml.Node) {
	if !sourceName.MatchString(value.Value) {
		p.fail(value, "a source is called %.80q: a name has 1 to 63 letters, digits, dots, dashes and underscores, and begins with a letter or digit", value.Value)
		return
	}
	s.name = value.Value
}

// fill sets options from a mapping. own are its keys that are no options.
func (p *fileParser) fill(node *yaml.Node, what string, flags *pflag.FlagSet, own map[string]func(*yaml.Node)) {
	if node.Kind != yaml.MappingNode {
		p.fail(node, "%s is not a mapping of options", what)
		return
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], resolve(node.Content[i+1])
		if line, twice := seen[key.Value]; twice {
			p.fail(key, "%s: %s is given twice, first in line %d", what, key.Value, line)
			continue
		}
		seen[key.Value] = key.Line
		flag := flags.Lookup(flagName(key.Value))
		switch {
		case own[key.Value] != nil:
			own[key.Value](value)
		case flag == nil || key.Value != optionName(flag.Name):
			known := optionNames(flags)
			for name := range own {
				known = append(known, name)
			}
			slices.Sort(known)
			p.fail(key, "%s has no option %q%s", what, key.Value, suggestion(key.Value, known))
		default:
			p.set(flag, value, what)
		}
	}
}

// set sets an option.
func (p *fileParser) set(flag *pflag.Flag, value *yaml.Node, what string) {
	name := optionName(flag.Name)
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		var texts []string
		for _, item := range p.texts(value, name) {
			texts = append(texts, item.Value)
		}
		if err := list.Replace(texts); err != nil {
			p.fail(value, "%s: %s: %v", what, name, err)
		}
		flag.Changed = true
		return
	}
	kind := typeOf(flag)
	if value.Kind != yaml.ScalarNode || !slices.Contains(kind.tags, value.Tag) {
		p.fail(value, "%s: %s should be %s", what, name, kind.words)
		return
	}
	text := value.Value
	if isPath(flag) {
		text = p.beside(text)
	}
	if err := flag.Value.Set(text); err != nil {
		p.fail(value, "%s: %s is %q, and should be %s", what, name, value.Value, kind.words)
		return
	}
	flag.Changed = true
}

// texts are the items of a list of texts, or the one that stands for it.
func (p *fileParser) texts(node *yaml.Node, name string) []*yaml.Node {
	items := node.Content
	if node.Kind == yaml.ScalarNode {
		items = []*yaml.Node{node}
	}
	var texts []*yaml.Node
	for _, item := range items {
		item = resolve(item)
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" || item.Value == "" || node.Kind == yaml.MappingNode {
			p.fail(item, "%s should be a list of texts", name)
			continue
		}
		texts = append(texts, item)
	}
	return texts
}

// beside is a path as seen from the file's folder.
func (p *fileParser) beside(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(p.path), path)
}

// paths are the files and folders that options name.
func (p *fileParser) paths(node *yaml.Node, flags *pflag.FlagSet) (paths []named) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		flag := flags.Lookup(flagName(node.Content[i].Value))
		if flag != nil && isPath(flag) && flag.Value.String() != "" {
			_, folder := flag.Annotations[cobra.BashCompSubdirsInDir]
			paths = append(paths, named{node: node.Content[i+1], path: flag.Value.String(), made: folder})
		}
	}
	return paths
}

// checkClaims refuses sources that can't be run together.
func (p *fileParser) checkClaims(l *listing) {
	if len(p.errors) > 0 {
		return
	}
	specs := make([]sources.Spec, len(l.sources))
	for i, s := range l.sources {
		specs[i] = sources.Spec{Name: s.name, Claims: s.claims}
		self := []sources.Spec{{Name: "the process itself", Claims: []sources.Claim{{What: sources.Address, Value: l.process.listen}}}, specs[i]}
		if err := sources.Check(self); err != nil {
			p.fail(s.node, "source %q listens on %s, and so does the process itself (listen)", s.name, l.process.listen)
			return
		}
	}
	var met *sources.ConflictError
	if err := sources.Check(specs); errors.As(err, &met) {
		named := func(name string) func(*listed) bool { return func(s *listed) bool { return s.name == name } }
		i := slices.IndexFunc(l.sources, named(met.Second))
		if met.First == met.Second {
			i += 1 + slices.IndexFunc(l.sources[i+1:], named(met.Second))
		}
		p.fail(l.sources[i].node, "%v", met)
	}
}

// checkPaths returns the faults of the files and folders that a listing
// names, as far as that can be seen without starting.
func (l *listing) checkPaths(path string) error {
	p := &fileParser{path: path}
	for _, s := range l.sources {
		for _, n := range s.paths {
			if _, err := os.Stat(n.path); err != nil && (!n.made || !errors.Is(err, fs.ErrNotExist)) {
				var detail *fs.PathError
				if errors.As(err, &detail) {
					err = detail.Err
				}
				p.fail(n.node, "source %q: %s: %v", s.name, n.path, err)
			}
		}
	}
	kafka, err := l.process.kafka.Config(nil, nil)
	if err == nil {
		err = kafka.CheckFiles()
	}
	if err != nil {
		p.fail(&yaml.Node{Line: 1, Column: 1}, "kafka: %s", optionText(err))
	}
	if len(p.errors) > 0 {
		return p.errors
	}
	return nil
}

// An option is called in the file as its flag is, with underscores.
func optionName(flag string) string { return strings.ReplaceAll(flag, "-", "_") }
func flagName(option string) string { return strings.ReplaceAll(option, "_", "-") }

func optionNames(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, optionName(f.Name)) })
	return names
}

var flagInText = regexp.MustCompile(`--([a-z][a-z0-9-]*)`)

// optionText is an error's text with flags called as they are in the file.
func optionText(err error) string {
	return flagInText.ReplaceAllStringFunc(err.Error(), func(flag string) string { return optionName(flag[2:]) })
}

func isPath(f *pflag.Flag) bool {
	_, file := f.Annotations[cobra.BashCompFilenameExt]
	_, folder := f.Annotations[cobra.BashCompSubdirsInDir]
	return file || folder
}

// canonical writes all options and operands down.
func canonical(flags *pflag.FlagSet, operands []string) string {
	all := make(map[string]string)
	flags.VisitAll(func(f *pflag.Flag) { all[f.Name] = f.Value.String() })
	b, err := json.Marshal(struct {
		Options  map[string]string
		Operands []string
	}{all, operands})
	if err != nil {
		panic(err) // strings can be encoded
	}
	return string(b)
}

// suggestion names what a text that is none of those known may have meant.
func suggestion(text string, known []string) string {
	best, least := "", max(2, len(text)/3)+1
	for _, k := range known {
		if d := levenshtein.ComputeDistance(text, k); d < least {
			best, least = k, d
		}
	}
	for _, k := range known {
		if best == "" && len(text) > 2 && strings.HasPrefix(k, text) {
			best = k
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", best)
}

// valueType is how an option's value is written in the file.
type valueType struct {
	words  string
	tags   []string // of YAML
	schema map[string]any
}

// typeOf returns the notation of a flag's value.
func typeOf(f *pflag.Flag) valueType {
	const text, number, integer = "!!str", "!!float", "!!int"
	switch f.Value.Type() {
	case "bool":
		return valueType{"true or false", []string{"!!bool"}, map[string]any{"type": "boolean"}}
	case "int", "int64", "uint64":
		return valueType{"a whole number", []string{integer}, map[string]any{"type": "integer"}}
	case "duration":
		return valueType{"a time with its unit, such as 500ms, 10s or 5m", []string{text}, map[string]any{"type": "string", "pattern": `^([0-9.]+(ns|us|µs|ms|s|m|h))+$`}}
	case new(cli.Bytes).Type():
		return valueType{"a number of bytes, such as 64MiB", []string{text, integer}, map[string]any{"type": []string{"string", "integer"}}}
	}
	return valueType{"a text", []string{text, integer, number}, map[string]any{"type": []string{"string", "number"}}}
}

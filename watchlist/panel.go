package watchlist

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	pathpkg "path"
	"path/filepath"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/porestream/porestream/watchlist/biomarker"
)

// Limits of a panel.
const (
	maxPanelBytes = 64 << 20
	maxRules      = 100_000
	maxID         = 200
)

// Panel is what a watch-list's file says, and the files it names. It has not been held against a reference yet: see
// [New].
type Panel struct {
	ID       string
	Version  string
	Title    string
	Assembly string // the panel's words
	// Source, Date and Licence say where the panel's content is from, of when it is, and its terms: the panel's words.
	Source, Date, Licence string
	Hash                  string // "sha256:" and the digest of all files

	path      string // or what else errors call it
	advice    string // what errors say to do
	reference []contigClaim
	rules     []*ruleText
	models    map[string]*biomarker.Model // by folder; nil: it has faults
}

// Rules is the number of rules.
func (p *Panel) Rules() int { return len(p.rules) }

// source is what alerts say about p.
func (p *Panel) source() Source { return Source{ID: p.ID, Version: p.Version, Hash: p.Hash} }

// contigClaim is what a panel expects of a contig.
type contigClaim struct {
	name, digest string
	length       *int
	line         int
}

// ruleText is one rule as written.
type ruleText struct {
	id, label, severity string
	line                int
	match               matchText
	model               *modelText // nil: it has a match
	methylation         *methylationText
	thresholds          Thresholds
}

// matchText says which alleles a rule means.
type matchText struct {
	line int

	// Alleles by name: any of them.
	hgvs, alleles, vcf []item

	// Places, and what happens there: all that are given.
	genes, transcripts, regions []item
	flags, codons               []item
	terms, impacts              []item
	nmd                         []item
	scores                      []item
	span                        string
	spanLine                    int

	// What the files beside the panel hold.
	bed       []place
	positions []vcfAllele
	// files says that a file was named, be it empty.
	bedFile, positionsFile bool
}

// named reports whether the rule names alleles one by one.
func (m *matchText) named() bool {
	return len(m.hgvs)+len(m.alleles)+len(m.vcf) > 0 || m.positionsFile
}

// placed reports whether the rule names places.
func (m *matchText) placed() bool {
	return len(m.genes)+len(m.transcripts)+len(m.regions) > 0 || m.bedFile
}

// classed reports whether the rule names classes of consequences.
func (m *matchText) classed() bool { return len(m.terms)+len(m.impacts)+len(m.scores) > 0 }

// Load reads a panel and the files it names, which it searches for beside it. Errors name file and line, one line per
// fault.
func Load(path string) (*Panel, error) {
	text, err := readLimited(path)
	if err != nil {
		return nil, fmt.Errorf("reading watch-list: %w", err)
	}
	dir := filepath.Dir(path)
	return parse(path, "", text, beside{
		file:  func(name string) ([]byte, error) { return readLimited(filepath.Join(dir, name)) },
		model: func(name string) (*biomarker.Model, error) { return loadModel(filepath.Join(dir, name)) },
	})
}

// LoadFS reads a panel of a file system, as [Load] does. Its rules can't ask models. Errors call it name, as nobody has
// its file, and the first gives the advice.
func LoadFS(files fs.FS, path, name, advice string) (*Panel, error) {
	text, err := fs.ReadFile(files, path)
	if err != nil {
		return nil, fmt.Errorf("reading watch-list: %w", err)
	}
	dir, _ := pathpkg.Split(path)
	return parse(name, advice, text, beside{
		file: func(name string) ([]byte, error) { return fs.ReadFile(files, pathpkg.Join(dir, name)) },
		model: func(name string) (*biomarker.Model, error) {
			return nil, fmt.Errorf("the model %q is not beside the panel: only panels in files can ask models", name)
		},
	})
}

// readLimited reads a file of at most maxPanelBytes.
func readLimited(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPanelBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxPanelBytes {
		return nil, fmt.Errorf("%s is larger than %d MiB", path, maxPanelBytes>>20)
	}
	return text, nil
}

// beside reads what lies beside a panel.
type beside struct {
	file  func(name string) ([]byte, error)
	model func(folder string) (*biomarker.Model, error)
}

// parse reads a panel's text.
func parse(path, advice string, text []byte, open beside) (*Panel, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: the file is empty: a watch-list has the keys panel, version and rules", path)
		}
		return nil, fmt.Errorf("%s: not YAML: %w", path, err)
	}
	p := &reader{faults: faults{path: path, advice: advice}, panel: &Panel{path: path, advice: advice}, open: open.file, openModel: open.model}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		p.add(0, "want one YAML document, have more: write one file for each panel")
	}
	p.hash(text)
	p.document(doc.Content[0])
	if err := p.err(); err != nil {
		return nil, err
	}
	p.panel.Hash = "sha256:" + hex.EncodeToString(p.digest[:])
	return p.panel, nil
}

// reader makes a panel of YAML.
type reader struct {
	faults
	panel  *Panel
	open   func(name string) ([]byte, error)
	digest [sha256.Size]byte

	openModel func(folder string) (*biomarker.Model, error)
}

// hash takes a further file into the panel's digest.
func (p *reader) hash(text []byte) {
	sum := sha256.Sum256(text)
	p.digest = sha256.Sum256(append(p.digest[:], sum[:]...))
}

// document reads the top of the file.
func (p *reader) document(n *yaml.Node) {
	var rules *yaml.Node
	base := defaults
	p.mapping(n, "a watch-list", map[string]field{
		"panel":      p.text("panel", &p.panel.ID),
		"version":    p.text("version", &p.panel.Version),
		"title":      p.text("title", &p.panel.Title),
		"assembly":   p.text("assembly", &p.panel.Assembly),
		"source":     p.text("source", &p.panel.Source),
		"date":       p.text("date", &p.panel.Date),
		"licence":    p.text("licence", &p.panel.Licence),
		"reference":  p.contigs,
		"thresholds": func(v *yaml.Node) { p.thresholds(v, &base, nil) },
		"rules":      func(v *yaml.Node) { rules = v },
	})
	if n.Kind != yaml.MappingNode {
		return
	}
	p.checkID(n.Line, "panel", p.panel.ID)
	if p.panel.Version == "" {
		p.add(n.Line, "the panel has no version: add version: 1, and raise it with every change")
	}
	switch {
	case rules == nil || rules.Kind != yaml.SequenceNode || len(rules.Content) == 0:
		p.add(n.Line, "the panel has no rules: add a list under the key rules")
	case len(rules.Content) > maxRules:
		p.add(rules.Line, "%d rules, the limit is %d: split the panel", len(rules.Content), maxRules)
	default:
		p.rules(rules.Content, base)
	}
}

// checkID holds a name to what keys and file names bear.
func (p *reader) checkID(line int, what, id string) {
	if id == "" {
		p.add(line, "%s: an id is missing", what)
		return
	}
	if len(id) > maxID {
		p.add(line, "%s %q is longer than %d bytes", what, clip(id), maxID)
	}
	for i := range len(id) {
		c := id[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' {
			continue
		}
		p.add(line, "%s %q: an id is made of letters, digits, dot, hyphen and underscore", what, clip(id))
		return
	}
}

// contigs reads what the panel expects of the reference.
func (p *reader) contigs(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		p.add(n.Line, "reference: want contigs with their length and digest, have %s", describe(n))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		c := contigClaim{name: n.Content[i].Value, line: n.Content[i].Line}
		p.mapping(n.Content[i+1], "a contig of the reference", map[string]field{
			"length": p.whole("length", 1, 1<<40, &c.length),
			"digest": p.text("digest", &c.digest),
		})
		p.panel.reference = append(p.panel.reference, c)
	}
}

// rules reads the list of rules.
func (p *reader) rules(list []*yaml.Node, base Thresholds) {
	first := make(map[string]int, len(list))
	for _, n := range list {
		r := &ruleText{line: n.Line, thresholds: base}
		var match, model, methylation, thresholds *yaml.Node
		before := p.found
		p.mapping(n, "a rule", map[string]field{
			"id":          p.text("id", &r.id),
			"label":       p.text("label", &r.label),
			"severity":    p.text("severity", &r.severity),
			"match":       func(v *yaml.Node) { match = v },
			"model":       func(v *yaml.Node) { model = v },
			"methylation": func(v *yaml.Node) { methylation = v },
			"thresholds":  func(v *yaml.Node) { thresholds = v },
		})
		if n.Kind != yaml.MappingNode {
			continue
		}
		switch {
		case thresholds == nil:
		case methylation != nil && match == nil && model == nil:
			p.thresholds(thresholds, &r.thresholds, p.forVariants(r))
		default:
			p.thresholds(thresholds, &r.thresholds, nil)
		}
		p.checkID(n.Line, "rule", r.id)
		if line, ok := first[r.id]; ok {
			p.addRule(n.Line, r.id, " is there already, on line %d: give it another id", line)
		}
		first[r.id] = n.Line
		switch {
		case match != nil && model != nil:
			p.addRule(n.Line, r.id, " has a match and a model: make two rules of it")
			continue
		case methylation != nil && (match != nil || model != nil):
			p.addRule(n.Line, r.id, " asks for methylation and also has a match or a model: make two rules of it")
			continue
		case methylation != nil:
			p.methylation(methylation, r)
			p.panel.rules = append(p.panel.rules, r)
			continue
		case model != nil:
			p.model(model, r)
			p.panel.rules = append(p.panel.rules, r)
			continue
		case match == nil:
			p.addRule(n.Line, r.id, " has no match: say which alleles it means, which model is asked, or which region's methylation")
			continue
		}
		p.match(match, &r.match)
		if p.found == before {
			p.checkMatch(r)
		}
		p.panel.rules = append(p.panel.rules, r)
	}
}

// match reads which alleles a rule means.
func (p *reader) match(n *yaml.Node, m *matchText) {
	m.line = n.Line
	p.mapping(n, "match", map[string]field{
		"hgvs": p.texts("hgvs", &m.hgvs),
		"vrs":  p.texts("vrs", &m.alleles),
		"vcf":  p.texts("vcf", &m.vcf),
		"positions": p.file("positions", func(name string, line int, text []byte) {
			m.positionsFile = true
			m.positions = p.readVCF(name, line, text)
		}),
		"gene":        p.texts("gene", &m.genes),
		"transcript":  p.texts("transcript", &m.transcripts),
		"flag":        p.texts("flag", &m.flags),
		"codon":       p.texts("codon", &m.codons),
		"region":      p.texts("region", &m.regions),
		"bed":         p.file("bed", func(name string, line int, text []byte) { m.bedFile = true; m.bed = p.readBED(name, line, text) }),
		"consequence": p.texts("consequence", &m.terms),
		"impact":      p.texts("impact", &m.impacts),
		"nmd":         p.texts("nmd", &m.nmd),
		"score":       p.texts("score", &m.scores),
		"span":        func(v *yaml.Node) { m.spanLine = v.Line; p.text("span", &m.span)(v) },
	})
}

// file reads a file beside the panel.
func (p *reader) file(what string, read func(name string, line int, text []byte)) field {
	return func(n *yaml.Node) {
		name, ok := p.scalar(what, n)
		if !ok {
			return
		}
		if !filepath.IsLocal(name) {
			p.add(n.Line, "%s: %q is not a file beside the panel: put it in the panel's folder and name it without a way up", what, clip(name))
			return
		}
		text, err := p.open(name)
		if err != nil {
			p.add(n.Line, "%s: %w", what, err)
			return
		}
		p.hash(text)
		read(name, n.Line, text)
	}
}

// checkMatch refuses combinations that mean nothing.
func (p *reader) checkMatch(r *ruleText) {
	m := &r.match
	located := len(m.alleles) > 0 && len(m.hgvs)+len(m.vcf) == 0 && !m.positionsFile &&
		len(m.genes)+len(m.transcripts) == 0
	switch {
	case !m.named() && !m.placed() && !m.classed():
		p.addRule(m.line, r.id, " is empty: name alleles (hgvs, vrs, vcf, positions), places (gene, transcript, region, bed) or classes (consequence, impact, score)")
	case m.named() && (m.classed() || len(m.codons)+len(m.flags)+len(m.scores) > 0 || m.span != ""):
		p.addRule(m.line, r.id, " names alleles and also consequence, impact, codon, flag, score or span: make two rules of it")
	case m.named() && m.placed() && !located:
		p.addRule(m.line, r.id, " names alleles and also places: make two rules of it (a region goes with vrs alone, to say where the allele lies)")
	case len(m.codons) > 0 && len(m.genes)+len(m.transcripts) == 0:
		p.addRule(m.line, r.id, " has codons but no gene or transcript: say whose")
	case m.span != "" && m.placed() && len(m.genes)+len(m.transcripts) == 0:
		p.addRule(m.spanLine, r.id, " has a span but no gene or transcript: a region is its own span")
	}
	switch m.span {
	case "", spanExons, spanCoding, spanGene:
	default:
		p.add(m.spanLine, "span: want %s, %s or %s, have %q", spanExons, spanCoding, spanGene, clip(m.span))
	}
}

// The spans of a gene that a rule covers.
const (
	spanExons  = "exons"  // exons and the bases beside them where splice terms apply
	spanCoding = "coding" // coding sequence alone
	spanGene   = "gene"   // from the first base to the last, introns included
)

// parseCodons reads "745" or "745-750".
func parseCodons(s string) (from, to int, err error) {
	a, b, isRange := cutRange(s)
	if from, err = strconv.Atoi(a); err != nil || from < 1 {
		return 0, 0, fmt.Errorf("codon %q: want a number from 1, or a range such as 745-750", clip(s))
	}
	if to = from; isRange {
		if to, err = strconv.Atoi(b); err != nil || to < from {
			return 0, 0, fmt.Errorf("codon %q: the end of the range is not a number from %d", clip(s), from)
		}
	}
	return from, to, nil
}

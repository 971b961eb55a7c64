package biomarker

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"

	"github.com/porestream/porestream/modelfile/folder"
)

// Limits of a model. Those of outputs and genes are far above any that makes sense; classifiers of methylation come close to that of features, as they are
// trained on arrays such as HumanMethylation450, which has 485,577 probes. A model of so many takes 57 MB and each sample 8 MB of memory (measured; alleles: 44 and 12 MB), opening it 50 MB for a moment.
const (
	maxFeatures = 500_000
	maxOutputs  = 1000
	maxGenes    = 1000
)

// Manifest is the file that says how to use a network. FORMAT.md describes it.
type Manifest struct {
	Format      int             `toml:"format"` // 1
	Kind        string          `toml:"kind"`   // "biomarker"
	Name        string          `toml:"name"`
	Version     string          `toml:"version"`
	Description string          `toml:"description"`
	Data        string          `toml:"data"`
	Licence     string          `toml:"licence"`
	Network     NetworkManifest `toml:"network"`
	Features    FileManifest    `toml:"features"`
	Scores      FileManifest    `toml:"scores,omitempty"`
	Encoding    Encoding        `toml:"encoding"`
	Genes       []Gene          `toml:"gene"`
	Outputs     []Output        `toml:"output"`
}

// NetworkManifest describes the ONNX file and its ends.
type NetworkManifest struct {
	File   string `toml:"file"` // relative to the manifest
	SHA256 string `toml:"sha256"`
	Input  string `toml:"input"`  // float32 [N, 1, 2 F]: values, then 1 for each that is known; [N, 1, F] where these are signed
	Output string `toml:"output"` // float32 [N, 1, K]
}

// FileManifest names a file beside the manifest.
type FileManifest struct {
	File   string `toml:"file"`
	SHA256 string `toml:"sha256"`
}

// Encoding says how residues and alleles become numbers.
type Encoding struct {
	PresentFrom float64 `toml:"present_from"` // share of the reads
	Fractions   bool    `toml:"fractions"`
	Signed      bool    `toml:"signed,omitempty"` // one number a feature: 0 if it is missing, else 2 value - 1
	Calls       int     `toml:"calls,omitempty"`  // of modified bases that a methylation needs to be known; 0: 1
}

// Gene is a protein by whose numbering codons are named.
type Gene struct {
	Name     string `toml:"name"`
	Sequence string `toml:"sequence"` // one letter a residue, X where it isn't known
}

// Output is what one answer is made of.
type Output struct {
	Name        string     `toml:"name"`
	Label       string     `toml:"label,omitempty"`
	Calibration [2]float64 `toml:"calibration"` // slope and offset of a logit
	Resistant   float64    `toml:"resistant,omitempty"`
	Susceptible float64    `toml:"susceptible,omitempty"`
	Classes     []string   `toml:"classes,omitempty"`
	Least       float64    `toml:"least,omitempty"`
	Genes       []string   `toml:"genes"`
	Decisive    []string   `toml:"decisive,omitempty"`
	MaxMissing  *float64   `toml:"max_missing,omitempty"` // nil: defaultMissing
	LeastSites  int        `toml:"least_sites,omitempty"` // of methylations, that must be known; 0: 1
}

// defaultMissing is the share of the codons that may be missing if an output says nothing.
const defaultMissing = 0.5

// width is how many of the network's numbers belong to the output.
func (o *Output) width() int { return max(1, len(o.Classes)) }

// Load reads the model whose manifest lies at the root of a file system. An error is one line and names the file.
func Load(fsys fs.FS) (*Model, error) {
	text, err := folder.ReadManifest(fsys)
	if err != nil {
		return nil, err
	}
	m := &Model{}
	if err := folder.Decode(text, folder.Biomarker, &m.Manifest); err != nil {
		return nil, fmt.Errorf("%s: %w", folder.Manifest, err)
	}
	if err := m.Manifest.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", folder.Manifest, err)
	}
	digest := sha256.New()
	digest.Write(text)
	read := func(key, name, checksum string) []byte {
		if err != nil {
			return nil
		}
		var data []byte
		if data, err = folder.Network(fsys, key, name, checksum); err == nil {
			sum := sha256.Sum256(data)
			digest.Write(sum[:])
		}
		return data
	}
	f := &m.Manifest
	m.Network = read("network.sha256", f.Network.File, f.Network.SHA256)
	features := read("features.sha256", f.Features.File, f.Features.SHA256)
	var scores []byte
	if f.Scores.File != "" {
		scores = read("scores.sha256", f.Scores.File, f.Scores.SHA256)
	}
	if err != nil {
		return nil, err
	}
	m.Digest = hex.EncodeToString(digest.Sum(nil))
	if err := m.build(features, scores); err != nil {
		return nil, err
	}
	return m, nil
}

// validate checks every field and reports all that is wrong, joined on one line.
func (m *Manifest) validate() error {
	if m.Format != 1 {
		return fmt.Errorf("format = %d is not one that this version reads (1)", m.Format)
	}
	var faults folder.Faults
	check := faults.Check
	check(m.Name != "", "name is missing")
	check(m.Version != "", "version is missing")
	check(m.Data != "", "data is missing: say what the model was made from")
	check(m.Licence != "", "licence is missing: say on what terms the model may be used")
	faults.CheckFile("network.file", m.Network.File, "network.sha256", m.Network.SHA256)
	faults.CheckFile("features.file", m.Features.File, "features.sha256", m.Features.SHA256)
	if m.Scores != (FileManifest{}) {
		faults.CheckFile("scores.file", m.Scores.File, "scores.sha256", m.Scores.SHA256)
	}
	check(m.Network.Input != "" && m.Network.Output != "", "network.input or network.output is missing")
	check(m.Encoding.PresentFrom > 0 && m.Encoding.PresentFrom <= 1, "encoding.present_from = %v is outside of 0 to 1", m.Encoding.PresentFrom)
	check(m.Encoding.Calls >= 0, "encoding.calls = %d is below 0", m.Encoding.Calls)
	check(len(m.Genes) <= maxGenes, "%d genes, the limit is %d", len(m.Genes), maxGenes)
	check(len(m.Outputs) > 0 && len(m.Outputs) <= maxOutputs, "%d outputs: want 1 to %d", len(m.Outputs), maxOutputs)
	genes := map[string]int{}
	for _, g := range m.Genes {
		check(g.Name != "" && !strings.ContainsAny(g.Name, ": \t+"), "gene name %q: want one without colon, plus and space", g.Name)
		check(g.Sequence != "" && strings.Trim(g.Sequence, "ABCDEFGHIKLMNOPQRSTUVWXYZ") == "", "gene %s: the sequence is not one of amino acids", g.Name)
		check(genes[g.Name] == 0, "gene %s is there twice", g.Name)
		genes[g.Name] = len(g.Sequence)
	}
	names := map[string]bool{}
	for i := range m.Outputs {
		o := &m.Outputs[i]
		check(o.Name != "" && !names[o.Name], "output %d: its name %q is empty or there twice", i+1, o.Name)
		names[o.Name] = true
		o.validate(genes, check)
	}
	return faults.Err()
}

func (o *Output) validate(genes map[string]int, check func(ok bool, format string, args ...any)) {
	slope, offset := o.Calibration[0], o.Calibration[1]
	check(slope > 0 && slope <= math.MaxFloat32 && math.Abs(offset) <= math.MaxFloat32, "output %s: calibration needs a slope above 0 and an offset, both finite", o.Name)
	if len(o.Classes) > 0 {
		check(len(o.Classes) > 1, "output %s: one class alone is no answer", o.Name)
		check(o.Resistant == 0 && o.Susceptible == 0, "output %s has classes and also resistant or susceptible", o.Name)
		check(o.Least >= 0 && o.Least < 1, "output %s: least = %v is outside of 0 to 1", o.Name, o.Least)
	} else {
		check(o.Susceptible > 0 && o.Susceptible <= o.Resistant && o.Resistant < 1, "output %s: want 0 < susceptible <= resistant < 1", o.Name)
	}
	check(o.MaxMissing == nil || *o.MaxMissing >= 0 && *o.MaxMissing < 1, "output %s: max_missing is outside of 0 to 1", o.Name)
	check(o.LeastSites >= 0 && o.LeastSites <= maxFeatures, "output %s: least_sites is outside of 0 to %d", o.Name, maxFeatures)
	for _, g := range o.Genes {
		check(genes[g] > 0, "output %s: gene %q is not among the model's", o.Name, g)
	}
	for _, text := range o.Decisive {
		c, err := parseCodon(text)
		check(err == nil && c.Number <= genes[c.Gene], "output %s: decisive codon %q is none of the model's genes", o.Name, text)
	}
}

var errCodon = errors.New("want a gene, a colon and a codon, such as RT:184")

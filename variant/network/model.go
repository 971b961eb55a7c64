package network

import (
	"crypto/sha256"
	"fmt"
	"io/fs"

	"github.com/porestream/porestream/modelfile/folder"
	"github.com/porestream/porestream/variant"
)

// Model is a network with what is needed to use it.
type Model struct {
	Manifest Manifest
	Network  []byte // the ONNX file
	Half     []byte // the same network in half precision, for GPUs; nil if there is none
}

// Manifest is the file beside a network that says how to use it.
type Manifest struct {
	Format      int    `toml:"format"` // 1
	Kind        string `toml:"kind"`   // "variant"
	Name        string `toml:"name"`
	Version     string `toml:"version"`
	Description string `toml:"description"`
	// ExampleVersion is the version of the layout of the examples that the network
	// was trained with, [variant.ExampleVersion].
	ExampleVersion int             `toml:"example_version"`
	Network        NetworkManifest `toml:"network"`
	// Calibration corrects probabilities, each for one type of allele and one
	// ploidy; what none is for stays as the network says.
	Calibration []Calibration `toml:"calibration,omitempty"`
	// Reads say whose reads the model was trained or calibrated for; none: it doesn't say.
	Reads []ReadSet `toml:"reads,omitempty"`
}

// NetworkManifest describes the ONNX file and its ends.
type NetworkManifest struct {
	File   string `toml:"file"` // relative to the manifest
	SHA256 string `toml:"sha256"`
	// HalfFile is the same network, with weights and inner values in half
	// precision and float32 ends, for GPUs; empty for none.
	HalfFile   string `toml:"half_file,omitempty"`
	HalfSHA256 string `toml:"half_sha256,omitempty"`
	Input      string `toml:"input"`  // name of the input, float32 [N, 1, variant.ExampleSize]
	Output     string `toml:"output"` // name of the output, float32 [N, 1, variant.Scores], logits
}

// LoadModel loads the model whose manifest lies at the root of a file system. It
// refuses a manifest with unknown keys, a network for examples of another layout,
// and one with another checksum than the manifest's.
func LoadModel(fsys fs.FS) (*Model, error) {
	text, err := folder.ReadManifest(fsys)
	if err != nil {
		return nil, err
	}
	manifest, err := ParseManifest(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder.Manifest, err)
	}
	model := &Model{Manifest: manifest}
	if model.Network, err = folder.Network(fsys, "network.sha256", manifest.Network.File, manifest.Network.SHA256); err != nil {
		return nil, err
	}
	if name := manifest.Network.HalfFile; name != "" {
		if model.Half, err = folder.Network(fsys, "network.half_sha256", name, manifest.Network.HalfSHA256); err != nil {
			return nil, err
		}
	}
	return model, nil
}

// ParseManifest parses and validates a manifest. The error of an invalid one
// lists everything that is wrong with it.
func ParseManifest(text []byte) (Manifest, error) {
	var m Manifest
	if err := folder.Decode(text, folder.Variant, &m); err != nil {
		return Manifest{}, err
	}
	if err := m.validate(); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

// validate checks every field and reports all that is wrong, joined on one line.
func (m *Manifest) validate() error {
	if m.Format != 1 {
		return fmt.Errorf("format = %d is not one that this version reads (1)", m.Format)
	}
	if m.ExampleVersion != variant.ExampleVersion {
		return fmt.Errorf("example_version = %d, but this version makes examples of version %d: the network would misread them",
			m.ExampleVersion, variant.ExampleVersion)
	}
	var faults folder.Faults
	faults.Check(m.Name != "", "name is missing")
	n := m.Network
	faults.CheckFile("network.file", n.File, "network.sha256", n.SHA256)
	if n.HalfFile != "" || n.HalfSHA256 != "" {
		faults.CheckFile("network.half_file", n.HalfFile, "network.half_sha256", n.HalfSHA256)
	}
	faults.Check(n.Input != "", "network.input is missing")
	faults.Check(n.Output != "", "network.output is missing")
	validateCalibrations(m.Calibration, faults.Check)
	validateReadSets(m.Reads, faults.Check)
	return faults.Err()
}

// fingerprint differs between models that score differently. It covers their
// networks and their calibration, not their names and descriptions.
func (m *Model) fingerprint() string {
	h := sha256.New()
	fmt.Fprintf(h, "examples %d calibration %+v\n", m.Manifest.ExampleVersion, m.Manifest.Calibration)
	for i := range m.Manifest.Reads {
		fmt.Fprintf(h, "reads %s\n", m.Manifest.Reads[i].fingerprint())
	}
	for _, network := range [][]byte{m.Network, m.Half} {
		fmt.Fprintf(h, "network of %d bytes\n", len(network))
		h.Write(network)
	}
	return fmt.Sprintf("%s sha256:%x", m.Manifest.Name, h.Sum(nil))
}

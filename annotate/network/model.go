package network

import (
	"fmt"
	"io/fs"

	"github.com/porestream/porestream/annotate/score"
	"github.com/porestream/porestream/modelfile/folder"
)

// Model is networks with what is needed to use them.
type Model struct {
	Manifest score.Manifest
	Networks [][]byte // ONNX files, in the manifest's order
}

// OpenModel opens the folder of a model.
func OpenModel(dir string) (*Model, error) {
	fsys, err := folder.Open(dir)
	if err != nil {
		return nil, err
	}
	m, err := LoadModel(fsys)
	if err != nil {
		return nil, fmt.Errorf("opening network %s: %w", dir, err)
	}
	return m, nil
}

// LoadModel loads the model whose manifest lies at the root of a file system. It refuses a manifest that makes no sense, and a
// network with another checksum than the manifest's.
func LoadModel(fsys fs.FS) (*Model, error) {
	manifest, err := score.LoadManifest(fsys)
	if err != nil {
		return nil, err
	}
	m := &Model{Manifest: manifest}
	for i, n := range manifest.Networks {
		onnx, err := folder.Network(fsys, fmt.Sprintf("networks[%d].sha256", i), n.File, n.SHA256)
		if err != nil {
			return nil, err
		}
		m.Networks = append(m.Networks, onnx)
	}
	return m, nil
}

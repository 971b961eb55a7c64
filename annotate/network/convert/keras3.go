package convert

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/porestream/porestream/basecall/onnxgraph"
	"github.com/porestream/porestream/signal/hdf5"
)

// What Keras 3 saves is a zip of two files that matter: the layers as JSON, and their weights as HDF5.
const (
	layersFile  = "config.json"
	weightsFile = "model.weights.h5"
	// maxLayersFile bounds the first: the published networks have 100 kB.
	maxLayersFile = 1 << 24
)

// zipped returns the two files of what Keras 3 saves; nil if it isn't that. PyTorch saves zips, too.
func zipped(r io.ReaderAt, size int64) (layers, weights *zip.File) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, nil
	}
	for _, f := range z.File {
		switch f.Name {
		case layersFile:
			layers = f
		case weightsFile:
			weights = f
		}
	}
	if layers == nil || weights == nil {
		return nil, nil
	}
	return layers, weights
}

// unzip reads a file that has no more bytes than most, whatever it claims.
func unzip(f *zip.File, most int64) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("reading its %s: %w", f.Name, err)
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, fmt.Errorf("reading its %s: %w", f.Name, err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("its %s has more than %d bytes", f.Name, most)
	}
	return data, nil
}

// buildKeras3 is buildKeras for a zip of Keras 3.
func buildKeras3(data []byte) (onnx []byte, context int, err error) {
	layers, weights := zipped(bytes.NewReader(data), int64(len(data)))
	if layers == nil {
		return nil, 0, errors.New("it is no zip with " + layersFile + " and " + weightsFile)
	}
	text, err := unzip(layers, maxLayersFile)
	if err != nil {
		return nil, 0, err
	}
	model, err := parseModel(text, "its "+layersFile)
	if err != nil {
		return nil, 0, err
	}
	if data, err = unzip(weights, maxKeras); err != nil {
		return nil, 0, err
	}
	return buildNumbered(model, data)
}

// buildNumbered is buildKeras for layers and the HDF5 file with their weights.
func buildNumbered(model *kerasModel, weights []byte) (onnx []byte, context int, err error) {
	f, err := hdf5.Open(weights)
	if err != nil {
		return nil, 0, fmt.Errorf("its %s: %w", weightsFile, err)
	}
	root, err := f.Root()
	if err != nil {
		return nil, 0, fmt.Errorf("its %s: %w", weightsFile, err)
	}
	k := newKeras(len(weights))
	if k.numbered, err = groupsByLayer(root); err != nil {
		return nil, 0, err
	}
	return k.build(model)
}

func newKeras(bytes int) *keras {
	return &keras{space: bytes, g: onnxgraph.New("splicing", false), layers: map[string]*kerasLayer{}, uses: map[string]int{}, values: map[string]value{}}
}

// groupsByLayer are the groups of weights by the names of the layers. Keras 3 names groups after the classes of layers, numbered, and
// leaves the layer's own name as an attribute.
func groupsByLayer(root *hdf5.Object) (map[string]*hdf5.Object, error) {
	layers, err := root.Open("layers")
	if err != nil {
		return nil, fmt.Errorf("its %s has no group layers, as Keras 3 writes it: save the network as .h5: %w", weightsFile, err)
	}
	links, err := layers.Links()
	if err != nil {
		return nil, err
	}
	if len(links) > maxLinks*10 {
		return nil, fmt.Errorf("its %s has %d layers", weightsFile, len(links))
	}
	groups := map[string]*hdf5.Object{}
	for _, link := range links {
		group, err := layers.Follow(link)
		if err != nil {
			return nil, err
		}
		if !group.IsGroup() {
			continue
		}
		vars, err := group.Open("vars")
		if err != nil {
			continue // a layer within which are others: none of those that are known
		}
		attributes, err := vars.Attributes()
		if err != nil {
			return nil, err
		}
		name := ""
		for _, a := range attributes {
			if a.Name == "name" {
				name = a.Value.String()
			}
		}
		if name == "" {
			return nil, fmt.Errorf("its %s doesn't say which layer the weights %q are of, as early versions of Keras 3 wrote it: load it with a later one and save it again", weightsFile, link.Name)
		}
		if groups[name] != nil {
			return nil, fmt.Errorf("its %s has the weights of layer %q twice", weightsFile, name)
		}
		groups[name] = vars
	}
	return groups, nil
}

// numberedWeights are those of a layer that Keras 3 numbers in the order in which they are made.
func numberedWeights(vars *hdf5.Object, layer string, names []string) *layerWeights {
	w := &layerWeights{layer: layer, all: map[string]*hdf5.Object{}}
	if vars == nil {
		w.err = fmt.Errorf("layer %s has no weights", layer)
		return w
	}
	if w.err = w.collect(vars, deepest); w.err != nil {
		return w
	}
	if len(w.all) != len(names) {
		w.err = fmt.Errorf("layer %s has %d weights, not %d", layer, len(w.all), len(names))
		return w
	}
	numbered := w.all
	w.all = map[string]*hdf5.Object{}
	for i, name := range names {
		w.all[name] = numbered[strconv.Itoa(i)]
	}
	return w
}

// callsOf are the names of the layers whose values a call of Keras 3 has as arguments, in lists or not.
func callsOf(argument json.RawMessage, depth int, names []string) ([]string, error) {
	const most = 4 // lists in each other
	var list []json.RawMessage
	if json.Unmarshal(argument, &list) == nil && list != nil {
		if depth == most {
			return nil, errors.New("lists are too deep")
		}
		for _, a := range list {
			var err error
			if names, err = callsOf(a, depth+1, names); err != nil {
				return nil, err
			}
		}
		return names, nil
	}
	var tensor struct {
		Class  string `json:"class_name"`
		Config struct {
			History []json.RawMessage `json:"keras_history"`
		} `json:"config"`
	}
	var name string
	if json.Unmarshal(argument, &tensor) != nil || tensor.Class != "__keras_tensor__" || len(tensor.Config.History) == 0 ||
		json.Unmarshal(tensor.Config.History[0], &name) != nil {
		return nil, errors.New("an argument is no value of a layer")
	}
	return append(names, name), nil
}

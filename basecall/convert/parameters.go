package convert

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/basecall/convert/torch"
)

// parameters are a model's tensors, by the names that Bonito's modules give them,
// without "encoder.".
type parameters struct {
	where   string // file or folder, for errors
	tensors map[string]torch.Tensor
	// fused says that batch normalisation is part of the convolutions.
	fused bool
	// numbers gives the numbers of layers in the files, where they differ from
	// those in the configuration.
	numbers map[string]string
}

// maxTensorFiles is far above the number of any model's parameters.
const maxTensorFiles = 10_000

// tensorSuffix is that of Dorado's files, of which each holds a parameter.
const tensorSuffix = ".tensor"

var weightsFile = regexp.MustCompile(`^weights_(\d{1,9})\.tar$`)

// readParameters reads a model's parameters, whichever program wrote them.
func readParameters(dir string, e encoder) (*parameters, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var tensors []string
	checkpoint, number := "", -1
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasSuffix(name, tensorSuffix) {
			tensors = append(tensors, name)
		}
		if m := weightsFile.FindStringSubmatch(name); m != nil {
			if n, _ := strconv.Atoi(m[1]); n > number { // digits only
				checkpoint, number = name, n
			}
		}
	}
	switch {
	case len(tensors) > 0 && checkpoint != "":
		return nil, fmt.Errorf("%s has both .tensor files and %s: which of them are the model's parameters?", dir, checkpoint)
	case len(tensors) > maxTensorFiles:
		return nil, fmt.Errorf("%s has more than %d .tensor files", dir, maxTensorFiles)
	case len(tensors) > 0 && e.crf == nil:
		return nil, fmt.Errorf("%s has .tensor files, as models of Dorado, which no network of blocks is", dir)
	case len(tensors) > 0:
		return readDorado(dir, tensors, e)
	case checkpoint != "":
		return readBonito(filepath.Join(dir, checkpoint))
	}
	return nil, fmt.Errorf("%s has neither .tensor files, as a model of Dorado, nor weights_N.tar, as one of Bonito", dir)
}

// readBonito reads a checkpoint.
func readBonito(name string) (*parameters, error) {
	all, err := torch.ReadFile(name)
	if err != nil {
		return nil, err
	}
	p := &parameters{where: name, tensors: make(map[string]torch.Tensor, len(all))}
	for key, t := range all {
		// Training on several GPUs wraps the model in a module of that name.
		key = strings.TrimPrefix(key, "module.")
		if key, ok := strings.CutPrefix(key, "encoder."); ok {
			p.tensors[key] = t
		} else if strings.HasPrefix(key, "decoder.") { // QuartzNet's last layer
			p.tensors[key] = t
		}
	}
	if len(p.tensors) == 0 {
		return nil, fmt.Errorf("%s has no tensors whose names begin with \"encoder.\"", name)
	}
	return p, nil
}

// readDorado reads the files of an exported model.
func readDorado(dir string, files []string, e encoder) (*parameters, error) {
	p := &parameters{where: dir, tensors: make(map[string]torch.Tensor, len(files)), fused: true}
	for _, file := range files {
		t, err := torch.ReadOne(filepath.Join(dir, file))
		if err != nil {
			return nil, err
		}
		p.tensors[strings.TrimSuffix(file, tensorSuffix)] = t
	}
	// Bonito's export leaves clamps out when it numbers layers, except in models
	// that have one at the end only, where it makes no difference.
	numbers := e.withoutClamps()
	if at, renumbered := numbers[e.crf.at]; renumbered {
		if _, there := p.tensors[at+".linear.weight"]; there {
			p.numbers = numbers
		}
	}
	return p, nil
}

// withoutClamps maps the numbers of a serial encoder's layers to those that they
// have if clamps don't count.
func (e encoder) withoutClamps() map[string]string {
	numbers := make(map[string]string)
	clamps := 0
	for i, l := range e.layers {
		if _, is := l.(clampLayer); is {
			clamps++
		}
		numbers[strconv.Itoa(i)] = strconv.Itoa(i - clamps)
	}
	return numbers
}

// key returns the name that a parameter has in the files.
func (p *parameters) key(at, name string) string {
	if number, ok := p.numbers[at]; ok {
		at = number
	}
	return at + "." + name
}

// get returns a parameter of a layer, which must have the given shape.
func (p *parameters) get(at, name string, shape ...int) ([]float32, error) {
	key := p.key(at, name)
	t, ok := p.tensors[key]
	if !ok {
		return nil, fmt.Errorf("%s: parameter %s is missing", p.where, key)
	}
	if !slices.Equal(t.Shape, shape) {
		return nil, fmt.Errorf("%s: parameter %s has shape %d, but %s describes %d", p.where, key, t.Shape, configFile, shape)
	}
	for _, v := range t.Data {
		if v-v != 0 {
			return nil, fmt.Errorf("%s: parameter %s holds %v", p.where, key, v)
		}
	}
	return t.Data, nil
}

// errLayout is what a layer says that gets its input in an order of axes it can't use.
var errLayout = errors.New("the layers before it give their values in another order of axes than it takes")

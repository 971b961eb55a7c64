package convert

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	basecaller "github.com/porestream/porestream/basecall/convert"
	"github.com/porestream/porestream/basecall/convert/torch"
	"github.com/porestream/porestream/modbase/network"
)

// Options say what a model's files don't, or other than they do. Zero values take it from there.
type Options struct {
	// Name is the converted model's; empty takes that of the folder or file.
	Name string
	// Chemistry is the pore that it is for, such as "r10.4.1", and SampleRate in Hz.
	Chemistry  string
	SampleRate int
	// Basecaller is the basecalling model that it follows, by Dorado's name; [AnyBasecaller] for all of the pore.
	Basecaller string
}

// AnyBasecaller stands for all basecalling models of a model's pore.
const AnyBasecaller = "any"

// Open opens a model of any form: a file of Remora or one that was converted, or what Convert reads, which is converted.
func Open(path string) (*network.Model, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil, !info.IsDir() && !isDeepMod2File(path):
		return network.OpenModel(path)
	case info.IsDir() && !isDorado(path):
		return nil, fmt.Errorf("opening modified-base model %s: it is neither a folder of Dorado's for modified bases, whose %s has a table [modbases], nor an .onnx file", path, configFile)
	}
	data, err := Convert(path, Options{})
	if err != nil {
		return nil, err
	}
	return network.ParseModel(data, path)
}

// Is reports whether Convert reads a folder, or file, as far as can be seen before it is converted.
func Is(path string) bool {
	info, err := os.Stat(path)
	return err == nil && (info.IsDir() && isDorado(path) || !info.IsDir() && isDeepMod2File(path))
}

// Convert reads a model of another program and returns the file that package network reads.
func Convert(path string, opts Options) ([]byte, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("converting %s: %w", path, err)
	}
	data, err := convert(abs, opts)
	if err != nil {
		return nil, fmt.Errorf("converting %s: %w", path, err)
	}
	return data, nil
}

func convert(path string, opts Options) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	var c *converted
	if info.IsDir() {
		c, err = readDorado(path)
	} else {
		c, err = readDeepMod2(path, &opts)
	}
	if err != nil {
		return nil, err
	}
	if err := c.called(nameOf(path), opts); err != nil {
		return nil, err
	}
	return c.File()
}

// nameOf is what a model is called after its file.
func nameOf(path string) string {
	return strings.TrimSuffix(filepath.Base(path), ".pt")
}

// converted is a network in the making.
type converted struct{ network.Converted }

var follows = regexp.MustCompile(`^(.+?@v[0-9.]+)_`)

// called takes over what the name of a folder or file and options say.
func (c *converted) called(name string, opts Options) error {
	pore, rate := basecaller.Named(name)
	c.Name = cmp.Or(opts.Name, name)
	c.Chemistry = cmp.Or(opts.Chemistry, pore)
	if c.Chemistry == "" {
		return fmt.Errorf("its name %q doesn't begin with a chemistry, as dna_r10.4.1_e8.2_400bps_hac@v5.0.0_5mCG_5hmCG@v3 does: give it with --chemistry", name)
	}
	if strings.HasPrefix(c.Chemistry, "rna") {
		return fmt.Errorf("it is for RNA (%s), whose modified bases aren't called", c.Chemistry)
	}
	if c.SampleRate = cmp.Or(opts.SampleRate, rate); c.SampleRate == 0 && c.Chemistry == "r10.4.1" {
		c.SampleRate = lateRate
	}
	if c.SampleRate == 0 {
		return errors.New("its name doesn't say the sample rate: give it with --sample-rate")
	}
	if m := follows.FindStringSubmatch(name); m != nil {
		c.Basecaller = m[1]
	}
	if opts.Basecaller != "" {
		c.Basecaller = strings.TrimPrefix(opts.Basecaller, AnyBasecaller)
	}
	return nil
}

// lateRate is that of all models for R10.4.1 since 4.2, whose names don't say it.
const lateRate = 5000

// parameters are a network's tensors by name.
type parameters struct {
	where string
	of    func(name string) (torch.Tensor, error)
}

// get returns a parameter, which must have the given shape.
func (p *parameters) get(name string, shape ...int) ([]float32, error) {
	t, err := p.of(name)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(t.Shape, shape) {
		return nil, fmt.Errorf("%s: parameter %s has shape %d, not %d as its configuration says", p.where, name, t.Shape, shape)
	}
	for _, v := range t.Data {
		if v-v != 0 {
			return nil, fmt.Errorf("%s: parameter %s holds %v", p.where, name, v)
		}
	}
	return t.Data, nil
}

// pair returns the weights of a layer, of the given shape, and its biases, of which there is one for each of the first axis.
func (p *parameters) pair(name string, shape ...int) (weight, bias []float32, err error) {
	if weight, err = p.get(name+".weight", shape...); err != nil {
		return nil, nil, err
	}
	bias, err = p.get(name+".bias", shape[0])
	return weight, bias, err
}

// tensorFile returns the parameter in a file of Dorado's.
func tensorFile(file string) (torch.Tensor, error) {
	t, err := torch.ReadOne(file)
	if errors.Is(err, os.ErrNotExist) {
		return t, fmt.Errorf("parameter %s is missing", filepath.Base(file))
	}
	return t, err
}

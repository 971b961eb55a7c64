package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/porestream/porestream/modbase"
)

const configFile = "config.toml"

// Limits on configurations, far above any real model's, so that products don't overflow.
const (
	maxConfigBytes = 1 << 20
	maxSize        = 4096
	maxChunk       = 10_000
	maxBases       = 9 // on either side of one
)

// config is what counts of a model's config.toml.
type config struct {
	General struct {
		Model string `toml:"model"`
	} `toml:"general"`
	Params struct {
		Size           int  `toml:"size"`
		KmerLength     int  `toml:"kmer_len"`
		Outputs        int  `toml:"num_out"`
		Stride         *int `toml:"stride"`
		SequenceStride *int `toml:"sequence_stride"`
	} `toml:"model_params"`
	Modbases struct {
		Codes       any    `toml:"mod_bases"`
		Offset      int    `toml:"offset"`
		Reversed    bool   `toml:"reverse_signal"`
		FromStart   bool   `toml:"base_start_justify"`
		Before      int    `toml:"chunk_context_0"`
		After       int    `toml:"chunk_context_1"`
		BasesBefore int    `toml:"kmer_context_bases_0"`
		BasesAfter  int    `toml:"kmer_context_bases_1"`
		Motif       string `toml:"motif"`
		Place       int    `toml:"motif_offset"`
		Chunk       *int   `toml:"chunk_size"`
	} `toml:"modbases"`
	Refinement struct {
		Rescale int `toml:"refine_do_rough_rescale"`
		Centre  int `toml:"refine_kmer_center_idx"`
	} `toml:"refinement"`
	SequenceEncoder layers `toml:"sequence_encoder"`
	SignalEncoder   layers `toml:"signal_encoder"`
	Encoder         layers `toml:"encoder"`

	codes []modbase.Code
	names []string
}

type layers struct {
	Sublayers []sublayer `toml:"sublayers"`
}

// sublayer is any of them; those of a kind have only some of these keys.
type sublayer struct {
	Type       string `toml:"type"`
	In         int    `toml:"insize"`
	Size       int    `toml:"size"`
	Width      int    `toml:"winlen"`
	Stride     int    `toml:"stride"`
	Padding    *int   `toml:"padding"`
	Activation string `toml:"activation"`
	Reverse    any    `toml:"reverse"` // 0, 1 or a truth value
	From       int    `toml:"in_features"`
	To         int    `toml:"out_features"`
}

// known are the keys of tables of which all must be known. What else tables hold has no effect in Dorado either.
var known = map[string][]string{
	"model_params": {"size", "kmer_len", "num_out", "stride", "sequence_stride"},
	"modbases": {
		"mod_bases", "offset", "reverse_signal", "base_start_justify", "chunk_context_0", "chunk_context_1", "kmer_context_bases_0",
		"kmer_context_bases_1", "motif", "motif_offset", "chunk_size",
	},
	"convolution": {"type", "insize", "size", "winlen", "stride", "padding", "activation"},
	"lstm":        {"type", "size", "reverse"},
	"linear":      {"type", "in_features", "out_features"},
}

// isDorado reports whether a folder holds a model for modified bases as Dorado has it. Whether it can be used is seen when it is
// opened.
func isDorado(dir string) bool {
	text, err := readConfig(dir)
	if err != nil {
		return false
	}
	var table map[string]any
	if toml.Unmarshal(text, &table) != nil {
		return false
	}
	_, ok := table["modbases"]
	return ok
}

func readConfig(dir string) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, configFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err == nil && len(text) > maxConfigBytes {
		err = fmt.Errorf("it has more than %d bytes", maxConfigBytes)
	}
	return text, err
}

// parseConfig reads a config.toml. Its error is of one line.
func parseConfig(text []byte) (*config, error) {
	var all map[string]any
	c := &config{}
	err := toml.Unmarshal(text, &all)
	if err == nil {
		err = toml.NewDecoder(bytes.NewReader(text)).Decode(c)
	}
	if syntax := new(toml.DecodeError); errors.As(err, &syntax) {
		row, _ := syntax.Position()
		return nil, fmt.Errorf("line %d: %s", row, strings.TrimPrefix(syntax.Error(), "toml: "))
	}
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if err := checkKeys(all); err != nil {
		return nil, err
	}
	params, _ := all["modbases"].(map[string]any)
	if err := c.readCodes(params); err != nil {
		return nil, err
	}
	return c, c.check()
}

// checkKeys refuses keys that nobody knows.
func checkKeys(all map[string]any) error {
	unknown := func(where string, table map[string]any, allowed []string) error {
		var bad []string
		for key := range table {
			if !slices.Contains(allowed, key) && !(where == "modbases" && strings.HasPrefix(key, longName)) {
				bad = append(bad, key)
			}
		}
		if len(bad) == 0 {
			return nil
		}
		return fmt.Errorf("%s.%s is not a setting that is known", where, slices.Min(bad))
	}
	for _, where := range []string{"model_params", "modbases"} {
		table, ok := all[where].(map[string]any)
		if !ok {
			return fmt.Errorf("it has no table [%s]", where)
		}
		if err := unknown(where, table, known[where]); err != nil {
			return err
		}
	}
	for _, where := range []string{"sequence_encoder", "signal_encoder", "encoder"} {
		table, _ := all[where].(map[string]any)
		list, _ := table["sublayers"].([]any)
		for i, item := range list {
			layer, _ := item.(map[string]any)
			kind, _ := layer["type"].(string)
			at := fmt.Sprintf("%s.sublayers[%d]", where, i)
			if known[kind] == nil || kind == "model_params" || kind == "modbases" {
				return fmt.Errorf("%s: layer %q is not supported", at, kind)
			}
			if err := unknown(at+" ("+kind+")", layer, known[kind]); err != nil {
				return err
			}
		}
	}
	return nil
}

const longName = "mod_long_names_"

// readCodes reads the modifications: letters in one word, or a list of letters and numbers of ChEBI.
func (cfg *config) readCodes(params map[string]any) error {
	var texts []string
	switch v := cfg.Modbases.Codes.(type) {
	case string:
		texts = strings.Split(v, "")
	case []any:
		for _, item := range v {
			texts = append(texts, fmt.Sprint(item))
		}
	}
	if len(texts) == 0 {
		return errors.New("modbases.mod_bases names no modification")
	}
	for i, text := range texts {
		code, err := modbase.ParseCode(text)
		if err != nil {
			return fmt.Errorf("modbases.mod_bases: %w", err)
		}
		name, _ := params[fmt.Sprintf("%s%d", longName, i)].(string)
		cfg.codes, cfg.names = append(cfg.codes, code), append(cfg.names, name)
	}
	return nil
}

// check refuses what can't be built, or would be built otherwise than Dorado has it.
func (cfg *config) check() error {
	m, p := &cfg.Modbases, &cfg.Params
	for _, n := range []struct {
		what             string
		value, low, high int
	}{
		{"model_params.size", p.Size, 1, maxSize}, {"model_params.num_out", p.Outputs, 2, 64},
		{"modbases.chunk_context_0", m.Before, 0, maxChunk}, {"modbases.chunk_context_1", m.After, 1, maxChunk},
		{"modbases.kmer_context_bases_0", m.BasesBefore, 0, maxBases}, {"modbases.kmer_context_bases_1", m.BasesAfter, 0, maxBases},
		{"modbases.motif_offset", m.Place, 0, max(0, len(m.Motif)-1)},
	} {
		if n.value < n.low || n.value > n.high {
			return fmt.Errorf("%s = %d is no number from %d to %d", n.what, n.value, n.low, n.high)
		}
	}
	for _, n := range []struct {
		what  string
		value *int
	}{{"model_params.stride", p.Stride}, {"model_params.sequence_stride", p.SequenceStride}, {"modbases.chunk_size", m.Chunk}} {
		if n.value != nil && (*n.value < 1 || *n.value > maxChunk) {
			return fmt.Errorf("%s = %d is no number from 1 to %d", n.what, *n.value, maxChunk)
		}
	}
	switch {
	case m.Reversed:
		return errors.New("it is for RNA (modbases.reverse_signal), whose modified bases aren't called")
	case m.Offset != 0:
		return fmt.Errorf("modbases.offset = %d is not supported, only 0", m.Offset)
	case p.KmerLength != m.BasesBefore+1+m.BasesAfter:
		return fmt.Errorf("model_params.kmer_len = %d, but modbases.kmer_context_bases are %d and %d", p.KmerLength, m.BasesBefore, m.BasesAfter)
	case p.Outputs != len(cfg.codes)+1:
		return fmt.Errorf("model_params.num_out = %d, but modbases.mod_bases has %d modifications", p.Outputs, len(cfg.codes))
	}
	return nil
}

// orElse is a number that is there, or another one.
func orElse(n *int, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return *n
}

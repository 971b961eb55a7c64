package convert

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// maxConfigBytes is far above any model's configuration.
const maxConfigBytes = 1 << 20

// settings is a table of a configuration. It knows which keys were asked for, so that
// those that nobody understands can be refused.
type settings struct {
	where string // for errors, such as "encoder.sublayers[3] (lstm)"
	table map[string]any
	asked map[string]bool
	errs  *[]error
}

func newSettings(where string, table map[string]any, errs *[]error) settings {
	return settings{where: where, table: table, asked: make(map[string]bool), errs: errs}
}

func (s settings) fail(format string, args ...any) {
	*s.errs = append(*s.errs, fmt.Errorf("%s: "+format, append([]any{s.where}, args...)...))
}

// get returns the value of a key. Without it, it returns nil.
func (s settings) get(key string) any {
	s.asked[key] = true
	return s.table[key]
}

// has reports whether there is a key.
func (s settings) has(key string) bool { return s.table[key] != nil }

// number returns a number, or a default where there is none; with NaN as the
// default the key has to be there.
func (s settings) number(key string, def float64) float64 {
	switch v := s.get(key).(type) {
	case nil:
		if math.IsNaN(def) {
			s.fail("%s is missing", key)
			return 0
		}
		return def
	case int64:
		return float64(v)
	case float64:
		return v
	default:
		s.fail("%s = %v is not a number", key, v)
		return 0
	}
}

// required is the default of a number that has to be there.
var required = math.NaN()

// maxSize bounds every size in a configuration, so that products don't overflow.
const maxSize = 1 << 20

// size returns a whole number from 1 to maxSize.
func (s settings) size(key string, def float64) int {
	v := s.number(key, def)
	if v != math.Trunc(v) || v < 1 || v > maxSize {
		if math.IsNaN(def) && !s.has(key) {
			return 1 // reported already
		}
		s.fail("%s = %v is not a whole number from 1 to %d", key, v, maxSize)
		return 1
	}
	return int(v)
}

// flag returns a truth value, which Bonito writes as 0 and 1, too.
func (s settings) flag(key string, def bool) bool {
	switch v := s.get(key).(type) {
	case nil:
		return def
	case bool:
		return v
	case int64:
		if v == 0 || v == 1 {
			return v == 1
		}
	}
	s.fail("%s = %v is neither true nor false", key, s.table[key])
	return false
}

// text returns a string; empty if there is none.
func (s settings) text(key string) string {
	switch v := s.get(key).(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		s.fail("%s = %v is not a string", key, v)
		return ""
	}
}

// list returns whole numbers.
func (s settings) list(key string) []int {
	items, ok := s.get(key).([]any)
	if !ok && s.has(key) {
		s.fail("%s = %v is not a list", key, s.table[key])
	}
	var numbers []int
	for _, item := range items {
		n, ok := item.(int64)
		if !ok || n < -1 || n > maxSize {
			s.fail("%s = %v is not a list of whole numbers", key, items)
			return nil
		}
		numbers = append(numbers, int(n))
	}
	return numbers
}

// single returns the whole number in a list of one, as QuartzNet's settings are written.
func (s settings) single(key string) int {
	numbers := s.list(key)
	if len(numbers) != 1 || numbers[0] < 1 {
		s.fail("%s = %v is not a list of one number from 1 to %d", key, s.table[key], maxSize)
		return 1
	}
	return numbers[0]
}

// sub returns a table within; an empty one if there is none.
func (s settings) sub(key string) settings {
	where := strings.TrimPrefix(s.where+"."+key, configFile+".")
	table, ok := s.get(key).(map[string]any)
	if !ok && s.has(key) {
		s.fail("%s is not a table", key)
	}
	return newSettings(where, table, s.errs)
}

// tables returns a list of tables.
func (s settings) tables(key string) []settings {
	items, ok := s.get(key).([]any)
	if !ok {
		s.fail("%s is not a list of tables", key)
	}
	var subs []settings
	for i, item := range items {
		where := fmt.Sprintf("%s.%s[%d]", s.where, key, i)
		table, ok := item.(map[string]any)
		if !ok {
			s.fail("%s[%d] is not a table", key, i)
		}
		if kind, ok := table["type"].(string); ok {
			where += " (" + kind + ")"
		}
		subs = append(subs, newSettings(where, table, s.errs))
	}
	return subs
}

// done refuses the keys that nobody has asked for.
func (s settings) done() {
	for _, key := range slices.Sorted(maps.Keys(s.table)) {
		if !s.asked[key] {
			s.fail("%s is not a setting that is known", key)
		}
	}
}

// config is what a config.toml says.
type config struct {
	encoder    encoder
	sampleType string // "dna", "rna002", "rna004"; empty if it isn't said
	sampleRate,
	chunk, overlap int
	scaling          scaling
	qScale, qBias    float64
	meanQualityStart int
	unused           []string // settings that nothing here depends on, such as "poly_a.calibration"
}

// scaling is how current becomes the network's input.
type scaling struct {
	strategy                     string // "quantile", "pa", "med_mad"; empty if it isn't said
	quantileA, quantileB         float64
	shiftMultiplier, scaleFactor float64
	mean, stdev                  float64
}

// Windows of networks of blocks whose configuration doesn't say: Bonito called whole
// reads. A frame of the network for R9.4.1 depends on 1.6 thousand samples on either
// side.
const (
	blocksWindow  = 9000
	blocksOverlap = 1200
)

const configFile = "config.toml"

// readConfig reads a model's configuration. Its error lists all that is wrong.
func readConfig(dir string) (*config, error) {
	name := filepath.Join(dir, configFile)
	info, err := os.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s has no %s: it is not a model of Bonito or Dorado", dir, configFile)
	}
	if err != nil {
		return nil, err
	}
	if info.Size() > maxConfigBytes {
		return nil, fmt.Errorf("%s: larger than %d bytes", name, maxConfigBytes)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	c, err := parseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// parseConfig parses a config.toml.
func parseConfig(text []byte) (*config, error) {
	var table map[string]any
	if err := toml.Unmarshal(text, &table); err != nil {
		var syntax *toml.DecodeError
		if errors.As(err, &syntax) {
			row, _ := syntax.Position()
			return nil, fmt.Errorf("line %d: %s", row, strings.TrimPrefix(syntax.Error(), "toml: "))
		}
		return nil, err
	}
	var errs []error
	top := newSettings(configFile, table, &errs)
	c := &config{}
	c.parse(top)
	if len(errs) > 0 {
		lines := make([]string, len(errs))
		for i, err := range errs {
			lines[i] = strings.TrimPrefix(err.Error(), configFile+": ") // which the caller names with its folder
		}
		return nil, errors.New(strings.Join(lines, "; "))
	}
	return c, nil
}

func (c *config) parse(top settings) {
	switch {
	case top.has("modbases"):
		top.fail("it is a model of modified bases, for --modified-bases, not one that basecalls")
		return
	case top.has("block"): // QuartzNet's, of which the table model may be a name
	case !top.has("encoder") && !top.sub("model").has("encoder"):
		top.fail("it describes no encoder: only networks of bonito.crf, bonito.transformer and bonito.ctc are converted, not package %q", top.sub("model").text("package"))
		return
	}
	if n := top.sub("input").size("features", 1); n != 1 {
		top.fail("input.features = %d: it is a duplex model, which isn't called", n)
	}
	if top.has("block") {
		checkLabels(top.sub("labels"), "labels")
		c.encoder = parseBlocks(top)
	} else {
		seqdist := top.sub("model").sub("seqdist")
		checkLabels(top.sub("labels"), "labels")
		checkLabels(seqdist, "alphabet")
		c.encoder = parseEncoder(top)
		stateLength := top.sub("global_norm").number("state_len", seqdist.number("state_len", 0))
		if crf := c.encoder.crf; stateLength != 0 && crf != nil && stateLength != float64(crf.stateLength) {
			top.fail("state_len is %v, but that of the linearcrfencoder %d", stateLength, crf.stateLength)
		}
	}
	run := top.sub("run_info")
	if run.has("sample_rate") {
		c.sampleRate = run.size("sample_rate", required)
	}
	c.sampleType = strings.ToLower(run.text("sample_type"))
	if !slices.Contains([]string{"", "dna", "rna002", "rna004"}, c.sampleType) {
		run.fail("sample_type = %q is none of dna, rna002, rna004", c.sampleType)
	}
	q := top.sub("qscore")
	c.qScale, c.qBias = q.number("scale", 1), q.number("bias", 0)
	// Dorado leaves out the first 60 bases unless a model says otherwise. It has never
	// known the networks before CTC-CRF, and Bonito leaves out none.
	meanStart, chunk, overlap := 60.0, 10000.0, 500.0
	if c.encoder.ctc != nil {
		meanStart, chunk, overlap = 0, blocksWindow, blocksOverlap
	}
	c.meanQualityStart = int(min(maxSize, max(0, q.number("mean_qscore_start_pos", meanStart))))
	basecaller := top.sub("basecaller")
	c.chunk, c.overlap = basecaller.size("chunksize", chunk), int(min(maxSize, max(0, basecaller.number("overlap", overlap))))
	c.scaling = parseScaling(top)
	c.unused = unusedSettings(top)
	if c.encoder.ctc != nil && c.scaling.strategy == "" && !top.has("normalisation") {
		c.scaling.strategy = "med_mad" // quantiles came later
	}
}

// usedSettings are the keys that count of the tables that say how a network is used. Others
// change nothing that is called, such as those of poly(A) tails, which are not measured.
var usedSettings = map[string][]string{
	"run_info":        {"sample_rate", "sample_type"},
	"qscore":          {"scale", "bias", "mean_qscore_start_pos"},
	"scaling":         {"strategy"},
	"normalisation":   {"quantile_a", "quantile_b", "shift_multiplier", "scale_multiplier"},
	"standardisation": {"standardise", "mean", "stdev"},
	"poly_a":          nil,
}

// otherTables are those that say what the network is and what reads it was trained for, which are
// read elsewhere, and how it was trained, which is of no interest here.
var otherTables = []string{"model", "labels", "input", "global_norm", "encoder", "block", "basecaller", "training", "optim", "lr_scheduler"}

// unusedSettings returns the other keys of these tables, such as
// "poly_a.calibration_coefficient", and tables that nobody knows, in order.
func unusedSettings(top settings) []string {
	var unused []string
	for _, name := range slices.Sorted(maps.Keys(usedSettings)) {
		for _, key := range slices.Sorted(maps.Keys(top.sub(name).table)) {
			if !slices.Contains(usedSettings[name], key) {
				unused = append(unused, name+"."+key)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(top.table)) {
		if _, known := usedSettings[name]; !known && !slices.Contains(otherTables, name) {
			unused = append(unused, name)
		}
	}
	return unused
}

// UnusedSettings returns the settings of a model's configuration, in a folder, that have no
// effect on what is converted or called, such as "poly_a.calibration_coefficient".
func UnusedSettings(dir string) ([]string, error) {
	c, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	return c.unused, nil
}

// checkLabels checks the order of the bases, where it is said.
func checkLabels(s settings, key string) {
	if !s.has(key) {
		return
	}
	if have := fmt.Sprint(s.get(key)); have != "[N A C G T]" {
		s.fail("%s = %s is not N, A, C, G, T", key, have)
	}
}

// parseScaling reads how current is scaled. The defaults are Dorado's and Bonito's.
func parseScaling(top settings) scaling {
	s := scaling{strategy: top.sub("scaling").text("strategy"), stdev: 1}
	if !slices.Contains([]string{"", "quantile", "pa", "med_mad"}, s.strategy) {
		top.sub("scaling").fail("strategy = %q is none of quantile, pa, med_mad", s.strategy)
	}
	n := top.sub("normalisation")
	s.quantileA, s.quantileB = n.number("quantile_a", 0.2), n.number("quantile_b", 0.9)
	s.shiftMultiplier, s.scaleFactor = n.number("shift_multiplier", 0.51), n.number("scale_multiplier", 0.53)
	if st := top.sub("standardisation"); st.flag("standardise", false) {
		if cmp.Or(s.strategy, "pa") != "pa" {
			st.fail("standardise needs scaling.strategy = \"pa\", not %q", s.strategy)
		}
		s.mean, s.stdev = st.number("mean", required), st.number("stdev", required)
	}
	return s
}

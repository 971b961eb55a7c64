package rules

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/porestream/porestream/signal"
)

// Limits of a file, far above any real one.
const (
	maxFile  = 1 << 20
	maxRules = 256
	maxText  = 1000 // bytes of a value
)

// Sizes are the words for a network's size that a rule may ask for, as in the names of
// Dorado's models.
func Sizes() []string { return []string{"fast", "hac", "sup"} }

// precisions are those that a rule may ask for, as the flag --precision has them.
var precisions = []string{"auto", "fp32", "fp16", "int8"}

// Use is what a run is called with.
type Use struct {
	// Model is the folder of a model or the name of one; empty: the one for the run is taken
	// from a folder of models, see Size.
	Model string
	// Folder says that Model is a folder, and not a name.
	Folder bool
	// Size is that of the model to take from a folder of models, one of [Sizes]; empty: any.
	Size string
	// Precision is what the network computes in; empty: the precision that the process was given.
	Precision string
	// None says that the run is left out on purpose.
	None bool
}

// Rule says what runs of a kind are called with. What it doesn't name matches any run.
type Rule struct {
	Line int // of the file, from 1
	// Patterns with * for any text and ? for any sign, without regard to case; nil: any.
	FlowCell   []string // product, for example FLO-PRO114M
	Kit        []string
	Chemistry  []string // as [signal.Run.Chemistry] names it, for example r10.4.1
	Run        []string // id
	Sample     []string
	Experiment []string
	// SampleRates are those that the rule is for, in Hz; nil: any.
	SampleRates []int
	Use         Use
}

// Rules are those of a file, in its order.
type Rules struct {
	List []Rule
	// Default is what a run is called with that no rule matches; nil: it is left out.
	Default *Use
}

// Read reads a file of rules. Folders that it names are taken from where it lies.
func Read(path string) (*Rules, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading rules for models: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading rules for models: %w", err)
	}
	r, err := Parse(path, text)
	if err != nil {
		return nil, err
	}
	for i := range r.List {
		r.List[i].Use.locate(filepath.Dir(path))
	}
	if r.Default != nil {
		r.Default.locate(filepath.Dir(path))
	}
	return r, nil
}

// locate makes the folder of a model one from which the file lies.
func (u *Use) locate(dir string) {
	if u.Folder && !filepath.IsAbs(u.Model) {
		u.Model = filepath.Join(dir, u.Model)
	}
}

// Match returns what a run is called with, and by which rule of the list; -1 is the
// default, and without one ok is false.
func (r *Rules) Match(run *signal.Run) (use Use, rule int, ok bool) {
	for i := range r.List {
		if r.List[i].Matches(run) {
			return r.List[i].Use, i, true
		}
	}
	if r.Default == nil {
		return Use{}, -1, false
	}
	return *r.Default, -1, true
}

// Matches reports whether a rule is for a run.
func (r *Rule) Matches(run *signal.Run) bool {
	return (r.SampleRates == nil || slices.Contains(r.SampleRates, run.SampleRate)) &&
		anyLike(r.FlowCell, run.FlowCellProduct) && anyLike(r.Kit, run.Kit) && anyLike(r.Chemistry, run.Chemistry()) &&
		anyLike(r.Run, run.ID) && anyLike(r.Sample, run.SampleID) && anyLike(r.Experiment, run.ExperimentID)
}

// matchesAll reports whether a rule names nothing, and so is for any run.
func (r *Rule) matchesAll() bool {
	return r.SampleRates == nil && r.FlowCell == nil && r.Kit == nil && r.Chemistry == nil && r.Run == nil && r.Sample == nil && r.Experiment == nil
}

// Uses lists what the rules and the default name, each once, in order.
func (r *Rules) Uses() []Use {
	var all []Use
	add := func(u Use) {
		if !slices.Contains(all, u) {
			all = append(all, u)
		}
	}
	for i := range r.List {
		add(r.List[i].Use)
	}
	if r.Default != nil {
		add(*r.Default)
	}
	return all
}

// String says a use in a word or two, for people.
func (u Use) String() string {
	switch {
	case u.None:
		return "none"
	case u.Model == "":
		return "the " + cmp.Or(u.Size, "first") + " model for the run"
	}
	return u.Model
}

// anyLike reports whether text matches one of the patterns, or there are no patterns.
func anyLike(patterns []string, text string) bool {
	return patterns == nil || slices.ContainsFunc(patterns, func(p string) bool { return like(strings.ToLower(p), strings.ToLower(text)) })
}

// like reports whether text matches a pattern with * and ?. It takes time in proportion to the
// product of their lengths at most: at a mismatch the last * takes one character more.
func like(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	i, star, from := 0, -1, 0
	for k := 0; k < len(t); {
		switch {
		case i < len(p) && p[i] == '*':
			star, from = i, k
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[k]):
			i++
			k++
		case star >= 0:
			from++
			i, k = star+1, from
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

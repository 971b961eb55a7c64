package network

import (
	"fmt"
	"slices"

	"github.com/porestream/porestream/modelfile/folder"
	"github.com/porestream/porestream/modelfile/modelname"
	"github.com/porestream/porestream/variant"
)

// ReadSet is what a model has for the reads of some basecalling models: curves of their own
// or those that are shared, what is expected of their errors, and what data that rests on.
type ReadSet struct {
	Name      string `toml:"name"`
	Chemistry string `toml:"chemistry"` // for people; Models decide
	Tier      string `toml:"tier"`
	// Models are patterns of basecalling models' names, see [modelname.ParsePattern]. The
	// first set with one that matches is a model's.
	Models []string `toml:"models"`
	// Data says what the set was trained or calibrated on; Simulated, that all of it was
	// simulated.
	Data      string `toml:"data"`
	Simulated bool   `toml:"simulated,omitempty"`
	// Shared says that the model's own calibration is the set's. Calibration is one of its
	// own otherwise; what that has no curve for has the shared one.
	Shared      bool          `toml:"shared,omitempty"`
	Calibration []Calibration `toml:"calibration,omitempty"`
	// Errors are the rates expected of the reads, before the reads at hand show their own; missing:
	// the usual.
	Errors *ReadErrors `toml:"errors,omitempty"`
}

// ReadErrors are [variant.ErrorRates] in a manifest. Lists are by length of the homopolymer,
// from 1 to [variant.MaxCountedRun].
type ReadErrors struct {
	Mismatch  float64   `toml:"mismatch"`
	Gaps      float64   `toml:"gaps"`
	Other     float64   `toml:"other"`
	Extension float64   `toml:"extension"`
	Deletion  []float64 `toml:"deletion"`
	Insertion []float64 `toml:"insertion"`
}

// maxLengthErrors is the share of wrong lengths of a homopolymer that no reads come to.
const maxLengthErrors = 0.95

// maxReadSets bounds the sets of a manifest.
const maxReadSets = 64

// Rates returns what e says; nil of nil.
func (e *ReadErrors) Rates() *variant.ErrorRates {
	if e == nil {
		return nil
	}
	rates := variant.ErrorRates{Mismatch: e.Mismatch, Gaps: e.Gaps, Other: e.Other, Extension: e.Extension}
	copy(rates.Deletion[1:], e.Deletion)
	copy(rates.Insertion[1:], e.Insertion)
	return &rates
}

// Validate says what is wrong with e.
func (e *ReadErrors) Validate() error {
	var faults folder.Faults
	e.validate("", faults.Check)
	return faults.Err()
}

func (e *ReadErrors) validate(key string, check func(ok bool, format string, args ...any)) {
	share := func(name string, p float64) {
		check(p > 0 && p < 1, "%serrors.%s = %v is not between 0 and 1", key, name, p)
	}
	share("mismatch", e.Mismatch)
	share("gaps", e.Gaps)
	share("other", e.Other)
	share("extension", e.Extension)
	for name, list := range map[string][]float64{"deletion": e.Deletion, "insertion": e.Insertion} {
		check(len(list) == variant.MaxCountedRun, "%serrors.%s has %d rates, not %d", key, name, len(list), variant.MaxCountedRun)
		for _, p := range list {
			share(name, p)
		}
	}
	for i := range min(len(e.Deletion), len(e.Insertion)) {
		sum := e.Deletion[i] + e.Insertion[i]
		check(sum < maxLengthErrors, "%serrors.deletion and insertion of %d bases come to %v, %v and more", key, i+1, sum, maxLengthErrors)
	}
}

func validateReadSets(sets []ReadSet, check func(ok bool, format string, args ...any)) {
	check(len(sets) <= maxReadSets, "there are %d sets of reads, more than %d", len(sets), maxReadSets)
	seen := make(map[string]bool)
	for i := range sets {
		s := &sets[i]
		key := fmt.Sprintf("reads %d: ", i+1)
		check(s.Name != "" && !seen[s.Name], "%sname = %q is missing, or another set's", key, s.Name)
		seen[s.Name] = true
		check(s.Data != "", "%sdata is missing: say what the set rests on", key)
		check(len(s.Models) > 0, "%smodels is missing: patterns of basecalling models", key)
		for _, text := range s.Models {
			if _, err := modelname.ParsePattern(text); err != nil {
				check(false, "%smodels: %v", key, err)
			}
		}
		check(s.Shared != (len(s.Calibration) > 0), "%seither it has a calibration of its own, or shared = true", key)
		validateCalibrations(s.Calibration, func(ok bool, format string, args ...any) { check(ok, "%s%s", key, fmt.Sprintf(format, args...)) })
		if s.Errors != nil {
			s.Errors.validate(key, check)
		}
	}
}

// fingerprint differs between sets that score differently or are for other reads.
func (s *ReadSet) fingerprint() string {
	errors := "usual"
	if s.Errors != nil {
		errors = fmt.Sprintf("%+v", *s.Errors)
	}
	return fmt.Sprintf("%q %q %+v errors %s", s.Name, s.Models, s.Calibration, errors)
}

// matcher reports whether a basecalling model is one of the set's.
func (s *ReadSet) matcher() func(model string) bool {
	var patterns []modelname.Pattern
	for _, text := range s.Models {
		if p, err := modelname.ParsePattern(text); err == nil { // validated
			patterns = append(patterns, p)
		}
	}
	return func(model string) bool {
		for _, p := range patterns {
			if p.Matches(model) {
				return true
			}
		}
		return false
	}
}

// suited is a network that scores alleles of a set's reads with curves of their own.
type suited struct {
	*Network
	calibrations calibrations
}

// Score implements [variant.Network].
func (s suited) Score(dst, examples []float32) ([]float32, error) {
	return s.score(dst, examples, s.calibrations)
}

var _ variant.Suited = (*Network)(nil)

// Suits implements [variant.Suited]: the sets of the manifest, in their order.
func (n *Network) Suits() []variant.Suit { return n.suits }

func (n *Network) newSuits(m *Manifest) []variant.Suit {
	var suits []variant.Suit
	for i := range m.Reads {
		s := &m.Reads[i]
		suit := variant.Suit{Name: s.Name, Matches: s.matcher(), Network: n, Errors: s.Errors.Rates()}
		if !s.Shared {
			suit.Network = suited{n, newCalibrations(s.over(m.Calibration))}
		}
		suits = append(suits, suit)
	}
	return suits
}

// over are the set's curves, and shared ones where it has none.
func (s *ReadSet) over(shared []Calibration) []Calibration {
	all := slices.Clone(s.Calibration)
	for _, c := range shared {
		if !slices.ContainsFunc(s.Calibration, func(own Calibration) bool { return own.Type == c.Type && own.Ploidy == c.Ploidy }) {
			all = append(all, c)
		}
	}
	return all
}

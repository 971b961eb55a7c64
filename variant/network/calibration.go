package network

import (
	"fmt"
	"math"

	"github.com/porestream/porestream/modelfile/calibration"
	"github.com/porestream/porestream/variant"
)

// Calibration corrects what a network says of one type of allele at one ploidy,
// so that a quality of 20 is wrong once in a hundred times.
type Calibration struct {
	Type   string `toml:"type"`   // "snp", "indel" or "long_indel"
	Ploidy string `toml:"ploidy"` // "1", "2" or "mixture"
	// Qual maps QUAL, -10 log10 P(no copy), to what it should be. The
	// probabilities of copies share what is left in proportion.
	Qual calibration.Curve `toml:"qual,omitempty"`
	// GQ maps how sure the number of copies is if there are any, in decibels:
	// 10 log10 of the probability of the likelier number over the other's. Haploid
	// samples have only one number.
	GQ calibration.Curve `toml:"gq,omitempty"`
}

// alleleType is what calibrations distinguish. Reads are often wrong by a base or two and
// hardly ever by many in the same place, so that the same score means more of a long indel.
// Where long indels have no calibration of their own, that of indels is used.
type alleleType int

const (
	typeSNP alleleType = iota
	typeIndel
	typeLongIndel // of variant.LongIndel bases and more
	alleleTypes
)

var typeNames = [alleleTypes]string{"snp", "indel", "long_indel"}

// class is what an example is about, as far as calibration goes.
type class struct {
	of     alleleType
	ploidy variant.Ploidy
}

// classOf is what an example says that it is about.
func classOf(example []float32) class {
	scalars := example[variant.ExamplePlanes*variant.ExampleColumns:]
	c := class{of: typeIndel, ploidy: variant.Diploid}
	switch {
	case scalars[variant.ScalarType] == 1:
		c.of = typeSNP
	case scalars[variant.ScalarLength]*16 >= variant.LongIndel:
		c.of = typeLongIndel
	}
	switch ploidy := scalars[variant.ScalarPloidy:][:3]; {
	case ploidy[0] == 1:
		c.ploidy = variant.Haploid
	case ploidy[2] == 1:
		c.ploidy = variant.Mixture
	}
	return c
}

// class reads whom a calibration is for.
func (c *Calibration) class() (class, error) {
	ploidy, err := variant.ParsePloidy(c.Ploidy)
	if err != nil {
		return class{}, err
	}
	for t, name := range typeNames {
		if c.Type == name {
			return class{alleleType(t), ploidy}, nil
		}
	}
	return class{}, fmt.Errorf("type %q is none of snp, indel and long_indel", c.Type)
}

func validateCalibrations(list []Calibration, check func(ok bool, format string, args ...any)) {
	seen := make(map[class]bool)
	for i := range list {
		c := &list[i]
		class, err := c.class()
		if err != nil {
			check(false, "calibration %d: %v", i+1, err)
			continue
		}
		check(!seen[class], "calibration %d: there is one for %s of ploidy %s already", i+1, c.Type, c.Ploidy)
		seen[class] = true
		check(len(c.GQ) == 0 || class.ploidy != variant.Haploid, "calibration %d: gq is for more than one copy", i+1)
		key := fmt.Sprintf("calibration %d: ", i+1)
		c.Qual.Validate(key+"qual", check)
		c.GQ.Validate(key+"gq", check)
	}
}

// calibrations finds the curves of an example.
type calibrations map[class]Calibration

func newCalibrations(list []Calibration) calibrations {
	c := make(calibrations, len(list))
	for i := range list {
		if class, err := list[i].class(); err == nil { // validated
			c[class] = list[i]
		}
	}
	for _, ploidy := range []variant.Ploidy{variant.Haploid, variant.Diploid, variant.Mixture} {
		long := class{typeLongIndel, ploidy}
		if _, ok := c[long]; !ok {
			c[long] = c[class{typeIndel, ploidy}]
		}
	}
	return c
}

const (
	// phred is how many decibels a factor of e is.
	phred = 10 / math.Ln10
	// leastLog bounds logarithms of probabilities from below, far beyond what
	// anybody can measure, so that they stay numbers that can be added.
	leastLog = -200
)

// probabilities turns the logits of an example into natural logarithms of
// calibrated probabilities, head by head.
func (c calibrations) probabilities(scores []float32, of class) {
	curves := c[of]
	copies := scores[variant.ScoreCopies:variant.ScoreZygosity]
	if of.ploidy == variant.Haploid {
		scoreHaploid(copies, curves.Qual)
	} else {
		scoreCopies(copies, curves)
	}
	logSoftmax(scores[variant.ScoreZygosity:variant.ScoreLength])
	logSoftmax(scores[variant.ScoreLength:variant.Scores])
}

// scoreHaploid leaves one copy out: a haploid sample has an allele or not.
func scoreHaploid(copies []float32, qual calibration.Curve) {
	absent, present := presence(logit(copies[2])-logit(copies[0]), qual)
	copies[0], copies[1], copies[2] = asLog(absent), leastLog, asLog(present)
}

func scoreCopies(copies []float32, curves Calibration) {
	none, one, two := logit(copies[0]), logit(copies[1]), logit(copies[2])
	more, less := max(one, two), min(one, two)
	absent, present := presence(more+softplus(less-more)-none, curves.Qual)
	sure := curves.GQ.At((more-less)*phred) / phred
	likelier := present - softplus(-sure)
	other := likelier - sure
	copies[0], copies[1], copies[2] = asLog(absent), asLog(likelier), asLog(other)
	if one < two {
		copies[1], copies[2] = copies[2], copies[1]
	}
}

// presence returns the logarithms of the calibrated probabilities that an allele
// is absent and that it is present, of which the odds are e to the power of odds.
func presence(odds float64, qual calibration.Curve) (absent, present float64) {
	q := qual.At(softplus(odds)*phred) / phred
	return -q, log1mexp(q)
}

// softplus is log(1 + e^x), precise however small it is.
func softplus(x float64) float64 {
	if x > 0 {
		return x + math.Log1p(math.Exp(-x))
	}
	return math.Log1p(math.Exp(x))
}

// log1mexp is log(1 - e^-x) for x not below 0, precise near both ends.
func log1mexp(x float64) float64 {
	if x < math.Ln2 {
		return math.Log(-math.Expm1(-x))
	}
	return math.Log1p(-math.Exp(-x))
}

// logSoftmax turns logits into logarithms of probabilities. Sums run in the order
// of the classes.
func logSoftmax(logits []float32) {
	largest := math.Inf(-1)
	for _, v := range logits {
		largest = max(largest, logit(v))
	}
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(logit(v) - largest)
	}
	norm := largest + math.Log(sum)
	for i, v := range logits {
		logits[i] = asLog(logit(v) - norm)
	}
}

// logit is a network's output as a number that can be calculated with: minus
// infinity stands for a class that can't be.
func logit(v float32) float64 { return max(float64(v), -1e6) }

func asLog(x float64) float32 { return float32(max(x, leastLog)) }

package variant

import (
	"cmp"
	"errors"
	"fmt"
)

// Config holds the caller's thresholds. Every zero field means its default.
type Config struct {
	// Sample names the sample in calls.
	Sample string
	// Ploidy is the number of copies of each contig; default Haploid. Ploidies are
	// the stretches where it is another; see PloidyAt.
	Ploidy   Ploidy
	Ploidies Ploidies
	// Network scores the alleles. Without one the analytic model decides, which
	// knows haploid samples only.
	Network Network
	// Basecallers are the basecalling models that segments name by numbers; nil: calls don't
	// name them. It doesn't count in Fingerprint, as it follows from Network and the reads.
	Basecallers *Basecallers
	// Errors are expected of reads before their region's own are counted, unless Basecallers know better;
	// nil: UsualErrors. It doesn't count in Fingerprint: only programs that make examples set it.
	Errors *ErrorRates
	// MinAlleleFraction is the share of the reads from which on an allele of a
	// Mixture is evaluated. Default 0.05.
	MinAlleleFraction float64
	// MinMappingQuality is the least mapping quality of a segment that counts.
	// Default 5; negative: none.
	MinMappingQuality int
	// MaxDepth caps the reads used per position. Which ones stay depends on
	// their ids only. Default 120; of a Mixture 600, as a twentieth of 120 is six reads.
	MaxDepth int
	// MinDepth is the depth under which a call is filtered as LowDepth. Default 6.
	MinDepth int
	// MinQual is the QUAL under which a call is filtered as LowQual. Default 12;
	// with a network, whose qualities are calibrated, 8 if Ploidy is Haploid and else 5.
	MinQual float64
	// EmitQual is the QUAL under which a final call isn't reported at all.
	// Default 5; with a network 2.
	EmitQual float64
	// StableDepth, StableQual and StableReads are what a live call needs to be
	// STABLE: its depth, its QUAL, and for how many reads it has been unchanged and
	// no evaluation has found a lower QUAL. Defaults 12, 30 (for a haploid sample
	// with a network 20) and 12.
	StableDepth int
	StableQual  float64
	StableReads int
	// MaxIndelNoise is the share of alignment columns with a gap from which on no
	// indel passes (filter NoisyIndel): when reads lose or gain a base that often,
	// both strands agree on some wrong lengths. R9.4 reads of 88 % identity have
	// 0.053, of 94 % 0.026. Default 0.035.
	MaxIndelNoise float64
	// MNPDistance is how many bases apart two changes of a complex allele may be that are
	// called as one: 1 side by side. Negative: each substituted base, insertion and deletion
	// is a call of its own. Default 2, so that the changes of a codon are one. Whatever it is,
	// the changes of a complex allele have one verdict.
	MNPDistance int
	// SNPRate and IndelRate are the prior probabilities of a variant per base.
	// Defaults 1e-3 and 1e-4.
	SNPRate, IndelRate float64
	// ModifiedMotifs are motifs that are known to be modified, as IUPAC letters in reading direction: reads may get
	// them wrong, of which MotifArtifact then needs less evidence, and no motif is too long.
	ModifiedMotifs []string
}

// DefaultMNPDistance and MaxMNPDistance are the default and the largest MNPDistance: changes that
// are farther apart are not evaluated together.
const (
	DefaultMNPDistance = 2
	MaxMNPDistance     = complexReach
)

// version counts the changes of this package that lead to other calls, or to
// other revisions of them, from the same reads: the package must not continue
// from state of another version. A test fails when the version has to be
// raised.
const version = 17

// Fingerprint differs between thresholds that call differently; Sample doesn't count.
func (c Config) Fingerprint() string {
	c = c.withDefaults()
	network := "none"
	if c.Network != nil {
		network = c.Network.Fingerprint()
	}
	c.Sample, c.Network, c.Basecallers = "", nil, nil
	return fmt.Sprintf("variant %d %+v network %s", version, c, network)
}

// Has reports whether places of a ploidy are called.
func (c Config) Has(p Ploidy) bool {
	return cmp.Or(c.Ploidy, Haploid) == p || c.Ploidies.has(p)
}

// PloidyAt is the ploidy of a 0-based position of a contig.
func (c Config) PloidyAt(contig string, pos int) Ploidy {
	return c.Ploidies.at(contig, pos, cmp.Or(c.Ploidy, Haploid))
}

// Defaults of MinQual: without a network, with one in haploid samples, and with one in
// others.
const (
	analyticMinQual = 12
	haploidMinQual  = 8
	networkMinQual  = 5
)

// MaxDepth is the default of [Config.MaxDepth].
func (p Ploidy) MaxDepth() int {
	if p == Mixture {
		return 600
	}
	return 120
}

// withDefaults fills in the defaults.
func (c Config) withDefaults() Config {
	def(&c.Ploidy, Haploid)
	def(&c.MinAlleleFraction, 0.05)
	def(&c.MinMappingQuality, 5)
	def(&c.MaxDepth, c.Ploidy.MaxDepth())
	def(&c.MinDepth, 6)
	if c.Network != nil {
		if c.Ploidy == Haploid {
			def(&c.MinQual, haploidMinQual)
		}
		def(&c.MinQual, networkMinQual)
		def(&c.EmitQual, 2)
	}
	def(&c.MinQual, analyticMinQual)
	def(&c.EmitQual, 5)
	def(&c.StableDepth, 12)
	def(&c.MNPDistance, DefaultMNPDistance)
	def(&c.StableReads, 12)
	def(&c.MaxIndelNoise, 0.035)
	def(&c.SNPRate, 1e-3)
	def(&c.IndelRate, 1e-4)
	return c
}

func def[T ~int | float64](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Validate says everything that is wrong with c, for calling.
func (c Config) Validate() error {
	errs := []error{c.checkThresholds()}
	switch p := c.withDefaults().Ploidy; {
	case c.Network != nil:
	case p != Haploid:
		errs = append(errs, fmt.Errorf("ploidy %s: without a network only haploid contigs (ploidy 1) can be called", p))
	case !c.Ploidies.haploid():
		errs = append(errs, errors.New("ploidies: without a network only haploid contigs (ploidy 1) can be called"))
	}
	if _, err := knownMotifsOf(c.ModifiedMotifs); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkThresholds says what is wrong with c but for the network, which is needed
// for calling only.
func (c Config) checkThresholds() error {
	c = c.withDefaults()
	var errs []error
	if !c.Ploidy.known() {
		errs = append(errs, fmt.Errorf("ploidy %s: want 1, 2 or mixture", c.Ploidy))
	}
	if err := c.Ploidies.validate(); err != nil {
		errs = append(errs, err)
	}
	if !(c.MinAlleleFraction > 0 && c.MinAlleleFraction <= 0.5) {
		errs = append(errs, fmt.Errorf("least allele fraction %g: want more than 0 and at most 0.5", c.MinAlleleFraction))
	}
	if c.MaxDepth < c.MinDepth || c.MinDepth < 0 {
		errs = append(errs, fmt.Errorf("depths: want 0 <= MinDepth (%d) <= MaxDepth (%d)", c.MinDepth, c.MaxDepth))
	}
	if !(c.EmitQual >= 0 && c.MinQual >= c.EmitQual) {
		errs = append(errs, fmt.Errorf("qualities: want 0 <= EmitQual (%g) <= MinQual (%g)", c.EmitQual, c.MinQual))
	}
	if !(c.SNPRate > 0 && c.SNPRate < 0.5) || !(c.IndelRate > 0 && c.IndelRate < 0.5) {
		errs = append(errs, fmt.Errorf("prior rates: want SNPRate (%g) and IndelRate (%g) in (0, 0.5)", c.SNPRate, c.IndelRate))
	}
	return errors.Join(errs...)
}

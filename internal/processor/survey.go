package processor

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/variant"
)

// Survey says what is reported, at the end of a sample, of places without a variant.
// The zero value is: nothing.
type Survey struct {
	GVCF, Callable bool
	Settings       SurveySettings
}

// SurveySettings say how it is reported.
type SurveySettings struct {
	Allele string // symbolic allele of blocks: *, or NON_REF
	Band   int    // of genotype qualities that a block stays within
	// Depth is the number of reads from which on a position is callable, LowMapping
	// the share of reads of low mapping quality above which it is not.
	Depth      int
	LowMapping float64
}

// Register adds the flags of what the stream reports.
func (s *Survey) Register(flags *pflag.FlagSet) {
	flags.BoolVar(&s.GVCF, "gvcf", false, "publish too, at the end of a sample, the places without a variant: blocks of reference (docs/consume/variants.md)")
	flags.BoolVar(&s.Callable, "callable", false, "publish too, at the end of a sample, what the reads allow to be said of each position")
	s.Settings.Register(flags)
}

// Register adds the flags.
func (s *SurveySettings) Register(flags *pflag.FlagSet) {
	def := variant.SurveyConfig{}.WithDefaults()
	flags.StringVar(&s.Allele, "gvcf-allele", "*", "symbolic allele of --gvcf: *, or NON_REF for GATK's tools")
	flags.IntVar(&s.Band, "gvcf-band", def.QualityBand, "width of the bands of GQ, up to 50, that the blocks of --gvcf keep apart")
	flags.IntVar(&s.Depth, "callable-depth", def.MinDepth, "reads from which on a position is CALLABLE")
	flags.Float64Var(&s.LowMapping, "callable-low-mapq", def.MaxLowMapping, "share of reads of low mapping quality above which a position is LOW_MAPPING_QUALITY")
}

// Validate says what is wrong with s, as set by flags.
func (s *SurveySettings) Validate() error {
	switch {
	case s.Band < 1:
		return fmt.Errorf("--gvcf-band %d: want at least 1", s.Band)
	case s.Depth < 1:
		return fmt.Errorf("--callable-depth %d: want at least 1", s.Depth)
	case !(s.LowMapping > 0 && s.LowMapping <= 1):
		return fmt.Errorf("--callable-low-mapq %g: want more than 0 and at most 1", s.LowMapping)
	case s.Allele != "*" && s.Allele != "NON_REF":
		return fmt.Errorf("--gvcf-allele %q: want * or NON_REF", s.Allele)
	}
	return nil
}

// Symbol is the symbolic allele as a VCF has it.
func (s *SurveySettings) Symbol() string {
	if s.Allele == "NON_REF" {
		return variant.NonReference
	}
	return variant.AnyAllele
}

// Symbol is that of the settings.
func (s *Survey) Symbol() string { return s.Settings.Symbol() }

// Config is what is to be found.
func (s *Survey) Config() variant.SurveyConfig { return s.Settings.Config(s.GVCF, s.Callable) }

// Config is what is to be found, with the settings.
func (s *SurveySettings) Config(blocks, callable bool) variant.SurveyConfig {
	return variant.SurveyConfig{Blocks: blocks, Callable: callable, QualityBand: s.Band, MinDepth: s.Depth, MaxLowMapping: s.LowMapping}
}

package processor

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/modbase/pileup"
	methylatestage "github.com/porestream/porestream/modbase/stage"
)

// Methylation says whether modified bases are counted, and which calls count. The zero value is: they aren't.
type Methylation struct {
	On         bool
	Thresholds []string
	Percentile float64
	// FindMotifs has calls marked by the motifs that are modified in the sample itself.
	FindMotifs bool
	// Haplotypes has modified bases of a diploid sample counted by haplotype, too.
	Haplotypes bool
}

// DefaultMethylationPercentile is the share of a sample's calls that fail, where nothing else is said.
const DefaultMethylationPercentile = 0.1

// Register adds the flags.
func (m *Methylation) Register(flags *pflag.FlagSet) {
	flags.BoolVar(&m.On, "methylation", false, "count modified bases by position, of --modified-bases or of reads that come called with them, on the topic of methylation (docs/consume/methylation.md)")
	flags.StringArrayVar(&m.Thresholds, "methylation-threshold", nil, "least probability of a call of --methylation that counts, from 0 to 1, of all bases or of one, such as C:0.8; may be repeated")
	flags.Float64Var(&m.Percentile, "methylation-percentile", DefaultMethylationPercentile, "share of a sample's calls of a base that fail, where --methylation-threshold doesn't say")
	flags.BoolVar(&m.Haplotypes, "methylation-haplotypes", false, "count the modified bases of --methylation by haplotype, too, of diploid samples, once calls are final; a run's end waits for it; the same for all processors")
	flags.BoolVar(&m.FindMotifs, "find-modified-motifs", false, "find the motifs that a sample modifies by what --methylation counts, as --modified-motifs names them; final calls wait for those of all its reads; the same for all processors")
}

// Validate says what is wrong with m, as set by flags.
func (m *Methylation) Validate() error {
	if !m.On && len(m.Thresholds) > 0 {
		return fmt.Errorf("--methylation-threshold goes with --methylation")
	}
	if !m.On && m.Haplotypes {
		return fmt.Errorf("--methylation-haplotypes goes with --methylation, which counts the modified bases")
	}
	if !m.On && m.FindMotifs {
		return fmt.Errorf("--find-modified-motifs goes with --methylation, which counts the modified bases")
	}
	_, err := m.filter()
	return err
}

// errNoCopies refuses to count by haplotype where there are no haplotypes.
var errNoCopies = errors.New("--methylation-haplotypes: no place has two copies: give --ploidy 2, or leave the flag out")

func (m *Methylation) filter() (f methylatestage.Filter, err error) {
	f.Percentile = m.Percentile
	if !(m.Percentile >= 0 && m.Percentile < 1) {
		return f, fmt.Errorf("--methylation-percentile %v: want a share from 0 to less than 1", m.Percentile)
	}
	if f.Thresholds, f.Given, err = pileup.ParseThresholds(m.Thresholds); err != nil {
		return f, fmt.Errorf("--methylation-threshold %w", err)
	}
	return f, nil
}

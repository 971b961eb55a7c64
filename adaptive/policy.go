package adaptive

import (
	"errors"
	"fmt"

	"github.com/porestream/porestream/align"
)

const (
	// defaultMinBases is what map-ont needs for a chain that is worth something, at ten
	// percent error.
	defaultMinBases = 100
	// defaultMinMappingQuality is a placement that is wrong once in ten times, by
	// minimap2's own account, and far less often where one contig of two is asked for.
	defaultMinMappingQuality = 10
)

// Config says how decisions about reads are made.
type Config struct {
	Mode    Mode
	Targets *Targets
	// Unaligned is what becomes of a read that lies nowhere on the reference at its last
	// evaluation: Continue (also the zero value) or Unblock.
	Unaligned Action
	// MinBases is how many bases must have been called of a read for a decision about
	// it; 0 means 100.
	MinBases int
	// MinMappingQuality is that of an alignment that counts as certain, 0 to 60. Nil
	// means 10.
	MinMappingQuality *uint8
}

// Evaluation is what is known of the beginning of a read when the policy decides about it.
type Evaluation struct {
	// Bases is the number of bases that were called.
	Bases int
	// Alignments are those of the bases, the primary one first; none if they lie
	// nowhere.
	Alignments []align.Alignment
	// Last says that the read will not be evaluated again.
	Last bool
}

// Verdict is a policy's decision on an evaluation.
type Verdict struct {
	Action Action
	Reason Reason
}

// Policy decides about reads.
type Policy struct {
	reject     bool // what overlaps a target is to be ejected
	targets    *Targets
	unaligned  Action
	minBases   int
	minQuality uint8
}

// NewPolicy returns a policy, or all that is wrong with its configuration.
func NewPolicy(cfg Config) (*Policy, error) {
	var errs []error
	if cfg.Mode != Enrich && cfg.Mode != Deplete {
		errs = append(errs, errors.New("a policy either enriches or depletes"))
	}
	if cfg.Targets == nil {
		errs = append(errs, errors.New("a policy needs targets"))
	}
	if cfg.MinBases < 0 {
		errs = append(errs, fmt.Errorf("at least %d bases are asked for", cfg.MinBases))
	}
	p := &Policy{reject: cfg.Mode == Deplete, targets: cfg.Targets, unaligned: cfg.Unaligned, minBases: cfg.MinBases, minQuality: defaultMinMappingQuality}
	if p.unaligned == Wait {
		p.unaligned = Continue
	}
	if p.minBases == 0 {
		p.minBases = defaultMinBases
	}
	if cfg.MinMappingQuality != nil {
		p.minQuality = *cfg.MinMappingQuality
	}
	return p, errors.Join(errs...)
}

// Decide decides what is to become of a read. It never waits after the last evaluation.
//
// An alignment that is certain and speaks for keeping the read keeps it, whatever
// others say. The read is ejected if all alignments speak for that and one of them is
// certain. Everything else is a doubt, and at the last evaluation a doubtful read is kept. A
// read with several equally good places has a primary alignment of low mapping quality.
func (p *Policy) Decide(e Evaluation) Verdict {
	switch {
	case e.Bases < p.minBases:
		return doubt(TooShort, e.Last, Continue)
	case len(e.Alignments) == 0:
		return doubt(Unaligned, e.Last, p.unaligned)
	}
	var keep, certainKeep, reject, certainReject bool
	for i := range e.Alignments {
		a := &e.Alignments[i]
		certain := a.MappingQuality >= p.minQuality
		if p.targets.Overlaps(a.Contig, a.Start, a.End) == p.reject {
			reject, certainReject = true, certainReject || certain
		} else {
			keep, certainKeep = true, certainKeep || certain
		}
	}
	kept, rejected := OnTarget, OffTarget
	if p.reject {
		kept, rejected = OffTarget, OnTarget
	}
	switch {
	case certainKeep && reject:
		return Verdict{Continue, Mixed}
	case certainKeep:
		return Verdict{Continue, kept}
	case certainReject && !keep:
		return Verdict{Unblock, rejected}
	}
	return doubt(Ambiguous, e.Last, Continue)
}

// doubt waits for more of a read, or takes an action at the last evaluation.
func doubt(why Reason, last bool, action Action) Verdict {
	if !last {
		action = Wait
	}
	return Verdict{action, why}
}

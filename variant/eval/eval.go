package eval

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vcf"
)

// Score is what calls are ranked by.
type Score string

// The scores.
const (
	Qual Score = "QUAL"
	GQ   Score = "GQ"
)

// Options say how two sets are compared. The zero value of a field has the meaning that its comment gives.
type Options struct {
	// Regions are where the truth is known. Atoms outside are not assessed, but for those of the query that an atom of
	// the truth inside is matched with. nil: everywhere.
	Regions *Regions
	// Strata are further regions for which figures are wanted.
	Strata []Stratum
	// All takes records that failed a filter too.
	All bool
	// OnePloidy makes a genotype of one haplotype, 1, equal to 1/1. Without it they differ: the number of copies is
	// part of a genotype.
	OnePloidy bool
	// Squash compares alleles alone: a call is right whatever its genotype.
	Squash bool
	// IgnorePhase lets every record of a phase set take either orientation, as vcfeval does. Without it neighbours that
	// both sides have phased must be on the haplotypes that they are said to be on.
	IgnorePhase bool
	// PhaseReach is how many bases apart atoms may be for their phase to matter. 0: 50.
	PhaseReach int
	// Score ranks calls for the ROC. "": Qual.
	Score Score
	// MaxLength is the longest allele that is compared, in bases. 0: 1000, as vcfeval's.
	MaxLength int
	// MaxPaths bounds the search in a cluster. 0: 10000.
	MaxPaths int
	// Bootstrap is the number of replicates behind confidence intervals. 0: none.
	Bootstrap int
	// Seed makes another sample of replicates.
	Seed uint64
	// Each, unless nil, is given the outcome of each record that was compared, in the order of its
	// file.
	Each func(Outcome) error
}

// Stratum is a named part of the reference.
type Stratum struct {
	Name    string
	Regions *Regions
}

// Defaults of Options.
const (
	DefaultPhaseReach = 50
	DefaultMaxLength  = 1000
	DefaultMaxPaths   = 10000
)

// Decision is what became of a record.
type Decision string

// The decisions.
const (
	TruePositive  Decision = "TP"
	FalsePositive Decision = "FP" // query
	FalseNegative Decision = "FN" // truth
	NotAssessed   Decision = "UNK"
)

// Outcome is what became of a record: a false positive or negative as soon as one of its atoms is one.
type Outcome struct {
	Record   *vcf.Record // the reader's
	Truth    bool        // which side it is from
	Decision Decision
	// Detail says more of an error: "GT" (right allele, wrong genotype), "PART" (some of its atoms are right) or
	// "UNRESOLVED" (the search was given up); else "".
	Detail string
}

// Compare compares a query with the truth. Records of both must be sorted in the order of the reference's contigs; it
// holds no more of them than what lies within reach of each other. Errors name the set and the line.
func Compare(ctx context.Context, g *genome.Genome, truthSet, querySet Set, opts Options) (*Result, error) {
	opts.PhaseReach = cmp.Or(opts.PhaseReach, DefaultPhaseReach)
	opts.MaxLength = cmp.Or(opts.MaxLength, DefaultMaxLength)
	opts.MaxPaths = cmp.Or(opts.MaxPaths, DefaultMaxPaths)
	opts.Score = cmp.Or(opts.Score, Qual)
	c := &comparison{opts: &opts, genome: g, search: search{maxPaths: opts.MaxPaths}}
	for sd, set := range [2]Set{truthSet, querySet} {
		src, err := newSource(side(sd), set, g, &opts)
		if err != nil {
			return nil, err
		}
		c.sources[sd] = src
	}
	c.tally = newTally(&opts, c.sources[truth].column >= 0 && c.sources[query].column >= 0)
	for rank, contig := range g.Contigs {
		if c.sources[truth].rank != rank && c.sources[query].rank != rank {
			continue
		}
		if err := c.contig(ctx, rank, contig); err != nil {
			return nil, err
		}
	}
	result := c.tally.result()
	if opts.Regions != nil {
		result.Bases = opts.Regions.Bases()
	}
	result.Skipped.Truth, result.Skipped.Query = c.sources[truth].skipped, c.sources[query].skipped
	return result, nil
}

// comparison is a run of Compare.
type comparison struct {
	opts    *Options
	genome  *genome.Genome
	sources [2]*source
	search  search
	tally   *tally
	waiting [2][]*call // evaluated in part, or behind such ones
}

// contig compares one contig.
func (c *comparison) contig(ctx context.Context, rank int, contig *genome.Contig) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.search.seq = contig.Seq
	for _, s := range c.sources {
		s.begin()
	}
	c.tally.begin(contig)
	var current cluster
	for n := 1; ; n++ {
		a, err := c.next(rank)
		if err != nil {
			return err
		}
		if len(current.atoms) > 0 {
			apart := a == nil
			if !apart && current.separable(contig.Seq, a.start) {
				coupled, err := c.coupled(&current, rank)
				if err != nil {
					return err
				}
				apart = !coupled
			}
			if apart {
				if err := c.finish(&current, contig); err != nil {
					return err
				}
				current = cluster{}
				for _, s := range c.sources {
					for v := s.settled(rank); v != nil; v = s.settled(rank) {
						c.tally.events.add(v, c.tally.genotypes)
					}
				}
			}
		}
		if a == nil {
			return nil
		}
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		s := c.sources[a.call.side]
		s.atoms = s.atoms[1:]
		if a == a.call.atoms[0] {
			c.waiting[a.call.side] = append(c.waiting[a.call.side], a.call)
		}
		current.add(a)
	}
}

// next is the next atom of both sides in playing order; nil at the contig's end.
func (c *comparison) next(rank int) (*atom, error) {
	for {
		var first *atom
		for _, s := range c.sources {
			a, err := s.first(rank)
			if err != nil {
				return nil, err
			}
			if a != nil && (first == nil || a.compare(first) < 0) {
				first = a
			}
		}
		if first == nil {
			return nil, nil
		}
		// Records that begin no later can have atoms that come before it.
		before := first
		for _, s := range c.sources {
			if err := s.fill(rank, first.start); err != nil {
				return nil, err
			}
			if len(s.atoms) > 0 && s.atoms[0].compare(before) < 0 {
				before = s.atoms[0]
			}
		}
		if before == first {
			return first, nil
		}
	}
}

// coupled reports whether both sides state on which haplotypes atoms of the cluster and atoms within reach behind it
// are.
func (c *comparison) coupled(cl *cluster, rank int) (bool, error) {
	reach := cl.end + c.opts.PhaseReach
	for sd, s := range c.sources {
		if err := s.fill(rank, reach); err != nil {
			return false, err
		}
		if !c.linked(cl, side(sd), s.atoms, reach) {
			return false, nil
		}
	}
	return true, nil
}

// linked reports whether one of the atoms to come, up to reach, is of a linkage group that the cluster has atoms
// of.
func (c *comparison) linked(cl *cluster, sd side, coming []*atom, reach int) bool {
	for _, b := range coming {
		if b.start > reach {
			return false
		}
		if !b.het() {
			continue
		}
		for _, a := range cl.atoms {
			if a.call.side == sd && a.het() && a.group == b.group && (a.call == b.call || b.start-cl.end <= c.opts.PhaseReach) {
				return true
			}
		}
	}
	return false
}

// finish evaluates a cluster and counts it.
func (c *comparison) finish(cl *cluster, contig *genome.Contig) error {
	for _, a := range cl.atoms {
		a.inside = c.opts.Regions == nil || c.opts.Regions.holds(contig, a)
		a.insideAllele = a.inside
	}
	c.search.evaluate(cl)
	c.tally.add(cl, contig)
	for _, a := range cl.atoms {
		a.decided = true
		a.call.decided++
	}
	if c.opts.Each == nil {
		c.waiting = [2][]*call{}
		return nil
	}
	for sd, calls := range c.waiting {
		for len(calls) > 0 && calls[0].decided == len(calls[0].atoms) {
			if err := c.opts.Each(calls[0].outcome(c.tally.genotypes)); err != nil {
				return fmt.Errorf("reporting the outcome of %s:%d: %w", contig.Name, calls[0].record.Pos, err)
			}
			calls = calls[1:]
		}
		c.waiting[sd] = calls
	}
	return nil
}

// outcome sums up the verdicts of a call's atoms.
func (c *call) outcome(genotypes bool) Outcome {
	o := Outcome{Record: c.record, Truth: c.side == truth, Decision: NotAssessed}
	assessed, right, alleles, unresolved := 0, 0, 0, false
	for _, a := range c.atoms {
		if !a.assessed(genotypes) {
			continue
		}
		assessed++
		if a.right(genotypes) {
			right++
		}
		if a.allele {
			alleles++
		}
		unresolved = unresolved || a.unresolved
	}
	switch {
	case assessed == 0:
		return o
	case right == assessed:
		o.Decision = TruePositive
		return o
	}
	o.Decision = FalsePositive
	if o.Truth {
		o.Decision = FalseNegative
	}
	switch {
	case unresolved:
		o.Detail = "UNRESOLVED"
	case alleles == assessed:
		o.Detail = "GT"
	case right > 0:
		o.Detail = "PART"
	}
	return o
}

// right reports whether the atom is right; with genotypes, with its genotype.
func (a *atom) right(genotypes bool) bool {
	if genotypes {
		return a.matched
	}
	return a.allele
}

// assessed reports whether the atom counts.
func (a *atom) assessed(genotypes bool) bool {
	if genotypes {
		return a.inside
	}
	return a.insideAllele
}

// missing is a score that sorts below all others.
var missing = math.Inf(-1)

package processor

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/modbase/motif"
	"github.com/porestream/porestream/models"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/network"
	"github.com/porestream/porestream/watchlist"
)

// Calling says which model scores variants, and how many copies of each contig there are. The
// zero value is models.DefaultVariant and haploid contigs.
type Calling struct {
	// Model is a variant model, by name or folder, or models.None; empty means
	// models.DefaultVariant.
	Model string
	// Ploidy is 1, 2 or mixture; empty means 1. PloidyBED is a file of stretches
	// with another; empty for none.
	Ploidy, PloidyBED string
	// MinAlleleFraction is the share of the reads from which on an allele of a
	// mixture is examined; 0 means the caller's default.
	MinAlleleFraction float64
	// MNPDistance is how many bases apart changes of one haplotype may be that are one call; nil
	// means the caller's default. With Atomize each change is a call of its own.
	MNPDistance *int
	Atomize     bool
	// ModifiedMotifs is a file of motifs that are known to be modified; empty for none.
	ModifiedMotifs string
	// Strict has reads refused that the model was not made for.
	Strict bool
}

// Register adds the flags.
func (c *Calling) Register(flags *pflag.FlagSet) {
	flags.StringVar(&c.Model, "variant-model", "", "variant model, by name or folder; none: an analytic model, for haploid contigs only (default "+models.DefaultVariant+")")
	cli.FormerFlag(flags, "caller-model", "variant-model")
	flags.StringVar(&c.Ploidy, "ploidy", variant.Haploid.String(), "copies of each contig: 1, 2, or mixture for molecules of several genomes")
	flags.StringVar(&c.PloidyBED, "ploidy-bed", "", "stretches with another ploidy, BED with 1, 2 or mixture in the fourth column")
	flags.Float64Var(&c.MinAlleleFraction, "min-af", 0, "share of the reads from which on an allele of a mixture is evaluated (default 0.05)")
	c.MNPDistance = flags.Int("mnp-distance", variant.DefaultMNPDistance, "bases between the places of two changes of one haplotype that are one call: 1 side by side, 2 within a codon")
	flags.StringVar(&c.ModifiedMotifs, "modified-motifs", "", "motifs known to be modified, which reads may get wrong: a table of pore pileup --find-motifs, methylation.motifs.tsv of pore run, or lines such as GATC,1")
	flags.BoolVar(&c.Strict, "strict-models", false, "refuse reads of a basecalling model that the variant model was not made for, or that name none, instead of calling them with ModelMismatch")
	flags.BoolVar(&c.Atomize, "atomize", false, "a call for each substituted base, insertion and deletion, as --mnp-distance 0; they are evaluated together all the same")
}

// Validate says what is wrong with c, as far as that can be seen without files.
func (c *Calling) Validate() error {
	if _, err := c.ploidy(); err != nil {
		return err
	}
	if !(c.MinAlleleFraction >= 0 && c.MinAlleleFraction <= 0.5) {
		return fmt.Errorf("--min-af %g: want a share of the reads up to 0.5", c.MinAlleleFraction)
	}
	if d := c.MNPDistance; d != nil && (*d < 0 || *d > variant.MaxMNPDistance) {
		return fmt.Errorf("--mnp-distance %d: want 0 to %d", *d, variant.MaxMNPDistance)
	}
	return nil
}

func (c *Calling) ploidy() (variant.Ploidy, error) {
	p, err := variant.ParsePloidy(cmp.Or(c.Ploidy, variant.Haploid.String()))
	if err != nil {
		return 0, fmt.Errorf("--ploidy: %w", err)
	}
	return p, nil
}

// Load opens the model on a device and completes the caller's configuration. The
// network is nil with models.None; the caller closes it.
func (c *Calling) Load(g *genome.Genome, caller variant.Config, device network.Config) (variant.Config, *network.Network, error) {
	var err error
	if caller.Ploidy, err = c.ploidy(); err != nil {
		return caller, nil, err
	}
	if c.PloidyBED != "" {
		if caller.Ploidies, err = readPloidies(c.PloidyBED, g); err != nil {
			return caller, nil, fmt.Errorf("--ploidy-bed: %w", err)
		}
	}
	if c.ModifiedMotifs != "" {
		if caller.ModifiedMotifs, err = readMotifs(c.ModifiedMotifs); err != nil {
			return caller, nil, fmt.Errorf("--modified-motifs: %w", err)
		}
	}
	var loose []string
	if caller.ModifiedMotifs, loose = variant.SpecificMotifs(caller.ModifiedMotifs); len(loose) > 0 && device.Logger != nil {
		device.Logger.Warn("motifs that are modified are left out: fewer than two of their letters are A, C, G or T", "motifs", strings.Join(loose, " "))
	}
	caller.MinAlleleFraction = c.MinAlleleFraction
	switch d := c.MNPDistance; {
	case c.Atomize || d != nil && *d == 0:
		caller.MNPDistance = -1
	case d != nil:
		caller.MNPDistance = *d
	}
	name := cmp.Or(c.Model, models.DefaultVariant)
	if name == models.None {
		if c.Strict {
			return caller, nil, errors.New("--strict-models: the analytic model (--variant-model none) is for no basecalling models in particular: choose a variant model, or leave --strict-models out")
		}
		return caller, nil, caller.Validate()
	}
	model, err := models.OpenVariant(name)
	if err != nil {
		return caller, nil, fmt.Errorf("--variant-model: %w", err)
	}
	if c.Strict && len(model.Manifest.Reads) == 0 {
		return caller, nil, fmt.Errorf("--strict-models: the manifest of variant model %s doesn't say which basecalling models it is for ([[reads]], docs/attach/models.md): choose another, or leave --strict-models out", model.Manifest.Name)
	}
	device.Device = OwnDevice(device.Device)
	scorer, err := network.New(model, device)
	if err != nil {
		return caller, nil, err
	}
	caller.Network = scorer
	if err := caller.Validate(); err != nil {
		return caller, nil, errors.Join(err, scorer.Close())
	}
	return caller, scorer, nil
}

func readPloidies(path string, g *genome.Genome) (variant.Ploidies, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return variant.ReadPloidies(f, path, g)
}

// readMotifs are the letters of the motifs that a file names.
func readMotifs(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := motif.Read(f, path)
	if err != nil {
		return nil, err
	}
	return motif.Letters(list), nil
}

// OwnDevice is where a network besides the basecaller's runs: what a simulated device recorded is the basecaller's.
func OwnDevice(device string) string {
	if infer.Simulated(device) {
		return infer.Device{}.String()
	}
	return device
}

// suits says which rule of panels asks for mixtures where none are called; nil if there is none.
func (c *Calling) suits(w *watchlist.Watch, g *genome.Genome) error {
	rule, _, _ := w.OfMixture(func(string, int) bool { return false })
	if rule == "" {
		return nil
	}
	var caller variant.Config
	var err error
	if caller.Ploidy, err = c.ploidy(); err != nil {
		return err
	}
	if c.PloidyBED != "" {
		if caller.Ploidies, err = readPloidies(c.PloidyBED, g); err != nil {
			return fmt.Errorf("--ploidy-bed: %w", err)
		}
	}
	rule, contig, pos := w.OfMixture(func(contig string, pos int) bool {
		return c.MinAlleleFraction <= watchlist.MixtureShare && caller.PloidyAt(contig, pos) == variant.Mixture
	})
	if rule == "" {
		return nil
	}
	where := ""
	if ploidy := caller.PloidyAt(contig, pos); c.PloidyBED != "" && contig != "" && ploidy != variant.Mixture {
		where = fmt.Sprintf(", and %s:%d is of ploidy %s", contig, pos+1, ploidy)
	}
	return cli.Usagef("rule %q asks for an allele_fraction below %g, which is found in mixtures only%s: give --ploidy mixture, with --min-af at most %g, or raise allele_fraction",
		rule, watchlist.MixtureFraction, where, watchlist.MixtureShare)
}

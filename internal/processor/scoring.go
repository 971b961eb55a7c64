package processor

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/network"
	"github.com/porestream/porestream/annotate/score"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/textfile"
)

// Scoring says which sequence networks score alleles.
type Scoring struct {
	Networks []string // folders; none: nothing is scored
	Genes    string   // table of genes as SpliceAI's; "": those of the gene model
}

// Register adds the flags.
func (f *Scoring) Register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.Networks, "network", nil, "folder of a sequence network that scores variants, such as of splicing (docs/files/networks.md); several with commas")
	flags.StringVar(&f.Genes, "network-genes", "", "table of the genes, in SpliceAI's form, that networks of splicing score variants for; those of --gff without it")
}

// Validate checks the flags.
func (f *Scoring) Validate() error {
	if f.Genes != "" && len(f.Networks) == 0 {
		return cli.Usagef("--network-genes %s needs a --network", f.Genes)
	}
	return nil
}

// On reports whether there is anything to score with.
func (f *Scoring) On() bool { return len(f.Networks) > 0 }

// Open loads the networks; the caller closes them. It is nil without any.
func (f *Scoring) Open(g *genome.Genome, model *annotate.Model, cfg network.Config) (*network.Scorer, error) {
	if !f.On() {
		return nil, nil
	}
	genes, err := f.genes(g, model)
	if err != nil {
		return nil, err
	}
	return network.Open(f.Networks, genes, cfg)
}

func (f *Scoring) genes(g *genome.Genome, model *annotate.Model) (*score.Genes, error) {
	if f.Genes == "" {
		return score.GenesOf(g, model), nil
	}
	file, err := os.Open(f.Genes)
	if err != nil {
		return nil, fmt.Errorf("opening table of genes: %w", err)
	}
	defer file.Close()
	text, err := textfile.NewReader(file, 1<<16)
	if err != nil {
		return nil, fmt.Errorf("reading table of genes %s: %w", f.Genes, err)
	}
	genes, _, err := score.ReadTable(text, g)
	if err != nil {
		return nil, fmt.Errorf("reading table of genes %s: %w", f.Genes, err)
	}
	return genes, nil
}

package processor

import (
	"log/slog"
	"strings"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
)

// Genes says which gene models to read, and how.
type Genes struct {
	Paths  []string // GFF3 or GTF; none annotates with intergenic_variant only
	Reader annotate.ModelReader
}

// Register adds the flags.
func (f *Genes) Register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.Paths, "gff", nil, "genes of the reference, or regulatory regions: GFF3 or GTF, may be gzipped, may be given several times")
	flags.Var(&f.Reader.Codes, "genetic-code", "NCBI's genetic codes of genes without transl_table: a number, or CONTIG=NUMBER, several with commas")
	flags.StringSliceVar(&f.Reader.Circular, "circular", nil, "circular contigs, several with commas, where the gene model does not say so")
}

// Annotator reads the genes and checks them against the reference. What is left
// out of them or repaired is logged, in a few lines for each kind of fault.
func (f *Genes) Annotator(g *genome.Genome, logger *slog.Logger) (*annotate.Annotator, error) {
	if len(f.Paths) == 0 {
		return annotate.New(g, nil), nil
	}
	model, err := f.Reader.Load(g, f.Paths...)
	if err != nil {
		return nil, err
	}
	for _, w := range model.Warnings() {
		logger.Warn("genes are not read completely", "file", strings.Join(f.Paths, ", "), "reason", w)
	}
	return annotate.New(g, model), nil
}

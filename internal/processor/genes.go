package processor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
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

// fingerprint is a hash over the reference, and the genes and how they are read.
func (f *Genes) fingerprint(g *genome.Genome) (string, error) {
	h := sha256.New()
	for _, c := range g.Contigs {
		fmt.Fprintf(h, "contig %q %s\n", c.Name, c.Digest())
	}
	for _, path := range f.Paths {
		sum, err := hashFile(path)
		if err != nil {
			return "", fmt.Errorf("reading genes: %w", err)
		}
		fmt.Fprintf(h, "genes %x\n", sum)
	}
	circular := slices.Sorted(slices.Values(f.Reader.Circular))
	fmt.Fprintf(h, "codes %+v circular %q\n", f.Reader.Codes, circular)
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hashFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

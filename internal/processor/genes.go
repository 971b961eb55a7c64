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
	// Synonyms is a table of further names of contigs, see [genome.Genome.AddSynonyms]; empty for none.
	Synonyms string
}

// SynonymsFlag and SynonymsUsage are the flag of a table of contig names, and what it says of itself.
const (
	SynonymsFlag  = "contig-synonyms"
	SynonymsUsage = "table of contigs' other names, such as 1, chr1, NC_000001.11: NCBI's assembly report, UCSC's chromAlias, or names of one contig per line, separated by tabs"
)

// Register adds the flags.
func (f *Genes) Register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.Paths, "gff", nil, "genes of the reference, or regulatory regions: GFF3 or GTF, may be gzipped, may be given several times")
	flags.StringVar(&f.Synonyms, SynonymsFlag, "", SynonymsUsage)
	flags.Var(&f.Reader.Codes, "genetic-code", "NCBI's genetic codes of genes without transl_table: a number, or CONTIG=NUMBER, several with commas")
	flags.StringSliceVar(&f.Reader.Circular, "circular", nil, "circular contigs, several with commas, where the gene model does not say so")
}

// Genome reads the reference, with the synonyms of its contigs.
func (f *Genes) Genome(reference string) (*genome.Genome, error) {
	g, err := genome.Load(reference)
	if err == nil && f.Synonyms != "" {
		err = g.LoadSynonyms(f.Synonyms)
	}
	return g, err
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
	for _, path := range f.files() {
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

// files are those that the genes are read by.
func (f *Genes) files() []string {
	if f.Synonyms == "" {
		return f.Paths
	}
	return append(slices.Clone(f.Paths), f.Synonyms)
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

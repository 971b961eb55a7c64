package processor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genes"
	"github.com/porestream/porestream/genome"
)

// Genes says which gene models to read, and how.
type Genes struct {
	Paths  []string // GFF3 or GTF, or AutoGenes; none annotates with intergenic_variant only
	Reader annotate.ModelReader
	// Synonyms is a table of further names of contigs, see [genome.Genome.AddSynonyms]; empty for none.
	Synonyms string
	// Naming is how genes that are found get names.
	Naming Naming

	similar map[string]*genes.Similar // known proteins that genes which were found are like, by the genes' IDs
}

// SynonymsFlag and SynonymsUsage are the flag of a table of contig names, and what it says of itself.
const (
	SynonymsFlag  = "contig-synonyms"
	SynonymsUsage = "table of contigs' other names, such as 1, chr1, NC_000001.11: NCBI's assembly report, UCSC's chromAlias, or names of one contig per line, separated by tabs"
)

// AutoGenes, instead of files, finds the genes in the reference.
const AutoGenes = "auto"

// Register adds the flags.
func (f *Genes) Register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.Paths, "gff", nil, "genes of the reference, or regulatory regions: GFF3 or GTF, may be gzipped, may be given several times; auto finds the genes of a bacterium or virus in the reference")
	flags.StringVar(&f.Synonyms, SynonymsFlag, "", SynonymsUsage)
	f.Naming.Register(flags)
	flags.Var(&f.Reader.Codes, "genetic-code", "NCBI's genetic codes of genes without transl_table: a number, or CONTIG=NUMBER, several with commas")
	flags.StringSliceVar(&f.Reader.Circular, "circular", nil, "circular contigs, several with commas, where the gene model does not say so")
}

// Genome reads the reference, with the synonyms of its contigs.
func (f *Genes) Genome(reference string) (*genome.Genome, error) {
	return f.genome(reference, genome.Load)
}

// PackedGenome is Genome for annotation alone, by [genome.LoadPacked].
func (f *Genes) PackedGenome(reference string) (*genome.Genome, error) {
	return f.genome(reference, genome.LoadPacked)
}

func (f *Genes) genome(reference string, load func(string) (*genome.Genome, error)) (*genome.Genome, error) {
	g, err := load(reference)
	if err == nil && f.Synonyms != "" {
		err = g.LoadSynonyms(f.Synonyms)
	}
	return g, err
}

// Annotator reads the genes and checks them against the reference. What is left
// out of them or repaired is logged, in a few lines for each kind of fault.
func (f *Genes) Annotator(ctx context.Context, g *genome.Genome, logger *slog.Logger) (*annotate.Annotator, error) {
	if len(f.Naming.Proteins) > 0 && !f.auto() {
		return nil, fmt.Errorf("--%s names genes that are found: it goes with --gff %s", ProteinsFlag, AutoGenes)
	}
	if len(f.Paths) == 0 {
		return annotate.New(g, nil), nil
	}
	if f.auto() {
		model, err := f.predict(ctx, g, logger)
		if err != nil {
			return nil, fmt.Errorf("--gff %s: %s: %w", AutoGenes, g.Path, err)
		}
		return annotate.New(g, model), nil
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

// auto reports whether genes are to be found.
func (f *Genes) auto() bool { return slices.Contains(f.Paths, AutoGenes) }

// predict finds the genes of the genome.
func (f *Genes) predict(ctx context.Context, g *genome.Genome, logger *slog.Logger) (*annotate.Model, error) {
	switch {
	case len(f.Paths) > 1:
		return nil, errors.New("genes that are found go with no file of genes: leave out the other --gff")
	case len(f.Reader.Codes.Contig) > 0:
		return nil, errors.New("genes are found with one genetic code for all contigs: give --genetic-code one number, or leave it out")
	}
	finding := Finding{Code: f.Reader.Codes.Default, Circular: f.Reader.Circular, Naming: f.Naming}
	found, err := finding.Find(ctx, g)
	if err != nil {
		return nil, err
	}
	text, err := found.gff3()
	if err != nil {
		return nil, err
	}
	f.similar = make(map[string]*genes.Similar, found.Named)
	for i := range found.Genes {
		if s := found.Genes[i].Similar; s != nil {
			f.similar[found.Identifier(i)] = s
		}
	}
	sum := sha256.Sum256(text.Bytes())
	model := new(annotate.Model) // nothing but intergenic where no gene was found
	if len(found.Genes) > 0 {
		reader := f.Reader
		reader.Circular = nil // what was found says of each contig whether it is circular
		if model, err = reader.Read(text, g); err != nil {
			return nil, err
		}
	}
	model.Origin = fmt.Sprintf("predicted by pore genes, no annotation: %s; GFF3 SHA-256 %x", found.Summary(), sum)
	if doubt := found.Doubt(); doubt != "" {
		logger.Warn(doubt)
	}
	logger.Warn("gene models are predicted, no annotation", "found", found.Summary())
	return model, nil
}

// fingerprint is a hash over the reference, and the genes and how they are read. origin is that of models which were predicted.
func (f *Genes) fingerprint(g *genome.Genome, origin string) (string, error) {
	h := sha256.New()
	for _, c := range g.Contigs {
		fmt.Fprintf(h, "contig %q %s\n", c.Name, c.Digest())
	}
	if origin != "" {
		fmt.Fprintf(h, "genes %q\n", origin)
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
	paths := slices.DeleteFunc(slices.Clone(f.Paths), func(path string) bool { return path == AutoGenes })
	if f.Synonyms == "" {
		return paths
	}
	return append(paths, f.Synonyms)
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

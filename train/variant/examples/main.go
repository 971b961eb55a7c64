// Command examples writes the labelled examples that variant callers are trained
// with: the tensors that package variant would put to a network for the alleles of
// an alignment file, and what is true of each.
//
// It writes three files into a folder. examples.npy has a row of
// variant.ExampleSize values in half precision for each allele, labels.npy a record
// each; both are NumPy arrays. counts.json holds how many there are, and how many
// alleles were left out because more than one answer is right.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/aligned"
)

func main() { os.Exit(cli.Main(command())) }

type config struct {
	reference, truth, ploidy, out, errors string
	minFraction                           float64
}

func command() *cobra.Command {
	var cfg config
	cmd := &cobra.Command{
		Use:   "examples --ref FASTA --truth TRUTH.vcf --out FOLDER IN.bam",
		Short: "Write labelled examples to train variant callers with",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE:  func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), cfg, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "reference that the reads are aligned to, FASTA (required)")
	flags.StringVar(&cfg.truth, "truth", "", "variants of the sample with genotypes, VCF (required)")
	flags.StringVar(&cfg.out, "out", "", "folder to write to (required)")
	flags.StringVar(&cfg.ploidy, "ploidy", "1", "1, 2 or mixture; a mixture's truth has the genotypes of the two genomes that are mixed")
	flags.Float64Var(&cfg.minFraction, "min-af", 0, "least share of reads at which a mixture's alleles are evaluated; 0: the caller's default")
	flags.StringVar(&cfg.errors, "errors", "", "what is expected of the reads before they are counted, as `examples errors` writes it; none: the usual")
	cmd.AddCommand(errorsCommand())
	return cmd
}

func run(ctx context.Context, cfg config, path string) error {
	for name, value := range map[string]string{"--ref": cfg.reference, "--truth": cfg.truth, "--out": cfg.out} {
		if value == "" {
			return cli.Usagef("%s is required", name)
		}
	}
	ploidy, err := variant.ParsePloidy(cfg.ploidy)
	if err != nil {
		return cli.Usagef("--ploidy: %w", err)
	}
	expected, err := expectedErrors(cfg.errors)
	if err != nil {
		return err
	}
	g, err := genome.Load(cfg.reference)
	if err != nil {
		return err
	}
	known, err := readTruth(cfg.truth, g, haplotypesOf(ploidy))
	if err != nil {
		return err
	}
	alignments, err := aligned.Open(path, g)
	if err != nil {
		return fmt.Errorf("reading alignments: %w", err)
	}
	defer alignments.Close()

	if err := os.MkdirAll(cfg.out, 0o777); err != nil {
		return fmt.Errorf("making %s: %w", cfg.out, err)
	}
	seen := filepath.Join(cfg.out, "examples.npy")
	proposed, err := extract(ctx, alignments, variant.Config{Ploidy: ploidy, MinAlleleFraction: cfg.minFraction, Errors: expected}, seen)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	c, err := writeLabels(g, known, ploidy, proposed, filepath.Join(cfg.out, "labels.npy"))
	if err != nil {
		return err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(cfg.out, "counts.json"), append(text, '\n'), 0o666)
}

// proposal is an allele that there is an example for.
type proposal struct {
	contig string
	allele allele
	depth  int
}

// extract writes the examples of an alignment file in half precision and returns
// whose they are.
func extract(ctx context.Context, in *aligned.Alignments, cfg variant.Config, path string) (out []proposal, err error) {
	file, err := createArray(path, "'<f2'", fmt.Sprintf(" %d", variant.ExampleSize))
	if err != nil {
		return nil, fmt.Errorf("writing examples: %w", err)
	}
	defer func() { err = errors.Join(err, file.close()) }()
	_, err = in.Examples(ctx, cfg, func(c variant.Candidate, values []float32) error {
		out = append(out, proposal{c.Contig, allele{c.Pos - 1, c.Ref, c.Alt}, c.Depth})
		return file.append(func(b []byte) []byte { return appendHalves(b, values) })
	})
	return out, err
}

// counts is what became of the alleles.
type counts struct {
	Examples  int `json:"examples"`  // alleles that the caller evaluates
	True      int `json:"true"`      // of these, alleles that the sample has
	Ambiguous int `json:"ambiguous"` // examples that more than one label is right for
	Missed    int `json:"missed"`    // alleles of the sample that the caller doesn't evaluate
}

// writeLabels writes a label for each proposal; those that more than one is right
// for have ambiguousCopies.
func writeLabels(g *genome.Genome, all truth, ploidy variant.Ploidy, proposed []proposal, path string) (c counts, err error) {
	for _, p := range proposed {
		list := all[p.contig]
		if i, ok := slices.BinarySearchFunc(list, p.allele, func(k *known, a allele) int { return k.compare(a) }); ok {
			list[i].proposed = true
			continue
		}
		// An event of several bases that the truth has in parts.
		l := labeller{ref: g.Contig(p.contig).Seq, truth: list, ploidy: ploidy}
		start, end := p.allele.span(l.ref)
		for _, k := range l.parts(p.allele, l.near(start-reach, end+reach)) {
			k.proposed = true
		}
	}
	for _, list := range all {
		for _, k := range list {
			if !k.proposed {
				c.Missed++
			}
		}
	}
	file, err := createArray(path, labelDescr, "")
	if err != nil {
		return c, fmt.Errorf("writing labels: %w", err)
	}
	defer func() { err = errors.Join(err, file.close()) }()
	l := labeller{ploidy: ploidy, mode: modeOf(ploidy)}
	for _, p := range proposed {
		l.ref, l.truth = g.Contig(p.contig).Seq, all[p.contig]
		own, ok := l.label(p.allele)
		if !ok {
			own = label{pos: int32(p.allele.pos), copies: ambiguousCopies, mode: l.mode}
			c.Ambiguous++
		}
		own.depth = uint16(min(p.depth, 1<<16-1))
		c.Examples++
		if ok && own.copies > 0 {
			c.True++
		}
		if err := file.append(own.appendTo); err != nil {
			return c, fmt.Errorf("writing labels: %w", err)
		}
	}
	return c, nil
}

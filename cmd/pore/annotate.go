package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/processor"
)

type annotateConfig struct {
	reference, genes, format string
	pick                     bool
	log                      cli.LogFlags
}

func annotateCommand() *cobra.Command {
	var cfg annotateConfig
	cmd := &cobra.Command{
		Use:   "annotate --ref FASTA --gff GFF3 IN.vcf",
		Short: "Annotate the variants of a VCF with their consequences",
		Long: `Writes the VCF with INFO/CSQ (VEP's field names), or one JSON line per alternate
allele, to standard output. IN.vcf may be gzipped; - is standard input.`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return annotateVCF(cmd.Context(), cfg, args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "reference genome, FASTA, may be gzipped (required)")
	flags.StringVar(&cfg.genes, "gff", "", "genes of the reference, GFF3, may be gzipped (required)")
	flags.StringVar(&cfg.format, "format", "vcf", "vcf or json")
	cfg.log.Register(flags, slog.LevelWarn)
	flags.BoolVar(&cfg.pick, "pick", false, "only the most relevant consequence of each allele")
	return cmd
}

func annotateVCF(ctx context.Context, cfg annotateConfig, path string, stdin io.Reader, stdout io.Writer) error {
	if cfg.reference == "" || cfg.genes == "" {
		return cli.Usagef("--ref and --gff are required: the reference genome and its genes")
	}
	write := map[string]func(context.Context, io.Reader, io.Writer, *annotate.Annotator, annotate.Options) (annotate.Stats, error){
		"vcf": annotate.VCF, "json": annotate.JSONLines,
	}[cfg.format]
	if write == nil {
		return cli.Usagef("--format %q: want vcf or json", cfg.format)
	}
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	in, name, err := openInput(path, stdin)
	if err != nil {
		return err
	}
	defer in.Close()
	g, err := genome.Load(cfg.reference)
	if err != nil {
		return err
	}
	annotator, err := processor.LoadAnnotator(g, cfg.genes, logger)
	if err != nil {
		return err
	}
	if _, err := write(ctx, in, stdout, annotator, annotate.Options{Pick: cfg.pick}); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// openInput opens a file, or standard input for "-", and names it for errors.
func openInput(path string, stdin io.Reader) (io.ReadCloser, string, error) {
	if path == "-" {
		return io.NopCloser(stdin), "standard input", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	return f, path, nil
}

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/network"
	"github.com/porestream/porestream/vcf"
)

type callConfig struct {
	reference, sample string
	calling           processor.Calling
	device, library   string
	log               cli.LogFlags
}

func callCommand() *cobra.Command {
	var cfg callConfig
	cmd := &cobra.Command{
		Use:   "call --ref FASTA [--ploidy 1|2|mixture] IN.bam",
		Short: "Call the variants of aligned reads",
		Long: `Writes the variants of a BAM or SAM file as VCF to standard output, with the
engine that the stream uses. - is standard input.`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return call(cmd.Context(), cfg, args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "reference genome that the reads are aligned to, FASTA, may be gzipped (required)")
	flags.StringVar(&cfg.sample, "sample", "", "sample name, if not the read groups'")
	cfg.calling.Register(flags)
	flags.StringVar(&cfg.device, "device", "auto", "where the variant model runs: auto, cpu, cuda or cuda:N[,N...]")
	flags.StringVar(&cfg.library, "ort-lib", "", "ONNX Runtime library, for example a CUDA build; else the environment variable ORT_LIB")
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

func call(ctx context.Context, cfg callConfig, path string, stdin io.Reader, stdout io.Writer) (err error) {
	if cfg.reference == "" {
		return cli.Usagef("--ref is required: the reference genome that the reads are aligned to")
	}
	if err := cfg.calling.Validate(); err != nil {
		return cli.Usagef("%w", err)
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
	alignments, err := variant.ReadAlignments(in, g)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer alignments.Close()
	caller, judge, err := cfg.calling.Load(g, variant.Config{Sample: cmp.Or(cfg.sample, alignments.Sample(), "sample")},
		network.Config{Device: cfg.device, Library: cfg.library, Logger: logger})
	if err != nil {
		return err
	}
	if judge != nil {
		defer func() { err = errors.Join(err, judge.Close()) }()
	}
	out := bufio.NewWriter(stdout)
	writer, err := vcf.NewWriter(out, variant.Header(g.Contigs, caller.Sample, caller))
	if err != nil {
		return err
	}
	var calls []*streampb.Call
	counts, err := alignments.Call(ctx, caller, func(c *streampb.Call) error {
		calls = append(calls, c)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, rec := range variant.VCFRecords(calls) {
		if err := writer.Write(rec); err != nil {
			return err
		}
	}
	logger.Info("alignments were called", "counts", counts)
	if err := writer.Flush(); err != nil {
		return err
	}
	return out.Flush()
}

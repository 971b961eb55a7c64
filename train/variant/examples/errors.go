package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/aligned"
	"github.com/porestream/porestream/variant/network"
)

// errorsCommand counts what a manifest's [reads.errors] says.
func errorsCommand() *cobra.Command {
	var reference string
	cmd := &cobra.Command{
		Use:   "errors --ref FASTA IN.bam",
		Short: "Count how often reads of the reference's own genome err, as [reads.errors] of a manifest",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reference == "" {
				return cli.Usagef("--ref is required")
			}
			return countErrors(cmd.Context(), reference, args[0], cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&reference, "ref", "", "the reads' own genome, FASTA (required)")
	return cmd
}

func countErrors(ctx context.Context, reference, path string, out io.Writer) error {
	g, err := genome.Load(reference)
	if err != nil {
		return err
	}
	alignments, err := aligned.Open(path, g)
	if err != nil {
		return fmt.Errorf("reading alignments: %w", err)
	}
	defer alignments.Close()
	rates, err := alignments.Errors(ctx, variant.Config{})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return toml.NewEncoder(out).Encode(network.ReadErrors{
		Mismatch: rates.Mismatch, Gaps: rates.Gaps, Other: rates.Other, Extension: rates.Extension,
		Deletion: rates.Deletion[1:], Insertion: rates.Insertion[1:],
	})
}

// expectedErrors reads what errorsCommand wrote; nil of no path.
func expectedErrors(path string) (rates *variant.ErrorRates, err error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var read network.ReadErrors
	if err := toml.NewDecoder(file).DisallowUnknownFields().Decode(&read); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := read.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return read.Rates(), nil
}

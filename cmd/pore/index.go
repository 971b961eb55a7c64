package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/align/minimap"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/wholefile"
)

func indexCommand() *cobra.Command {
	var reference, preset, output string
	var log cli.LogFlags
	cmd := &cobra.Command{
		Use:   "index --ref FASTA -o OUT.mmi [--preset map-ont]",
		Short: "Build a reference's minimap2 index once, for --index",
		Long: `Writes the index of a reference in minimap2's own format. processor, pore run,
pore basecall, pore align and pore call read it with --index and start without building
one. It is for one reference and one preset's seeds; with another it is refused.

minimap2 -x map-ont -d OUT.mmi FASTA makes one as well, as long as it is in one part (-I).`,
		Example: `  pore index --ref ref.fa -o ref.mmi
  pore align --ref ref.fa --index ref.mmi reads.fastq > reads.bam`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case reference == "":
				return cli.Usagef("--ref is required: the reference genome to index")
			case output == "":
				return cli.Usagef("--output is required: the file for the index")
			}
			if err := cli.SpareInputs(cmd.Flags(), nil, "output"); err != nil {
				return err
			}
			logger, err := log.Logger(os.Stderr)
			if err != nil {
				return err
			}
			return buildIndex(reference, preset, output, logger)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&reference, "ref", "", "reference genome, FASTA, may be gzipped (required)")
	flags.StringVar(&preset, "preset", minimap.DefaultPreset, "minimap2 preset whose seeds are indexed: map-ont, or lr:hq for reads of 94 % identity and more")
	flags.StringVarP(&output, "output", "o", "", "file for the index (required)")
	log.Register(flags, slog.LevelWarn)
	return cmd
}

func buildIndex(reference, preset, output string, logger *slog.Logger) error {
	began := time.Now()
	g, err := genome.Load(reference)
	if err != nil {
		return err
	}
	index, err := minimap.NewIndex(g, minimap.Config{Preset: preset})
	if err != nil {
		return err
	}
	defer index.Close()
	file, err := wholefile.Create(output)
	if err != nil {
		return err
	}
	if err := index.Write(file.Name()); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", output, file.Cause(err)), file.Discard())
	}
	if err := file.Commit(); err != nil {
		return err
	}
	logger.Info("the index is written", "file", output, "contigs", len(g.Contigs), "took", time.Since(began))
	return nil
}

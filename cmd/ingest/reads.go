package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/ingest/folder"
	"github.com/porestream/porestream/ingest/sources"
	"github.com/porestream/porestream/internal/cli"
)

const readsName = "reads"

// standardInput is how a pipe is named.
const standardInput = "-"

func readsKind() kind {
	return kind{
		name: readsName, use: "--brokers HOST:PORT FILE|DIR|-...",
		example: "reads --brokers kafka:9092 /data/run1\n  dorado basecaller hac pod5/ | ingest reads --brokers kafka:9092 -",
		short:   "Put reads on Kafka that are called already: FASTQ, SAM, BAM and CRAM, while they are written",
		long: "Takes the reads that MinKNOW, Dorado or Guppy have called: from folders as MinKNOW lays them out, from single files, or from a pipe (-). Alignments are dropped. " +
			"Each read is sent once, by its id, whatever files it is in. Started again after a crash or an interrupt, it goes on where it stopped. " +
			"A run ends by MinKNOW's final summary, --idle-end, --once, the end of the pipe, or, of single files, when they have been read.",
		operands: "paths", operandsUsage: "folders that are watched, with what is below them, and files; - is standard input, for commands only",
		patient: true, called: true, endless: true, waiting: "connecting and listing the folders",
		make: func() source { return new(reading) },
	}
}

// reading is a source of reads that are called already.
type reading struct {
	folders
	files folder.ReadFiles
	sheet string
	ref   string
	pipe  bool
}

func (r *reading) register(flags *pflag.FlagSet) {
	r.registerFolders(flags, readsName, 0)
	flags.StringVar(&r.files.Naming.Run, "run", "", "run of reads that name none")
	flags.StringVar(&r.files.Naming.Model, "called-by", "", "basecalling model of reads that name none")
	flags.BoolVar(&r.files.Naming.Demultiplexed, "demultiplexed", false, "reads that name no barcode have none: for FASTQ of Dorado, whose titles name barcodes only where there is one")
	flags.StringVar(&r.sheet, "sample-sheet", "", "MinKNOW's sample sheet, CSV: which barcodes there are and what their samples are called")
	flags.BoolVar(&r.files.Failed, "include-fail", false, "take reads, too, that fell through the basecaller's quality control: folders named fail, and flag 0x200")
	flags.StringVar(&r.ref, "ref", "", "for CRAM: the reference genome that it was written with, FASTA, may be gzipped")
	fileFlag(flags, "sample-sheet")
	fileFlag(flags, "ref")
}

func (r *reading) complete(given *given) error {
	if err := r.completeFolders(given, readsName); err != nil {
		return err
	}
	r.pipe = slices.Contains(given.operands, standardInput)
	switch {
	case r.pipe && len(given.operands) > 1:
		return cli.Usagef("- (standard input) stands alone")
	case r.pipe && given.name != "":
		return cli.Usagef("paths: - (standard input) is for the command ingest reads")
	}
	r.Single = true
	r.files.Roots, r.files.Naming.Sample = given.operands, given.intake.sample
	if r.ref != "" {
		g, err := genome.Load(r.ref)
		if err != nil {
			return fmt.Errorf("--ref: %w", err)
		}
		r.files.Reference = g.Bases
	}
	if r.sheet != "" {
		f, err := os.Open(r.sheet)
		if err != nil {
			return fmt.Errorf("--sample-sheet: %w", err)
		}
		defer f.Close()
		if r.files.Naming.Sheet, err = demux.ParseSheet(f); err != nil {
			return fmt.Errorf("%s: %w", r.sheet, err)
		}
	}
	return nil
}

func (r *reading) claims() ([]sources.Claim, error) {
	if r.pipe {
		return folderClaims(r.Journal)
	}
	return r.folders.claims()
}

func (r *reading) run(ctx context.Context, to *destination) error {
	cfg := r.configure(to, to.service.Topics.Called)
	files := r.files
	files.Metrics = cfg.Metrics
	if r.pipe {
		return folder.Pipe(ctx, cfg, &files, "standard input", os.Stdin, to.ready)
	}
	cfg.Files = &files
	// Of files alone nothing more is to come.
	if !slices.ContainsFunc(cfg.Dirs, isFolder) {
		cfg.Once = true
	}
	return folder.Watch(ctx, cfg, to.ready)
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

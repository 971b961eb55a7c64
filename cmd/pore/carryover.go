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
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/aligned"
	"github.com/porestream/porestream/variant/carryover"
	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/vrs"
)

type carryOverConfig struct {
	reference, output, sheet, primers string
	reads                             []string
	controls                          processor.Controls
	threads                           int
	log                               cli.LogFlags
}

func carryOverCommand() *cobra.Command {
	var cfg carryOverConfig
	cmd := &cobra.Command{
		Use:   "carryover --ref FASTA --control NAME --alignments BAM... -o {sample}.vcf.gz CALLS.vcf...",
		Short: "Mark alleles that carry-over from other samples, or from what a control shows, explains",
		Long: `Reads the calls of a run's samples, one sample in each file, counts in the run's
alignments which reads of which sample show each allele, called or not, and writes the
calls with how much of an allele is carry-over at most: reads of other samples that
got the wrong barcode, or what a negative control shows. What can't be distinguished from it has the filter
CarryOver. A control has no file of calls, or one that is passed on as it is.

pore call --control does both at once, pore run --control for a whole run. Reads count
that pore call would examine; docs/files/carryover.md has the rule.`,
		Example: `  pore carryover --ref ref.fa --no-template-control water --alignments plate.bam -o 'marked/{sample}.vcf.gz' calls.*.vcf.gz
  pore carryover --ref ref.fa --sample-sheet sheet.csv --alignments barcode01.bam --alignments barcode02.bam -o '{sample}.vcf' *.calls.vcf`,
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return markFiles(cmd.Context(), cfg, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "reference genome that the reads are aligned to, FASTA, may be gzipped (required)")
	flags.StringArrayVar(&cfg.reads, "alignments", nil, "BAM, CRAM or SAM file of the run, whose read groups (SM) name the samples; may be repeated (required)")
	flags.StringVar(&cfg.sheet, "sample-sheet", "", "MinKNOW's sample sheet, CSV, whose column type names negative_control and no_template_control")
	flags.StringVar(&cfg.primers, "primers", "", processor.PrimersHelp)
	flags.StringVarP(&cfg.output, "output", "o", "", "name of the files for the calls, with {sample} in it; compressed by BGZF and indexed if it ends in .gz (required)")
	flags.IntVar(&cfg.threads, "threads", 0, "regions that are evaluated at a time; 0: one for each CPU")
	cfg.controls.Register(flags)
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

func markFiles(ctx context.Context, cfg carryOverConfig, paths []string) error {
	switch {
	case cfg.reference == "":
		return cli.Usagef("--ref is required: the reference genome that the reads are aligned to")
	case len(cfg.reads) == 0:
		return cli.Usagef("--alignments is required: the alignments of the run, in which reads are counted")
	case !isPattern(cfg.output):
		return cli.Usagef("-o with %s in it is required: the names of the files for the calls", samplePlace)
	case !cfg.controls.Named() && cfg.sheet == "":
		return cli.Usagef("--control, --no-template-control or --sample-sheet is required: nothing else shows what carry-over there is")
	case cfg.threads < 0:
		return cli.Usagef("--threads %d: want 0 or more", cfg.threads)
	}
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	g, err := genome.Load(cfg.reference)
	if err != nil {
		return err
	}
	m := marking{genome: g, reads: cfg.reads, output: cfg.output, calls: make(map[string]string), logger: logger, options: aligned.Options{Threads: threadsOf(cfg.threads)}}
	if cfg.primers != "" {
		if m.options.Primers, err = processor.LoadPrimers(cfg.primers, g); err != nil {
			return err
		}
	}
	if err := m.find(cfg.controls, cfg.sheet); err != nil {
		return err
	}
	for _, path := range paths {
		if info, err := os.Stat(path); path == "-" || err == nil && !info.Mode().IsRegular() && !info.IsDir() {
			return cli.Usagef("%s: calls are read several times: give a file, not a pipe", path)
		}
		sample, err := sampleOfCalls(path)
		if err != nil {
			return err
		}
		if m.calls[sample] != "" {
			return fmt.Errorf("%s: sample %s is in %s already: give each sample's calls once", path, sample, m.calls[sample])
		}
		if !slices.Contains(m.samples, sample) {
			return fmt.Errorf("%s: no read group of the reads names its sample %s: they name %s", path, sample, few(m.samples))
		}
		m.calls[sample] = path
	}
	return m.run(ctx)
}

// sampleOfCalls is the sample of a VCF of one.
func sampleOfCalls(path string) (sample string, err error) {
	err = withText(path, os.Stdin, func(r io.Reader, file string) error {
		in, err := vcf.NewReader(r)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		names := in.Header().Samples
		if len(names) != 1 {
			return fmt.Errorf("%s: it has %d samples: want a file for each (bcftools +split)", file, len(names))
		}
		sample = names[0]
		return fileable(path, sample)
	})
	return sample, err
}

// fileable returns an error if no file can be called after a sample.
func fileable(path, sample string) error {
	if strings.ContainsAny(sample, `/\`) {
		return fmt.Errorf("%s: no file can be called after sample %q", path, sample)
	}
	return nil
}

// marking marks the calls of a run's samples.
type marking struct {
	genome   *genome.Genome
	reads    []string // files
	of       map[string][]string
	samples  []string // all that the reads have
	controls carryover.Controls
	calls    map[string]string // files, by sample
	output   string            // pattern
	options  aligned.Options
	logger   *slog.Logger
	index    string // of minimap2, for reads that aren't aligned; empty: it is made anew
}

// find finds samples and controls of the reads.
func (m *marking) find(controls processor.Controls, sheetPath string) error {
	m.of = make(map[string][]string)
	var flowCells []string
	for i, path := range m.reads {
		if path == "-" {
			return cli.Usagef("reads are counted after the calls are known: give a file, not standard input")
		}
		for _, other := range m.reads[:i] {
			if sameFile(path, other) {
				return cli.Usagef("--alignments %s: it is the same file as %s, whose reads would count twice", path, other)
			}
		}
		samples, cells, err := samplesOf(path, m.genome)
		if err != nil {
			return err
		}
		if len(samples) == 0 {
			return fmt.Errorf("%s: its read groups name no sample (SM), so nobody knows whose reads they are", path)
		}
		for _, sample := range samples {
			m.of[sample] = append(m.of[sample], path)
			m.samples = append(m.samples, sample)
		}
		flowCells = append(flowCells, cells...)
	}
	slices.Sort(m.samples)
	m.samples = slices.Compact(m.samples)
	var sheet *demux.Sheet
	if sheetPath != "" {
		var err error
		if sheet, err = processor.ReadSheet(sheetPath); err != nil {
			return err
		}
	}
	named := make(carryover.Controls)
	runs := runsOf(sheet, flowCells)
	for _, run := range runs {
		of, err := controls.Of(sheet, sheetPath, run)
		if err != nil {
			return err
		}
		for name, kind := range of {
			name = m.listed(sheet, run, name)
			if other, twice := named[name]; twice && other != kind {
				return fmt.Errorf("%s: %s is %s of one flow cell and %s of another: give the reads of one", sheetPath, name, other, kind)
			}
			named[name] = kind
		}
	}
	if len(named) == 0 {
		return fmt.Errorf("%s: column type of no row is negative_control or no_template_control, and no --control is given", cmp.Or(sheetPath, "the command line"))
	}
	slices.Sort(m.samples)
	m.samples = slices.Compact(m.samples)
	var err error
	m.controls, err = named.Among(m.samples, strings.Join(m.reads, ", "))
	return err
}

// runsOf are the runs whose rows of a sheet are used, by the flow cells that read groups name (PU); nil stands for all of the sheet, where they name none of its.
func runsOf(sheet *demux.Sheet, flowCells []string) []*demux.RunKey {
	var runs []*demux.RunKey
	slices.Sort(flowCells)
	for _, cell := range slices.Compact(flowCells) {
		if sheet != nil && sheet.Of(cell, "") {
			runs = append(runs, &demux.RunKey{FlowCell: cell})
		}
	}
	if len(runs) == 0 {
		return []*demux.RunKey{nil}
	}
	return runs
}

// listed is what a control is called among the samples: by its alias, or by its barcode. One that a sheet lists and no read group names becomes a sample without
// reads, if read groups name others of the sheet: else they are called otherwise, and its reads may be among them.
func (m *marking) listed(sheet *demux.Sheet, run *demux.RunKey, name string) string {
	if _, found := carryover.Find(m.samples, name); found || sheet == nil {
		return name
	}
	var key demux.RunKey // of a sheet of one flow cell nothing needs to be known
	if run != nil {
		key = *run
	}
	if barcode := sheet.Barcode(key.FlowCell, key.Position, name); barcode != "" {
		if _, found := carryover.Find(m.samples, barcode); found {
			return barcode
		}
	}
	if slices.ContainsFunc(sheet.Names(), func(other string) bool { return slices.Contains(m.samples, other) }) {
		m.samples = append(m.samples, name)
	}
	return name
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// run counts and writes.
func (m *marking) run(ctx context.Context) error {
	table := carryover.NewTable(m.controls, m.samples)
	order := make([]string, 0, len(m.calls))
	for _, sample := range m.samples {
		if path := m.calls[sample]; path != "" {
			order = append(order, sample)
			if !table.Assesses(sample) {
				continue
			}
			if err := eachRecord(path, nil, func(r *vcf.Record) error {
				if err := m.check(r); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				for _, alt := range r.Alt {
					if e, ok := m.edit(r, alt); ok {
						table.Add(r.Chrom, e)
					}
				}
				return nil
			}); err != nil {
				return err
			}
		}
	}
	for _, sample := range m.samples {
		if err := m.count(ctx, table, sample); err != nil {
			return err
		}
	}
	for _, control := range table.Silent() {
		m.logger.Warn(carryover.SilentWarning(control, m.controls[control]))
	}
	for _, sample := range order {
		if err := m.write(table, sample); err != nil {
			return err
		}
	}
	return nil
}

// check returns an error if a record is of another reference: nothing of it could be counted, and its alleles would look like those that no carry-over explains.
func (m *marking) check(r *vcf.Record) error {
	contig := m.genome.Contig(r.Chrom)
	switch {
	case contig == nil:
		return fmt.Errorf("%s:%d: the reference has no such contig: give the one that the calls were made with", r.Chrom, r.Pos)
	case r.Pos == 0 || r.Pos == len(contig.Seq)+1: // telomeres
		return nil
	case r.Pos < 0 || r.Pos-1+len(r.Ref) > len(contig.Seq):
		return fmt.Errorf("%s:%d: %s goes beyond the contig, which has %d bases in the reference: give the one that the calls were made with", r.Chrom, r.Pos, r.Ref, len(contig.Seq))
	}
	if ref := strings.ToUpper(r.Ref); isDNA(ref) && ref != string(contig.Seq[r.Pos-1:r.Pos-1+len(ref)]) && isDNA(string(contig.Seq[r.Pos-1:r.Pos-1+len(ref)])) {
		return fmt.Errorf("%s:%d: REF is %s, and the reference has %s: give the one that the calls were made with", r.Chrom, r.Pos, r.Ref, contig.Seq[r.Pos-1:r.Pos-1+len(ref)])
	}
	return nil
}

// edit is an allele of a record; false if it is none of bases within the reference.
func (m *marking) edit(r *vcf.Record, alt string) (vrs.Edit, bool) {
	contig, ref, alt := m.genome.Contig(r.Chrom), strings.ToUpper(r.Ref), strings.ToUpper(alt)
	if contig == nil || r.Pos < 1 || r.Pos-1+len(ref) > len(contig.Seq) || !isDNA(alt) || !isDNA(ref) {
		return vrs.Edit{}, false
	}
	return vrs.Edit{Start: r.Pos - 1, Ref: ref, Alt: alt}, true
}

func isDNA(bases string) bool { return bases != "" && strings.Trim(bases, "ACGT") == "" }

// count counts the reads of a sample.
func (m *marking) count(ctx context.Context, table *carryover.Table, sample string) (err error) {
	total := make(map[string][]carryover.Reads)
	for contig, list := range table.Alleles() {
		total[contig] = make([]carryover.Reads, len(list))
	}
	for _, path := range m.of[sample] {
		if err := m.countFile(ctx, table, sample, path, total); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for contig, reads := range total {
		table.Count(sample, contig, 0, reads)
	}
	return nil
}

func (m *marking) countFile(ctx context.Context, table *carryover.Table, sample, path string, total map[string][]carryover.Reads) (err error) {
	unaligned := &unalignedReads{
		whose: func([]string) (of, name string, err error) { return sample, sample, nil }, index: m.index, threads: m.options.Threads, logger: m.logger,
	}
	in, _, err := openAlignments(ctx, path, nil, m.genome, unaligned)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, in.Close()) }()
	options := m.options
	options.Sample, options.Variant = sample, variant.Config{Sample: sample}
	_, err = in.Support(ctx, options, table.Alleles(), func(contig string, first int, counts []variant.Support) {
		for i, n := range counts {
			t := &total[contig][first+i]
			t.Alt, t.Depth, t.Left = t.Alt+n.Shows, t.Depth+n.Depth, t.Left+n.Left
		}
	})
	return err
}

// write writes the calls of a sample with their classification.
func (m *marking) write(table *carryover.Table, sample string) (err error) {
	path := strings.ReplaceAll(m.output, samplePlace, sample)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of %s: %w", path, err)
	}
	var out *vcf.File
	defer func() {
		if out != nil {
			err = errors.Join(err, out.Discard())
		}
	}()
	assessed := table.Assesses(sample)
	var sum carryover.Summary
	err = eachRecord(m.calls[sample], func(h *vcf.Header) error {
		if assessed {
			carryover.Declare(h)
		}
		var err error
		out, err = vcf.Create(path, h)
		return err
	}, func(r *vcf.Record) error {
		if assessed {
			carryover.Mark(r, func(alt int) *carryover.Assessment {
				e, ok := m.edit(r, r.Alt[alt])
				if !ok {
					return nil
				}
				j := table.Assess(sample, r.Chrom, e)
				if j != nil { // nil: the file is another by now
					sum.Add(*j)
				}
				return j
			})
		}
		return out.Write(r)
	})
	if err != nil {
		return err
	}
	if err := out.Commit(); err != nil {
		return err
	}
	if assessed {
		fmt.Fprintf(os.Stderr, "%s: %s\n", sample, sum)
	}
	return nil
}

// eachRecord reads a VCF.
func eachRecord(path string, header func(*vcf.Header) error, record func(*vcf.Record) error) error {
	return withText(path, os.Stdin, func(in io.Reader, file string) error {
		r, err := vcf.NewReader(bufio.NewReader(in))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if header != nil {
			if err := header(r.Header()); err != nil {
				return err
			}
		}
		for {
			rec, err := r.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if err := record(rec); err != nil {
				return err
			}
		}
	})
}

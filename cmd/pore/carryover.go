package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/textfile"
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
	ploidy                            string
	oneRun                            bool
	threads                           int
	log                               cli.LogFlags
}

func carryOverCommand() *cobra.Command {
	var cfg carryOverConfig
	cmd := &cobra.Command{
		Use:   "carryover --ref FASTA --control NAME --alignments BAM... -o {sample}.vcf.gz CALLS.vcf...",
		Short: "Mark alleles that carry-over from other samples, or from what a control shows, explains",
		Long: `Reads the calls of samples, one sample in each file, counts in the alignments
which reads of which sample show each allele, called or not, and writes the calls with
how much of an allele is carry-over at most: reads of other samples that got the wrong
barcode, or what a negative control shows. What can't be distinguished from it has the
filter CarryOver. A control has no file of calls, or one that is passed on as it is.

Each run is assessed by its own controls, as on the stream: runs are those that read
groups name (runid in DS, or Dorado's names of groups), where none does flow cells (PU).

pore call --control does both at once, pore run --control for a whole run. Reads count
that pore call would examine; docs/files/carryover.md has the rule.`,
		Example: `  pore carryover --ref ref.fa --no-template-control water --alignments plate.bam -o 'marked/{sample}.vcf.gz' calls.*.vcf.gz
  pore carryover --ref ref.fa --sample-sheet sheet.csv --alignments barcode01.bam --alignments barcode02.bam -o '{sample}.vcf' *.calls.vcf`,
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return markFiles(cmd.Context(), cfg, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "reference genome that the reads are aligned to, FASTA, may be gzipped (required)")
	flags.StringArrayVar(&cfg.reads, "alignments", nil, "BAM, CRAM or SAM file, whose read groups (SM) name the samples; may be repeated (required)")
	flags.StringVar(&cfg.sheet, "sample-sheet", "", "MinKNOW's sample sheet, CSV, whose column type names negative_control and no_template_control; of a run the rows of its flow cells (PU)")
	flags.BoolVar(&cfg.oneRun, "one-run", false, "take all alignments for one run, whatever runs the read groups name: of a library whose run was begun anew")
	flags.StringVar(&cfg.ploidy, "ploidy", variant.Haploid.String(), "that the calls were made with: of mixtures up to 600 reads are counted at a place, else 120")
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
	m := marking{genome: g, reads: cfg.reads, oneRun: cfg.oneRun, output: cfg.output, calls: make(map[string]string), logger: logger, options: aligned.Options{Threads: threadsOf(cfg.threads)}}
	ploidy, err := variant.ParsePloidy(cfg.ploidy)
	if err != nil {
		return cli.Usagef("--ploidy: %w", err)
	}
	m.options.Variant.MaxDepth = ploidy.MaxDepth()
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
			return fmt.Errorf("%s: no read group of the reads names its sample %s: they name %s", path, sample, textfile.Few(m.samples))
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

// marking marks the calls of samples.
type marking struct {
	genome  *genome.Genome
	reads   []string // files
	oneRun  bool     // that all reads are taken for
	of      map[string][]string
	groups  []aligned.Group // of all files
	samples []string        // all that the reads have
	named   processor.Controls
	sheet   *demux.Sheet      // nil: none
	path    string            // of the sheet
	calls   map[string]string // files, by sample
	output  string            // pattern
	options aligned.Options
	logger  *slog.Logger
	index   string // of minimap2, for reads that aren't aligned; empty: it is made anew
}

// readsAt is reads of a run by contig, in the order of the alleles there.
type readsAt map[string][]carryover.Reads

// find finds samples, runs and controls of the reads.
func (m *marking) find(controls processor.Controls, sheetPath string) error {
	m.of = make(map[string][]string)
	m.named, m.path = controls, sheetPath
	for i, path := range m.reads {
		if path == "-" {
			return cli.Usagef("reads are counted after the calls are known: give a file, not standard input")
		}
		for _, other := range m.reads[:i] {
			if sameFile(path, other) {
				return cli.Usagef("--alignments %s: it is the same file as %s, whose reads would count twice", path, other)
			}
		}
		groups, err := readGroups(path, m.genome)
		if err != nil {
			return err
		}
		samples := samplesOf(groups)
		if len(samples) == 0 {
			return fmt.Errorf("%s: its read groups name no sample (SM), so nobody knows whose reads they are", path)
		}
		for _, sample := range samples {
			m.of[sample] = append(m.of[sample], path)
		}
		m.samples = append(m.samples, samples...)
		m.groups = append(m.groups, groups...)
	}
	slices.Sort(m.samples)
	m.samples = slices.Compact(m.samples)
	m.options.RunsByFlowCell = !m.oneRun && !slices.ContainsFunc(m.groups, func(g aligned.Group) bool { return g.Run != "" })
	if sheetPath != "" {
		var err error
		if m.sheet, err = processor.ReadSheet(sheetPath); err != nil {
			return err
		}
	}
	return m.checkControls()
}

// checkControls returns an error if there is no control, or none of a name in any run.
func (m *marking) checkControls() error {
	found := false
	var missing carryover.Controls // in all runs so far
	runs := m.samplesByRun()
	for _, id := range slices.Sorted(maps.Keys(runs)) {
		controls, samples, err := m.controlsOf(id, runs[id])
		if err != nil {
			return err
		}
		if _, err := controls.Among(samples, m.where()); len(runs) == 1 && err != nil {
			return err
		}
		among, lacks := controls.Split(samples)
		found = found || len(among) > 0
		if missing == nil {
			missing = lacks
		}
		maps.DeleteFunc(missing, func(name string, _ carryover.Kind) bool { _, lacked := lacks[name]; return !lacked })
	}
	if _, err := missing.Among(m.samples, m.where()); err != nil && len(missing) > 0 {
		return err
	}
	if !found {
		return fmt.Errorf("%s: column type of no row is negative_control or no_template_control, and no --control is given", cmp.Or(m.path, "the command line"))
	}
	return nil
}

// samplesByRun are the samples that the read groups of each run name, any number of times.
func (m *marking) samplesByRun() map[string][]string {
	runs := make(map[string][]string)
	for _, g := range m.groups {
		if g.Sample != "" {
			runs[m.runOf(g)] = append(runs[m.runOf(g)], g.Sample)
		}
	}
	return runs
}

// where is what samples are those of, for people.
func (m *marking) where() string { return strings.Join(m.reads, ", ") }

// runOf is the run of a read group.
func (m *marking) runOf(g aligned.Group) string {
	switch {
	case m.oneRun:
		return ""
	case m.options.RunsByFlowCell:
		return g.FlowCell
	}
	return g.Run
}

// controlsOf are the controls of a run, as they are called among its samples, and these in order: with controls that the sheet lists and of which there is no read.
func (m *marking) controlsOf(run string, samples []string) (carryover.Controls, []string, error) {
	samples = slices.Compact(slices.Sorted(slices.Values(samples)))
	named := make(carryover.Controls)
	var cells []string
	for _, g := range m.groups {
		if m.runOf(g) == run {
			cells = append(cells, g.FlowCell)
		}
	}
	for _, key := range runsOf(m.sheet, cells) {
		of, err := m.named.Of(m.sheet, m.path, key)
		if err != nil {
			return nil, nil, err
		}
		for name, kind := range of {
			name, samples = withListed(m.sheet, key, samples, name)
			if other, twice := named[name]; twice && other != kind {
				return nil, nil, fmt.Errorf("%s: %s is %s of one flow cell and %s of another: give the reads of one", m.path, name, other, kind)
			}
			named[name] = kind
		}
	}
	slices.Sort(samples)
	return named, slices.Compact(samples), nil
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

// withListed is what a control is called among the samples: by its alias, or by its barcode. One that a sheet lists and no read group names becomes a sample without
// reads, if read groups name others of the sheet: else they are called otherwise, and its reads may be among them.
func withListed(sheet *demux.Sheet, run *demux.RunKey, samples []string, name string) (as string, among []string) {
	if _, found := carryover.Find(samples, name); found || sheet == nil {
		return name, samples
	}
	var key demux.RunKey // of a sheet of one flow cell nothing needs to be known
	if run != nil {
		key = *run
	}
	if barcode := sheet.Barcode(key.FlowCell, key.Position, name); barcode != "" {
		if _, found := carryover.Find(samples, barcode); found {
			return barcode, samples
		}
	}
	if slices.ContainsFunc(sheet.Names(), func(other string) bool { return slices.Contains(samples, other) }) {
		samples = append(samples, name)
	}
	return name, samples
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// run counts and writes.
func (m *marking) run(ctx context.Context) error {
	called := make(map[string]map[string][]vrs.Edit) // by sample and contig
	all := carryover.NewTable(nil, nil)              // what is counted
	for _, sample := range slices.Sorted(maps.Keys(m.calls)) {
		called[sample] = make(map[string][]vrs.Edit)
		if err := eachRecord(m.calls[sample], nil, func(r *vcf.Record) error {
			if err := m.check(r); err != nil {
				return fmt.Errorf("%s: %w", m.calls[sample], err)
			}
			for _, alt := range r.Alt {
				if e, ok := m.edit(r, alt); ok {
					all.Add(r.Chrom, e)
					called[sample][r.Chrom] = append(called[sample][r.Chrom], e)
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	counts := make(map[string]map[string]readsAt) // by run and sample
	for _, sample := range m.samples {
		if err := m.count(ctx, all.Alleles(), sample, counts); err != nil {
			return err
		}
	}
	tables, err := m.tables(all.Alleles(), called, counts)
	if err != nil {
		return err
	}
	for _, sample := range slices.Sorted(maps.Keys(m.calls)) {
		if err := m.write(tables, sample); err != nil {
			return err
		}
	}
	return nil
}

// tables are the reads of the runs that have controls, in the order of the runs.
func (m *marking) tables(alleles map[string][]vrs.Edit, called map[string]map[string][]vrs.Edit, counts map[string]map[string]readsAt) ([]*carryover.Table, error) {
	samplesOf := m.samplesByRun()
	for run, of := range counts { // of groups that name none, records may
		samplesOf[run] = append(samplesOf[run], slices.Collect(maps.Keys(of))...)
	}
	if len(counts[""]) == 0 && len(samplesOf) > 1 {
		delete(samplesOf, "")
	}
	var tables []*carryover.Table
	for _, run := range slices.Sorted(maps.Keys(samplesOf)) {
		named, samples, err := m.controlsOf(run, samplesOf[run])
		if err != nil {
			return nil, err
		}
		controls, _ := named.Split(samples)
		if len(controls) == 0 {
			m.logger.Warn("no control is among the samples of a run, whose reads show nothing of carry-over: its alleles are not assessed by them", "run", run, "samples", textfile.Few(samples))
			continue
		}
		table := carryover.NewTable(controls, samples)
		for _, sample := range samples {
			for contig, list := range called[sample] {
				for _, e := range list {
					table.Add(contig, e)
				}
			}
		}
		for sample, at := range counts[run] {
			for contig, own := range table.Alleles() {
				reads := make([]carryover.Reads, len(own))
				for i, e := range own {
					if n, ok := slices.BinarySearchFunc(alleles[contig], e, carryover.CompareEdits); ok && at[contig] != nil {
						reads[i] = at[contig][n]
					}
				}
				table.Count(sample, contig, 0, reads)
			}
		}
		for _, control := range table.Silent() {
			m.logger.Warn(carryover.SilentWarning(control, controls[control]))
		}
		tables = append(tables, table)
	}
	return tables, nil
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

// count counts the reads of a sample, by run.
func (m *marking) count(ctx context.Context, alleles map[string][]vrs.Edit, sample string, counts map[string]map[string]readsAt) error {
	take := func(contig, run string, first int, reads []variant.Support) {
		if m.oneRun {
			run = ""
		}
		if counts[run] == nil {
			counts[run] = make(map[string]readsAt)
		}
		if counts[run][sample] == nil {
			counts[run][sample] = make(readsAt)
		}
		total := counts[run][sample]
		if total[contig] == nil {
			total[contig] = make([]carryover.Reads, len(alleles[contig]))
		}
		for i, n := range reads {
			t := &total[contig][first+i]
			t.Alt, t.Depth, t.Left = t.Alt+n.Shows, t.Depth+n.Depth, t.Left+n.Left
		}
	}
	for _, path := range m.of[sample] {
		if err := m.countFile(ctx, alleles, sample, path, take); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func (m *marking) countFile(ctx context.Context, alleles map[string][]vrs.Edit, sample, path string, take func(contig, run string, first int, reads []variant.Support)) (err error) {
	unaligned := &unalignedReads{
		whose: func([]string) (of, name string, err error) { return sample, sample, nil }, index: m.index, threads: m.options.Threads, logger: m.logger,
		flowCells: m.options.RunsByFlowCell,
	}
	in, _, err := openAlignments(ctx, path, nil, m.genome, unaligned)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, in.Close()) }()
	options := m.options
	options.Sample, options.Variant.Sample = sample, sample
	_, err = in.Support(ctx, options, alleles, take)
	return err
}

// write writes the calls of a sample with their classification.
func (m *marking) write(tables []*carryover.Table, sample string) (err error) {
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
	tables = slices.DeleteFunc(slices.Clone(tables), func(t *carryover.Table) bool { return !t.Assesses(sample) })
	assessed := len(tables) > 0
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
				var runs []carryover.Assessment
				for _, t := range tables {
					if j := t.Assess(sample, r.Chrom, e); j != nil { // nil: the file is another by now
						runs = append(runs, *j)
					}
				}
				if len(runs) == 0 {
					return nil
				}
				j, _ := carryover.Combine(runs)
				sum.Add(j)
				return &j
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

package simulation

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/models/pores"
	"github.com/porestream/porestream/simulate"
	"github.com/porestream/porestream/simulate/flowcell"
	"github.com/porestream/porestream/simulate/squiggle"
	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/wholefile"
)

// Sequencer is a virtual sequencer's settings.
type Sequencer struct {
	plant     Plant
	sample    string
	fractions int
	mixture   string
	reads     simulate.ReadsConfig
	cell      flowcell.Config
	tuning    squiggle.Tuning
	poreModel string
	chemistry string
	kit       string
	barcode   string
	start     string
}

// Register adds the settings as flags. They are the same for files and for ingest.
func (s *Sequencer) Register(flags *pflag.FlagSet) {
	s.plant.VCFFlag, s.cell, s.tuning = "vcf", flowcell.MinION(), squiggle.Typical()
	flags.StringVar(&s.plant.Reference, "ref", "", "reference genome, FASTA, may be gzipped (required)")
	flags.StringVar(&s.plant.VCF, "vcf", "", "VCF of the variants that the sample has; its first sample's genotypes count")
	flags.StringVar(&s.plant.Variants, "variants", "none", "variants to plant in place of --vcf: none, human, human-events, or changes to human as snp=1/1000,indel=1/8000,mnp=1/40000,max=20")
	flags.IntVar(&s.plant.Ploidy, "ploidy", 0, "haplotypes, 1 or 2; if not given, as many as the genotypes of --vcf have, or 1")
	flags.IntVar(&s.fractions, "fractions", 0, "read allele fractions (AF) of --vcf instead of genotypes, as a mixture of so many haplotypes; 0: genotypes")
	flags.StringVar(&s.mixture, "mixture", "", "table of several samples on the flow cell: sample, share, barcode, ref, vcf, ploidy, separated by tabs")
	flags.Uint64Var(&s.plant.Seed, "seed", 1, "seed of all that is drawn")
	flags.Float64Var(&s.reads.Depth, "depth", 30, "mean depth that ends the run, all haplotypes together")
	flags.Float64Var(&s.reads.Length, "length", 8000, "mean length of molecules in bases")
	flags.Float64Var(&s.reads.LengthSpread, "length-spread", 0.8, "standard deviation of lengths over their mean (lognormal); 0 makes all the same")
	flags.IntVar(&s.reads.MinLength, "min-length", 0, "least length of molecules (default 200, or the mean if that is less)")
	flags.BoolVar(&s.reads.Circular, "circular", false, "contigs have no ends: reads go over the origin")
	flags.StringVar(&s.kit, "kit-name", "", "barcoding kit, whose adapters and barcodes the molecules get")
	flags.StringVar(&s.barcode, "barcode", "", "barcode of the sample, as barcode01; with --kit-name")
	flags.StringVar(&s.chemistry, "chemistry", "", "r9.4 (4 kHz), r10.4.1-4khz, r10.4.1-5khz, or r10.4.1, which is r10.4.1-5khz; if not given, by --pore-model, or r9.4")
	flags.StringVar(&s.poreModel, "pore-model", "", "table of k-mer levels, of our form, nanopolish's, ONT's kmer_models or Uncalled4's; if not given, our own of the chemistry")
	flags.Float64Var(&s.tuning.Noise, "noise", s.tuning.Noise, "factor on the noise")
	flags.Float64Var(&s.tuning.Colour, "noise-colour", s.tuning.Colour, "factor on the noise's autocorrelation; 0 makes it white")
	flags.Float64Var(&s.tuning.Spread, "level-spread", s.tuning.Spread, "factor on how far levels differ from one visit of a k-mer to the next")
	flags.Float64Var(&s.tuning.Dwell, "dwell-spread", s.tuning.Dwell, "factor on how irregular the motor is")
	flags.Float64Var(&s.tuning.Speed, "speed", s.tuning.Speed, "factor on the speed of the motor")
	flags.Float64Var(&s.tuning.Stalls, "stalls", s.tuning.Stalls, "times that the motor stops, per 1,000 bases")
	flags.IntVar(&s.cell.Channels, "channels", s.cell.Channels, "channels of the flow cell")
	flags.IntVar(&s.cell.Wells, "wells", s.cell.Wells, "wells of a channel, one of which is used at a time")
	flags.Float64Var(&s.cell.Inactive, "inactive", s.cell.Inactive, "share of wells without a pore from the beginning")
	flags.DurationVar(&s.cell.Capture, "capture", s.cell.Capture, "mean time until an open pore captures a strand")
	flags.DurationVar(&s.cell.PoreLife, "pore-life", s.cell.PoreLife, "mean life of a pore; 0: without end")
	flags.DurationVar(&s.cell.Scan, "scan", s.cell.Scan, "time between scans of all wells, which end reads under way; 0: never")
	flags.Float64Var(&s.cell.Blocks, "blocks", s.cell.Blocks, "strands that stick for good and are thrown out, per 1,000 bases")
	flags.DurationVar(&s.cell.Duration, "duration", 0, "end the run after this time, if --depth has not ended it; 0: without end")
	flags.StringVar(&s.start, "start", s.cell.Start.Format(time.RFC3339), "time at which the run started")
	for _, name := range []string{"ref", "vcf", "mixture", "pore-model"} {
		if err := cobra.MarkFlagFilename(flags, name); err != nil {
			panic(err) // the flag is not there: a bug
		}
	}
}

// Check says what is wrong, as errors of usage, without opening anything.
func (s *Sequencer) Check() error {
	plant := s.plant
	if plant.Ploidy == 0 || s.fractions > 0 {
		plant.Ploidy = 1
	}
	if err := plant.Check(); err != nil {
		return err
	}
	switch {
	case s.fractions < 0 || s.fractions == 1 || s.fractions > 200:
		return cli.Usagef("--fractions %d: want 2 to 200 haplotypes, or 0", s.fractions)
	case s.fractions > 0 && s.plant.VCF == "" && s.mixture == "":
		return cli.Usagef("--fractions is of the allele fractions of --vcf, which isn't given")
	case s.fractions > 0 && s.plant.Ploidy > 0:
		return cli.Usagef("--fractions and --ploidy exclude each other")
	case (s.barcode != "") && s.kit == "":
		return cli.Usagef("--barcode needs --kit-name: the kit that it is of")
	case s.barcode != "" && s.mixture != "":
		return cli.Usagef("--barcode and --mixture exclude each other: the table has a column barcode")
	case s.mixture != "" && (s.plant.VCF != "" || s.plant.Variants != "none"):
		return cli.Usagef("--vcf and --variants are of one sample: with --mixture name variants in the table's column vcf")
	}
	if known := append([]string{r94, r1041}, pores.Profiles()...); s.chemistry != "" && !slices.Contains(known, s.chemistry) {
		return cli.Usagef("--chemistry %s: want one of %s", s.chemistry, strings.Join(known, ", "))
	}
	if s.reads.MinLength == 0 {
		s.reads.MinLength = max(1, min(200, int(s.reads.Length)))
	}
	if err := s.reads.Validate(); err != nil {
		return cli.Usagef("%w", err)
	}
	if err := s.tuning.Validate(); err != nil {
		return cli.Usagef("%w", err)
	}
	var err error
	if s.cell.Start, err = time.Parse(time.RFC3339, s.start); err != nil {
		return cli.Usagef("--start %q is no time as 2026-01-31T12:00:00Z", s.start)
	}
	s.cell.Depth, s.cell.Seed = s.reads.Depth, s.plant.Seed
	check := s.cell
	check.Samples = []flowcell.Sample{{Share: 1, Ploidy: 1, Library: new(simulate.Library)}}
	if err := check.Validate(); err != nil {
		return cli.Usagef("%w", err)
	}
	return nil
}

// Simulated is a planned run with its truth.
type Simulated struct {
	*flowcell.Run
	truths []truth
}

// truth is what one sample has.
type truth struct {
	sample string
	genome *genome.Genome
	sites  []simulate.Site
	// fractions says that the sample is a mixture of haplotypes.
	fractions bool
}

// Plan reads what the settings name, and plans the run. sample is the sample's name, if
// there is one.
func (s *Sequencer) Plan(ctx context.Context, sample string) (*Simulated, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	s.sample = cmp.Or(sample, "sample")
	model, err := s.openPore()
	if err != nil {
		return nil, err
	}
	pore, err := squiggle.NewPore(model, s.tuning)
	if err != nil {
		return nil, err
	}
	rows := []mixed{{name: s.sample, share: 1, barcode: s.barcode, reference: s.plant.Reference, vcf: s.plant.VCF, ploidy: s.plant.Ploidy}}
	if s.mixture != "" {
		if rows, err = s.openMixture(); err != nil {
			return nil, err
		}
	}
	var kit *demux.Kit
	if s.kit != "" {
		k, err := demux.OpenKit(s.kit)
		if err != nil {
			return nil, cli.Usagef("--kit-name: %w", err)
		}
		kit = &k
	}
	out := new(Simulated)
	cell := s.cell
	cell.Samples = nil
	genomes := make(map[string]*genome.Genome)
	for i, row := range rows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		g := genomes[row.reference]
		if g == nil {
			if g, err = genome.Load(row.reference); err != nil {
				return nil, err
			}
			genomes[row.reference] = g
		}
		plant := s.plant
		plant.VCF, plant.Ploidy, plant.Seed = row.vcf, row.ploidy, s.plant.Seed+uint64(i)
		made, sites, err := s.library(&plant, g)
		if err != nil {
			return nil, err
		}
		made.Name, made.Share, made.Barcode = row.name, row.share, row.barcode
		if made.Front, made.Rear, err = preparation(kit, row.barcode); err != nil {
			return nil, err
		}
		cell.Samples = append(cell.Samples, made)
		out.truths = append(out.truths, truth{row.name, g, sites, s.fractions > 0})
	}
	if kit != nil {
		cell.Kit = kit.Name
	}
	cell.Settings = s.identity(model, out.truths)
	out.Run, err = flowcell.Plan(cell, pore)
	return out, err
}

// identity is text that differs for runs that differ.
func (s *Sequencer) identity(m *squiggle.Model, truths []truth) string {
	var b strings.Builder
	cell := s.cell
	cell.Samples = nil
	fmt.Fprintf(&b, "%+v %+v %+v %s %d %s %s %s", s.reads, cell, s.tuning, m.Chemistry, s.fractions, s.kit, s.barcode, m.Digest())
	for _, t := range truths {
		fmt.Fprintf(&b, "\n%s", t.sample)
		for _, c := range t.genome.Contigs {
			fmt.Fprintf(&b, " %s:%s", c.Name, c.Digest())
		}
		for i := range t.sites {
			site := &t.sites[i]
			fmt.Fprintf(&b, "\n%s:%d %s %v %v", site.Contig, site.Start, site.Ref, site.Alts, site.Genotype)
		}
	}
	return b.String()
}

// library plants a sample's variants and makes its library.
func (s *Sequencer) library(plant *Plant, g *genome.Genome) (flowcell.Sample, []simulate.Site, error) {
	sites, err := s.sites(plant, g)
	if err != nil {
		return flowcell.Sample{}, nil, err
	}
	copies, err := Haplotypes(g, sites, plant.Ploidy)
	if err != nil {
		return flowcell.Sample{}, nil, err
	}
	reads := s.reads
	reads.Seed = plant.Seed
	library, err := simulate.NewLibrary(copies, reads)
	return flowcell.Sample{Library: library, Ploidy: plant.Ploidy}, sites, err
}

// sites returns a sample's variants, and completes its ploidy.
func (s *Sequencer) sites(plant *Plant, g *genome.Genome) (sites []simulate.Site, err error) {
	switch {
	case s.fractions > 0:
		plant.Ploidy = s.fractions
		if plant.VCF == "" {
			return nil, nil
		}
		return SitesOf(plant.VCF, fractionsOf(g, s.fractions, plant.Seed))
	case plant.Ploidy > 0:
	case plant.VCF == "":
		plant.Ploidy = 1
	default:
		if plant.Ploidy, err = ploidyOf(plant.VCF); err != nil {
			return nil, err
		}
	}
	return plant.Sites(g)
}

// The chemistries without a sample rate, and the profile of the one of which there are
// several.
const (
	r94         = "r9.4"
	r1041       = "r10.4.1"
	r1041Newest = "r10.4.1-5khz"
)

// openPore reads the table of k-mers, and the profile of the chemistry where there is one.
func (s *Sequencer) openPore() (*squiggle.Model, error) {
	if s.poreModel == "" {
		if s.chemistry == "" || s.chemistry == r94 {
			return pores.Open()
		}
		m, err := pores.OpenLevels()
		if err != nil {
			return nil, err
		}
		return s.profiled(m, false)
	}
	f, err := os.Open(s.poreModel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := squiggle.ReadModel(bufio.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.poreModel, err)
	}
	if chemistry, _, _ := strings.Cut(s.chemistry, "-"); chemistry != "" && chemistry != m.Chemistry {
		return nil, cli.Usagef("--chemistry is %s, and %s is a table of %s", s.chemistry, s.poreModel, m.Chemistry)
	}
	switch named := strings.Contains(s.chemistry, "-"); {
	case m.LevelsOnly() && m.Chemistry == r1041:
		return s.profiled(m, true)
	case named:
		return nil, cli.Usagef("--chemistry %s brings times and noise of its own, and %s has others: give a table of levels alone, or --chemistry %s",
			s.chemistry, s.poreModel, m.Chemistry)
	}
	return m, nil
}

// profiled gives levels what the chemistry's profile says of their visits.
func (s *Sequencer) profiled(m *squiggle.Model, published bool) (*squiggle.Model, error) {
	name := s.chemistry
	if name == "" || name == r1041 {
		name = r1041Newest
	}
	p, err := pores.OpenProfile(name)
	if err != nil {
		return nil, err
	}
	if m, err = p.Apply(m, published); err != nil {
		return nil, cli.Usagef("--pore-model %s: %w", s.poreModel, err)
	}
	return m, nil
}

// leader is what goes through before an adapter's end that is not in its sequence.
const leader = "TTTTTTTTTT"

// preparation returns what a kit, or ligation without barcodes, puts before and behind
// molecules.
func preparation(kit *demux.Kit, barcode string) (front, rear string, err error) {
	if kit == nil {
		ligation := demux.Adapters()[0]
		return leader + ligation.Front, ligation.Rear, nil
	}
	if barcode == "" {
		return "", "", cli.Usagef("--kit-name %s: every sample needs a barcode: --barcode, or the column barcode of --mixture", kit.Name)
	}
	for _, b := range kit.Barcodes {
		if b.Name != barcode {
			continue
		}
		front = leader
		if kit.AtFront {
			front += kit.Front.Outer + b.Front + kit.Front.Inner
		}
		if kit.AtRear {
			rear = string(demux.ReverseComplement([]byte(kit.Rear.Outer + b.Rear + kit.Rear.Inner)))
		}
		return front, rear, nil
	}
	return "", "", cli.Usagef("kit %s has no %s: its barcodes are %s to %s", kit.Name, barcode, kit.Barcodes[0].Name, kit.Barcodes[len(kit.Barcodes)-1].Name)
}

// Names of the files of a truth, besides the reads.
const (
	TruthName = "truth.vcf"
	TableName = "reads.tsv"
	ReadsName = "reads.pod5"
)

// WriteTruth writes what was planted and where reads are from to a folder: truth.vcf, or
// truth.NAME.vcf for each of several samples, and reads.tsv.
func (s *Simulated) WriteTruth(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder for the truth: %w", err)
	}
	var errs []error
	for _, t := range s.truths {
		name := TruthName
		if len(s.truths) > 1 {
			name = "truth." + t.sample + ".vcf"
		}
		header, write := simulate.Header(t.genome, t.sample), (*simulate.Site).Record
		if t.fractions {
			header = vcf.NewHeader("VCFv4.2")
			header.AddMeta("##source=pore simulate")
			for _, c := range t.genome.Contigs {
				header.AddContig(c.Name, len(c.Seq))
			}
			header.AddInfo("AF", "A", "Float", "Fraction of the haplotypes that have the allele")
			write = fractionRecord
		}
		errs = append(errs, writeSites(filepath.Join(dir, name), header, t.sites, write))
	}
	return errors.Join(append(errs, wholefile.Write(filepath.Join(dir, TableName), s.writeTable))...)
}

// tableHeading names the columns of reads.tsv. start and end are 0-based, half open.
const tableHeading = "read_id\tcontig\tstart\tend\tstrand\thaplotype\tsample\tbarcode\tchannel\twell\tstart_sample\tsamples\tbases\tend_reason\n"

// writeTable writes where each read is from.
func (s *Simulated) writeTable(out *bufio.Writer) error {
	if _, err := out.WriteString(tableHeading); err != nil {
		return err
	}
	for i := range s.Len() {
		e, o := s.Entry(i), s.Origin(i)
		strand := "+"
		if o.Reverse {
			strand = "-"
		}
		if _, err := fmt.Fprintf(out, "%s\t%s\t%d\t%d\t%s\t%d\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\n", e.ID, o.Contig, o.Start, o.End, strand, o.Haplotype,
			o.Sample, o.Barcode, e.Channel, e.Well, e.StartSample, e.NumSamples, o.Bases, e.EndReason); err != nil {
			return err
		}
	}
	return nil
}

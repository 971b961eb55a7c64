package processor

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	adaptivestage "github.com/porestream/porestream/adaptive/stage"
	"github.com/porestream/porestream/basecall/infer"
	basecallstage "github.com/porestream/porestream/basecall/stage"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/variant"
	variantstage "github.com/porestream/porestream/variant/stage"
)

// Flags choose the reference and the engines, on a command line or in a program.
type Flags struct {
	Reference string // FASTA
	Genes     Genes
	Model     string // name or folder; empty means the default. With RunModels a size, or empty
	RunModels RunModels
	Device    string
	Library   string // ONNX Runtime; empty means the usual places
	Preset    string // minimap2 preset; empty means the default
	Primers   string // primer scheme of the reads' amplicons, BED; empty: none
	Index     string // file of the minimap2 index; empty: it is made anew
	Calling   Calling
	Survey    Survey // what is reported of places without a variant
	// Definitions are files of named alleles, whose positions are reported while runs go on; none: no diplotypes.
	Definitions []string
	Panels      []string // watch-lists, YAML; none: nothing is watched
	Sources     []string // compiled sources of known variants
	Functions   []string // files of functions of genes and proteins
	Scoring     Scoring  // sequence networks of the annotate stage
	Signal      Signal   // what the basecall stage may take
	Barcoding   Barcoding
	Adaptive    Adaptive // what the adaptive stage decides
	// Methylation says which calls of modified bases count.
	Methylation Methylation
	// ModifiedBases are models, files, by which the basecall stage says which bases are modified.
	ModifiedBases []string
	// DeviceTimeout is how long a batch may take before the device is held for hung;
	// 0 means a minute.
	DeviceTimeout time.Duration
	// Compute says how devices compute the basecaller's network.
	Compute infer.Compute
}

// PrimersHelp is the help of --primers.
const PrimersHelp = "primer scheme of the reads' amplicons, BED (contig, start, end, NAME_LEFT or NAME_RIGHT, pool, strand): bases within a read's primers are no evidence"

// Register adds the flags, but for those of Adaptive, which are for services only.
func (f *Flags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.Reference, "ref", "", "reference genome, FASTA, may be gzipped (required)")
	f.Genes.Register(flags)
	flags.StringArrayVar(&f.Panels, "panel", nil, "watch-list to hold samples against, YAML (docs/consume/watchlists.md), or the name of a ready one (pore panel ls); may be given several times")
	flags.StringArrayVar(&f.Sources, "source", nil, "source of known variants, made by pore sources build; may be given several times, and replaced while this runs")
	flags.StringArrayVar(&f.Functions, "functions", nil, "functions of genes and proteins: GAF, GPAD, InterProScan, GMT, OBO; may be given several times")
	flags.StringVar(&f.Primers, "primers", "", PrimersHelp)
	f.Signal.Register(flags)
	f.Barcoding.Register(flags)
	f.Barcoding.RegisterStart(flags)
	f.Calling.Register(flags)
	f.Survey.Register(flags)
	flags.StringArrayVar(&f.Definitions, "definitions", nil, definitionsHelp)
	f.Methylation.Register(flags)
	flags.StringSliceVar(&f.ModifiedBases, "modified-bases", nil, ModifiedBasesHelp)
	f.Scoring.Register(flags)
	f.RunModels.Register(flags)
	f.RegisterBasecall(flags)
}

// RegisterBasecall adds those that concern basecalling and alignment alone.
func (f *Flags) RegisterBasecall(flags *pflag.FlagSet) {
	flags.StringVar(&f.Model, "model", "", "basecalling model, by name or folder, which may be one of Dorado or Bonito")
	flags.StringVar(&f.Device, "device", "auto", "auto, cpu, cuda or cuda:N[,N...]; for load tests sim:LATENCY:BATCH:FILE, a device that gives back recorded scores")
	flags.DurationVar(&f.DeviceTimeout, "device-timeout", time.Minute, "a device that takes longer for a batch hangs: the process says so and ends")
	f.RegisterCompute(flags)
	flags.StringVar(&f.Library, "ort-lib", "", "ONNX Runtime library, for example a CUDA build; else the environment variable ORT_LIB")
	flags.StringVar(&f.Preset, "preset", "", "minimap2 preset for alignment")
	flags.StringVar(&f.Index, "index", "", "minimap2 index of the reference with the preset's seeds, made by pore index; made anew if not given")
}

// RegisterCompute adds those that say how a device computes the basecaller's network.
func (f *Flags) RegisterCompute(flags *pflag.FlagSet) {
	flags.Var(&f.Compute.Precision, "precision", "numbers that the basecaller computes with: auto, fp32, fp16 or, on a CPU, int8; auto is fp16 on GPUs for CTC models or where kernels compute everything")
	f.Compute.Kernels = infer.KernelsAuto
	flags.Var(&f.Compute.Kernels, "gpu-kernels", "Porestream's own kernels for layers and decoding: auto, on a GPU if they agree with ONNX Runtime; off; or always, else an error")
	flags.Var(&f.Compute.Scores, "scores", "form in which scores leave the network: auto, fp32, fp16 or int8; auto is none where a kernel decodes, int8 of CRF models on other GPUs, else fp32")
	flags.Var((*cli.Bytes)(&f.Compute.GPUMemory), "gpu-memory", "memory that basecalling may take on each GPU, for example 8GiB; as much as there is without it")
	flags.StringToStringVar(&f.Compute.CUDA, "cuda-option", nil, "option of ONNX Runtime's CUDA provider, NAME=VALUE; may be given several times")
}

// Options is what the flags ask for, with the stages to run; nil: all of a run from signal or reads to annotated variants.
func (f *Flags) Options(stages []string) (Options, error) {
	if f.Reference == "" {
		return Options{}, cli.Usagef("--ref is required: the reference genome as FASTA")
	}
	if err := f.Signal.Validate(); err != nil {
		return Options{}, cli.Usagef("%w", err)
	}
	if err := f.Adaptive.Validate(); err != nil {
		return Options{}, cli.Usagef("%w", err)
	}
	if err := f.Calling.Validate(); err != nil {
		return Options{}, cli.Usagef("%w", err)
	}
	if err := f.Survey.Settings.Validate(); err != nil {
		return Options{}, cli.Usagef("%w", err)
	}
	if err := f.Methylation.Validate(); err != nil {
		return Options{}, cli.Usagef("%w", err)
	}
	// Which stretches a file gives two copies is seen when the genome is read.
	calls := stages == nil || slices.Contains(stages, variantstage.Name)
	if p, _ := f.Calling.ploidy(); calls && f.Methylation.Haplotypes && p != variant.Diploid && f.Calling.PloidyBED == "" {
		return Options{}, cli.Usagef("%w", errNoCopies)
	}
	if err := f.Scoring.Validate(); err != nil {
		return Options{}, err
	}
	if f.DeviceTimeout < 0 {
		return Options{}, cli.Usagef("--device-timeout %v is negative", f.DeviceTimeout)
	}
	if err := f.RunModels.validate(f.Model); err != nil {
		return Options{}, cli.Usagef("%w", err)
	}
	opts := Options{Flags: *f, Stages: stages}
	opts.Survey.GVCF = opts.Survey.GVCF || len(f.Definitions) > 0
	return opts, usageOfRunModels(opts)
}

// Work says which stages have something to do.
func (f *Flags) Work() Work {
	return Work{Panels: len(f.Panels) > 0, Adaptive: f.Adaptive.On(), Methylation: f.Methylation.On}
}

// idleFlags lists the flags of a process that are only about basecalling, where none of its stages basecalls: nobody
// reads them then. The adaptive stage basecalls, too, with the model of --model alone.
func idleFlags(opts Options) (idle []string) {
	if slices.Contains(opts.Stages, basecallstage.Name) {
		return nil
	}
	deciding := slices.Contains(opts.Stages, adaptivestage.Name)
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"--model", opts.Model != "" && !deciding},
		{"--models", opts.RunModels.Rules != ""},
		{"--models-dir", opts.RunModels.Dir != ""},
		{"--modified-bases", len(opts.ModifiedBases) > 0},
		{"--partial", opts.Signal.Partial > 0},
		{"--basecalls", opts.Signal.Basecalls},
		{"--trim-start", opts.Barcoding.Start},
	} {
		if f.given {
			idle = append(idle, f.name)
		}
	}
	return idle
}

// warnOfIdleFlags says which flags nobody reads. They are no error: processes with different stages may share theirs.
func warnOfIdleFlags(opts Options) {
	idle := idleFlags(opts)
	if len(idle) == 0 {
		return
	}
	opts.Logger.Warn("flags for basecalling have no effect here, as no stage of this process basecalls", "flags", strings.Join(idle, ","), "stages", strings.Join(opts.Stages, ","))
}

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	sequence "github.com/porestream/porestream/annotate/network"
	splice "github.com/porestream/porestream/annotate/network/convert"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/convert"
	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/internal/cli"
	modnetwork "github.com/porestream/porestream/modbase/network"
	modconvert "github.com/porestream/porestream/modbase/network/convert"
	"github.com/porestream/porestream/modelfile/folder"
	"github.com/porestream/porestream/models"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/network"
	"github.com/porestream/porestream/watchlist/biomarker"
	"github.com/porestream/porestream/wholefile"
)

func modelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model",
		Short: "List, check and convert models that basecall or score variants",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usagef("name what to do with models: %s ls, check, verify or convert", cmd.CommandPath())
		},
	}
	cmd.AddCommand(modelListCommand(), modelCheckCommand(), modelVerifyCommand(), modelConvertCommand())
	return cmd
}

// modelRow is a model's row of the list. Members that its kind doesn't have are missing.
type modelRow struct {
	Name        string  `json:"name"`
	Kind        string  `json:"kind"` // "basecalling", "variant", "sequence", "biomarker" or "modified-base"
	Version     string  `json:"version,omitempty"`
	Chemistry   string  `json:"chemistry,omitempty"`
	SampleRates []int   `json:"sample_rates,omitempty"`
	Decoder     string  `json:"decoder,omitempty"`
	Stride      int     `json:"stride,omitempty"`
	Window      int     `json:"window,omitempty"`
	Examples    int     `json:"example_version,omitempty"`
	Half        bool    `json:"half_precision"`
	Megabytes   float64 `json:"megabytes"`
	Place       string  `json:"place"` // folder, or "shipped"

	// Codes and Motifs are what a modified-base model calls, and where.
	Codes  string   `json:"codes,omitempty"`
	Motifs []string `json:"motifs,omitempty"`

	listed models.Listed // of a basecalling model
}

// modifiedKind is the kind of models that call modified bases: files of Remora or converted ones, and what Dorado and DeepMod2 have.
const modifiedKind = "modified-base"

// isModified reports whether a name is that of a modified-base model.
func isModified(name string) bool {
	info, err := os.Stat(name)
	return err == nil && (info.Mode().IsRegular() && filepath.Ext(name) == ".onnx" || modconvert.Is(name))
}

func newModifiedRow(m *modnetwork.Model, place string) modelRow {
	row := modelRow{
		Name: m.Name, Kind: modifiedKind, Chemistry: m.Chemistry, SampleRates: []int{m.SampleRate},
		Megabytes: math.Round(float64(m.Size)/1e4) / 100, Place: place,
	}
	for _, code := range m.Codes {
		row.Codes += code.String()
	}
	for _, motif := range m.Motifs {
		row.Motifs = append(row.Motifs, motif.String())
	}
	return row
}

// listModified lists the modified-base models in a folder and those below, as Remora's package has them, and with the
// reason those of Remora's and Dorado's that can't be used.
func listModified(dir string) ([]modelRow, error) {
	var rows []modelRow
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("listing models: %w", err)
		}
		original := modconvert.Is(path)
		if !original && (entry.IsDir() || filepath.Ext(path) != ".onnx") {
			return nil
		}
		model, err := modconvert.Open(path)
		if errors.Is(err, modnetwork.ErrNotRemora) {
			return nil // a network of a model's folder
		}
		if err != nil {
			rows = append(rows, modelRow{Place: path, listed: models.Listed{Err: cmp.Or(errors.Unwrap(err), err)}})
			return nil
		}
		rows = append(rows, newModifiedRow(model, path))
		return nil
	})
	return rows, err
}

func newModelRow(model *basecall.Model, place string) modelRow {
	m := model.Manifest
	return modelRow{
		Name: m.Name, Kind: folder.Basecaller.String(), Version: m.Version, Chemistry: m.Chemistry, SampleRates: m.SampleRates, Decoder: m.Decoder.Type,
		Stride: m.Network.Stride, Window: m.Window.Samples, Half: model.Half != nil,
		Megabytes: megabytes(model.Network), Place: place, listed: models.Listed{Manifest: m},
	}
}

// newOriginalRow returns the row of a model of Dorado or Bonito; only its
// configuration is read.
func newOriginalRow(l models.Listed) modelRow {
	m := l.Manifest
	row := modelRow{
		Name: m.Name, Kind: folder.Basecaller.String(), Version: m.Version, Chemistry: m.Chemistry, SampleRates: m.SampleRates, Decoder: m.Decoder.Type,
		Stride: m.Network.Stride, Window: m.Window.Samples, Half: m.Decoder.Type == "crf", Place: l.Path, listed: l,
	}
	entries, _ := os.ReadDir(l.Path) // it was read before
	bytes := int64(0)
	for _, entry := range entries {
		// Of a link the file counts.
		if info, err := os.Stat(filepath.Join(l.Path, entry.Name())); err == nil && convert.Reads(entry.Name()) {
			bytes += info.Size()
		}
	}
	row.Megabytes = math.Round(float64(bytes)/1e4) / 100
	return row
}

func newVariantRow(model *network.Model, place string) modelRow {
	m := model.Manifest
	return modelRow{
		Name: m.Name, Kind: folder.Variant.String(), Version: m.Version, Examples: m.ExampleVersion,
		Half: model.Half != nil, Megabytes: megabytes(model.Network), Place: place,
	}
}

func megabytes(b []byte) float64 { return math.Round(float64(len(b))/1e4) / 100 }

// openRow opens a model of any kind, by name or folder.
func openRow(name, place string) (modelRow, error) {
	if isModified(name) {
		model, err := modconvert.Open(name)
		if err != nil {
			return modelRow{}, err
		}
		return newModifiedRow(model, place), nil
	}
	kind, err := models.Kind(name)
	if err != nil {
		return modelRow{}, err
	}
	switch kind {
	case folder.Variant:
		model, err := models.OpenVariant(name)
		if err != nil {
			return modelRow{}, err
		}
		return newVariantRow(model, place), nil
	case folder.Sequence:
		model, err := sequence.OpenModel(name)
		if err != nil {
			return modelRow{}, err
		}
		m := model.Manifest
		return modelRow{Name: m.Name, Kind: kind.String(), Version: m.Version, Megabytes: megabytes(bytes.Join(model.Networks, nil)), Place: place}, nil
	case folder.Biomarker:
		fsys, err := folder.Open(name)
		if err != nil {
			return modelRow{}, err
		}
		model, err := biomarker.Load(fsys)
		if err != nil {
			return modelRow{}, fmt.Errorf("opening model %s: %w", name, err)
		}
		m := model.Manifest
		return modelRow{Name: m.Name, Kind: kind.String(), Version: m.Version, Megabytes: megabytes(model.Network), Place: place}, nil
	}
	model, err := models.Open(name)
	if err != nil {
		return modelRow{}, err
	}
	return newModelRow(model, place), nil
}

func modelListCommand() *cobra.Command {
	asJSON, recordings := false, []string(nil)
	cmd := &cobra.Command{
		Use:   "ls [--for SIGNAL] [FOLDER...]",
		Short: "List the shipped models, and those in folders",
		Long: `Lists the models that come with pore, and each model of any kind in the given
folders, which are models themselves or hold some. Folders may be of Dorado or Bonito, or hold
models of Dorado, Remora and DeepMod2 for modified bases, however deep. With --for the
basecalling models that fit a recording's flow cell, kit and sample rate are left.`,
		Example: `  pore model ls
  pore model ls models/mine
  pore model ls --for reads.pod5 dorado-models/`,
		RunE: func(cmd *cobra.Command, args []string) error {
			rows, err := listModels(args)
			if err != nil {
				return err
			}
			// A folder of Dorado's has models beside those that basecall.
			rows = slices.DeleteFunc(rows, func(r modelRow) bool {
				if r.listed.Err != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s can't be used: %v\n", r.Place, r.listed.Err)
				}
				return r.listed.Err != nil
			})
			if len(recordings) > 0 {
				if rows, err = rowsFor(cmd.Context(), rows, recordings); err != nil {
					return err
				}
			}
			return writeModels(cmd.OutOrStdout(), rows, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "a JSON object per model, on a line each")
	cmd.Flags().StringArrayVar(&recordings, "for", nil, "recording that models have to fit; may be given several times")
	return cmd
}

// rowsFor returns the rows of models that fit all runs of recordings.
func rowsFor(ctx context.Context, rows []modelRow, paths []string) ([]modelRow, error) {
	recording, err := signal.NewIndex(ctx, paths)
	if err != nil {
		return nil, err
	}
	defer recording.Close()
	runs := recording.Runs()
	if len(runs) == 0 {
		return nil, fmt.Errorf("%s: no run is in it, so nobody can say which models fit", strings.Join(paths, ", "))
	}
	fitting := rows
	for i, run := range runs {
		if run.Chemistry() == "" {
			return nil, fmt.Errorf("run %s names neither a flow cell nor a kit that is known, so nobody can say which models fit", run.ID)
		}
		unfit := func(r modelRow) bool { return r.Kind != folder.Basecaller.String() || !r.listed.Fits(run) }
		fitting = slices.DeleteFunc(slices.Clone(fitting), unfit)
		switch {
		case len(fitting) > 0:
		case i == 0 || !slices.ContainsFunc(rows, func(r modelRow) bool { return !unfit(r) }):
			return nil, fmt.Errorf("no model fits run %s (%s at %d Hz)", run.ID, run.Chemistry(), run.SampleRate)
		default:
			return nil, fmt.Errorf("no model fits all runs, of which %s is %s at %d Hz and %s is %s at %d Hz: ask for one recording at a time",
				runs[0].ID, runs[0].Chemistry(), runs[0].SampleRate, run.ID, run.Chemistry(), run.SampleRate)
		}
	}
	return fitting, nil
}

func listModels(folders []string) ([]modelRow, error) {
	var rows []modelRow
	for _, kind := range []folder.Kind{folder.Basecaller, folder.Variant} {
		for _, name := range models.Names(kind) {
			row, err := openRow(name, "shipped")
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
	for _, dir := range folders {
		found, err := listFolder(dir)
		if err != nil {
			return nil, err
		}
		rows = append(rows, found...)
	}
	return rows, nil
}

// listFolder lists the models in a folder, which is one itself or has some within.
func listFolder(dir string) ([]modelRow, error) {
	var originals []models.Listed
	if all, err := models.List(dir); err == nil {
		originals = slices.DeleteFunc(all, func(l models.Listed) bool { return !l.Original || modconvert.Is(l.Path) })
	}
	var rows []modelRow
	for _, l := range originals {
		rows = append(rows, newOriginalRow(l))
	}
	modified, err := listModified(dir)
	if err != nil {
		return nil, err
	}
	rows = append(rows, modified...)
	places := []string{dir}
	if _, err := os.Stat(filepath.Join(dir, folder.Manifest)); err != nil {
		manifests, err := filepath.Glob(filepath.Join(dir, "*", folder.Manifest))
		if err != nil {
			return nil, fmt.Errorf("listing models in %s: %w", dir, err)
		}
		if len(manifests)+len(rows) == 0 {
			return nil, fmt.Errorf("listing models: %s neither is a model nor holds one: no %s in it, and no model of Dorado, Bonito or Remora", dir, folder.Manifest)
		}
		places = places[:0]
		for _, manifest := range manifests {
			// Models that are just being written are hidden.
			if place := filepath.Dir(manifest); !strings.HasPrefix(filepath.Base(place), ".") {
				places = append(places, place)
			}
		}
	}
	for _, place := range places {
		row, err := openRow(place, place)
		switch {
		case err == nil:
		case place == dir:
			return nil, err
		default: // one of several: the others are listed
			row = modelRow{Place: place, listed: models.Listed{Err: cmp.Or(errors.Unwrap(err), err)}}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func writeModels(w io.Writer, rows []modelRow, asJSON bool) error {
	var b bytes.Buffer
	if asJSON {
		encoder := json.NewEncoder(&b)
		for _, row := range rows {
			if err := encoder.Encode(row); err != nil {
				return fmt.Errorf("writing the list: %w", err)
			}
		}
	} else {
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "NAME\tKIND\tCHEMISTRY\tHZ\tDECODER\tSTRIDE\tWINDOW\tMB\tPLACE")
		for _, r := range rows {
			if r.Chemistry == "" && r.Kind != folder.Basecaller.String() {
				fmt.Fprintf(table, "%s\t%s\t-\t-\t-\t-\t-\t%.2f\t%s\n", r.Name, r.Kind, r.Megabytes, r.Place)
				continue
			}
			if r.Kind == modifiedKind {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t-\t-\t-\t%.2f\t%s\n", r.Name, r.Kind+" "+r.Codes+" at "+strings.Join(r.Motifs, " "), r.Chemistry,
					strings.Trim(fmt.Sprint(r.SampleRates), "[]"), r.Megabytes, r.Place)
				continue
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%.2f\t%s\n", r.Name, r.Kind, r.Chemistry,
				strings.Trim(fmt.Sprint(r.SampleRates), "[]"), r.Decoder, r.Stride, r.Window, r.Megabytes, r.Place)
		}
		table.Flush() // to a buffer
	}
	_, err := w.Write(b.Bytes())
	return err
}

func modelCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check MODEL...",
		Short: "Check manifests and checksums",
		Long: `Reads the manifest of each model, a shipped one by its name or any by its folder,
and compares the networks with their checksums; of a modified-base model, a file of
Remora or a converted one, the metadata are read, and one of Dorado's or DeepMod2's is converted.
Nothing is run: see verify.`,
		Example: `  pore model check models/mine`,
		Args:    cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				row, err := openRow(name, name)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s model %s is whole\n", name, row.Kind, row.Name); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

type verifyConfig struct {
	device, library, source string
	compute                 infer.Compute
	asJSON                  bool
}

func modelVerifyCommand() *cobra.Command {
	var cfg verifyConfig
	cmd := &cobra.Command{
		Use:   "verify [--from DIR] MODEL",
		Short: "Run a model, and compare it with what it was converted from",
		Long: `Loads a model onto a device, which checks the network's ends and that a window's
scores don't depend on its batch, and calls a made-up read twice: both must be
alike. It reports how the network is computed there, names nodes that a GPU leaves to the CPU, and
reports what Porestream's own kernels compute, or why they don't. A variant model scores made-up examples in two ways instead, all at once
and one by one, a sequence model made-up windows likewise, and a modified-base model a made-up read twice. With --from the model of Bonito or Dorado that a basecaller was
converted from is converted again, and must give the same networks byte by byte.`,
		Example: `  pore model verify --from dna_r10.4.1_e8.2_400bps_hac@v5.0.0 models/r10-hac`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if isModified(args[0]) {
				return verifyModifiedModel(cmd.Context(), cfg, args[0], cmd.OutOrStdout())
			}
			kind, err := models.Kind(args[0])
			if err != nil {
				return err
			}
			switch kind {
			case folder.Variant:
				return verifyVariantModel(cfg, args[0], cmd.OutOrStdout())
			case folder.Sequence:
				return verifySequenceModel(cmd.Context(), cfg, args[0], cmd.OutOrStdout())
			case folder.Biomarker:
				return cli.Usagef("%s is a biomarker model: pore panel check PANEL loads the models that a panel asks", args[0])
			}
			return verifyModel(cmd.Context(), cfg, args[0], cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.source, "from", "", "folder of the model that it was converted from")
	flags.StringVar(&cfg.device, "device", "auto", "auto, cpu, cuda or a list such as cuda:0,1")
	flags.StringVar(&cfg.library, "ort-lib", "", "ONNX Runtime's shared library; empty to search")
	flags.Var(&cfg.compute.Precision, "precision", "numbers that a basecaller computes with: auto, fp32, fp16 or, on a CPU, int8")
	cfg.compute.Kernels = infer.KernelsAuto
	flags.Var(&cfg.compute.Kernels, "gpu-kernels", "Porestream's own kernels for a basecaller: auto, off, or always, which fails where they can't be used")
	flags.BoolVar(&cfg.asJSON, "json", false, "the result as a JSON object")
	return cmd
}

// verified is what verifying a model gives.
type verified struct {
	Model            string  `json:"model"`
	Device           string  `json:"device"`
	Samples          int     `json:"samples"`
	Bases            int     `json:"bases"`
	SamplesPerSecond float64 `json:"samples_per_second"`
	From             string  `json:"from,omitempty"`
	// Path is how the network is computed there.
	Path basecall.Path `json:"path"`
	// LeftToCPU are nodes of the network that a GPU leaves to the CPU.
	LeftToCPU []infer.Node `json:"left_to_cpu,omitempty"`
	// KernelLayers are computed by Porestream's own kernels on a GPU, and KernelDecodes says that one decodes; NoKernels is why none
	// do.
	KernelLayers  int    `json:"kernel_layers,omitempty"`
	KernelDecodes bool   `json:"kernel_decodes,omitempty"`
	NoKernels     string `json:"no_kernels,omitempty"`
}

// pathText describes a path in a line.
func pathText(p basecall.Path) string {
	text := fmt.Sprintf("computed in %s, scores in %s, %d sessions, batches of %d windows", p.Precision, p.Scores, p.Sessions, p.Batch)
	if p.Decoded() {
		text = fmt.Sprintf("computed in %s and decoded there, %d sessions, batches of %d windows", p.Precision, p.Sessions, p.Batch)
	}
	if p.Padded {
		text += ", padded"
	}
	for _, gpu := range p.GPUs {
		text += "; " + gpu.String()
	}
	if len(p.GPUs) > 0 {
		text += map[bool]string{true: "; host memory is pinned", false: "; host memory is not pinned"}[p.Pinned]
	}
	return text
}

func verifyModel(ctx context.Context, cfg verifyConfig, name string, stdout io.Writer) (err error) {
	model, err := models.Open(name)
	if err != nil {
		return err
	}
	m := model.Manifest
	if cfg.source != "" {
		again, err := convert.Convert(cfg.source, convert.Options{Name: m.Name, Chemistry: m.Chemistry, SampleRate: m.SampleRates[0]})
		if err != nil {
			return err
		}
		if again.Manifest.Network != m.Network {
			return fmt.Errorf("verifying model %s: its network is not what %s gives: it was converted from another, or by another version", m.Name, cfg.source)
		}
	}
	caller, err := basecall.NewCaller(model, basecall.Config{Device: cfg.device, Library: cfg.library, Compute: cfg.compute})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, caller.Close()) }()
	read := madeUpRead(4*m.Window.Samples, m.SampleRates[0])
	begin := time.Now()
	first, err := caller.Call(ctx, read)
	if err != nil {
		return fmt.Errorf("verifying model %s: %w", m.Name, err)
	}
	second, err := caller.Call(ctx, read)
	if err != nil {
		return fmt.Errorf("verifying model %s: %w", m.Name, err)
	}
	took := time.Since(begin)
	if !bytes.Equal(first.Sequence, second.Sequence) || !bytes.Equal(first.Qualities, second.Qualities) || !bytes.Equal(first.Moves, second.Moves) {
		return fmt.Errorf("verifying model %s: the same read was called in two ways on %s", m.Name, caller.Device())
	}
	v := verified{
		Model: m.Name, Device: caller.Device(), Samples: len(read.Samples), Bases: len(first.Sequence),
		SamplesPerSecond: math.Round(2 * float64(len(read.Samples)) / took.Seconds()), From: cfg.source,
		Path: caller.Path(), LeftToCPU: caller.LeftToCPU(), KernelLayers: caller.Kernels().Layers, KernelDecodes: caller.Kernels().Decodes, NoKernels: caller.Kernels().Why,
	}
	if cfg.asJSON {
		return json.NewEncoder(stdout).Encode(v)
	}
	_, err = fmt.Fprintln(stdout, v.text(caller.Kernels().Plain))
	return err
}

// text describes the verified model for people; plain is how many layers no kernel of Porestream's computes.
func (v *verified) text(plain int) string {
	text := fmt.Sprintf("model %s runs on %s: %d samples twice, %d bases, alike", v.Model, v.Device, v.Samples, v.Bases)
	if v.From != "" {
		text += fmt.Sprintf("; its network is what %s gives", v.From)
	}
	text += "\n" + pathText(v.Path)
	if v.KernelLayers > 0 {
		text += fmt.Sprintf("\n%d layers are computed by Porestream's kernels, as ONNX Runtime's operators do", v.KernelLayers)
		if plain > 0 {
			text += fmt.Sprintf("; %d others have none", plain)
		}
	}
	if v.KernelDecodes {
		text += "\nscores are decoded by Porestream's kernel, as on the CPU"
	}
	if v.NoKernels != "" {
		text += "\nPorestream's GPU kernels are not used: " + v.NoKernels
	}
	for i, node := range v.LeftToCPU {
		if i == 0 {
			text += fmt.Sprintf("\n%d nodes of its network run on the CPU:", len(v.LeftToCPU))
		}
		text += "\n  " + node.String()
	}
	return text
}

// verifiedModified is what verifying a modified-base model gives.
type verifiedModified struct {
	Model  string `json:"model"`
	Device string `json:"device"`
	Codes  string `json:"codes"`
	SHA256 string `json:"sha256"`
	Bases  int    `json:"bases"` // that were scored
}

func verifyModifiedModel(ctx context.Context, cfg verifyConfig, path string, stdout io.Writer) (err error) {
	if cfg.source != "" {
		return cli.Usagef("--from %s: %s is a modified-base model; pore model convert gives the same bytes each time", cfg.source, path)
	}
	model, err := modconvert.Open(path)
	if err != nil {
		return err
	}
	caller, err := modnetwork.New([]*modnetwork.Model{model}, modnetwork.Config{Device: cfg.device, Library: cfg.library})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, caller.Close()) }()
	const bases, stride, frames = 4000, 5, 2
	read := madeUpRead(bases*frames*stride, model.SampleRate)
	called := basecall.Called{Stride: stride, NumSamples: len(read.Samples), Shift: 450, Scale: 75}
	rng := rand.New(rand.NewPCG(1, 3)) // the same for everybody
	for range bases {
		called.Sequence = append(called.Sequence, "ACGT"[rng.IntN(4)])
		called.Qualities = append(called.Qualities, 20)
		called.Moves = append(called.Moves, 1, 0)
	}
	first, err := caller.Call(ctx, read.Samples, &called)
	if err != nil {
		return fmt.Errorf("verifying %w", err)
	}
	second, err := caller.Call(ctx, read.Samples, &called)
	if err != nil {
		return fmt.Errorf("verifying %w", err)
	}
	if first.MM() != second.MM() || !bytes.Equal(first.ML(), second.ML()) {
		return fmt.Errorf("verifying model %s: the same read was scored in two ways on %s", model.Name, caller.Device())
	}
	row := newModifiedRow(model, path)
	v := verifiedModified{Model: model.Name, Device: caller.Device(), Codes: row.Codes, SHA256: model.SHA256, Bases: len(first.Lists[0].Skips)}
	if cfg.asJSON {
		return json.NewEncoder(stdout).Encode(v)
	}
	_, err = fmt.Fprintf(stdout, "model %s runs on %s: %d bases twice, alike; it calls %s at %s, current scaled by %s\nsha256 %s\n",
		v.Model, v.Device, v.Bases, v.Codes, strings.Join(row.Motifs, " "), model.Scaling(), v.SHA256)
	return err
}

// verifiedVariant is what verifying a variant model gives.
type verifiedVariant struct {
	Model             string  `json:"model"`
	Device            string  `json:"device"`
	Examples          int     `json:"examples"`
	ExamplesPerSecond float64 `json:"examples_per_second"` // all at once
}

func verifyVariantModel(cfg verifyConfig, name string, stdout io.Writer) (err error) {
	if cfg.source != "" {
		return cli.Usagef("--from %s: %s is a variant model, which was not converted from another", cfg.source, name)
	}
	model, err := models.OpenVariant(name)
	if err != nil {
		return err
	}
	scorer, err := network.New(model, network.Config{Device: cfg.device, Library: cfg.library})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scorer.Close()) }()
	const count = 2000
	examples := network.MadeUp(count)
	begin := time.Now()
	all, err := scorer.Score(nil, examples)
	if err != nil {
		return fmt.Errorf("verifying model %s: %w", name, err)
	}
	took := time.Since(begin)
	var single []float32
	for i := range count {
		if single, err = scorer.Score(single, examples[i*variant.ExampleSize:(i+1)*variant.ExampleSize]); err != nil {
			return fmt.Errorf("verifying model %s: %w", name, err)
		}
	}
	if !slices.EqualFunc(all, single, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
		return fmt.Errorf("verifying model %s: examples are scored otherwise among others than alone on %s", name, scorer.Device())
	}
	v := verifiedVariant{
		Model: model.Manifest.Name, Device: scorer.Device(), Examples: count,
		ExamplesPerSecond: math.Round(count / took.Seconds()),
	}
	if cfg.asJSON {
		return json.NewEncoder(stdout).Encode(v)
	}
	_, err = fmt.Fprintf(stdout, "model %s runs on %s: %d examples at once and one by one, alike\n", v.Model, v.Device, v.Examples)
	return err
}

// verifiedSequence is what came of verifying a sequence network.
type verifiedSequence struct {
	Model      string  `json:"model"`
	Device     string  `json:"device"`
	Networks   int     `json:"networks"`
	Windows    int     `json:"windows"`
	PerSecond  float64 `json:"windows_per_second"`
	Difference float64 `json:"difference"` // the largest between windows together and alone
}

// verifySequenceModel loads a sequence network, which tries it on windows, and computes made-up windows together and one by one.
func verifySequenceModel(ctx context.Context, cfg verifyConfig, name string, stdout io.Writer) (err error) {
	if cfg.source != "" {
		return cli.Usagef("--from %s: %s is a sequence model; pore model convert gives the same bytes each time", cfg.source, name)
	}
	model, err := sequence.OpenModel(name)
	if err != nil {
		return err
	}
	n, err := sequence.New(model, sequence.Config{Device: cfg.device, Library: cfg.library})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	rng := rand.New(rand.NewPCG(1, 2)) // the same for everybody
	windows := make([]string, 4)
	for i := range windows {
		bases := make([]byte, model.Manifest.WindowLength())
		for j := range bases {
			bases[j] = "ACGT"[rng.IntN(4)]
		}
		windows[i] = string(bases)
	}
	begin := time.Now()
	together, err := n.Predict(ctx, windows)
	if err != nil {
		return fmt.Errorf("verifying model %s: %w", name, err)
	}
	v := verifiedSequence{
		Model: model.Manifest.Name, Device: n.Device(), Networks: len(model.Networks), Windows: len(windows),
		PerSecond: math.Round(100*float64(len(windows))/time.Since(begin).Seconds()) / 100,
	}
	for i, window := range windows {
		alone, err := n.Predict(ctx, []string{window})
		if err != nil {
			return fmt.Errorf("verifying model %s: %w", name, err)
		}
		for j, value := range alone[0] {
			v.Difference = max(v.Difference, math.Abs(float64(value-together[i][j])))
		}
	}
	// Scores have two decimals or four.
	const most = 1e-5
	if !(v.Difference <= most) {
		return fmt.Errorf("verifying model %s: windows together and alone differ by %g on %s, more than %g", name, v.Difference, n.Device(), most)
	}
	if cfg.asJSON {
		return json.NewEncoder(stdout).Encode(v)
	}
	_, err = fmt.Fprintf(stdout, "model %s runs on %s: %d windows together and one by one differ by at most %.1g\n", v.Model, v.Device, v.Windows, v.Difference)
	return err
}

// madeUpRead returns steps of random height and length with noise, in the range of
// a pore's current at one level per 0.2 pA.
func madeUpRead(n, rate int) basecall.Read {
	rng := rand.New(rand.NewPCG(1, 2)) // the same for everybody
	samples := make([]int16, n)
	level, left := 0.0, 0
	for i := range samples {
		if left--; left < 0 {
			level, left = 450+75*rng.NormFloat64(), rng.IntN(20)
		}
		samples[i] = int16(level + 8*rng.NormFloat64())
	}
	return basecall.Read{ID: "made-up", Samples: samples, SampleRate: rate, Calibration: signal.Calibration{Scale: 0.2}}
}

type modelConvertConfig struct {
	out        string
	network    convert.Options // of a basecalling network, and of one for modified bases
	basecaller string          // that a model for modified bases follows
	splicing   splice.Options
}

func modelConvertCommand() *cobra.Command {
	var cfg modelConvertConfig
	cmd := &cobra.Command{
		Use:   "convert --out FOLDER DIR|FILE...",
		Short: "Convert a model of Dorado or Bonito, for modified bases too, or a splicing network",
		Long: `Reads the folder of a model as Dorado downloads it or Bonito trains it, and writes
a folder with the network as ONNX, in single and in half precision, and a
manifest. Layers that are not known are refused by name. The model is used by
--model FOLDER.

A folder of Dorado's for modified bases, or a network of DeepMod2, becomes one file, NAME.onnx,
for --modified-bases, which takes them as they are, too. Dorado's follows the basecalling model that its name begins with,
unless --basecaller names another, or any.

Of OpenSpliceAI it reads state dicts, of SpliceAI the HDF5 files of Keras, or .keras, of CI-SpliceAI
the frozen graph of TensorFlow (.pb). Several are averaged. It writes a folder for --network FOLDER. Its licence has to be given.`,
		Example: `  pore model convert --out models/r10-hac dna_r10.4.1_e8.2_400bps_hac@v5.0.0
  pore model convert --out 5mCG_5hmCG.onnx --basecaller any dna_r10.4.1_e8.2_400bps_hac@v5.0.0_5mCG_5hmCG@v3
  pore model convert --out deepmod2.onnx DeepMod2/src/models/transformer/R9.4.1
  pore model convert --out splicing --licence GPL-3.0 model_10000nt_rs1*.pt
  pore model convert --out spliceai --licence CC-BY-NC-4.0 spliceai[1-5].h5
  pore model convert --out ci-spliceai --licence CC-BY-4.0 CI-SpliceAI.pb`,
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return convertModel(cmd, cfg, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.out, "out", "", "folder to write, or of a model for modified bases the file; it must not be there yet")
	flags.StringVar(&cfg.network.Name, "name", "", "name of the model; that of the folder if empty")
	flags.StringVar(&cfg.basecaller, "basecaller", "", "basecalling model that a model for modified bases follows, by Dorado's name, or any")
	flags.StringVar(&cfg.network.Chemistry, "chemistry", "", "chemistry that it is for, such as r10.4.1, where the folder's name doesn't say")
	flags.IntVar(&cfg.network.SampleRate, "sample-rate", 0, "sample rate that it is for in Hz, where neither configuration nor name say")
	flags.StringVar(&cfg.splicing.Licence, "licence", "", "licence of a splicing network, such as GPL-3.0: it is shown and recorded")
	flags.StringVar(&cfg.splicing.Info, "info", "", "key of a splicing network's scores in INFO; OpenSpliceAI or SpliceAI if empty")
	flags.IntVar(&cfg.splicing.Distance, "splice-distance", 50, "bases on both sides of a variant that a splicing network reads, up to 4999")
	flags.BoolVar(&cfg.splicing.Mask, "splice-mask", false, "take gains at annotated splice sites, and losses elsewhere, for nothing")
	return cmd
}

// convertModel finds out what kind of model the files are, and converts it.
func convertModel(cmd *cobra.Command, cfg modelConvertConfig, paths []string) error {
	opts, out := cfg.network, cfg.out
	if out == "" {
		return cli.Usagef("name the folder to write with --out")
	}
	if opts.SampleRate < 0 {
		return cli.Usagef("--sample-rate %d is negative", opts.SampleRate)
	}
	if len(paths) == 1 && modconvert.Is(paths[0]) {
		return convertModified(cmd, paths[0], out, modconvert.Options{Name: opts.Name, Chemistry: opts.Chemistry, SampleRate: opts.SampleRate, Basecaller: cfg.basecaller})
	}
	if cfg.basecaller != "" {
		return cli.Usagef("--basecaller is for models for modified bases, and %s is none", paths[0])
	}
	if opts.Name == "" {
		opts.Name = filepath.Base(filepath.Clean(out))
	}
	if info, err := os.Stat(paths[0]); err == nil && info.Mode().IsRegular() {
		cfg.splicing.Name = opts.Name
		return convertSplicing(cmd, paths, out, cfg.splicing)
	}
	if len(paths) > 1 {
		return cli.Usagef("%s: one folder is converted at a time", paths[1])
	}
	model, err := convert.Convert(paths[0], opts)
	if err != nil {
		return err
	}
	unused, err := convert.UnusedSettings(paths[0])
	if err != nil {
		return err
	}
	if err := model.Save(out); err != nil {
		return err
	}
	if len(unused) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "settings of it that nothing here depends on: %s\n", strings.Join(unused, ", "))
	}
	return writeModels(cmd.OutOrStdout(), []modelRow{newModelRow(model, out)}, false)
}

// convertModified converts a model for modified bases.
func convertModified(cmd *cobra.Command, from, out string, opts modconvert.Options) error {
	if filepath.Ext(out) != ".onnx" {
		return cli.Usagef("--out %s: a model for modified bases becomes a file NAME.onnx", out)
	}
	data, err := modconvert.Convert(from, opts)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(out); err == nil {
		return fmt.Errorf("writing model %s: it is there already: remove it, or name another file", out)
	}
	if err := wholefile.Write(out, func(w *bufio.Writer) error {
		_, err := w.Write(data)
		return err
	}); err != nil {
		return err
	}
	model, err := modnetwork.OpenModel(out)
	if err != nil {
		return err
	}
	return writeModels(cmd.OutOrStdout(), []modelRow{newModifiedRow(model, out)}, false)
}

// convertSplicing converts the files of a splicing network, or of several that are averaged.
func convertSplicing(cmd *cobra.Command, files []string, out string, opts splice.Options) error {
	if opts.Licence == "" {
		return cli.Usagef("name the licence of the network with --licence, such as GPL-3.0")
	}
	m, contents, err := splice.Convert(files, opts)
	if err != nil {
		return err
	}
	if err := folder.Save(out, contents); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d networks of splicing, %d bases of context, %s; use it by --network %s\n", m.Name, len(m.Networks), m.Input.Context, m.Licence, out)
	return err
}

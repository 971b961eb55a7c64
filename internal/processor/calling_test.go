package processor

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/models"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/network"
	"github.com/porestream/porestream/variant/network/networktest"
)

func TestCalling(t *testing.T) {
	if _, err := infer.FindLibrary(""); err != nil {
		t.Skip("needs ONNX Runtime: ", err)
	}
	reference := filepath.Join("..", "..", "testdata", "lambda", "reference.fa")
	g, err := genome.Load(reference)
	require.NoError(t, err)
	model := networktest.Folder(t, networktest.Random(1))
	bed := filepath.Join(t.TempDir(), "ploidy.bed")
	require.NoError(t, os.WriteFile(bed, []byte("J02459.1\t10\t20\tmixture\n"), 0o644))
	none := filepath.Join(t.TempDir(), "none.bed")
	for _, tt := range []struct {
		name  string
		args  []string
		wrong string // what Validate says
		err   string // what Load says
	}{
		{"analytic", []string{"--variant-model", "none"}, "", ""},
		{"network by default, haploid", nil, "", ""},
		{"network", []string{"--variant-model", model}, "", ""},
		{"network by default", []string{"--ploidy", "2"}, "", ""},
		{"network by default for a part", []string{"--ploidy-bed", bed}, "", ""},
		{"diploid", []string{"--variant-model", model, "--ploidy", "2", "--ploidy-bed", bed, "--min-af", "0.01"}, "", ""},
		{"ploidy", []string{"--ploidy", "3"}, `--ploidy: ploidy "3": want 1, 2 or mixture`, `--ploidy: ploidy "3"`},
		{"fraction", []string{"--min-af", "0.6"}, "--min-af 0.6: want a share", "least allele fraction 0.6"},
		{"analytic and diploid", []string{"--variant-model", "none", "--ploidy", "2"}, "", "ploidy 2: without a network only haploid"},
		{"analytic and mixed", []string{"--variant-model", "none", "--ploidy-bed", bed}, "", "ploidies: without a network only haploid"},
		{"no model", []string{"--variant-model", "nope"}, "", "--variant-model: opening model nope: neither a folder nor one of the shipped models (r9.4-fast"},
		{"a basecaller", []string{"--variant-model", "r9.4-fast"}, "", "it is the manifest of a basecalling model, not of a variant model"},
		{"strict", []string{"--strict-models"}, "", ""},
		{"strict without a network", []string{"--strict-models", "--variant-model", "none"}, "", "--strict-models: the analytic model (--variant-model none) is for no basecalling models in particular"},
		{"strict, of a model that doesn't tell", []string{"--strict-models", "--variant-model", model}, "", "--strict-models: the manifest of variant model test doesn't say which basecalling models it is for"},
		{"no file", []string{"--ploidy-bed", none}, "", "--ploidy-bed: open " + none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c Calling
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			c.Register(flags)
			require.NoError(t, flags.Parse(tt.args))
			if tt.wrong == "" {
				require.NoError(t, c.Validate())
			} else {
				require.ErrorContains(t, c.Validate(), tt.wrong)
			}
			cfg, scorer, err := c.Load(g, variant.Config{Sample: "s"}, network.Config{Device: "cpu"})
			if scorer != nil {
				defer scorer.Close()
			}
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				assert.NotContains(t, err.Error(), "\n")
				assert.Nil(t, scorer)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "s", cfg.Sample)
			if strings.HasPrefix(tt.name, "analytic") {
				assert.Nil(t, scorer)
				assert.Nil(t, cfg.Network)
				assert.Equal(t, variant.Haploid, cfg.Ploidy)
				return
			}
			assert.Same(t, scorer, cfg.Network)
			if tt.name == "diploid" {
				assert.Equal(t, variant.Diploid, cfg.PloidyAt("J02459.1", 9))
				assert.Equal(t, variant.Mixture, cfg.PloidyAt("J02459.1", 10))
				assert.InDelta(t, 0.01, cfg.MinAlleleFraction, 0)
			}
		})
	}
}

// TestEnginesNameTheVariantModel: a summary names the model that has scored the variants.
func TestEnginesNameTheVariantModel(t *testing.T) {
	if _, err := infer.FindLibrary(""); err != nil {
		t.Skip("needs ONNX Runtime: ", err)
	}
	load := func(stages, model string) *Engines {
		list, err := ParseStages(stages, Work{})
		require.NoError(t, err)
		e, err := Load(t.Context(), Options{Stages: list, Flags: Flags{
			Reference: filepath.Join("..", "..", "testdata", "lambda", "reference.fa"),
			Device:    "sim:1ms:4:nowhere", Calling: Calling{Model: model}, // the basecaller's scores, which no variant model has
		}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		return e
	}
	assert.Equal(t, "test", load("variant", networktest.Folder(t, networktest.Random(1))).VariantModel())
	assert.Equal(t, "none", load("variant", "none").VariantModel())
	assert.Empty(t, load("annotate", "").VariantModel())
}

// TestStrictProcessorsRefuseTheirOwnBasecaller before anything is called with it.
func TestStrictProcessorsRefuseTheirOwnBasecaller(t *testing.T) {
	if _, err := infer.FindLibrary(""); err != nil {
		t.Skip("needs ONNX Runtime: ", err)
	}
	dir := networktest.Folder(t, networktest.Random(1))
	manifest := filepath.Join(dir, "manifest.toml")
	text, err := os.ReadFile(manifest)
	require.NoError(t, err)
	text = append(text, "\n[[reads]]\nname = \"others\"\nmodels = [\"r10.4.1/hac/*\"]\ndata = \"none\"\nshared = true\n"...)
	require.NoError(t, os.WriteFile(manifest, text, 0o600))
	for _, strict := range []bool{false, true} {
		list, err := ParseStages("basecall,variant", Work{})
		require.NoError(t, err)
		e, err := Load(t.Context(), Options{Stages: list, Flags: Flags{
			Reference: filepath.Join("..", "..", "testdata", "lambda", "reference.fa"),
			Device:    "cpu", Calling: Calling{Model: dir, Strict: strict},
		}})
		if !strict {
			require.NoError(t, err)
			require.NoError(t, e.Close())
			continue
		}
		require.ErrorIs(t, err, variant.ErrModelMismatch)
		require.ErrorContains(t, err, "r9.4-fast has called them, and test is for those of others")
	}
}

// TestModifiedMotifs: motifs that a table of a plant has, and that are about everywhere, are left out with a line; they don't stop the others.
func TestModifiedMotifs(t *testing.T) {
	g, err := genome.Read(strings.NewReader(">c\nACGT\n"))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "motifs.txt")
	require.NoError(t, os.WriteFile(file, []byte("CG,0\nCHG,0\nCHH,0\nGCCNNNNNGGC,1\n"), 0o644))
	var log strings.Builder
	c := Calling{Model: models.None, ModifiedMotifs: file}
	cfg, _, err := c.Load(g, variant.Config{Sample: "s"}, network.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	require.Equal(t, []string{"CG", "CHG", "GCCNNNNNGGC"}, cfg.ModifiedMotifs)
	require.Equal(t, 1, strings.Count(log.String(), "motifs=CHH"))
}

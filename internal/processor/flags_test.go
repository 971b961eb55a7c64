package processor

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestIdleFlags: what is only for basecalling is named in one line where nothing basecalls, and else not.
func TestIdleFlags(t *testing.T) {
	all := Options{Flags: Flags{
		Model: "hac", ModifiedBases: []string{"5mC.onnx"}, RunModels: RunModels{Rules: "rules.yaml", Dir: "models"},
		Signal: Signal{Partial: time.Second, Basecalls: true}, Reference: "nowhere.fa",
	}}
	for _, c := range []struct {
		stages string
		opts   Options
		want   string
	}{
		{"align,variant,annotate", all, "--model,--models,--models-dir,--modified-bases,--partial,--basecalls"},
		{"align,variant", Options{Flags: Flags{Model: "hac", ModifiedBases: []string{"5mC.onnx"}, Reference: "nowhere.fa"}}, "--model,--modified-bases"},
		{"adaptive", Options{Flags: Flags{Model: "hac", Reference: "nowhere.fa"}}, ""},
		{"adaptive,align", Options{Flags: Flags{Model: "hac", Signal: Signal{Basecalls: true}, Reference: "nowhere.fa"}}, "--basecalls"},
		{"basecall,align,variant", all, ""},
		{"align,variant,annotate", Options{Flags: Flags{Reference: "nowhere.fa"}}, ""},
	} {
		var said bytes.Buffer
		c.opts.Stages, c.opts.Logger = strings.Split(c.stages, ","), slog.New(slog.NewTextHandler(&said, nil))
		_, err := Load(t.Context(), c.opts)
		require.ErrorContains(t, err, "nowhere.fa")
		if c.want == "" {
			require.Empty(t, said.String(), c.stages)
			continue
		}
		require.Equal(t, 1, strings.Count(said.String(), "\n"), said.String())
		require.Contains(t, said.String(), "flags="+c.want+" stages="+c.stages)
	}
}

// TestHaplotypesNeedCopies: counts by haplotype are refused by the flags alone where no place can have two copies: nobody has to connect or to read a genome
// for that.
func TestHaplotypesNeedCopies(t *testing.T) {
	for _, c := range []struct {
		name, ploidy, bed string
		stages            []string
		refused           bool
	}{
		{"one copy by default", "", "", []string{"align", "variant", "methylate"}, true},
		{"one copy", "1", "", []string{"variant"}, true},
		{"a mixture", "mixture", "", []string{"variant", "methylate"}, true},
		{"one copy, in pore run", "", "", nil, true},
		{"two copies", "2", "", []string{"align", "variant", "methylate"}, false},
		{"two copies, in pore run", "2", "", nil, false},
		{"a file says where", "1", "ploidy.bed", []string{"variant"}, false},
		{"another process calls variants", "", "", []string{"align", "methylate"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Flags{
				Reference: "nowhere.fa", Survey: Survey{Settings: SurveySettings{Allele: "*", Band: 1, Depth: 1, LowMapping: 0.5}},
				Methylation: Methylation{On: true, Haplotypes: true}, Calling: Calling{Ploidy: c.ploidy, PloidyBED: c.bed},
			}
			_, err := f.Options(c.stages)
			if c.refused {
				require.EqualError(t, err, "--methylation-haplotypes: no place has two copies: give --ploidy 2, or leave the flag out")
				return
			}
			require.NoError(t, err)
		})
	}
}

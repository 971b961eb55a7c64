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

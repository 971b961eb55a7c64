package cli_test

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/internal/cli"
)

// TestFormerNamesWorkAndSayTheNewOne: a script that uses a command's former name goes on, and its log says what to change.
func TestFormerNamesWorkAndSayTheNewOne(t *testing.T) {
	var ran string
	panel := func() *cobra.Command {
		cmd := &cobra.Command{Use: "panel", Args: cli.Args(cobra.NoArgs)}
		cmd.AddCommand(&cobra.Command{Use: "show NAME", RunE: func(_ *cobra.Command, args []string) error {
			ran = "show " + args[0]
			return nil
		}})
		return cmd
	}
	root := &cobra.Command{Use: "pore"}
	root.AddCommand(panel(), cli.Formerly("watch", panel(), "pore panel"))
	var out, complaints strings.Builder
	root.SetOut(&out)
	root.SetErr(&complaints)

	root.SetArgs([]string{"watch", "show", "malaria"})
	require.NoError(t, root.Execute())
	require.Equal(t, "show malaria", ran)
	require.Equal(t, "pore watch show: warning: it is called \"pore panel show\" now, and this name will go\n", complaints.String())
	require.Empty(t, out.String(), "what a command prints is for the next program")

	complaints.Reset()
	root.SetArgs([]string{"panel", "show", "tb"})
	require.NoError(t, root.Execute())
	require.Equal(t, "show tb", ran)
	require.Empty(t, complaints.String())

	root.SetArgs([]string{"--help"})
	require.NoError(t, root.Execute())
	require.Contains(t, out.String(), "panel")
	require.NotContains(t, out.String(), "watch")
}

// TestFormerFlagsSetTheFlagOfToday: a script that uses a flag's former name goes on, and its log says what to change.
func TestFormerFlagsSetTheFlagOfToday(t *testing.T) {
	for _, tt := range []struct{ args, want, complaint string }{
		{"", "shipped", ""},
		{"--variant-model a", "a", ""},
		{"--caller-model a", "a", "Flag --caller-model has been deprecated, it is called --variant-model now, and this name will go\n"},
		{"--caller-model a --variant-model b", "b", "Flag --caller-model has been deprecated, it is called --variant-model now, and this name will go\n"},
	} {
		var model string
		cmd := &cobra.Command{Use: "call", RunE: func(*cobra.Command, []string) error { return nil }}
		cmd.Flags().StringVar(&model, "variant-model", "shipped", "variant model")
		cli.FormerFlag(cmd.Flags(), "caller-model", "variant-model")
		var complaints strings.Builder
		cmd.SetOut(&complaints) // standard error, unless it is set
		cmd.SetArgs(strings.Fields(tt.args))
		require.NoError(t, cmd.Execute(), tt.args)
		require.Equal(t, tt.want, model, tt.args)
		require.Equal(t, tt.complaint, complaints.String(), tt.args)
		require.NotContains(t, cmd.UsageString(), "caller-model")
	}
}

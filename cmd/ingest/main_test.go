package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSources(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string
		rest []string
	}{
		{"files", []string{"--brokers", "k:1", "--pace", "1", "/data/run1"}, "ingest", []string{"/data/run1"}},
		{"a flag behind files", []string{"a.pod5", "--restart", "b.blow5"}, "ingest", []string{"a.pod5", "b.blow5"}},
		{"play", []string{"play", "--brokers", "k:1", "a.pod5"}, "play", []string{"a.pod5"}},
		{"flags before the source", []string{"--brokers", "k:1", "play", "a.pod5"}, "play", []string{"a.pod5"}},
		{"a file that is called like a source", []string{"./play"}, "ingest", []string{"./play"}},
		{"a file that is called like a source, among others", []string{"a.pod5", "play"}, "ingest", []string{"a.pod5", "play"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd, args, err := command().Find(tt.args)
			require.NoError(t, err)
			require.Equal(t, tt.want, cmd.Name())
			require.NoError(t, cmd.ParseFlags(args))
			require.Equal(t, tt.rest, cmd.Flags().Args())
			require.NoError(t, cmd.ValidateArgs(cmd.Flags().Args()))
		})
	}
}

func TestFilesAreNeeded(t *testing.T) {
	cmd := command()
	cmd.SetArgs([]string{"--brokers", "k:1"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	require.EqualError(t, cmd.Execute(), "requires at least 1 arg(s), only received 0; usage: ingest --brokers HOST:PORT SIGNAL... [flags]")
}

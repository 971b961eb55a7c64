package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// TestInputsAreSpared has no command replace what it reads, however that is named.
func TestInputsAreSpared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(name), 0o600))
		return path
	}
	genome, proteins, reads := file("genome.fa"), file("proteins.gff3"), file("reads.bam")
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(reads, link))
	for _, tt := range []struct {
		out, faa string
		want     string
	}{
		{"-", "", ""},
		{os.DevNull, "", ""},
		{filepath.Join(dir, "new"), file("old"), ""},
		{genome, "", "--output " + genome + " would replace a file that is read, by --ref: name another file"},
		{filepath.Join(dir, ".", "genome.fa"), "", "by --ref"},
		{"-", genome, "--faa " + genome + " would replace"},
		{proteins, "", "by --proteins"},
		{reads, "", "by an argument"},
		{link, "", "by an argument"},
	} {
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		flags.String("output", "-", "")
		flags.String("faa", "", "")
		flags.String("ref", "", "")
		flags.StringArray("proteins", nil, "")
		require.NoError(t, flags.Parse([]string{"--output", tt.out, "--faa", tt.faa, "--ref", genome, "--proteins", "x.gff3," + proteins, reads}))
		err := SpareInputs(flags, flags.Args(), "output", "faa")
		if tt.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, tt.want)
		require.True(t, isUsage(err))
	}

	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.String("output", "-", "")
	flags.StringArray("source", nil, "")
	require.NoError(t, flags.Parse([]string{"--output", reads, "--source", "dbSNP=" + reads}))
	require.ErrorContains(t, SpareInputs(flags, nil, "output"), "by --source")
}

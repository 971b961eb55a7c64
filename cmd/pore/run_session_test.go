package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/internal/processor"
)

// TestASessionNamesFilesOnly: IGV can't open what a shell substituted for a process, nor genes that were found in the reference.
func TestASessionNamesFilesOnly(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "genes.gff3"), filepath.Join(dir, "pipe")
	require.NoError(t, os.WriteFile(file, []byte("##gff-version 3\n"), 0o600))
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	given := []string{processor.AutoGenes, pipe, file, filepath.Join(dir, "gone.gff3"), dir}
	require.Equal(t, []string{file}, readAgain(given))
	require.Equal(t, processor.AutoGenes, given[0], "the caller's own list stays")
}

package filelock_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/filelock"
)

func TestOneHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	first, second := open(), open()
	require.NoError(t, filelock.Try(first))
	require.ErrorIs(t, filelock.Try(second), filelock.ErrHeld)
	require.NoError(t, first.Close())
	require.NoError(t, filelock.Try(second))
}

// TestNoLock: what isn't held, but can't be locked, isn't said to be held.
func TestNoLock(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	err = filelock.Try(f)
	require.Error(t, err)
	require.NotErrorIs(t, err, filelock.ErrHeld)
	require.ErrorContains(t, err, "put it on a disk of this machine")
}

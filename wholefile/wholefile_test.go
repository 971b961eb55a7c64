package wholefile

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestFileAppearsWhenItIsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "calls.vcf")
	require.NoError(t, os.WriteFile(path, []byte("before"), 0o600))
	f, err := Create(path)
	require.NoError(t, err)
	_, err = f.WriteString("after")
	require.NoError(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "before", string(content))
	for _, name := range names(t, dir) {
		assert.True(t, name == "calls.vcf" || name[0] == '.', name)
	}
	require.NoError(t, f.Commit())
	require.NoError(t, f.Discard(), "nothing after Commit")
	content, err = os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "after", string(content))
	assert.Equal(t, []string{"calls.vcf"}, names(t, dir))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o044), info.Mode()&0o044, "others may read it")
}

func TestDiscardedFileLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	f, err := Create(filepath.Join(dir, "a"))
	require.NoError(t, err)
	require.NoError(t, f.Discard())
	assert.Empty(t, names(t, dir))
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	require.NoError(t, Write(path, func(out *bufio.Writer) error {
		_, err := out.WriteString("text")
		return err
	}))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "text", string(content))

	failed := errors.New("no more")
	err = Write(path, func(out *bufio.Writer) error {
		_, _ = out.WriteString("half")
		return failed
	})
	require.ErrorIs(t, err, failed)
	require.ErrorContains(t, err, "writing "+path+": no more")
	content, err = os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "text", string(content), "what was there stays")
	other := &os.PathError{Op: "read", Path: "reads.bam", Err: errors.New("no more")}
	err = Write(path, func(*bufio.Writer) error { return fmt.Errorf("record 5: %w", other) })
	require.EqualError(t, err, "writing "+path+": record 5: read reads.bam: no more", "what is told of another file stays")
	assert.Equal(t, []string{"a"}, names(t, dir))
}

// A file that somebody removes while it is written is no success, and one line says so.
func TestRemovedFileIsAnError(t *testing.T) {
	for _, whole := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "d")
		require.NoError(t, os.Mkdir(dir, 0o755))
		path := filepath.Join(dir, "a")
		err := Write(path, func(*bufio.Writer) error {
			if whole {
				return os.RemoveAll(dir)
			}
			return os.Remove(filepath.Join(dir, names(t, dir)[0]))
		})
		require.EqualError(t, err, "writing "+path+": somebody has removed it, or its folder, while it was written: no such file or directory")
	}
	f, err := Create(filepath.Join(t.TempDir(), "a"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(f.Name()))
	require.NoError(t, f.Discard(), "it is gone already")
}

func TestFinish(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	f, err := Create(path)
	require.NoError(t, err)
	require.NoError(t, f.Finish(nil))
	f, err = Create(path)
	require.NoError(t, err)
	require.EqualError(t, f.Finish(errors.New("no more reads")), "no more reads")
	f, err = Create(path)
	require.NoError(t, err)
	full := &os.PathError{Op: "write", Path: f.Name(), Err: errors.New("no space")}
	require.EqualError(t, f.Finish(fmt.Errorf("record 5: %w", full)), "writing "+path+": no space")
	assert.Equal(t, []string{"a"}, names(t, dir))
}

func TestErrorsNameTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "a")
	_, err := Create(path)
	require.EqualError(t, err, "creating "+path+": no such file or directory")

	folder := filepath.Join(t.TempDir(), "folder")
	require.NoError(t, os.Mkdir(folder, 0o755))
	err = Write(folder, func(*bufio.Writer) error { return nil })
	require.EqualError(t, err, "writing "+folder+": file exists")
	assert.Equal(t, []string{"folder"}, names(t, filepath.Dir(folder)))
}

func TestWhatIsNoPlainFileIsWrittenTo(t *testing.T) {
	require.NoError(t, Write("/dev/null", func(*bufio.Writer) error { return nil }))
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	defer reader.Close()
	require.NoError(t, Write(fmt.Sprintf("/dev/fd/%d", writer.Fd()), func(out *bufio.Writer) error {
		_, err := out.WriteString("through")
		return err
	}))
	require.NoError(t, writer.Close())
	var read [7]byte
	_, err = reader.Read(read[:])
	require.NoError(t, err)
	assert.Equal(t, "through", string(read[:]))
}

// TestFolderAppearsWhenItIsWhole: a folder has its name with all that is in it, and takes no other's.
func TestFolderAppearsWhenItIsWhole(t *testing.T) {
	dir := t.TempDir()
	work, to := filepath.Join(dir, ".work"), filepath.Join(dir, "model")
	require.NoError(t, os.Mkdir(work, 0o755))
	require.NoError(t, Write(filepath.Join(work, "a"), func(w *bufio.Writer) error { _, err := w.WriteString("all"); return err }))
	require.NoError(t, CommitFolder(work, to))
	require.Equal(t, []string{"model"}, names(t, dir))
	require.Equal(t, []string{"a"}, names(t, to))
	require.ErrorContains(t, CommitFolder(work, to), "naming folder")
	require.NoError(t, os.Mkdir(work, 0o755))
	require.ErrorContains(t, CommitFolder(work, to), "naming folder", "one that is there stays")
	require.Equal(t, []string{"a"}, names(t, to))
}

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
)

// withoutRights runs an ingest that ends with an error as a user who must keep to
// the rights of files, which root need not.
func (f *fault) withoutRights(args ...string) {
	f.Helper()
	f.await(f.unprivileged(f.command(args)))
}

func (f *fault) unprivileged(cmd *exec.Cmd) *exec.Cmd {
	f.Helper()
	if os.Geteuid() != 0 {
		return cmd
	}
	setpriv, err := exec.LookPath("setpriv")
	if err == nil {
		err = exec.CommandContext(f.ctx, setpriv, "--bounding-set", "-all", "true").Run()
	}
	if err != nil {
		require.NotEqual(f, "true", os.Getenv("CI"), "root needs setpriv (util-linux) to give up its rights: %v", err)
		f.Skipf("root needs setpriv, and the right to use it, to give up its rights: %v", err)
	}
	cmd.Path, cmd.Args = setpriv, append([]string{setpriv, "--bounding-set", "-all", "--", cmd.Path}, cmd.Args[1:]...)
	return cmd
}

// watches runs a watch that polls often and ends runs soon.
func (f *fault) watches(dir string, args ...string) {
	f.Helper()
	f.runs(append([]string{"folder", "--journal", f.TempDir(), "--poll", "50ms", "--settle", "50ms", dir}, args...)...)
}

// damaged is a file with bytes in its middle changed.
func damaged(content []byte) []byte {
	content = bytes.Clone(content)
	for i := range 64 {
		content[len(content)/2+i] ^= 0x5a
	}
	return content
}

// recordedBLOW5 is a compressed BLOW5 file of three reads, of two runs.
func (f *fault) recordedBLOW5() []byte {
	return readFile(f, root(), "signal", "testdata", "three_zlib_svb.blow5")
}

// uncompressedBLOW5 holds the same without compression, so that what is in it can
// be found and changed.
func (f *fault) uncompressedBLOW5() []byte {
	return readFile(f, root(), "signal", "testdata", "three_none_none.blow5")
}

func (f *fault) recordedPOD5() []byte { return readFile(f, lambda("reads.pod5")) }

var fileFaults = map[string]func(*fault){
	"a file is missing": func(f *fault) { f.fails(filepath.Join(f.TempDir(), "none.pod5")) },
	"a file is of another format": func(f *fault) {
		f.fails(f.write("x.pod5", []byte("this is no signal\n")))
	},
	"a POD5 file is cut off":  func(f *fault) { b := f.recordedPOD5(); f.fails(f.write("x.pod5", b[:len(b)*2/3])) },
	"a BLOW5 file is cut off": func(f *fault) { b := f.recordedBLOW5(); f.fails(f.write("x.blow5", b[:len(b)*2/3])) },
	"a POD5 file is damaged":  func(f *fault) { f.fails(f.write("x.pod5", damaged(f.recordedPOD5()))) },
	"a BLOW5 file is damaged": func(f *fault) { f.fails(f.write("x.blow5", damaged(f.recordedBLOW5()))) },
	"a folder has no signal":  func(f *fault) { f.fails(f.TempDir()) },
	"a file may not be read": func(f *fault) {
		path := f.write("x.pod5", f.recordedPOD5())
		require.NoError(f, os.Chmod(path, 0))
		f.withoutRights(path)
	},
	"a watched folder may not be listed": func(f *fault) {
		dir := f.TempDir()
		require.NoError(f, os.Chmod(dir, 0))
		f.Cleanup(func() { os.Chmod(dir, 0o700) })
		f.withoutRights("folder", "--journal", f.TempDir(), dir)
	},
	"a folder below a watched one may not be listed": func(f *fault) {
		dir := f.TempDir()
		below := filepath.Join(dir, "below")
		require.NoError(f, os.Mkdir(below, 0))
		f.Cleanup(func() { os.Chmod(below, 0o700) })
		f.page = freeAddress(f)
		cmd := f.unprivileged(f.command([]string{"folder", "--journal", f.TempDir(), "--listen", f.page, "--poll", "50ms", dir}))
		cmd.Stdout, cmd.Stderr = &f.said, &f.said
		require.NoError(f, cmd.Start())
		f.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	},
	"a watched file may not be read": func(f *fault) {
		dir := f.TempDir()
		require.NoError(f, os.WriteFile(filepath.Join(dir, "x.pod5"), f.recordedPOD5(), 0))
		f.page = freeAddress(f)
		cmd := f.unprivileged(f.command([]string{"folder", "--journal", f.TempDir(), "--listen", f.page, "--poll", "50ms", "--settle", "50ms", dir}))
		cmd.Stdout, cmd.Stderr = &f.said, &f.said
		require.NoError(f, cmd.Start())
		f.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	},
	"a watched file is damaged": func(f *fault) {
		dir := f.TempDir()
		require.NoError(f, os.WriteFile(filepath.Join(dir, "x.blow5"), damaged(f.recordedBLOW5()), 0o600))
		f.watches(dir)
	},
	"a watched POD5 file is damaged": func(f *fault) {
		dir := f.TempDir()
		require.NoError(f, os.WriteFile(filepath.Join(dir, "x.pod5"), damaged(f.recordedPOD5()), 0o600))
		f.watches(dir)
	},
	"a watched file is never finished": func(f *fault) {
		dir := f.TempDir()
		b := f.recordedBLOW5()
		require.NoError(f, os.WriteFile(filepath.Join(dir, "x.blow5"), b[:len(b)-100], 0o600))
		f.watches(dir, "--idle-end", "500ms")
	},
	"a watched file is removed too early": func(f *fault) {
		dir := f.TempDir()
		b := f.recordedBLOW5()
		path := filepath.Join(dir, "x.blow5")
		require.NoError(f, os.WriteFile(path, b[:len(b)-100], 0o600))
		f.watches(dir)
		f.eventually("reads", func() bool { return f.counter("reads_total") > 0 })
		require.NoError(f, os.Remove(path))
	},
	"a watched read comes behind its run's end": func(f *fault) {
		dir, journal := f.TempDir(), f.TempDir()
		require.NoError(f, os.WriteFile(filepath.Join(dir, "first.blow5"), f.recordedBLOW5(), 0o600))
		f.works("folder", "--once", "--sample", "s", "--journal", journal, "--settle", "0", dir)
		require.NoError(f, os.WriteFile(filepath.Join(dir, "more.pod5"), f.recordedPOD5(), 0o600))
		f.runs("folder", "--sample", "s", "--journal", journal, "--settle", "0", dir)
	},
	"a watched run changes its sample rate": func(f *fault) {
		dir := f.TempDir()
		b := f.uncompressedBLOW5()
		require.NoError(f, os.WriteFile(filepath.Join(dir, "x.blow5"), b, 0o600))
		f.watches(dir)
		f.eventually("reads", func() bool { return f.counter("reads_total") > 2 })
		// Another file has reads of another rate under the run's id.
		other := bytes.ReplaceAll(b, []byte{0, 0, 0, 0, 0, 0x40, 0xaf, 0x40}, []byte{0, 0, 0, 0, 0, 0x88, 0xb3, 0x40}) // 4000, 5000
		require.NotEqual(f, b, other)
		require.NoError(f, os.WriteFile(filepath.Join(dir, "y.blow5"), other, 0o600))
	},
	"the journal is in use": func(f *fault) {
		dir, journal := f.TempDir(), f.TempDir()
		f.kafka()
		other := f.command([]string{"folder", "--journal", journal, "--poll", "50ms", "--settle", "0", dir})
		require.NoError(f, other.Start())
		defer func() { other.Process.Kill(); other.Wait() }()
		f.eventually("the journal", func() bool { files, err := os.ReadDir(journal); return err == nil && len(files) > 0 })
		f.fails("folder", "--journal", journal, dir)
	},
	"the journal of a run is gone": func(f *fault) {
		dir := f.TempDir()
		require.NoError(f, os.WriteFile(filepath.Join(dir, "x.pod5"), f.recordedPOD5(), 0o600))
		f.interrupted()
		f.fails("folder", "--journal", f.TempDir(), "--settle", "0", dir)
	},
	"the journal may not be written": func(f *fault) {
		journal := f.TempDir()
		require.NoError(f, os.Chmod(journal, 0o500))
		f.withoutRights("folder", "--journal", journal, f.TempDir())
	},
	"the journal's disk is full when a run begins": func(f *fault) {
		dir, disk := f.TempDir(), f.smallDisk()
		require.NoError(f, os.WriteFile(filepath.Join(dir, "x.blow5"), f.recordedBLOW5(), 0o600))
		f.fill(disk)
		f.fails("folder", "--journal", disk, "--poll", "50ms", "--settle", "0", dir)
	},
	"the journal's disk is full": func(f *fault) {
		dir, disk := f.TempDir(), f.smallDisk()
		require.NoError(f, os.WriteFile(filepath.Join(dir, "x.blow5"), f.recordedBLOW5(), 0o600))
		f.runs("folder", "--sample", "s", "--journal", disk, "--poll", "50ms", "--settle", "0", dir)
		f.eventually("reads", func() bool { return f.counter("reads_total") > 2 })
		f.fill(disk)
		require.NoError(f, os.WriteFile(filepath.Join(dir, "more.pod5"), f.recordedPOD5(), 0o600))
	},
}

// fill leaves no space on a small disk, except for a few names.
func (f *fault) fill(disk string) {
	f.Helper()
	ballast, err := os.Create(filepath.Join(disk, "ballast"))
	require.NoError(f, err)
	defer ballast.Close()
	_, err = ballast.WriteString(strings.Repeat("x", 1<<20))
	require.Error(f, err)
}

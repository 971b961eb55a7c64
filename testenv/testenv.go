// Package testenv finds what tests need from outside of the module, and holds what
// tests of several packages need alike.
package testenv

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Python returns an interpreter that has modules: the one that the environment's
// variable names, else python3. packages are what pip calls them. Where there is none
// the test is skipped, but fails in continuous integration, which always has one.
func Python(tb testing.TB, variable, packages string, modules ...string) string {
	tb.Helper()
	interpreter, err := find(tb, variable, modules)
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		tb.Fatalf("%v; %s names no other interpreter", err, variable)
	default:
		tb.Skipf("%v (pip install %s; %s names another interpreter)", err, packages, variable)
	}
	return interpreter
}

// Root is the folder of the module that the test is of.
func Root(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			tb.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}

// Recordings is the path, given with slashes, of something among the larger recordings that may lie beside a
// checkout. Where it is not there the test is skipped.
func Recordings(tb testing.TB, path string) string {
	tb.Helper()
	full := filepath.Join(Root(tb), "..", "shared", "data", filepath.FromSlash(path))
	if _, err := os.Stat(full); err != nil {
		tb.Skipf("needs the recordings beside the project: %v", err)
	}
	return full
}

// Path returns the file or folder that the environment's variable names, in an absolute
// form. Where it names none the test is skipped, but fails in continuous integration,
// which fetches it.
func Path(tb testing.TB, variable, what string) string {
	tb.Helper()
	path := os.Getenv(variable)
	switch {
	case path != "":
	case os.Getenv("CI") == "true":
		tb.Fatalf("%s does not name %s", variable, what)
	default:
		tb.Skipf("needs %s, named by %s", what, variable)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("%s: %v", variable, err)
	}
	return path
}

// find returns the interpreter that variable names, else python3, if it has modules.
func find(tb testing.TB, variable string, modules []string) (string, error) {
	interpreter := cmp.Or(os.Getenv(variable), "python3")
	wanted := strings.Join(modules, ", ")
	out, err := exec.CommandContext(tb.Context(), interpreter, "-c", "import "+wanted).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s cannot import %s: %w\n%s", interpreter, wanted, err, bytes.TrimSpace(out))
	}
	return interpreter, nil
}

// Log is a log that may be read while it is written. Its zero value is empty.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends p.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns what was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// SkipUnchanged skips a test that takes minutes, or needs gigabytes, where CI has found that nothing of what it tests has changed since it passed:
// PORESTREAM_UNCHANGED names such groups of tests, separated by commas (.ci/run).
func SkipUnchanged(tb testing.TB, group string) {
	tb.Helper()
	// go test takes a result from its cache while the environment that a test asks for is the same, and doesn't see what Python reads: the sum of
	// such files, too, is in the environment.
	_ = os.Getenv("PORESTREAM_SUM_" + group)
	if slices.Contains(strings.Split(os.Getenv("PORESTREAM_UNCHANGED"), ","), group) {
		tb.Skipf("%s: unchanged since this passed", group)
	}
}

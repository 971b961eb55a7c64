// Package testenv finds what tests need from outside of the module, and holds what
// tests of several packages need alike.
package testenv

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// Python returns an interpreter that has modules: the one that the environment's
// variable names, else python3. packages are what pip calls them. Where there is none
// the test is skipped, but fails in continuous integration, which always has one.
func Python(tb testing.TB, variable, packages string, modules ...string) string {
	tb.Helper()
	interpreter := cmp.Or(os.Getenv(variable), "python3")
	wanted := strings.Join(modules, ", ")
	out, err := exec.CommandContext(tb.Context(), interpreter, "-c", "import "+wanted).CombinedOutput()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		tb.Fatalf("%s cannot import %s, and %s names no other interpreter: %v\n%s", interpreter, wanted, variable, err, out)
	default:
		tb.Skipf("%s cannot import %s (pip install %s; %s names another interpreter)", interpreter, wanted, packages, variable)
	}
	return interpreter
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

//go:build unix

package testenv

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ProcessorTime is what this process has used of all processors. For each second of
// it a result is comparable on a machine that others use as well.
func ProcessorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Versus has a Python package do what a benchmark did, and reports by how many
// times the benchmark's rate is the package's as the metric "x-" and the package's
// name. The script is run by the interpreter that the environment's variable names,
// else by python3, and prints its rate. Without the package there is no metric.
func Versus(b *testing.B, rate float64, variable, pkg, script string, args ...string) {
	b.Helper()
	python, err := find(b, variable, []string{pkg})
	if err != nil {
		b.Logf("nothing to compare with: %v (%s names another interpreter)", err, variable)
		return
	}
	out, err := exec.CommandContext(b.Context(), python, append([]string{"-c", script}, args...)...).Output()
	if err != nil {
		b.Fatalf("%s: %v", pkg, err)
	}
	theirs, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		b.Fatalf("%s printed no rate: %v", pkg, err)
	}
	b.ReportMetric(rate/theirs, "x-"+pkg)
}

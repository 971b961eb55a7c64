package pod5

import (
	"cmp"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// decodeOfficial unpacks every read of a file with ONT's package, in the faster of
// the two ways that it has, and prints samples for each second of processor time.
const decodeOfficial = `
import sys, time, pod5
best = 0
for preload in (None, {"samples"}):
    for _ in range(3):
        began, n = time.process_time(), 0
        with pod5.Reader(sys.argv[1]) as r:
            for rd in r.reads(preload=preload):
                n += len(rd.signal)
        best = max(best, n / (time.process_time() - began))
print(best)
`

// BenchmarkDecode unpacks all samples of a file. Where python3, or the interpreter
// that PORESTREAM_SIGNAL_PYTHON names, has ONT's package pod5, it reads the same
// file, and x-pod5-package is how many times its samples for each second of
// processor time come to.
func BenchmarkDecode(b *testing.B) {
	path := benchFile(b)
	r, err := Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var buf []int16
	var samples int64
	began := processorTime(b)
	for b.Loop() {
		for i := range r.Batches() {
			reads, err := r.Batch(i)
			if err != nil {
				b.Fatal(err)
			}
			for k := range reads {
				if buf, err = r.Samples(&reads[k], buf[:0]); err != nil {
					b.Fatal(err)
				}
				samples += int64(len(buf))
			}
		}
	}
	rate := float64(samples) / (processorTime(b) - began).Seconds()
	b.ReportMetric(rate, "samples/cpu-s")
	python := cmp.Or(os.Getenv("PORESTREAM_SIGNAL_PYTHON"), "python3")
	if exec.CommandContext(b.Context(), python, "-c", "import pod5").Run() != nil {
		b.Logf("%s has no package pod5 to compare with; PORESTREAM_SIGNAL_PYTHON names another interpreter", python)
		return
	}
	out, err := exec.CommandContext(b.Context(), python, "-c", decodeOfficial, path).Output()
	if err != nil {
		b.Fatal(err)
	}
	official, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(official, "pod5-package-samples/cpu-s")
	b.ReportMetric(rate/official, "x-pod5-package")
}

// processorTime is what the process has used of all processors.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchFile is a real recording, or one like it if there is none.
func benchFile(b *testing.B) string {
	const recorded = "../../../shared/data/lambda-r9/reads.pod5"
	if _, err := os.Stat(recorded); err == nil {
		return recorded
	}
	random := rand.New(rand.NewPCG(1, 2))
	run := &RunInfo{AcquisitionID: "run", SampleRate: 4000}
	var reads []Read
	var samples [][]int16
	for i := range 100 {
		rd := Read{Run: run, CalibrationScale: 1}
		rd.ID[0] = byte(i)
		s := make([]int16, 50_000)
		level := 500.0
		for k := range s {
			if random.IntN(10) == 0 {
				level = 300 + 400*random.Float64()
			}
			s[k] = int16(level + 12*random.NormFloat64())
		}
		reads, samples = append(reads, rd), append(samples, s)
	}
	path := filepath.Join(b.TempDir(), "bench.pod5")
	if err := os.WriteFile(path, writeFile(b, WriterOptions{}, reads, samples), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

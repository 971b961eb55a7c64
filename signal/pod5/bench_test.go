package pod5

import (
	"cmp"
	"os"
	"testing"

	"github.com/porestream/porestream/testenv"
)

// official unpacks every read of a file with ONT's package, in the faster of the two
// ways that it has, and prints samples for each second of processor time.
const official = `
import sys, time, pod5
best = 0
for preload in (None, {"samples"}):
    for _ in range(5):
        began, n = time.process_time(), 0
        with pod5.Reader(sys.argv[1]) as r:
            for rd in r.reads(preload=preload):
                n += len(rd.signal)
        best = max(best, n / (time.process_time() - began))
print(best)
`

// BenchmarkDecode unpacks all samples of a file: PORESTREAM_RECORDING, or the one in
// testdata. x-pod5 is how many times the rate of ONT's package it comes to, where
// there is an interpreter with it.
func BenchmarkDecode(b *testing.B) {
	path := cmp.Or(os.Getenv("PORESTREAM_RECORDING"), "../../testdata/lambda/reads.pod5")
	r, err := Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var buf []int16
	var samples int64
	began := testenv.ProcessorTime(b)
	b.ReportAllocs()
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
	rate := float64(samples) / (testenv.ProcessorTime(b) - began).Seconds()
	b.ReportMetric(rate, "samples/cpu-s")
	testenv.Versus(b, rate, "PORESTREAM_SIGNAL_PYTHON", "pod5", official, path)
}

package fast5

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/porestream/porestream/testenv"
)

// plugin reads every read of a file with h5py and ONT's plugin, and prints samples for
// each second of processor time.
const plugin = `
import sys, time, h5py, vbz_h5py_plugin
best = 0
for _ in range(5):
    began, n = time.process_time(), 0
    with h5py.File(sys.argv[1], "r") as f:
        for k in f:
            if k.startswith("read_"):
                n += len(f[k]["Raw/Signal"][()])
    best = max(best, n / (time.process_time() - began))
print(best)
`

// BenchmarkDecode reads all of a file, samples and what is beside them:
// PORESTREAM_FAST5, or the real recording of testdata as ONT's converter or h5py writes
// it, where there is an interpreter with them. x-h5py is how many times the rate of
// h5py with ONT's plugin, which reads the samples only, it comes to.
func BenchmarkDecode(b *testing.B) {
	files := []string{os.Getenv("PORESTREAM_FAST5")}
	if files[0] == "" {
		dir := b.TempDir()
		oracle(b, "recording", cmp.Or(os.Getenv("PORESTREAM_RECORDING"), "../../testdata/lambda/reads.pod5"), dir)
		var err error
		if files, err = filepath.Glob(dir + "/*.fast5"); err != nil {
			b.Fatal(err)
		}
	}
	for _, path := range files {
		b.Run(filepath.Base(path), func(b *testing.B) {
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
				for i := range r.Len() {
					rd, err := r.Read(i)
					if err != nil {
						b.Fatal(err)
					}
					if buf, err = r.Samples(rd, buf[:0]); err != nil {
						b.Fatal(err)
					}
					samples += int64(len(buf))
				}
			}
			rate := float64(samples) / (testenv.ProcessorTime(b) - began).Seconds()
			b.ReportMetric(rate, "samples/cpu-s")
			testenv.Versus(b, rate, "PORESTREAM_SIGNAL_PYTHON", "h5py", plugin, path)
		})
	}
}

package blow5_test

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/porestream/porestream/signal/blow5"
	"github.com/porestream/porestream/signal/pod5"
	"github.com/porestream/porestream/testenv"
)

// official unpacks every read of a file with the SLOW5 authors' package, in the
// faster of the two ways that it has, and prints samples for each second of
// processor time.
const official = `
import sys, time, pyslow5
best = 0
for read in (lambda f: f.seq_reads(), lambda f: f.seq_reads_multi(threads=1, batchsize=100)):
    for _ in range(3):
        began, n = time.process_time(), 0
        for rd in read(pyslow5.Open(sys.argv[1], "r")):
            n += len(rd["signal"])
        best = max(best, n / (time.process_time() - began))
print(best)
`

// BenchmarkDecode unpacks all samples of a recording, that of PORESTREAM_RECORDING or
// the one in testdata, written as BLOW5 with svb-zd signal in records of each
// compression. x-pyslow5 is how many times the rate of the SLOW5 authors' package it
// comes to, where there is an interpreter with it.
func BenchmarkDecode(b *testing.B) {
	recording := cmp.Or(os.Getenv("PORESTREAM_RECORDING"), "../../testdata/lambda/reads.pod5")
	zstd := recordingAsBLOW5(b, recording)
	for _, c := range []struct {
		name string
		file []byte
	}{{"zstd", zstd}, {"zlib", withZlib(b, zstd)}} {
		b.Run(c.name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), c.name+".blow5")
			if err := os.WriteFile(path, c.file, 0o600); err != nil {
				b.Fatal(err)
			}
			var samples int64
			began := testenv.ProcessorTime(b)
			b.ReportAllocs()
			for b.Loop() {
				samples += decodeAll(b, path)
			}
			rate := float64(samples) / (testenv.ProcessorTime(b) - began).Seconds()
			b.ReportMetric(rate, "samples/cpu-s")
			testenv.Versus(b, rate, "PORESTREAM_SIGNAL_PYTHON", "pyslow5", official, path)
		})
	}
}

// decodeAll returns the number of samples in a file, all of which it has unpacked.
func decodeAll(tb testing.TB, path string) (samples int64) {
	r, err := blow5.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer r.Close()
	var buf []int16
	for {
		err := r.Next(func(rec *blow5.Record, _ int64) error {
			buf, err = rec.AppendSamples(buf[:0])
			samples += int64(len(buf))
			return err
		})
		if errors.Is(err, io.EOF) {
			return samples
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
}

// recordingAsBLOW5 writes the reads of a POD5 file, without auxiliary fields.
func recordingAsBLOW5(tb testing.TB, path string) []byte {
	tb.Helper()
	in, err := pod5.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer in.Close()
	var file bytes.Buffer
	w, err := blow5.NewWriter(&file, []map[string]string{{}}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range in.Batches() {
		reads, err := in.Batch(i)
		if err != nil {
			tb.Fatal(err)
		}
		for k := range reads {
			samples, err := in.Samples(&reads[k], nil)
			if err != nil {
				tb.Fatal(err)
			}
			rec := blow5.Record{ReadID: fmt.Sprintf("%x", reads[k].ID), Digitisation: 8192, Range: 1400, SamplingRate: 4000}
			if err := w.Add(&rec, nil, samples); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return file.Bytes()
}

// withZlib returns a file whose records are compressed with Zstandard as one whose
// records are compressed with zlib, at the level that slow5lib uses.
func withZlib(tb testing.TB, file []byte) []byte {
	tb.Helper()
	const press, headLen = 9, 64
	dec, err := zstd.NewReader(nil)
	if err != nil {
		tb.Fatal(err)
	}
	defer dec.Close()
	at := headLen + 4 + int(binary.LittleEndian.Uint32(file[headLen:]))
	out := bytes.NewBuffer(bytes.Clone(file[:at]))
	out.Bytes()[press] = 1
	for string(file[at:]) != "5WOLB" {
		end := at + 8 + int(binary.LittleEndian.Uint64(file[at:]))
		record, err := dec.DecodeAll(file[at+8:end], nil)
		if err != nil {
			tb.Fatal(err)
		}
		var packed bytes.Buffer
		w := zlib.NewWriter(&packed)
		if _, err := w.Write(record); err != nil {
			tb.Fatal(err)
		}
		if err := w.Close(); err != nil {
			tb.Fatal(err)
		}
		out.Write(binary.LittleEndian.AppendUint64(nil, uint64(packed.Len())))
		out.Write(packed.Bytes())
		at = end
	}
	out.WriteString("5WOLB")
	return out.Bytes()
}

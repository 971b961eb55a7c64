package convert

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// python is an interpreter with the formats' own packages: python3, or the one that
// PORESTREAM_SIGNAL_PYTHON names. Continuous integration always has one.
func python(t *testing.T) string {
	t.Helper()
	interpreter := cmp.Or(os.Getenv("PORESTREAM_SIGNAL_PYTHON"), "python3")
	out, err := exec.CommandContext(t.Context(), interpreter, "-c", "import numpy, pod5, pyslow5").CombinedOutput()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("%s cannot import pod5 and pyslow5, and PORESTREAM_SIGNAL_PYTHON names no other interpreter: %v\n%s", interpreter, err, out)
	default:
		t.Skipf("%s cannot import pod5 and pyslow5 (pip install pod5 pyslow5; PORESTREAM_SIGNAL_PYTHON names another interpreter)", interpreter)
	}
	return interpreter
}

// official returns what the packages read in a file, a line for each read.
func official(t *testing.T, python, mode, path string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, "testdata/official.py", mode, path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, stderr.String())
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// TestOfficialPackagesSeeTheSame holds that ONT's and the SLOW5 authors' readers
// see in our files what they see in their own, to the last sample and field.
func TestOfficialPackagesSeeTheSame(t *testing.T) {
	interpreter := python(t)
	dir := t.TempDir()
	reads := inventedReads(rand.New(rand.NewPCG(8, 8)), 1234)
	for i := range reads {
		// Their enum knows no other reasons.
		if reads[i].EndReason == "of_tomorrow" {
			reads[i].EndReason = "api_request"
		}
	}
	long := &reads[7].samples
	for len(*long) < 250_000 {
		*long = append(*long, int16(len(*long)*len(*long)>>7))
	}
	writePOD5(t, dir+"/invented.pod5", reads)
	pods := []string{fixtures + "three_vbz.pod5", dir + "/invented.pod5"}
	blows, err := filepath.Glob(fixtures + "three_*.blow5")
	if err != nil {
		t.Fatal(err)
	}
	if data := dataFolder(); data != "" {
		more, err := filepath.Glob(data + "/formats/*.pod5")
		if err != nil {
			t.Fatal(err)
		}
		pods = append(pods, more...)
		more, err = filepath.Glob(data + "/formats/blow5/*.blow5")
		if err != nil {
			t.Fatal(err)
		}
		blows = append(blows, more...)
	}
	for _, file := range pods {
		t.Run(filepath.Base(file), func(t *testing.T) {
			want, common := official(t, interpreter, "all", file), official(t, interpreter, "common", file)
			dir := t.TempDir()
			run(t, []string{file}, dir+"/same.pod5", Options{})
			run(t, []string{file}, dir+"/there.blow5", Options{})
			run(t, []string{dir + "/there.blow5"}, dir+"/back.pod5", Options{})
			sameLines(t, official(t, interpreter, "all", dir+"/same.pod5"), want)
			sameLines(t, official(t, interpreter, "all", dir+"/back.pod5"), want)
			sameLines(t, official(t, interpreter, "common", dir+"/there.blow5"), common)
		})
	}
	for _, file := range blows {
		t.Run(filepath.Base(file), func(t *testing.T) {
			to := t.TempDir() + "/same.blow5"
			run(t, []string{file}, to, Options{})
			sameLines(t, slices.Sorted(slices.Values(official(t, interpreter, "all", to))), slices.Sorted(slices.Values(official(t, interpreter, "all", file))))
		})
	}
}

package convert

import (
	"bytes"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/porestream/porestream/testenv"
)

// python is an interpreter with the formats' own packages: python3, or the one that
// PORESTREAM_SIGNAL_PYTHON names. Continuous integration always has one.
func python(t *testing.T) string {
	t.Helper()
	return testenv.Python(t, "PORESTREAM_SIGNAL_PYTHON", "pod5 pyslow5", "numpy", "pod5", "pyslow5")
}

// official returns what the packages read in files, a line for each read. pairs are
// modes of official.py and files.
func official(t *testing.T, python string, pairs ...string) [][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, append([]string{"testdata/official.py"}, pairs...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", pairs, err, stderr.String())
	}
	var all [][]string
	for part := range strings.SplitSeq(strings.TrimSuffix(string(out), "--\n"), "--\n") {
		all = append(all, strings.Split(strings.TrimSpace(part), "\n"))
	}
	if len(all) != len(pairs)/2 {
		t.Fatalf("%v: %d results", pairs, len(all))
	}
	return all
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
			dir := t.TempDir()
			run(t, []string{file}, dir+"/same.pod5", Options{})
			run(t, []string{file}, dir+"/there.blow5", Options{})
			run(t, []string{dir + "/there.blow5"}, dir+"/back.pod5", Options{})
			seen := official(t, interpreter, "all", file, "all", dir+"/same.pod5", "all", dir+"/back.pod5", "common", file, "common", dir+"/there.blow5")
			sameLines(t, seen[1], seen[0])
			sameLines(t, seen[2], seen[0])
			sameLines(t, seen[4], seen[3])
		})
	}
	for _, file := range blows {
		t.Run(filepath.Base(file), func(t *testing.T) {
			to := t.TempDir() + "/same.blow5"
			run(t, []string{file}, to, Options{})
			seen := official(t, interpreter, "all", to, "all", file)
			sameLines(t, seen[0], seen[1])
		})
	}
}

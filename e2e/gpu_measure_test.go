package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// gpuReport has scripts/gpu/report.py write the report of some results.
func gpuReport(t *testing.T, results string) string {
	t.Helper()
	report, err := exec.CommandContext(t.Context(), "python3", filepath.Join(root(), "scripts", "gpu", "report.py"), results).Output()
	require.NoError(t, err)
	return string(report)
}

// TestGPUMeasurementsWithoutAGPU runs the script that measures a GPU as far as that goes: each section that needs one says
// what is missing and leaves the others.
func TestGPUMeasurementsWithoutAGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("calls reads: not with -short")
	}
	needs(t, "python3")
	t.Parallel()
	library, err := filepath.Abs(filepath.Join(root(), ".deps", "onnxruntime", "libonnxruntime.so"))
	require.NoError(t, err)
	out := filepath.Join(t.TempDir(), "gpu.json")
	cmd := exec.CommandContext(t.Context(), "python3", filepath.Join(root(), "scripts", "gpu", "measure.py"),
		"--device", "cpu", "--pore", filepath.Join(bin, "pore"), "--bench", filepath.Join(t.TempDir(), "bench"), "--out", out)
	cmd.Env = append(os.Environ(), "ORT_LIB="+library, "PATH="+os.Getenv("PATH"))
	says, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", says)
	var results struct {
		Sections map[string]struct {
			Error string
			Rows  []struct {
				All *struct {
					Rate float64 `json:"read_samples_per_s"`
				} `json:"all_cores"`
			}
		}
	}
	written, err := os.ReadFile(out)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(written, &results))
	assert.Len(t, results.Sections, 23)
	assert.Equal(t, "bench: No such file or directory", results.Sections["kernel lstm 256"].Error)
	onCPU := results.Sections["cpu r9.4-fast"]
	assert.Empty(t, onCPU.Error)
	require.Len(t, onCPU.Rows, 1)
	assert.Positive(t, onCPU.Rows[0].All.Rate)

	report := gpuReport(t, out)
	assert.Contains(t, report, "\n| `r9.4-fast` | CPU, ")
	assert.Contains(t, report, "**It failed:** bench: No such file or directory")
	assert.NotContains(t, report, bin, "paths of the machine are nobody's business")
}

// TestReportOfAGPU writes the tables of results whose numbers are made up, with the energy of a genome worked out by hand.
func TestReportOfAGPU(t *testing.T) {
	needs(t, "python3")
	report := gpuReport(t, filepath.Join("testdata", "gpu.json"))
	for _, want := range []string{
		// 200 W and 100,000 bases/s are 2,000 J for a million; 93,000 of them are 51.7 kWh.
		"| `r9.4-hac` | CPU, 16 cores, fp32 | 1,000,000 | 200 | 2,000 | 51.7 kWh, 12.92 | - |\n",
		"| `r9.4-hac` | cuda:0, fp16, batches of 4096 | 100,000,000 | 600 | 60 | 1.55 kWh, 0.39 | 99.950 % |\n",
		"Some GPU, compute capability 9.0, 132 multiprocessors",
		"| 256 | 64 | 1.5 | 5.9 | 0.0002 | yes |\n",
		"**It failed:** torch: there is no PyTorch in this Python\n",
	} {
		assert.Contains(t, report, want)
	}
	assert.Equal(t, 2, strings.Count(report, "| `r9.4-hac` |"), "the fastest batch of the GPU and the CPU")
}

// TestReportOfWhatIsNoMeasurement: a file that measure.py hasn't written is reported in a line that names it and what is wrong.
func TestReportOfWhatIsNoMeasurement(t *testing.T) {
	needs(t, "python3")
	results := func(sections string) string {
		return `{"date":"2026-01-01","device":"cpu","program":"pore","processor":"some","cores":1,"recording":"reads.pod5","sections":` + sections + `}`
	}
	for _, tt := range []struct{ name, content, want string }{
		{"a number", "5", "an object was expected, not 5"},
		{"no JSON", "hello", "not JSON: Expecting value: line 1 column 1 (char 0)"},
		{"empty", "", "not JSON: Expecting value: line 1 column 1 (char 0)"},
		{"a list", "[]", "an object was expected, not []"},
		{"another object", "{}", "it has no 'date'"},
		{"sections are a number", results("3"), "'sections' is no object but 3"},
		{"a section is a number", results(`{"card":3}`), "section 'card' is no object with rows but 3"},
		{"rows are a number", results(`{"card":{"rows":3}}`), `section 'card' is no object with rows but {"rows": 3}`},
		{"a row is a number", results(`{"l2":{"rows":[{"a":1},3]}}`), "a row of section 'l2' is no object but 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "gpu.json")
			require.NoError(t, os.WriteFile(path, []byte(tt.content), 0o600))
			says, err := exec.CommandContext(t.Context(), "python3", filepath.Join(root(), "scripts", "gpu", "report.py"), path).CombinedOutput()
			require.Error(t, err)
			assert.Equal(t, "report: "+path+": "+tt.want+"; make gpu-measure writes such a file\n", string(says))
		})
	}
}

// TestMeasuredNumbers: a program that prints a number and no object gives text, of which a report can be written.
func TestMeasuredNumbers(t *testing.T) {
	needs(t, "python3")
	out, err := exec.CommandContext(t.Context(), "python3", "-B", "-c", `
import json, sys
sys.path.insert(0, sys.argv[1])
import measure
print(json.dumps([measure.measured(["echo", text], 5) for text in sys.argv[2:]]))`,
		filepath.Join(root(), "scripts", "gpu"), "42", `{"a": 1}`, "42\n{\"a\": 1}\n[2]").CombinedOutput()
	require.NoError(t, err, "%s", out)
	var sections []struct {
		Rows []map[string]int
		Text []string
	}
	require.NoError(t, json.Unmarshal(out, &sections), "%s", out)
	require.Len(t, sections, 3)
	assert.Equal(t, []string{"42"}, sections[0].Text)
	assert.Empty(t, sections[0].Rows)
	assert.Equal(t, []map[string]int{{"a": 1}}, sections[1].Rows)
	assert.Equal(t, []map[string]int{{"a": 1}}, sections[2].Rows)
	assert.Equal(t, []string{"42", "[2]"}, sections[2].Text)
}

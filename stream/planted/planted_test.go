package planted_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/porestream/porestream/stream/planted"
)

// TestNormalBuildsHaveNoBugs builds a program with every hook, with and without the tag, and searches for the bugs' names in it.
func TestNormalBuildsHaveNoBugs(t *testing.T) {
	for _, tagged := range []bool{false, true} {
		program := build(t, tagged)
		for _, bug := range planted.All() {
			if got := bytes.Contains(program, []byte(bug)); got != tagged {
				t.Errorf("built with the tag: %v: holds %q: %v", tagged, bug, got)
			}
		}
		if got := bytes.Contains(program, []byte("PORESTREAM_PLANTED")); got != tagged {
			t.Errorf("built with the tag: %v: reads PORESTREAM_PLANTED: %v", tagged, got)
		}
	}
}

// TestBugsAreChosenByEnvironment runs the tagged program with each bug, with several and with a name that is none.
func TestBugsAreChosenByEnvironment(t *testing.T) {
	program := filepath.Join(t.TempDir(), "probe")
	if err := os.WriteFile(program, build(t, true), 0o700); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		chosen, want string
		fails        bool
	}{
		"none":    {"", "", false},
		"one":     {"no-fencing", "hook of no-fencing\n", false},
		"several": {"ignore-abort,skip-offsets", "hook of skip-offsets\nhook of ignore-abort\n", false},
		"unknown": {"no-bug", "", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(program)
			cmd.Env = append(os.Environ(), "PORESTREAM_PLANTED="+test.chosen)
			got, err := cmd.CombinedOutput()
			if (err != nil) != test.fails {
				t.Fatalf("%v: %s", err, got)
			}
			if !test.fails && string(got) != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// build compiles testdata/probe, a program with one hook for each bug, and returns it.
func build(t *testing.T, tagged bool) []byte {
	t.Helper()
	program := filepath.Join(t.TempDir(), "probe")
	args := []string{"build", "-o", program}
	if tagged {
		args = append(args, "-tags", "planted")
	}
	cmd := exec.Command("go", append(args, "./testdata/probe")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

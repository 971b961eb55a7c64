// Package kernelstest builds the operators of basecall/kernels without a GPU's part, for tests.
package kernelstest

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/kernels"
	"github.com/porestream/porestream/testenv"
)

// Library returns the path of the operators' library, for the CPU.
func Library(t testing.TB) string {
	t.Helper()
	return filepath.Join(build(t), kernels.LibraryName)
}

// Emulator returns the path of the program that runs a GPU's kernels on a CPU; see
// cuda/emulate.cpp.
func Emulator(t testing.TB) string {
	t.Helper()
	testenv.SkipUnchanged(t, "operators")
	return filepath.Join(build(t), "emulate")
}

// Emulate runs the emulator. It is given parts one behind the other, which are numbers of fixed size or slices of these; what it
// computes and what it says are returned.
func Emulate(t testing.TB, emulator string, parts []any, args ...string) (out *bytes.Buffer, says string) {
	t.Helper()
	var in, message bytes.Buffer
	for _, part := range parts {
		require.NoError(t, binary.Write(&in, binary.LittleEndian, part))
	}
	out = new(bytes.Buffer)
	cmd := exec.CommandContext(t.Context(), emulator, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, out, &message
	require.NoError(t, cmd.Run(), "%v: %s", args, &message)
	return out, message.String()
}

// build builds both, unless they are there, and returns their folder. Without a C++ compiler the
// test is skipped, but not where CI says that there has to be one.
func build(t testing.TB) string {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if filepath.Dir(root) == root {
			t.Fatal("no go.mod from the working directory up")
		}
		root = filepath.Dir(root)
	}
	if _, err := exec.LookPath("g++"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("needs g++: ", err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, "scripts", "kernels.sh"), "cpu").CombinedOutput()
	if err != nil {
		t.Fatalf("building the kernels for the CPU: %v: %s", err, out)
	}
	return filepath.Join(root, ".deps", "kernels", "cpu")
}

package crf

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNothingIsFused compiles what decodes for a processor of which the compiler uses the instructions that multiply
// and add with one rounding: a product that isn't rounded by a conversion would make other bases there.
func TestNothingIsFused(t *testing.T) {
	build := exec.Command("go", "build", "-gcflags=-S", ".", "../ctc", "../scores", "../half")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	assembly, err := build.CombinedOutput()
	require.NoError(t, err, "%.2000s", assembly)
	products := regexp.MustCompile(`\w+\.go:\d+\)\tFMUL[SD]\b`)
	require.NotEmpty(t, products.FindAll(assembly, 1))
	for _, fused := range regexp.MustCompile(`(\w+\.go:\d+)\)\tFN?M(ADD|SUB)[SD]\b`).FindAllSubmatch(assembly, -1) {
		assert.Fail(t, "a product is added to without being rounded", "%s", fused[1])
	}
}

package testenv

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// NothingFused compiles packages, named as for go build, for arm64, for which Go's compiler takes instructions that multiply and add with one
// rounding, as it doesn't for x86-64: a product that no conversion to its own type rounds would give another result there, and
// processors of both kinds couldn't share a run.
func NothingFused(tb testing.TB, packages ...string) {
	tb.Helper()
	build := exec.Command("go", append([]string{"build", "-gcflags=-S"}, packages...)...)
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	assembly, err := build.CombinedOutput()
	if err != nil {
		tb.Fatalf("compiling for arm64: %v: %.2000s", err, assembly)
	}
	if !regexp.MustCompile(`\w+\.go:\d+\)\tFMUL[SD]\b`).Match(assembly) {
		tb.Fatalf("the compiler shows no multiplication of %v", packages)
	}
	for _, fused := range regexp.MustCompile(`(\w+\.go:\d+)\)\tFN?M(ADD|SUB)[SD]\b`).FindAllSubmatch(assembly, -1) {
		tb.Errorf("a product is added to without being rounded: %s", fused[1])
	}
}

package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCalculatingPackagesStartNoGoroutine: what the Makefile tests without the race detector has nothing for it to find. A parallel
// test shares only what its package's variables hold, which are tables.
func TestCalculatingPackagesStartNoGoroutine(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	require.NoError(t, err)
	lists := regexp.MustCompile(`(?m)^(?:calculating|shared) := ((?:.+\\\n)*.+)$`).FindAllSubmatch(makefile, -1)
	require.Len(t, lists, 2)
	for _, pkg := range strings.Fields(strings.ReplaceAll(string(lists[0][1])+" "+string(lists[1][1]), "\\\n", " ")) {
		files, err := filepath.Glob(filepath.Join("..", pkg, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files, "the Makefile lists %s", pkg)
		for _, file := range files {
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, nil, 0)
			require.NoError(t, err)
			ast.Inspect(parsed, func(n ast.Node) bool {
				starts := false
				switch n := n.(type) {
				case *ast.GoStmt:
					starts = true
				case *ast.CallExpr: // of a WaitGroup, an errgroup, a timer, a benchmark
					method, ok := n.Fun.(*ast.SelectorExpr)
					starts = ok && slices.Contains([]string{"Go", "TryGo", "AfterFunc", "RunParallel"}, method.Sel.Name)
				}
				if starts {
					assert.Fail(t, "a goroutine starts where the race detector isn't used", "%s", set.Position(n.Pos()))
				}
				return true
			})
		}
	}
}

// TestLongCalculationsRunTwice: what is left out under the race detector is run without it.
func TestLongCalculationsRunTwice(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	require.NoError(t, err)
	list := regexp.MustCompile(`(?m)^twice := (.+)$`).FindSubmatch(makefile)
	require.NotNil(t, list)
	out, err := exec.CommandContext(t.Context(), "git", "-C", root(), "grep", "-l", "testenv.CalculatesLong(t)", "--", "*_test.go", ":!e2e").Output()
	require.NoError(t, err)
	var packages []string
	for file := range strings.Lines(string(out)) {
		packages = append(packages, filepath.Dir(strings.TrimSpace(file)))
	}
	require.Equal(t, strings.Fields(string(list[1])), slices.Compact(packages))
}

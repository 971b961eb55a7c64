package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
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

package infer

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOnlyThisPackageImportsTheRuntime keeps ONNX Runtime, which is C code with
// process-wide state, behind one door.
func TestOnlyThisPackageImportsTheRuntime(t *testing.T) {
	root, ok := moduleRoot()
	require.True(t, ok)
	found := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return nil //nolint:nilerr // A file that doesn't parse fails its own package's build.
		}
		for _, spec := range file.Imports {
			if name, _ := strconv.Unquote(spec.Path.Value); strings.HasPrefix(name, "github.com/yalue/onnxruntime_go") {
				found++
				assert.Equal(t, filepath.Join(root, "basecall", "infer"), filepath.Dir(path), "only basecall/infer may import it")
			}
		}
		return nil
	})
	require.NoError(t, err)
	assert.Positive(t, found)
}

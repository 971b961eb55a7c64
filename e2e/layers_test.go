package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLayers holds imports to the drawing in DESIGN.md: a package imports only its own group and groups in the lines below.
func TestLayers(t *testing.T) {
	design, err := os.ReadFile("../DESIGN.md")
	require.NoError(t, err)
	_, drawing, found := strings.Cut(string(design), "```layers\n")
	require.True(t, found)
	drawing, _, _ = strings.Cut(drawing, "```")
	below := make(map[string]int) // lines below a group's
	lines := strings.Split(strings.TrimSpace(drawing), "\n")
	for i, line := range lines {
		for _, group := range strings.Fields(line) {
			assert.NotContains(t, below, group, "it is drawn twice")
			below[group] = len(lines) - 1 - i
		}
	}
	groupOf := func(pkg string) string {
		for name := pkg; ; {
			if _, drawn := below[name]; drawn {
				return name
			}
			up := strings.LastIndexByte(name, '/')
			if up < 0 {
				t.Errorf("DESIGN.md draws no room for %s", pkg)
				return ""
			}
			name = name[:up]
		}
	}
	list := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	list.Dir = ".."
	out, err := list.Output()
	require.NoError(t, err)
	arrows := make(map[[2]string]bool)
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		from := strings.TrimPrefix(words[0], module)
		for _, imported := range words[1:] {
			to, ours := strings.CutPrefix(imported, module)
			if !ours {
				continue
			}
			a, b := groupOf(from), groupOf(to)
			if a == b || a == "" || b == "" {
				continue
			}
			arrows[[2]string{a, b}] = true
			assert.Less(t, below[b], below[a], "%s imports %s, which is not drawn below it", from, to)
		}
	}
	assert.Greater(t, len(arrows), 50)
}

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var decision = regexp.MustCompile(`^\n(\d{4}-\d{2}-\d{2})\n\n- Context: [^\n]+\.\n- Decision: [^\n]+\.\n- Alternatives: [^\n]+\.\n*$`)

// TestDecisionsHaveDateContextAndAlternatives: every entry of docs/develop/decisions has the form that the index promises, and
// the index names it.
func TestDecisionsHaveDateContextAndAlternatives(t *testing.T) {
	dir := filepath.Join("develop", "decisions")
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	require.NoError(t, err)
	pages, err := filepath.Glob(filepath.Join(dir, "*.md"))
	require.NoError(t, err)
	for _, page := range pages {
		if filepath.Base(page) == "README.md" {
			continue
		}
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		_, list, found := strings.Cut(string(index), "]("+filepath.Base(page)+")**\n\n- ")
		require.True(t, found, "the index has no list for %s", page)
		list, _, _ = strings.Cut(list, "\n\n")
		named := strings.Split(list, "\n- ")
		var titles []string
		for _, entry := range strings.Split(string(text), "\n## ")[1:] {
			title, body, _ := strings.Cut(entry, "\n")
			titles = append(titles, title)
			m := decision.FindStringSubmatch(body)
			if !assert.NotNil(t, m, "%s: %q has not the form of the index", page, title) {
				continue
			}
			_, err := time.Parse(time.DateOnly, m[1])
			assert.NoError(t, err, "%s: %q", page, title)
		}
		assert.NotEmpty(t, titles, page)
		assert.Equal(t, titles, named, "the index's list for %s", page)
	}
}

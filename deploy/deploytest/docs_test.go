package deploytest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the tables in docs/metrics.md")

func TestMetricsAreDocumented(t *testing.T) {
	documented(t, "metrics", metricsTable(catalogue(t)))
	documented(t, "labels", labelsTable(catalogue(t)))
}

// documented compares a table of docs/metrics.md, which lies between two lines that
// Markdown does not show, and with -update writes it.
func documented(t *testing.T, name, want string) {
	t.Helper()
	begin := "<!-- " + name + ": go test ./deploy/deploytest -run TestMetricsAreDocumented -update -->\n"
	end := "<!-- end of " + name + " -->\n"
	path := filepath.Join(root(t), "docs/metrics.md")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, begins := strings.Cut(string(data), begin)
	table, after, ends := strings.Cut(rest, end)
	require.True(t, begins && ends, "docs/metrics.md has no table of %s", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+want+end+after), 0o644))
		return
	}
	assert.Equal(t, want, table, "run go test ./deploy/deploytest -run TestMetricsAreDocumented -update")
}

func metricsTable(metrics map[string]metric) string {
	var b strings.Builder
	b.WriteString("\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		m := metrics[name]
		labels := make([]string, len(m.labels))
		for i, l := range m.labels {
			labels[i] = "`" + l + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, strings.Join(labels, " "), strings.ReplaceAll(m.help, "|", `\|`))
	}
	b.WriteString("\n")
	return b.String()
}

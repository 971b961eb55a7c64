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

	"github.com/porestream/porestream/testenv"
)

var update = flag.Bool("update", false, "rewrite the tables in docs/reference/metrics.md and docs/operate/operations.md")

func TestMetricsAreDocumented(t *testing.T) {
	documented(t, "docs/reference/metrics.md", "TestMetricsAreDocumented", "metrics", metricsTable(catalogue(t)))
	documented(t, "docs/reference/metrics.md", "TestMetricsAreDocumented", "labels", labelsTable(catalogue(t)))
}

// documented compares a table of a document, which lies between two lines that
// Markdown does not show, and with -update writes it. test is the one that does.
func documented(t *testing.T, file, test, name, want string) {
	t.Helper()
	command := "go test ./deploy/deploytest -run " + test + " -update"
	begin := "<!-- " + name + ": " + command + " -->\n"
	end := "<!-- end of " + name + " -->\n"
	path := filepath.Join(testenv.Root(t), file)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, begins := strings.Cut(string(data), begin)
	table, after, ends := strings.Cut(rest, end)
	require.True(t, begins && ends, "%s has no table of %s", file, name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+want+end+after), 0o644))
		return
	}
	assert.Equal(t, want, table, "run %s", command)
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

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

var update = flag.Bool("update", false, "rewrite the table of metrics in docs/metrics.md")

// The table lies between these lines, which Markdown does not show.
const (
	tableBegins = "<!-- metrics: go test ./deploy/deploytest -run TestMetricsAreDocumented -update -->\n"
	tableEnds   = "<!-- end of metrics -->\n"
)

func TestMetricsAreDocumented(t *testing.T) {
	path := filepath.Join(root(t), "docs/metrics.md")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, begins := strings.Cut(string(data), tableBegins)
	table, after, ends := strings.Cut(rest, tableEnds)
	require.True(t, begins && ends, "docs/metrics.md has no table of metrics")
	want := metricsTable(catalogue(t))
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+tableBegins+want+tableEnds+after), 0o644))
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

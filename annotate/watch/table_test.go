package watch_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tableRules are the columns of the table of docs/watchlists.md: how many changes each rule can match.
var tableRules = []int{1, 16, 4096, 65536}

// tableRow is a line of that table.
func tableRow(depth int) string {
	row := fmt.Sprintf("| %d |", depth)
	for _, changes := range tableRules {
		miss := 1.0
		if depth >= 6 {
			miss = min(1, missByHand(1e-4/float64(changes), min(depth, 120)))
		}
		cell := strconv.FormatFloat(miss, 'g', 2, 64)
		if miss == 1 {
			cell = "1"
		}
		if miss <= 0.01 {
			cell = "**" + cell + "**"
		}
		row += " " + cell + " |"
	}
	return row
}

// TestTableOfTheDocs recalculates the table of depth and miss probability.
func TestTableOfTheDocs(t *testing.T) {
	f, err := os.Open(filepath.Join("..", "..", "docs", "watchlists.md"))
	require.NoError(t, err)
	defer f.Close()
	sc := bufio.NewScanner(f)
	rows, in := 0, false
	for sc.Scan() {
		line := sc.Text()
		if strings.HasPrefix(line, "| depth |") {
			in = true
			continue
		}
		if !in || strings.HasPrefix(line, "|--") {
			continue
		}
		if !strings.HasPrefix(line, "|") {
			break
		}
		depth, err := strconv.Atoi(strings.TrimSpace(strings.Split(line, "|")[1]))
		require.NoError(t, err)
		require.Equal(t, tableRow(depth), line)
		rows++
	}
	require.NoError(t, sc.Err())
	require.GreaterOrEqual(t, rows, 8)
}

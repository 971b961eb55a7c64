package watchlist_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/watchlist"
)

// tableRules are the columns of the table of docs/explain/panel-errors.md: how many changes each rule can match.
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
	f, err := os.Open(filepath.Join("..", "docs", "explain", "panel-errors.md"))
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

// TestExamplesOfTheDocs checks the panels that docs/consume/watchlists.md shows, and what it says that the check prints.
func TestExamplesOfTheDocs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "consume", "watchlists.md"))
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```yaml\n(panel:.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, blocks, 2)
	s := panelSchema(t)
	for i, files := range [][2]string{{"lambda/reference.fa", "lambda/genes.gff3"}, {"sarscov2/reference.fa.gz", "sarscov2/genes.gff3"}} {
		panel := blocks[i][1]
		require.NoError(t, s.Validate(document(t, panel)))
		g, err := genome.Load(filepath.Join("..", "testdata", files[0]))
		require.NoError(t, err)
		m, err := annotate.LoadModel(filepath.Join("..", "testdata", files[1]), g)
		require.NoError(t, err)
		p, err := watchlist.Load(folder(t, panel))
		require.NoError(t, err)
		w, err := watchlist.New(g, annotate.New(g, m), p)
		require.NoError(t, err)
		if i > 0 {
			continue
		}
		for _, r := range w.Resolve() {
			row := regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(r.Text()), "\t", " +"))
			require.Regexp(t, row, string(text))
		}
	}
}

package pipe

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// badLines are examples of faulty lines of a VCF; docs/files/annotation.md has the same table.
var badLines = []struct{ what, line, want string }{
	{"a line with too few or too many columns", "J02459.1\tx", "2 columns, want 10"},
	{"POS that is not a position", "J02459.1\tx\t.\tG\tA\t.\t.\t.\tGT\t1", `POS "x" is not a position`},
	{"REF that is not a sequence", "J02459.1\t1\t.\t<G>\tA\t.\t.\t.\tGT\t1", `REF "<G>" is not a sequence`},
	{"REF that is not what the reference has", "J02459.1\t1\t.\tT\tA\t.\t.\t.\tGT\t1", "REF is T, but the reference has G there"},
	{"a contig that the reference does not have", "x\t1\t.\tT\tA\t.\t.\t.\tGT\t1", `contig "x" is not in the reference`},
	{"a place beyond the end of the contig", "J02459.1\t48502\t.\tGA\tG\t.\t.\t.\tGT\t1", "reaches outside the contig of 48502 bases"},
	{"more values of a sample than FORMAT has keys", "J02459.1\t1\t.\tG\tA\t.\t.\t.\tGT\t1:2", `sample "s" has 2 values for 1 FORMAT keys`},
}

// TestBadLines refuses each with its number, or passes it through as it is, logs and counts it.
func TestBadLines(t *testing.T) {
	in := manyLines(t, 5)
	for _, c := range badLines {
		t.Run(c.what, func(t *testing.T) {
			text := in + c.line + "\n"
			_, _, err := run(t, strings.NewReader(text), Options{Options: csq()})
			require.ErrorContains(t, err, "line 8: ")
			require.ErrorContains(t, err, c.want)

			var log bytes.Buffer
			out, stats, err := run(t, strings.NewReader(text), Options{Options: csq(), SkipErrors: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, err)
			require.Equal(t, 1, stats.Skipped)
			require.True(t, strings.HasSuffix(out, "\n"+c.line+"\n"))
			require.Contains(t, log.String(), "line=8")
		})
	}
}

// TestManyBadLines logs the first few.
func TestManyBadLines(t *testing.T) {
	text := manyLines(t, 5) + strings.Repeat("x\t1\t.\tT\tA\t.\t.\t.\tGT\t1\n", 5000)
	var log bytes.Buffer
	_, stats, err := run(t, strings.NewReader(text), Options{Options: csq(), SkipErrors: true, Threads: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	require.Equal(t, 5000, stats.Skipped)
	require.Equal(t, maxLogged+1, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), "further lines with errors are only counted")
}

// TestBadLinesAreDocumented compares the table of the documentation with the cases tested above.
func TestBadLinesAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "files", "annotation.md"))
	require.NoError(t, err)
	var table strings.Builder
	table.WriteString("| what is wrong with a line | the message has |\n|---|---|\n")
	for _, c := range badLines {
		fmt.Fprintf(&table, "| %s | `%s` |\n", c.what, c.want)
	}
	require.Contains(t, string(page), table.String())
}

package basecall

import (
	"bufio"
	"compress/gzip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readFASTQ returns the sequences of a gzipped FASTQ file of four-line records by name.
func readFASTQ(t testing.TB, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<24)
	sequences := map[string]string{}
	name := ""
	for n := 0; lines.Scan(); n++ {
		switch n % 4 {
		case 0:
			name, _, _ = strings.Cut(strings.TrimPrefix(lines.Text(), "@"), " ")
		case 1:
			sequences[name] = lines.Text()
		}
	}
	require.NoError(t, lines.Err())
	return sequences
}

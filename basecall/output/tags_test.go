package output

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/testenv"
)

// documentedTags are the rows of the table of tags in docs/files/dorado.md: type and what is said of
// writing it.
func documentedTags(t *testing.T) map[string][2]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/files/dorado.md")
	require.NoError(t, err)
	rows := make(map[string][2]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w\\w)` \\| (\\w) \\| [^|]+ \\| ([^|]+) \\| [^|]+ \\|$").FindAllStringSubmatch(string(text), -1) {
		rows[row[1]] = [2]string{row[2], row[3]}
	}
	require.Greater(t, len(rows), 25)
	return rows
}

// TestTagsAreAsDocumented has pysam read the tags of records that have everything and of one that
// has nothing: they are those of the table in the docs, with its types.
func TestTagsAreAsDocumented(t *testing.T) {
	python := testenv.Python(t, "PORESTREAM_SIGNAL_PYTHON", "pysam", "pysam")
	whole := testRecord()
	whole.Read.PoreType, whole.Read.MinKNOWEvents = "r10.4.1", 1<<40
	whole.Parent, whole.ParentStart = "0005c3b5-4d4c-4f5e-a9a0-000000000009", 700
	whole.Barcode = &Barcode{Name: Unclassified, Info: []float32{1, 2, 3, 4, 5, 6, 7}}
	whole.Modified = &modbase.Tags{Length: len(whole.Called.Sequence), Lists: []modbase.List{{Base: 'C', Codes: []modbase.Code{'m'}, Skipped: modbase.Unknown, Probabilities: []byte{}}}}
	bare := testRecord()
	bare.Read.EndReason = signal.EndUnknown

	const script = `
import sys, json, pysam
with pysam.AlignmentFile(sys.argv[1], check_sq=False) as f:
    print(json.dumps([[[tag, kind, list(value) if kind == "B" else value] for tag, value, kind in r.get_tags(with_value_type=True)] for r in f]))
`
	tagsOf := func(header Header, records ...Record) []map[string][2]any {
		path := filepath.Join(t.TempDir(), "reads.bam")
		file, err := os.Create(path)
		require.NoError(t, err)
		w, err := NewWriter(file, BAM, header)
		require.NoError(t, err)
		for _, r := range records {
			require.NoError(t, w.Write(r))
		}
		require.NoError(t, w.Close())
		require.NoError(t, file.Close())
		out, err := exec.CommandContext(t.Context(), python, "-c", script, path).Output()
		require.NoError(t, err)
		var lists [][][3]any
		require.NoError(t, json.Unmarshal(out, &lists))
		var all []map[string][2]any
		for _, list := range lists {
			tags := make(map[string][2]any)
			for _, tag := range list {
				tags[tag[0].(string)] = [2]any{tag[1], tag[2]}
			}
			all = append(all, tags)
		}
		return all
	}
	header := testHeader()
	got := tagsOf(header, whole, bare)
	require.Len(t, got, 2)
	documented := documentedTags(t)
	for tag, row := range documented {
		kind, written := row[0], row[1]
		value, is := got[0][tag]
		if written == "no" {
			assert.False(t, is, "%s is written", tag)
			continue
		}
		if !assert.True(t, is, "%s is not written", tag) {
			continue
		}
		have := value[0].(string)
		switch kind {
		case "i", "I": // pysam reports integers by their width in the file
			assert.Contains(t, "cCsSiI", have, tag)
		default:
			assert.Equal(t, kind, have, tag)
		}
		_, always := got[1][tag]
		assert.Equal(t, strings.HasPrefix(written, "yes"), always, "%s of a read of which little is known", tag)
	}
	for tag := range got[0] {
		assert.Contains(t, documented, tag, "it is written and not in the table")
	}
	assert.InDelta(t, float64(1<<31-1), got[0]["me"][1], 0, "as much as all readers take")
	assert.InDelta(t, 0, got[0]["dx"][1], 0)
	assert.InDelta(t, 700, got[0]["sp"][1], 0)

	header.NoMoves = true
	without := tagsOf(header, whole)[0]
	assert.NotContains(t, without, "mv")
	delete(got[0], "mv")
	assert.Equal(t, got[0], without, "and nothing else is missing")
}

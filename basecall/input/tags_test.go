package input

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts/cram"
)

// TestTagsThatAreRead holds the column of the table in docs/files/dorado.md to what tags change about a
// read.
func TestTagsThatAreRead(t *testing.T) {
	text, err := os.ReadFile("../../docs/files/dorado.md")
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| `(\\w\\w)` \\| (\\w) \\| [^|]+ \\| [^|]+ \\| ([^|]+) \\|$").FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(rows), 25)
	read := func(tags string) *Read {
		r, err := NewReader(strings.NewReader("@"+testID+tags+"\nACGT\n+\nIIII\n"), cram.Options{})
		require.NoError(t, err)
		reads, refused := readAll(t, r.Next)
		require.Empty(t, refused, tags)
		require.Len(t, reads, 1)
		return reads[0]
	}
	values := map[string]string{
		"RG": testRun + "_" + testModel, "st": "2026-03-01T10:00:00.250+00:00", "BC": "barcode02", "mv": "c,6,1,0,1,1,0,0,1", "MM": "C+m?,0;", "ML": "C,3",
	}
	kinds := map[string]string{"i": "3", "I": "3", "f": "3.5", "A": "+", "Z": "text", "B": "f,1,2"}
	without := read("")
	for _, row := range rows {
		tag, kind, is := row[1], strings.ReplaceAll(row[2], "I", "i"), row[3]
		value := values[tag]
		if value == "" {
			value = kinds[row[2]]
		}
		changes := !reflect.DeepEqual(without, read("\t"+tag+":"+kind+":"+value))
		assert.Equal(t, strings.HasPrefix(is, "yes"), changes, "%s: the table says that it is read: %s", tag, is)
	}
	assert.InDelta(t, 12, read("\tqs:i:12").MeanQuality, 0)
}

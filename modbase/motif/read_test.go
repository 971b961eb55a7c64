package motif

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A table that is written is read again, as are motifs alone.
func TestRead(t *testing.T) {
	found := []Motif{{Letters: "GATC", Place: 1, Code: 'a', Palindrome: true}, {Letters: "AACNNNNNNGTGC", Place: 1, Code: -21839}}
	table := []byte(Header)
	for _, m := range found {
		table = m.Append(table)
	}
	got, err := Read(bytes.NewReader(table), "motifs.tsv")
	require.NoError(t, err)
	assert.Equal(t, found, got)

	got, err = Read(strings.NewReader("# of the laboratory\r\nGATC,1\r\n\nccwgg,1\n"), "motifs.txt")
	require.NoError(t, err)
	assert.Equal(t, []Motif{{Letters: "GATC", Place: 1, Palindrome: true}, {Letters: "CCWGG", Place: 1, Palindrome: true}}, got)
}

func TestReadFaults(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{Header + "GATC\ta\ttrue\n", `m.tsv: line 2: motif "GATC": want a motif and the place of the modified base in it`},
		{"GAXC,1\n", `m.tsv: line 1: motif "GAXC,1": 'X' is no letter of IUPAC's`},
		{"GATC,4\n", "m.tsv: line 1: motif \"GATC,4\": the place of the modified base is a number from 0 to 3"},
		{"GATC,1\ta\n", "m.tsv: line 1: want motif, code and whether it is a palindrome"},
		{"GATC,1\t0\ttrue\n", `m.tsv: line 1: code "0"`},
		{"GATC,1\ta\tfalse\n", `m.tsv: line 1: palindrome is "false", and of GATC,1 it is true`},
		{strings.Repeat("A", 30) + ",1\n", "m.tsv: line 1: motif of 30 letters: want at most 29"},
		{strings.Repeat("A", 1<<17), "m.tsv: bufio.Scanner: token too long: want a table of motifs"},
	} {
		_, err := Read(strings.NewReader(tt.text), "m.tsv")
		assert.ErrorContains(t, err, tt.want)
	}
}

// Any text is read, or refused in a line of bounded length; what is read is written, and read the same.
func FuzzRead(f *testing.F) {
	f.Add(Header + "GATC,1\ta\ttrue\t1\t1\t1\t1\t1\t1\n")
	f.Add("CCWGG,1\n#\nAACNNNNNNGTGC,1\tm\tfalse\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := Read(strings.NewReader(text), "f")
		if err != nil {
			require.Less(t, len(err.Error()), 400)
			return
		}
		table := []byte(Header)
		for _, m := range list {
			if m.Code == 0 {
				m.Code = 'a'
			}
			table = m.Append(table)
		}
		again, err := Read(bytes.NewReader(table), "f")
		require.NoError(t, err)
		require.Len(t, again, len(list))
	})
}

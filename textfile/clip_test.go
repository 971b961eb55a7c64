package textfile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/textfile"
)

func TestClipMarksWhatItLeavesOut(t *testing.T) {
	for text, want := range map[string]string{"": "", "abc": "abc", "abcd": "abc…"} {
		require.Equal(t, want, textfile.Clip(text, 3))
	}
}

func TestFewCountsNamesBeyondTheFifth(t *testing.T) {
	for want, names := range map[string][]string{
		"none":                     nil,
		"b, a":                     {"b", "a"},
		"a, b, c, d, e, f":         {"a", "b", "c", "d", "e", "f"},
		"a, b, c, d, e and 2 more": {"a", "b", "c", "d", "e", "f", "g"},
	} {
		require.Equal(t, want, textfile.Few(names))
	}
}

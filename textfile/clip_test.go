package textfile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/textfile"
)

func TestClip(t *testing.T) {
	for text, want := range map[string]string{"": "", "abc": "abc", "abcd": "abc…"} {
		require.Equal(t, want, textfile.Clip(text, 3))
	}
}

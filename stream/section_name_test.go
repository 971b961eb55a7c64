package stream

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSectionNamesAreShortAndDiffer(t *testing.T) {
	assert.Equal(t, "region/a/b/3", SectionName("region/", "a/b/3", 12))
	const short, of = 80, "region/"
	long := strings.Repeat("x", short)
	seen := make(map[string]bool)
	for _, name := range []string{SectionName(of, long, short), SectionName(of, long+"y", short), SectionName("contig/", long, short), SectionName(of, long[:short-len(of)], short)} {
		assert.LessOrEqual(t, len(name), short)
		assert.NotContains(t, seen, name)
		seen[name] = true
	}
	assert.Len(t, SectionName(of, long, short), len(of)+1+64)
}

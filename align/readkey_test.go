package align_test

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/stream/streampb"
)

// TestReadKey: the key of a read is what stream/FORMAT.md says, here as Python's hashlib makes it; place, sample and what the read says don't count, and
// supplementary alignments and reads that go on have others.
func TestReadKey(t *testing.T) {
	s := &streampb.Segment{Run: "run-1", ReadId: "read-9", Part: 2, Sample: "s", Contig: "chr1", Start: 7, Bases: []byte("A")}
	key := align.ReadKey(s)
	require.Equal(t, "d4e0ce3e06498e4a2f637da2170c3af9", hex.EncodeToString(key[:]))
	require.Equal(t, key, align.ReadKey(&streampb.Segment{Run: "run-1", ReadId: "read-9", Part: 2, Start: 8, Reverse: true}))
	for _, other := range []*streampb.Segment{
		{Run: "run-1", ReadId: "read-9", Part: 3}, {Run: "run-1", ReadId: "read-9", Part: 2, Supplementary: true}, {Run: "run-1", ReadId: "read-9", Part: 2, Partial: 1},
	} {
		k := align.ReadKey(other)
		require.Equal(t, key[:8], k[:8], "one read")
		require.NotEqual(t, key, k)
	}
	other := align.ReadKey(&streampb.Segment{Run: "run-2", ReadId: "read-9", Part: 2})
	require.NotEqual(t, key[:8], other[:8])
}

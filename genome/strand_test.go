package genome_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
)

func TestReverseComplement(t *testing.T) {
	for _, tt := range []struct{ seq, want string }{
		{"", ""},
		{"A", "T"},
		{"AACGT", "ACGTT"},
		{"acgtu", "AACGT"},
		{"GATTACAN", "NTGTAATC"},
		{"AR-*G", "CNNNT"}, // an ambiguous base is none
	} {
		seq := []byte(tt.seq)
		genome.ReverseComplement(seq)
		require.Equal(t, tt.want, string(seq), tt.seq)
	}
}

func BenchmarkReverseComplement(b *testing.B) {
	seq := bytes.Repeat([]byte("ACGGTCA"), 10_000)
	b.SetBytes(int64(len(seq)))
	for b.Loop() {
		genome.ReverseComplement(seq)
	}
}

package hts_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts"
)

// limited is a disk that gets full.
type limited struct{ left int }

var errFull = errors.New("no space")

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.left {
		return 0, errFull
	}
	l.left -= len(p)
	return len(p), nil
}

// Wherever a disk gets full, a writer ends with its error: none waits for ever, and none passes for whole.
func TestWriterEndsOnAFullDisk(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	seq, quality := make([]byte, 20_000), make([]byte, 20_000)
	for i := range seq {
		seq[i], quality[i] = "ACGT"[r.IntN(4)], byte(r.IntN(40))
	}
	write := func(below *limited, threads, records int) error {
		w, err := hts.NewWriter(below, hts.BAM, hts.Lines{"@HD\tVN:1.6"}, nil, threads)
		for i := 0; err == nil && i < records; i++ {
			rec, made := sam.NewRecord(fmt.Sprint("r", i), nil, nil, -1, -1, 0, 0, nil, seq, quality, nil)
			require.NoError(t, made)
			rec.Flags = sam.Unmapped
			if err = w.Write(rec); err == nil && i%7 == 6 {
				err = w.Flush()
			}
		}
		if err == nil {
			return w.Close()
		}
		if w != nil {
			require.ErrorIs(t, w.Close(), errFull)
		}
		return err
	}
	whole := &limited{1 << 30}
	require.NoError(t, write(whole, 1, 30))
	size := 1<<30 - whole.left
	for n := range 300 {
		require.ErrorIs(t, write(&limited{r.IntN(size)}, 1+n%3, 30), errFull)
	}
	require.NoError(t, write(&limited{size}, 2, 30))
}

package hts_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/biogo/hts/bam"
	"github.com/biogo/hts/bgzf"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts"
)

// plainBAM is what the blocks of a BAM file hold.
func plainBAM(t testing.TB) []byte {
	t.Helper()
	_, header, records := setup(t)
	var whole bytes.Buffer
	s, err := bam.NewWriter(&whole, header, 1)
	require.NoError(t, err)
	for i := range 24 {
		got, err := records.Of(&hts.Read{Name: fmt.Sprint("read-", i), Seq: []byte(strings.Repeat("ACGT", 20)), Qualities: []byte(strings.Repeat("5", 80))})
		require.NoError(t, err)
		for _, rec := range got {
			require.NoError(t, s.Write(rec))
		}
	}
	require.NoError(t, s.Close())
	plain, err := bgzf.NewReader(&whole, 1)
	require.NoError(t, err)
	content, err := io.ReadAll(plain)
	require.NoError(t, err)
	return content
}

// inBlocks is a BAM file of many small blocks.
func inBlocks(t testing.TB, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := bgzf.NewWriter(&out, 1)
	for block := range slices.Chunk(content, 700) {
		_, err := w.Write(block)
		require.NoError(t, err)
		require.NoError(t, w.Flush())
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// readAll reads all records of a BAM file.
func readAll(in io.Reader, decompressors int) (n int, err error) {
	r, err := hts.NewBAMReader(in, decompressors)
	if err != nil {
		return 0, err
	}
	for {
		if _, err = r.Read(); err != nil {
			break
		}
		n++
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	_ = r.Close() // says what Read has said
	return n, err
}

// TestDamagedBAM: whichever byte of a file is damaged, the file is read, for there are
// bytes of no meaning, or that is an error: from a pipe, from a file, with and
// without reading ahead, and behind checksums that are right. Nothing panics, in
// whichever goroutine.
func TestDamagedBAM(t *testing.T) {
	content := plainBAM(t)
	whole := inBlocks(t, content)
	n, err := readAll(bytes.NewReader(whole), 2)
	require.NoError(t, err)
	require.Equal(t, 24, n)
	step := 3
	if testing.Short() {
		step = 17
	}
	refused := 0
	for i := 0; i < len(whole); i += step {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1 << (i % 8)
		for name, in := range map[string]io.Reader{"pipe": struct{ io.Reader }{bytes.NewReader(damaged)}, "file": bytes.NewReader(damaged)} {
			for _, decompressors := range []int{1, 2} {
				n, err := readAll(in, decompressors)
				if err == nil && n != 24 && i < len(whole)-28 { // 28: the end marker, of which the reader knows nothing
					t.Errorf("%s, byte %d of %d: %d records and no error", name, i, len(whole), n)
				}
				if err != nil {
					refused++
				}
			}
		}
	}
	require.Greater(t, refused, len(whole)/step)

	refused = 0
	for i := 0; i < len(content); i += step {
		damaged := bytes.Clone(content)
		damaged[i] ^= 0x80 >> (i % 8)
		if _, err := readAll(bytes.NewReader(inBlocks(t, damaged)), 2); err != nil {
			require.NotContains(t, err.Error(), "\n")
			refused++
		}
	}
	require.Greater(t, refused, 20)
}

// TestCutBetweenBlocks: a file that ends between two blocks, from a pipe or a disk, is not taken for whole.
func TestCutBetweenBlocks(t *testing.T) {
	whole := inBlocks(t, plainBAM(t))
	const marker = 28
	for _, in := range []io.Reader{bytes.NewReader(whole[:len(whole)-marker]), struct{ io.Reader }{bytes.NewReader(whole[:len(whole)-marker])}} {
		for _, decompressors := range []int{1, 2} {
			if s, ok := in.(io.Seeker); ok {
				_, err := s.Seek(0, io.SeekStart)
				require.NoError(t, err)
			} else {
				in = struct{ io.Reader }{bytes.NewReader(whole[:len(whole)-marker])}
			}
			n, err := readAll(in, decompressors)
			require.ErrorIs(t, err, hts.ErrCut)
			require.Equal(t, 24, n)
		}
	}
}

package textfile_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/textfile"
	"github.com/porestream/porestream/vcf"
)

// text is enough for several blocks.
func text() []byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 200_000)
	for i := range b {
		b[i] = "ACGT\n"[rnd.IntN(5)]
	}
	return b
}

func bgzip(t testing.TB, text []byte) []byte {
	t.Helper()
	z, err := vcf.NewBgzip(6)
	require.NoError(t, err)
	b, err := z.Append(nil, text)
	require.NoError(t, err)
	return vcf.AppendBgzipEnd(b)
}

func gzipped(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func readAll(r io.Reader) ([]byte, error) {
	br, err := textfile.NewReader(r, 4096)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(br)
}

// blocks are where the blocks of a BGZF file begin.
func blocks(b []byte) []int {
	var at []int
	for i := 0; i < len(b); i += 1 + int(b[i+16]) + int(b[i+17])<<8 {
		at = append(at, i)
	}
	return at
}

// However it is compressed and however it comes, the text is the same.
func TestTextIsReadInEveryForm(t *testing.T) {
	want := text()
	zip := bgzip(t, want)
	require.Equal(t, textfile.BGZFEnd, string(zip[len(zip)-28:]))
	for name, b := range map[string][]byte{
		"plain": want, "gzip": gzipped(t, want), "two gzip members": append(gzipped(t, want[:1000]), gzipped(t, want[1000:])...),
		"bgzip": zip, "two bgzip files joined": append(bgzip(t, want[:1000]), bgzip(t, want[1000:])...),
		"byte-order mark": append([]byte("\xef\xbb\xbf"), want...), "byte-order mark in bgzip": bgzip(t, append([]byte("\xef\xbb\xbf"), want...)),
	} {
		for how, r := range map[string]io.Reader{
			"at once": bytes.NewReader(b), "byte by byte": iotest.OneByteReader(bytes.NewReader(b)), "halves": iotest.HalfReader(bytes.NewReader(b)),
			"its end with its data": iotest.DataErrReader(bytes.NewReader(b)),
		} {
			got, err := readAll(r)
			require.NoError(t, err, "%s, %s", name, how)
			require.True(t, bytes.Equal(want, got), "%s, %s", name, how)
		}
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, b, 0o600))
		f, err := os.Open(path)
		require.NoError(t, err)
		got, err := readAll(f)
		require.NoError(t, err, name)
		require.True(t, bytes.Equal(want, got), name)
		require.NoError(t, f.Close())
	}
	got, err := readAll(bytes.NewReader(nil))
	require.NoError(t, err)
	require.Empty(t, got)
}

// A BGZF file that is cut anywhere, between two blocks as well as within one, from a disk or a pipe, is no whole file.
func TestCutFilesAreReported(t *testing.T) {
	zip := bgzip(t, text())
	starts := blocks(zip)
	require.Greater(t, len(starts), 3)
	cuts := append([]int{len(zip) - 1, len(zip) - 27, len(zip) / 2}, starts[1:]...)
	for _, n := range cuts {
		_, err := readAll(bytes.NewReader(zip[:n]))
		require.ErrorIs(t, err, textfile.ErrCut, "cut to %d bytes", n)
		path := filepath.Join(t.TempDir(), "cut.gz")
		require.NoError(t, os.WriteFile(path, zip[:n], 0o600))
		f, err := os.Open(path)
		require.NoError(t, err)
		_, err = textfile.NewReader(f, 4096)
		require.ErrorIs(t, err, textfile.ErrCut, "cut to %d bytes: told before anything is read", n)
		require.NoError(t, f.Close())
	}
	zip = gzipped(t, text())
	_, err := readAll(bytes.NewReader(zip[:len(zip)-5]))
	require.ErrorIs(t, err, textfile.ErrCut)
	_, err = readAll(bytes.NewReader(zip[:5]))
	require.ErrorIs(t, err, textfile.ErrCut)
}

func TestErrorsOfTheStreamStay(t *testing.T) {
	broken := errors.New("the disk is gone")
	zip := bgzip(t, text())
	_, err := readAll(io.MultiReader(bytes.NewReader(zip[:1000]), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	_, err = readAll(bytes.NewReader([]byte("\xff\xfea\x00")))
	require.ErrorContains(t, err, "UTF-16")
	damaged := bytes.Clone(zip)
	damaged[100] ^= 0x55
	_, err = readAll(bytes.NewReader(damaged))
	require.Error(t, err)
	require.NotErrorIs(t, err, textfile.ErrCut)
}

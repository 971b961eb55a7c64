package blocks_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/biogo/hts/bgzf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts/internal/blocks"
)

// compressed is text in blocks, as the package that writes our files makes them.
func compressed(tb testing.TB, text []byte) []byte {
	var out bytes.Buffer
	w := bgzf.NewWriter(&out, 1)
	for len(text) > 0 { // of many sizes, some empty
		n := min(len(text), 1+len(text)%70_001)
		_, err := w.Write(text[:n])
		require.NoError(tb, err)
		require.NoError(tb, w.Flush())
		text = text[n:]
	}
	require.NoError(tb, w.Close())
	return out.Bytes()
}

// text is n bytes that compress about as records do.
func text(n int) []byte {
	rnd := rand.New(rand.NewPCG(1, 1))
	out := make([]byte, n)
	for i := range out {
		out[i] = "ACGTACGTACGTACGTIJKLMN!!!"[rnd.IntN(25)]
	}
	return out
}

func TestReadsWhatOthersRead(t *testing.T) {
	whole := text(700_000)
	file := compressed(t, whole)
	for _, workers := range []int{0, 1, 2, 5} {
		for name, in := range map[string]io.Reader{"whole": bytes.NewReader(file), "a byte at a time": iotest.OneByteReader(bytes.NewReader(file))} {
			z, err := blocks.NewReader(in, workers)
			require.NoError(t, err)
			got, err := io.ReadAll(z)
			require.NoError(t, err, "%d workers, %s", workers, name)
			assert.True(t, bytes.Equal(got, whole), "%d workers, %s", workers, name)
			require.NoError(t, z.Close())
			_, err = z.Read(make([]byte, 1))
			assert.Error(t, err)
		}
	}
}

// TestReadingBeginsAtAnyPlace: from any place that another reader returned, the bytes that follow are read.
func TestReadingBeginsAtAnyPlace(t *testing.T) {
	whole := text(500_000)
	file := compressed(t, whole)
	other, err := bgzf.NewReader(bytes.NewReader(file), 1)
	require.NoError(t, err)
	type place struct {
		at    bgzf.Offset
		bytes int
	}
	places := []place{{}}
	for read := 0; read < len(whole); {
		n, err := io.ReadFull(other, make([]byte, min(1+read%9_973, len(whole)-read)))
		require.NoError(t, err)
		read += n
		places = append(places, place{other.LastChunk().End, read})
	}
	rnd := rand.New(rand.NewPCG(2, 2))
	for _, workers := range []int{1, 3} {
		z, err := blocks.NewReader(bytes.NewReader(file), workers)
		require.NoError(t, err)
		for range 200 {
			p := places[rnd.IntN(len(places))]
			require.NoError(t, z.Seek(p.at))
			want := whole[p.bytes:][:min(20_000, len(whole)-p.bytes)]
			got := make([]byte, len(want))
			_, err := io.ReadFull(z, got)
			require.NoError(t, err)
			require.True(t, bytes.Equal(got, want), "from byte %d on", p.bytes)
			here := z.Place() // is a place, too
			rest := whole[p.bytes+len(want):]
			got = make([]byte, min(100, len(rest)))
			_, err = io.ReadFull(z, got)
			require.NoError(t, err)
			require.NoError(t, z.Seek(here))
			again := make([]byte, len(got))
			_, err = io.ReadFull(z, again)
			require.NoError(t, err)
			require.Equal(t, got, again)
		}
		assert.ErrorContains(t, z.Seek(bgzf.Offset{File: 1}), "no block of BGZF begins at byte 1")
		require.NoError(t, z.Seek(places[3].at), "after a failure")
		require.NoError(t, z.Close())
	}
	z, err := blocks.NewReader(struct{ io.Reader }{bytes.NewReader(file)}, 2)
	require.NoError(t, err)
	defer z.Close()
	assert.ErrorContains(t, z.Seek(places[len(places)-2].at), "can't seek")
}

func TestFaults(t *testing.T) {
	file := compressed(t, text(100_000))
	var plain bytes.Buffer
	w := gzip.NewWriter(&plain)
	_, _ = w.Write([]byte("text"))
	require.NoError(t, w.Close())
	changed := func(at int, by byte) []byte {
		out := bytes.Clone(file)
		out[at] ^= by
		return out
	}
	first := int(file[16]) | int(file[17])<<8 + 1 // size of the first block
	for _, tc := range []struct {
		name string
		file []byte
		want string
	}{
		{"nothing", nil, "EOF"},
		{"text", []byte("chr1 100 some text"), "no block of BGZF begins at byte 0"},
		{"gzip", plain.Bytes(), "what begins at byte 0 has no size of its own: it is gzip, but no block of BGZF"},
		{"cut in a header", file[:7], "the block at byte 0: unexpected EOF"},
		{"cut in a block", file[:len(file)-40], ": unexpected EOF"},
		{"data", changed(first/2, 1), "the block at byte 0 is damaged: "},
		{"checksum", changed(first-8, 1), "the block at byte 0 is damaged: its checksum is wrong"},
		{"a larger size", changed(first-4, 1), "the block at byte 0 is damaged: "},
		{"a size that can't be", changed(first-1, 1), "there can be 65536"},
		{"fewer bytes than a header has", append(append([]byte{}, file[:16]...), 3, 0), "the block at byte 0 has 4 bytes"},
	} {
		for _, workers := range []int{1, 2} {
			_, err := readAll(tc.file, workers)
			assert.ErrorContains(t, err, tc.want, tc.name)
		}
	}
}

func readAll(file []byte, workers int) ([]byte, error) {
	z, err := blocks.NewReader(bytes.NewReader(file), workers)
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(z)
	return out, errors.Join(err, z.Close())
}

// FuzzReader: whatever a file holds, it is read to the same bytes with and without reading
// ahead, or is an error in both.
func FuzzReader(f *testing.F) {
	file := compressed(f, text(3_000))
	f.Add(file)
	f.Add(file[:len(file)/2])
	f.Add([]byte("\x1f\x8b\x08\x04\x00\x00\x00\x00\x00\xff\x06\x00BC\x02\x00\x1b\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, file []byte) {
		one, err := readAll(file, 1)
		ahead, also := readAll(file, 3)
		if fmt.Sprint(err) != fmt.Sprint(also) || !bytes.Equal(one, ahead) {
			t.Fatalf("%d bytes, %v; reading ahead %d, %v", len(one), err, len(ahead), also)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	whole := text(8 << 20)
	file := compressed(b, whole)
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			b.SetBytes(int64(len(whole)))
			b.ReportAllocs()
			for b.Loop() {
				z, err := blocks.NewReader(bytes.NewReader(file), workers)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, z); err != nil {
					b.Fatal(err)
				}
				_ = z.Close()
			}
		})
	}
	b.Run("biogo", func(b *testing.B) {
		b.SetBytes(int64(len(whole)))
		for b.Loop() {
			z, _ := bgzf.NewReader(bytes.NewReader(file), 1)
			if _, err := io.Copy(io.Discard, z); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// failingSeeker fails the first time that somebody seeks in it after fail was set.
type failingSeeker struct {
	*bytes.Reader
	fail bool
}

func (s *failingSeeker) Seek(offset int64, whence int) (int64, error) {
	if s.fail {
		s.fail = false
		return 0, errors.New("the disk is gone")
	}
	return s.Reader.Seek(offset, whence)
}

// TestSeekFails: a place behind the file is that of another file's index, and after a failure a place in the block that was read
// before is found again.
func TestSeekFails(t *testing.T) {
	whole := text(300_000)
	file := compressed(t, whole)
	for _, workers := range []int{1, 3} {
		in := &failingSeeker{Reader: bytes.NewReader(file)}
		z, err := blocks.NewReader(in, workers)
		require.NoError(t, err)
		_, err = io.ReadFull(z, make([]byte, 100))
		require.NoError(t, err)
		here := z.Place()
		_, err = io.ReadFull(z, make([]byte, 200_000))
		require.NoError(t, err)
		far := z.Place()
		err = z.Seek(bgzf.Offset{File: int64(len(file)) + 5000})
		require.ErrorContains(t, err, "the index is of another file")
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NotErrorIs(t, err, io.EOF)
		require.NoError(t, z.Seek(here))
		in.fail = true
		require.ErrorContains(t, z.Seek(far), "the disk is gone")
		require.NoError(t, z.Seek(here))
		rest, err := io.ReadAll(z)
		require.NoError(t, err)
		require.True(t, bytes.Equal(whole[100:], rest), "%d workers", workers)
	}
}

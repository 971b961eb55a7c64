package cram_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/align/hts/cram"
	"github.com/porestream/porestream/genome"
)

var golden = []string{"2.1.cram", "3.0.cram", "3.1.cram", "several.cram", "whole.cram"}

func goldenFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return data
}

func goldenReference(t testing.TB) func(string) []byte {
	t.Helper()
	g, err := genome.Load(filepath.Join("testdata", "small.fa"))
	require.NoError(t, err)
	return g.Bases
}

// TestFilesHoldWhatSamtoolsReads: files of every version hold the records that samtools reads.
func TestFilesHoldWhatSamtoolsReads(t *testing.T) {
	for _, name := range golden {
		t.Run(name, func(t *testing.T) {
			o := cram.Options{Reference: goldenReference(t)}
			if name == "whole.cram" {
				o.Reference = nil
			}
			want := goldenFile(t, "small.sam")
			if name == "2.1.cram" {
				want = nil
				for line := range bytes.Lines(goldenFile(t, "small.sam")) {
					if fields := bytes.Split(line, []byte("\t")); len(fields) < 11 || string(fields[9]) != "*" {
						want = append(want, line...)
					}
				}
			}
			r, err := hts.NewCRAMReader(bytes.NewReader(goldenFile(t, name)), o)
			require.NoError(t, err)
			require.False(t, r.Binary())
			var got bytes.Buffer
			w, err := hts.NewWriter(&got, hts.SAM, r.Lines(), r.Header().Refs(), 1)
			require.NoError(t, err)
			for {
				rec, err := r.Read()
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				require.NoError(t, w.Write(rec))
			}
			require.NoError(t, w.Close())
			require.NoError(t, r.Close())
			if name == "whole.cram" { // MD and NM are made of a reference, where they were
				same(t, canonical(body(want)), canonical(body(got.Bytes())), name)
				return
			}
			same(t, body(want), body(got.Bytes()), name)
		})
	}
}

// body is SAM without its header.
func body(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		if line[0] != '@' {
			out = append(out, line...)
		}
	}
	return out
}

// TestPiecesOfAFileGiveTheSameParts: however a file's bytes come, a Decoder finds the same parts in them as a Reader, and asks
// for no byte that isn't the file's.
func TestPiecesOfAFileGiveTheSameParts(t *testing.T) {
	for _, name := range golden {
		data, o := goldenFile(t, name), cram.Options{Reference: goldenReference(t)}
		want := read(t, data, o.Reference)
		got, err := io.ReadAll(cram.NewReader(iotest.OneByteReader(bytes.NewReader(data)), o))
		require.NoError(t, err)
		require.Equal(t, want, got)

		got = nil
		d := cram.NewDecoder(o)
		for rest, n := data, 0; len(rest) > 0; n++ {
			if n > len(rest) {
				t.Fatal("no part was found")
			}
			size, err := d.Size(rest[:n])
			require.NoError(t, err)
			require.LessOrEqual(t, size, len(rest))
			if size == 0 || size > n {
				require.False(t, d.Ended())
				continue
			}
			got, err = d.Append(got, rest[:size])
			require.NoError(t, err)
			rest, n = rest[size:], 0
		}
		require.True(t, d.Ended())
		require.Equal(t, want, got)
	}
}

// TestDamageNeverGivesOtherRecords: a file that is cut off anywhere, or has a bit changed, is an error; never other records.
func TestDamageNeverGivesOtherRecords(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	o := cram.Options{Reference: goldenReference(t)}
	for _, name := range golden {
		data := goldenFile(t, name)
		want := read(t, data, o.Reference)
		for n := 0; n < len(data); n += 1 + random.IntN(40) {
			got, err := io.ReadAll(cram.NewReader(bytes.NewReader(data[:n]), o))
			require.ErrorIs(t, err, cram.ErrCut, "%s cut off at byte %d", name, n)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.True(t, bytes.HasPrefix(want, got), "%s cut off at byte %d", name, n)
		}
		if name == "2.1.cram" {
			continue // has no checksums
		}
		for range 400 {
			at := random.IntN(len(data))
			changed := slices.Clone(data)
			changed[at] ^= 1 << random.IntN(8)
			got, err := io.ReadAll(cram.NewReader(bytes.NewReader(changed), o))
			if err == nil && at < 26+headerSize(t, data) {
				continue // the minor version, the file's id, and space for a longer header
			}
			require.Error(t, err, "%s with byte %d changed", name, at)
			require.True(t, bytes.HasPrefix(want, got), "%s with byte %d changed", name, at)
		}
	}
	data := goldenFile(t, "3.0.cram")
	_, err := io.ReadAll(cram.NewReader(bytes.NewReader(append(slices.Clone(data), data...)), o))
	require.ErrorContains(t, err, "bytes behind the container that ends a CRAM file")
}

// TestErrorsNameThePlaceInTheFile: a fault of a file or its reference is reported in one line, which names the place in the
// file, or the reference if the fault is there.
func TestErrorsNameThePlaceInTheFile(t *testing.T) {
	reference := goldenReference(t)
	other := bytes.Clone(reference("c2"))
	other[500] ^= 'A' ^ 'C'
	with := func(bases []byte) func(string) []byte { return func(string) []byte { return bases } }
	version := func(major, minor byte) []byte {
		data := goldenFile(t, "3.0.cram")
		data[4], data[5] = major, minor
		return data
	}
	for _, tt := range []struct {
		name      string
		data      []byte
		reference func(string) []byte
		want      string
	}{
		{"no reference", goldenFile(t, "3.0.cram"), nil, "the reads of this CRAM file are kept by their differences to c2: name the FASTA that they are aligned to"},
		{"a contig is missing", goldenFile(t, "3.0.cram"), with(nil), "the reference FASTA has no sequence c2, to which reads are aligned: name the FASTA that the file was written with"},
		{"a contig is shorter", goldenFile(t, "3.0.cram"), with(other[1:]), "c2 has 1000 bases in the file's header and 999 in the reference FASTA: name the FASTA that the file was written with"},
		{"a base is another", goldenFile(t, "3.1.cram"), with(other), "of c2 are others in the reference FASTA than those that the file was written with (MD5): name that FASTA"},
		{"a base is another, several references", goldenFile(t, "several.cram"), with(other), "c2 is another in the reference FASTA than the file was written with (MD5 e161151d9ab6c963e1ccb8de9bb50bde in its header"},
		{"version 1", version(1, 0), reference, "this is CRAM 1.0; what is read are 2 and 3: write it again with samtools view -O cram,version=3.1"},
		{"version 4", version(4, 0), reference, "this is CRAM 4.0; what is read are 2 and 3"},
		{"another file", []byte(strings.Repeat("BAM\x01", 10)), reference, "it doesn't begin as CRAM does"},
		{"a container's checksum", changed(t, "3.0.cram", 40), reference, "CRAM header: the checksum of the container's header is wrong"},
		{"a block's checksum", changed(t, "3.0.cram", -200), reference, ": a block's checksum is wrong: the file is damaged"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := io.ReadAll(cram.NewReader(bytes.NewReader(tt.data), cram.Options{Reference: tt.reference}))
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "\n")
			_, isReference := errors.AsType[*cram.ReferenceError](err)
			require.Equal(t, strings.Contains(tt.want, "FASTA"), isReference)
			if isReference {
				require.False(t, strings.HasPrefix(err.Error(), "CRAM "), err)
			}
		})
	}
}

// changed is a golden file with a byte changed, from its end if at is negative.
func changed(t testing.TB, name string, at int) []byte {
	data := goldenFile(t, name)
	if at < 0 {
		at += len(data)
	}
	data[at] ^= 1
	return data
}

// TestAbsurdSizesTakeNoMemory: sizes that are nobody's are refused before memory is taken for them.
func TestAbsurdSizesTakeNoMemory(t *testing.T) {
	data := goldenFile(t, "3.0.cram")
	file := func(container ...byte) []byte {
		sum := crc32.ChecksumIEEE(container)
		header := data[:26+headerSize(t, data)]
		return append(slices.Concat(header, container), binary.LittleEndian.AppendUint32(nil, sum)...)
	}
	huge := []byte{0xf7, 0xff, 0xff, 0xff, 0x0f} // 2^31 - 1
	for name, tt := range map[string]struct {
		file []byte
		want string
	}{
		"a container's bytes":   {file(slices.Concat([]byte{0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 1, 0, 0, 1, 0})...), "a container of 2147483647 bytes"},
		"negative":              {file(0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 1, 0), "a container of -1 bytes"},
		"a container's slices":  {file(slices.Concat([]byte{9, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1}, huge)...), "a container of 2147483647 slices"},
		"a container's records": {file(slices.Concat([]byte{0, 0, 0, 0, 0, 0, 0}, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, []byte{0, 0, 1, 0})...), "with -1 records"},
	} {
		_, err := io.ReadAll(cram.NewReader(bytes.NewReader(tt.file), cram.Options{}))
		require.ErrorContains(t, err, tt.want, name)
	}
}

// headerSize is the size of a file's header behind what it begins with.
func headerSize(t testing.TB, data []byte) int {
	size, err := cram.NewDecoder(cram.Options{}).Size(data)
	require.NoError(t, err)
	return size - 26
}

// FuzzReader: whatever the bytes, a file is read or refused; and what is read is BAM whose records have
// their sizes.
func FuzzReader(f *testing.F) {
	for _, name := range golden {
		f.Add(goldenFile(f, name))
	}
	reference := goldenReference(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		summed := withSums(data)
		for _, data := range [][]byte{data, summed} {
			d := cram.NewDecoder(cram.Options{})
			if n, err := d.Size(data); err == nil && n > 0 && n <= len(data) && d.Unwritten(data[:n]) {
				if _, err := d.Append(nil, data[:n]); err == nil && data[4] >= 3 {
					t.Fatal("a header whose checksum is there, and not written")
				}
			}
			var got bytes.Buffer
			_, err := io.Copy(&got, io.LimitReader(cram.NewReader(bytes.NewReader(data), cram.Options{Reference: reference, Names: "n"}), 1<<26))
			if err == nil && got.Len() < 12 {
				t.Fatal("a file without a header")
			}
			if err := wellFormed(got.Bytes()); err != nil && got.Len() < 1<<26 {
				t.Fatal(err)
			}
		}
	})
}

// wellFormed says what is wrong with BAM.
func wellFormed(b []byte) error {
	order := binary.LittleEndian
	if len(b) < 12 {
		return nil
	}
	b = b[8+order.Uint32(b[4:]):]
	refs := order.Uint32(b)
	for b = b[4:]; refs > 0; refs-- {
		n := order.Uint32(b)
		b = b[8+n:]
	}
	for n := 1; len(b) > 0; n++ {
		size := int(order.Uint32(b))
		if size < 32 || size > len(b)-4 {
			return fmt.Errorf("record %d of %d bytes, of %d", n, size, len(b)-4)
		}
		r := b[4 : 4+size]
		name, ops, bases := int(r[8]), int(order.Uint16(r[12:])), int(order.Uint32(r[16:]))
		if name < 1 || 32+name+4*ops+(bases+1)/2+bases > size || r[32+name-1] != 0 {
			return fmt.Errorf("record %d is shorter than it says", n)
		}
		b = b[4+size:]
	}
	return nil
}

// withSums is a file whose checksums are right, as far as its sizes are, so that fuzzing comes behind
// them.
func withSums(data []byte) []byte {
	data = slices.Clone(data)
	if len(data) < 26 || string(data[:4]) != "CRAM" || data[4] != 3 {
		return data
	}
	cram.FixSums(data)
	return data
}

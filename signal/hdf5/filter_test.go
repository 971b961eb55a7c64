package hdf5

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// vbzChunk is a chunk as the filter VBZ stores it, of data that Stream VByte has packed.
func vbzChunk(t *testing.T, size int, packed []byte, compress bool) []byte {
	t.Helper()
	b := binary.LittleEndian.AppendUint32(nil, uint32(size))
	if !compress {
		return append(b, packed...)
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	return enc.EncodeAll(packed, b)
}

// TestVBZ has chunks that ONT's plugin reads but can't be made to write, and chunks that
// are damaged; what it writes is in package fast5's tests.
func TestVBZ(t *testing.T) {
	shorts := []byte{1, 0, 0xff, 0xff, 3, 0} // 1, -1, 3
	deltas := []byte{0, 2, 3, 8}             // a key; zigzagged 1, -2, 4
	for _, tc := range []struct {
		name   string
		params []uint32
		chunk  []byte
		want   []byte
		err    string
	}{
		{"zstd only", []uint32{0, 0, 0, 1}, vbzChunk(t, 6, shorts, true), shorts, ""},
		{"nothing", []uint32{0, 0, 0, 0}, vbzChunk(t, 6, shorts, false), shorts, ""},
		{"no zstd", []uint32{0, 2, 1, 0}, vbzChunk(t, 6, deltas, false), shorts, ""},
		{"level by default", []uint32{1, 2, 1}, vbzChunk(t, 6, deltas, true), shorts, ""},
		{"halves", []uint32{1, 1, 0, 0}, vbzChunk(t, 5, []byte{0b11_10_01_00, 0, 0x25, 0x41, 0x23, 0x01}, false), []byte{0, 5, 0x12, 0x34, 0}, ""},
		{"another size", []uint32{0, 2, 1, 1}, vbzChunk(t, 8, deltas, true), nil, "can't hold 4 integers"},
		{"half an integer", []uint32{0, 2, 1, 1}, vbzChunk(t, 5, deltas, true), nil, "5 bytes of integers of 2"},
		{"too long", []uint32{0, 2, 1, 1}, vbzChunk(t, 1<<30, deltas, true), nil, "bytes of integers"},
		{"more than it says", []uint32{0, 2, 1, 1}, vbzChunk(t, 6, append(slices.Clone(deltas), 1), true), nil, "left over"},
		{"empty", []uint32{0, 2, 1, 1}, nil, nil, "0 bytes are too few"},
		{"not zstd", []uint32{0, 2, 1, 1}, vbzChunk(t, 6, deltas, false), nil, "zstd"},
		{"a promise", []uint32{0, 2, 1, 1}, vbzChunk(t, 6, bytes.Repeat([]byte{0}, 1<<20), true), nil, "zstd: "},
	} {
		w := new(Workspace)
		for range 2 { // the second with buffers in use
			got, err := w.undo([]filter{{id: filterVBZ, params: tc.params}}, 0, tc.chunk, 6)
			switch {
			case tc.err == "" && (err != nil || !bytes.Equal(got, tc.want)):
				t.Errorf("%s: %v, %v, want %v", tc.name, got, err, tc.want)
			case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err) || !strings.HasPrefix(err.Error(), "vbz: ")):
				t.Errorf("%s: %v, want %q", tc.name, err, tc.err)
			}
		}
	}
	for _, params := range [][]uint32{nil, {0, 2}, {2, 2, 1, 1}, {0, 3, 1, 1}, {0, 8, 1, 1}} {
		if checkVBZ(params) == nil {
			t.Errorf("parameters %v are accepted", params)
		}
	}
}

// TestFilters undoes several filters one after another, some of them left out for a
// chunk.
func TestFilters(t *testing.T) {
	plain := []byte{1, 2, 3, 4, 5, 6, 7}
	shuffled := []byte{1, 3, 5, 2, 4, 6, 7}
	checked := binary.LittleEndian.AppendUint32(slices.Clone(shuffled), fletcher32(shuffled))
	pipeline := []filter{{id: filterShuffle, params: []uint32{2}}, {id: filterFletcher}}
	w := new(Workspace)
	for skipped, stored := range map[uint32][]byte{0: checked, 2: shuffled, 3: plain} {
		if got, err := w.undo(pipeline, skipped, stored, 7); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("filters %b left out: %v, %v", skipped, got, err)
		}
	}
	checked[0]++
	if _, err := w.undo(pipeline, 0, checked, 7); err == nil || !strings.Contains(err.Error(), "fletcher32: the checksum is wrong") {
		t.Errorf("a wrong checksum: %v", err)
	}
}

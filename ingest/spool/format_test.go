package spool

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"testing"
)

func segmentBytes() []byte {
	b := appendHeader(nil, 42)
	b = appendRecord(b, 42, []byte("first"))
	return appendRecord(b, 43, nil)
}

func newerHeader() []byte {
	b := appendHeader(nil, 7)
	b[len(magic)] = version + 1
	binary.LittleEndian.PutUint32(b[16:], crc32.Checksum(b[:16], castagnoli))
	return b
}

func TestSegmentsAreTheSameBytesOnDisk(t *testing.T) {
	want, err := hex.DecodeString(goldenSegment)
	if err != nil {
		t.Fatal(err)
	}
	if got := segmentBytes(); !bytes.Equal(got, want) {
		t.Errorf("a segment is written as\n%x\nwant\n%x", got, want)
	}
	first, err := parseHeader(want)
	if err != nil || first != 42 {
		t.Fatalf("begins with %d, %v", first, err)
	}
	payload, rest, err := parseRecord(want[headerBytes:], 42)
	if err != nil || string(payload) != "first" {
		t.Fatalf("%q, %v", payload, err)
	}
	if payload, rest, err = parseRecord(rest, 43); err != nil || len(payload) != 0 || len(rest) != 0 {
		t.Errorf("%q, then %x, %v", payload, rest, err)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(segmentBytes()[headerBytes:], uint64(42))
	f.Add([]byte{}, uint64(0))
	f.Add(make([]byte, recordBytes), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, n uint64) {
		payload, rest, err := parseRecord(b, n)
		if err != nil {
			return
		}
		if again := appendRecord(nil, n, payload); !bytes.Equal(again, b[:len(b)-len(rest)]) {
			t.Errorf("%x is written again as %x", b[:len(b)-len(rest)], again)
		}
	})
}

func FuzzHeader(f *testing.F) {
	f.Add(segmentBytes())
	f.Add(newerHeader())
	f.Fuzz(func(t *testing.T, b []byte) {
		if first, err := parseHeader(b); err == nil && !bytes.Equal(appendHeader(nil, first), b[:headerBytes]) {
			t.Errorf("%x is written again as %x", b[:headerBytes], appendHeader(nil, first))
		}
	})
}

// goldenSegment is a segment of version 1 with records 42 and 43; it may never
// change.
const goldenSegment = "" +
	"505353504f4f4c012a00000000000000fea5ad83" +
	"cb50cdd4050000002a000000000000006669727374" +
	"77531fbf000000002b00000000000000"

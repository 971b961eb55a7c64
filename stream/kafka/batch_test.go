package kafka

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/stream"
)

func testDecoder(t testing.TB) *batchDecoder {
	t.Helper()
	d, err := newBatchDecoder()
	require.NoError(t, err)
	t.Cleanup(d.close)
	return d
}

func sampleOuts() []stream.Out {
	at := time.UnixMilli(1_700_000_000_000)
	return []stream.Out{
		{Key: []byte("run/42"), Value: []byte("signal"), Time: at, Headers: []stream.Header{{Key: "stage", Value: []byte("basecall")}, {Key: "none"}}},
		{Key: nil, Value: nil, Time: at.Add(-5 * time.Millisecond)},
		{Key: []byte{}, Value: bytes.Repeat([]byte{7}, 300), Time: at.Add(time.Second)},
	}
}

// The bytes are worked out by hand from the protocol guide.
func TestBatchGolden(t *testing.T) {
	got := encodeBatch(nil, sampleOuts(), batchIdentity{producerID: 0x0102030405060708, producerEpoch: 3, baseSequence: 77}, nil)
	want := "0000000000000000" + "00000196" + "ffffffff" + "02" + "00000000" + // base offset, length, leader epoch, magic, CRC
		"0000" + "00000002" + "0000018bcfe56800" + "0000018bcfe56be8" + // attributes, last offset delta, timestamps
		"0102030405060708" + "0003" + "0000004d" + "00000003" // producer, sequence, count
	assert.Equal(t, want[:34], hex.EncodeToString(got[:17]))
	assert.Equal(t, want[42:122], hex.EncodeToString(got[21:61]))
	assert.Equal(t, "4e"+"00"+"00"+"00"+"0c"+"72756e2f3432"+"0c"+"7369676e616c"+"04"+"0a"+"7374616765"+"10"+"62617365"+"63616c6c"+"08"+"6e6f6e65"+"01",
		hex.EncodeToString(got[61:101]))
	assert.Equal(t, "0c"+"00"+"09"+"02"+"01"+"01"+"00", hex.EncodeToString(got[101:108]))
	assert.Equal(t, crc32.Checksum(got[21:], castagnoli), binary.BigEndian.Uint32(got[17:]))
}

// franz-go's own decoder is the oracle.
func TestBatchAgreesWithFranz(t *testing.T) {
	outs := sampleOuts()
	var b kmsg.RecordBatch
	raw := encodeBatch(nil, outs, batchIdentity{producerID: 9, producerEpoch: 1, baseSequence: 5}, nil)
	require.NoError(t, b.ReadFrom(raw))
	assert.EqualValues(t, len(raw)-12, b.Length)
	assert.EqualValues(t, 9, b.ProducerID)
	assert.EqualValues(t, 1, b.ProducerEpoch)
	assert.EqualValues(t, 5, b.FirstSequence)
	assert.EqualValues(t, 2, b.LastOffsetDelta)
	assert.EqualValues(t, 3, b.NumRecords)
	rest := b.Records
	for i, o := range outs {
		length, n := binary.Varint(rest)
		var r kmsg.Record
		require.NoError(t, r.ReadFrom(rest[:n+int(length)]), "record %d", i)
		rest = rest[n+int(length):]
		assert.EqualValues(t, i, r.OffsetDelta)
		assert.Equal(t, o.Time.UnixMilli()-outs[0].Time.UnixMilli(), r.TimestampDelta64)
		assert.Equal(t, o.Key, r.Key)
		assert.Equal(t, o.Value, r.Value)
		require.Len(t, r.Headers, len(o.Headers))
		for j := range o.Headers {
			assert.Equal(t, o.Headers[j].Key, r.Headers[j].Key)
			assert.Equal(t, o.Headers[j].Value, r.Headers[j].Value)
		}
	}
	assert.Empty(t, rest)
}

func TestBatchRoundTrip(t *testing.T) {
	enc, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	for name, codec := range map[string]*zstd.Encoder{"plain": nil, "zstd": enc} {
		t.Run(name, func(t *testing.T) {
			outs := sampleOuts()
			raw := encodeBatch(nil, outs, batchIdentity{}, codec)
			binary.BigEndian.PutUint64(raw, 1000) // as the broker does
			h, records, rest, ok, err := splitBatch(append(raw, "torn"...))
			require.NoError(t, err)
			require.True(t, ok)
			assert.Equal(t, "torn", string(rest))
			got, err := testDecoder(t).records(nil, h, records, "t", 3, 1001)
			require.NoError(t, err)
			require.Len(t, got, 2, "records from offset 1001 on")
			for i, r := range got {
				assert.Equal(t, stream.Record{Topic: "t", Partition: 3, Offset: 1001 + int64(i), Time: outs[i+1].Time, Key: outs[i+1].Key, Value: outs[i+1].Value}, r)
			}
			size := batchHeaderBytes
			for i := range outs {
				size += recordSize(&outs[i])
			}
			assert.LessOrEqual(t, len(raw), size, "recordSize bounds the encoded size")
		})
	}
}

func TestDamagedBatches(t *testing.T) {
	good := encodeBatch(nil, sampleOuts(), batchIdentity{}, nil)
	sealed := func(change func(b []byte)) []byte {
		b := bytes.Clone(good)
		change(b)
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
		return b
	}
	tests := map[string]struct {
		raw     []byte
		wantErr string // empty: cut short, to be read again
	}{
		"cut in the header":    {raw: good[:11]},
		"cut in the records":   {raw: good[:len(good)-1]},
		"a bit flipped":        {raw: append(bytes.Clone(good[:80]), append([]byte{good[80] ^ 1}, good[81:]...)...), wantErr: "checksum"},
		"old message format":   {raw: sealed(func(b []byte) { b[16] = 1 }), wantErr: "message format 1"},
		"impossible length":    {raw: sealed(func(b []byte) { binary.BigEndian.PutUint32(b[8:], 10) }), wantErr: "less than its header"},
		"too many records":     {raw: sealed(func(b []byte) { binary.BigEndian.PutUint32(b[57:], 1<<30) }), wantErr: "1073741824 records"},
		"record runs over":     {raw: sealed(func(b []byte) { b[61] = 0xff; b[62] = 0x7f }), wantErr: "record of"},
		"negative record":      {raw: sealed(func(b []byte) { b[61] = 1 }), wantErr: "record of -1 bytes"},
		"key runs over":        {raw: sealed(func(b []byte) { b[65] = 0x7e }), wantErr: "message ends early"},
		"unknown codec":        {raw: sealed(func(b []byte) { b[22] = 7 }), wantErr: "unknown codec 7"},
		"not zstd":             {raw: sealed(func(b []byte) { b[22] = 4 }), wantErr: "decompressing"},
		"offset outside":       {raw: sealed(func(b []byte) { b[64] = 0x7e }), wantErr: "holds offset 63"},
		"headers without room": {raw: sealed(func(b []byte) { b[79] = 0x7e }), wantErr: "63 headers in"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h, records, _, ok, err := splitBatch(tc.raw)
			if err == nil && ok {
				_, err = testDecoder(t).records(nil, h, records, "t", 0, 0)
			}
			if tc.wantErr == "" {
				require.NoError(t, err)
				assert.False(t, ok)
				return
			}
			require.ErrorContains(t, err, tc.wantErr)
		})
	}
}

// A batch that inflates beyond the limit is refused without taking the memory.
func TestInflationIsBounded(t *testing.T) {
	var packed bytes.Buffer
	enc, err := zstd.NewWriter(&packed)
	require.NoError(t, err)
	zeros := make([]byte, 1<<20)
	for range maxInflated/len(zeros) + 1 {
		_, err := enc.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, enc.Close())
	_, err = testDecoder(t).inflate(codecZstd, packed.Bytes())
	require.ErrorIs(t, err, zstd.ErrDecoderSizeExceeded)
}

// What a compressed batch may grow to is bounded with every codec, and so is
// what is allocated for what a length merely claims.
func TestBatchesGrowWithinBounds(t *testing.T) {
	dec := testDecoder(t)
	zeros := make([]byte, maxInflated+1)
	for _, c := range []compress.Compression{compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		t.Run(c.String(), func(t *testing.T) {
			for size, wantErr := range map[int]bool{maxInflated - 1<<20: false, len(zeros): true} {
				var packed bytes.Buffer
				w := c.Codec().NewWriter(&packed)
				_, err := w.Write(zeros[:size])
				require.NoError(t, err)
				require.NoError(t, w.Close())
				out, err := dec.inflate(c, packed.Bytes())
				if wantErr {
					require.Error(t, err)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, size, len(out))
			}
		})
	}
	claims := binary.AppendUvarint(nil, 1<<31)
	for name, packed := range map[string][]byte{
		"block":            claims,
		"block in a frame": append([]byte(xerialMagic+"\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x05"), claims...),
		"frame":            []byte(xerialMagic + "\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\xff\xff"),
		"cut short":        []byte(xerialMagic),
		"cut in a length":  []byte(xerialMagic + "\x00\x00\x00\x01\x00\x00\x00\x01\x00"),
	} {
		t.Run("snappy "+name, func(t *testing.T) {
			_, err := unsnappy(packed)
			require.Error(t, err)
			assert.Less(t, testing.AllocsPerRun(1, func() { _, _ = unsnappy(packed) }), 10.0)
		})
	}
}

func TestTooManyItemsInABatch(t *testing.T) {
	dec := testDecoder(t)
	_, err := dec.records(nil, batchHeader{count: maxBatchItems + 1, lastOffset: maxBatchItems}, nil, "t", 0, 0)
	require.ErrorContains(t, err, "the limit is")
	out := stream.Out{Time: time.UnixMilli(1), Headers: make([]stream.Header, maxBatchItems)}
	h, records, _, _, err := splitBatch(encodeBatch(nil, []stream.Out{out}, batchIdentity{}, nil))
	require.NoError(t, err)
	_, err = dec.records(nil, h, records, "t", 0, 0)
	require.ErrorContains(t, err, "records and headers")
}

// A response that grows beyond bounds is read piece by piece.
func TestInflatedResponseIsReadInPieces(t *testing.T) {
	enc, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	const batches, size = 40, 1 << 20
	var sets [][]byte
	for i := range batches {
		b := encodeBatch(nil, []stream.Out{{Time: time.UnixMilli(1), Value: make([]byte, size)}}, batchIdentity{}, enc)
		binary.BigEndian.PutUint64(b, uint64(i)) // the broker's part
		sets = append(sets, b)
	}
	f := &Fetcher{topic: "t", batches: testDecoder(t), maxBytes: 1 << 20}
	var offsets []int64
	for f.next < batches {
		batch, err := f.decode(fetched{records: slices.Concat(sets[f.next:]...)})
		require.NoError(t, err)
		require.LessOrEqual(t, len(batch.Records), maxInflation+1)
		for _, r := range batch.Records {
			offsets = append(offsets, r.Offset)
		}
		require.Greater(t, batch.Next, f.next)
		f.next = batch.Next
	}
	for i, at := range offsets {
		require.Equal(t, int64(i), at)
	}
	assert.Len(t, offsets, batches)
}

// Whatever a codec is given, decompression ends within bounds.
func FuzzInflate(f *testing.F) {
	for _, c := range []compress.Compression{compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		var packed bytes.Buffer
		w := c.Codec().NewWriter(&packed)
		_, err := w.Write([]byte(strings.Repeat("signal", 100)))
		require.NoError(f, err)
		require.NoError(f, w.Close())
		f.Add(int8(c), packed.Bytes())
	}
	dec := testDecoder(f)
	f.Fuzz(func(t *testing.T, codec int8, packed []byte) {
		out, err := dec.inflate(compress.Compression(codec&attrCodec), packed)
		if err == nil && len(out) > maxInflated {
			t.Fatalf("%d bytes", len(out))
		}
	})
}

// Keys, values and headers come back as they were written, whatever they hold.
func FuzzRecord(f *testing.F) {
	f.Add([]byte("run/3"), []byte("value"), "header", []byte("1"), uint8(2), true)
	f.Add([]byte(nil), []byte{}, "", []byte(nil), uint8(0), false)
	f.Add([]byte("run\x00x/end/0"), []byte{0xff}, "porestream-cut", []byte("value,key"), uint8(200), true)
	enc, err := zstd.NewWriter(nil)
	require.NoError(f, err)
	dec := testDecoder(f)
	f.Fuzz(func(t *testing.T, key, value []byte, name string, header []byte, headers uint8, packed bool) {
		o := stream.Out{Key: key, Value: value, Time: time.UnixMilli(12345)}
		for range headers {
			o.Headers = append(o.Headers, stream.Header{Key: name, Value: header})
		}
		used := enc
		if !packed {
			used = nil
		}
		h, records, _, ok, err := splitBatch(encodeBatch(nil, []stream.Out{o, o}, batchIdentity{}, used))
		if err != nil || !ok {
			t.Fatal(err)
		}
		recs, err := dec.records(nil, h, records, "t", 0, 0)
		if err != nil || len(recs) != 2 {
			t.Fatalf("%d records, %v", len(recs), err)
		}
		for _, r := range recs {
			if !bytes.Equal(r.Key, key) || !bytes.Equal(r.Value, value) || (r.Value == nil) != (value == nil) || len(r.Headers) != int(headers) {
				t.Fatalf("%+v", r)
			}
			for _, got := range r.Headers {
				if got.Key != name || !bytes.Equal(got.Value, header) {
					t.Fatalf("%+v", got)
				}
			}
		}
	})
}

func FuzzFetchResponse(f *testing.F) {
	enc, err := zstd.NewWriter(nil)
	require.NoError(f, err)
	response := func(version int16, set []byte) []byte {
		b := make([]byte, 4)
		if version >= 7 {
			b = append(b, 0, 0, 0, 0, 0, 0)
		}
		b = binary.BigEndian.AppendUint32(b, 1)
		b = appendString(b, "t")
		b = binary.BigEndian.AppendUint32(b, 1)
		b = append(b, make([]byte, 4+2+8+8)...)
		if version >= 5 {
			b = append(b, make([]byte, 8)...)
		}
		b = binary.BigEndian.AppendUint32(b, 1)
		b = append(b, make([]byte, 16)...)
		if version >= 11 {
			b = append(b, make([]byte, 4)...)
		}
		b = binary.BigEndian.AppendUint32(b, uint32(len(set)))
		return append(b, set...)
	}
	for _, version := range []int16{4, 11} {
		f.Add(response(version, encodeBatch(nil, sampleOuts(), batchIdentity{}, nil)), version)
		f.Add(response(version, encodeBatch(nil, sampleOuts(), batchIdentity{}, enc)), version)
		f.Add(response(version, nil), version)
	}
	fetcher := &Fetcher{topic: "t", batches: testDecoder(f)}
	f.Fuzz(func(t *testing.T, body []byte, version int16) {
		res, err := decodeFetch(body, version, "t", 0)
		if err != nil {
			return
		}
		batch, err := fetcher.decode(res)
		if err != nil {
			return
		}
		for _, r := range batch.Records {
			if r.Offset >= batch.Next {
				t.Fatalf("offset %d, but next is %d", r.Offset, batch.Next)
			}
		}
	})
}

func BenchmarkEncodeBatch(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			outs := make([]stream.Out, (960<<10)/size)
			for i := range outs {
				outs[i] = stream.Out{Key: []byte("run/channel"), Value: make([]byte, size), Time: time.UnixMilli(1)}
			}
			b.SetBytes(int64(len(outs) * size))
			b.ReportAllocs()
			var buf []byte
			for b.Loop() {
				buf = encodeBatch(buf, outs, batchIdentity{}, nil)
			}
		})
	}
}

func BenchmarkDecodeBatch(b *testing.B) {
	outs := make([]stream.Out, 240)
	for i := range outs {
		outs[i] = stream.Out{Key: []byte("run/channel"), Value: []byte(strings.Repeat("x", 4<<10)), Time: time.UnixMilli(1)}
	}
	raw := encodeBatch(nil, outs, batchIdentity{}, nil)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	var recs []stream.Record
	dec := testDecoder(b)
	for b.Loop() {
		h, records, _, _, err := splitBatch(raw)
		require.NoError(b, err)
		recs, err = dec.records(recs[:0], h, records, "t", 0, 0)
		require.NoError(b, err)
	}
}

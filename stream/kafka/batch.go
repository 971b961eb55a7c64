package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"runtime"
	"slices"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"

	"github.com/porestream/porestream/stream"
)

// Record batch format, version 2 (Kafka protocol guide, "Record Batch"):
//
//	base offset 8 | length 4 | leader epoch 4 | magic 1 | CRC32C 4 |
//	attributes 2 | last offset delta 4 | first timestamp 8 | max timestamp 8 |
//	producer id 8 | producer epoch 2 | base sequence 4 | count 4 | records
//
//	record: varint length | attributes 1 | varint timestamp delta |
//	varint offset delta | varint key length, key | varint value length, value |
//	varint header count, headers
//
// The length counts what follows it, the CRC covers what follows it, and a
// length of -1 is a null key or value.
const (
	batchHeaderBytes = 61
	lengthEnd        = 12 // where the bytes that length counts begin
	crcEnd           = 21 // where the bytes that the CRC covers begin
	batchMagic       = 2

	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20

	codecZstd = 4

	// maxRecordOverhead bounds what a record without headers takes beside its
	// key and value: length 5, attributes 1, timestamp 10, offset 5, two
	// lengths of 5, header count 5.
	maxRecordOverhead = 36

	// maxBatchRecords keeps offsets deltas and sequence numbers small.
	maxBatchRecords = 1 << 16
	// maxInflated bounds what a compressed batch may grow to.
	maxInflated = 64 << 20
	// maxBatchItems bounds the records and headers of a batch: each takes two
	// bytes or seven there and some hundred here.
	maxBatchItems = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batchIdentity is what makes a batch idempotent: the broker appends the
// records of a producer's sequence to a partition once.
type batchIdentity struct {
	producerID    int64
	producerEpoch int16
	baseSequence  int32
	transactional bool // part of a transaction
}

// recordSize bounds the encoded size of a record from above.
func recordSize(o *stream.Out) int {
	n := maxRecordOverhead + len(o.Key) + len(o.Value)
	for i := range o.Headers {
		n += 10 + len(o.Headers[i].Key) + len(o.Headers[i].Value)
	}
	return n
}

// encodeBatch encodes records of one partition, into buf if that is large
// enough; their times must be set. With an encoder the records are compressed.
func encodeBatch(buf []byte, recs []stream.Out, id batchIdentity, enc *zstd.Encoder) []byte {
	first := recs[0].Time.UnixMilli()
	last := first
	size := batchHeaderBytes
	for i := range recs {
		size += recordSize(&recs[i])
		last = max(last, recs[i].Time.UnixMilli())
	}
	// Growing by append would cost half the speed.
	b := slices.Grow(buf[:0], size)[:batchHeaderBytes]
	for i := range recs {
		b = appendRecord(b, &recs[i], recs[i].Time.UnixMilli()-first, int64(i))
	}
	var attributes uint16
	if enc != nil {
		records := b[batchHeaderBytes:]
		b = enc.EncodeAll(records, make([]byte, batchHeaderBytes, batchHeaderBytes+len(records)/2))
		attributes = codecZstd
	}
	if id.transactional {
		attributes |= attrTransactional
	}
	be := binary.BigEndian
	be.PutUint64(b[0:], 0)
	be.PutUint32(b[8:], uint32(len(b)-lengthEnd))
	be.PutUint32(b[12:], ^uint32(0)) // leader epoch: the broker's to fill in
	b[16] = batchMagic
	be.PutUint16(b[21:], attributes)
	be.PutUint32(b[23:], uint32(len(recs)-1))
	be.PutUint64(b[27:], uint64(first))
	be.PutUint64(b[35:], uint64(last))
	be.PutUint64(b[43:], uint64(id.producerID))
	be.PutUint16(b[51:], uint16(id.producerEpoch))
	be.PutUint32(b[53:], uint32(id.baseSequence))
	be.PutUint32(b[57:], uint32(len(recs)))
	be.PutUint32(b[17:], crc32.Checksum(b[crcEnd:], castagnoli))
	return b
}

func appendRecord(b []byte, o *stream.Out, timestampDelta, offsetDelta int64) []byte {
	n := 1 + varintLen(timestampDelta) + varintLen(offsetDelta) +
		varbytesLen(o.Key) + varbytesLen(o.Value) + varintLen(int64(len(o.Headers)))
	for i := range o.Headers {
		n += varintLen(int64(len(o.Headers[i].Key))) + len(o.Headers[i].Key) + varbytesLen(o.Headers[i].Value)
	}
	b = binary.AppendVarint(b, int64(n))
	b = append(b, 0)
	b = binary.AppendVarint(b, timestampDelta)
	b = binary.AppendVarint(b, offsetDelta)
	b = appendVarbytes(b, o.Key)
	b = appendVarbytes(b, o.Value)
	b = binary.AppendVarint(b, int64(len(o.Headers)))
	for i := range o.Headers {
		b = binary.AppendVarint(b, int64(len(o.Headers[i].Key)))
		b = append(b, o.Headers[i].Key...)
		b = appendVarbytes(b, o.Headers[i].Value)
	}
	return b
}

func varintLen(v int64) int {
	zigzag := uint64(v)<<1 ^ uint64(v>>63)
	return (bits.Len64(zigzag|1) + 6) / 7
}

func varbytesLen(b []byte) int {
	if b == nil {
		return 1
	}
	return varintLen(int64(len(b))) + len(b)
}

func appendVarbytes(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	b = binary.AppendVarint(b, int64(len(v)))
	return append(b, v...)
}

// batchHeader is what a reader needs of a batch's header.
type batchHeader struct {
	baseOffset, lastOffset int64
	attributes             int16
	firstTime, maxTime     int64
	producerID             int64
	count                  int
}

func (h *batchHeader) control() bool       { return h.attributes&attrControl != 0 }
func (h *batchHeader) transactional() bool { return h.attributes&attrTransactional != 0 }

// splitBatch cuts the first batch off a record set and checks it. records are
// its encoded, maybe compressed records. It returns ok false, and no error,
// when the batch is cut short, as the last one of a fetch may be.
func splitBatch(set []byte) (h batchHeader, records, rest []byte, ok bool, err error) {
	if len(set) < lengthEnd {
		return h, nil, nil, false, nil
	}
	be := binary.BigEndian
	h.baseOffset = int64(be.Uint64(set))
	length := int64(be.Uint32(set[8:]))
	if length > int64(len(set)-lengthEnd) {
		return h, nil, nil, false, nil
	}
	b := set[:lengthEnd+length]
	if len(b) < batchHeaderBytes {
		return h, nil, nil, false, fmt.Errorf("batch at offset %d: %d bytes are less than its header", h.baseOffset, len(b))
	}
	if b[16] != batchMagic {
		return h, nil, nil, false, fmt.Errorf("batch at offset %d: message format %d, only 2 is supported (Kafka 0.11 and later)", h.baseOffset, b[16])
	}
	if want, got := be.Uint32(b[17:]), crc32.Checksum(b[crcEnd:], castagnoli); want != got {
		return h, nil, nil, false, fmt.Errorf("batch at offset %d: checksum %08x, want %08x: the log is damaged", h.baseOffset, got, want)
	}
	h.attributes = int16(be.Uint16(b[21:]))
	h.lastOffset = h.baseOffset + int64(int32(be.Uint32(b[23:])))
	h.firstTime = int64(be.Uint64(b[27:]))
	h.maxTime = int64(be.Uint64(b[35:]))
	h.producerID = int64(be.Uint64(b[43:]))
	h.count = int(int32(be.Uint32(b[57:])))
	if h.lastOffset < h.baseOffset || h.count < 0 || int64(h.count) > h.lastOffset-h.baseOffset+1 {
		return h, nil, nil, false, fmt.Errorf("batch at offset %d: %d records up to offset %d", h.baseOffset, h.count, h.lastOffset)
	}
	return h, b[batchHeaderBytes:], set[len(b):], true, nil
}

// newCompressor makes an encoder for record batches.
func newCompressor() (*zstd.Encoder, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(min(4, runtime.GOMAXPROCS(0))))
	if err != nil {
		return nil, fmt.Errorf("preparing compression: %w", err)
	}
	return enc, nil
}

// batchDecoder decodes the records of batches. It is safe for concurrent use.
type batchDecoder struct{ zstd *zstd.Decoder }

func newBatchDecoder() (*batchDecoder, error) {
	// The limit also covers what a frame merely announces.
	dec, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxInflated), zstd.WithDecoderConcurrency(0))
	if err != nil {
		return nil, fmt.Errorf("preparing decompression: %w", err)
	}
	return &batchDecoder{zstd: dec}, nil
}

func (b *batchDecoder) close() { b.zstd.Close() }

// records appends the records of a batch from offset from on. Their
// bytes lie in records, or in a buffer of their own if it was compressed.
func (b *batchDecoder) records(dst []stream.Record, h batchHeader, records []byte, topic string, partition int32, from int64) ([]stream.Record, error) {
	records, err := b.inflate(compress.Compression(h.attributes&attrCodec), records)
	if err != nil {
		return dst, fmt.Errorf("batch at offset %d: decompressing: %w", h.baseOffset, err)
	}
	d := decoder{b: records}
	items := h.count
	if items > maxBatchItems {
		return dst, fmt.Errorf("batch at offset %d: %d records, the limit is %d", h.baseOffset, items, maxBatchItems)
	}
	for range h.count {
		length := d.varint()
		if length < 0 || length > int64(len(d.b)) {
			return dst, fmt.Errorf("batch at offset %d: record of %d bytes where %d are left", h.baseOffset, length, len(d.b))
		}
		rec := decoder{b: d.take(int(length)), err: d.err}
		rec.int8()
		timestamp := h.firstTime + rec.varint()
		if h.attributes&attrLogAppendTime != 0 {
			timestamp = h.maxTime
		}
		offset := h.baseOffset + rec.varint()
		r := stream.Record{
			Topic: topic, Partition: partition, Offset: offset,
			Time: time.UnixMilli(timestamp),
			Key:  rec.varbytes(), Value: rec.varbytes(),
		}
		// A header takes two bytes at least.
		n := rec.varint()
		if n > 0 && n <= int64(len(rec.b)/2) {
			if items += int(n); items > maxBatchItems {
				return dst, fmt.Errorf("batch at offset %d: more than %d records and headers", h.baseOffset, maxBatchItems)
			}
			r.Headers = make([]stream.Header, n)
			for i := range r.Headers {
				r.Headers[i] = stream.Header{Key: string(rec.varbytes()), Value: rec.varbytes()}
			}
		} else if n != 0 && rec.err == nil {
			rec.err = fmt.Errorf("%d headers in %d bytes", n, len(rec.b))
		}
		if rec.err != nil {
			return dst, fmt.Errorf("batch at offset %d: record at offset %d: %w", h.baseOffset, offset, rec.err)
		}
		if offset > h.lastOffset || offset < h.baseOffset {
			return dst, fmt.Errorf("batch at offset %d: holds offset %d", h.baseOffset, offset)
		}
		if offset >= from {
			dst = append(dst, r)
		}
	}
	return dst, nil
}

// isAbort reads a control batch: true for a transaction's abort marker, false
// for its commit and for other control records.
func (b *batchDecoder) isAbort(h batchHeader, records []byte) bool {
	recs, err := b.records(nil, h, records, "", 0, h.baseOffset)
	// The key of a control record is its version and its type, 16 bits each.
	return err == nil && len(recs) > 0 && len(recs[0].Key) >= 4 && binary.BigEndian.Uint16(recs[0].Key[2:]) == 0
}

func (b *batchDecoder) inflate(c compress.Compression, packed []byte) ([]byte, error) {
	switch c {
	case compress.None:
		return packed, nil
	case compress.Zstd:
		return b.zstd.DecodeAll(packed, nil)
	case compress.Snappy:
		return unsnappy(packed)
	}
	codec := c.Codec()
	if codec == nil {
		return nil, fmt.Errorf("unknown codec %d", int8(c))
	}
	r := codec.NewReader(bytes.NewReader(packed))
	defer r.Close()
	out, err := io.ReadAll(io.LimitReader(r, maxInflated+1))
	if err != nil {
		return nil, err
	}
	if len(out) > maxInflated {
		return nil, fmt.Errorf("more than %d bytes", maxInflated)
	}
	return out, nil
}

// xerialMagic begins snappy data in the framing of the xerial library, which
// Java clients write: magic 8, version 4, oldest compatible version 4, then
// blocks, each with its length in 4 bytes before it.
const (
	xerialMagic  = "\x82SNAPPY\x00"
	xerialHeader = 16

	// snappyExpansion is more than what a block's bytes can stand for: an element
	// of three bytes copies at most 64.
	snappyExpansion = 32
)

// unsnappy decompresses a block, or blocks in xerial's framing. It does not
// leave that to the library, which allocates whatever a length claims.
func unsnappy(packed []byte) ([]byte, error) {
	if !bytes.HasPrefix(packed, []byte(xerialMagic)) {
		return appendUnsnapped(nil, packed)
	}
	if len(packed) < xerialHeader {
		return nil, io.ErrUnexpectedEOF
	}
	var out []byte
	for rest := packed[xerialHeader:]; len(rest) > 0; {
		if len(rest) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := int64(binary.BigEndian.Uint32(rest))
		if rest = rest[4:]; n > int64(len(rest)) {
			return nil, fmt.Errorf("snappy block of %d bytes where %d are left", n, len(rest))
		}
		var err error
		if out, err = appendUnsnapped(out, rest[:n]); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	return out, nil
}

func appendUnsnapped(dst, block []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(block)
	switch {
	case err != nil:
		return nil, err
	case n > snappyExpansion*len(block):
		return nil, fmt.Errorf("snappy block of %d bytes claims to hold %d", len(block), n)
	case len(dst)+n > maxInflated:
		return nil, fmt.Errorf("more than %d bytes", maxInflated)
	}
	at := len(dst)
	dst = slices.Grow(dst, n)[:at+n]
	if _, err := snappy.Decode(dst[at:], block); err != nil {
		return nil, err
	}
	return dst, nil
}

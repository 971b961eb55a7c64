package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream/streampb"
)

// Envelope of every record on an internal topic; see FORMAT.md.
const (
	envelopeLen     = 8
	envelopeMagic   = "PS"
	envelopeVersion = 1

	// MaxRecord bounds a payload. It leaves space for the key, the headers and the
	// batch within the 1 MiB that brokers accept by default, compressed or not.
	MaxRecord = 1_000_000
	// maxName bounds identifiers and names inside records.
	maxName = 512
	// maxText bounds texts inside records that are only passed on and shown.
	maxText = 4096
	// maxAllele bounds the bases of an allele: a tenth of a record for each.
	maxAllele = 100_000
	// maxListed bounds the filters and the alleles of a genotype.
	maxListed = 64
	// maxReadSamples bounds positions within a read: years of one pore, so
	// that sums of positions and counts don't overflow.
	maxReadSamples = 1 << 40
	// MaxChunkSamples bounds the samples of one signal chunk: a minute of one
	// channel at 5 kHz, far above the second that is usual.
	MaxChunkSamples = 300_000
	// maxCoverage bounds the positions of one coverage record, so that a few
	// bytes can't stand for more depths than a region has.
	maxCoverage = 1 << 20
	// MaxSamples bounds the samples of a run.
	MaxSamples = 1000
	// maxSources bounds the upstream partitions that a marker may speak of.
	maxSources = 100_000
)

// Kind says which message an envelope holds.
type Kind byte

// The kinds of records on the internal topics.
const (
	KindSignal   Kind = 's'
	KindCalled   Kind = 'b'
	KindReads    Kind = 'r'
	KindCalls    Kind = 'c'
	KindRuns     Kind = 'm'
	KindWatch    Kind = 'w'
	KindCursor   Kind = 'i'
	KindPush     Kind = 'p'
	KindDecision Kind = 'd'
	KindStatus   Kind = 'h'
)

// Reason codes of records that can't be decoded, as they appear in the
// dead-letter topic and in metrics.
const (
	CodeForeign   = "foreign"   // not one of our envelopes, or of another kind
	CodeVersion   = "version"   // written by a newer Porestream
	CodeTruncated = "truncated" // shorter than its envelope
	CodeChecksum  = "checksum"  // bytes differ from what was written
	CodePayload   = "payload"   // not the protobuf message that it should be
	CodeInvalid   = "invalid"   // a well-formed message that contradicts itself
	CodeConflict  = "conflict"  // contradicts an earlier record about the same read
	CodeLate      = "late"      // belongs to what has been finished without it
)

// DecodeError is why a record can't be processed.
type DecodeError struct {
	Code   string // one of the Code constants
	Reason string
}

func (e *DecodeError) Error() string { return e.Code + ": " + e.Reason }

func decodeErrorf(code, format string, args ...any) error {
	return &DecodeError{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// ErrorCode returns the reason code of err, or [CodeInvalid] when it is no
// [DecodeError].
func ErrorCode(err error) string {
	if de, ok := errors.AsType[*DecodeError](err); ok {
		return de.Code
	}
	return CodeInvalid
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// RecordTooLargeError is the error of encoding a message that no record holds.
type RecordTooLargeError struct {
	Bytes, Limit int
}

func (e *RecordTooLargeError) Error() string {
	return fmt.Sprintf("%d bytes exceed the limit of %d", e.Bytes, e.Limit)
}

// encode wraps m into an envelope:
//
//	"PS" kind(1) version(1) crc32c(4, little endian, of all bytes but itself) payload
//
// invalid is what the reader would say of m: a record that readers refuse isn't
// written.
func encode(kind Kind, m proto.Message, invalid error) ([]byte, error) {
	if invalid != nil {
		// Not wrapped: that this program wrote nonsense doesn't make what it
		// read a bad record.
		return nil, fmt.Errorf("encoding %T: %v", m, invalid) //nolint:errorlint // see above
	}
	buf := make([]byte, envelopeLen, envelopeLen+proto.Size(m))
	copy(buf, envelopeMagic)
	buf[2], buf[3] = byte(kind), envelopeVersion
	buf, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(buf, m)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", m, err)
	}
	if len(buf)-envelopeLen > MaxRecord {
		return nil, fmt.Errorf("encoding %T: %w", m, &RecordTooLargeError{Bytes: len(buf) - envelopeLen, Limit: MaxRecord})
	}
	binary.LittleEndian.PutUint32(buf[4:], envelopeChecksum(buf))
	return buf, nil
}

func envelopeChecksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, b[envelopeLen:])
}

// OfEnvelope is the topic of those records whose values are envelopes of the kind of b; "" if b is no whole envelope, of a kind that this program knows.
func (t Topics) OfEnvelope(b []byte) string {
	if len(b) < envelopeLen || string(b[:2]) != envelopeMagic || envelopeChecksum(b) != binary.LittleEndian.Uint32(b[4:]) {
		return ""
	}
	switch Kind(b[2]) {
	case KindSignal:
		return t.Signal
	case KindCalled:
		return t.Called
	case KindReads:
		return t.Reads
	case KindCalls:
		return t.Calls
	case KindRuns:
		return t.Runs
	case KindWatch:
		return t.Watch
	case KindCursor, KindPush:
		return t.Cursors
	case KindDecision:
		return t.Decisions
	case KindStatus:
		return t.Status
	}
	return ""
}

func decode(kind Kind, b []byte, m proto.Message) error {
	switch {
	case len(b) < len(envelopeMagic) || string(b[:2]) != envelopeMagic:
		return decodeErrorf(CodeForeign, "no Porestream envelope in %d bytes", len(b))
	case len(b) < envelopeLen:
		return decodeErrorf(CodeTruncated, "%d bytes are shorter than an envelope", len(b))
	case len(b)-envelopeLen > MaxRecord:
		return decodeErrorf(CodeInvalid, "%d bytes exceed the limit of %d", len(b), MaxRecord)
	}
	// The checksum covers kind and version, so it is checked first: a damaged
	// version byte is damage, not a newer writer.
	if got, want := envelopeChecksum(b), binary.LittleEndian.Uint32(b[4:]); got != want {
		return decodeErrorf(CodeChecksum, "checksum is %08x, record says %08x: truncated or damaged", got, want)
	}
	if Kind(b[2]) != kind {
		return decodeErrorf(CodeForeign, "record of kind %q where %q belongs", b[2], byte(kind))
	}
	if b[3] != envelopeVersion {
		return decodeErrorf(CodeVersion, "envelope version %d, this program reads %d", b[3], envelopeVersion)
	}
	if err := proto.Unmarshal(b[envelopeLen:], m); err != nil {
		return decodeErrorf(CodePayload, "%v", err)
	}
	return nil
}

// EncodeSignal returns the value of a record on the signal topic.
func EncodeSignal(m *streampb.SignalRecord) ([]byte, error) {
	return encode(KindSignal, m, validSignal(m))
}

// EncodeReads returns the value of a record on the reads topic. Segments of
// ultra-long reads may be too large: see [RecordTooLargeError].
func EncodeReads(m *streampb.ReadRecord) ([]byte, error) { return encode(KindReads, m, validReads(m)) }

// EncodeCalls returns the value of a record on the calls topic.
func EncodeCalls(m *streampb.CallRecord) ([]byte, error) { return encode(KindCalls, m, validCalls(m)) }

// EncodeWatch returns the value of a record on the watch topic.
func EncodeWatch(m *streampb.WatchRecord) ([]byte, error) { return encode(KindWatch, m, validWatch(m)) }

// EncodeDecision returns the value of a record on the decisions topic.
func EncodeDecision(m *streampb.Decision) ([]byte, error) {
	return encode(KindDecision, m, validDecision(m))
}

// EncodeRun returns the value of a record on the runs topic.
func EncodeRun(m *streampb.Run) ([]byte, error) { return encode(KindRuns, m, validRun(m)) }

// DecodeSignal reads and validates a value of the signal topic. Its errors are
// [DecodeError]s.
func DecodeSignal(b []byte) (*streampb.SignalRecord, error) {
	m := new(streampb.SignalRecord)
	if err := firstError(decode(KindSignal, b, m), validSignal(m)); err != nil {
		return nil, err
	}
	return m, nil
}

// DecodeReads reads and validates a value of the reads topic. Its errors are
// [DecodeError]s.
func DecodeReads(b []byte) (*streampb.ReadRecord, error) {
	m := new(streampb.ReadRecord)
	if err := firstError(decode(KindReads, b, m), validReads(m)); err != nil {
		return nil, err
	}
	return m, nil
}

// DecodeCalls reads and validates a value of the calls topic. Its errors are
// [DecodeError]s.
func DecodeCalls(b []byte) (*streampb.CallRecord, error) {
	m := new(streampb.CallRecord)
	if err := firstError(decode(KindCalls, b, m), validCalls(m)); err != nil {
		return nil, err
	}
	return m, nil
}

// DecodeWatch reads and validates a value of the watch topic. Its errors are
// [DecodeError]s.
func DecodeWatch(b []byte) (*streampb.WatchRecord, error) {
	m := new(streampb.WatchRecord)
	if err := firstError(decode(KindWatch, b, m), validWatch(m)); err != nil {
		return nil, err
	}
	return m, nil
}

// DecodeRun reads and validates a value of the runs topic. Its errors are
// [DecodeError]s.
func DecodeRun(b []byte) (*streampb.Run, error) {
	m := new(streampb.Run)
	if err := firstError(decode(KindRuns, b, m), validRun(m)); err != nil {
		return nil, err
	}
	return m, nil
}

// DecodeDecision reads and validates a value of the decisions topic. Its errors
// are [DecodeError]s.
func DecodeDecision(b []byte) (*streampb.Decision, error) {
	m := new(streampb.Decision)
	if err := firstError(decode(KindDecision, b, m), validDecision(m)); err != nil {
		return nil, err
	}
	return m, nil
}

// IsBadRecord reports whether err says that a record can't be processed by anyone, so
// that it belongs to the dead letters, rather than that processing failed.
func IsBadRecord(err error) bool {
	_, ok := errors.AsType[*DecodeError](err)
	return ok
}

package stream

import "github.com/porestream/porestream/stream/streampb"

// Sizes of the fields of a cursor that are bytes, as in FORMAT.md.
const (
	// CursorDigestLen is the length of a cursor's digest: SHA-256.
	CursorDigestLen = 32
	// CursorOwnerLen is the length of the name of a cursor's writer.
	CursorOwnerLen = 16
)

// EncodeCursor returns the value of a record on the cursors topic.
func EncodeCursor(m *streampb.Cursor) ([]byte, error) { return encode(KindCursor, m, validCursor(m)) }

// DecodeCursor reads and validates a value of the cursors topic. Its errors are
// [DecodeError]s.
func DecodeCursor(b []byte) (*streampb.Cursor, error) {
	m := new(streampb.Cursor)
	if err := firstError(decode(KindCursor, b, m), validCursor(m)); err != nil {
		return nil, err
	}
	return m, nil
}

func validCursor(m *streampb.Cursor) error {
	switch {
	case len(m.GetDigest()) != CursorDigestLen:
		return decodeErrorf(CodeInvalid, "digest of %d bytes, want %d", len(m.GetDigest()), CursorDigestLen)
	case len(m.GetOwner()) != CursorOwnerLen:
		return decodeErrorf(CodeInvalid, "owner of %d bytes, want %d", len(m.GetOwner()), CursorOwnerLen)
	case m.GetNext() > 1<<62:
		return decodeErrorf(CodeInvalid, "cursor after %d events", m.GetNext())
	case m.GetEnded() && m.GetNext() == 0:
		return decodeErrorf(CodeInvalid, "a run has ended before its first event")
	case m.GetChunkSamples() == 0 || m.GetChunkSamples() > MaxChunkSamples:
		return decodeErrorf(CodeInvalid, "chunks of %d samples", m.GetChunkSamples())
	case m.GetPartitions() == 0 || m.GetPartitions() > maxSources:
		return decodeErrorf(CodeInvalid, "signal topic of %d partitions", m.GetPartitions())
	}
	return firstError(validName("run", m.GetRun()), validName("sample", m.GetSample()), validText("filter", m.GetFilter()))
}

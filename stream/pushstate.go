package stream

import (
	"fmt"
	"math"

	"github.com/porestream/porestream/stream/streampb"
)

// Bounds of what a push server says of a run, as in FORMAT.md.
const (
	// PushParts is how many changes follow a whole state at most.
	PushParts = 16
	// MaxPushSession bounds the name of a sender, in bytes, and MaxPushFormer how
	// many a run was taken from.
	MaxPushSession = 64
	MaxPushFormer  = 64
	maxPushDevice  = 128
	maxPushed      = 1 << 62
	maxReadClock   = 1 << 56
)

// PushStateKey is the key of a part of a run's push state on the topic of cursors.
// A later record with the same key replaces an earlier one when the topic is
// compacted, so there are never more than a few for each run.
func PushStateKey(run string, part uint32) []byte {
	return fmt.Appendf(nil, "%s%02d", PushStatePrefix(run), part)
}

// PushStatePrefix begins the keys of a run's push state, and no other key: ids of
// runs have no control characters.
func PushStatePrefix(run string) string { return run + "\x00push/" }

// EncodePushState returns the value of a record of a run's push state.
func EncodePushState(m *streampb.PushState) ([]byte, error) {
	return encode(KindPush, m, validPushState(m))
}

// DecodePushState reads and validates what [EncodePushState] has written. Its
// errors are [DecodeError]s.
func DecodePushState(b []byte) (*streampb.PushState, error) {
	m := new(streampb.PushState)
	if err := firstError(decode(KindPush, b, m), validPushState(m)); err != nil {
		return nil, err
	}
	return m, nil
}

func validPushState(m *streampb.PushState) error {
	switch {
	case m.GetChunks() > maxPushed || m.GetBase() > m.GetChunks():
		return decodeErrorf(CodeInvalid, "state behind %d chunks, on top of %d", m.GetChunks(), m.GetBase())
	case m.GetPart() > PushParts:
		return decodeErrorf(CodeInvalid, "part %d of a state", m.GetPart())
	case m.GetPart() == 0 && m.GetBase() != m.GetChunks():
		return decodeErrorf(CodeInvalid, "a whole state behind %d chunks with a base of %d", m.GetChunks(), m.GetBase())
	case m.GetPart() > 0 && len(m.GetFormer()) > 0:
		return decodeErrorf(CodeInvalid, "a change names %d former senders", len(m.GetFormer()))
	case len(m.GetDevice()) > maxPushDevice:
		return decodeErrorf(CodeInvalid, "device of %d bytes", len(m.GetDevice()))
	case len(m.GetFormer()) > MaxPushFormer:
		return decodeErrorf(CodeInvalid, "%d former senders", len(m.GetFormer()))
	}
	for _, s := range append([][]byte{m.GetSession()}, m.GetFormer()...) {
		if len(s) > MaxPushSession {
			return decodeErrorf(CodeInvalid, "sender of %d bytes", len(s))
		}
	}
	err := firstError(validName("run", m.GetRun()), validText("device", m.GetDevice()))
	for i, c := range m.GetChannels() {
		if err != nil {
			return err
		}
		if i > 0 && c.GetChannel() <= m.GetChannels()[i-1].GetChannel() {
			return decodeErrorf(CodeInvalid, "channel %d behind channel %d", c.GetChannel(), m.GetChannels()[i-1].GetChannel())
		}
		err = validPushChannel(c)
	}
	return err
}

func validPushChannel(c *streampb.PushChannel) error {
	finite := func(f float32) bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }
	switch {
	case c.GetReadStart() > maxReadClock || c.GetEnd() > 2*maxReadSamples:
		return decodeErrorf(CodeInvalid, "channel %d: a read from sample %d to %d behind that", c.GetChannel(), c.GetReadStart(), c.GetEnd())
	case !finite(c.GetCalibrationOffset()) || !finite(c.GetCalibrationScale()):
		return decodeErrorf(CodeInvalid, "channel %d: a calibration that is no number", c.GetChannel())
	}
	return validName("read", c.GetReadId())
}

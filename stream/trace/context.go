// Package trace decides which reads are followed on their way from current to
// variants, and defines what is recorded about them: identifiers, the header that
// carries them in Kafka, and spans. docs/operate/traces.md is the model.
//
// Nothing here does I/O or starts a goroutine; the caller of [New] gives the [Tracer]
// a clock and a sink for its spans. Identifiers follow from content, so all processes
// agree on which reads are traced, and work that is done twice has the same
// identifiers both times.
package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/porestream/porestream/stream"
)

// Header is the key of the record header that carries a [Context], as W3C Trace
// Context has it for HTTP.
const Header = "traceparent"

// TraceID names a trace: that of one read of one run.
type TraceID [16]byte

func (id TraceID) String() string { return hex.EncodeToString(id[:]) }

// SpanID names a span within its trace.
type SpanID [8]byte

func (id SpanID) String() string { return hex.EncodeToString(id[:]) }

// Context is where in a trace something belongs: below the span that led to it. The
// zero value is outside of any trace.
type Context struct {
	Trace TraceID
	Span  SpanID
}

// IsZero reports whether c is outside of any trace.
func (c Context) IsZero() bool { return c.Trace == TraceID{} }

// ReadTrace is the trace of a read.
func ReadTrace(run, read string) TraceID {
	h := sha256.New()
	h.Write([]byte("porestream trace 1\x00" + run + "\x00" + read))
	var id TraceID
	copy(id[:], h.Sum(nil))
	if id == (TraceID{}) {
		id[15] = 1 // zero is no trace
	}
	return id
}

// NameIngest is the name of a traced read's first span: from when its first chunk came
// in until all are in Kafka.
const NameIngest = "ingest"

// ReadPlace is the place of a read's first span, below which all others are.
func ReadPlace(run, read string) Context {
	return Context{Trace: ReadTrace(run, read)}.Child(NameIngest)
}

// Child is the place below a span of c's trace that is named by what it is about:
// the same content gives the same span.
func (c Context) Child(what ...string) Context {
	h := sha256.New()
	h.Write(c.Trace[:])
	h.Write(c.Span[:])
	for _, w := range what {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(w)))
		h.Write(length[:])
		h.Write([]byte(w))
	}
	child := Context{Trace: c.Trace}
	copy(child.Span[:], h.Sum(nil))
	if child.Span == (SpanID{}) {
		child.Span[7] = 1
	}
	return child
}

// parentLen is the length of the only version of the header that there is.
const parentLen = 55

// String is c as the header has it, sampled: what is not sampled has no header.
func (c Context) String() string {
	b := make([]byte, 0, parentLen)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, c.Trace[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, c.Span[:])
	return string(append(b, "-01"...))
}

var errParent = errors.New("want 00-, 32 and 16 hexadecimal digits in lower case, and two of flags")

// Parse reads a header's value. Of a later version it takes what version 0 has.
// sampled states whether the trace is recorded.
func Parse(value []byte) (c Context, sampled bool, err error) {
	fail := func() (Context, bool, error) {
		return Context{}, false, fmt.Errorf("%s of %d bytes: %w", Header, len(value), errParent)
	}
	if len(value) < parentLen || value[2] != '-' || value[35] != '-' || value[52] != '-' {
		return fail()
	}
	var version, flags [1]byte
	for _, f := range []struct{ to, from []byte }{{version[:], value[:2]}, {c.Trace[:], value[3:35]}, {c.Span[:], value[36:52]}, {flags[:], value[53:55]}} {
		// encoding/hex takes capitals, which the standard forbids.
		if slices.ContainsFunc(f.from, func(b byte) bool { return b >= 'A' && b <= 'F' }) {
			return fail()
		}
		if _, err := hex.Decode(f.to, f.from); err != nil {
			return fail()
		}
	}
	longer := len(value) > parentLen
	if version[0] == 0xff || longer && (version[0] == 0 || value[parentLen] != '-') || c.IsZero() || c.Span == (SpanID{}) {
		return fail()
	}
	return c, flags[0]&1 != 0, nil
}

// FromHeaders is the place in a trace that a record's headers name, if they name one
// that is recorded. What can't be read counts as nothing: a trace is no part of the
// record.
func FromHeaders(headers []stream.Header) Context {
	for i := range headers {
		if headers[i].Key != Header {
			continue
		}
		if c, sampled, err := Parse(headers[i].Value); err == nil && sampled {
			return c
		}
		return Context{}
	}
	return Context{}
}

// Inject has a record carry c, behind the headers that it has. Those are copied, for
// records may share them. A record that carries a place already keeps it: that of a
// dead letter is the letter's.
func Inject(out *stream.Out, c Context) {
	if c.IsZero() || slices.ContainsFunc(out.Headers, func(h stream.Header) bool { return h.Key == Header }) {
		return
	}
	headers := make([]stream.Header, len(out.Headers), len(out.Headers)+1)
	copy(headers, out.Headers)
	out.Headers = append(headers, stream.Header{Key: Header, Value: []byte(c.String())})
}

// sampler chooses traces by their identifier, as OpenTelemetry's ratio-based
// samplers do: the last 63 bits below a bound.
type sampler uint64

func newSampler(ratio float64) sampler {
	switch {
	case !(ratio > 0):
		return 0
	case ratio >= 1:
		return math.MaxUint64
	}
	return sampler(ratio * (1 << 63))
}

func (s sampler) takes(id TraceID) bool { return binary.BigEndian.Uint64(id[8:])>>1 < uint64(s) }

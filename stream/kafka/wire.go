package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// anyBroker routes a request to whichever broker answers.
const anyBroker int32 = -1

// maxFrame bounds a response we read ourselves. A broker may exceed the size
// asked for by one record batch; brokers that allow batches of this size don't
// exist.
const maxFrame = 256 << 20

// correlation is the id in our request headers. Connections carry one request
// at a time, so it only has to match.
const correlation int32 = 1

// call is a request that chooses its broker itself. The library would route by
// metadata it caches for seconds and answer metadata requests from that cache;
// after a leader has moved, that is too old.
type call struct {
	key     protocol.ApiKey
	broker  int32
	version int16
	do      func(rw io.ReadWriter, version int16) (any, error)
}

// reply carries a call's result through the library.
type reply struct {
	key   protocol.ApiKey
	value any
}

var (
	_ protocol.BrokerMessage = (*call)(nil)
	_ protocol.RawExchanger  = (*call)(nil)
)

func (c *call) ApiKey() protocol.ApiKey  { return c.key } //nolint:staticcheck // the interface is kafka-go's
func (r *reply) ApiKey() protocol.ApiKey { return r.key } //nolint:staticcheck // as above

// Broker picks the broker; the library has its address.
func (c *call) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	if c.broker == anyBroker {
		return protocol.Broker{ID: anyBroker}, nil
	}
	b, exists := cluster.Brokers[c.broker]
	if !exists {
		return protocol.Broker{}, kafka.BrokerNotAvailable
	}
	return b, nil
}

// Required takes note of the version that was negotiated for the connection.
func (c *call) Required(versions map[protocol.ApiKey]int16) bool {
	c.version = versions[c.key]
	return true
}

// RawExchange writes the request and reads the response.
func (c *call) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	v, err := c.do(rw, c.version)
	if err != nil {
		return nil, err
	}
	return &reply{key: c.key, value: v}, nil
}

// exchange performs one request. do may still be running when exchange returns
// early because ctx has ended: what do touches must not be reused.
func exchange[T any](ctx context.Context, c *Client, broker int32, key protocol.ApiKey, do func(rw io.ReadWriter, version int16) (T, error)) (T, error) {
	var none T
	// The deadline also ends the connection's part, which a cancelled context
	// does not.
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	m, err := c.transport.RoundTrip(ctx, c.addr, &call{
		key: key, broker: broker,
		do: func(rw io.ReadWriter, version int16) (any, error) { return do(rw, version) },
	})
	if err != nil {
		return none, err
	}
	return m.(*reply).value.(T), nil
}

// send performs a request of one of the library's message types.
func send[Res protocol.Message](ctx context.Context, c *Client, broker int32, req protocol.Message) (Res, error) {
	return sendAtLeast[Res](ctx, c, broker, 0, req)
}

// sendAtLeast is send for a request that is of no use below a version. The
// error for a broker that is too old is [kafka.UnsupportedVersion].
func sendAtLeast[Res protocol.Message](ctx context.Context, c *Client, broker int32, oldest int16, req protocol.Message) (Res, error) {
	return exchange(ctx, c, broker, req.ApiKey(), func(rw io.ReadWriter, version int16) (Res, error) {
		var none Res
		if version < oldest {
			return none, fmt.Errorf("the broker knows %s up to version %d, %d is needed (%w)", req.ApiKey(), version, oldest, kafka.UnsupportedVersion)
		}
		if err := protocol.WriteRequest(rw, version, correlation, c.cfg.ClientID, req); err != nil {
			return none, err
		}
		_, m, err := protocol.ReadResponse(rw, req.ApiKey(), version)
		if err != nil {
			return none, err
		}
		res, ok := m.(Res)
		if !ok {
			return none, fmt.Errorf("a %T answers a %T", m, req)
		}
		return res, nil
	})
}

// appendRequestHeader starts a request: a frame size to be filled in by
// [finishRequest] and header version 1.
func appendRequestHeader(b []byte, key protocol.ApiKey, version int16, clientID string) []byte {
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	return appendString(b, clientID)
}

// finishRequest fills in the frame size; extra bytes are written separately.
func finishRequest(b []byte, extra int) {
	binary.BigEndian.PutUint32(b, uint32(len(b)-4+extra))
}

func appendString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

// appendCompactString appends a string of a flexible message (KIP-482).
func appendCompactString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s))+1)
	return append(b, s...)
}

// readFrame reads a response and returns what follows its header, version 0.
func readFrame(r io.Reader) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, unexpectedEOF(err)
	}
	size := int64(binary.BigEndian.Uint32(head[:])) - 4
	if size < 0 || size > maxFrame {
		return nil, fmt.Errorf("response of %d bytes", size+4)
	}
	if id := int32(binary.BigEndian.Uint32(head[4:])); id != correlation {
		return nil, fmt.Errorf("response to request %d, not %d", id, correlation)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, unexpectedEOF(err)
	}
	return body, nil
}

func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// errShort is what a [decoder] reports once it has been asked for more than
// there is.
var errShort = errors.New("message ends early")

// decoder reads Kafka's primitive types. After the first failure it returns
// zeros and keeps the error.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) take(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > len(d.b) {
		d.err = errShort
		return nil
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) int8() int8 {
	if b := d.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (d *decoder) int16() int16 {
	if b := d.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (d *decoder) int32() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) int64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// string reads a string with a 16-bit length; a null one is empty.
func (d *decoder) string() string {
	n := d.int16()
	if n == -1 {
		return ""
	}
	return string(d.take(int(n)))
}

// bytes reads nullable bytes with a 32-bit length.
func (d *decoder) bytes() []byte {
	n := d.int32()
	if n < 0 {
		return nil
	}
	return d.take(int(n))
}

// count reads an array length and checks it against the bytes that are left,
// of which every element takes at least size. A null array has no elements.
func (d *decoder) count(size int) int {
	n := int(d.int32())
	if n > len(d.b)/size {
		d.err = errShort
		return 0
	}
	return max(n, 0)
}

func (d *decoder) uvarint() uint64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.err = errShort
		return 0
	}
	d.b = d.b[n:]
	return v
}

// compactString reads a string of a flexible message; a null one is empty.
func (d *decoder) compactString() string { return string(d.compactBytes()) }

func (d *decoder) compactBytes() []byte {
	n := d.uvarint()
	if n == 0 {
		return nil
	}
	if n-1 > uint64(len(d.b)) {
		d.err = errShort
		return nil
	}
	return d.take(int(n - 1))
}

// compactCount is count for an array of a flexible message.
func (d *decoder) compactCount(size int) int {
	n := d.uvarint()
	if n == 0 {
		return 0
	}
	if n-1 > uint64(len(d.b)/size) {
		d.err = errShort
		return 0
	}
	return int(n - 1)
}

// tags skips the tagged fields of a flexible message.
func (d *decoder) tags() {
	for range d.compactTags() {
		d.uvarint()
		size := d.uvarint()
		if size > uint64(len(d.b)) {
			d.err = errShort
			return
		}
		d.take(int(size))
	}
}

// compactTags is the number of tagged fields, which take two bytes each at
// least.
func (d *decoder) compactTags() int {
	n := d.uvarint()
	if n > uint64(len(d.b)/2) {
		d.err = errShort
		return 0
	}
	return int(n)
}

func (d *decoder) varint() int64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.err = errShort
		return 0
	}
	d.b = d.b[n:]
	return v
}

// varbytes reads bytes with a varint length; nil when that is negative.
func (d *decoder) varbytes() []byte {
	n := d.varint()
	if n < 0 || d.err != nil {
		return nil
	}
	if n > int64(len(d.b)) {
		d.err = errShort
		return nil
	}
	return d.take(int(n))
}

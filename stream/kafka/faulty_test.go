package kafka

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/require"
)

// faultyNetwork loses answers and requests on their way between a client and
// any broker.
type faultyNetwork struct {
	// Dial opens the connections; nil means TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu     sync.Mutex
	faults []*networkFault
}

// networkFault waits for requests of a kind.
type networkFault struct {
	key protocol.ApiKey
	// answer loses the response, after the broker has acted; otherwise the
	// request does not arrive.
	answer bool
	skip   int           // requests to leave alone first
	left   int           // requests to hit
	met    chan struct{} // gets a token for every hit, before the client notices
	then   func()        // runs at every hit, if set
}

// add makes a fault happen from now on.
func (f *faultyNetwork) add(fault *networkFault) *networkFault {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault.met = make(chan struct{}, 100)
	f.faults = append(f.faults, fault)
	return fault
}

// stop ends all faults.
func (f *faultyNetwork) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = nil
}

func (f *networkFault) hits() int { return len(f.met) }

// hit returns the fault that a request meets.
func (f *faultyNetwork) hit(key protocol.ApiKey) *networkFault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.faults {
		if fault.key != key || fault.left == 0 {
			continue
		}
		if fault.skip > 0 {
			fault.skip--
			continue
		}
		fault.left--
		return fault
	}
	return nil
}

func (f *networkFault) happen() {
	if f.then != nil {
		f.then()
	}
	f.met <- struct{}{}
}

func (f *faultyNetwork) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dial := f.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	conn, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &faultyConn{Conn: conn, network: f}, nil
}

// faultyConn follows the requests that are written to it.
type faultyConn struct {
	net.Conn
	network *faultyNetwork

	head  []byte        // of the request being written, as far as it is known
	rest  int           // bytes of the request still to come
	fault *networkFault // that the next response meets
}

const requestHead = 6 // size 4, key 2

func (c *faultyConn) Write(b []byte) (int, error) {
	for at := 0; at < len(b); {
		if c.rest > 0 {
			n := min(c.rest, len(b)-at)
			c.rest -= n
			at += n
			continue
		}
		n := min(requestHead-len(c.head), len(b)-at)
		c.head = append(c.head, b[at:at+n]...)
		at += n
		if len(c.head) < requestHead {
			break
		}
		c.rest = int(binary.BigEndian.Uint32(c.head)) - 2
		fault := c.network.hit(protocol.ApiKey(binary.BigEndian.Uint16(c.head[4:])))
		c.head = c.head[:0]
		if fault == nil {
			continue
		}
		if fault.answer {
			c.fault = fault
			continue
		}
		fault.happen()
		c.Close()
		return 0, io.ErrClosedPipe
	}
	return c.Conn.Write(b)
}

func (c *faultyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.fault != nil {
		// The broker has acted, and nobody is going to hear of it.
		c.fault.happen()
		c.fault = nil
		c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// dialFaulty connects through a network that can be made to lose things.
func dialFaulty(t testing.TB, addr string) (*Client, *faultyNetwork) {
	t.Helper()
	f := new(faultyNetwork)
	c, err := Connect(t.Context(), Config{Brokers: []string{addr}, Dial: f.dial})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c, f
}

package embedded

import (
	"encoding/binary"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// joinPatience bounds how long the end of a connection is kept from the broker.
// Apache Kafka gives a new member as long to join.
const joinPatience = 5 * time.Minute

// Listen opens a listener, as [net.Listen] does.
type Listen func(network, address string) (net.Listener, error)

// Patient makes kfake evict members of consumer groups that die while they join,
// when their session times out. It goes around kfake's listener:
//
//	kfake.ListenFn(embedded.Patient(net.Listen))
//
// A coordinator of Apache Kafka knows nothing of connections: the session of
// every member of a new generation begins when its join is answered, whether or
// not the answer arrives. kfake begins it only if the connection is still there,
// and a member without a session is never evicted: its partitions have no owner
// until the group rebalances for another reason, and a rebalance waits for it in
// vain. So the end of a connection is kept from kfake while it owes the answer to
// a JoinGroup or SyncGroup request. It does not work below TLS.
func Patient(listen Listen) Listen {
	return func(network, address string) (net.Listener, error) {
		ln, err := listen(network, address)
		if err != nil {
			return nil, err
		}
		return patientListener{ln}, nil
	}
}

type patientListener struct{ net.Listener }

func (l patientListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &patientConn{Conn: conn, closed: make(chan struct{})}, nil
}

// patientConn is the broker's end of a connection. It relies on kfake writing
// every answer at once.
type patientConn struct {
	net.Conn
	scanner joinScanner // of what is read

	once   sync.Once
	closed chan struct{}

	mu       sync.Mutex
	waiting  bool // for the answer to correlation
	owed     int32
	answered chan struct{}
}

func (c *patientConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.scanner.scan(b[:n], c.owe)
	if err != nil {
		c.wait()
	}
	return n, err
}

// owe notes that a join is to be answered.
func (c *patientConn) owe(correlation int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting, c.owed, c.answered = true, correlation, make(chan struct{})
}

// wait waits for the answer to the last join, if it is owed.
func (c *patientConn) wait() {
	c.mu.Lock()
	waiting, answered := c.waiting, c.answered
	c.mu.Unlock()
	if !waiting {
		return
	}
	timer := time.NewTimer(joinPatience)
	defer timer.Stop()
	select {
	case <-answered:
	case <-c.closed:
	case <-timer.C:
	}
}

func (c *patientConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if len(b) < 8 {
		return n, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting && int32(binary.BigEndian.Uint32(b[4:])) == c.owed { // behind the size
		c.waiting = false
		close(c.answered)
	}
	return n, err
}

func (c *patientConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// requestHead is a request's size, key, version and correlation id.
const requestHead = 4 + 2 + 2 + 4

// joinScanner finds requests to join in a stream of requests, however it is cut
// into pieces.
type joinScanner struct {
	head [requestHead]byte
	have int
	skip int64 // what is left of the request
}

// scan calls found with the correlation id of every JoinGroup and SyncGroup
// request whose head ends in b.
func (s *joinScanner) scan(b []byte, found func(correlation int32)) {
	for len(b) > 0 {
		if s.skip > 0 {
			n := min(s.skip, int64(len(b)))
			b, s.skip = b[n:], s.skip-n
			continue
		}
		n := copy(s.head[s.have:], b)
		b, s.have = b[n:], s.have+n
		if s.have < requestHead {
			return
		}
		s.have = 0
		s.skip = max(0, int64(binary.BigEndian.Uint32(s.head[:]))+4-requestHead)
		switch kmsg.Key(binary.BigEndian.Uint16(s.head[4:])) {
		case kmsg.JoinGroup, kmsg.SyncGroup:
			found(int32(binary.BigEndian.Uint32(s.head[8:])))
		}
	}
}

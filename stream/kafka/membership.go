package kafka

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// closeGrace is how long leaving a group may take in peace.
const closeGrace = 2 * time.Second

// membership is the library's group with a way to end it soon: its own Close
// waits for an answer to a join, which other members can delay by a minute.
type membership struct {
	*kafka.ConsumerGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// newMembership starts to join. dialer is copied.
func newMembership(cfg kafka.ConsumerGroupConfig, dialer *kafka.Dialer) (*membership, error) {
	m := &membership{conns: make(map[net.Conn]struct{})}
	d := *dialer
	dial := d.DialFunc
	d.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		tracked := &trackedConn{Conn: conn, m: m}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.conns[tracked] = struct{}{}
		return tracked, nil
	}
	cfg.Dialer = &d
	group, err := kafka.NewConsumerGroup(cfg)
	if err != nil {
		return nil, err
	}
	m.ConsumerGroup = group
	return m, nil
}

// trackedConn leaves the membership's list when it is closed.
type trackedConn struct {
	net.Conn
	m *membership
}

func (c *trackedConn) Close() error {
	c.m.mu.Lock()
	delete(c.m.conns, c)
	c.m.mu.Unlock()
	return c.Conn.Close()
}

// close leaves the group. A request that is not answered within closeGrace is
// cut off; the library then leaves through a connection of its own.
func (m *membership) close() {
	left := make(chan struct{})
	go func() {
		defer close(left)
		// It has no error to return.
		_ = m.ConsumerGroup.Close()
	}()
	for {
		select {
		case <-left:
			return
		case <-time.After(closeGrace):
			m.cut()
		}
	}
}

func (m *membership) cut() {
	m.mu.Lock()
	conns := make([]net.Conn, 0, len(m.conns))
	for c := range m.conns {
		conns = append(conns, c)
	}
	m.mu.Unlock()
	for _, c := range conns {
		// The reader or writer that is cut off reports it.
		_ = c.Close()
	}
}

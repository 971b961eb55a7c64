package streamtest

import (
	"net"
	"sync"
	"time"
)

// link is the state of the network that a proxy plays.
type link struct {
	delay time.Duration
	cut   bool
}

// proxy passes on the connections to one address, through a network that can
// be made worse.
type proxy struct {
	listener net.Listener
	to       string
	conns    sync.WaitGroup

	mu      sync.Mutex
	link    link
	changed chan struct{} // closed when link changes
	closed  chan struct{}
}

const (
	proxyChunk = 64 << 10
	// proxyChunks bounds what is under way in one direction of one connection.
	proxyChunks = 256
)

func newProxy(to string) (*proxy, error) {
	ln, err := net.Listen("tcp", loopback)
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: ln, to: to, changed: make(chan struct{}), closed: make(chan struct{})}
	p.conns.Go(p.accept)
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) set(change func(*link)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.link)
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *proxy) now() (link, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link, p.changed
}

func (p *proxy) close() {
	select {
	case <-p.closed:
		return
	default:
	}
	close(p.closed)
	p.listener.Close()
	p.conns.Wait()
}

func (p *proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.conns.Go(func() { p.serve(conn.(*net.TCPConn)) })
	}
}

// serve connects a client at once, or not at all: a broker that has ended
// refuses, which the client sees as a reset.
func (p *proxy) serve(client *net.TCPConn) {
	conn, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = client.SetLinger(0)
		client.Close()
		return
	}
	broker := conn.(*net.TCPConn)
	ended := make(chan struct{})
	var both, ways sync.WaitGroup
	both.Go(func() {
		select {
		case <-ended:
		case <-p.closed:
		}
		client.Close()
		broker.Close()
	})
	ways.Go(func() { p.pass(broker, client) })
	ways.Go(func() { p.pass(client, broker) })
	ways.Wait()
	close(ended)
	both.Wait()
}

// piece is data that has been read, or with none the connection's end.
type piece struct {
	data []byte
	at   time.Time
}

// pass moves one direction. What is read is due after the delay that holds
// when it is written, so that a delay's end is felt at once.
func (p *proxy) pass(to, from *net.TCPConn) {
	pieces := make(chan piece, proxyChunks)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(pieces)
		for {
			b := make([]byte, proxyChunk)
			n, err := from.Read(b)
			if n > 0 {
				pieces <- piece{b[:n], time.Now()}
			}
			if err != nil {
				pieces <- piece{nil, time.Now()}
				return
			}
		}
	})
	for next := range pieces {
		if !p.await(next.at) || next.data == nil {
			break
		}
		if _, err := to.Write(next.data); err != nil {
			break
		}
	}
	// Both ways end with either: half-closed connections are not Kafka's.
	to.Close()
	from.Close()
	for range pieces {
	}
	reading.Wait()
}

// await waits until what was read at that time is through; false if the proxy
// ends before.
func (p *proxy) await(at time.Time) bool {
	for {
		l, changed := p.now()
		wait := time.Until(at.Add(l.delay))
		if !l.cut && wait <= 0 {
			return true
		}
		var due <-chan time.Time
		var timer *time.Timer
		if !l.cut {
			timer = time.NewTimer(wait)
			due = timer.C
		}
		select {
		case <-due:
		case <-changed:
		case <-p.closed:
			return false
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

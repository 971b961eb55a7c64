package streamtest

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo answers every connection with what it says.
func echo(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", loopback)
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return ln.Addr().String()
}

func through(t *testing.T, p *proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.addr())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func newTestProxy(t *testing.T, to string) *proxy {
	t.Helper()
	p, err := newProxy(to)
	require.NoError(t, err)
	t.Cleanup(p.close)
	return p
}

func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
}

func hear(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	b := make([]byte, len(text))
	_, err := io.ReadFull(conn, b)
	require.NoError(t, err)
	require.Equal(t, text, string(b))
}

func TestProxyDelaysBothWays(t *testing.T) {
	p := newTestProxy(t, echo(t))
	conn := through(t, p)
	say(t, conn, "at once")
	hear(t, conn, "at once")
	const delay = 100 * time.Millisecond
	p.set(func(l *link) { l.delay = delay })
	start := time.Now()
	say(t, conn, "later")
	hear(t, conn, "later")
	require.GreaterOrEqual(t, time.Since(start), 2*delay)
}

func TestProxyCutKeepsWhatIsUnderWay(t *testing.T) {
	p := newTestProxy(t, echo(t))
	conn := through(t, p)
	say(t, conn, "first")
	hear(t, conn, "first")
	p.set(func(l *link) { l.cut = true })
	say(t, conn, "second")
	other := through(t, p)
	say(t, other, "third")
	for _, c := range []net.Conn{conn, other} {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		_, err := c.Read(make([]byte, 1))
		var timeout net.Error
		require.ErrorAs(t, err, &timeout, "nothing may come through")
		require.True(t, timeout.Timeout())
		require.NoError(t, c.SetReadDeadline(time.Time{}))
	}
	p.set(func(l *link) { *l = link{} })
	hear(t, conn, "second")
	hear(t, other, "third")
}

func TestProxyRefusesWhereNobodyListens(t *testing.T) {
	addrs, err := freeAddrs(1)
	require.NoError(t, err)
	// The reset may come while the connection is made or right after.
	conn, err := net.Dial("tcp", newTestProxy(t, addrs[0]).addr())
	if err == nil {
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1))
	}
	require.Error(t, err)
}

func TestProxyCloseEndsConnections(t *testing.T) {
	p := newTestProxy(t, echo(t))
	conn := through(t, p)
	say(t, conn, "x")
	hear(t, conn, "x")
	p.set(func(l *link) { l.cut = true })
	say(t, conn, "held back")
	p.close()
	_, err := conn.Read(make([]byte, 1))
	require.Error(t, err)
}

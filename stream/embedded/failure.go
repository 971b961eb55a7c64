package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
)

// failure is that a broker's log can't be written.
//
// Problem: kfake notes the sequence of a batch before it writes the batch. A write that fails, on a
// full disk, is answered with an error that clients take for one of the moment; they send the batch
// again, and that is answered as a repetition of what is in the log. So the batch is lost, and
// everybody takes it for written.
//
// Strategy: kfake says in its log what it couldn't write, before it answers. From then on no answer
// leaves the broker, so that nobody believes in anything behind the gap, and who started
// the broker learns of it by Failed.
//
// Consequences: what clients have not been answered by then is in doubt, as after a crash.
type failure struct {
	folder string
	failed chan struct{} // closed when err is set
	once   sync.Once
	err    error
}

func newFailure(folder string) *failure {
	return &failure{folder: folder, failed: make(chan struct{})}
}

// logged takes a line that kfake logs.
func (f *failure) logged(level kfake.LogLevel, format string, args []any) {
	if level != kfake.LogLevelWarn && level != kfake.LogLevelError || !strings.HasPrefix(format, "persist ") && !strings.Contains(format, "failed to persist") {
		return
	}
	f.once.Do(func() {
		f.err = fmt.Errorf("embedded broker: its log in %s can't be written, and records would be lost: %s", f.folder, strings.TrimSpace(fmt.Sprintf(format, args...)))
		close(f.failed)
	})
}

// errMuted is what writing to a client of a broker that has failed returns.
var errMuted = errors.New("the broker's log can't be written")

// mutedListener gives connections on which nothing is written once the broker has failed.
type mutedListener struct {
	net.Listener
	failure *failure
}

func (l mutedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return mutedConn{conn, l.failure}, nil
}

type mutedConn struct {
	net.Conn
	failure *failure
}

func (c mutedConn) Write(b []byte) (int, error) {
	select {
	case <-c.failure.failed:
		return 0, errMuted
	default:
		return c.Conn.Write(b)
	}
}

// Failed is closed when the broker can't write its log, as on a disk that is full. It answers nobody
// from then on; Err says why.
func (b *Broker) Failed() <-chan struct{} { return b.failure.failed }

// Wait waits until the context ends, or until the broker fails, and returns why it has.
func (b *Broker) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-b.Failed():
		return b.Err()
	}
}

// Err is why the broker has failed; nil if it hasn't.
func (b *Broker) Err() error {
	select {
	case <-b.failure.failed:
		return b.failure.err
	default:
		return nil
	}
}

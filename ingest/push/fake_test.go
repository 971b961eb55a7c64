package push

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/porestream/porestream/ingest"
	client "github.com/porestream/porestream/push"
	"github.com/porestream/porestream/push/pushpb"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// fakeKafka is a cluster in memory with transactions.
type fakeKafka struct {
	mu      sync.Mutex
	signal  []*streampb.SignalRecord // committed, in order
	runs    map[string]*streampb.Run
	cursors map[string]*streampb.Cursor
	states  map[string][]*streampb.PushState
	epochs  map[string]int
	away    bool
}

func newFakeKafka() *fakeKafka {
	return &fakeKafka{runs: make(map[string]*streampb.Run), cursors: make(map[string]*streampb.Cursor), states: make(map[string][]*streampb.PushState), epochs: make(map[string]int)}
}

func (k *fakeKafka) setAway(away bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away = away
}

// chunks are the committed chunks of a run.
func (k *fakeKafka) chunks(run string) []*streampb.SignalChunk {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []*streampb.SignalChunk
	for _, rec := range k.signal {
		if c := rec.GetChunk(); c != nil && c.GetRun() == run {
			out = append(out, c)
		}
	}
	return out
}

func (k *fakeKafka) ended(run string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cursors[run].GetEnded()
}

var errAway = errors.New("broker is away")

// process is a cluster as one process sees it. A process that was killed does
// nothing any more.
type process struct {
	*fakeKafka
	dead    bool
	forgets bool // signal, which would fill the memory
	// dies, if set, is asked before each operation.
	dies func(op string) bool
}

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
}

func (p *process) do(op string, f func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dead && p.dies != nil && p.dies(op) {
		p.dead = true
	}
	if p.dead || p.away {
		return errAway
	}
	return f()
}

func (p *process) Open(_ context.Context, run string) (ingest.Writer, error) {
	w := &fakeWriter{process: p, run: run}
	err := p.do("open", func() error {
		p.epochs[run]++
		w.epoch = p.epochs[run]
		return nil
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (p *process) Cursor(_ context.Context, run string, _ bool) (c *streampb.Cursor, err error) {
	err = p.do("cursor", func() error {
		c = p.cursors[run]
		return nil
	})
	return c, err
}

func (p *process) Announced(_ context.Context, run string) (m *streampb.Run, err error) {
	err = p.do("announced", func() error {
		m = p.runs[run]
		return nil
	})
	return m, err
}

func (p *process) PushStates(_ context.Context, run string) (states []*streampb.PushState, err error) {
	err = p.do("push states", func() error {
		states = newestState(p.states[run])
		return nil
	})
	return states, err
}

// newestState is the newest whole state of a log, and what is behind it.
func newestState(log []*streampb.PushState) (states []*streampb.PushState) {
	for _, s := range log {
		if s.GetPart() == 0 {
			states = states[:0]
		}
		states = append(states, s)
	}
	return states
}

type fakeWriter struct {
	*process
	run   string
	epoch int
	open  []stream.Out
}

func (w *fakeWriter) Send(_ context.Context, outs []stream.Out) error {
	return w.do("send", func() error {
		if w.epoch != w.epochs[w.run] {
			return ingest.ErrFenced
		}
		w.open = append(w.open, outs...)
		return nil
	})
}

func (w *fakeWriter) Commit(context.Context) error {
	return w.do("commit", func() error {
		if w.epoch != w.epochs[w.run] {
			return ingest.ErrFenced
		}
		for _, o := range w.open {
			switch o.Topic {
			case "cursors":
				if bytes.HasPrefix(o.Key, []byte(stream.PushStatePrefix(w.run))) {
					m, err := stream.DecodePushState(o.Value)
					if err != nil {
						return &ingest.PermanentError{Err: err}
					}
					w.states[w.run] = append(w.states[w.run], m)
					continue
				}
				c, err := stream.DecodeCursor(o.Value)
				if err != nil {
					return &ingest.PermanentError{Err: err}
				}
				w.cursors[w.run] = c
			case "runs":
				m, err := stream.DecodeRun(o.Value)
				if err != nil {
					return &ingest.PermanentError{Err: err}
				}
				w.runs[w.run] = m
			default:
				if w.forgets {
					continue
				}
				m, err := stream.DecodeSignal(o.Value)
				if err != nil {
					return &ingest.PermanentError{Err: err}
				}
				w.signal = append(w.signal, m)
			}
		}
		w.open = nil
		return nil
	})
}

func (w *fakeWriter) Close(context.Context) {}

// bench is a server that can be killed and started again, and the network before
// it.
type bench struct {
	t     testing.TB
	kafka *fakeKafka
	edit  func(*Config)
	dies  func(op string) bool
	// options are those of the gRPC server.
	options []grpc.ServerOption

	mu       sync.Mutex
	listener *bufconn.Listener
	conns    []net.Conn
	server   *Server
	process  *process
	stop     context.CancelFunc
	stopped  []chan error
}

func newBench(t testing.TB, edit func(*Config)) *bench {
	b := &bench{t: t, kafka: newFakeKafka(), edit: edit}
	b.start()
	return b
}

var testLimits = Limits{ChunkSamples: 100_000}

// start starts a server, beside others that were killed.
func (b *bench) start() {
	p := &process{fakeKafka: b.kafka, dies: b.dies}
	authority, err := NewAuthority(AuthorityConfig{Defaults: testLimits})
	if err != nil {
		b.t.Fatal(err)
	}
	cfg := Config{
		Ingest: ingest.ServiceConfig{
			Config:             ingest.Config{Topics: stream.NewTopics(""), Partitions: 1},
			TransactionTimeout: time.Minute, MaxBuffered: 64 << 20, SpoolMax: 1 << 30, Cluster: p,
		},
		Catalogue: p, Authority: authority, Runs: 4, Idle: time.Hour,
	}
	if b.edit != nil {
		b.edit(&cfg)
	}
	server, err := NewServer(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(b.t.Context()))
	listener, stopped := bufconn.Listen(1<<20), make(chan error, 1)
	b.mu.Lock()
	b.listener, b.server, b.process, b.stop = listener, server, p, stop
	b.stopped = append(b.stopped, stopped)
	b.mu.Unlock()
	go func() { stopped <- server.Run(ctx, listener, b.options...) }()
}

// kill ends the server as if its process were killed: nothing that it has not
// committed happens any more, and its connections are cut.
func (b *bench) kill() {
	b.mu.Lock()
	p, stop := b.process, b.stop
	b.mu.Unlock()
	p.kill()
	b.cut()
	stop()
}

// cut cuts all connections.
func (b *bench) cut() {
	b.mu.Lock()
	conns := b.conns
	b.conns = nil
	b.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}

// close stops the newest server in order and waits for all of them.
func (b *bench) close() {
	b.stop()
	for _, s := range b.stopped {
		if err := <-s; err != nil {
			b.t.Error(err)
		}
	}
	b.cut()
}

func (b *bench) dial(ctx context.Context, _ string) (net.Conn, error) {
	b.mu.Lock()
	listener := b.listener
	b.mu.Unlock()
	c, err := listener.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.conns = append(b.conns, c)
	b.mu.Unlock()
	return c, nil
}

// client is one of package push.
func (b *bench) client(edit func(*client.Config)) *client.Client {
	cfg := client.Config{Target: "passthrough:bench", DialOptions: []grpc.DialOption{grpc.WithContextDialer(b.dial)}}
	if edit != nil {
		edit(&cfg)
	}
	c, err := client.Dial(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// api speaks the contract without a client's help.
func (b *bench) api() (pushpb.PushClient, func()) {
	conn, err := grpc.NewClient("passthrough:bench", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(b.dial),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		b.t.Fatal(err)
	}
	return pushpb.NewPushClient(conn), func() { conn.Close() }
}

package cluster_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/ingest/cluster"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streamtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(brokerVariable) != "" {
		os.Exit(serveBroker())
	}
	os.Exit(streamtest.Main(m))
}

const partitions = 3

// recorded is a part of a real recording of phage lambda.
type recorded struct {
	*signal.Index
	reads int
	skip  int // so many at the beginning are left out
	// broken, if set, is asked before a read's samples are fetched.
	broken func(read int) error
}

func (r *recorded) Len() int { return r.reads - r.skip }

func (r *recorded) Entry(i int) signal.Read { return r.Index.Entry(i + r.skip) }

func (r *recorded) Samples(i int, buf []int16) ([]int16, error) {
	if r.broken != nil {
		if err := r.broken(i); err != nil {
			return nil, err
		}
	}
	return r.Index.Samples(i+r.skip, buf)
}

func lambda(t testing.TB, reads int) *recorded {
	t.Helper()
	x, err := signal.NewIndex(t.Context(), []string{filepath.Join("..", "..", "testdata", "lambda", "reads.pod5")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return &recorded{Index: x, reads: min(reads, x.Len())}
}

// lab is one deployment on a broker.
type lab struct {
	addr   string
	prefix string
	topics stream.Topics
	client *kafka.Client
}

func newLab(t testing.TB, addr, name string) *lab {
	t.Helper()
	prefix := strings.ToLower(strings.NewReplacer("/", ".", " ", "_").Replace(t.Name())) + "-" + name + "-"
	l := &lab{addr: addr, prefix: prefix, topics: stream.NewTopics(prefix)}
	l.client = connect(t, addr, nil)
	if err := l.client.EnsureTopics(t.Context(), l.topics.Settings(partitions), 0); err != nil {
		t.Fatal(err)
	}
	return l
}

func connect(t testing.TB, addr string, logger *slog.Logger) *kafka.Client {
	t.Helper()
	client, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{addr}, Logger: logger, DialTimeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// ingest runs an ingest of its own; edit may change its settings.
func (l *lab) ingest(ctx context.Context, t testing.TB, rec ingest.Recording, edit func(*ingest.ServiceConfig)) (ingest.Totals, error) {
	t.Helper()
	const timeout = 30 * time.Second
	cfg := ingest.ServiceConfig{
		Config: ingest.Config{Topics: l.topics, Partitions: partitions, Logger: logTo(t.Output())},
		Cluster: cluster.New(connect(t, l.addr, nil), cluster.Config{
			Topics: l.topics, Prefix: l.prefix, TransactionTimeout: timeout, MaxBuffered: 16 << 20,
		}),
		TransactionTimeout: timeout, MaxBuffered: 64 << 20, SpoolMax: 1 << 30,
	}
	if edit != nil {
		edit(&cfg)
	}
	return ingest.Run(ctx, rec, cfg)
}

// signal reads what is committed on the signal topic, by partition.
func (l *lab) signal(t testing.TB) [partitions][]string {
	t.Helper()
	// A commit is decided before all of its markers are written.
	streamtest.Eventually(t.Context(), t, "the end of the last transaction", func() bool {
		offsets, err := l.client.Offsets(t.Context(), l.topics.Signal)
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(offsets, func(o kafka.PartitionOffsets) bool { return o.Stable < o.End })
	})
	var out [partitions][]string
	err := l.client.Consume(t.Context(), l.topics.Signal, kafka.ConsumeOptions{From: kafka.FromStart, UntilEnd: true}, func(rec stream.Record) error {
		out[rec.Partition] = append(out[rec.Partition], string(rec.Key)+"="+string(rec.Value))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// awaitCommitted waits until so many records of signal, ends of transactions among
// them, are committed.
func (l *lab) awaitCommitted(t testing.TB, records int64) {
	t.Helper()
	streamtest.Eventually(t.Context(), t, "committed signal", func() bool {
		offsets, err := l.client.Offsets(t.Context(), l.topics.Signal)
		if err != nil {
			t.Fatal(err)
		}
		committed := int64(0)
		for _, o := range offsets {
			committed += o.Stable
		}
		return committed >= records
	})
}

func same(t *testing.T, got, want [partitions][]string) {
	t.Helper()
	for p := range want {
		for i := range max(len(got[p]), len(want[p])) {
			if i >= len(got[p]) || i >= len(want[p]) || got[p][i] != want[p][i] {
				t.Fatalf("partition %d: %d records, want %d; the first that differs is %d", p, len(got[p]), len(want[p]), i)
			}
		}
	}
}

func (l *lab) whole(t *testing.T, rec ingest.Recording) [partitions][]string {
	t.Helper()
	if _, err := l.ingest(t.Context(), t, rec, nil); err != nil {
		t.Fatal(err)
	}
	return l.signal(t)
}

// mortal is a cluster as a process sees it that ends without notice.
type mortal struct {
	ingest.Cluster
	abort bool // what is open, rather than leave it open
	dead  atomic.Bool
}

var errDead = errors.New("there is nobody any more")

func (m *mortal) Open(ctx context.Context, run string) (ingest.Writer, error) {
	if m.dead.Load() {
		return nil, errDead
	}
	w, err := m.Cluster.Open(ctx, run)
	return &mortalWriter{w, m}, err
}

type mortalWriter struct {
	ingest.Writer
	*mortal
}

func (w *mortalWriter) Commit(ctx context.Context) error {
	if w.dead.Load() {
		return errDead
	}
	return w.Writer.Commit(ctx)
}

func (w *mortalWriter) Close(ctx context.Context) {
	if !w.dead.Load() || w.abort {
		w.Writer.Close(ctx)
	}
}

func TestGoesOnWhereItStopped(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		rec := lambda(t, 60)
		want := newLab(t, addr, "whole").whole(t, rec)
		l := newLab(t, addr, "resumed")
		unplugged := errors.New("the file is on a disk that was unplugged")
		for i, at := range []int{3, 20, 21, 40, 50, 59} {
			m := &mortal{abort: i%3 == 1}
			rec.broken = func(read int) error {
				if read != at {
					return nil
				}
				m.dead.Store(i%3 > 0) // in turn it stops in order, can't commit, and just dies
				return unplugged
			}
			_, err := l.ingest(t.Context(), t, rec, func(cfg *ingest.ServiceConfig) {
				m.Cluster = cfg.Cluster
				cfg.Cluster = m
			})
			if !errors.Is(err, unplugged) {
				t.Fatal(err)
			}
		}
		rec.broken = nil
		if _, err := l.ingest(t.Context(), t, rec, nil); err != nil {
			t.Fatal(err)
		}
		same(t, l.signal(t), want)

		// The run has ended: nothing more is sent, unless asked for.
		for _, restart := range []bool{false, true} {
			var log strings.Builder
			totals, err := l.ingest(t.Context(), t, rec, func(cfg *ingest.ServiceConfig) {
				cfg.Restart, cfg.Logger = restart, logTo(&log)
			})
			if err != nil {
				t.Fatal(err)
			}
			if !restart {
				if totals != (ingest.Totals{}) || !strings.Contains(log.String(), "in Kafka to its end") {
					t.Errorf("%+v were sent of a run that has ended: %s", totals, log.String())
				}
				same(t, l.signal(t), want)
				continue
			}
			twice := want
			for p := range twice {
				twice[p] = append(twice[p][:len(twice[p]):len(twice[p])], want[p]...)
			}
			same(t, l.signal(t), twice)
		}
	})
}

// TestTwoIngests: the first one is fenced, and the run is in Kafka once.
func TestTwoIngests(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		rec := lambda(t, 60)
		want := newLab(t, addr, "whole").whole(t, rec)
		l := newLab(t, addr, "two")
		begun, goOn := make(chan struct{}), make(chan struct{})
		first := lambda(t, 60)
		first.broken = func(read int) error {
			if read == 30 {
				close(begun)
				<-goOn
			}
			return nil
		}
		over := make(chan error)
		go func() {
			_, err := l.ingest(t.Context(), t, first, nil)
			over <- err
		}()
		<-begun
		var sent atomic.Int64
		second := lambda(t, 60)
		second.broken = func(int) error {
			if sent.Add(1) == 5 {
				close(goOn) // from now on both send
			}
			return nil
		}
		if _, err := l.ingest(t.Context(), t, second, nil); err != nil {
			t.Errorf("the second: %v", err)
		}
		err := <-over
		if !errors.Is(err, ingest.ErrFenced) || strings.Contains(err.Error(), "\n") {
			t.Errorf("the first: %v, want that it was fenced", err)
		}
		same(t, l.signal(t), want)
	})
}

// TestCursorBehindOtherRun: a transaction of another run that is open hides what
// was committed after it began. A cursor is not taken for the newest before that
// is over.
func TestCursorBehindOtherRun(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		l := newLab(t, addr, "x")
		c := cluster.New(l.client, cluster.Config{Topics: l.topics, Prefix: l.prefix, TransactionTimeout: 30 * time.Second, MaxBuffered: 1 << 20})
		write := func(run string, next uint64, commit bool) ingest.Writer {
			w, err := c.Open(t.Context(), run)
			if err == nil {
				err = w.Send(t.Context(), []stream.Out{cursorOf(t, l, run, next)})
			}
			if err == nil && commit {
				err = w.Commit(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		// until waits for a state of the topic, and returns its end.
		until := func(what string, holds func(o kafka.PartitionOffsets) bool) (end int64) {
			streamtest.Eventually(t.Context(), t, what, func() bool {
				o, err := l.client.Offsets(t.Context(), l.topics.Cursors)
				if err != nil {
					t.Fatal(err)
				}
				end = o[0].End
				return holds(o[0])
			})
			return end
		}
		write("a", 7, true).Close(t.Context())
		// A broker answers a commit before its marker is in the log.
		end := until("the commit's marker", func(o kafka.PartitionOffsets) bool { return o.End > 0 && o.Stable == o.End })
		other := write("b", 1, false)
		// The open one has to be in the log before the next.
		until("the open transaction", func(o kafka.PartitionOffsets) bool { return o.End > end && o.Stable < o.End })
		write("a", 8, true).Close(t.Context())
		if got, err := c.Cursor(t.Context(), "a", false); err != nil || got.GetNext() != 7 {
			t.Errorf("what can be seen is cursor %v, %v; want 7", got, err)
		}
		done := make(chan uint64)
		go func() {
			got, err := c.Cursor(t.Context(), "a", true)
			if err != nil {
				t.Error(err)
			}
			done <- got.GetNext()
		}()
		if err := other.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if next := <-done; next != 8 {
			t.Errorf("the settled cursor is %d, want 8", next)
		}
		if got, err := c.Cursor(t.Context(), "unheard of", true); err != nil || got != nil {
			t.Errorf("%v, %v; want no cursor", got, err)
		}
	})
}

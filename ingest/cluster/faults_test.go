package cluster_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/ingest/cluster"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/streamtest"
	"github.com/porestream/porestream/testenv"
)

func cursorOf(t testing.TB, l *lab, run string, next uint64) stream.Out {
	t.Helper()
	value, err := stream.EncodeCursor(&streampb.Cursor{
		Run: run, Next: next, Digest: make([]byte, stream.CursorDigestLen), Owner: make([]byte, stream.CursorOwnerLen),
		Sample: "s", ChunkSamples: 4000, Partitions: partitions,
	})
	if err != nil {
		t.Fatal(err)
	}
	return stream.Out{Topic: l.topics.Cursors, Partition: stream.AnyPartition, Key: []byte(run), Value: value}
}

// TestFaults: what a user has to mend ends ingest with one line that says so.
// docs/attach/ingest.md lists these.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		key  kmsg.Key
		err  *kerr.Error
		want []string // parts of the line
	}{
		{"topic not authorised", kmsg.Produce, kerr.TopicAuthorizationFailed, []string{"-cursors", "Topic Authorization Failed"}},
		{"transactional id not authorised", kmsg.InitProducerID, kerr.TransactionalIDAuthorizationFailed, []string{"transactional id", "ingest/", "ACL operations Write and Describe"}},
		{"transaction timeout", kmsg.InitProducerID, kerr.InvalidTransactionTimeout, []string{"transaction timeout of 30s", "transaction.max.timeout.ms"}},
		{"message too large", kmsg.Produce, kerr.MessageTooLarge, []string{"max.message.bytes", "--chunk", "--restart"}},
		{"old broker", kmsg.InitProducerID, kerr.UnsupportedVersion, []string{"Kafka 2.5"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			broker := streamtest.Kfake(t)
			l := newLab(t, broker.ListenAddrs()[0], "x")
			streamtest.Refuse(broker, c.key, c.err, 1000)
			_, err := l.ingest(t.Context(), t, lambda(t, 20), nil)
			explained(t, err, c.want...)
		})
	}
	t.Run("topic missing", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, streamtest.Kfake(t).ListenAddrs()[0], "x")
		_, err := l.ingest(t.Context(), t, lambda(t, 20), func(cfg *ingest.ServiceConfig) { cfg.Topics.Signal = "gone" })
		explained(t, err, "topic gone does not exist", "start it again")
	})
}

func explained(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil || strings.Contains(err.Error(), "\n") || slices.ContainsFunc(want, func(s string) bool { return !strings.Contains(err.Error(), s) }) {
		t.Errorf("%v, want one line with %q", err, want)
	}
}

// TestPassingFaults: what passes by itself is ridden out, and the run is in Kafka
// once.
func TestPassingFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		key  kmsg.Key
		err  *kerr.Error
	}{
		{"coordinator moves", kmsg.EndTxn, kerr.NotCoordinator},
		{"coordinator loads", kmsg.InitProducerID, kerr.CoordinatorLoadInProgress},
		{"concurrent transactions", kmsg.AddPartitionsToTxn, kerr.ConcurrentTransactions},
		{"not enough replicas", kmsg.Produce, kerr.NotEnoughReplicas},
		{"expired transaction", kmsg.EndTxn, kerr.ProducerFenced},
		{"forgotten producer", kmsg.AddPartitionsToTxn, kerr.InvalidProducerIDMapping},
		{"expired at produce", kmsg.Produce, kerr.InvalidProducerEpoch},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			broker := streamtest.Kfake(t)
			addr := broker.ListenAddrs()[0]
			want := newLab(t, addr, "whole").whole(t, lambda(t, 20))
			l := newLab(t, addr, "x")
			rec := lambda(t, 20)
			rec.broken = func(read int) error {
				if read == 10 {
					streamtest.Refuse(broker, c.key, c.err, 2)
				}
				return nil
			}
			_, err := l.ingest(t.Context(), t, rec, func(cfg *ingest.ServiceConfig) {
				cfg.TransactionTimeout = time.Nanosecond // any transaction may have expired
			})
			if err != nil {
				t.Fatal(err)
			}
			same(t, l.signal(t), want)
		})
	}
	t.Run("commit that is answered with a time-out", func(t *testing.T) {
		t.Parallel()
		broker := streamtest.Kfake(t)
		addr := broker.ListenAddrs()[0]
		want := newLab(t, addr, "whole").whole(t, lambda(t, 20))
		l := newLab(t, addr, "x")
		streamtest.AfterApply(broker, kmsg.EndTxn, 3)
		if _, err := l.ingest(t.Context(), t, lambda(t, 20), nil); err != nil {
			t.Fatal(err)
		}
		same(t, l.signal(t), want)
	})
}

// TestClockAhead: while the brokers refuse the records' time, one line says to check the clock, and
// once it is right the run is in Kafka, whole and once.
func TestClockAhead(t *testing.T) {
	broker := streamtest.Kfake(t)
	addr := broker.ListenAddrs()[0]
	want := newLab(t, addr, "whole").whole(t, lambda(t, 20))
	l := newLab(t, addr, "x")
	rec := lambda(t, 20)
	rec.broken = func(read int) error {
		if read == 10 {
			streamtest.Refuse(broker, kmsg.Produce, kerr.InvalidTimestamp, 9)
		}
		return nil
	}
	var log testenv.Log
	if _, err := l.ingest(t.Context(), t, rec, func(cfg *ingest.ServiceConfig) {
		cfg.Logger = logTo(&log)
		cfg.Cluster = cluster.New(connect(t, addr, logTo(&log)), cluster.Config{
			Topics: l.topics, Prefix: l.prefix, TransactionTimeout: 30 * time.Second, MaxBuffered: 16 << 20, Logger: logTo(&log),
		})
	}); err != nil {
		t.Fatal(err)
	}
	same(t, l.signal(t), want)
	logged := log.String()
	if n := strings.Count(logged, "check this machine's clock"); n != 1 {
		t.Errorf("%d lines about the clock:\n%s", n, logged)
	}
	if strings.Count(logged, "level=WARN") != 1 || !strings.Contains(logged, "Kafka takes signal again") {
		t.Errorf("more than a line, or no end:\n%s", logged)
	}
}

// TestOtherRecording: what is not the continuation of the run is refused, with
// what differs, and goes through with Restart.
func TestOtherRecording(t *testing.T) {
	addr := streamtest.Kfake(t).ListenAddrs()[0]
	unplugged := errors.New("unplugged")
	for _, c := range []struct {
		name string
		rec  func() *recorded
		edit func(*ingest.ServiceConfig)
		want string // empty: it is the same
	}{
		{"the same", func() *recorded { return lambda(t, 40) }, nil, ""},
		{"more reads behind", func() *recorded { return lambda(t, 60) }, nil, ""},
		{"other chunks", func() *recorded { return lambda(t, 40) }, func(cfg *ingest.ServiceConfig) { cfg.Chunk = 2 * time.Second }, "chunks of 4000 samples, and now they have 8000: give the same --chunk"},
		{"other sample", func() *recorded { return lambda(t, 40) }, func(cfg *ingest.ServiceConfig) { cfg.Sample = "y" }, `as sample "LA1", and now it is "y": give the same --sample`},
		{"other partitions", func() *recorded { return lambda(t, 40) }, func(cfg *ingest.ServiceConfig) { cfg.Partitions = 2 }, "had 3 partitions, and now it has 2"},
		{"fewer reads", func() *recorded { return lambda(t, 3) }, nil, "reads are missing"},
		{"a read is missing", func() *recorded { r := lambda(t, 40); r.skip = 1; return r }, nil, "are not those that are in Kafka"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, addr, "x")
			begun := lambda(t, 40)
			begun.broken = func(read int) error {
				if read != 30 {
					return nil
				}
				l.awaitCommitted(t, 60) // more than three reads have
				return unplugged
			}
			if _, err := l.ingest(t.Context(), t, begun, nil); !errors.Is(err, unplugged) {
				t.Fatal(err)
			}
			_, err := l.ingest(t.Context(), t, c.rec(), c.edit)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				same(t, l.signal(t), newLab(t, addr, "whole").whole(t, c.rec()))
				return
			}
			explained(t, err, c.want, "--restart")
			_, err = l.ingest(t.Context(), t, c.rec(), func(cfg *ingest.ServiceConfig) {
				cfg.Restart = true
				if c.edit != nil {
					c.edit(cfg)
				}
			})
			if err != nil {
				t.Errorf("with Restart: %v", err)
			}
		})
	}
}

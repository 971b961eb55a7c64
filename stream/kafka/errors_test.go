package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streamtest"
)

func TestClassify(t *testing.T) {
	want := map[verdict][]error{
		retriable: {
			kafka.NotLeaderForPartition, kafka.LeaderNotAvailable, kafka.RequestTimedOut, kafka.GroupLoadInProgress,
			kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup, kafka.NotEnoughReplicas, kafka.NotEnoughReplicasAfterAppend,
			kafka.ConcurrentTransactions, kafka.NotController, kafka.KafkaStorageError, kafka.UnknownTopicOrPartition,
			kafka.BrokerNotAvailable, kafka.FencedLeaderEpoch, kafka.ThrottlingQuotaExceeded, kafka.InvalidMessage,
			io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, os.ErrDeadlineExceeded, context.DeadlineExceeded,
			&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, protocol.NewErrNoLeader("t", 1), protocol.NewErrNoTopic("t"),
		},
		sessionFatal: {
			kafka.OutOfOrderSequenceNumber, kafka.UnknownProducerId, kafka.InvalidProducerEpoch, kafka.ProducerFenced,
			kafka.InvalidTransactionState, kafka.IllegalGeneration, kafka.UnknownMemberId, kafka.RebalanceInProgress,
		},
		fatal: {
			kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.SASLAuthenticationFailed, kafka.MessageSizeTooLarge,
			kafka.InvalidTopic, kafka.UnsupportedVersion, kafka.PolicyViolation, kafka.InvalidRecord, context.Canceled,
			&tls.CertificateVerificationError{Err: io.EOF}, tls.RecordHeaderError{Msg: "not TLS"}, errors.New("anything else"), ErrClosed,
		},
	}
	for verdict, errs := range want {
		for _, err := range errs {
			assert.Equal(t, verdict.String(), classify(err).String(), "%v", err)
			assert.Equal(t, verdict.String(), classify(fmt.Errorf("wrapped: %w", err)).String(), "%v, wrapped", err)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	cluster := streamtest.Kfake(t)
	c, err := Connect(t.Context(), Config{Brokers: cluster.ListenAddrs(), Registerer: reg})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	second, err := Connect(t.Context(), Config{Brokers: cluster.ListenAddrs(), Registerer: reg})
	require.NoError(t, err, "clients share a registerer")
	t.Cleanup(second.Close)
	in, out := newTopic(t, c, 1), newTopic(t, second, 1)
	p := newProducer(t, second, ProducerConfig{})
	put(t, p, in, 0, "a", "bb", "ccc")
	j := newJournal()
	r := startMember(t, c, impatient(GroupConfig{Group: "g", Topics: []string{in}, Producer: p,
		NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
			return &echo{journal: j, life: j.begin(topic, partition), out: out}, nil
		}}))
	streamtest.Eventually(t.Context(), t, "the commit", func() bool { return committed(t, c, "g", in, 1)[0] == 3 })
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	assert.Empty(t, problems)
	assert.EqualValues(t, 0, testutil.ToFloat64(c.metrics.lag.WithLabelValues(in, "0")))
	r.end(t)
	assert.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(strings.NewReplacer("IN", in, "OUT", out).Replace(`
# HELP porestream_stream_records_total Records read from (in) and made durable in (out) a topic.
# TYPE porestream_stream_records_total counter
porestream_stream_records_total{direction="in",topic="IN"} 3
porestream_stream_records_total{direction="out",topic="IN"} 3
porestream_stream_records_total{direction="out",topic="OUT"} 3
# HELP porestream_stream_bytes_total Key and value bytes of the records read from (in) and made durable in (out) a topic.
# TYPE porestream_stream_bytes_total counter
porestream_stream_bytes_total{direction="in",topic="IN"} 9
porestream_stream_bytes_total{direction="out",topic="IN"} 9
porestream_stream_bytes_total{direction="out",topic="OUT"} 9
# HELP porestream_stream_producer_queue_bytes Bytes accepted by producers and not yet durable.
# TYPE porestream_stream_producer_queue_bytes gauge
porestream_stream_producer_queue_bytes 0
# HELP porestream_stream_rebalances_total Generations of a consumer group that this member took part in.
# TYPE porestream_stream_rebalances_total counter
porestream_stream_rebalances_total{group="g"} 1
`)), "porestream_stream_records_total", "porestream_stream_bytes_total", "porestream_stream_producer_queue_bytes", "porestream_stream_rebalances_total"))
	n, err := testutil.GatherAndCount(reg, "porestream_stream_lag_records", "porestream_stream_unresolved_records")
	require.NoError(t, err)
	assert.Zero(t, n, "gauges of partitions that are given back are gone")
}

// The client library stays behind this package, and the fake broker out of it.
func TestDependencies(t *testing.T) {
	const module = "github.com/porestream/porestream"
	list := func(format string, patterns ...string) string {
		out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-e", "-f", format}, patterns...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	for line := range strings.Lines(list(`{{.ImportPath}}: {{join .Imports " "}}`, module+"/...")) {
		pkg, imports, _ := strings.Cut(line, ":")
		if pkg != module+"/stream/kafka" {
			assert.NotContains(t, imports, "segmentio/kafka-go", "%s imports the client library; stream/kafka is for that", pkg)
		}
	}
	assert.NotContains(t, list(`{{join .Deps "\n"}}`, "."), "twmb/franz-go", "the fake broker must not get into the services through this package")
}

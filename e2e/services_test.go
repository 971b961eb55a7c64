package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/internal/pipeline"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/embedded"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/streamtest"
	"github.com/porestream/porestream/testenv"
)

// lambdaRun is the run in the shipped recording.
const lambdaRun = "f7c95112c35c42bc2983752717adc93133266cdf"

// onBroker runs a test over an Apache Kafka where its jars are, and otherwise over an
// embedded broker. It is for what the services do; what the two brokers do is tested
// beside them, and by the tests that call onBrokers.
func onBroker(t *testing.T, test func(t *testing.T, addr string)) {
	if testenv.All() {
		onBrokers(t, test)
		return
	}
	if testing.Short() {
		t.Skip("runs the services")
	}
	if os.Getenv(streamtest.LibVariable) == "" {
		t.Run("embedded", func(t *testing.T) { overEmbedded(t, test) })
		return
	}
	t.Run("apache", func(t *testing.T) { overApache(t, test) })
}

// onBrokers runs a test over an embedded broker and, where its jars are, over an
// Apache Kafka: for what must come out the same over both.
func onBrokers(t *testing.T, test func(t *testing.T, addr string)) {
	if testing.Short() {
		t.Skip("runs the services")
	}
	t.Run("embedded", func(t *testing.T) { overEmbedded(t, test) })
	t.Run("apache", func(t *testing.T) {
		if os.Getenv(streamtest.LibVariable) == "" {
			t.Skipf("needs the jars of Apache Kafka: set %s (stream/streamtest/kafka/fetch.sh)", streamtest.LibVariable)
		}
		overApache(t, test)
	})
}

func overEmbedded(t *testing.T, test func(t *testing.T, addr string)) {
	broker, err := embedded.Start(embedded.Config{DataDir: filepath.Join(t.TempDir(), "broker")})
	require.NoError(t, err)
	t.Cleanup(func() { broker.Close() })
	test(t, broker.Addr())
}

func overApache(t *testing.T, test func(t *testing.T, addr string)) {
	broker, err := streamtest.StartApache(t.Context(), streamtest.ApacheConfig{Lib: os.Getenv(streamtest.LibVariable), Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { broker.Stop() })
	test(t, broker.Addr)
}

// service is a running ingest or processor.
type service struct {
	name   string
	cmd    *exec.Cmd
	stderr *testenv.Log
	exited chan struct{} // closed once err says how
	err    error
}

// start starts a service. One that fails by itself ends the test's context,
// through cancel, with what it said. A processor that is killed is missed as soon as
// brokers and draining allow, unless the test says otherwise.
func start(t testing.TB, cancel context.CancelCauseFunc, name string, args ...string) *service {
	t.Helper()
	if name == "processor" && !slices.Contains(args, "--session-timeout") {
		args = append([]string{"--session-timeout", "7s", "--drain-timeout", "2s"}, args...)
	}
	s := &service{name: name, cmd: exec.Command(filepath.Join(bin, name), args...), stderr: new(testenv.Log), exited: make(chan struct{})}
	s.cmd.Stderr = s.stderr
	require.NoError(t, s.cmd.Start())
	go func() {
		defer close(s.exited)
		if s.err = s.cmd.Wait(); s.cmd.ProcessState.ExitCode() > 0 {
			cancel(fmt.Errorf("%s: %w: %s", name, s.err, s.stderr))
		}
	}()
	t.Cleanup(func() { s.cmd.Process.Kill(); <-s.exited })
	return s
}

// ended waits for a service's own end and checks that it was in order.
func (s *service) ended(t testing.TB) {
	t.Helper()
	<-s.exited
	require.NoError(t, s.err, s.stderr)
}

// stop asks a service to stop and checks that it does so in order.
func (s *service) stop(t testing.TB) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	s.ended(t)
}

// connect connects to Kafka until the test has ended.
func connect(ctx context.Context, t testing.TB, addr string) *kafka.Client {
	t.Helper()
	client, err := kafka.Connect(ctx, kafka.Config{Brokers: []string{addr}})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func startProcessor(t *testing.T, cancel context.CancelCauseFunc, addr, stages string) *service {
	return start(t, cancel, "processor", "--brokers", addr, "--ref", lambda("reference.fa"), "--gff", lambda("genes.gff3"),
		"--device", recordedNetwork(t, "20ms:32"), "--stages", stages, "--listen", "127.0.0.1:0")
}

// follow reads the variants topic until the shipped recording's run has ended or
// seen, if not nil, returns true.
func follow(ctx context.Context, t testing.TB, client *kafka.Client, seen func(revisions int) bool) {
	t.Helper()
	followRun(ctx, t, client, stream.NewTopics(""), lambdaRun, seen)
}

func followRun(ctx context.Context, t testing.TB, client *kafka.Client, topics stream.Topics, run string, seen func(revisions int) bool) {
	t.Helper()
	topic := topics.Variants
	partitions, err := client.Partitions(t.Context(), topic)
	require.NoError(t, err)
	fold := pipeline.NewFold(int32(partitions))
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	defer cancel()
	done := errors.New("seen enough")
	revisions := 0
	err = client.Consume(ctx, topic, kafka.ConsumeOptions{From: kafka.FromStart}, func(rec stream.Record) error {
		v, err := fold.Add(rec)
		if err != nil {
			return err
		}
		if v != nil {
			revisions++
		}
		if fold.Ended(run) || seen != nil && seen(revisions) {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Fatalf("following the variants: %v, %v", err, context.Cause(ctx))
	}
}

// followAlerts reads the alerts topic until the run has ended.
func followAlerts(ctx context.Context, t *testing.T, client *kafka.Client) {
	t.Helper()
	topic := stream.NewTopics("").Alerts
	partitions, err := client.Partitions(t.Context(), topic)
	require.NoError(t, err)
	fold := pipeline.NewAlertFold(int32(partitions))
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	defer cancel()
	done := errors.New("the run has ended")
	err = client.Consume(ctx, topic, kafka.ConsumeOptions{From: kafka.FromStart}, func(rec stream.Record) error {
		if _, err := fold.Add(rec); err != nil {
			return err
		}
		if fold.Ended(lambdaRun) {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Fatalf("following the alerts: %v, %v", err, context.Cause(ctx))
	}
}

// TestServices runs the services by themselves, as on a cluster: damaged records
// among the signal, stages in processes of their own, one of them killed. The
// result must be that of an undisturbed run in one process.
func TestServices(t *testing.T) {
	t.Parallel()
	onBroker(t, func(t *testing.T, addr string) {
		want := undisturbed(t)

		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		client := connect(ctx, t, addr)
		topics := stream.NewTopics("")
		require.NoError(t, client.EnsureTopics(t.Context(), topics.Settings(3), 1))
		damaged := sendDamaged(t, client, topics)

		ingest := start(t, cancel, "ingest", "--brokers", addr, "--listen", "127.0.0.1:0", lambdaReads(t))
		first := startProcessor(t, cancel, addr, "basecall,variant")
		annotator := startProcessor(t, cancel, addr, "annotate")
		follow(ctx, t, client, func(revisions int) bool { return revisions >= 2 })
		require.NoError(t, first.cmd.Process.Kill())
		<-first.exited
		second := startProcessor(t, cancel, addr, "basecall,variant")
		ingest.ended(t)
		follow(ctx, t, client, nil)
		second.stop(t)
		annotator.stop(t)

		res := pore(t, "consume", "--brokers", addr, "--format", "vcf", "--ref", lambda("reference.fa"))
		require.Zero(t, res.code, res.stderr)
		require.Equal(t, string(want), res.stdout)
		checkDeadLetters(t, client, topics, damaged)
	})
}

// sendDamaged puts records on the signal topic that can't be processed, and
// returns the code that each must be given by its value.
func sendDamaged(t *testing.T, client *kafka.Client, topics stream.Topics) map[string]string {
	t.Helper()
	samples := make([]int16, 4000)
	good, err := stream.EncodeSignal(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: &streampb.SignalChunk{
		Run: lambdaRun, Channel: 7, ReadId: "damaged", SampleCount: 4000, Vbz: vbz.Encode(nil, samples), EndOfRead: true,
	}}})
	require.NoError(t, err)
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 0x10
	damaged := map[string]string{
		string(good[:len(good)-3]): stream.CodeChecksum,
		string(flipped):            stream.CodeChecksum,
		"not one of ours":          stream.CodeForeign,
		// Whole, but of a run that never started.
		string(good): stream.CodeInvalid,
	}
	producer, err := kafka.NewProducer(t.Context(), client, kafka.ProducerConfig{})
	require.NoError(t, err)
	for value := range damaged {
		require.NoError(t, producer.Send(t.Context(), []stream.Out{{Topic: topics.Signal, Partition: stream.AnyPartition, Key: []byte("bad"), Value: []byte(value)}}, nil))
	}
	require.NoError(t, producer.Close(t.Context()))
	return damaged
}

func checkDeadLetters(t *testing.T, client *kafka.Client, topics stream.Topics, damaged map[string]string) {
	t.Helper()
	found := make(map[string]string)
	err := client.Consume(t.Context(), topics.DeadLetters, kafka.ConsumeOptions{From: kafka.FromStart, UntilEnd: true}, func(rec stream.Record) error {
		headers := make(map[string]string)
		for _, h := range rec.Headers {
			headers[h.Key] = string(h.Value)
		}
		require.Equal(t, "basecall", headers[stream.HeaderStage])
		require.Equal(t, topics.Signal, headers[stream.HeaderTopic])
		require.NotEmpty(t, headers[stream.HeaderReason])
		_, err := strconv.ParseInt(headers[stream.HeaderOffset], 10, 64)
		require.NoError(t, err)
		require.Equal(t, "bad", string(rec.Key))
		found[string(rec.Value)] = headers[stream.HeaderCode]
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, damaged, found)
}

// TestKafkaGivesTheSameBytes compares a run over Apache Kafka with one over the
// embedded broker.
func TestKafkaGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	if os.Getenv(streamtest.LibVariable) == "" {
		t.Skipf("needs the jars of Apache Kafka: set %s (stream/streamtest/kafka/fetch.sh)", streamtest.LibVariable)
	}
	broker, err := streamtest.StartApache(t.Context(), streamtest.ApacheConfig{Lib: os.Getenv(streamtest.LibVariable), Dir: t.TempDir()})
	require.NoError(t, err)
	defer broker.Stop()
	want := undisturbed(t)
	configs := [][2]string{{"4", "2"}}
	if testenv.All() {
		configs = append(configs, [2]string{"7", "3"})
	}
	for _, c := range configs {
		out := run(t, lambda("reference.fa"), lambda("genes.gff3"), lambdaReads(t),
			"--brokers", broker.Addr, "--partitions", c[0], "--processors", c[1], "--device", recordedNetwork(t, "1ms:32"))
		require.Equal(t, string(want), string(readFile(t, out, "variants.vcf")), "%s partitions, %s processors", c[0], c[1])
	}
}

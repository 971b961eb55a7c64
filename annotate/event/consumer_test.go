package event_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"iter"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/embedded"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/streamtest"
	"github.com/porestream/porestream/testenv"
)

func TestMain(m *testing.M) { os.Exit(streamtest.Main(m)) }

// python is an interpreter that has the module of docs/consume/consumer.py.
func python(t *testing.T) string {
	t.Helper()
	return testenv.Python(t, "PORESTREAM_PYTHON", "confluent-kafka", "confluent_kafka")
}

// TestPythonConsumer: a consumer that knows nothing but the contract comes to the final state, whatever is sent again,
// retracted, filtered or of a kind that it doesn't know.
func TestPythonConsumer(t *testing.T) {
	interpreter := python(t)
	streamtest.Each(t, func(t *testing.T, addr string) {
		const topic = "consumer-py-variants"
		client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
		require.NoError(t, err)
		t.Cleanup(client.Close)
		create, wanted := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewCreateTopicsRequestTopic()
		wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, 3, 1
		create.Topics = append(create.Topics, wanted)
		created, err := create.RequestWith(t.Context(), client)
		require.NoError(t, err)
		require.Zero(t, created.Topics[0].ErrorCode)

		send := func(o stream.Out) {
			r := &kgo.Record{Topic: topic, Key: o.Key, Value: o.Value}
			for _, h := range o.Headers {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
			}
			require.NoError(t, client.ProduceSync(t.Context(), r).FirstErr())
		}
		variant := func(sample string, pos int64, revision uint64, status streampb.CallStatus, term string, filters ...string) {
			o, err := event.FromCall(&streampb.Call{
				Run: "run", Sample: sample, VrsId: "ga4gh:VA." + string(rune('a'+pos)), Contig: "c", Pos: pos, Ref: "A", Alt: "G",
				Revision: revision, Status: status, Filters: filters, Reason: map[bool]string{true: "gone"}[status == streampb.CallStatus_RETRACTED],
			}, annotate.Annotation{MostSevere: annotate.MostSevere{Term: term}}).Record(topic)
			require.NoError(t, err)
			send(o)
		}
		const provisional, final, retracted = streampb.CallStatus_PROVISIONAL, streampb.CallStatus_FINAL, streampb.CallStatus_RETRACTED
		variant("s2", 3, 1, provisional, "intron_variant")
		variant("s1", 2, 1, provisional, "stop_gained")
		variant("s1", 2, 3, final, "missense_variant")
		variant("s1", 2, 2, provisional, "stop_gained") // sent again after a crash
		variant("s1", 4, 1, provisional, "stop_lost")
		variant("s1", 4, 2, retracted, "stop_lost")
		variant("s1", 5, 1, final, "stop_lost", "LowQual")
		ends, err := event.RunEndRecords(topic, 3, &streampb.Marker{Run: &streampb.Run{Id: "run", Sample: "s1"}, Sources: 1})
		require.NoError(t, err)
		send(ends[0])
		send(stream.Out{Key: []byte("k"), Value: []byte("not JSON"), Headers: []stream.Header{{Key: "ce_type", Value: []byte("porestream.other.v1")}}})
		const whole = `{"sample": "s3", "revision": 1, "status": "FINAL", "variant": {"contig": "c", "pos": 1, "ref": "A", "alt": "G"}, "call": {}, "annotation": {"most_severe": {"term": "x"}}}`
		broken := []string{"not JSON", "null", "", `{"revision": "three"}`, `{"sample": "s3", "revision": 1, "status": "FINAL", "variant": {"contig": "c", "pos": 1, "ref": "A", "alt": "G"}}`, strings.Repeat("[", 100_000)}
		for _, change := range [][2]string{
			{`"call": {}`, `"call": 5`}, {`"call": {}`, `"call": {"filters": null}`}, {`"call": {}`, `"call": {"filters": [1]}`}, {`"s3"`, "3"}, {`"s3"`, `"\ud800"`},
			{`"revision": 1`, `"revision": 99999999999999999999`}, {`"revision": 1`, `"revision": 1.5`},
		} {
			broken = append(broken, strings.Replace(whole, change[0], change[1], 1))
		}
		for _, value := range []string{"null", `{"run": "run", "sample": "s1", "source": 0, "sources": 1, "status": "eaten"}`, `{"run": 1, "sample": "s1", "source": 0, "sources": 1}`} {
			send(stream.Out{Key: []byte("k"), Value: []byte(value), Headers: []stream.Header{{Key: "ce_type", Value: []byte(event.TypeRunEnd)}}})
		}
		for _, value := range broken { // they end nothing
			send(stream.Out{Key: []byte("k"), Value: []byte(value), Headers: []stream.Header{{Key: "ce_type", Value: []byte(event.TypeVariant)}}})
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, interpreter, filepath.Join("..", "..", "docs", "consume", "consumer.py"), addr, topic)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, stderr.String())
		require.Equal(t, "s1\tc\t2\tA\tG\tFINAL\tmissense_variant\ns2\tc\t3\tA\tG\tPROVISIONAL\tintron_variant\n", string(out))
		require.Equal(t, len(broken), strings.Count(stderr.String(), "can't be read and is left out"), stderr.String())

		// Where it can't write, it says so in a line, and commits nothing.
		missing := filepath.Join(t.TempDir(), "missing", "state.sqlite")
		for _, tt := range []struct{ args, out, want string }{
			{"", "/dev/full", "writing variants: No space left on device\n"},
			{"--follow " + missing, os.DevNull, "state file " + missing + ": unable to open database file\n"},
		} {
			cmd := exec.CommandContext(ctx, interpreter, append([]string{filepath.Join("..", "..", "docs", "consume", "consumer.py"), addr, topic}, strings.Fields(tt.args)...)...)
			full, err := os.OpenFile(tt.out, os.O_WRONLY, 0)
			require.NoError(t, err)
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = full, &said
			require.Error(t, cmd.Run())
			require.NoError(t, full.Close())
			lines := slices.DeleteFunc(strings.SplitAfter(said.String(), "\n"), func(l string) bool { return strings.Contains(l, "can't be read and is left out") })
			require.Equal(t, tt.want, strings.Join(lines, ""))
			require.Equal(t, 1, cmd.ProcessState.ExitCode())
		}

		// A follower prints each revision once, over a restart, and reports the run's end when all partitions have.
		state := filepath.Join(t.TempDir(), "state.sqlite")
		const group = "consumer-py-test"
		f := follow(t, interpreter, addr, topic, "--follow", state, "--group", group)
		require.ElementsMatch(t, []string{
			"s2\tc\t3\tA\tG\tPROVISIONAL\tintron_variant", "s1\tc\t2\tA\tG\tPROVISIONAL\tstop_gained", "s1\tc\t2\tA\tG\tFINAL\tmissense_variant",
			"s1\tc\t4\tA\tG\tPROVISIONAL\tstop_lost", "s1\tc\t4\tA\tG\tRETRACTED\tstop_lost\ttaken back: gone",
		}, f.next(5))
		f.stop()

		variant("s1", 2, 3, final, "missense_variant") // sent again
		variant("s2", 3, 2, final, "intron_variant")
		f = follow(t, interpreter, addr, topic, "--follow", state, "--group", group)
		require.Equal(t, []string{"s2\tc\t3\tA\tG\tFINAL\tintron_variant"}, f.next(1))
		direct, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		require.NoError(t, err)
		defer direct.Close()
		for _, o := range ends { // one for each partition, one of them a second time
			headers := []kgo.RecordHeader{{Key: "ce_type", Value: []byte(event.TypeRunEnd)}}
			require.NoError(t, direct.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: o.Partition, Key: o.Key, Value: o.Value, Headers: headers}).FirstErr())
		}
		require.Equal(t, "run run of s1 has ended: normal", f.said())
		f.stop()

		// Who takes a partition over has nothing of it in a state of its own, and misses no retraction for that.
		f = follow(t, interpreter, addr, topic, "--follow", filepath.Join(t.TempDir(), "other.sqlite"), "--group", group)
		require.Contains(t, f.next(6), "s1\tc\t4\tA\tG\tRETRACTED\tstop_lost\ttaken back: gone")
		require.Equal(t, "run run of s1 has ended: normal", f.said())
		f.stop()
	})
}

// TestPythonConsumerWithoutABroker: it says once what to do, and goes on trying.
func TestPythonConsumerWithoutABroker(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().String()
	require.NoError(t, listener.Close())
	f := follow(t, python(t), addr, "variants", "--follow", filepath.Join(t.TempDir(), "state.sqlite"))
	require.Equal(t, "no broker answers at "+addr+"; trying on. Is it running, and is that its address? pore run and pore broker print theirs.", <-f.messages)
	f.stop()
	require.Empty(t, slices.Collect(seq(f.messages)))
}

// TestPythonConsumerLosesItsBrokerTwice: each time that the broker is away is reported once, and that it is back.
func TestPythonConsumerLosesItsBrokerTwice(t *testing.T) {
	interpreter, folder := python(t), t.TempDir()
	start := func(listen string) *embedded.Broker {
		broker, err := embedded.Start(embedded.Config{Listen: listen, DataDir: folder})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, broker.Close()) })
		return broker
	}
	broker := start("127.0.0.1:0")
	addr := broker.Addr()
	client, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{addr}})
	require.NoError(t, err)
	require.NoError(t, client.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: "variants", Partitions: 1}}, 1))
	client.Close()
	f := follow(t, interpreter, addr, "variants", "--follow", filepath.Join(t.TempDir(), "state.sqlite"))
	for range 2 {
		require.NoError(t, broker.Close())
		require.Contains(t, <-f.messages, "no broker answers at "+addr)
		broker = start(addr)
		require.Equal(t, "connected again", <-f.messages)
	}
	f.stop()
}

// TestPythonConsumerBeforeItsTopic: a follower that is early waits and says what for; as things stand there is nothing to print, which is an error.
func TestPythonConsumerBeforeItsTopic(t *testing.T) {
	interpreter := python(t)
	streamtest.Each(t, func(t *testing.T, addr string) {
		const topic = "awaited-by-python"
		client, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{addr}})
		require.NoError(t, err)
		defer client.Close()
		require.NoError(t, client.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: "awaited-by-pytho", Partitions: 1}}, 1))
		now := exec.CommandContext(t.Context(), interpreter, filepath.Join("..", "..", "docs", "consume", "consumer.py"), addr, topic)
		out, err := now.CombinedOutput()
		require.Error(t, err)
		require.Equal(t, "topic awaited-by-python does not exist, and there is awaited-by-pytho; processors make it when they start\n", string(out))

		f := follow(t, interpreter, addr, topic, "--follow", filepath.Join(t.TempDir(), "state.sqlite"), "--group", "consumer-py-early")
		require.Equal(t, "waiting: topic awaited-by-python does not exist, and there is awaited-by-pytho", <-f.messages)
		require.NoError(t, client.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: topic, Partitions: 1}}, 1))
		p, err := kafka.NewProducer(t.Context(), client, kafka.ProducerConfig{})
		require.NoError(t, err)
		o, err := event.FromCall(&streampb.Call{Run: "run", Sample: "s", VrsId: "ga4gh:VA.a", Contig: "c", Pos: 1, Ref: "A", Alt: "G", Revision: 1, Status: streampb.CallStatus_PROVISIONAL},
			annotate.Annotation{MostSevere: annotate.MostSevere{Term: "stop_lost"}}).Record(topic)
		require.NoError(t, err)
		require.NoError(t, p.Send(t.Context(), []stream.Out{o}, nil))
		require.NoError(t, p.Close(t.Context()))
		require.Equal(t, []string{"s\tc\t1\tA\tG\tPROVISIONAL\tstop_lost"}, f.next(1))
		f.stop()

		f = follow(t, interpreter, addr, "nobody-makes-me", "--follow", filepath.Join(t.TempDir(), "state.sqlite"))
		require.Contains(t, <-f.messages, "waiting: topic nobody-makes-me does not exist")
		f.stop()
	})
}

// follower is a consumer.py that follows a topic.
type follower struct {
	t               *testing.T
	cmd             *exec.Cmd
	lines, messages <-chan string
}

func follow(t *testing.T, interpreter, addr, topic string, args ...string) *follower {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), interpreter, append([]string{filepath.Join("..", "..", "docs", "consume", "consumer.py"), addr, topic}, args...)...)
	lines := func(pipe io.Reader, err error) <-chan string {
		require.NoError(t, err)
		out := make(chan string, 100)
		go func() {
			defer close(out)
			for s := bufio.NewScanner(pipe); s.Scan(); {
				out <- s.Text()
			}
		}()
		return out
	}
	f := &follower{t: t, cmd: cmd, lines: lines(pipe(cmd.StdoutPipe())), messages: lines(pipe(cmd.StderrPipe()))}
	require.NoError(t, cmd.Start())
	return f
}

// pipe makes one kind of reader of a command's pipes.
func pipe(r io.ReadCloser, err error) (io.Reader, error) { return r, err }

// next are the next n lines, in any order of partitions.
func (f *follower) next(n int) []string {
	f.t.Helper()
	var out []string
	for range n {
		line, ok := <-f.lines
		if !ok {
			f.t.Fatalf("the consumer ended after %q: %s", out, strings.Join(slices.Collect(seq(f.messages)), "; "))
		}
		out = append(out, line)
	}
	return out
}

// said is the next message that isn't of a broken record.
func (f *follower) said() string {
	for line := range f.messages {
		if !strings.Contains(line, "can't be read and is left out") {
			return line
		}
	}
	return ""
}

func seq(c <-chan string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for s := range c {
			if !yield(s) {
				return
			}
		}
	}
}

// stop ends the follower as Ctrl-C does.
func (f *follower) stop() {
	f.t.Helper()
	require.NoError(f.t, f.cmd.Process.Signal(os.Interrupt))
	require.NoError(f.t, f.cmd.Wait())
}

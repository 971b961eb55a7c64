package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/embedded"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streampb"
)

// called is what a command printed.
type called struct {
	out, errs string
	err       error
}

func pore(t *testing.T, args ...string) called {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := command()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return called{out.String(), errs.String(), err}
}

func testBroker(t *testing.T) (addr string, client *kafka.Client) {
	t.Helper()
	broker, err := embedded.Start(embedded.Config{DataDir: filepath.Join(t.TempDir(), "broker")})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, broker.Close()) })
	client, err = kafka.Connect(t.Context(), kafka.Config{Brokers: []string{broker.Addr()}})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return broker.Addr(), client
}

func TestTopics(t *testing.T) {
	addr, client := testBroker(t)
	r := pore(t, "topics", "check", "--brokers", addr)
	require.ErrorContains(t, r.err, "pore topics create makes them")
	assert.Contains(t, r.out, "signal\tmissing\n")

	require.NoError(t, client.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: "reads", Partitions: 2, Config: map[string]string{"cleanup.policy": "compact"}}}, 1))
	r = pore(t, "topics", "create", "--brokers", addr, "--partitions", "2")
	require.ErrorContains(t, r.err, "topic reads: cleanup.policy is compact")
	r = pore(t, "topics", "check", "--brokers", addr, "--partitions", "3")
	require.ErrorContains(t, r.err, "1 of 10 topics are not in order, 9 are missing")
	assert.Contains(t, r.out, "reads\tcleanup.policy is compact, needed is delete: compaction would remove all but the last record of a key\n\tkafka-configs.sh --bootstrap-server "+addr)
	assert.Contains(t, r.out, "reads\tthe number of partitions is 2, needed is 3")

	r = pore(t, "topics", "create", "--brokers", addr, "--topic-prefix", "lab.", "--panels", "--partitions", "2")
	require.NoError(t, r.err)
	assert.Contains(t, r.out, "lab.alerts\tmade\n")
	assert.Contains(t, r.out, "12 topics are in order, 12 of them new\n")
	r = pore(t, "topics", "check", "--brokers", addr, "--topic-prefix", "lab.", "--panels", "--partitions", "2")
	require.NoError(t, r.err)
	assert.NotContains(t, r.out, "missing")
}

func TestDeadLetterCommands(t *testing.T) {
	addr, client := testBroker(t)
	topics := stream.NewTopics("")
	require.NoError(t, client.EnsureTopics(t.Context(), topics.Settings(2), 1))
	good, err := stream.EncodeSignal(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: &streampb.SignalChunk{
		Run: "run", Channel: 7, ReadId: "r1", SampleCount: 3, Vbz: []byte("binary"), EndOfRead: true,
	}}})
	require.NoError(t, err)
	p, err := kafka.NewProducer(t.Context(), client, kafka.ProducerConfig{})
	require.NoError(t, err)
	for _, l := range []struct {
		rec  stream.Record
		code string
	}{
		{stream.Record{Topic: topics.Signal, Partition: 1, Offset: 17, Key: []byte("run/7"), Value: good}, stream.CodeVersion},
		{stream.Record{Topic: "other", Value: []byte("\x1b[2Jnot ours")}, stream.CodeForeign},
	} {
		o := stream.DeadLetter(topics.DeadLetters, l.rec, "basecall", &stream.DecodeError{Code: l.code, Reason: "\x1b]0;of no use"})
		o.Partition = 1
		require.NoError(t, p.Send(t.Context(), []stream.Out{o}, nil))
	}
	require.NoError(t, p.Close(t.Context()))
	dlq := func(args ...string) called {
		return pore(t, append([]string{"dlq", args[0], "--brokers", addr}, args[1:]...)...)
	}

	r := dlq("ls")
	require.NoError(t, r.err)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	require.Len(t, lines, 3)
	columns := strings.Split(lines[1], "\t")
	assert.Equal(t, []string{"1/0", "basecall", "version", "signal/1/17", "open", `"version: \x1b]0;of no use"`},
		[]string{columns[0], columns[2], columns[3], columns[4], columns[6], columns[7]})
	assert.Equal(t, "2 dead letters (foreign 1, version 1), 0 of them redriven; 0 other records\n", r.errs)

	r = dlq("ls", "--code", "foreign", "--format", "json")
	require.NoError(t, r.err)
	var one listed
	require.NoError(t, json.Unmarshal([]byte(r.out), &one))
	assert.Equal(t, "other", one.Topic)

	raw := filepath.Join(t.TempDir(), "raw")
	r = dlq("show", "1/0", "--raw", raw)
	require.NoError(t, r.err)
	assert.Contains(t, r.out, `"readId":`)
	assert.NotContains(t, r.out, "vbz")
	written, err := os.ReadFile(raw)
	require.NoError(t, err)
	assert.Equal(t, good, written)
	r = dlq("show", "1/1")
	require.NoError(t, r.err)
	assert.Contains(t, r.out, "no Porestream envelope")
	assert.NotContains(t, r.out, "\x1b", "what others wrote must not command the terminal")
	require.ErrorContains(t, dlq("show", "1/9").err, "no dead letter at 1/9 of topic dlq")

	r = dlq("redrive", "--dry-run", "--code", "version")
	require.NoError(t, r.err)
	assert.Equal(t, "1 would be sent back (signal 1); left: 0 sent back before, 0 not whole, 0 from other topics\n", r.out)
	r = dlq("redrive")
	require.ErrorContains(t, r.err, "1 dead letters can't be sent back")
	assert.Equal(t, "1 sent back (signal 1); left: 0 sent back before, 0 not whole, 1 from other topics\n", r.out)
	r = dlq("redrive", "--code", "version")
	require.NoError(t, r.err)
	assert.Equal(t, "0 sent back; left: 1 sent back before, 0 not whole, 0 from other topics\n", r.out)
	assert.Contains(t, dlq("ls").out, "\tredriven\t")

	for _, args := range [][]string{
		{"ls", "--since", "yesterday"}, {"ls", "--format", "xml"}, {"show", "1-0"}, {"redrive", "--place", "x/1"}, {"redrive", "--place", "1/-1"},
	} {
		require.ErrorContains(t, dlq(args...).err, "want", args)
	}
}

func TestReplayCommand(t *testing.T) {
	addr, client := testBroker(t)
	topics := stream.NewTopics("")
	require.NoError(t, client.EnsureTopics(t.Context(), topics.Settings(1), 1))
	p, err := kafka.NewProducer(t.Context(), client, kafka.ProducerConfig{})
	require.NoError(t, err)
	for range 5 {
		require.NoError(t, p.Send(t.Context(), []stream.Out{{Topic: topics.Reads, Value: []byte("v")}}, nil))
	}
	require.NoError(t, p.Close(t.Context()))
	require.NoError(t, client.CommitOffsets(t.Context(), kafka.GroupOffsets{Group: "porestream-variant", Generation: -1, Topic: topics.Reads, Offset: 4}))
	replay := func(args ...string) called { return pore(t, append([]string{"replay", "--brokers", addr}, args...)...) }

	r := replay("--stage", "variant", "--from", "1", "--dry-run")
	require.NoError(t, r.err)
	assert.Contains(t, r.out, "0\t1\t4\nup to 3 records of 1 partitions of topic reads would be processed again\n")
	require.NoError(t, replay("--stage", "variant", "--from", "1").err)
	require.ErrorContains(t, replay("--stage", "variant", "--from", "2").err, "nothing to replay")
	r = replay("--stage", "variant", "--from", "start", "--to", "3", "--into", "again.")
	require.NoError(t, r.err)
	assert.Contains(t, r.out, "up to 3 records of 1 partitions of topic reads are in topic again.reads: start processors with --topic-prefix again.\n")
	require.ErrorContains(t, replay("--stage", "variant", "--from", "start", "--into", "again.").err, "holds records already")
	for _, args := range [][]string{
		{"--stage", "sequence", "--from", "start"}, {"--stage", "variant"}, {"--stage", "variant", "--from", "-1"},
		{"--stage", "variant", "--from", "start", "--to", "3"}, {"--stage", "variant", "--from", "start", "--into", "x.", "--dry-run"},
	} {
		require.Error(t, replay(args...).err, args)
	}
}

func TestACLs(t *testing.T) {
	r := pore(t, "acls", "--role", "processor", "--principal", "User:p", "--brokers", "b:9092", "--topic-prefix", "lab.")
	require.NoError(t, r.err)
	assert.Contains(t, r.out, "--operation Write --transactional-id lab.porestream-annotate/ --resource-pattern-type prefixed\n")
	assert.NotContains(t, r.out, "porestream-watch")
	assert.Contains(t, pore(t, "acls", "--role", "processor", "--panels", "--principal", "User:p").out, "porestream-watch")
	for _, args := range [][]string{{}, {"--role", "king", "--principal", "User:p"}, {"--role", "ingest", "--principal", "p"}} {
		require.Error(t, pore(t, append([]string{"acls"}, args...)...).err, args)
	}
}

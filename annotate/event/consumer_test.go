package event_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/internal/testenv"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/streamtest"
)

func TestMain(m *testing.M) { os.Exit(streamtest.Main(m)) }

// python is an interpreter that has the module of docs/consumer.py.
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
				Revision: revision, Status: status, Filters: filters,
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
		ends, err := event.RunEndRecords(topic, 1, &streampb.Marker{Run: &streampb.Run{Id: "run", Sample: "s1"}, Sources: 1})
		require.NoError(t, err)
		send(ends[0])
		send(stream.Out{Key: []byte("k"), Value: []byte("not JSON"), Headers: []stream.Header{{Key: "ce_type", Value: []byte("porestream.other.v1")}}})

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, interpreter, filepath.Join("..", "..", "docs", "consumer.py"), addr, topic)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, stderr.String())
		require.Equal(t, "s1\tc\t2\tA\tG\tFINAL\tmissense_variant\ns2\tc\t3\tA\tG\tPROVISIONAL\tintron_variant\n", string(out))
	})
}

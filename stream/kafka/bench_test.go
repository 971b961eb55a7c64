package kafka

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/testenv"
)

// brokerVariable makes the test program a broker instead: a benchmark of the
// client must not count the broker's work.
const brokerVariable = "PORESTREAM_BENCH_BROKER"

// serveBenchmark runs a broker that stores nothing and serves one canned batch,
// until its input ends.
func serveBenchmark(recordBytes int) error {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(8, "bench"), kfake.BlackholeProduce(),
		kfake.SyntheticFetch(kfake.SyntheticBatch{Records: (960 << 10) / recordBytes, RecordBytes: recordBytes, RandomFrac: 1}))
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Println(c.ListenAddrs()[0])
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func benchmarkBroker(b *testing.B, recordBytes int) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", brokerVariable, recordBytes))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(b, err)
	return strings.TrimSpace(addr)
}

// perCPU reports MiB per second of this process's CPU time, which other load on
// the machine distorts less than the wall clock's.
func perCPU(b *testing.B, bytesPerOp int, run func()) {
	b.Helper()
	b.SetBytes(int64(bytesPerOp))
	before := testenv.ProcessorTime(b)
	run()
	spent := testenv.ProcessorTime(b) - before
	b.ReportMetric(float64(b.N)*float64(bytesPerOp)/(1<<20)/spent.Seconds(), "MiB/cpu-s")
}

var benchmarkSizes = []int{4 << 10, 64 << 10}

// BenchmarkProduce compares with the library's writer, which is not
// idempotent, and with franz-go, which is.
func BenchmarkProduce(b *testing.B) {
	for _, size := range benchmarkSizes {
		value := make([]byte, size)
		for i := range value {
			value[i] = byte(i * 31)
		}
		b.Run(fmt.Sprintf("%dKiB/porestream", size>>10), func(b *testing.B) {
			c := dial(b, benchmarkBroker(b, size))
			p := newProducer(b, c, ProducerConfig{})
			perCPU(b, size, func() {
				for i := range b.N {
					require.NoError(b, p.Send(b.Context(), []stream.Out{{Topic: "bench", Partition: int32(i % 8), Value: value}}, nil))
				}
				require.NoError(b, p.Flush(b.Context()))
			})
		})
		b.Run(fmt.Sprintf("%dKiB/kafka-go", size>>10), func(b *testing.B) {
			w := &kafka.Writer{Addr: kafka.TCP(benchmarkBroker(b, size)), Topic: "bench", RequiredAcks: kafka.RequireAll, BatchTimeout: 5 * time.Millisecond, BatchBytes: 1 << 20, BatchSize: 256}
			defer w.Close()
			perCPU(b, size, func() {
				const senders, batch = 8, 16
				var work sync.WaitGroup
				for s := range senders {
					work.Go(func() {
						for i := s * batch; i < b.N; i += senders * batch {
							msgs := make([]kafka.Message, min(batch, b.N-i))
							for j := range msgs {
								msgs[j].Value = value
							}
							if err := w.WriteMessages(context.Background(), msgs...); err != nil {
								b.Error(err)
							}
						}
					})
				}
				work.Wait()
			})
		})
		b.Run(fmt.Sprintf("%dKiB/franz-go", size>>10), func(b *testing.B) {
			k, err := kgo.NewClient(kgo.SeedBrokers(benchmarkBroker(b, size)), kgo.DefaultProduceTopic("bench"), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedBytes(64<<20))
			require.NoError(b, err)
			defer k.Close()
			perCPU(b, size, func() {
				for range b.N {
					k.Produce(b.Context(), &kgo.Record{Value: value}, nil)
				}
				require.NoError(b, k.Flush(b.Context()))
			})
		})
	}
}

func BenchmarkFetch(b *testing.B) {
	for _, size := range benchmarkSizes {
		b.Run(fmt.Sprintf("%dKiB/porestream", size>>10), func(b *testing.B) {
			c := dial(b, benchmarkBroker(b, size))
			f := c.NewFetcher("bench", 0, 0, FetchConfig{})
			perCPU(b, size, func() {
				for n := 0; n < b.N; {
					batch, err := f.Next(b.Context())
					require.NoError(b, err)
					n += len(batch.Records)
				}
			})
		})
		b.Run(fmt.Sprintf("%dKiB/kafka-go", size>>10), func(b *testing.B) {
			r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{benchmarkBroker(b, size)}, Topic: "bench", Partition: 0, MaxBytes: 2 << 20})
			defer r.Close()
			perCPU(b, size, func() {
				for range b.N {
					_, err := r.ReadMessage(b.Context())
					require.NoError(b, err)
				}
			})
		})
		b.Run(fmt.Sprintf("%dKiB/franz-go", size>>10), func(b *testing.B) {
			k, err := kgo.NewClient(kgo.SeedBrokers(benchmarkBroker(b, size)), kgo.FetchMaxPartitionBytes(2<<20),
				kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"bench": {0: kgo.NewOffset().At(0)}}))
			require.NoError(b, err)
			defer k.Close()
			perCPU(b, size, func() {
				for n := 0; n < b.N; {
					fetches := k.PollFetches(b.Context())
					require.NoError(b, fetches.Err())
					n += fetches.NumRecords()
				}
			})
		})
	}
}

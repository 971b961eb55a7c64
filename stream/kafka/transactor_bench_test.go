package kafka

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streamtest"
)

// benchmarkBrokers runs a benchmark against kfake in a process of its own and,
// where PORESTREAM_KAFKA_LIB names its jars, against Apache Kafka.
func benchmarkBrokers(b *testing.B, recordBytes int, run func(b *testing.B, c *Client)) {
	b.Run("kfake", func(b *testing.B) { run(b, dial(b, benchmarkBroker(b, recordBytes))) })
	b.Run("apache", func(b *testing.B) {
		lib := os.Getenv(streamtest.LibVariable)
		if lib == "" {
			b.Skipf("%s is not set: see stream/streamtest/kafka/fetch.sh", streamtest.LibVariable)
		}
		broker, err := streamtest.StartApache(b.Context(), streamtest.ApacheConfig{Lib: lib, Dir: b.TempDir()})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, broker.Stop()) })
		c := dial(b, broker.Addr)
		require.NoError(b, c.EnsureTopics(b.Context(), []stream.TopicSettings{{Name: "bench", Partitions: 8, Config: map[string]string{
			"retention.bytes": "67108864", "segment.bytes": "33554432",
		}}}, 1))
		run(b, c)
	})
}

// BenchmarkTransactions writes the same records idempotently and in
// transactions of 150 ms with offsets, in turns of a second; ratio is the
// throughput in transactions over that without.
func BenchmarkTransactions(b *testing.B) {
	for _, size := range benchmarkSizes {
		value := make([]byte, size)
		for i := range value {
			value[i] = byte(i * 31)
		}
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			benchmarkBrokers(b, size, func(b *testing.B, c *Client) {
				p := newProducer(b, c, ProducerConfig{})
				tr := newTransactor(b, c, "bench", ProducerConfig{})
				var commits atomic.Int64
				commit := func() {
					if err := tr.Commit(b.Context(), offsetsOf("bench", "bench", 0, commits.Add(1), "")); err != nil {
						b.Error(err)
					}
				}
				// everySoOften commits while records are sent, as a worker does.
				everySoOften := func(send func()) {
					stop := make(chan struct{})
					var committing sync.WaitGroup
					committing.Go(func() {
						tick := time.NewTicker(150 * time.Millisecond)
						defer tick.Stop()
						for {
							select {
							case <-tick.C:
								commit()
							case <-stop:
								commit()
								return
							}
						}
					})
					send()
					close(stop)
					committing.Wait()
				}
				sent := 0
				send := func(to func(context.Context, []stream.Out, func(error)) error) {
					for began := time.Now(); sent < b.N && time.Since(began) < time.Second; sent++ {
						require.NoError(b, to(b.Context(), []stream.Out{{Topic: "bench", Partition: int32(sent % 8), Value: value}}, nil))
					}
				}
				commit() // the first takes seconds on a broker that has just started
				var took [2]time.Duration
				var wrote [2]int
				b.SetBytes(int64(size))
				b.ResetTimer()
				for turn := 0; sent < b.N; turn++ {
					before, began := sent, time.Now()
					if turn%2 == 0 {
						send(p.Send)
						require.NoError(b, p.Flush(b.Context()))
					} else {
						everySoOften(func() { send(tr.Send) })
					}
					took[turn%2] += time.Since(began)
					wrote[turn%2] += sent - before
				}
				rate := func(i int) float64 { return float64(wrote[i]) * float64(size) / (1 << 20) / took[i].Seconds() }
				if wrote[1] > 0 {
					b.ReportMetric(rate(0), "plain-MiB/s")
					b.ReportMetric(rate(1), "transactions-MiB/s")
					b.ReportMetric(rate(1)/rate(0), "ratio")
					b.ReportMetric(float64(commits.Load())/took[1].Seconds(), "commits/s")
				}
			})
		})
	}
}

// BenchmarkTransaction is one transaction of one record and an offset after the
// other.
func BenchmarkTransaction(b *testing.B) {
	benchmarkBrokers(b, 4<<10, func(b *testing.B, c *Client) {
		tr := newTransactor(b, c, "bench", ProducerConfig{Linger: -1})
		transaction := func(i int) {
			require.NoError(b, tr.Send(b.Context(), []stream.Out{{Topic: "bench", Value: []byte("x")}}, nil))
			require.NoError(b, tr.Commit(b.Context(), offsetsOf("bench", "bench", 0, int64(i), "")))
		}
		transaction(0)
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			transaction(i)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "transactions/s")
	})
}

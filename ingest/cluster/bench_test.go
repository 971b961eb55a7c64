package cluster_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/stream/streamtest"
	"github.com/porestream/porestream/testenv"
)

// brokerVariable makes the test program a broker in a process of its own: it
// prints its address and ends with its input.
const brokerVariable = "PORESTREAM_TEST_BROKER"

func serveBroker() int {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(os.Getenv(brokerVariable)))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(c.ListenAddrs()[0])
	_, err = io.Copy(io.Discard, os.Stdin)
	c.Close()
	if err != nil {
		return 1
	}
	return 0
}

// otherProcess starts a broker whose CPU time is not this process'.
func otherProcess(b *testing.B) string {
	b.Helper()
	if lib := os.Getenv(streamtest.LibVariable); lib != "" {
		broker, err := streamtest.StartCluster(b.Context(), streamtest.ClusterConfig{
			Nodes: 1, ApacheConfig: streamtest.ApacheConfig{Lib: lib, Dir: b.TempDir()},
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := broker.Stop(); err != nil {
				b.Error(err)
			}
		})
		return broker.Nodes[0].Addr
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), brokerVariable+"="+b.TempDir())
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return line[:len(line)-1]
}

// BenchmarkIngest reads a POD5 recording, cuts it into chunks, packs these and
// publishes them in transactions to a broker in another process: Apache Kafka
// where its jars are at hand, else kfake. cpu-samples/s counts per second of CPU
// time of this process.
func BenchmarkIngest(b *testing.B) {
	addr := otherProcess(b)
	for _, c := range []struct {
		name  string
		spool bool
	}{{"plain", false}, {"spool", true}} {
		b.Run(c.name, func(b *testing.B) {
			rec := lambda(b, 1000)
			l := newLab(b, addr, c.name)
			dir := filepath.Join(b.TempDir(), "spool")
			var samples int64
			var cpu time.Duration
			b.ReportAllocs()
			for b.Loop() {
				before := testenv.ProcessorTime(b)
				totals, err := l.ingest(b.Context(), b, rec, func(cfg *ingest.ServiceConfig) {
					cfg.Restart, cfg.Logger = true, nil
					if c.spool {
						cfg.SpoolDir = dir
					}
				})
				if err != nil {
					b.Fatal(err)
				}
				cpu += testenv.ProcessorTime(b) - before
				samples += totals.Samples
			}
			b.ReportMetric(float64(samples)/cpu.Seconds(), "cpu-samples/s")
			b.ReportMetric(float64(samples)/b.Elapsed().Seconds(), "samples/s")
		})
	}
}

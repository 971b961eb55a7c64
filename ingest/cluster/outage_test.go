package cluster_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/stream/streamtest"
)

// outageVariable makes [TestKafkaAway] keep Kafka away for longer, and play at
// the sequencer's own speed.
const outageVariable = "PORESTREAM_KAFKA_OUTAGE"

// gauge reads a metric, summed over its labels.
func gauge(t *testing.T, reg prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			sum := 0.
			for _, m := range f.GetMetric() {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
			return sum
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// TestKafkaAway kills the broker while a run is played by the clock. The source
// is not held up, and when the broker is back all of the run is there, in order,
// once.
func TestKafkaAway(t *testing.T) {
	lib := os.Getenv(streamtest.LibVariable)
	if lib == "" {
		t.Skipf("%s is not set: see stream/streamtest/kafka/fetch.sh", streamtest.LibVariable)
	}
	outage, pace := 4*time.Second, 50.
	if s := os.Getenv(outageVariable); s != "" {
		var err error
		if outage, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
		pace = 1
	}
	t.Parallel()
	brokers, err := streamtest.StartCluster(t.Context(), streamtest.ClusterConfig{
		Nodes: 1, ApacheConfig: streamtest.ApacheConfig{Lib: lib, Dir: t.TempDir()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := brokers.Stop(); err != nil {
			t.Error(err)
		}
	}()
	broker := brokers.Nodes[0]
	rec := lambda(t, 1000)
	want := newLab(t, broker.Addr, "whole").whole(t, rec)
	l := newLab(t, broker.Addr, "away")
	reg := prometheus.NewRegistry()
	metrics := ingest.NewMetrics(reg)
	spool := filepath.Join(t.TempDir(), "spool")
	over := make(chan error, 1)
	var totals ingest.Totals
	go func() {
		var err error
		totals, err = l.ingest(t.Context(), t, rec, func(cfg *ingest.ServiceConfig) {
			cfg.Pace, cfg.Metrics, cfg.SpoolDir = pace, metrics, spool
		})
		over <- err
	}()
	sent := func() float64 { return gauge(t, reg, "porestream_ingest_samples_total") }
	streamtest.Eventually(t.Context(), t, "signal in Kafka", func() bool {
		return gauge(t, reg, "porestream_ingest_transactions_total") > 5
	})
	if err := broker.Kill(); err != nil {
		t.Fatal(err)
	}
	before, down := sent(), time.Now()
	streamtest.Eventually(t.Context(), t, "signal in the spool", func() bool { return gauge(t, reg, "porestream_ingest_spool_bytes") > 0 })
	select {
	case <-time.After(outage - time.Since(down)): // the outage is what is tested
	case err := <-over:
		t.Fatalf("it ended while the broker was away: %v", err)
	}
	t.Logf("broker away for %v: %.0f samples played meanwhile, spool %.0f bytes, oldest %.1f s, late by %.3f s", time.Since(down).Round(time.Millisecond), sent()-before,
		gauge(t, reg, "porestream_ingest_spool_bytes"), gauge(t, reg, "porestream_ingest_oldest_waiting_seconds"), gauge(t, reg, "porestream_ingest_lateness_seconds"))
	if sent() == before {
		t.Error("the source was held up")
	}
	if err := broker.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	streamtest.Eventually(t.Context(), t, "the end of the spool", func() bool { return gauge(t, reg, "porestream_ingest_spool_bytes") == 0 })
	t.Logf("caught up %v after the broker was back", time.Since(back).Round(time.Millisecond))
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	same(t, l.signal(t), want)
	t.Logf("%+v", totals)
	left, err := os.ReadDir(spool)
	if err != nil || len(left) != 1 {
		t.Errorf("%d files are left in the spool, want its lock: %v", len(left), err)
	}
}

// Package streamtest provides brokers to test against: kfake, which speaks the
// whole protocol in this process and can be made to fail, and a real Apache
// Kafka where its jars are at hand.
package streamtest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/stream/embedded"
)

// Kfake starts a fake cluster that ends with the test. It lets group sessions
// be as short as a tenth of a second.
func Kfake(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	opts = append([]kfake.Opt{kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(100 * time.Millisecond), kfake.ListenFn(embedded.Patient(net.Listen))}, opts...)
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatalf("starting kfake: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// AfterApply makes the next n requests of a kind succeed on the broker and
// answer with a time-out, the case that doubles records of producers that are
// not idempotent.
func AfterApply(c *kfake.Cluster, key kmsg.Key, n int) *kfake.FaultHandle {
	return c.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: kerr.RequestTimedOut, Count: n})
}

// Refuse makes the next n requests of a kind fail with err before they have
// any effect.
func Refuse(c *kfake.Cluster, key kmsg.Key, err *kerr.Error, n int) *kfake.FaultHandle {
	return c.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: err, Count: n})
}

// Eventually waits for a condition, without a deadline of its own: a test that
// hangs is ended by the test's, with every goroutine's stack.
func Eventually(ctx context.Context, t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, context.Cause(ctx))
		}
	}
}

package streamtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// shared is the real broker that all tests of a package use; it takes seconds
// to start.
var shared struct {
	once sync.Once
	*Apache
	err error
	dir string
}

// Main runs a package's tests and ends the broker they share. TestMain of a
// package that uses [Each] is
//
//	func TestMain(m *testing.M) { os.Exit(streamtest.Main(m)) }
func Main(m *testing.M) int {
	code := m.Run()
	if shared.Apache != nil {
		if err := shared.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	if shared.dir != "" {
		if err := os.RemoveAll(shared.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

// Each runs a test against kfake and, where PORESTREAM_KAFKA_LIB names its
// jars, against a real Apache Kafka, which all tests of the package share: topic
// and group names must be the test's own.
func Each(t *testing.T, test func(t *testing.T, addr string), opts ...kfake.Opt) {
	t.Run("kfake", func(t *testing.T) {
		t.Parallel()
		test(t, Kfake(t, opts...).ListenAddrs()[0])
	})
	t.Run("apache", func(t *testing.T) {
		lib := os.Getenv(LibVariable)
		if lib == "" {
			t.Skipf("%s is not set: see stream/streamtest/kafka/fetch.sh", LibVariable)
		}
		t.Parallel()
		shared.once.Do(func() {
			//nolint:usetesting // the broker outlives the test that starts it
			if shared.dir, shared.err = os.MkdirTemp("", "porestream-kafka-"); shared.err == nil {
				shared.Apache, shared.err = StartApache(context.Background(), ApacheConfig{Lib: lib, Dir: shared.dir})
			}
		})
		if shared.err != nil {
			t.Fatal(shared.err)
		}
		test(t, shared.Addr)
	})
}

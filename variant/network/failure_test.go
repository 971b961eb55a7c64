package network

import (
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/basecall/scores"
	"github.com/porestream/porestream/variant"
)

// echo is a device whose logits are all an example's first value. It takes a
// second for a batch, and does what fault says before the batch of each number.
type echo struct {
	in    [][]float32
	fault func(batch int) error

	mu    sync.Mutex
	sizes []int // of the batches
}

func newEcho(batch int, fault func(batch int) error) *echo {
	e := &echo{in: make([][]float32, batch), fault: fault}
	for i := range e.in {
		e.in[i] = make([]float32, variant.ExampleSize)
	}
	return e
}

func (e *echo) Input(row int) []float32 { return e.in[row] }

func (e *echo) Run(rows, _ int) (int, error) {
	e.mu.Lock()
	e.sizes = append(e.sizes, rows)
	n := len(e.sizes)
	e.mu.Unlock()
	time.Sleep(time.Second)
	if e.fault != nil {
		if err := e.fault(n); err != nil {
			return 0, err
		}
	}
	return rows, nil
}

func (*echo) Count(int, int) {}

func (e *echo) Scores(row int) scores.Window {
	out := make([]float32, variant.Scores)
	for i := range out {
		out[i] = e.in[row][0]
	}
	out[variant.ScoreCopies] = 0
	return scores.OfFloats(out, variant.Scores)
}

func (e *echo) Close() error { return nil }

// on starts a network on a device.
func on(t *testing.T, e *echo, cfg Config) *Network {
	t.Helper()
	n := &Network{model: &Model{Manifest: Manifest{Name: "echo"}}, device: "cpu"}
	require.NoError(t, n.start(&infer.Runners{Runners: []infer.Runner{e}, Devices: []infer.Device{{}}, Batch: len(e.in)}, cfg))
	return n
}

// ask scores examples with the given first values, of haploid substitutions.
func ask(n *Network, values ...float32) ([]float32, error) {
	var x []float32
	for _, v := range values {
		example := make([]float32, variant.ExampleSize)
		example[0] = v
		scalars := example[variant.ExamplePlanes*variant.ExampleColumns:]
		scalars[variant.ScalarPloidy], scalars[variant.ScalarType] = 1, 1
		x = append(x, example...)
	}
	return n.Score(nil, x)
}

// requireOdds checks that answers are those to the given values.
func requireOdds(t *testing.T, scores []float32, values ...float32) {
	t.Helper()
	require.Len(t, scores, len(values)*variant.Scores)
	for i, v := range values {
		require.InDelta(t, v, scores[i*variant.Scores+2]-scores[i*variant.Scores], 1e-5)
	}
}

// TestCallersShareBatches: what several ask at once is computed together.
func TestCallersShareBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEcho(8, nil)
		n := on(t, e, Config{MaxDelay: time.Hour})
		var scoring sync.WaitGroup
		for i := range 4 {
			scoring.Go(func() {
				a, b, c := float32(i), float32(i)+0.25, float32(-i)
				scores, err := ask(n, a, b, c)
				assert.NoError(t, err)
				requireOdds(t, scores, a, b, c)
			})
		}
		scoring.Wait()
		total := 0
		for _, size := range e.sizes {
			total += size
		}
		assert.Equal(t, 12, total)
		assert.LessOrEqual(t, len(e.sizes), 3, "batches of %v", e.sizes)
		require.NoError(t, n.Close())
	})
}

// TestFailedBatch: a batch that fails once is computed again and nobody notices;
// one that fails twice is an error of all who had a part in it, and the next is
// computed.
func TestFailedBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("the device is broken")
		fails := func(batches ...int) func(int) error {
			return func(batch int) error {
				for _, b := range batches {
					if b == batch {
						return broken
					}
				}
				return nil
			}
		}
		n := on(t, newEcho(4, fails(1)), Config{})
		scores, err := ask(n, 1, 2, 3)
		require.NoError(t, err)
		requireOdds(t, scores, 1, 2, 3)
		require.NoError(t, n.Close())

		n = on(t, newEcho(2, fails(1, 2)), Config{})
		scores, err = n.Score([]float32{5}, make([]float32, 5*variant.ExampleSize)) // three batches
		require.ErrorIs(t, err, broken)
		assert.EqualError(t, err, "model echo on cpu: running a batch of 2 windows: the device is broken")
		assert.Equal(t, []float32{5}, scores, "what was there stays")
		scores, err = ask(n, 1, 2, 3)
		require.NoError(t, err)
		requireOdds(t, scores, 1, 2, 3)
		require.NoError(t, n.Close())
	})
}

// TestNotANumber: what is no number is no answer.
func TestNotANumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := on(t, newEcho(2, nil), Config{})
		_, err := ask(n, float32(math.NaN()))
		require.ErrorContains(t, err, "is NaN")
		require.NoError(t, n.Close())
	})
}

// TestHungDevice: a device that hangs ends the requests that wait and those
// that come, and Watch reports it.
func TestHungDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		n := on(t, newEcho(2, func(int) error { <-released; return nil }), Config{DeviceTimeout: 10 * time.Second})
		start := time.Now()
		var hung *infer.HungError
		_, err := ask(n, 1, 2, 3, 4, 5)
		require.ErrorAs(t, err, &hung)
		assert.Less(t, time.Since(start), 15*time.Second)
		_, err = ask(n, 1)
		require.ErrorAs(t, err, &hung)
		require.ErrorAs(t, n.Watchdog(t.Context()), &hung)
		require.ErrorContains(t, n.Watchdog(t.Context()), "device cpu: the device has not computed a batch of 2 windows within 10s")
		close(released)
		require.NoError(t, n.Close())
	})
}

// TestNobodyWaitsForAClosedNetwork: nobody waits for a network that was closed.
func TestNobodyWaitsForAClosedNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := on(t, newEcho(2, nil), Config{})
		require.NoError(t, n.Close())
		_, err := ask(n, 1, 2, 3)
		require.ErrorIs(t, err, infer.ErrClosed)
	})
}

package infer

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFitting: a device without memory for a batch is given half of it, and what else is
// wrong is no matter of size.
func TestFitting(t *testing.T) {
	full := func(batch int) error {
		return fmt.Errorf("trying batches of %d windows: CUDA failure 2: out of memory", batch)
	}
	other := errors.New("CUDNN_STATUS_EXECUTION_FAILED")
	for _, c := range []struct {
		name            string
		batch, capacity int
		err             error // of what fits; nil: none
		tried           []int
		found           int
	}{
		{"fits", 512, 1000, nil, []int{512}, 512},
		{"half", 512, 511, nil, []int{512, 256}, 256},
		{"little", 512, 5, nil, []int{512, 256, 128, 64, 32, 16, 8, 4}, 4},
		{"no power of two", 100, 30, nil, []int{100, 50, 25}, 25},
		{"nothing fits", 6, 0, nil, []int{6, 3, 1}, 0},
		{"another fault", 512, 300, other, []int{512, 256}, 0},
		{"another fault at once", 512, 1000, other, []int{512}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tried, refused []int
			r, err := fitting(c.batch, func(batch int) (*Runners, error) {
				tried = append(tried, batch)
				if batch > c.capacity {
					return nil, full(batch)
				}
				return &Runners{Batch: batch}, c.err
			}, func(batch int, why error) {
				require.ErrorContains(t, why, "out of memory")
				refused = append(refused, batch)
			})
			assert.Equal(t, c.tried, tried)
			if c.found > 0 {
				require.NoError(t, err)
				assert.Equal(t, c.found, r.Batch)
				assert.ElementsMatch(t, tried[:len(tried)-1], refused)
				return
			}
			require.Error(t, err)
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
			}
		})
	}
}

// TestFill: every runner computes a whole batch, and one that can't says so.
func TestFill(t *testing.T) {
	net := Network{Samples: 4, Frames: 2, Classes: 1}
	runners := &Runners{Batch: 3}
	var counted []*counting
	for range 2 {
		c := &counting{input: make([]float32, runners.Batch*net.Samples), samples: net.Samples}
		counted = append(counted, c)
		runners.Runners = append(runners.Runners, c)
	}
	require.NoError(t, runners.fill())
	for _, c := range counted {
		assert.Equal(t, []int{3}, c.ran)
		assert.NotContains(t, c.input, float32(0))
	}
	counted[1].err = errors.New("out of memory")
	assert.ErrorContains(t, runners.fill(), "trying batches of 3 windows: out of memory")
}

// counting is a runner that notes the batches it was given.
type counting struct {
	Runner
	input   []float32
	samples int
	ran     []int
	err     error
}

func (c *counting) Input(row int) []float32 { return c.input[row*c.samples:][:c.samples] }

func (c *counting) Run(rows, _ int) (int, error) {
	c.ran = append(c.ran, rows)
	return rows, c.err
}

package infer

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/scores"
)

// pricedRunner takes a time that depends on the size of the batch.
type pricedRunner struct {
	price func(rows int) time.Duration
	now   time.Duration
	runs  []int
	err   error
	in    [64]float32
}

func (p *pricedRunner) Input(row int) []float32 { return p.in[row : row+1] }

func (p *pricedRunner) Run(rows, _ int) (int, error) {
	p.runs = append(p.runs, rows)
	p.now += p.price(rows)
	return rows, p.err
}

func (*pricedRunner) Count(int, int) {}

func (p *pricedRunner) Scores(int) scores.Window { return scores.Window{} }

func (p *pricedRunner) Close() error { return nil }

func TestTuneTakesTheSmallestThatIsFast(t *testing.T) {
	ms := func(f float64) time.Duration { return time.Duration(f * float64(time.Millisecond)) }
	for name, tc := range map[string]struct {
		price func(rows int) time.Duration
		want  int
	}{
		"flat":                    {func(n int) time.Duration { return ms(16 * float64(n)) }, 1},
		"a cost per batch":        {func(n int) time.Duration { return ms(2 + 16*float64(n)) }, 2},
		"a high cost per batch":   {func(n int) time.Duration { return ms(100 + 10*float64(n)) }, 8},
		"large batches are worse": {func(n int) time.Duration { return ms(float64(n) * (10 + float64(n))) }, 1},
		"slow":                    {func(n int) time.Duration { return ms(900 * float64(n)) }, 8},
	} {
		t.Run(name, func(t *testing.T) {
			r := &pricedRunner{price: tc.price}
			got, err := tune(r, 8, func() time.Duration { return r.now })
			require.NoError(t, err)
			assert.Equal(t, tc.want, got, "measured %v", r.runs)
		})
	}
	broken := &pricedRunner{price: func(int) time.Duration { return 0 }, err: errors.New("broken")}
	_, err := tune(broken, 8, func() time.Duration { return 0 })
	require.ErrorContains(t, err, "trying batches of 8 windows: broken")
}

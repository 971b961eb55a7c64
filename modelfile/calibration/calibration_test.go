package calibration_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/modelfile/calibration"
)

func TestCurve(t *testing.T) {
	curve := calibration.Curve{{10, 8}, {20, 18}, {40, 18}, {60, 30}}
	for _, tt := range []struct{ x, want float64 }{
		{0, 0}, {5, 4}, {10, 8}, {15, 13}, {20, 18}, {30, 18}, {40, 18}, {50, 24}, {60, 30}, {1e9, 30},
	} {
		assert.InDelta(t, tt.want, curve.At(tt.x), 1e-12, "at %v", tt.x)
		assert.Equal(t, tt.x, calibration.Curve(nil).At(tt.x))
	}
	assert.Equal(t, 30.0, curve.At(math.Inf(1)))
	last := 0.0
	for x := 0.0; x < 80; x += 0.01 {
		require.GreaterOrEqual(t, curve.At(x), last)
		last = curve.At(x)
	}
}

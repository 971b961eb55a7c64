//go:build planted

package infer

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPlantedFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fault")
	t.Setenv(faultEnv, path)
	synctest.Test(t, func(t *testing.T) {
		r := faulty(newNegation(negated, 2))
		plant := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o644)) }
		works := func(want bool, takes time.Duration) {
			t.Helper()
			start := time.Now()
			n, err := r.Run(2, 1)
			require.Equal(t, want, n == 2 && err == nil)
			require.Equal(t, takes, time.Since(start))
		}
		works(true, 0)
		plant("error 2\n")
		works(false, 0)
		works(false, 0)
		works(true, 0)
		plant("hang 90")
		works(true, 90*time.Second)
		works(true, 0)
		plant("")
		works(true, 0)
		plant("hang 90")
		works(true, 90*time.Second)
		plant("shape")
		works(false, 0)
		works(false, 0)
		plant("nonsense")
		_, err := r.Run(1, 1)
		require.ErrorContains(t, err, `"nonsense" is no fault of a device`)
	})
}

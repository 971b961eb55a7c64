//go:build planted

package network_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/network"
	"github.com/porestream/porestream/variant/network/networktest"
)

// TestPlantedFaults has ONNX Runtime itself fail: what the file says is done by
// the sessions that New opens.
func TestPlantedFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fault")
	t.Setenv("PORESTREAM_DEVICE_FAULT", path)
	model := networktest.Model(t, networktest.Random(7))
	plant := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o644)) }
	x := examples(7, 6)
	n := open(t, model, network.Config{Batch: 8, Sessions: 1})
	want, err := n.Score(nil, x)
	require.NoError(t, err)
	again := func() {
		t.Helper()
		got, err := n.Score(nil, x)
		require.NoError(t, err)
		require.True(t, equalBits(got, want))
	}
	plant("error 1")
	again() // computed once more
	plant("error 2")
	got, err := n.Score(want[:variant.Scores:variant.Scores], x)
	require.ErrorContains(t, err, "model test on cpu: running a batch of 6 windows: planted failure")
	require.Len(t, got, variant.Scores)
	again()
	plant("shape")
	_, err = n.Score(nil, x)
	require.ErrorContains(t, err, "it computed 5")
	plant("")
	again()

	plant("hang 2")
	hanging, err := network.New(model, network.Config{Device: "cpu", Sessions: 1, DeviceTimeout: 500 * time.Millisecond})
	require.NoError(t, err)
	var hung *infer.HungError
	_, err = hanging.Score(nil, x)
	require.ErrorAs(t, err, &hung)
	require.ErrorAs(t, hanging.Watchdog(t.Context()), &hung)
	require.NoError(t, hanging.Close())
}

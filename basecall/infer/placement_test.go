package infer

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPlacementNamesNodes has the nodes of a network named that all run on the CPU.
func TestPlacementNamesNodes(t *testing.T) {
	needLibrary(t)
	t.Setenv("TMPDIR", t.TempDir())
	onnx, err := os.ReadFile(filepath.Join("..", "..", "models", "r9.4-fast", "model.onnx"))
	require.NoError(t, err)
	net := Network{Name: "r9.4-fast", ONNX: onnx, Input: "signal", Output: "scores", Samples: 900, Frames: 150, Classes: 256}

	_, err = openSession(net, Device{}, 2, 1, 1, Options{}, refuseCPU)
	require.ErrorContains(t, err, "loading network r9.4-fast on cpu: ", "nodes on the CPU are refused")
	assert.NotContains(t, err.Error(), "\n")

	nodes, err := placement(net, Device{}, 1, Options{})
	require.NoError(t, err)
	assert.Greater(t, len(nodes), 10)
	operators := map[string]int{}
	for _, n := range nodes {
		operators[n.Op]++
		assert.NotEmpty(t, n.Name)
		assert.Equal(t, cpuProvider, n.Provider)
	}
	assert.Equal(t, 5, operators["LSTM"])
	assert.Equal(t, 2, operators["Conv"])
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "porestream-profile*"))
	require.NoError(t, err)
	assert.Empty(t, left, "profiles are removed")

	var log strings.Builder
	r := Runners{}
	r.leftToCPU(net, Device{}, 1, Options{}, slog.New(slog.NewTextHandler(&log, nil)))
	assert.Equal(t, nodes, r.LeftToCPU)
	assert.Contains(t, log.String(), "lstm.0 (LSTM)")
	assert.Contains(t, log.String(), " more")
}

const someProfile = `[
{"cat" : "Session","pid" :1,"tid" :1,"dur" :2050,"ts" :3,"ph" : "X","name" :"model_loading_array","args" : {}},
{"cat" : "Node","pid" :1,"tid" :1,"dur" :4,"ts" :5,"ph" : "X","name" :"lstm.0_fence_before","args" : {"op_name" : "LSTM"}},
{"cat" : "Node","pid" :1,"tid" :1,"dur" :4,"ts" :6,"ph" : "X","name" :"lstm.0_kernel_time","args" : {"op_name" : "LSTM","provider" : "CUDAExecutionProvider","input_type_shape" : [{"float":[1,2]}]}},
{"cat" : "Node","pid" :1,"tid" :1,"dur" :4,"ts" :7,"ph" : "X","name" :"shape_kernel_time","args" : {"op_name" : "Shape","provider" : "CPUExecutionProvider"}},
{"cat" : "Node","pid" :1,"tid" :1,"dur" :4,"ts" :8,"ph" : "X","name" :"shape_kernel_time","args" : {"op_name" : "Shape","provider" : "CPUExecutionProvider"}},
{"cat" : "Kernel","pid" :1,"tid" :1,"dur" :4,"ts" :9,"ph" : "X","name" :"gemm_kernel_time","args" : {"provider" : "x"}}
]
`

func TestReadProfile(t *testing.T) {
	nodes, err := readProfile(strings.NewReader(someProfile))
	require.NoError(t, err)
	assert.Equal(t, []Node{{"lstm.0", "LSTM", "CUDAExecutionProvider"}, {"shape", "Shape", "CPUExecutionProvider"}}, nodes)
	for _, wrong := range []string{"", "{}", "[", `[{"cat":1}]`, someProfile[:len(someProfile)/2], strings.TrimSuffix(someProfile, "]\n")} {
		_, err := readProfile(strings.NewReader(wrong))
		require.ErrorContains(t, err, "reading a profile of ONNX Runtime: ", wrong)
	}
}

func FuzzReadProfile(f *testing.F) {
	f.Add(someProfile)
	f.Add("[]")
	f.Fuzz(func(t *testing.T, text string) {
		nodes, err := readProfile(strings.NewReader(text))
		if err != nil {
			return
		}
		seen := map[Node]bool{}
		for _, n := range nodes {
			require.False(t, seen[n], "%v twice", n)
			require.NotEmpty(t, n.Provider)
			seen[n] = true
		}
	})
}

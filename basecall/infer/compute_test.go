package infer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPrecisionChoosesTheNetwork(t *testing.T) {
	ntc := testNetwork(t, "ntc").ONNX
	both := Network{Name: "n", ONNX: ntc, HalfONNX: []byte("half")}
	single := Network{Name: "n", ONNX: ntc}
	exact := both
	exact.Exact = true
	gpu, cpu := Device{CUDA: true}, Device{}
	for _, test := range []struct {
		net       Network
		device    Device
		precision Precision
		want      string
	}{
		{both, gpu, PrecisionAuto, "half"},
		{both, cpu, PrecisionAuto, string(ntc)},
		{single, gpu, PrecisionAuto, string(ntc)},
		{both, gpu, PrecisionSingle, string(ntc)},
		{both, cpu, PrecisionSingle, string(ntc)},
		{both, gpu, PrecisionHalf, "half"},
		{both, cpu, PrecisionHalf, "half"},
		{exact, gpu, PrecisionAuto, string(ntc)},
		{exact, gpu, PrecisionHalf, "half"},
	} {
		onnx, _, err := test.net.chosen(test.device, test.net.asked(test.precision))
		require.NoError(t, err)
		assert.Equal(t, test.want, string(onnx), "%v", test)
	}
	assert.Equal(t, PrecisionSingle, exact.asked(PrecisionAuto), "factors must not be rounded")
	_, _, err := single.chosen(gpu, PrecisionHalf)
	require.EqualError(t, err, "network n has no file for half precision (fp16)")
	_, _, err = both.chosen(gpu, PrecisionInt8)
	require.EqualError(t, err, "int8 is for CPUs: cuda:0 computes in fp16 or fp32")
}

func TestPrecisionIsAFlag(t *testing.T) {
	for _, p := range []Precision{PrecisionAuto, PrecisionSingle, PrecisionHalf, PrecisionInt8} {
		var have Precision
		require.NoError(t, have.Set(p.String()))
		assert.Equal(t, p, have)
	}
	var p Precision
	require.EqualError(t, p.Set("bf16"), `"bf16" is none of auto, fp32, fp16, int8`)
	assert.Equal(t, "Precision(9)", Precision(9).String())
}

func TestCUDAOptions(t *testing.T) {
	for _, test := range []struct {
		name    string
		compute Compute
		want    map[string]string
		wrong   string
	}{
		{"default", Compute{}, map[string]string{"device_id": "3", "cudnn_conv_algo_search": "HEURISTIC"}, ""},
		{
			"single precision is not rounded", Compute{Precision: PrecisionSingle},
			map[string]string{"device_id": "3", "cudnn_conv_algo_search": "HEURISTIC", "use_tf32": "0"}, "",
		},
		{
			"sessions share memory", Compute{GPUMemory: 8 << 30},
			map[string]string{"device_id": "3", "cudnn_conv_algo_search": "HEURISTIC", "gpu_mem_limit": "4294967296", "arena_extend_strategy": "kSameAsRequested"}, "",
		},
		{
			"what is asked for goes first",
			Compute{GPUMemory: 2, CUDA: map[string]string{"arena_extend_strategy": "kNextPowerOfTwo", "cudnn_conv_algo_search": "DEFAULT", "cudnn_conv_use_max_workspace": "0"}},
			map[string]string{
				"device_id": "3", "cudnn_conv_algo_search": "DEFAULT", "gpu_mem_limit": "1", "arena_extend_strategy": "kNextPowerOfTwo",
				"cudnn_conv_use_max_workspace": "0",
			}, "",
		},
		{"the device is --device's", Compute{CUDA: map[string]string{"device_id": "1"}}, nil, "CUDA option device_id is not to be chosen"},
	} {
		t.Run(test.name, func(t *testing.T) {
			have, err := test.compute.cuda(Device{CUDA: true, Index: 3}, 2)
			if test.wrong != "" {
				require.ErrorContains(t, err, test.wrong)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.want, have)
		})
	}
}

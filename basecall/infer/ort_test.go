package infer

import (
	"log/slog"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/basecall/onnxpb"
)

// needLibrary skips a test where ONNX Runtime hasn't been fetched.
func needLibrary(t testing.TB) {
	t.Helper()
	library, err := FindLibrary("")
	if err != nil {
		t.Skip("needs ONNX Runtime: ", err)
	}
	require.NoError(t, loadLibrary(library))
}

// testNetwork returns one of the networks of testdata/networks.py.
func testNetwork(t testing.TB, name string) Network {
	t.Helper()
	onnx, err := os.ReadFile(filepath.Join("testdata", name+".onnx"))
	require.NoError(t, err)
	return Network{
		Name: name, ONNX: onnx, Input: "signal", Output: "scores",
		TimeMajor: name == "tnc", Samples: 12, Frames: 4, Classes: 2,
	}
}

func cpu(batch int) Options {
	return Options{Device: "cpu", BatchCPU: batch, SessionsCPU: 1, BatchCUDA: batch, SessionsCUDA: 1}
}

func TestSessionComputesRowsInBothLayouts(t *testing.T) {
	needLibrary(t)
	for _, name := range []string{"ntc", "tnc"} {
		t.Run(name, func(t *testing.T) {
			r, err := Open(testNetwork(t, name), cpu(4))
			require.NoError(t, err)
			defer r.Close()
			runner := r.Runners[0]
			for rows := 1; rows <= 4; rows++ {
				for row := range rows {
					for i := range runner.Input(row) {
						runner.Input(row)[i] = float32(100*row + i*i)
					}
				}
				computed, err := runner.Run(rows, len(runner.Input(0)))
				require.NoError(t, err)
				assert.Equal(t, rows, computed)
				for row := range rows {
					scores := make([]float32, 8)
					runner.Scores(row).Copy(scores)
					for f := range 4 {
						first, third := float32(100*row+9*f*f), float32(100*row+(3*f+2)*(3*f+2))
						assert.Equal(t, []float32{first + third, first - third}, scores[2*f:2*f+2])
					}
				}
			}
		})
	}
}

// TestSessionComputesShorterWindows: of networks that leave the length open, in their unit.
func TestSessionComputesShorterWindows(t *testing.T) {
	needLibrary(t)
	for _, name := range []string{"ntc", "tnc"} {
		t.Run(name, func(t *testing.T) {
			net := testNetwork(t, name)
			net.Unit = 6
			r, err := Open(net, cpu(4))
			require.NoError(t, err)
			defer r.Close()
			require.Equal(t, 6, r.Unit)
			runner := r.Runners[0]
			for _, shape := range [][2]int{{1, 6}, {3, 12}, {1, 6}, {3, 6}, {2, 6}, {1, 12}, {3, 6}} {
				rows, samples := shape[0], shape[1]
				for row := range rows {
					for i := range samples {
						runner.Input(row)[i] = float32(100*row + i*i)
					}
				}
				_, err := runner.Run(rows, samples)
				require.NoError(t, err)
				for row := range rows {
					w := runner.Scores(row)
					require.Equal(t, samples/3, w.Frames)
					have := make([]float32, 2*w.Frames)
					w.Copy(have)
					for f := range w.Frames {
						first, third := float32(100*row+9*f*f), float32(100*row+(3*f+2)*(3*f+2))
						assert.Equal(t, []float32{first + third, first - third}, have[2*f:2*f+2])
					}
				}
			}
		})
	}
	net, opts := testNetwork(t, "ntc"), cpu(1)
	net.Unit, opts.Scores = 6, ScoresHalf
	r, err := Open(net, opts)
	require.NoError(t, err)
	defer r.Close()
	assert.Zero(t, r.Unit, "in halves windows are of one length")
	for _, unit := range []int{12, 36} {
		net.Unit = unit
		r, err = Open(net, cpu(4))
		require.NoError(t, err)
		defer r.Close()
		assert.Zero(t, r.Unit, "no window of 12 samples is shorter in units of %d", unit)
	}
	fixed := testNetwork(t, "ntc")
	var model onnxpb.ModelProto
	require.NoError(t, proto.Unmarshal(fixed.ONNX, &model))
	dims := model.GetGraph().GetInput()[0].GetType().GetTensorType().GetShape().GetDim()
	dims[2].Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: 12}
	fixed.ONNX, err = proto.Marshal(&model)
	require.NoError(t, err)
	fixed.Unit = 6
	r, err = Open(fixed, cpu(4))
	require.NoError(t, err)
	defer r.Close()
	assert.Zero(t, r.Unit, "a network for windows of 12 samples alone, as a transformer, has no shorter ones")
	net.Unit = 0
	r, err = Open(net, cpu(1))
	require.NoError(t, err)
	defer r.Close()
	_, err = r.Runners[0].Run(1, 6)
	require.ErrorContains(t, err, "computes windows of 12 samples, not of 6")
}

func TestOpenRefusesNetworksThatDoNotFit(t *testing.T) {
	needLibrary(t)
	change := func(name string, f func(*Network)) Network {
		net := testNetwork(t, name)
		f(&net)
		return net
	}
	tests := []struct {
		name string
		net  Network
		want string
	}{
		{"not ONNX", change("ntc", func(n *Network) { n.ONNX = []byte("hello") }), "protobuf parsing failed: the file is damaged or cut off"},
		{"empty", change("ntc", func(n *Network) { n.ONNX = nil }), "reading network ntc: "},
		{"input name", change("ntc", func(n *Network) { n.Input = "x" }), `network ntc has no input "x", only "signal"`},
		{"output name", change("ntc", func(n *Network) { n.Output = "y" }), `network ntc has no output "y", only "scores"`},
		{"classes", change("ntc", func(n *Network) { n.Classes = 5 }), `axis 2 of output "scores" is 2, not 5`},
		{"frames", change("ntc", func(n *Network) { n.Frames = 6 }), "trying network ntc: "},
		{"fixed batch", testNetwork(t, "fixed_batch"), `input "signal" has a fixed batch size of 1; it must be exported with a dynamic batch axis`},
		{"element type", testNetwork(t, "float64"), `input "signal" is ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, not float32`},
		{"rows depend on each other", testNetwork(t, "rows_mixed"), "the result of a window depends on its place in the batch"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Open(test.net, cpu(4))
			require.ErrorContains(t, err, test.want)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestPaddedSessionComputesFullBatches(t *testing.T) {
	needLibrary(t)
	r, err := Open(testNetwork(t, "tnc"), cpu(3))
	require.NoError(t, err)
	defer r.Close()
	s := r.Runners[0].(*session)
	want := make([]float32, 8)
	fillProbe(s.Input(0), 1)
	_, err = s.Run(1, len(s.Input(0)))
	require.NoError(t, err)
	s.Scores(0).Copy(want)

	s.fixed = true
	fillProbe(s.Input(2), 2) // of a batch before
	computed, err := s.Run(1, len(s.Input(0)))
	require.NoError(t, err)
	assert.Equal(t, 3, computed)
	have := make([]float32, 8)
	s.Scores(0).Copy(have)
	assert.Equal(t, want, have)
	s.Scores(2).Copy(have)
	assert.Equal(t, make([]float32, 8), have, "padding is silence")
}

// TestRealNetworkRowsAreIndependent holds the runtime to the guarantee that the
// package comment gives: bit by bit, a window's scores don't depend on the size
// of the batch, its place or its company, whatever its length.
func TestRealNetworkRowsAreIndependent(t *testing.T) {
	needLibrary(t)
	onnx, err := os.ReadFile(filepath.Join("..", "..", "models", "r9.4-fast", "model.onnx"))
	if os.IsNotExist(err) {
		t.Skip("needs models/r9.4-fast")
	}
	require.NoError(t, err)
	const batch = 9
	net := Network{Name: "r9.4-fast", ONNX: onnx, Input: "signal", Output: "scores", Samples: 900, Frames: 150, Classes: 256, Unit: 36}
	options := cpu(batch)
	options.Precision = PrecisionSingle
	r, err := Open(net, options)
	require.NoError(t, err)
	defer r.Close()
	assert.False(t, r.Padded)
	runner := r.Runners[0]
	require.Equal(t, 36, r.Unit)
	scores := func(samples, rows, place, company int) []float32 {
		for row := range rows {
			fillProbe(runner.Input(row)[:samples], company+row)
		}
		fillProbe(runner.Input(place)[:samples], -1)
		_, err := runner.Run(rows, samples)
		require.NoError(t, err)
		out := make([]float32, samples/6*net.Classes)
		runner.Scores(place).Copy(out)
		return out
	}
	for _, samples := range []int{36, 72, 252, 864, 900} {
		want := scores(samples, 1, 0, 0)
		for rows := 1; rows <= batch; rows++ {
			for _, place := range []int{0, rows / 2, rows - 1} {
				have := scores(samples, rows, place, 100*rows)
				for i := range want {
					if math.Float32bits(want[i]) != math.Float32bits(have[i]) {
						t.Fatalf("score %d of %d samples differs at place %d of %d: %v, alone %v", i, samples, place, rows, have[i], want[i])
					}
				}
			}
		}
	}
}

func TestCUDAThatCannotBeHad(t *testing.T) {
	needLibrary(t)
	opts := cpu(1)
	opts.Device = "cuda:0"
	r, err := Open(testNetwork(t, "ntc"), opts)
	if err == nil {
		r.Close()
		t.Skip("this machine has a GPU")
	}
	assert.ErrorContains(t, err, "device cuda:0 can't be used: ")
	assert.NotContains(t, err.Error(), "\n")

	var log strings.Builder
	opts.Device = DeviceAuto
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r, err = Open(testNetwork(t, "ntc"), opts)
	require.NoError(t, err, "auto falls back")
	defer r.Close()
	assert.Equal(t, "cpu", DeviceNames(r.Devices))
	assert.Contains(t, log.String(), "device cuda:0 can't be used", "and says why")
}

func TestCUDAErrorsSayWhatToDo(t *testing.T) {
	tests := []struct{ text, want string }{
		{
			"CUDA execution provider is not enabled in this build.",
			"device cuda:1 can't be used: CUDA execution provider is not enabled in this build; this ONNX Runtime library is for the CPU only; " +
				"take libonnxruntime.so from the onnxruntime-gpu package and name it with ORT_LIB",
		},
		{
			"/onnxruntime_src/provider_bridge_ort.cc:2043 onnxruntime::Provider& onnxruntime::ProviderLibrary::Get()\n[ONNXRuntimeError] : 1 : FAIL : " +
				"Failed to load library /opt/libonnxruntime_providers_cuda.so with error: libcublasLt.so.13: cannot open shared object file: No such file or directory\n",
			"device cuda:1 can't be used: libcublasLt.so.13: cannot open shared object file: No such file or directory; " +
				"install CUDA's libraries (onnxruntime-gpu[cuda,cudnn]) and add its folder to LD_LIBRARY_PATH",
		},
		{
			"Failed to load library /opt/libonnxruntime_providers_cuda.so with error: libcudnn.so.9: cannot open shared object file: No such file or directory",
			"device cuda:1 can't be used: libcudnn.so.9: cannot open shared object file: No such file or directory; " +
				"install cuDNN 9 (the package nvidia-cudnn-cu13, or onnxruntime-gpu[cuda,cudnn]) and add its folder to LD_LIBRARY_PATH",
		},
		{
			"Failed to load library /opt/libonnxruntime_providers_cuda.so with error: /opt/libonnxruntime_providers_cuda.so: cannot open shared object file: No such file or directory",
			"device cuda:1 can't be used: /opt/libonnxruntime_providers_cuda.so: cannot open shared object file: No such file or directory; " +
				"it is a part of the onnxruntime-gpu package, and has to lie beside libonnxruntime.so",
		},
		{
			"Failed to load library /opt/libonnxruntime_providers_cuda.so with error: libsomething.so.1: cannot open shared object file: No such file or directory",
			"device cuda:1 can't be used: libsomething.so.1: cannot open shared object file: No such file or directory; " +
				"install that library (part of CUDA, cuDNN or the NVIDIA driver) or add its folder to LD_LIBRARY_PATH",
		},
		{
			"CUDA failure 101: invalid device ordinal ; GPU=0 ; hostname=h",
			"device cuda:1 can't be used: CUDA failure 101: invalid device ordinal; CUDA counts GPUs from 0, and CUDA_VISIBLE_DEVICES may hide some",
		},
		{
			"CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version ; GPU=1",
			"device cuda:1 can't be used: CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version; " +
				"the NVIDIA driver is too old for the CUDA libraries that ONNX Runtime was built with: install a newer driver, 580 or later for CUDA 13",
		},
		// Those that follow are what version 1.31 says where there is no GPU.
		{
			"cuda_execution_provider_info.cc:63 onnxruntime::CUDAExecutionProviderInfo::FromProviderOptions(const onnxruntime::ProviderOptions&) [ONNXRuntimeError] : 1 : FAIL : " +
				"provider_options_utils.h:187 Parse Failed to parse provider option \"device_id\": CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version ; " +
				"GPU=-1 ; hostname=secret ; file=cuda_execution_provider_info.cc ; line=70 ; expr=cudaGetDeviceCount(&num_devices);",
			"device cuda:1 can't be used: CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version; " +
				"the NVIDIA driver is too old for the CUDA libraries that ONNX Runtime was built with: install a newer driver, 580 or later for CUDA 13",
		},
		{
			"cuda_execution_provider_info.cc:63 [ONNXRuntimeError] : 1 : FAIL : provider_options_utils.h:182 Parse Unknown provider option: \"nonsense\".",
			"device cuda:1 can't be used: its provider has no option \"nonsense\"; take it, or its value, out of --cuda-option",
		},
		{
			"cuda_execution_provider_info.cc:63 [ONNXRuntimeError] : 1 : FAIL : provider_options_utils.h:187 Parse Failed to parse provider option \"arena_extend_strategy\": " +
				"provider_options_utils.h:56 NameToEnum Failed to map enum name to value: foo",
			"device cuda:1 can't be used: its provider doesn't understand the value of option \"arena_extend_strategy\"; take it, or its value, out of --cuda-option",
		},
	}
	for _, test := range tests {
		require.EqualError(t, cudaError(Device{CUDA: true, Index: 1}, errorString(test.text)), test.want)
	}
}

func TestOneLine(t *testing.T) {
	place := "/src/core/providers/cuda/cuda_call.cc:154 std::conditional_t<THRW, void, onnxruntime::common::Status> onnxruntime::CudaCall(ERRTYPE, const char*, int) " +
		"[with ERRTYPE = cudaError; bool THRW = true; std::conditional_t<THRW, void, common::Status> = void] "
	for _, test := range []struct{ text, want string }{
		{"Error:\n\tsome   thing\n", "Error: some thing"},
		{
			"Error creating C session: " + place + place + "CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version ; GPU=-1 ; hostname=secret ; " +
				"file=/src/cuda_execution_provider_info.cc ; line=70 ; expr=cudaGetDeviceCount(&num_devices);",
			"Error creating C session: CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version",
		},
		{
			"running LSTM node. Name:'lstm.0' Status Message: CUDNN failure 4: CUDNN_STATUS_ALLOC_FAILED ; GPU=0 ; hostname=a b ; file=rnn.cc ; line=7 ; expr=f(a, b); and more",
			"running LSTM node. Name:'lstm.0' Status Message: CUDNN failure 4: CUDNN_STATUS_ALLOC_FAILED and more",
		},
		{
			"running Conv node. Name:'stem' Status Message: Failed to initialize CUDNN Frontend: no plan with the cudnn frontend json: {\"context\":{\"sm_count\":-1},\n\"nodes\":[]}",
			"running Conv node. Name:'stem' Status Message: Failed to initialize CUDNN Frontend: no plan",
		},
	} {
		require.EqualError(t, oneLine(errorString(test.text)), test.want)
	}
}

type errorString string

func (e errorString) Error() string { return string(e) }

func TestParseDevices(t *testing.T) {
	tests := []struct {
		text, want, errContains string
	}{
		{text: "cpu", want: "cpu"},
		{text: "cuda", want: "cuda:0"},
		{text: "cuda:3", want: "cuda:3"},
		{text: "cuda:0,1,7", want: "cuda:0,1,7"},
		{text: "gpu", errContains: `device "gpu" is none of`},
		{text: "auto", errContains: `device "auto" is none of`},
		{text: "", errContains: `device "" is none of`},
		{text: "cuda:", errContains: `"" is not the number of a GPU`},
		{text: "cuda:0,", errContains: `"" is not the number of a GPU`},
		{text: "cuda:-1", errContains: `"-1" is not the number of a GPU`},
		{text: "cuda:99999", errContains: `"99999" is not the number of a GPU`},
		{text: "cuda:1,1", errContains: "names GPU 1 twice"},
	}
	for _, test := range tests {
		devices, err := ParseDevices(test.text)
		if test.errContains != "" {
			require.ErrorContains(t, err, test.errContains)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, test.want, DeviceNames(devices))
	}
}

func TestFindLibrary(t *testing.T) {
	dir := t.TempDir()
	library := filepath.Join(dir, "some.so")
	require.NoError(t, os.WriteFile(library, nil, 0o600))
	t.Setenv(LibraryEnv, filepath.Join(dir, "missing.so"))

	path, err := FindLibrary(library)
	require.NoError(t, err)
	assert.Equal(t, library, path, "an explicit path wins")
	_, err = FindLibrary(dir)
	require.ErrorContains(t, err, dir+" is not a file")
	_, err = FindLibrary("")
	require.ErrorContains(t, err, "missing.so (from ORT_LIB) is not a file")

	t.Setenv(LibraryEnv, "")
	t.Chdir(dir) // outside of any module
	_, err = FindLibrary("")
	require.ErrorContains(t, err, "libonnxruntime.so")
	require.ErrorContains(t, err, "run make deps")
}

func TestLoadLibraryRefusesASecondOne(t *testing.T) {
	needLibrary(t)
	first, err := FindLibrary("")
	require.NoError(t, err)
	require.NoError(t, loadLibrary(first))
	require.NoError(t, loadLibrary(first), "the same again is fine")
	require.ErrorContains(t, loadLibrary("/elsewhere/libonnxruntime.so"), "already loaded from")
}

func TestSignalHandlersAreRestored(t *testing.T) {
	const sig = syscall.SIGWINCH
	ignored := func() bool {
		status, err := os.ReadFile("/proc/self/status")
		if os.IsNotExist(err) {
			t.Skip("needs /proc")
		}
		require.NoError(t, err)
		_, rest, ok := strings.Cut(string(status), "SigIgn:\t")
		require.True(t, ok)
		mask, _, _ := strings.Cut(rest, "\n")
		digit := mask[len(mask)-1-(int(sig)-1)/4]
		return strings.IndexByte("0123456789abcdef", digit)>>((int(sig)-1)%4)&1 == 1
	}
	require.False(t, ignored())
	saved := saveSignalHandlers()
	signal.Ignore(sig)
	defer signal.Reset(sig)
	require.True(t, ignored())
	saved.restore()
	assert.False(t, ignored())
}

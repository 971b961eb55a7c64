package infer

import (
	"fmt"
	"strings"
)

// GPU is what CUDA's driver reports about one.
type GPU struct {
	Name       string `json:"name"`
	Capability string `json:"compute_capability"` // for example "9.0"
	Memory     int64  `json:"memory_bytes"`
}

// String names the GPU.
func (g GPU) String() string {
	return fmt.Sprintf("%s (compute capability %s, %.0f GiB)", g.Name, g.Capability, float64(g.Memory)/(1<<30))
}

// inspectDevice asks the driver whether there is such a GPU, before the runtime is: its own words
// are of functions that failed.
func inspectDevice(device Device, library string) (GPU, error) {
	d, err := openDriver(library)
	if err != nil {
		text := oneLine(err).Error()
		if strings.Contains(text, "cannot open shared object file") {
			return GPU{}, fmt.Errorf("device %s can't be used: there is no NVIDIA driver here (%s); install it, or in a container have it mounted (--gpus, NVIDIA's runtime)", device, text)
		}
		return GPU{}, fmt.Errorf("device %s can't be used: %s; check the driver with nvidia-smi", device, text)
	}
	if n := d.gpus(); device.Index >= n {
		return GPU{}, fmt.Errorf("device %s can't be used: CUDA sees %d here, counted from 0; CUDA_VISIBLE_DEVICES may hide others", device, n)
	}
	gpu, err := d.about(device.Index)
	if err != nil {
		return GPU{}, fmt.Errorf("device %s can't be used: %w; check the driver with nvidia-smi", device, err)
	}
	return gpu, nil
}

// wrongArchitecture is what CUDA, cuDNN and cuBLAS say of a GPU that they have no code for.
var wrongArchitecture = [...]string{
	"no kernel image is available", "CUDNN_STATUS_ARCH_MISMATCH", "CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH", "CUBLAS_STATUS_ARCH_MISMATCH",
	"the provided PTX was compiled with an unsupported toolchain", "device kernel image is invalid",
}

// explainRun adds what to do to the error of a first batch on a GPU.
func explainRun(err error, device Device, gpu GPU) error {
	if err == nil || !device.CUDA {
		return err
	}
	for _, words := range wrongArchitecture {
		if strings.Contains(err.Error(), words) {
			return fmt.Errorf("device %s can't be used: this build of ONNX Runtime and its libraries have no code for the %s (%w); take one that is for it, or --device cpu", device, gpu, err)
		}
	}
	return err
}

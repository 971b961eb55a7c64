package infer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Device is one place where a network can run.
type Device struct {
	CUDA  bool // a GPU through CUDA; otherwise the CPU
	Index int  // number of the GPU as CUDA counts them; 0 for the CPU
}

// String returns "cpu" or, for example, "cuda:0".
func (d Device) String() string {
	if !d.CUDA {
		return "cpu"
	}
	return "cuda:" + strconv.Itoa(d.Index)
}

// DeviceAuto asks for the first GPU if CUDA works and for the CPU otherwise.
const DeviceAuto = "auto"

// ParseDevices parses a choice of devices: "cpu", "cuda" (the first GPU), or a
// list of GPUs such as "cuda:0,1". It doesn't know "auto", which is no device.
func ParseDevices(text string) ([]Device, error) {
	switch text {
	case "cpu":
		return []Device{{}}, nil
	case "cuda":
		return []Device{{CUDA: true}}, nil
	}
	list, ok := strings.CutPrefix(text, "cuda:")
	if !ok {
		return nil, fmt.Errorf("device %q is none of auto, cpu, cuda, cuda:N or a list such as cuda:0,1 (or, for load tests, sim:LATENCY:BATCH:FILE)", text)
	}
	var devices []Device
	for item := range strings.SplitSeq(list, ",") {
		index, err := strconv.ParseUint(item, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("device %q: %q is not the number of a GPU", text, item)
		}
		device := Device{CUDA: true, Index: int(index)}
		if slices.Contains(devices, device) {
			return nil, fmt.Errorf("device %q names GPU %d twice", text, index)
		}
		devices = append(devices, device)
	}
	return devices, nil
}

// DeviceNames names devices as logs and outputs show them: "cpu" or "cuda:0,1".
func DeviceNames(devices []Device) string {
	var gpus []string
	for _, d := range devices {
		if d.CUDA {
			gpus = append(gpus, strconv.Itoa(d.Index))
		}
	}
	if len(gpus) == 0 {
		return Device{}.String()
	}
	return "cuda:" + strings.Join(gpus, ",")
}

package infer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ort "github.com/yalue/onnxruntime_go"
)

// Node is one of a network's, as the runtime has it after it has optimised the graph.
type Node struct {
	Name     string `json:"name"`
	Op       string `json:"op"`                 // operator, for example "LSTM"
	Provider string `json:"provider,omitempty"` // that computes it, for example "CUDAExecutionProvider"
}

// cpuProvider is the name of the provider that takes what others leave.
const cpuProvider = "CPUExecutionProvider"

// String names the node and its operator.
func (n Node) String() string { return n.Name + " (" + n.Op + ")" }

// openSessions opens sessions for a batch on each of the devices, and finds the nodes that
// a GPU leaves to the CPU: its results have to be fetched for each of them.
//
// The first session is opened with those refused, which costs nothing where there are
// none. If that fails, and it opens without, there are some; a session that keeps a
// profile then shows which.
func (r *Runners) openSessions(net Network, sessions, batch int, opts Options, logger *slog.Logger) error {
	var adjust func(*ort.SessionOptions) error
	if r.Devices[0].CUDA {
		adjust = refuseCPU
	}
	for range sessions {
		for _, device := range r.Devices {
			places, err := openSession(net, device, batch, r.Places, sessions, opts, adjust)
			if err != nil && adjust != nil {
				if places, err = openSession(net, device, batch, r.Places, sessions, opts, nil); err == nil {
					r.leftToCPU(net, device, sessions, opts, logger)
				}
			}
			if err != nil {
				return err
			}
			adjust = nil
			for _, s := range places {
				r.Runners = append(r.Runners, s)
			}
		}
	}
	return nil
}

// leftToCPU finds the nodes that a GPU leaves to the CPU, and says so.
func (r *Runners) leftToCPU(net Network, device Device, sessions int, opts Options, logger *slog.Logger) {
	nodes, err := placement(net, device, sessions, opts)
	if err != nil {
		logger.Warn("a part of the network runs on the CPU, and which could not be found out",
			slog.String("network", net.Name), slog.String("device", device.String()), slog.String("error", err.Error()))
		return
	}
	r.LeftToCPU = slices.DeleteFunc(nodes, func(n Node) bool { return n.Provider != cpuProvider })
	logger.Warn("a part of the network runs on the CPU, since CUDA's provider doesn't take it: expect it to be slow",
		slog.String("network", net.Name), slog.String("device", device.String()), slog.Int("nodes", len(r.LeftToCPU)), slog.String("names", nodeNames(r.LeftToCPU)))
}

// nodeNames names nodes, but not all of very many.
func nodeNames(nodes []Node) string {
	const most = 20
	var names []string
	for _, n := range nodes[:min(len(nodes), most)] {
		names = append(names, n.String())
	}
	text := strings.Join(names, ", ")
	if more := len(nodes) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// placement runs one window with a profile and returns what was computed where.
func placement(net Network, device Device, sessions int, opts Options) (nodes []Node, err error) {
	folder, err := os.MkdirTemp("", "porestream-profile")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	places, err := openSession(net, device, 1, 1, sessions, opts, func(options *ort.SessionOptions) error {
		return options.EnableProfiling(filepath.Join(folder, "profile"))
	})
	if err != nil {
		return nil, err
	}
	s := places[0]
	fillProbe(s.Input(0), 0)
	_, err = s.Run(1, net.Samples)
	if err := errors.Join(err, s.Close()); err != nil { // closing writes the profile
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) != 1 {
		return nil, fmt.Errorf("ONNX Runtime left %d profiles, not one", len(files))
	}
	file, err := os.Open(files[0])
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readProfile(file)
}

// readProfile reads the nodes that a profile of ONNX Runtime lists, each once, in the order in
// which they were first computed. A profile is an array of Chrome's trace events; those of a
// node's computation are of the category Node, and their name ends in _kernel_time.
func readProfile(r io.Reader) ([]Node, error) {
	decoder := json.NewDecoder(r)
	if start, err := decoder.Token(); err != nil || start != json.Delim('[') {
		return nil, errors.New("reading a profile of ONNX Runtime: it is no array of events")
	}
	var nodes []Node
	for decoder.More() {
		var event struct {
			Category string `json:"cat"`
			Name     string `json:"name"`
			Args     struct {
				Op       string `json:"op_name"`
				Provider string `json:"provider"`
			} `json:"args"`
		}
		if err := decoder.Decode(&event); err != nil {
			return nil, fmt.Errorf("reading a profile of ONNX Runtime: %w", err)
		}
		name, isNode := strings.CutSuffix(event.Name, "_kernel_time")
		if event.Category != "Node" || !isNode || event.Args.Provider == "" {
			continue
		}
		node := Node{Name: name, Op: event.Args.Op, Provider: event.Args.Provider}
		if !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("reading a profile of ONNX Runtime: %w", err)
	}
	return nodes, nil
}

// refuseCPU makes a session fail to open if a node would run on the CPU provider that
// nobody asked for.
func refuseCPU(options *ort.SessionOptions) error {
	return options.AddSessionConfigEntry("session.disable_cpu_ep_fallback", "1")
}

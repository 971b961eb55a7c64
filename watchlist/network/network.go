// Package network computes the networks of biomarker models with ONNX Runtime.
package network

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"

	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/biomarker"
)

// batch is the number of rows computed at a time: an answer and what drives it are some dozens. Of rows so wide that they'd be more numbers than mostNumbers, fewer are.
const (
	batch       = 16
	mostNumbers = 1 << 20
)

// Network is a model's network on the CPU: they are so small that a device would only add its latency. It is safe for concurrent
// use.
type Network struct {
	name          string
	size, numbers int
	batch         int
	runners       chan infer.Runner
	count         int
}

var _ biomarker.Network = (*Network)(nil)

// Networks are those that panels ask.
type Networks []*Network

// Attach opens the networks of the models that panels ask, and gives them to the panels. An error has a line for each that can't be used, and then none is open.
func Attach(w *watchlist.Watch, library string, logger *slog.Logger) (Networks, error) {
	var opened Networks
	err := w.Attach(func(m *biomarker.Model) (biomarker.Network, error) {
		n, err := Open(m, library, logger)
		if err != nil {
			return nil, err
		}
		opened = append(opened, n)
		return n, nil
	})
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return opened, nil
}

// Close releases the networks. Nobody may be computing.
func (n Networks) Close() error {
	var err error
	for _, one := range n {
		err = errors.Join(err, one.Close())
	}
	return err
}

// Open opens a model's network, and has it answer samples that are made up: see [biomarker.Model.Try]. library is ONNX Runtime's; empty means the usual places. The caller must Close it.
func Open(m *biomarker.Model, library string, logger *slog.Logger) (*Network, error) {
	n := m.Manifest.Network
	opened, err := infer.Open(infer.Network{
		Name: m.Manifest.Name, ONNX: m.Network, Input: n.Input, Output: n.Output,
		Samples: m.Width(), Frames: 1, Classes: m.Numbers(), Exact: true,
	}, infer.Options{Device: "cpu", Library: library, BatchCPU: max(1, min(batch, mostNumbers/m.Width())), SessionsCPU: min(runtime.GOMAXPROCS(0), 4), Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", m.Manifest.Name, n.File, err)
	}
	net := &Network{
		name: m.Manifest.Name, size: m.Width(), numbers: m.Numbers(), batch: opened.Batch,
		runners: make(chan infer.Runner, len(opened.Runners)), count: len(opened.Runners),
	}
	for _, r := range opened.Runners {
		net.runners <- r
	}
	if err := m.Try(net); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %s: %w", m.Manifest.Name, n.File, err), net.Close())
	}
	return net, nil
}

// Compute implements [biomarker.Network].
func (n *Network) Compute(rows int, inputs []float32) ([]float32, error) {
	if len(inputs) != rows*n.size {
		return nil, fmt.Errorf("network %s: %d values are not %d rows of %d", n.name, len(inputs), rows, n.size)
	}
	r := <-n.runners
	defer func() { n.runners <- r }()
	out := make([]float32, rows*n.numbers)
	for from := 0; from < rows; from += n.batch {
		k := min(n.batch, rows-from)
		for i := range k {
			copy(r.Input(i), inputs[(from+i)*n.size:(from+i+1)*n.size])
		}
		if _, err := r.Run(k, n.size); err != nil {
			return nil, fmt.Errorf("network %s: %w", n.name, err)
		}
		for i := range k {
			r.Scores(i).Copy(out[(from+i)*n.numbers : (from+i+1)*n.numbers])
		}
	}
	return out, nil
}

// Close releases the network. Nobody may be computing.
func (n *Network) Close() error {
	var err error
	for range n.count {
		err = errors.Join(err, (<-n.runners).Close())
	}
	return err
}

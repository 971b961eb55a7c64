package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/annotate/score"
	"github.com/porestream/porestream/basecall/infer"
)

// Config says where and how networks run. The zero value is a good default for one process per machine.
type Config struct {
	// Device is "cpu", "cuda", a list such as "cuda:0,1", or "auto" (also ""); see [infer.Options].
	Device string
	// DeviceTimeout is how long a batch may take before its device is held for hung; 0 means 60 s.
	DeviceTimeout time.Duration
	// Library is the path of the ONNX Runtime shared library; empty to search.
	Library string
	// Sessions is the number of copies of each network per device that run at the same time; 0 means one per processor
	// (GOMAXPROCS) on the CPU and one on a GPU.
	Sessions int
	// GivesWay has networks on the CPU leave it to whatever else wants it, as where calls must not wait for their scores: all together they
	// compute no more batches at a time than there are sessions, on threads of low priority. A device is then held for hung after ten times
	// DeviceTimeout, as it may get little of a busy machine.
	GivesWay bool
	// Logger receives what an operator should know; nil discards it.
	Logger *slog.Logger
	// Registerer receives the metrics; nil for none.
	Registerer prometheus.Registerer

	turns *infer.Share // of all networks that give way; nil: none do
}

const (
	// batchBases is how many bases the windows of a batch have together on a CPU: the inner values of windows that are
	// computed together should stay in a processor's cache, and short windows should not each pay for a call.
	batchBases = 4096
	maxBatch   = 32
	// batchBasesCUDA is the same for a GPU, whose batches are padded to one size.
	batchBasesCUDA = 1 << 18
	maxBatchCUDA   = 256

	defaultMaxDelay      = 2 * time.Millisecond
	defaultDeviceTimeout = time.Minute
	patience             = 10 // times the timeout, for a network that gives way
)

// Network is a model on its devices. It is safe for concurrent use.
type Network struct {
	model    *Model
	device   string
	encoder  *score.Encoder
	batchers []*infer.Batcher
}

// New loads a model onto its devices, and tries whether it is what its manifest says. The caller must Close it.
func New(model *Model, cfg Config) (*Network, error) {
	n := &Network{model: model, encoder: score.NewEncoder(&model.Manifest)}
	if cfg.GivesWay && cfg.turns == nil {
		cfg.turns = infer.NewShare()
	}
	if err := n.open(cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("loading network %s: %w", model.Manifest.Name, err), n.Close())
	}
	return n, nil
}

func (n *Network) open(cfg Config) error {
	m := &n.model.Manifest
	length := m.WindowLength()
	opts := infer.Options{
		Device: cfg.Device, Library: cfg.Library, Logger: cfg.Logger,
		BatchCPU:  min(max(batchBases/length, 1), maxBatch),
		BatchCUDA: min(max(batchBasesCUDA/length, 1), maxBatchCUDA), Tune: false,
		SessionsCPU: cmp.Or(cfg.Sessions, runtime.GOMAXPROCS(0)), SessionsCUDA: cmp.Or(cfg.Sessions, 1),
	}
	for i, onnx := range n.model.Networks {
		if err := n.openOne(i, onnx, opts, cfg); err != nil {
			return fmt.Errorf("%s: %w", m.Networks[i].File, err)
		}
	}
	if err := n.try(); err != nil {
		return err
	}
	if cfg.Logger != nil {
		cfg.Logger.Info("sequence network is loaded", slog.String("network", m.Name), slog.String("device", n.device),
			slog.Int("networks", len(n.batchers)), slog.Int("window", length), slog.String("licence", m.Licence))
	}
	return nil
}

// openOne opens one of the networks whose outputs are averaged.
func (n *Network) openOne(i int, onnx []byte, opts infer.Options, cfg Config) error {
	m := &n.model.Manifest
	name := m.Name
	if len(n.model.Networks) > 1 {
		name = fmt.Sprintf("%s/%d", name, i)
	}
	network := infer.Network{
		Name: name, ONNX: onnx, Exact: true, Input: m.Input.Name, Output: m.Output.Name,
		Samples: 4 * m.WindowLength(), Frames: 1, Classes: m.OutputLength(), InputShape: m.InputShape(), OutputShape: m.OutputShape(),
	}
	runners, err := infer.Open(network, opts)
	if err != nil {
		return explain(err, m)
	}
	n.device = runners.DeviceNames()
	metrics, err := infer.NewMetrics(cfg.Registerer, name, n.device)
	if err != nil {
		return errors.Join(fmt.Errorf("registering metrics: %w", err), runners.Close())
	}
	how := infer.BatcherConfig{
		Batch: runners.Batch, Queue: max(4096, 4*runners.Batch*len(runners.Runners)), MaxDelay: defaultMaxDelay,
		Timeout: cmp.Or(cfg.DeviceTimeout, defaultDeviceTimeout), Metrics: metrics,
	}
	if cfg.GivesWay && !slices.ContainsFunc(runners.Devices, func(d infer.Device) bool { return d.CUDA }) {
		how.GivesWay, how.Share = true, cfg.turns
		how.Timeout *= patience
	}
	batcher, err := infer.NewBatcher(runners.Runners, how)
	if err != nil {
		return errors.Join(err, runners.Close())
	}
	n.batchers = append(n.batchers, batcher)
	return nil
}

// otherShape is how ONNX Runtime says that outputs have another shape than the one that there is memory for.
var otherShape = regexp.MustCompile(`has shape \{[\d,]*\} but the computed output shape for this run is \{1,([\d,]+)\}`)

// explain says what of a manifest is wrong where the runtime says that outputs have another shape: the shape that they have, and the context that a splicing network then has. Its
// own words, which name places in its source, are left out.
func explain(err error, m *score.Manifest) error {
	found := otherShape.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	shape := strings.Split(found[1], ",")
	wrong := fmt.Sprintf("windows of %d bases become outputs of shape %v, and by its manifest they should have %v", m.WindowLength(), shape, m.OutputShape())
	axis := 0
	if m.Output.Layout == score.ChannelsFirst {
		axis = 1
	}
	if m.Rule == score.Splice && len(shape) == 2 {
		if positions, err := strconv.Atoi(shape[axis]); err == nil && positions != m.OutputShape()[axis] && positions <= m.WindowLength() {
			return fmt.Errorf("%s: input.context is %d there, and the network's seems to be %d", wrong, m.Input.Context, m.WindowLength()-positions)
		}
	}
	return fmt.Errorf("%s: correct length, count, bins or layout there", wrong)
}

// try finds out whether outputs are what the manifest says of them: finite, or probabilities where they have to be, and of a network of
// splicing in their order and dependent on no bases farther away: of two windows that differ behind the context of the first position,
// that has the same outputs.
func (n *Network) try() error {
	m := &n.model.Manifest
	first, second := make([]byte, m.WindowLength()), make([]byte, m.WindowLength())
	state := uint32(1)
	for i := range first {
		state = state*1664525 + 1013904223
		first[i] = "ACGT"[state>>30]
		second[i] = first[i]
		if i > m.Input.Context {
			second[i] = "ACGT"[(state>>30)^1]
		}
	}
	windows := []string{string(first)}
	if m.Rule == score.Splice {
		windows = append(windows, string(second))
	}
	out, err := n.Predict(context.Background(), windows)
	if err != nil {
		return err
	}
	if err := score.NewRule(m, nil).CheckOutputs(out[0]); err != nil || m.Rule != score.Splice {
		return err
	}
	channel := 1
	if m.Output.Layout == score.ChannelsFirst {
		channel = len(out[0]) / len(m.Output.Channels)
	}
	for c := range m.Output.Channels {
		x, y := out[0][c*channel], out[1][c*channel]
		if !(math.Abs(float64(x-y)) <= 1e-4) {
			return fmt.Errorf("outputs depend on bases farther away than input.context = %d says: %v and %v", m.Input.Context, x, y)
		}
	}
	return nil
}

// Predict returns the mean output of the networks for each window. It waits for the device, which is bounded by
// Config.DeviceTimeout for each batch.
func (n *Network) Predict(ctx context.Context, windows []string) ([][]float32, error) {
	m := &n.model.Manifest
	in, out := 4*m.WindowLength(), m.OutputLength()
	inputs := make([]float32, len(windows)*in)
	for i, w := range windows {
		n.encoder.Encode(inputs[i*in:(i+1)*in], []byte(w))
	}
	results := make([]float32, len(n.batchers)*len(windows)*out)
	if err := n.run(ctx, inputs, results, len(windows)); err != nil {
		return nil, fmt.Errorf("network %s on %s: %w", m.Name, n.device, err)
	}
	mean := make([][]float32, len(windows))
	for i := range mean {
		mean[i] = results[i*out : (i+1)*out : (i+1)*out]
		for k := 1; k < len(n.batchers); k++ {
			of := results[(k*len(windows)+i)*out:]
			for j := range mean[i] {
				mean[i][j] += of[j]
			}
		}
		if scale := float32(len(n.batchers)); scale > 1 {
			for j := range mean[i] {
				mean[i][j] /= scale
			}
		}
	}
	return mean, nil
}

// run has all networks compute all windows. Nothing of them is in a batcher when it returns without an error; after one,
// buffers are not used again.
func (n *Network) run(ctx context.Context, inputs, results []float32, windows int) error {
	in, out := len(inputs)/max(windows, 1), len(results)/max(len(n.batchers)*windows, 1)
	requests := make([]infer.Request, len(n.batchers)*windows)
	producers := make([]*infer.Producer, len(n.batchers))
	for k, b := range n.batchers {
		producers[k] = b.NewProducer(max(windows, 1))
		defer producers[k].Close()
	}
	for k, p := range producers {
		for i := range windows {
			r := &requests[k*windows+i]
			r.Input, r.Output = inputs[i*in:(i+1)*in], results[(k*windows+i)*out:(k*windows+i+1)*out]
			if err := p.Submit(ctx, r); err != nil {
				return err
			}
		}
	}
	for _, p := range producers {
		for p.Outstanding() > 0 {
			r, err := p.Receive(ctx)
			if err != nil {
				return err
			}
			if r.Err != nil {
				return r.Err
			}
		}
	}
	return nil
}

// Watchdog returns when a device hangs, with an error that says so, or when ctx ends, with nil.
func (n *Network) Watchdog(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan error, len(n.batchers))
	for _, b := range n.batchers {
		go func() { first <- b.Watchdog(ctx) }()
	}
	if err := <-first; err != nil {
		return fmt.Errorf("device %s: %w", n.device, err)
	}
	return nil
}

// Device names the device that the network runs on.
func (n *Network) Device() string { return n.device }

// Model returns the model.
func (n *Network) Model() *Model { return n.model }

// Close releases the devices. A caller that asks afterwards gets an error.
func (n *Network) Close() error {
	var err error
	for _, b := range n.batchers {
		err = errors.Join(err, b.Close())
	}
	return err
}

package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/variant"
)

// Config says where and how a Network runs. The zero value is a good default for
// one process per machine.
type Config struct {
	// Device is "cpu", "cuda", a list such as "cuda:0,1", or "auto" (also ""); see
	// [infer.Options].
	Device string
	// DeviceTimeout is how long a batch may take before its device is held for hung;
	// 0 means 60 s.
	DeviceTimeout time.Duration
	// Library is the path of the ONNX Runtime shared library; empty to search the
	// places that package infer documents.
	Library string
	// Sessions is the number of copies of the network per device that run at the
	// same time; 0 means one per processor (GOMAXPROCS) on the CPU and two on a GPU.
	Sessions int
	// Batch is the number of examples that are computed together; 0 means 512 on a
	// GPU, and on the CPU the smallest up to 64 that is about as fast as any.
	Batch int
	// MaxDelay is how long an incomplete batch may wait for more examples while
	// others are still asking; 0 means 2 ms.
	MaxDelay time.Duration
	// Logger receives what an operator should know; nil discards it.
	Logger *slog.Logger
	// Registerer receives the metrics; nil for none.
	Registerer prometheus.Registerer
}

// Defaults of Config.
const (
	defaultBatchCPU     = 64
	defaultBatchCUDA    = 512
	defaultSessionsCUDA = 2
	// A caller submits all its examples at once, in well under a millisecond.
	defaultMaxDelay = 2 * time.Millisecond
	// A batch takes milliseconds; a minute is what the basecaller's may take, on the
	// same devices.
	defaultDeviceTimeout = time.Minute
)

// Network is a [variant.Network] that is computed by ONNX Runtime. It is safe for
// concurrent use and meant to be shared by everything in a process.
type Network struct {
	model        *Model
	network      infer.Network
	options      infer.Options
	calibrations calibrations
	suits        []variant.Suit
	fingerprint  string
	device       string
	batcher      *infer.Batcher
	metrics      *metrics
}

var _ variant.Network = (*Network)(nil)

// New loads a model onto its devices. The caller must Close it.
func New(model *Model, cfg Config) (*Network, error) {
	m := model.Manifest
	n := &Network{
		model: model,
		network: infer.Network{
			Name: m.Name, ONNX: model.Network, HalfONNX: model.Half, Input: m.Network.Input, Output: m.Network.Output,
			Samples: variant.ExampleSize, Frames: 1, Classes: variant.Scores,
		},
		calibrations: newCalibrations(m.Calibration),
		fingerprint:  model.fingerprint(),
	}
	n.suits = n.newSuits(&m)
	if err := n.open(cfg); err != nil {
		return nil, fmt.Errorf("loading model %s: %w", m.Name, err)
	}
	return n, nil
}

// open loads the network and starts the batcher.
func (n *Network) open(cfg Config) error {
	n.options = infer.Options{
		Device: cfg.Device, Library: cfg.Library, Logger: cfg.Logger,
		BatchCPU: cmp.Or(cfg.Batch, defaultBatchCPU), BatchCUDA: cmp.Or(cfg.Batch, defaultBatchCUDA),
		Tune:        cfg.Batch == 0,
		SessionsCPU: cmp.Or(cfg.Sessions, runtime.GOMAXPROCS(0)), SessionsCUDA: cmp.Or(cfg.Sessions, defaultSessionsCUDA),
	}
	runners, err := infer.Open(n.network, n.options)
	if err != nil {
		return err
	}
	n.options.BatchCPU, n.options.BatchCUDA, n.options.Tune = runners.Batch, runners.Batch, false
	n.device = runners.DeviceNames()
	if err := n.start(runners, cfg); err != nil {
		return errors.Join(err, runners.Close())
	}
	if cfg.Logger != nil {
		cfg.Logger.Info("variant model is loaded",
			slog.String("model", n.model.Manifest.Name), slog.String("device", n.device),
			slog.Int("sessions", len(runners.Runners)), slog.Int("batch", runners.Batch), slog.Bool("padded", runners.Padded))
	}
	return nil
}

// start registers the metrics and starts the batcher on the runners.
func (n *Network) start(runners *infer.Runners, cfg Config) error {
	name := n.model.Manifest.Name
	inferMetrics, err := infer.NewMetrics(cfg.Registerer, name, n.device)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	inferMetrics.LeftToCPU(len(runners.LeftToCPU))
	if n.metrics, err = newMetrics(cfg.Registerer, name); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	n.batcher, err = infer.NewBatcher(runners.Runners, infer.BatcherConfig{
		Batch: runners.Batch,
		// Requests hold no examples of their own, so a long queue costs little, and
		// what one asks for at the end of a run is there as a whole.
		Queue:    max(4096, 4*runners.Batch*len(runners.Runners)),
		MaxDelay: cmp.Or(cfg.MaxDelay, defaultMaxDelay),
		Timeout:  cmp.Or(cfg.DeviceTimeout, defaultDeviceTimeout),
		Metrics:  inferMetrics,
	})
	return err
}

// Score implements [variant.Network]. It waits for the device, which is bounded by
// Config.DeviceTimeout for each batch. An error is the device's, and dst is then
// returned as it was.
func (n *Network) Score(dst, examples []float32) ([]float32, error) {
	return n.score(dst, examples, n.calibrations)
}

func (n *Network) score(dst, examples []float32, curves calibrations) ([]float32, error) {
	count := len(examples) / variant.ExampleSize
	if count*variant.ExampleSize != len(examples) {
		return dst, fmt.Errorf("%d values are no whole number of examples of %d", len(examples), variant.ExampleSize)
	}
	if count == 0 {
		return dst, nil
	}
	start := time.Now()
	before := len(dst)
	out := append(dst, make([]float32, count*variant.Scores)...)
	scores := out[before:]
	if err := n.run(scores, examples, count); err != nil {
		return dst, fmt.Errorf("model %s on %s: %w", n.model.Manifest.Name, n.device, err)
	}
	for i := range count {
		of := classOf(examples[i*variant.ExampleSize : (i+1)*variant.ExampleSize])
		curves.probabilities(scores[i*variant.Scores:(i+1)*variant.Scores], of)
	}
	n.metrics.scored(count, time.Since(start))
	return out, nil
}

// run has the network compute the logits of examples. Whatever happens, nothing of
// them is in the batcher when it returns.
func (n *Network) run(scores, examples []float32, count int) error {
	// A caller of variants has no context to give: a region that was scored in part
	// is of no use, and the batcher answers every request, if with an error.
	ctx := context.Background()
	producer := n.batcher.NewProducer(count)
	defer producer.Close()
	requests := make([]infer.Request, count)
	var failure error
	for i := range requests {
		requests[i].Input = examples[i*variant.ExampleSize : (i+1)*variant.ExampleSize]
		requests[i].Output = scores[i*variant.Scores : (i+1)*variant.Scores]
		if failure = producer.Submit(ctx, &requests[i]); failure != nil {
			break
		}
	}
	for producer.Outstanding() > 0 {
		req, err := producer.Receive(ctx)
		if err != nil {
			return errors.Join(failure, err)
		}
		failure = cmp.Or(failure, req.Err)
	}
	return failure
}

// Fingerprint implements [variant.Network].
func (n *Network) Fingerprint() string { return n.fingerprint }

// Watchdog returns when a device hangs, with an error that says so, or when ctx
// ends, with nil. A hung device can't be had back in this process.
func (n *Network) Watchdog(ctx context.Context) error {
	if err := n.batcher.Watchdog(ctx); err != nil {
		return fmt.Errorf("device %s: %w", n.device, err)
	}
	return nil
}

// Device names the device that the network runs on, for logs and outputs, for
// example "cpu" or "cuda:0,1".
func (n *Network) Device() string { return n.device }

// Model returns the model.
func (n *Network) Model() *Model { return n.model }

// Copies opens the network once more, on the same devices with as many sessions
// and the same batch, to measure against. The caller closes them.
func (n *Network) Copies() (*infer.Runners, error) {
	runners, err := infer.Open(n.network, n.options)
	if err != nil {
		return nil, fmt.Errorf("loading model %s: %w", n.model.Manifest.Name, err)
	}
	return runners, nil
}

// Close releases the devices. A caller that asks for scores afterwards gets an error.
func (n *Network) Close() error { return n.batcher.Close() }

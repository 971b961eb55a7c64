package basecall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/basecall/scores"
	"github.com/porestream/porestream/signal"
)

// Read is the current of one molecule, as a Caller takes it.
type Read struct {
	ID          string
	Samples     []int16 // ADC levels; of a read that goes on, those that there are
	SampleRate  int     // Hz; must be one that the model was made for
	Calibration signal.Calibration
}

// Called is a basecalled read. All of it belongs to the caller.
type Called struct {
	// Sequence holds upper-case ACGT from the molecule's 5' end to its 3' end, T for
	// U.
	Sequence []byte
	// Qualities holds one Phred score per base, 1 to 50, without an offset.
	Qualities []byte
	// Moves holds one byte per frame of Stride samples: 1 where a base starts,
	// otherwise 0. It has as many ones as Sequence has bases. Frames are in the
	// order of the signal, as in SAM's tag mv.
	Moves []byte
	// FromEnd says that the molecule passed the pore with its 3' end first, as RNA
	// does: the first move is that of the last base.
	FromEnd bool
	// Stride is the number of samples per frame.
	Stride int
	// NumSamples is the number of samples in the read. Frame i covers the samples
	// from TrimmedSamples+i*Stride; up to Stride-1 samples at the end belong to
	// no frame, and more of a read whose end was cut off.
	NumSamples int
	// TrimmedSamples is the number of samples before the first frame.
	TrimmedSamples int
	// MeanQuality is the Phred score of the mean error probability of the bases,
	// without those that the manifest leaves out; 0 for a read without bases.
	MeanQuality float64
	// Shift and Scale are what the network's input was normalised with:
	// x = (ADC level - Shift) / Scale. With running statistics these are those of
	// the last window, which nearly all of the read has gone into.
	Shift, Scale float32
}

// Dwells returns the number of frames that each base lasts, at most 255, up to
// the start of what passed the pore next or the end of the read.
func (c Called) Dwells() []byte {
	dwells := make([]byte, 0, len(c.Sequence))
	for _, move := range c.Moves {
		switch n := len(dwells); {
		case move == 1:
			dwells = append(dwells, 1)
		case n > 0 && dwells[n-1] < 255:
			dwells[n-1]++
		}
	}
	if c.FromEnd {
		slices.Reverse(dwells)
	}
	return dwells
}

// Config says where and how a Caller runs its model. The zero value is a good
// default for one process per machine.
type Config struct {
	// Device is "cpu", "cuda" (every GPU), a list such as "cuda:0,1", or "auto"
	// (also ""): all GPUs if CUDA works, otherwise the CPU. For load tests there is a
	// simulated one: see [infer.Options].
	Device string
	// DeviceTimeout is how long a batch may take before its device is held for hung;
	// 0 means 60 s.
	DeviceTimeout time.Duration
	// RecordScores is a file to record the network's scores in, for a simulated
	// device; empty for none.
	RecordScores string
	// Compute says how the devices compute; the zero value leaves it to them.
	infer.Compute
	// Library is the path of the ONNX Runtime shared library; empty to search
	// the places that package infer documents.
	Library string
	// Sessions is the number of copies of the network per device that run at the
	// same time; 0 means one per processor (GOMAXPROCS) on the CPU and two on a
	// GPU, so that one computes while the other is filled.
	Sessions int
	// Batch is the number of windows that are computed together; 0 has it found by trying: on a GPU, where
	// the result of a window may depend on it, 2048, or half of that, and so on, until the batch fits into
	// the GPU's memory, and its scores into 2 GiB of the host's; on the CPU the smallest up to 8 that is
	// about as fast as any. In whole numbers, [infer.PrecisionInt8], it is one.
	Batch int
	// Queue is the number of windows that may wait for a batch before Call
	// blocks; 0 means two batches per session. As many of reads that go on may wait
	// before Write blocks; 0 means 1024 for them, if that is more.
	Queue int
	// MaxDelay is how long an incomplete batch may wait for more windows while
	// there are calls that could still bring some; 0 means 5 ms.
	MaxDelay time.Duration
	// WholeWindows has all windows of one length, as they are on a GPU: the last of a read is otherwise no
	// longer than what is left of it, where a CPU computes it. To compare devices.
	WholeWindows bool
	// Share, if set, has the callers of several models take turns on the same devices.
	Share *infer.Share
	// Logger receives what an operator should know; nil discards it.
	Logger *slog.Logger
	// Registerer receives the metrics; nil for none.
	Registerer prometheus.Registerer
}

// Defaults of Config. On a CPU the rate per core is flat from a few windows on,
// so that batches are small for the sake of latency and cache; a GPU needs
// hundreds to fill it.
const (
	defaultBatchCPU     = 8
	defaultBatchCUDA    = 2048
	defaultSessionsCUDA = 2
	defaultPlacesCUDA   = 2
	defaultMaxDelay     = 5 * time.Millisecond
	// About 40 MB of windows.
	defaultPatientQueue = 1024
	// A batch takes a fraction of a second, on a GPU as on a CPU.
	defaultDeviceTimeout = time.Minute
)

// Caller basecalls reads with one model. It is safe for concurrent use and meant
// to be shared by everything in a process.
type Caller struct {
	model   *Model
	network infer.Network
	options infer.Options
	windows windowing
	device  string
	// leftToCPU are nodes of the network that a GPU doesn't compute.
	leftToCPU []infer.Node
	kernels   infer.Kernels
	precision infer.Precision
	path      Path
	batcher   *infer.Batcher
	metrics   *metrics
	capacity  int // windows that all sessions together compute at a time
	places    int // for batches, of each session
	// outstanding is how many windows of one read may be in the batcher: enough
	// for a single read to keep all runners busy.
	outstanding int
	requests    sync.Pool // of *request
	decoders    sync.Pool // of decoder
}

// NewCaller loads a model onto its devices. The caller must Close it.
func NewCaller(model *Model, cfg Config) (*Caller, error) {
	m := model.Manifest
	c := &Caller{
		model: model,
		network: infer.Network{
			Name:     m.Name,
			ONNX:     model.Network,
			HalfONNX: model.Half,
			// Sequences are closer to each other in a beam than classes are in a frame:
			// half precision on a GPU called 0.2 % of the columns otherwise.
			Exact:     m.Decoder.Type == decoderCRF,
			Narrow:    m.Decoder.Type == decoderCRF,
			Input:     m.Network.Input,
			Output:    m.Network.Output,
			TimeMajor: m.Network.OutputLayout == "TNC",
			Samples:   m.Window.Samples,
			Frames:    m.Window.Samples / m.Network.Stride,
			Classes:   m.Decoder.classes(),
			Decoder:   m.decoder(),
		},
		windows: windowing{stride: m.Network.Stride, samples: m.Window.Samples, overlap: m.Window.Overlap, phase: framesOfPhase, least: leastShared},
	}
	c.requests.New = func() any {
		r := &request{caller: c}
		r.Input = make([]float32, c.network.Samples)
		r.Decode = r.decode
		return r
	}
	c.decoders.New = func() any {
		return newDecoder(&c.model.Manifest)
	}
	if err := c.open(cfg); err != nil {
		return nil, fmt.Errorf("loading model %s: %w", m.Name, err)
	}
	return c, nil
}

// open loads the network and starts the batcher.
func (c *Caller) open(cfg Config) error {
	c.options = infer.Options{
		Device:       cfg.Device,
		Record:       cfg.RecordScores,
		Compute:      cfg.Compute,
		Library:      cfg.Library,
		BatchCPU:     cmp.Or(cfg.Batch, defaultBatchCPU),
		BatchCUDA:    cmp.Or(cfg.Batch, defaultBatchCUDA),
		Tune:         cfg.Batch == 0,
		SessionsCPU:  cmp.Or(cfg.Sessions, runtime.GOMAXPROCS(0)),
		SessionsCUDA: cmp.Or(cfg.Sessions, defaultSessionsCUDA),
		PlacesCPU:    1,
		PlacesCUDA:   defaultPlacesCUDA,
		Logger:       cfg.Logger,
	}
	if c.options.SessionsCPU < runtime.GOMAXPROCS(0) {
		c.options.PlacesCPU = 2 // other processors decode meanwhile
	}
	if !cfg.WholeWindows {
		c.network.Unit = c.windows.unitOf()
	}
	runners, err := infer.Open(c.network, c.options)
	if err != nil {
		return err
	}
	c.windows.unit = runners.Unit
	c.options.BatchCPU, c.options.BatchCUDA, c.options.Tune = runners.Batch, runners.Batch, false
	c.device, c.leftToCPU, c.precision = runners.DeviceNames(), runners.LeftToCPU, runners.Precision
	c.kernels = runners.Kernels
	capacity := runners.Batch * len(runners.Sessions())
	c.capacity, c.places, c.outstanding = capacity, runners.Places, runners.Places*capacity+runners.Batch
	c.path = Path{
		Precision: runners.Precision.String(), Scores: runners.Form.String(), Sessions: len(runners.Sessions()), Batch: runners.Batch,
		Padded: runners.Padded, GPUs: runners.GPUs, Pinned: runners.Pinned,
	}
	err = c.start(runners, cfg, capacity)
	if err != nil {
		return errors.Join(err, runners.Close())
	}
	if cfg.Logger != nil {
		cfg.Logger.Info("model is loaded",
			slog.String("model", c.model.Manifest.Name), slog.String("device", c.device), slog.String("precision", c.precision.String()), slog.String("scores", c.path.Scores),
			slog.Int("sessions", c.path.Sessions), slog.Int("batch", c.path.Batch), slog.Bool("padded", c.path.Padded), slog.Bool("pinned", c.path.Pinned),
			slog.Int("kernel_layers", c.kernels.Layers), slog.Bool("kernel_decodes", c.kernels.Decodes))
	}
	return nil
}

// start registers the metrics and starts the batcher on the runners.
func (c *Caller) start(runners *infer.Runners, cfg Config, capacity int) error {
	name := c.model.Manifest.Name
	inferMetrics, err := infer.NewMetrics(cfg.Registerer, name, c.device)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	inferMetrics.LeftToCPU(len(c.leftToCPU))
	inferMetrics.Kernels(c.kernels)
	if c.metrics, err = newMetrics(cfg.Registerer, name); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	c.batcher, err = infer.NewBatcher(runners.Runners, infer.BatcherConfig{
		Batch: runners.Batch,
		Queue: cmp.Or(cfg.Queue, 2*capacity),
		// All channels of a sequencer may send their chunks at once.
		PatientQueue: cmp.Or(cfg.Queue, max(2*capacity, defaultPatientQueue)),
		MaxDelay:     cmp.Or(cfg.MaxDelay, defaultMaxDelay),
		Timeout:      cmp.Or(cfg.DeviceTimeout, defaultDeviceTimeout),
		Places:       runners.Places,
		Leisure:      c.leisure(),
		Decoders:     c.decodersAtATime(runners),
		Share:        cfg.Share,
		Metrics:      inferMetrics,
	})
	return err
}

// decodersAtATime returns how many windows of a batch are decoded at the same time. On a CPU
// sessions compute on all processors, or leave some to the decoders; a GPU leaves them all.
func (c *Caller) decodersAtATime(runners *infer.Runners) int {
	processors := runtime.GOMAXPROCS(0)
	if len(runners.Devices) > 0 && !runners.Devices[0].CUDA {
		return max(1, processors/len(runners.Sessions()))
	}
	return processors
}

// leisure returns how many last windows of reads may come after one before there has to be a whole batch of one
// length among them: one less than a batch of each length.
func (c *Caller) leisure() int {
	if c.windows.unit == 0 {
		return 0
	}
	lengths := (c.windows.samples - 1) / c.windows.unit
	return lengths * (c.options.BatchCPU - 1)
}

// mostWaiting is how many samples the reads have together, at most, whose last windows wait for others.
const mostWaiting = 32 << 20

// SideBySide returns how many reads, of so many samples on average, are to be called at
// the same time so that their windows fill all sessions and what is decoded beside them: while
// one batch is computed the next one waits, and last windows wait for others of their length. A GPU takes more of
// them than there are processors to decode them.
func (c *Caller) SideBySide(samples int) int {
	windows := max(1, c.windows.count(samples))
	computing := max(8*runtime.GOMAXPROCS(0), ((1+c.places)*c.capacity+windows-1)/windows)
	return computing + min(c.leisure(), mostWaiting/max(1, samples))
}

// WindowSamples returns how many samples the windows of a read of so many samples have together.
func (c *Caller) WindowSamples(samples int) int { return c.windows.total(samples) }

// Call basecalls one read that is at hand as a whole. It blocks while the queue is
// full. A read that is shorter than one frame has no bases; that is no error.
func (c *Caller) Call(ctx context.Context, read Read) (Called, error) {
	s, err := c.Begin(read)
	if err != nil {
		return Called{}, err
	}
	defer s.Close()
	s.producer.Hurry()
	return s.Finish(ctx)
}

// CallAtLeisure is Call for one of many reads that are at hand, [Caller.SideBySide] of which are called at the
// same time: its last window, if it is a short one, waits for a whole batch of its length, so others may be called before it. It
// calls the same.
func (c *Caller) CallAtLeisure(ctx context.Context, read Read) (Called, error) {
	s, err := c.Begin(read)
	if err != nil {
		return Called{}, err
	}
	defer s.Close()
	s.leisure = true
	s.producer.Hurry()
	return s.Finish(ctx)
}

// request is a window on its way through the network and the decoder.
type request struct {
	infer.Request
	caller *Caller
	window window
	bases  []base
	took   time.Duration // decoding
}

// decode takes the scores from the batch.
func (r *request) decode(w scores.Window) (err error) {
	began := time.Now()
	w.Spent = true // the next batch comes in their place
	r.bases, err = r.caller.decode(w, r.window)
	r.took = time.Since(began)
	if err != nil {
		return fmt.Errorf("decoding window %d: %w", r.window.index, err)
	}
	return nil
}

// decode returns the bases in the scores of a window, with frames of the read.
func (c *Caller) decode(s scores.Window, w window) ([]base, error) {
	d := c.decoders.Get().(decoder)
	defer c.decoders.Put(d)
	// Frames of padding belong to nobody.
	found, err := d.decode(s.First(w.frames))
	if err != nil {
		return nil, err
	}
	bases := make([]base, len(found))
	for k, b := range found {
		b.frame += int32(w.frame)
		bases[k] = b
	}
	return bases, nil
}

// Watchdog returns when a device hangs, with an error that says so, or when ctx
// ends, with nil. A hung device can't be had back in this process.
func (c *Caller) Watchdog(ctx context.Context) error {
	if err := c.batcher.Watchdog(ctx); err != nil {
		return fmt.Errorf("device %s: %w", c.device, err)
	}
	return nil
}

// Device names the device that the network runs on, for logs and outputs, for
// example "cpu" or "cuda:0,1".
func (c *Caller) Device() string { return c.device }

// Precision returns what the network computes in, which is never [infer.PrecisionAuto]
// but on a simulated device.
func (c *Caller) Precision() infer.Precision { return c.precision }

// Path is how windows are computed, as it was chosen when the model was loaded.
type Path struct {
	Precision string `json:"precision"` // fp32, fp16 or int8
	Scores    string `json:"scores"`    // form in which they leave the network: fp32, fp16 or int8; or that they are decoded there
	Sessions  int    `json:"sessions"`
	Batch     int    `json:"batch"`  // windows
	Padded    bool   `json:"padded"` // whatever there is, that many are computed
	// GPUs are those that compute, and Pinned says that they copy from and to the host's memory by
	// themselves.
	GPUs   []infer.GPU `json:"gpus,omitempty"`
	Pinned bool        `json:"pinned"`
}

// Decoded reports whether scores are decoded where they are computed.
func (p Path) Decoded() bool { return p.Scores == infer.Decoded }

// Path returns how windows are computed.
func (c *Caller) Path() Path { return c.path }

// LeftToCPU returns the nodes of the network that a GPU leaves to the CPU; none without
// a GPU.
func (c *Caller) LeftToCPU() []infer.Node { return c.leftToCPU }

// Kernels says what operators of Porestream's own compute of the network on a GPU.
func (c *Caller) Kernels() infer.Kernels { return c.kernels }

// Model returns the model.
func (c *Caller) Model() *Model { return c.model }

// Copies opens the network once more, on the same devices with as many sessions
// and the same batch, to measure against. The caller closes them.
func (c *Caller) Copies() (*infer.Runners, error) {
	options := c.options
	options.Record, options.PlacesCPU, options.PlacesCUDA = "", 1, 1
	runners, err := infer.Open(c.network, options)
	if err != nil {
		return nil, fmt.Errorf("loading model %s: %w", c.model.Manifest.Name, err)
	}
	return runners, nil
}

// InFlight reports whether windows of a read can be called before it ends, which
// the model's normalisation decides. If not, a [Stream] holds the samples until
// then.
func (c *Caller) InFlight() bool {
	n := c.model.Manifest.Normalisation
	return n.Method == methodPicoamperes || n.Scope == scopeRunning
}

// Close computes what is queued and releases the devices. Later calls fail.
func (c *Caller) Close() error { return c.batcher.Close() }

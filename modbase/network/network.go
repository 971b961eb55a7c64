package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/modbase"
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
	// Share, if set, has batches take turns on the devices with those of others.
	Share *infer.Share
	// Logger receives what an operator should know; nil discards it.
	Logger *slog.Logger
	// Registerer receives the metrics; nil for none.
	Registerer prometheus.Registerer
}

const (
	// A row is a hundred samples: some dozen of them keep a processor busy without leaving its cache.
	batchCPU  = 16
	batchCUDA = 1024

	defaultMaxDelay      = 2 * time.Millisecond
	defaultDeviceTimeout = time.Minute
)

// ErrScores says that a network gave a base scores that are no numbers. That is of the read, not of the device: others can be called.
var ErrScores = errors.New("its scores are no numbers")

// Caller calls modified bases with some models. It is safe for concurrent use and meant to be shared by everything in a process.
type Caller struct {
	networks []*network
	reads    sync.Pool // of *read
}

// network is one model on its devices.
type network struct {
	model       *Model
	device      string
	batcher     *infer.Batcher
	outstanding int       // rows of a read that may be in the batcher
	requests    sync.Pool // of *infer.Request
}

// New loads models onto their devices. Two that call the same modification are refused, and so are two that
// can score the same base of a read: their probabilities are each a whole, and don't add up. The caller must
// Close it.
func New(models []*Model, cfg Config) (*Caller, error) {
	c := newCaller()
	for i, m := range models {
		for _, other := range models[:i] {
			if err := apart(other, m); err != nil {
				return nil, err
			}
		}
	}
	for _, m := range models {
		n, err := open(m, cfg)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("loading modified-base model %s: %w", m.Name, err), c.Close())
		}
		c.networks = append(c.networks, n)
	}
	return c, nil
}

func newCaller() *Caller {
	c := &Caller{}
	c.reads.New = func() any { return new(read) }
	return c
}

// For returns a caller with those of the models that are for what a basecalling model calls, and nil if none is. It computes with the
// networks of c, which alone is closed.
func (c *Caller) For(m *basecall.Manifest) *Caller {
	of := newCaller()
	for _, n := range c.networks {
		if n.model.Fits(m) == nil {
			of.networks = append(of.networks, n)
		}
	}
	if len(of.networks) == 0 {
		return nil
	}
	return of
}

// apart refuses two models that can't be used together.
func apart(a, b *Model) error {
	for _, code := range b.Codes {
		if slices.Contains(a.Codes, code) {
			return fmt.Errorf("modified-base models %s and %s both call %s: choose one of them", a.Name, b.Name, code)
		}
	}
	for i := range a.Motifs {
		for k := range b.Motifs {
			if a.Motifs[i].meets(&b.Motifs[k]) {
				return fmt.Errorf("modified-base models %s and %s both score the %c of %s and %s: choose one of them, or a model that calls what both do",
					a.Name, b.Name, a.Base, a.Motifs[i], b.Motifs[k])
			}
		}
	}
	return nil
}

func open(m *Model, cfg Config) (*network, error) {
	runners, err := infer.Open(infer.Network{
		Name: m.Name, ONNX: m.onnx, Exact: true, Input: input, Output: m.output,
		Samples: m.row(), Frames: m.form.frames(), Classes: 1 + len(m.Codes),
		InputShape: []int{m.row()}, OutputShape: m.outputShape(),
	}, infer.Options{
		Device: cfg.Device, Library: cfg.Library, Logger: cfg.Logger, BatchCPU: batchCPU, BatchCUDA: batchCUDA,
		SessionsCPU: cmp.Or(cfg.Sessions, runtime.GOMAXPROCS(0)), SessionsCUDA: cmp.Or(cfg.Sessions, 1),
	})
	if err != nil {
		return nil, err
	}
	n := &network{model: m, device: runners.DeviceNames()}
	n.requests.New = func() any {
		return &infer.Request{Input: make([]float32, m.row()), Output: make([]float32, m.form.frames()*(1+len(m.Codes)))}
	}
	metrics, err := infer.NewMetrics(cfg.Registerer, m.Name, n.device)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("registering metrics: %w", err), runners.Close())
	}
	capacity := runners.Batch * len(runners.Runners)
	n.outstanding = 2 * capacity
	n.batcher, err = infer.NewBatcher(runners.Runners, infer.BatcherConfig{
		Batch: runners.Batch, Queue: 4 * capacity, MaxDelay: defaultMaxDelay, Share: cfg.Share,
		Timeout: cmp.Or(cfg.DeviceTimeout, defaultDeviceTimeout), Metrics: metrics,
	})
	if err != nil {
		return nil, errors.Join(err, runners.Close())
	}
	if cfg.Logger != nil {
		cfg.Logger.Info("modified-base model is loaded", slog.String("model", m.Name), slog.String("device", n.device),
			slog.Int("sessions", len(runners.Runners)), slog.Int("batch", runners.Batch))
	}
	return n, nil
}

// Call says which bases of a called read are modified, by the samples that it was called from. The read is as
// it was called: what is to be cut off is cut off the tags afterwards, so that bases near a cut have the
// current around them too. Tags have a list for each model, also where nothing was scored.
func (c *Caller) Call(ctx context.Context, samples []int16, called *basecall.Called) (*modbase.Tags, error) {
	r := c.reads.Get().(*read)
	defer c.reads.Put(r)
	tags := &modbase.Tags{Length: len(called.Sequence)}
	some := r.set(samples, called)
	for _, n := range c.networks {
		m := n.model
		var skips []int32
		probabilities := []byte{}
		if some && m.form.prepare(r, called) {
			var places []int32
			places, r.rows = m.form.plan(r.rows[:0], r, r.places(nil, m.Motifs))
			skips = r.skips(places, baseNumber[m.Base])
			probabilities = make([]byte, len(places)*len(m.Codes))
			if err := n.call(ctx, r, probabilities); err != nil {
				return nil, fmt.Errorf("modified-base model %s on %s: %w", m.Name, n.device, err)
			}
		}
		tags.Lists = m.lists(tags.Lists, skips, probabilities)
	}
	r.samples, r.all = nil, nil // they are the read's
	return tags, nil
}

// Unscored are the tags of a read of so many bases of which no model scored any, as where their scores are no numbers: they say
// what was searched for.
func (c *Caller) Unscored(bases int) *modbase.Tags {
	tags := &modbase.Tags{Length: bases}
	for _, n := range c.networks {
		tags.Lists = n.model.lists(tags.Lists, nil, []byte{})
	}
	return tags
}

// skips says how many of the bases of a kind stand between those at places.
func (r *read) skips(places []int32, base byte) []int32 {
	skips := make([]int32, 0, len(places))
	from := int32(0)
	for _, place := range places {
		n := int32(0)
		for _, b := range r.bases[from:place] {
			if b == base {
				n++
			}
		}
		skips = append(skips, n)
		from = place + 1
	}
	return skips
}

// lists appends what a model says of bases: one list, or where a code is a number, which must stand alone, one for each code.
func (m *Model) lists(lists []modbase.List, skips []int32, probabilities []byte) []modbase.List {
	list := modbase.List{Base: m.Base, Codes: m.Codes, Skipped: modbase.Unknown, Skips: skips, Probabilities: probabilities}
	if len(m.Codes) == 1 || !slices.ContainsFunc(m.Codes, func(c modbase.Code) bool { return c < 0 }) {
		return append(lists, list)
	}
	for i := range m.Codes {
		list.Codes = m.Codes[i : i+1]
		list.Probabilities = make([]byte, 0, len(skips))
		for k := range skips {
			list.Probabilities = append(list.Probabilities, probabilities[k*len(m.Codes)+i])
		}
		lists = append(lists, list)
	}
	return lists
}

// call writes the probabilities of all modifications of the bases of r.rows, in 256ths. Whatever happens, nothing of them
// is in the batcher when it returns.
func (n *network) call(ctx context.Context, r *read, probabilities []byte) error {
	form, codes := n.model.form, len(n.model.Codes)
	producer := n.batcher.NewProducer(n.outstanding)
	defer producer.Close()
	receive := func() error {
		req, err := producer.Receive(ctx)
		if err != nil {
			return err
		}
		defer n.requests.Put(req)
		if bad := new(infer.NoNumberError); errors.As(req.Err, &bad) { // in a second try as well
			return fmt.Errorf("%w: %w", ErrScores, req.Err)
		}
		if req.Err != nil {
			return req.Err
		}
		w := &r.rows[req.Tag]
		for i, place := range w.places {
			scores := req.Output[form.frame(r, w, place)*(1+codes):][:1+codes]
			if err := quantise(probabilities[(w.first+i)*codes:][:codes], scores); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range r.rows {
		if producer.Full() {
			if err := receive(); err != nil {
				return err
			}
		}
		req := n.requests.Get().(*infer.Request)
		form.fill(req.Input, r, &r.rows[i])
		req.Tag = i
		if err := producer.Submit(ctx, req); err != nil {
			return err
		}
	}
	for producer.Outstanding() > 0 {
		if err := receive(); err != nil {
			return err
		}
	}
	return nil
}

// quantise makes of the scores of a row, of which the first is that of the plain base, probabilities in 256ths.
func quantise(probabilities []byte, scores []float32) error {
	p, err := softmax(make([]float64, 0, 8), scores)
	if err != nil {
		return err
	}
	for i := range probabilities {
		probabilities[i] = byte(min(255, math.Floor(256*p[1+i])))
	}
	return nil
}

// softmax appends the probabilities of scores.
func softmax(p []float64, scores []float32) ([]float64, error) {
	largest := float64(slices.Max(scores))
	sum := 0.0
	for _, s := range scores {
		e := math.Exp(float64(s) - largest)
		p = append(p, e)
		sum += e
	}
	if math.IsNaN(sum) {
		return nil, ErrScores
	}
	for i := range p {
		p[i] /= sum
	}
	return p, nil
}

// Device names the device that networks run on, as in "cpu" or "cuda:0"; empty without any.
func (c *Caller) Device() string {
	if len(c.networks) == 0 {
		return ""
	}
	return c.networks[0].device
}

// Watchdog returns when a device hangs, with an error that says so, or when ctx ends, with nil. A hung device can't be had
// back in this process.
func (c *Caller) Watchdog(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range c.networks {
		group.Go(func() error {
			if err := n.batcher.Watchdog(ctx); err != nil {
				return fmt.Errorf("modified-base model %s on device %s: %w", n.model.Name, n.device, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// Close computes what is queued and releases the devices. Later calls fail.
func (c *Caller) Close() error {
	var err error
	for _, n := range c.networks {
		err = errors.Join(err, n.batcher.Close())
	}
	return err
}

package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/stat"
)

// LatencyConfig says how signal comes.
type LatencyConfig struct {
	Channels int           // that sequence at the same time, each without a pause
	Chunk    time.Duration // of signal in one piece
	Duration time.Duration // for how long reads end that count
}

// Latency is how soon reads are called.
type Latency struct {
	Model         string  `json:"model"`
	Device        string  `json:"device"`
	Cores         int     `json:"cores"`
	Channels      int     `json:"channels"`
	ChunkSeconds  float64 `json:"chunk_s"`
	SamplesPerS   float64 `json:"samples_per_s"` // that came
	Reads         int     `json:"reads"`         // that ended
	CalledEarly   float64 `json:"called_early"`  // share of their samples that was written before the last chunk
	P50           float64 `json:"p50_ms"`
	P90           float64 `json:"p90_ms"`
	P99           float64 `json:"p99_ms"`
	Max           float64 `json:"max_ms"`
	LateChunksP99 float64 `json:"chunk_delay_p99_ms"` // by which chunks were taken after they came
}

// MeasureLatency plays reads at the sequencer's pace on many channels and takes
// the time from a read's last chunk to its finished call. Channels begin in the
// middle of a read, and their chunks come at moments of their own. Time that a
// chunk waits because the one before isn't taken counts.
func MeasureLatency(ctx context.Context, c *basecall.Caller, reads []basecall.Read, cfg LatencyConfig) (Latency, error) {
	if len(reads) == 0 || cfg.Channels < 1 || cfg.Chunk <= 0 || cfg.Duration <= 0 {
		return Latency{}, errors.New("measuring latency: there is no read, no channel, no chunk or no time")
	}
	m := &meter{}
	start := time.Now()
	group, playing := errgroup.WithContext(ctx)
	for channel := range cfg.Channels {
		group.Go(func() error { return m.play(playing, c, reads, cfg, uint64(channel), start) })
	}
	if err := group.Wait(); err != nil {
		return Latency{}, err
	}
	elapsed := min(time.Since(start), cfg.Duration)
	slices.Sort(m.delays)
	slices.Sort(m.late)
	l := Latency{
		Model: c.Model().Manifest.Name, Device: c.Device(), Cores: Cores(), Channels: cfg.Channels,
		ChunkSeconds: cfg.Chunk.Seconds(), SamplesPerS: float64(m.samples) / elapsed.Seconds(), Reads: len(m.delays),
		P50: stat.Quantile(m.delays, 0.5), P90: stat.Quantile(m.delays, 0.9), P99: stat.Quantile(m.delays, 0.99), Max: stat.Quantile(m.delays, 1),
		LateChunksP99: stat.Quantile(m.late, 0.99),
	}
	if m.ended > 0 {
		l.CalledEarly = float64(m.early) / float64(m.ended)
	}
	return l, nil
}

// meter gathers what channels measure.
type meter struct {
	mu           sync.Mutex
	samples      int // that came
	early, ended int // samples of the reads that ended, and those before the last chunk
	delays, late []float64
}

// play is the life of one channel.
func (m *meter) play(ctx context.Context, c *basecall.Caller, reads []basecall.Read, cfg LatencyConfig, channel uint64, start time.Time) error {
	rng := rand.New(rand.NewPCG(channel, 1))
	at := start.Add(time.Duration(rng.Int64N(int64(cfg.Chunk)))) // when the next chunk is there
	for first := true; at.Before(start.Add(cfg.Duration)); first = false {
		read := reads[rng.IntN(len(reads))]
		if first {
			read.Samples = read.Samples[rng.IntN(len(read.Samples)+1):]
		}
		var err error
		if at, err = m.playRead(ctx, c, read, cfg, at, start.Add(cfg.Duration)); err != nil {
			return err
		}
	}
	return nil
}

// playRead plays one read, of which the first chunk is there at the given time, and
// returns when the channel's next chunk is there. A read that ends behind the end
// is not finished.
func (m *meter) playRead(ctx context.Context, c *basecall.Caller, read basecall.Read, cfg LatencyConfig, at, end time.Time) (time.Time, error) {
	samples := read.Samples
	read.Samples = nil
	s, err := c.Begin(read)
	if err != nil {
		return at, err
	}
	defer s.Close()
	chunk := max(1, int(cfg.Chunk.Seconds()*float64(read.SampleRate)))
	for written := 0; ; {
		n := min(chunk, len(samples)-written)
		if err := waitUntil(ctx, at); err != nil {
			return at, err
		}
		came, last := at, written+n == len(samples)
		at = at.Add(time.Duration(float64(n) / float64(read.SampleRate) * float64(time.Second)))
		if came.After(end) {
			return at, nil
		}
		late := time.Since(came)
		if err := s.Write(ctx, samples[written:written+n]); err != nil {
			return at, err
		}
		written += n
		if !last {
			m.took(n, late)
			continue
		}
		if _, err := s.Finish(ctx); err != nil {
			return at, err
		}
		m.took(n, late)
		m.finished(len(samples), n, time.Since(came))
		return at, nil
	}
}

func (m *meter) took(samples int, late time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.samples += samples
	m.late = append(m.late, milliseconds(late))
}

func (m *meter) finished(samples, last int, delay time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended += samples
	m.early += samples - last
	m.delays = append(m.delays, milliseconds(delay))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func waitUntil(ctx context.Context, at time.Time) error {
	d := time.Until(at)
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

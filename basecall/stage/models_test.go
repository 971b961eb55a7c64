package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/models/pool"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// laterCaller is a model of another chemistry: it reads all but the first base.
type laterCaller struct{ Caller }

func (c laterCaller) Begin(read basecall.Read) (Stream, error) {
	s, err := c.Caller.Begin(read)
	return laterStream{s}, err
}

type laterStream struct{ Stream }

func (s laterStream) SoFar() basecall.Called { return later(s.Stream.SoFar()) }

func (s laterStream) Finish(ctx context.Context) (basecall.Called, error) {
	c, err := s.Stream.Finish(ctx)
	return later(c), err
}

func later(c basecall.Called) basecall.Called {
	if len(c.Sequence) > 0 {
		c.Sequence, c.Qualities, c.Moves = c.Sequence[1:], c.Qualities[1:], append([]byte{0}, c.Moves[1:]...)
	}
	return c
}

// byRun gives runs models by their ids.
type byRun struct {
	models map[string]*Model // by run
	pool   *pool.Pool[string, *Model]
}

// newByRun has models that take a while to load; "bad" can't be.
func newByRun(t *testing.T, takes time.Duration, models map[string]*Model) *byRun {
	b := &byRun{models: models, pool: pool.New(pool.Config[string, *Model]{
		Keep: 1, Idle: time.Second, Retry: time.Minute,
		Load: func(ctx context.Context, name string) (*Model, error) {
			select {
			case <-time.After(takes):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			for _, m := range models {
				if m.Name == name && name != "bad" {
					return m, nil
				}
			}
			return nil, errors.New("no such model")
		},
		Unload: func(string, *Model) error { return nil },
	})}
	t.Cleanup(func() { _ = b.pool.Close() }) // it holds nothing
	return b
}

func (b *byRun) Choose(run *streampb.Run) Choice {
	if m := b.models[run.GetId()]; m != nil {
		return Choice{Model: m.Name, Precision: "fp32", Identity: "of " + m.Name}
	}
	return Choice{}
}

func (b *byRun) Ready(_ *streampb.Run, c Choice) (*Model, func(), bool, error) {
	if c.Model == "" {
		return nil, nil, true, ErrNoModel
	}
	m, done, ok, err := b.pool.Ready(c.Model)
	return m, done, ok, noModel(err)
}

func (b *byRun) Use(ctx context.Context, _ *streampb.Run, c Choice) (*Model, func(), error) {
	if c.Model == "" {
		return nil, nil, ErrNoModel
	}
	m, done, err := b.pool.Use(ctx, c.Model)
	return m, done, noModel(err)
}

func noModel(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoModel, err)
}

func modelOf(name string, c Caller) *Model {
	return &Model{Name: name, Caller: c, InFlight: true, SampleRates: []int{4000}}
}

// readOf adds the chunks of a read of a run.
func (p *partition) readOf(run string, channel uint32, id string, from, to int) *partition {
	for _, c := range chunksOf(channel, id, from, to) {
		c.Run = run
		p.chunk(c)
	}
	return p
}

// onlyOf are the records of one run.
func onlyOf(t *testing.T, recs []stream.Record, run string) []stream.Record {
	return slices.DeleteFunc(slices.Clone(recs), func(rec stream.Record) bool {
		m, err := stream.DecodeSignal(rec.Value)
		require.NoError(t, err)
		of := m.GetChunk().GetRun()
		for _, mk := range []*streampb.Marker{m.GetRunStart(), m.GetRunEnd()} {
			if mk != nil {
				of = mk.GetRun().GetId()
			}
		}
		return of != run
	})
}

// lasting is what is downstream without the names of models, which each owner of a partition
// publishes again.
func lasting(outs []stream.Out) []stream.Out {
	return slices.DeleteFunc(slices.Clone(outs), func(o stream.Out) bool { return bytes.HasPrefix(o.Key, []byte("model\x00")) })
}

// ofReads is what is on the topic of reads.
func ofReads(outs []stream.Out) []string {
	return contents(slices.DeleteFunc(lasting(outs), func(o stream.Out) bool { return o.Topic != "reads" }))
}

// TestTwoChemistries interleaves two runs with models of their own and kills the handler at any
// moment. What is downstream is what each run has there alone, with its model as the only one.
func TestTwoChemistries(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 31))
		recs := disorderlyLog(t, rng)
		synctest.Test(t, func(t *testing.T) {
			var models *byRun
			crashes(t, seed, rng, recs, func(cfg *Config) {
				models = newByRun(t, time.Second, map[string]*Model{"run-0": modelOf("plain", cfg.Caller), "run-1": modelOf("later", laterCaller{cfg.Caller})})
				cfg.Models, cfg.Model, cfg.Caller, cfg.SampleRates = models, "by run", nil, nil
			})
			cfg := crashConfig(nil)
			cfg.Models = models
			together := new(fakeEmitter)
			h := newHandler(t, cfg)
			handleAll(t, h, recs, together)
			require.NoError(t, h.Drain(t.Context()))
			var alone []string
			for run, m := range models.models {
				cfg := crashConfig(m.Caller)
				cfg.Name = m.Name
				emit := new(fakeEmitter)
				h := newHandler(t, cfg)
				handleAll(t, h, onlyOf(t, recs, run), emit)
				require.NoError(t, h.Drain(t.Context()))
				alone = append(alone, ofReads(emit.outs)...)
			}
			slices.Sort(alone)
			assert.Equal(t, alone, ofReads(together.outs))
			assert.Greater(t, len(alone), 20)
		})
	}
}

// TestModelsThatFailOrLinger: a run whose model can't be loaded, one that has none and one
// whose model is slow to load change nothing about a fourth, whose reads are done at once.
func TestModelsThatFailOrLinger(t *testing.T) {
	p := &partition{t: t}
	for _, run := range []string{"bad", "none", "slow", "good"} {
		p.start(run)
	}
	for i, run := range []string{"bad", "none", "slow", "good"} {
		p.readOf(run, uint32(i), "read-"+run, 1000*i, 1000*i+200)
	}
	synctest.Test(t, func(t *testing.T) {
		models := newByRun(t, 10*time.Second, map[string]*Model{"bad": modelOf("bad", nil), "slow": modelOf("slow", fakeCaller{}), "good": modelOf("good", laterCaller{fakeCaller{}})})
		_, done, err := models.pool.Use(t.Context(), "good")
		require.NoError(t, err)
		defer done()
		cfg := testConfig()
		cfg.Models, cfg.Model = models, "by run"
		cfg.Metrics = NewMetrics(prometheus.NewRegistry(), prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"}))
		emit := new(fakeEmitter)
		h := newHandler(t, cfg)
		began := time.Now()
		handleAll(t, h, p.recs, emit)
		synctest.Wait()
		require.Zero(t, time.Since(began), "the fetch waits for a model")
		has := func(text string) bool {
			return slices.ContainsFunc(emit.summary(t), func(s string) bool { return strings.HasPrefix(s, text) })
		}
		assert.True(t, has("read-good/0 at 3001"), "%q", emit.summary(t))
		assert.False(t, has("read-slow"))
		assert.InDelta(t, 2, testutil.ToFloat64(cfg.Metrics.waiting), 0, "bad and slow wait")
		assert.InDelta(t, 1, testutil.ToFloat64(cfg.Metrics.Parts.WithLabelValues("no_model")), 0)

		require.NoError(t, h.Drain(t.Context()))
		assert.Equal(t, 10*time.Second, time.Since(began))
		assert.True(t, has("read-slow/0 at 2000"))
		assert.False(t, has("read-bad"))
		assert.Zero(t, testutil.ToFloat64(cfg.Metrics.waiting))
		assert.InDelta(t, 2, testutil.ToFloat64(cfg.Metrics.Parts.WithLabelValues("no_model")), 0)
		require.NoError(t, emit.failed)
		assert.Equal(t, allOffsets(p.recs), emit.offsets(), "reads without a model are dealt with")
		require.NoError(t, h.Close())
	})
}

// TestReadsThatWaitAreBounded: reads whose model is being loaded have a quarter of the memory for
// reads in the works; then the fetch waits, and reads of others that are there are done.
func TestReadsThatWaitAreBounded(t *testing.T) {
	const memory = 2 * leastOpenBytes * 4
	perRead := 2 * int64(10_000*samplesPerBase)
	capacity := memory / 2 / waitingShare / perRead
	p := &partition{t: t}
	p.start("slow")
	for i := range uint32(capacity) + 3 {
		p.readOf("slow", i, fmt.Sprint("read-", i), 0, 10_000)
	}
	synctest.Test(t, func(t *testing.T) {
		models := newByRun(t, time.Hour, map[string]*Model{"slow": modelOf("slow", fakeCaller{})})
		cfg := testConfig()
		cfg.Models, cfg.Model, cfg.MaxSignalMemory = models, "by run", memory
		h, emit := newHandler(t, cfg), new(fakeEmitter)
		handled := make(chan int, len(p.recs))
		ctx, cancel := context.WithCancel(t.Context())
		var stopped error
		go func() {
			defer close(handled)
			for i, rec := range p.recs {
				if stopped = h.Handle(ctx, rec, emit); stopped != nil {
					return
				}
				handled <- i
			}
		}()
		synctest.Wait()
		perReadRecords := (len(p.recs) - 1) / (int(capacity) + 3)
		assert.Len(t, handled, 1+(int(capacity)+1)*perReadRecords-1, "the fetch waits at the end of the first read that has no room")
		cancel()
		synctest.Wait()
		require.ErrorIs(t, stopped, context.Canceled)
		require.NoError(t, h.Close())
	})
}

// TestChoiceOutlivesRules: a process that takes over an open run goes on with the model that it
// began with, though the rules would choose another by now; a run that begins then gets that one,
// and so does an open one that had none.
func TestChoiceOutlivesRules(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1").read(1, "a", 100, 250).start("none").readOf("none", 3, "d", 3000, 3150)
	before := len(p.recs)
	p.start("run-1").read(1, "b", 1000, 1150).start("run-2").readOf("run-2", 2, "c", 2000, 2150).readOf("none", 3, "e", 4000, 4150)
	synctest.Test(t, func(t *testing.T) {
		plain, late := modelOf("plain", fakeCaller{}), modelOf("later", laterCaller{fakeCaller{}})
		cfg := testConfig()
		cfg.Models, cfg.Model = newByRun(t, 0, map[string]*Model{"run-1": plain, "other": late}), "by run"
		h := newHandler(t, cfg)
		handleAll(t, h, p.recs[:before], new(fakeEmitter))
		require.NoError(t, h.Drain(t.Context()))
		kept := snapshot{at: before, sections: sectionsOf(t, h.State())}
		require.NoError(t, h.Close())

		cfg.Models = newByRun(t, 0, map[string]*Model{"run-1": late, "run-2": late, "none": late, "other": plain})
		h = restored(t, cfg, kept)
		emit := new(fakeEmitter)
		handleAll(t, h, p.recs[kept.at:], emit)
		require.NoError(t, h.Drain(t.Context()))
		assert.Contains(t, emit.summary(t), "b/0 at 1000")
		assert.Contains(t, emit.summary(t), "c/0 at 2001")
		assert.Contains(t, emit.summary(t), "e/0 at 4001")
		require.NoError(t, h.Close())
	})
}

// TestChoicesInSnapshots holds the section to its bytes; stream/STATE.md describes it.
func TestChoicesInSnapshots(t *testing.T) {
	c := newChoices(func(run *streampb.Run) Choice {
		if run.GetId() == "none" {
			return Choice{}
		}
		return Choice{Model: "m/hac", Precision: "fp16", Identity: "abcd"}
	})
	for _, id := range []string{"run", "none", "run"} {
		c.begin(&streampb.Run{Id: id})
	}
	assert.EqualValues(t, 1, c.version, "a run that begins again keeps what it has, and one without a model is not kept")
	assert.Equal(t, "\x01\x01\x03run\x05m/hac\x04fp16\x04abcd", string(c.appendState(nil)))
}

// FuzzChoices holds the section to what it is written from, and damaged bytes to an error.
func FuzzChoices(f *testing.F) {
	c := newChoices(func(run *streampb.Run) Choice {
		return Choice{Model: "m/" + run.GetId(), Precision: "fp16", Identity: "i"}
	})
	f.Add(c.appendState(nil))
	c.begin(&streampb.Run{Id: "a"})
	c.begin(&streampb.Run{Id: "b"})
	f.Add(c.appendState(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := newChoices(nil)
		if c.restoreState(b) != nil {
			return
		}
		again := newChoices(nil)
		if err := again.restoreState(c.appendState(nil)); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(c.byRun) != fmt.Sprint(again.byRun) {
			t.Fatalf("%v and %v", c.byRun, again.byRun)
		}
	})
}

package stage

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	alignstage "github.com/porestream/porestream/align/stage"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/network"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// fakeModifier says how probably each C is modified by the current of it and of the base before, and holds
// that the current is the read's: as many samples as its bases have, each identifying its base. before, if
// set, is called with every read.
type fakeModifier struct {
	before func(ctx context.Context) error
}

func (f fakeModifier) Call(ctx context.Context, samples []int16, called *basecall.Called) (*modbase.Tags, error) {
	if f.before != nil {
		if err := f.before(ctx); err != nil {
			return nil, err
		}
	}
	if len(samples)/samplesPerBase != len(called.Sequence) {
		return nil, fmt.Errorf("%d samples of %d bases", len(samples), len(called.Sequence))
	}
	list := modbase.List{Base: 'C', Codes: []modbase.Code{'m'}, Skipped: modbase.Unknown}
	for i, base := range called.Sequence {
		if "ACGT"[samples[i*samplesPerBase]] != base {
			return nil, fmt.Errorf("base %d has the current of another", i)
		}
		if base == 'C' {
			list.Skips = append(list.Skips, 0)
			list.Probabilities = append(list.Probabilities, byte(200+samples[max(0, i-1)*samplesPerBase]))
		}
	}
	return &modbase.Tags{Lists: []modbase.List{list}, Length: len(called.Sequence)}, nil
}

func modifiedBy(m Modifier) func(*streampb.Run) Modifier {
	return func(*streampb.Run) Modifier { return m }
}

// tagsOf is what FASTQ has of bases of the reference that fakeModifier has scored.
func tagsOf(from, to int) string {
	mm, ml, before := "MM:Z:C+m?", "ML:B:C", byte(0)
	for i, base := range reference[from:to] {
		if i == 0 {
			before = base
		}
		if base == 'C' {
			mm += ",0"
			ml += fmt.Sprintf(",%d", 200+strings.IndexByte("ACGT", before))
		}
		before = base
	}
	return fmt.Sprintf("\t%s;\t%s\tMN:i:%d\n", mm, ml, to-from)
}

// TestModifiedBases: what is said of a read's bases goes with its segments and with what is published of it, of each part
// between gaps; a read of which nothing can be said goes without, and is counted.
func TestModifiedBases(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1").read(1, "a", 100, 250)
	for i, c := range chunksOf(2, "gap", 1000, 1200) {
		if i != 1 {
			p.chunk(c)
		}
	}
	p.end("run-1")
	type outcome struct{ called, noModel, noNumbers float64 }
	for name, tt := range map[string]struct {
		of   func(*streampb.Run) Modifier
		want outcome
	}{
		"nobody is asked": {nil, outcome{}},
		"called":          {modifiedBy(fakeModifier{}), outcome{called: 3}},
		"no model":        {modifiedBy(nil), outcome{noModel: 3}},
		"no numbers": {modifiedBy(fakeModifier{before: func(context.Context) error {
			return fmt.Errorf("model x: %w", network.ErrScores)
		}}), outcome{noNumbers: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Publish, cfg.ModifierOf = "model", tt.of
			cfg.Metrics = NewMetrics(prometheus.NewRegistry(), prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"}))
			emit := new(fakeEmitter)
			h := newHandler(t, cfg)
			handleAll(t, h, p.recs, emit)
			require.NoError(t, h.Drain(t.Context()))
			require.NoError(t, emit.failed)
			tagged := tt.want.called > 0
			segments, published := 0, ""
			for _, o := range emit.outs {
				switch o.Topic {
				case cfg.Topics.Basecalls:
					published += string(o.Value)
				case cfg.Topics.Reads:
					m, err := stream.DecodeReads(o.Value)
					require.NoError(t, err)
					if s := m.GetSegment(); s != nil {
						segments++
						assert.Equal(t, tagged, len(s.GetModified()) > 0, s.GetReadId())
					}
				}
			}
			assert.Equal(t, 3, segments)
			for _, span := range [][2]int{{100, 250}, {1000, 1040}, {1080, 1200}} {
				assert.Equal(t, tagged, strings.Contains(published, tagsOf(span[0], span[1])+string(reference[span[0]:span[1]])), span)
			}
			assert.Equal(t, tagged, strings.Contains(published, "MM:Z:"))
			count := func(result string) float64 {
				return testutil.ToFloat64(cfg.Metrics.modifiedParts.WithLabelValues(result))
			}
			assert.Equal(t, tt.want, outcome{count("called"), count("no_model"), count("no_numbers")})
			assert.Equal(t, tagged, testutil.ToFloat64(cfg.Metrics.modifiedBases) > 0)
		})
	}
}

// TestModifierThatFails: what is wrong with the device ends the worker; the read's record stays open.
func TestModifierThatFails(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1").read(1, "a", 100, 250)
	cfg := testConfig()
	cfg.ModifierOf = modifiedBy(fakeModifier{before: func(context.Context) error { return context.DeadlineExceeded }})
	emit := new(fakeEmitter)
	h := newHandler(t, cfg)
	handleAll(t, h, p.recs, emit)
	_ = h.Drain(t.Context()) // it reports the failure, too
	require.ErrorContains(t, emit.failed, "read a of run run-1: calling modified bases: "+context.DeadlineExceeded.Error())
	assert.NotContains(t, emit.offsets(), p.recs[len(p.recs)-1].Offset)
}

// TestCrashesWithModifiedBases: as TestCrashes, with modified bases that take their time.
func TestCrashesWithModifiedBases(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 44))
		recs := disorderlyLog(t, rng)
		synctest.Test(t, func(t *testing.T) {
			crashes(t, seed, rng, recs, func(cfg *Config) {
				cfg.Publish = "model"
				cfg.ModifierOf = modifiedBy(fakeModifier{before: func(ctx context.Context) error {
					select {
					case <-time.After(70 * time.Millisecond):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}})
			})
		})
	}
}

// TestLongBasecallsWithModifiedBases: a read that fits a record only without its modified bases is published without them.
func TestLongBasecallsWithModifiedBases(t *testing.T) {
	const n = alignstage.MaxPublishedBases
	called := basecall.Called{Sequence: bytes.Repeat([]byte("C"), n), Qualities: bytes.Repeat([]byte{12}, n), Stride: 5, NumSamples: 10 * n, MeanQuality: 12}
	read := &alignstage.Read{Run: testRun("run-1"), ID: "long", Model: "model", Channel: 1, Total: 10 * n}
	for bases, has := range map[int]bool{10: true, n: false} {
		tags := &modbase.Tags{Length: n, Lists: []modbase.List{{
			Base: 'C', Codes: []modbase.Code{'m'}, Skipped: modbase.Unknown, Skips: make([]int32, bases), Probabilities: make([]byte, bases),
		}}}
		p := &alignstage.Placer{Publish: true, MinQuality: 13, Logger: slog.New(slog.DiscardHandler)}
		outs, _, _, err := p.Place(read, p.Filter(alignstage.Part{To: read.Total, Called: called, Modified: tags}), nil)
		require.NoError(t, err)
		require.Len(t, outs, 1)
		require.LessOrEqual(t, len(outs[0].Value), stream.MaxRecord)
		assert.Equal(t, has, bytes.Contains(outs[0].Value[:1<<10], []byte("MM:Z:C+m?")))
	}
}

package stage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/finish"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// scaled gives the fake chemistry's calls the frames, and the place of levels on the network's scale, that a read's beginning is found by.
type scaled struct{ fakeCaller }

type scaledStream struct{ *collected }

func onScale(called basecall.Called, samples int) basecall.Called {
	called.Stride, called.NumSamples, called.MeanQuality = samplesPerBase/2, samples, 20
	called.Shift, called.Scale = 1.5, 1
	return called
}

func (s scaledStream) SoFar() basecall.Called {
	return onScale(s.collected.SoFar(), len(s.read.Samples))
}

func (s scaled) Begin(read basecall.Read) (Stream, error) {
	return scaledStream{&collected{read: read, call: s.Call}}, nil
}

func (s scaled) Call(ctx context.Context, read basecall.Read) (basecall.Called, error) {
	called, err := s.fakeCaller.Call(ctx, read)
	return onScale(called, len(read.Samples)), err
}

// ofCurrent is a read of samples in chunks.
func ofCurrent(samples []int16) (chunks []*streampb.SignalChunk) {
	for first := 0; first < len(samples); first += testChunk {
		part := samples[first:min(first+testChunk, len(samples))]
		c := chunkOf(1, "a", 0, uint64(first), 0, first+len(part) == len(samples))
		c.SampleCount, c.Vbz = uint32(len(part)), vbzOf(part)
		chunks = append(chunks, c)
	}
	return chunks
}

// between names a part of a read by the bases that it has of the whole one.
func between(from, to int) string { return fmt.Sprintf("%d to %d", from, to) }

// TestReadsBeginWithTheirStrand: with a finisher that finds it, a read of the stream begins with the base with which the whole read, as a
// file has it, does: at once, in any order of its chunks, before its end, and cut in two; what is behind a gap, or follows a lost
// beginning, stays whole.
func TestReadsBeginWithTheirStrand(t *testing.T) {
	const open, from, bases = 23, 1000, 1300 // bases of high current, and of the strand
	current := func(open, bases int) []int16 {
		return slices.Concat(slices.Repeat([]int16{400}, open*samplesPerBase), currentOf(reference[from:from+bases]))
	}
	f, err := finish.New(finish.Options{Start: true}, basecall.QualityManifest{})
	require.NoError(t, err)
	require.Positive(t, f.Needs())
	inFile := func(open, bases int) int {
		samples := current(open, bases)
		called, err := scaled{}.Call(t.Context(), basecall.Read{Samples: samples})
		require.NoError(t, err)
		read := f.Finish(basecall.Read{ID: "a", Samples: samples}, called)[0]
		require.Equal(t, open+bases, read.To)
		return read.From
	}
	begin := inFile(open, bases)
	require.InDelta(t, open+2, begin, 2, "the strand begins behind the high current")
	const late = 900 // bases of high current that reach beyond the search
	require.Equal(t, 1, inFile(late, bases))

	for _, test := range []struct {
		name string
		open int
		edit func(cfg *Config, chunks []*streampb.SignalChunk) []*streampb.SignalChunk
		want []string // parts, by their bases
	}{
		{"in order", open, nil, []string{between(begin, open+bases)}},
		{"backwards", open, func(_ *Config, c []*streampb.SignalChunk) []*streampb.SignalChunk {
			last := len(c) - 1
			slices.Reverse(c[:last])
			return c
		}, []string{between(begin, open+bases)}},
		{"at its end alone", open, func(cfg *Config, c []*streampb.SignalChunk) []*streampb.SignalChunk { cfg.InFlight = false; return c }, []string{between(begin, open+bases)}},
		{"high for longer than the search", late, nil, []string{between(1, late+bases)}},
		{"with a gap", open, func(_ *Config, c []*streampb.SignalChunk) []*streampb.SignalChunk { return slices.Delete(c, 3, 4) }, []string{
			between(begin, 3*testChunk/samplesPerBase), between(4*testChunk/samplesPerBase, open+bases),
		}},
		{"without its beginning", open, func(_ *Config, c []*streampb.SignalChunk) []*streampb.SignalChunk { return c[1:] }, []string{between(testChunk/samplesPerBase, open+bases)}},
		{"cut", open, func(cfg *Config, c []*streampb.SignalChunk) []*streampb.SignalChunk {
			cfg.MaxReadSamples = 4 * testChunk
			return c
		}, []string{
			between(begin, 5*testChunk/samplesPerBase), between(5*testChunk/samplesPerBase, 10*testChunk/samplesPerBase),
			between(10*testChunk/samplesPerBase, 15*testChunk/samplesPerBase), between(15*testChunk/samplesPerBase, 20*testChunk/samplesPerBase),
			between(20*testChunk/samplesPerBase, 25*testChunk/samplesPerBase), between(25*testChunk/samplesPerBase, 30*testChunk/samplesPerBase),
			between(30*testChunk/samplesPerBase, open+bases),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Caller, cfg.InFlight, cfg.Finisher, cfg.Publish = scaled{}, true, f, "model"
			chunks := ofCurrent(current(test.open, bases))
			if test.edit != nil {
				chunks = test.edit(&cfg, chunks)
			}
			p := &partition{t: t}
			p.start("run-1")
			for _, c := range chunks {
				p.chunk(c)
			}
			p.end("run-1")
			called, err := scaled{}.Call(t.Context(), basecall.Read{Samples: current(test.open, bases)})
			require.NoError(t, err)
			var got []string
			published, _ := publishedBy(t, p, cfg)
			for _, o := range published {
				sequence := strings.Split(string(o.Value), "\n")[1]
				first := strings.Index(string(called.Sequence), sequence)
				got = append(got, between(first, first+len(sequence)))
			}
			require.ElementsMatch(t, test.want, got)
		})
	}

	t.Run("before its end", func(t *testing.T) {
		cfg := testConfig()
		cfg.Caller, cfg.InFlight, cfg.Finisher, cfg.Partial = scaled{}, true, f, 500*time.Millisecond
		p := &partition{t: t}
		p.start("run-1")
		for _, c := range ofCurrent(current(open, bases)) {
			p.chunk(c)
		}
		p.end("run-1")
		_, got := handled(t, cfg, p.recs)
		require.Greater(t, len(got), 2)
		for _, one := range got {
			require.Contains(t, one, "a/0 on chr1")
		}
		emit := new(fakeEmitter)
		h := newHandler(t, cfg)
		handleAll(t, h, p.recs, emit)
		for _, o := range emit.outs {
			if o.Topic != cfg.Topics.Reads {
				continue
			}
			m, err := stream.DecodeReads(o.Value)
			require.NoError(t, err)
			if s := m.GetSegment(); s != nil {
				require.EqualValues(t, from+begin-open, s.GetStart())
			}
		}
	})
}

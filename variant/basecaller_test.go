package variant_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// wardrobe is a network that has suits for models whose names begin with hac and with sup. It
// scores those of sup with a network of their own.
type wardrobe struct {
	*variant.DoseNetwork
	sup *variant.DoseNetwork
}

func newWardrobe() wardrobe {
	return wardrobe{new(variant.DoseNetwork), new(variant.DoseNetwork)}
}

func (w wardrobe) Suits() []variant.Suit {
	named := func(prefix string) func(string) bool {
		return func(model string) bool { return strings.HasPrefix(model, prefix) }
	}
	quiet := variant.UsualErrors()
	quiet.Mismatch, quiet.Gaps = 0.002, 0.004
	return []variant.Suit{
		{Name: "hac", Matches: named("hac"), Network: w.DoseNetwork},
		{Name: "sup", Matches: named("sup"), Network: w.sup, Errors: &quiet},
	}
}

// calledBy gives segments the models that shares say, in turns of a hundred.
func calledBy(names *variant.Basecallers, segments []*streampb.Segment, shares map[string]int) {
	var turn []string
	for _, name := range slices.Sorted(mapsKeys(shares)) {
		turn = append(turn, slices.Repeat([]string{name}, shares[name])...)
	}
	rand.New(rand.NewPCG(4, 4)).Shuffle(len(turn), func(i, j int) { turn[i], turn[j] = turn[j], turn[i] })
	for i, s := range segments {
		s.Model = names.Add(turn[i%len(turn)])
	}
}

func mapsKeys(m map[string]int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// TestCallsNameUnknownModelsAndTheMostFrequentSuitScores.
func TestCallsNameUnknownModelsAndTheMostFrequentSuitScores(t *testing.T) {
	s, _ := planted(t, 11)
	plain := s.segments(t, 100, 2500, 0, 6000)
	for _, tt := range []struct {
		name     string
		shares   map[string]int
		mismatch []string
		sup      bool
	}{
		{"nobody names a model", map[string]int{"": 100}, nil, false},
		{"all are known", map[string]int{"hac@v5": 100}, nil, false},
		{"most are of another suit", map[string]int{"hac@v5": 30, "sup@v5": 70}, nil, true},
		{"strangers, the frequentest first", map[string]int{"fast b": 20, "fast a": 20, "old": 30, "sup@v5": 30}, []string{"old", "fast a", "fast b"}, true},
		{"few of a stranger are not told of", map[string]int{"fast": 2, "hac": 98}, nil, false},
		{"strangers alone", map[string]int{"fast": 100}, []string{"fast"}, false},
		{"strangers among reads that name none", map[string]int{"fast": 10, "": 90}, []string{"fast"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWardrobe()
			names := variant.NewBasecallers(w, "caller")
			segments := make([]*streampb.Segment, len(plain))
			for i := range plain {
				segments[i] = proto.CloneOf(plain[i])
			}
			calledBy(names, segments, tt.shares)
			r := region(t, s.contig, 0, variant.Config{Sample: "s", Network: w, Basecallers: names})
			apply(t, r, segments...)
			calls := finalize(t, r)
			require.NotEmpty(t, calls)
			for _, c := range calls {
				assert.Equal(t, tt.mismatch, c.GetModelMismatch())
			}
			assert.Equal(t, tt.sup, w.sup.Calls.Load() > 0)
			assert.Equal(t, tt.sup, w.DoseNetwork.Calls.Load() == 0)
			total := uint64(0)
			for _, m := range r.Models() {
				total += m.Reads
				assert.Equal(t, slices.Contains(tt.mismatch, m.Name) || m.Name == "fast", m.Match == variant.Mismatched, m.Name)
				assert.Equal(t, m.Name == "", m.Match == variant.Unnamed)
			}
			assert.Equal(t, uint64(len(segments)), total, "the region is the whole contig, so all reads begin in it")
		})
	}
}

// TestMismatchIsAFunctionOfTheSet: in whatever order reads come, however often, and when names become
// known or state is taken to pieces meanwhile, final calls are the same bytes.
func TestMismatchIsAFunctionOfTheSet(t *testing.T) {
	s, _ := planted(t, 7)
	segments := s.segments(t, 60, 2000, 0, 6000)
	w := newWardrobe()
	calledBy(variant.NewBasecallers(w, ""), segments, map[string]int{"hac": 40, "sup": 40, "fast": 6, "rare": 3, "": 11})
	content := func(calls []*streampb.Call) (out []string) {
		for _, c := range calls {
			if c.GetStatus() == streampb.CallStatus_RETRACTED {
				continue
			}
			c = proto.CloneOf(c)
			c.Revision = 0
			b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
			require.NoError(t, err)
			out = append(out, string(b))
		}
		return out
	}
	var want []string
	rnd := rand.New(rand.NewPCG(8, 8))
	for trial := range 6 {
		order := slices.Concat(segments, segments[:20])
		rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		names := variant.NewBasecallers(w, "")
		cfg := variant.Config{Sample: "s", Network: w, Basecallers: names}
		all := []string{"hac", "sup", "fast", "rare"}
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		r := region(t, s.contig, 0, cfg)
		for i, seg := range order {
			if i%12 == 0 && len(all) > 0 {
				names.Add(all[0])
				all = all[1:]
			}
			if i == 50 {
				r = restore(t, s.contig, cfg, nil, partsOf(t, r), 1<<17, rnd)
			}
			apply(t, r, seg)
			if rnd.IntN(4) == 0 {
				evaluate(t, r)
			}
		}
		got := content(finalize(t, r))
		require.NotEmpty(t, got)
		if trial == 0 {
			want = got
		}
		require.Equal(t, want, got, "trial %d", trial)
	}
}

// TestRefusalNamesReadsModelAndWhatToDo.
func TestRefusalNamesReadsModelAndWhatToDo(t *testing.T) {
	names := variant.NewBasecallers(newWardrobe(), "caller")
	require.NoError(t, names.Refuse("hac@v5"))
	err := names.Refuse("fast@v5")
	require.ErrorIs(t, err, variant.ErrModelMismatch)
	for _, want := range []string{"fast@v5", "caller", "hac, sup", "--variant-model", "--strict-models"} {
		assert.ErrorContains(t, err, want)
	}
	assert.ErrorContains(t, names.Refuse(""), "--called-by")
	// A network that doesn't say whose reads it is for refuses none.
	undeclared := variant.NewBasecallers(new(variant.DoseNetwork), "x")
	require.NoError(t, undeclared.Refuse("fast@v5"))
	assert.False(t, undeclared.HasSuits())
	assert.Equal(t, variant.Undeclared, undeclared.Match(stream.ModelNumber("fast@v5")))
}

package minknow

import (
	"bytes"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/porestream/porestream/ingest/minknow/minknowpb"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/testenv"
)

func statesResponse(states map[uint32]string) *minknowpb.GetChannelStatesResponse {
	m := new(minknowpb.GetChannelStatesResponse)
	for _, channel := range slices.Sorted(maps.Keys(states)) {
		m.ChannelStates = append(m.ChannelStates, &minknowpb.GetChannelStatesResponse_ChannelStateData{
			Channel: channel, State: &minknowpb.GetChannelStatesResponse_ChannelStateData_StateName{StateName: states[channel]},
		})
	}
	return m
}

// Every name has a letter of the closed list, and every letter a name.
func TestStateLetters(t *testing.T) {
	letters := make(map[byte]bool)
	for name, letter := range stateLetters() {
		if strings.IndexByte(stream.ChannelLetters, letter) < 0 || name != strings.ToLower(name) {
			t.Errorf("%q: %c", name, letter)
		}
		letters[letter] = true
	}
	if len(letters) != len(stream.ChannelLetters) {
		t.Errorf("%d letters are used of %s", len(letters), stream.ChannelLetters)
	}
}

func TestChannelStates(t *testing.T) {
	s := newChannelStates(6)
	for i, step := range []struct {
		say     map[uint32]string
		changed bool
		strange []string
		want    string // 0 as a dot
	}{
		{map[uint32]string{1: "strand", 2: "no_pore", 4: "pore"}, true, nil, "sn.p.."},
		{nil, false, nil, "sn.p.."},
		{map[uint32]string{1: "strand"}, false, nil, "sn.p.."},
		{map[uint32]string{0: "strand", 7: "strand", 1 << 30: "strand"}, false, nil, "sn.p.."}, // no flow cell has them
		{map[uint32]string{1: "adapter", 3: "of tomorrow", 5: "of tomorrow"}, true, []string{"of tomorrow"}, "an?p?."},
		{map[uint32]string{3: "of tomorrow", 6: ""}, true, nil, "an?p??"}, // an id instead of a name
		{map[uint32]string{1: "unblocking", 2: "saturated", 3: "zero", 4: "multiple", 5: "pending_mux_change", 6: "disabled"}, true, nil, "utzmxi"},
	} {
		changed, strange := s.take(statesResponse(step.say))
		letters := string(bytes.ReplaceAll(s.letters, []byte{0}, []byte{'.'}))
		if changed != step.changed || !slices.Equal(strange, step.strange) || letters != step.want {
			t.Errorf("step %d: %v %q %s, want %v %q %s", i, changed, strange, letters, step.changed, step.strange, step.want)
		}
	}
	for i := range 3 * maxStrange {
		s.take(statesResponse(map[uint32]string{1: strings.Repeat("x", i+1)}))
	}
	if len(s.strange) > maxStrange {
		t.Errorf("%d names are remembered", len(s.strange))
	}
}

// keptStates keeps what is reported of channels.
type keptStates struct {
	mu   sync.Mutex
	seen map[string][]string // by run, without repetitions
}

func (k *keptStates) take(run string, letters []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen == nil {
		k.seen = make(map[string][]string)
	}
	k.seen[run] = append(k.seen[run], string(letters))
}

// TestChannelStatesOfMinKNOW: what the simulator says of its channels is passed on from the
// first message to the run's end, and taken back then.
func TestChannelStatesOfMinKNOW(t *testing.T) {
	_, file := recording(t, 60)
	s := startSim(t, certificates(t, time.Hour), file, "--channels", "16", "--pace", "10", "--dead", "3=saturated,7=no_pore,11=quiet_zone")
	runs, kept := keepRuns(), new(keptStates)
	cfg := s.config(runs)
	cfg.Once, cfg.States = true, kept.take
	log := new(testenv.Log)
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	if err := Follow(t.Context(), cfg); err != nil {
		t.Fatalf("%v\n%s", err, s.log)
	}
	seen := kept.seen[runs.only(t).GetId()]
	if len(kept.seen) != 1 || len(seen) < 3 || seen[len(seen)-1] != "" {
		t.Fatalf("%d runs, %d tellings, the last %q", len(kept.seen), len(seen), seen[max(0, len(seen)-1):])
	}
	all := make(map[rune]bool)
	for _, letters := range seen {
		if letters == "" {
			continue
		}
		if len(letters) != 16 || letters[2] != 't' || letters[6] != 'n' || letters[10] != '?' {
			t.Fatalf("told %q", letters)
		}
		for _, letter := range letters {
			all[letter] = true
		}
	}
	if !all['s'] || !all['p'] || !all['a'] {
		t.Errorf("told %v, want strand, pore and adapter among them", all)
	}
	if n := strings.Count(log.String(), "quiet_zone"); n != 1 {
		t.Errorf("the name that is not known is told of %d times, want once:\n%s", n, log)
	}
}

// TestWithoutChannelStates: a MinKNOW that reports no states, or not to this client, gives
// its signal all the same. That is logged once, however often the connection is lost.
func TestWithoutChannelStates(t *testing.T) {
	for _, states := range []string{"none", "refused"} {
		t.Run(states, func(t *testing.T) {
			t.Parallel()
			want, file := recording(t, 20)
			s := startSim(t, certificates(t, time.Hour), file, "--channels", "8", "--pace", "10", "--states", states)
			runs, kept := keepRuns(), new(keptStates)
			cfg := s.config(runs)
			cfg.Once, cfg.States = true, kept.take
			log := new(testenv.Log)
			cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
			done := make(chan error, 1)
			go func() { done <- Follow(t.Context(), cfg) }()
			runs.wait(t, "signal comes", func() bool {
				for _, r := range runs.runs {
					return len(r.chunks) > 10
				}
				return false
			})
			s.command("cut")
			if err := <-done; err != nil {
				t.Fatalf("%v\n%s", err, s.log)
			}
			run := runs.only(t)
			if !run.ended || len(run.reads()) < len(want)/2 {
				t.Errorf("%d reads, ended: %v", len(run.reads()), run.ended)
			}
			for _, letters := range kept.seen[run.GetId()] {
				if letters != "" {
					t.Errorf("told %q", letters)
				}
			}
			if n := strings.Count(log.String(), "doesn't report the states of channels"); n != 1 {
				t.Errorf("it is in the log %d times, want once:\n%s", n, log)
			}
			if n := testutil.ToFloat64(cfg.Metrics.ownStates.WithLabelValues("MN00001")); n != 0 {
				t.Errorf("channel_states is %v", n)
			}
		})
	}
}

package sources

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/ingest"
)

// stage is where sources of tests are seen.
type stage struct {
	mu     sync.Mutex
	starts map[string]int // by name
	stops  map[string]int
	now    map[string]string // settings of those under way, by name
	twice  []string          // that were started while one of their name was under way
}

func newStage() *stage {
	return &stage{starts: make(map[string]int), stops: make(map[string]int), now: make(map[string]string)}
}

func (s *stage) enter(name, settings string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.now[name]; there {
		s.twice = append(s.twice, name)
	}
	s.starts[name]++
	s.now[name] = settings
}

func (s *stage) leave(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stops[name]++
	delete(s.now, name)
}

func (s *stage) count(name string) (starts, stops int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.starts[name], s.stops[name]
}

func (s *stage) running() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.now)
}

// spec is a source that does fn, or waits to be stopped.
func (s *stage) spec(name, settings string, fn func(ctx context.Context) error) Spec {
	return Spec{Name: name, Kind: "test", Settings: settings, Run: func(ctx context.Context, ready func()) error {
		s.enter(name, settings)
		defer s.leave(name)
		if fn != nil {
			return fn(ctx)
		}
		ready()
		<-ctx.Done()
		return context.Cause(ctx)
	}}
}

// supervise runs a supervisor until the returned function is called, which returns
// what Run has.
func supervise(t *testing.T, cfg Config, list []Spec, lists <-chan []Spec) (*Supervisor, func() error) {
	t.Helper()
	require.NoError(t, Check(list))
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = time.Minute
	}
	s := New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, list, lists) }()
	synctest.Wait()
	return s, func() error {
		cancel()
		return <-done
	}
}

func (s *Supervisor) of(t *testing.T, name string) Status {
	t.Helper()
	for _, status := range s.Status() {
		if status.Name == name {
			return status
		}
	}
	t.Fatalf("no source %q in %v", name, s.Status())
	return Status{}
}

// TestFaultsAreTheSourcesOwn: sources that panic, fail, hang or end leave the
// others alone, and are reported.
func TestFaultsAreTheSourcesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		permanent := errors.New("no such position")
		release := make(chan struct{})
		list := []Spec{
			st.spec("good", "", nil),
			st.spec("panics", "", func(context.Context) error { panic("index out of range") }),
			st.spec("fails", "", func(context.Context) error { return errors.New("MinKNOW is away\nfor now") }),
			st.spec("wrong", "", func(context.Context) error { return fmt.Errorf("following: %w", permanent) }),
			st.spec("ends", "", func(context.Context) error { return nil }),
			st.spec("hangs", "", func(context.Context) error { <-release; return nil }),
		}
		s, stop := supervise(t, Config{Restarts: true, Permanent: func(err error) bool { return errors.Is(err, permanent) }}, list, nil)
		for name, want := range map[string]State{
			"good": Running, "panics": BackingOff, "fails": BackingOff, "wrong": Failed, "ends": Stopped, "hangs": Starting,
		} {
			require.Equal(t, want, s.of(t, name).State, name)
		}
		require.Equal(t, "MinKNOW is away for now", s.of(t, "fails").Reason)
		require.Contains(t, s.of(t, "panics").LastError, "index out of range")
		require.True(t, s.of(t, "fails").RetryAt.After(time.Now()))

		// Pauses grow up to a minute, and half of it more by chance.
		time.Sleep(time.Hour)
		synctest.Wait()
		for _, name := range []string{"panics", "fails"} {
			starts, _ := st.count(name)
			require.Greater(t, starts, 40, name)
			require.Less(t, starts, 200, name)
			require.EqualValues(t, starts, s.of(t, name).Restarts)
		}
		for _, name := range []string{"good", "wrong", "ends", "hangs"} {
			starts, _ := st.count(name)
			require.Equal(t, 1, starts, name)
		}
		require.Equal(t, Running, s.of(t, "good").State)

		// One that doesn't stop holds the end up, not for ever.
		require.EqualError(t, stop(), "these sources did not stop within 1m0s: hangs; what they had not acknowledged is sent again after a restart")
		_, stops := st.count("good")
		require.Equal(t, 1, stops)
		close(release)
	})
}

// TestHealthResetsThePause: a source that was well for long is started again soon.
func TestHealthResetsThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		spec := st.spec("a", "", nil)
		run := spec.Run
		var well atomic.Int64
		spec.Run = func(ctx context.Context, ready func()) error {
			ctx, cancel := context.WithTimeout(ctx, time.Duration(well.Load()))
			defer cancel()
			if well.Load() > 0 {
				_ = run(ctx, ready)
			}
			return errors.New("failed")
		}
		s, stop := supervise(t, Config{Restarts: true}, []Spec{spec}, nil)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		well.Store(int64(2 * time.Minute))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		status := s.of(t, "a")
		require.Contains(t, []State{Running, BackingOff}, status.State)
		before := time.Now()
		for s.of(t, "a").State == Running {
			time.Sleep(firstPause / 10) // a pause that was reset must not pass unseen
			synctest.Wait()
		}
		require.Less(t, time.Since(before), 3*time.Minute)
		require.Less(t, time.Until(*s.of(t, "a").RetryAt), 3*time.Second, "the pause is not reset")
		require.NoError(t, stop())
	})
}

// TestSuccessorWaits: a source whose settings have changed begins when the one
// before it has ended, as does one that claims what another has.
func TestSuccessorWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		slow := func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(20 * time.Second)
			return nil
		}
		folder := []Claim{{Folder, "/data"}}
		a := st.spec("a", "1", slow)
		a.Claims = folder
		gone := make(chan string, 1)
		lists := make(chan []Spec)
		s, stop := supervise(t, Config{Restarts: true, Gone: func(name string) { gone <- name }}, []Spec{a, st.spec("b", "1", slow), st.spec("c", "1", nil)}, lists)
		heir := st.spec("heir", "1", nil)
		heir.Claims = []Claim{{Folder, "/data/run1"}}
		lists <- []Spec{heir, st.spec("b", "2", nil), st.spec("c", "1", nil)}
		synctest.Wait()
		require.Equal(t, Waiting, s.of(t, "heir").State)
		require.Equal(t, `waits for source "a" to stop, which has what it claims`, s.of(t, "heir").Reason)
		require.Equal(t, "waits for the one before it to stop", s.of(t, "b").Reason)
		require.Equal(t, Stopping, s.of(t, "a").State)
		require.Len(t, s.Status(), 5, "b is there twice")
		require.Empty(t, gone)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		require.Equal(t, Running, s.of(t, "heir").State)
		require.Equal(t, Running, s.of(t, "b").State)
		require.Equal(t, map[string]string{"heir": "1", "b": "2", "c": "1"}, st.running())
		require.Equal(t, "a", <-gone)
		starts, _ := st.count("c")
		require.Equal(t, 1, starts)
		require.Empty(t, st.twice)
		require.NoError(t, stop())
	})
}

// TestMisconfiguredWaitsForTheFile: a source with a permanent error is started
// again when there is a new list, and not before.
func TestMisconfiguredWaitsForTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		list := []Spec{st.spec("a", "", func(context.Context) error { return errors.New("wrong certificate") })}
		lists := make(chan []Spec)
		_, stop := supervise(t, Config{Restarts: true, Permanent: func(error) bool { return true }}, list, lists)
		for i := range 3 {
			time.Sleep(time.Hour)
			starts, _ := st.count("a")
			require.Equal(t, i+1, starts)
			lists <- list
			synctest.Wait()
		}
		require.NoError(t, stop())
	})
}

// TestOnceReturnsWhenAllHaveEnded: with Once, Run returns when all have come to their end, and says which
// have failed.
func TestOnceReturnsWhenAllHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		brief := func(context.Context) error { time.Sleep(time.Minute); return nil }
		require.NoError(t, New(Config{Once: true}).Run(t.Context(), []Spec{st.spec("a", "", brief), st.spec("b", "", brief)}, nil))
		err := New(Config{Once: true}).Run(t.Context(), []Spec{st.spec("a", "", brief), st.spec("b", "", func(context.Context) error { return errors.New("no reads") })}, nil)
		require.EqualError(t, err, `source "b": no reads`)
	})
}

func TestWaitingForARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var f ingest.Figures
		spec := newStage().spec("a", "", nil)
		spec.Figures = func() ingest.Figures {
			mu.Lock()
			defer mu.Unlock()
			return f
		}
		s, stop := supervise(t, Config{}, []Spec{spec}, nil)
		require.Equal(t, Waiting, s.of(t, "a").State)
		mu.Lock()
		f = ingest.Figures{Runs: 2, Channels: 5, Samples: 7, Oldest: time.Second}
		mu.Unlock()
		got := s.of(t, "a")
		require.Equal(t, Running, got.State)
		require.Equal(t, []any{2, 5, int64(7), 1.0}, []any{got.Runs, got.Channels, got.Samples, got.OldestSeconds})
		require.NoError(t, stop())
	})
}

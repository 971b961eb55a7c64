package pool_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/models/pool"
)

// fake loads strings; those with a "bad" in them can't be.
type fake struct {
	mu    sync.Mutex
	takes time.Duration
	now   []string // loaded, in the order in which they were
	loads int
	bad   map[string]bool
}

func (f *fake) pool(keep int) *pool.Pool[string, string] {
	return pool.New(pool.Config[string, string]{
		Keep: keep, Idle: time.Minute, Retry: time.Minute,
		Load: func(ctx context.Context, key string) (string, error) {
			select {
			case <-time.After(f.takes):
			case <-ctx.Done():
				return "", ctx.Err()
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.loads++
			if f.bad[key] {
				return "", errors.New("no such thing: " + key)
			}
			f.now = append(f.now, key)
			return strings.ToUpper(key), nil
		},
		Unload: func(key, _ string) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.now = slices.DeleteFunc(f.now, func(k string) bool { return k == key })
			return nil
		},
	})
}

func (f *fake) loaded() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.now)
}

func TestWhatIsInUseStaysAndTheOldestGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: time.Second}
		p := f.pool(2)
		use := func(key string) func() {
			v, done, err := p.Use(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, strings.ToUpper(key), v)
			return done
		}
		a, b := use("a"), use("b")
		c := use("c")
		assert.Equal(t, []string{"a", "b", "c"}, f.loaded(), "one more than are kept, as all are in use")
		b()
		time.Sleep(time.Second)
		a()
		time.Sleep(58 * time.Second)
		synctest.Wait()
		assert.Len(t, f.loaded(), 3, "b may be wanted again soon")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"a", "c"}, f.loaded(), "b was used longest ago")
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, []string{"a", "c"}, f.loaded(), "as many as are kept")
		assert.Equal(t, 2, p.Len())
		use("a")()
		assert.Equal(t, 3, f.loads, "a was there")
		c()
		c() // once is enough, and twice does no harm
		require.NoError(t, p.Close())
		assert.Empty(t, f.loaded())
		_, _, err := p.Use(t.Context(), "a")
		require.ErrorIs(t, err, pool.ErrClosed)
	})
}

// TestCloseWaitsForWhatIsUnloaded: the caller of Close may then release what unloading needs.
func TestCloseWaitsForWhatIsUnloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var unloaded []string
		soFar := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(unloaded)
		}
		p := pool.New(pool.Config[string, string]{
			Keep: 1, Idle: time.Minute, Retry: time.Minute,
			Load: func(_ context.Context, key string) (string, error) { return key, nil },
			Unload: func(key, _ string) error {
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				unloaded = append(unloaded, key)
				return nil
			},
		})
		for _, key := range []string{"a", "b"} {
			_, done, err := p.Use(t.Context(), key)
			require.NoError(t, err)
			done()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, soFar(), "a is being unloaded")
		require.NoError(t, p.Close())
		require.ElementsMatch(t, []string{"a", "b"}, soFar())
	})
}

func TestFailureStandsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: time.Second, bad: map[string]bool{"x": true}}
		p := f.pool(2)
		defer func() { require.NoError(t, p.Close()) }()
		_, _, ok, err := p.Ready("x")
		require.NoError(t, err)
		assert.False(t, ok, "it is being loaded")
		_, _, err = p.Use(t.Context(), "x")
		require.ErrorContains(t, err, "no such thing: x")
		_, _, ok, err = p.Ready("x")
		assert.True(t, ok)
		require.ErrorContains(t, err, "no such thing: x")
		assert.Equal(t, 1, f.loads)
		f.bad = nil
		time.Sleep(time.Minute)
		v, done, err := p.Use(t.Context(), "x")
		require.NoError(t, err)
		assert.Equal(t, "X", v)
		done()
	})
}

// TestLoadingHoldsNobodyElseUp has one key load for ever: others are there at once, a caller that
// waits for it returns when its context ends, and the pool closes.
func TestLoadingHoldsNobodyElseUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		p := pool.New(pool.Config[string, string]{
			Keep: 1, Idle: time.Minute, Retry: time.Minute,
			Load: func(ctx context.Context, key string) (string, error) {
				if key == "slow" {
					select {
					case <-slow:
					case <-ctx.Done():
						return "", ctx.Err()
					}
				}
				return key, nil
			},
			Unload: func(string, string) error { return nil },
		})
		ctx, cancel := context.WithCancel(t.Context())
		waits := make(chan error, 1)
		go func() {
			_, _, err := p.Use(ctx, "slow")
			waits <- err
		}()
		synctest.Wait()
		_, done, err := p.Use(t.Context(), "quick")
		require.NoError(t, err)
		done()
		cancel()
		require.ErrorIs(t, <-waits, context.Canceled)
		require.NoError(t, p.Close())
	})
}

// TestAnyOrder has many users at random: what is in use is never unloaded, and nothing is loaded
// twice at once.
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			f := &fake{takes: time.Second}
			p := f.pool(2)
			var users sync.WaitGroup
			for range 40 {
				key := string(rune('a' + rng.IntN(5)))
				after, long := time.Duration(rng.IntN(600))*time.Second, time.Duration(rng.IntN(90))*time.Second
				users.Go(func() {
					time.Sleep(after)
					_, done, err := p.Use(t.Context(), key)
					assert.NoError(t, err)
					time.Sleep(long)
					n := 0
					for _, k := range f.loaded() {
						if k == key {
							n++
						}
					}
					assert.Equal(t, 1, n, "%s in use is loaded %d times", key, n)
					done()
				})
			}
			users.Wait()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			assert.Len(t, f.loaded(), min(2, p.Len()))
			require.NoError(t, p.Close())
		})
	}
}

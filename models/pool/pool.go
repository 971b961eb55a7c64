// Package pool loads things when they are needed first and keeps them loaded while they are, and
// some of them longer: the basecalling models of the runs that a process has.
package pool

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Config says what a pool loads and how much of it is kept.
type Config[K comparable, V any] struct {
	// Load loads what belongs to a key. Its context ends when the pool is closed.
	Load func(ctx context.Context, key K) (V, error)
	// Unload releases what Load returned.
	Unload func(K, V) error
	// Keep is how many stay loaded that nobody uses, at least 1.
	Keep int
	// Idle is for how long nobody must have used one before it may be unloaded for another.
	// So those that take turns aren't loaded over and over, and more than Keep may be
	// loaded meanwhile.
	Idle time.Duration
	// Retry is for how long a failure to load stands: callers who ask meanwhile get its error.
	Retry time.Duration
	// Loaded, if set, is called after each attempt, with how long it took.
	Loaded func(key K, took time.Duration, err error)
	// Failed, if set, is called when one could not be unloaded.
	Failed func(key K, err error)
}

// ErrClosed is the error of a call to a pool that is closed.
var ErrClosed = errors.New("pool is closed")

// Pool keeps things loaded. It is safe for concurrent use.
//
// Problem: a device has memory for a few models, loading one takes seconds, and runs come and go.
//
// Strategy: things in use stay, whatever their number, as taking one away would stop a run. Of
// the others, the Keep used last stay; the rest are unloaded once nobody has used them for Idle.
type Pool[K comparable, V any] struct {
	cfg    Config[K, V]
	ctx    context.Context //nolint:containedctx // it is the life of what is loading
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu      sync.Mutex
	entries map[K]*entry[V]
	sweeper *time.Timer // of the next check for idle things; nil: none is due
	closed  bool
}

type entry[V any] struct {
	ready  chan struct{} // closed when value or err is there
	value  V
	err    error
	failed time.Time // when loading failed
	users  int
	used   time.Time // when the last user left
}

// loading reports whether neither value nor error is there yet.
func (e *entry[V]) loading() bool {
	select {
	case <-e.ready:
		return false
	default:
		return true
	}
}

// New returns an empty pool. It must be closed.
func New[K comparable, V any](cfg Config[K, V]) *Pool[K, V] {
	p := &Pool[K, V]{cfg: cfg, entries: make(map[K]*entry[V])}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Use returns what belongs to a key, loaded, and has to be given back by a call of done. Until
// then it stays loaded. Use waits while it is being loaded; its error is that of loading.
func (p *Pool[K, V]) Use(ctx context.Context, key K) (value V, done func(), err error) {
	e, err := p.enter(key)
	if err != nil {
		return value, nil, err
	}
	select {
	case <-e.ready:
	case <-ctx.Done():
		p.leave(e)
		return value, nil, ctx.Err()
	}
	if e.err != nil {
		p.leave(e)
		return value, nil, e.err
	}
	return e.value, sync.OnceFunc(func() { p.leave(e) }), nil
}

// Ready is Use that doesn't wait: without a value that is loaded, ok is false, and loading it
// begins. A failure is ok.
func (p *Pool[K, V]) Ready(key K) (value V, done func(), ok bool, err error) {
	e, err := p.enter(key)
	if err != nil {
		return value, nil, true, err
	}
	switch {
	case e.loading():
		p.leave(e)
		return value, nil, false, nil
	case e.err != nil:
		p.leave(e)
		return value, nil, true, e.err
	}
	return e.value, sync.OnceFunc(func() { p.leave(e) }), true, nil
}

// enter counts one more user of an entry, which is made if there is none or what there is has
// failed too long ago.
func (p *Pool[K, V]) enter(key K) (*entry[V], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	e := p.entries[key]
	if e == nil || !e.loading() && e.err != nil && time.Since(e.failed) >= p.cfg.Retry {
		e = &entry[V]{ready: make(chan struct{})}
		p.entries[key] = e
		p.tasks.Go(func() { p.load(key, e) })
	}
	e.users++
	return e, nil
}

func (p *Pool[K, V]) load(key K, e *entry[V]) {
	began := time.Now()
	value, err := p.cfg.Load(p.ctx, key)
	if p.cfg.Loaded != nil {
		p.cfg.Loaded(key, time.Since(began), err)
	}
	p.mu.Lock()
	e.value, e.err = value, err
	e.used = time.Now()
	if err != nil {
		e.failed = e.used
	}
	close(e.ready)
	p.mu.Unlock()
	p.sweep()
}

func (p *Pool[K, V]) leave(e *entry[V]) {
	p.mu.Lock()
	e.users--
	idle := e.users == 0
	if idle {
		e.used = time.Now()
	}
	p.mu.Unlock()
	if idle {
		p.sweep()
	}
}

// sweep unloads what has been idle for long enough, but for those used last, and has itself
// called when more of them will have been.
func (p *Pool[K, V]) sweep() {
	type gone struct {
		key K
		e   *entry[V]
	}
	var unload []gone
	p.mu.Lock()
	for !p.closed {
		loaded, oldest := 0, gone{}
		for key, e := range p.entries {
			if e.loading() || e.err != nil {
				continue
			}
			loaded++
			if e.users == 0 && (oldest.e == nil || e.used.Before(oldest.e.used)) {
				oldest = gone{key, e}
			}
		}
		if loaded <= p.cfg.Keep || oldest.e == nil {
			break
		}
		if left := p.cfg.Idle - time.Since(oldest.e.used); left > 0 {
			if p.sweeper == nil {
				p.sweeper = time.AfterFunc(left, func() {
					p.mu.Lock()
					p.sweeper = nil
					p.mu.Unlock()
					p.sweep()
				})
			}
			break
		}
		delete(p.entries, oldest.key)
		unload = append(unload, oldest)
	}
	if len(unload) > 0 { // Close waits for it: what is unloaded behind its back may be used no more then
		p.tasks.Add(1)
		defer p.tasks.Done()
	}
	p.mu.Unlock()
	for _, g := range unload {
		if err := p.cfg.Unload(g.key, g.e.value); err != nil && p.cfg.Failed != nil {
			p.cfg.Failed(g.key, err)
		}
	}
}

// Len is how many are loaded.
func (p *Pool[K, V]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, e := range p.entries {
		if !e.loading() && e.err == nil {
			n++
		}
	}
	return n
}

// Close waits for what is loading and unloads everything. Nobody must be using any of it.
func (p *Pool[K, V]) Close() error {
	p.mu.Lock()
	p.closed = true
	if p.sweeper != nil {
		p.sweeper.Stop()
	}
	p.mu.Unlock()
	p.cancel()
	p.tasks.Wait()
	p.mu.Lock()
	entries := p.entries
	p.entries = make(map[K]*entry[V])
	p.mu.Unlock()
	var errs []error
	for key, e := range entries {
		if e.err == nil {
			errs = append(errs, p.cfg.Unload(key, e.value))
		}
	}
	return errors.Join(errs...)
}

package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
)

// Set holds sources that an annotator asks. Their files can be replaced while it does: each call is answered by one
// generation of the set as a whole, and a file that no generation in use has is unmapped. It is safe for concurrent use.
type Set struct {
	genome *genome.Genome
	paths  []string

	current atomic.Pointer[generation]
	reload  sync.Mutex // held by the one who replaces the generation
}

var _ annotate.Sources = (*Set)(nil)

// generation is a state of a set. It does not change.
type generation struct {
	stores []*Store
	files  []fs.FileInfo
	refs   atomic.Int64 // the set and the calls in progress
}

// OpenSet opens files for a reference. No two may hold sources of the same name.
func OpenSet(g *genome.Genome, paths ...string) (*Set, error) {
	s := &Set{genome: g, paths: slices.Clone(paths)}
	gen, err := s.open(nil)
	if err != nil {
		return nil, err
	}
	s.current.Store(gen)
	return s, nil
}

// open makes a generation of the files as they are now. Files that did not change stay as old has them.
func (s *Set) open(old *generation) (*generation, error) {
	gen := &generation{}
	gen.refs.Store(1)
	names := map[string]string{}
	for i, path := range s.paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("opening source: %w", err), gen.release())
		}
		var store *Store
		if old != nil && unchanged(old.files[i], info) {
			store = old.stores[i]
			store.retain() // old has it for as long as this one is made
		} else if store, err = Open(path, s.genome); err != nil {
			return nil, errors.Join(err, gen.release())
		}
		gen.stores, gen.files = append(gen.stores, store), append(gen.files, info)
		if other, ok := names[store.Meta.Name]; ok {
			return nil, errors.Join(fmt.Errorf("sources %s and %s are both named %s", other, path, store.Meta.Name), gen.release())
		}
		names[store.Meta.Name] = path
	}
	return gen, nil
}

func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// acquire is the current generation, which stays whole until it is released.
func (s *Set) acquire() *generation {
	for {
		gen := s.current.Load()
		if gen == nil {
			return nil
		}
		if n := gen.refs.Load(); n > 0 && gen.refs.CompareAndSwap(n, n+1) {
			return gen
		}
	}
}

func (g *generation) release() error {
	if g.refs.Add(-1) != 0 {
		return nil
	}
	var errs []error
	for _, s := range g.stores {
		errs = append(errs, s.release())
	}
	return errors.Join(errs...)
}

// AppendKnown appends what the sources know of c: source by source in the order of the set, exact matches first.
func (s *Set) AppendKnown(dst []annotate.Known, c annotate.Change) (_ []annotate.Known, err error) {
	gen := s.acquire()
	if gen == nil {
		return dst, errors.New("the sources are closed")
	}
	defer func() { err = errors.Join(err, gen.release()) }()
	defer catchFault(debug.SetPanicOnFault(true), &err)
	var buf [8]Entry
	for _, store := range gen.stores {
		entries, err := store.Find(buf[:0], c)
		if err != nil {
			return dst, err
		}
		for i := range entries {
			k, err := entries[i].Known()
			if err != nil {
				return dst, err
			}
			if k.Match != annotate.MatchExact {
				k.Place = entries[i].place(c.Contig.Name)
			}
			dst = append(dst, k)
		}
	}
	return dst, nil
}

// catchFault makes an error of a page that can't be read: somebody cut a mapped file off, or its disk is gone. Without
// it the process would end.
func catchFault(before bool, err *error) {
	debug.SetPanicOnFault(before)
	r := recover()
	if r == nil {
		return
	}
	if fault, ok := r.(interface{ Addr() uintptr }); ok {
		*err = fmt.Errorf("reading a source at address %#x: %w", fault.Addr(), ErrDamaged)
		return
	}
	panic(r)
}

// Describe lists the sources.
func (s *Set) Describe() []annotate.SourceInfo {
	gen := s.acquire()
	if gen == nil {
		return nil
	}
	defer func() { _ = gen.release() }() // an error would be that of unmapping, and nobody's here
	list := make([]annotate.SourceInfo, len(gen.stores))
	for i, store := range gen.stores {
		list[i] = store.Meta.Describe()
	}
	return list
}

// Reload opens the files that were replaced, and reports whether there were any. If one can't be opened everything stays
// as it was.
func (s *Set) Reload() (bool, error) {
	s.reload.Lock()
	defer s.reload.Unlock()
	old := s.current.Load()
	if old == nil {
		return false, errors.New("the sources are closed")
	}
	gen, err := s.open(old)
	if err != nil {
		return false, err
	}
	if slices.Equal(gen.stores, old.stores) {
		return false, gen.release()
	}
	s.current.Store(gen)
	return true, old.release()
}

// Close gives the files up. Calls in progress are answered.
func (s *Set) Close() error {
	s.reload.Lock()
	defer s.reload.Unlock()
	gen := s.current.Swap(nil)
	if gen == nil {
		return nil
	}
	return gen.release()
}

// Watch checks for replaced files again and again until ctx ends. A file that can't be opened is logged once for each
// state of the files, and the sources stay as they are.
func (s *Set) Watch(ctx context.Context, every time.Duration, logger *slog.Logger) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	complaint := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		changed, err := s.Reload()
		switch {
		case err != nil:
			if err.Error() != complaint {
				logger.Error("a source was replaced by what can't be used; the one before stays", "err", err)
			}
			complaint = err.Error()
		case changed:
			complaint = ""
			for _, d := range s.Describe() {
				logger.Info("source in use", "name", d.Name, "version", d.Version, "date", d.Date)
			}
		default:
			complaint = ""
		}
	}
}

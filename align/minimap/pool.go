package minimap

/*
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime/cgo"
	"sync"
	"unsafe"

	"github.com/porestream/porestream/align"
)

// Pool aligns reads of any number of goroutines. Close frees its memory.
//
// Problem: a goroutine that is in C for milliseconds keeps Go's scheduler at work. It watches
// such threads every 20 microseconds, has another one take their place, and wakes goroutines
// for each read: a sixth of the processor time of a program that does little but align.
//
// Strategy: the threads that align are the pool's own, which Go doesn't know of. They take reads
// from a queue, and a pipe, which costs Go nothing to wait for, says when some are done.
//
// Consequences: no more reads than the pool has threads are in work at a time, whatever the
// number of callers, and each thread keeps the memory that it works in.
type Pool struct {
	index        *Index
	done, notify *os.File // the pipe's ends: what is read, what threads write to
	collect      sync.WaitGroup

	mu   sync.RWMutex // held for reading while a read is aligned
	pool *C.pm_pool   // nil when closed
}

// NewPool makes a pool of n threads.
func (x *Index) NewPool(n int) (*Pool, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.idx == nil {
		return nil, ErrClosed
	}
	done, notify, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting aligners: %w", err)
	}
	pool, err := C.pm_pool_start(x.idx, &x.opt, C.int(n), C.int(notify.Fd()))
	if pool == nil {
		return nil, errors.Join(fmt.Errorf("starting aligners: %w", err), done.Close(), notify.Close())
	}
	p := &Pool{index: x, done: done, notify: notify, pool: pool}
	p.collect.Go(p.deliver)
	return p, nil
}

// result is what became of a read.
type result struct {
	alignments []align.Alignment
	err        error
}

// deliver gives what the threads have done to those who wait for it, until the pipe ends.
func (p *Pool) deliver() {
	var b [16]byte
	for {
		if _, err := p.done.Read(b[:]); err != nil {
			return
		}
		for job := C.pm_pool_done(p.pool); job != nil; {
			next := job.next
			h := cgo.Handle(job.caller)
			var r result
			if job.failed != 0 {
				r.err = errors.New("out of memory")
			} else {
				r.alignments, r.err = p.index.alignments(&job.hits)
			}
			C.pm_job_free(job)
			h.Value().(chan result) <- r
			job = next
		}
	}
}

// Map aligns a read as [Aligner.Map] does.
func (p *Pool) Map(name string, seq []byte) ([]align.Alignment, error) {
	if len(seq) == 0 {
		return nil, nil
	}
	if err := checkLength(name, seq); err != nil {
		return nil, err
	}
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.index.mu.RLock()
	defer p.index.mu.RUnlock()
	if p.pool == nil || p.index.idx == nil {
		return nil, ErrClosed
	}
	done := make(chan result, 1)
	h := cgo.NewHandle(done)
	defer h.Delete()
	if C.pm_pool_submit(p.pool, C.uintptr_t(h), cname, C.int(len(name)), (*C.char)(unsafe.Pointer(&seq[0])), C.int(len(seq))) != 0 {
		return nil, fmt.Errorf("aligning read %s: %w", name, errors.New("out of memory"))
	}
	r := <-done
	if r.err != nil {
		return nil, fmt.Errorf("aligning read %s: %w", name, r.err)
	}
	return r.alignments, nil
}

// Close ends the threads and frees their memory, once no read is being aligned. It may be called twice.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pool == nil {
		return nil
	}
	C.pm_pool_stop(p.pool) // before the pipe's number can be another file's
	err := p.notify.Close()
	p.collect.Wait()
	C.pm_pool_free(p.pool)
	p.pool = nil
	return errors.Join(err, p.done.Close())
}

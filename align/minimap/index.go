package minimap

/*
#cgo CFLAGS: -I${SRCDIR}/../../.deps/minimap2/include
#cgo LDFLAGS: ${SRCDIR}/../../.deps/minimap2/lib/libminimap2.a -lm -lpthread
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/porestream/porestream/genome"
)

// ErrClosed is returned for work on a closed Index or Aligner.
var ErrClosed = errors.New("aligner is closed")

// Config says how reads are aligned. The zero value is the default.
type Config struct {
	// Preset is the minimap2 preset, such as "lr:hq" or "map-ont"; empty means
	// DefaultPreset.
	Preset string
	// MemoryCap is the number of bytes of working memory that an Aligner may
	// keep between reads; 0 means DefaultMemoryCap.
	MemoryCap int64
}

// DefaultPreset has seeds of 15 bases. Of the bases of 390 lambda reads (R9.4) it
// aligns 1.5 % more than lr:hq, whose seeds are of 19, when they are called at 87 %
// identity, and 3.3 % more at 86 %, in about the same time. At 94 % and above lr:hq
// loses nothing and is 1.7 times as fast.
const DefaultPreset = "map-ont"

// DefaultMemoryCap keeps a worker's memory flat: reads that need more get it,
// and give it back.
const DefaultMemoryCap = 100 << 20

// Index is a reference that reads can be aligned to. It is safe for concurrent
// use.
type Index struct {
	mu      sync.RWMutex // held for reading while a read is aligned
	idx     *C.mm_idx_t  // nil when closed
	opt     C.mm_mapopt_t
	contigs []string
}

// options fills in what the configuration leaves open, and what the preset says of indexes
// and of mapping.
func (cfg *Config) options() (index C.mm_idxopt_t, mapping C.mm_mapopt_t, err error) {
	if cfg.Preset == "" {
		cfg.Preset = DefaultPreset
	}
	if cfg.MemoryCap == 0 {
		cfg.MemoryCap = DefaultMemoryCap
	}
	preset := C.CString(cfg.Preset)
	defer C.free(unsafe.Pointer(preset))
	if C.pm_options(preset, C.int64_t(cfg.MemoryCap), &index, &mapping) != 0 {
		return index, mapping, fmt.Errorf("minimap2 has no preset %q", cfg.Preset)
	}
	return index, mapping, nil
}

// OpenIndex is the index of g: read from a file that [Index.Write] or minimap2 -d has written,
// or, if path is empty, made anew.
func OpenIndex(g *genome.Genome, path string, cfg Config) (*Index, error) {
	if path == "" {
		return NewIndex(g, cfg)
	}
	return LoadIndex(g, path, cfg)
}

// NewIndex indexes all contigs of g.
func NewIndex(g *genome.Genome, cfg Config) (*Index, error) {
	if len(g.Contigs) == 0 {
		return nil, errors.New("indexing reference: it has no contigs")
	}
	idxOpt, mapping, err := cfg.options()
	if err != nil {
		return nil, fmt.Errorf("indexing reference: %w", err)
	}
	x := &Index{contigs: g.Names(), opt: mapping}

	// minimap2 packs the sequences into its own memory, so these copies live for
	// the length of the call only.
	n := len(g.Contigs)
	table := (*[1 << 30]*C.char)(C.calloc(C.size_t(2*n), C.size_t(unsafe.Sizeof((*C.char)(nil)))))[: 2*n : 2*n]
	defer C.free(unsafe.Pointer(&table[0]))
	for i, c := range g.Contigs {
		table[i] = C.CString(unsafe.String(unsafe.SliceData(c.Seq), len(c.Seq)))
		defer C.free(unsafe.Pointer(table[i]))
		table[n+i] = C.CString(c.Name)
		defer C.free(unsafe.Pointer(table[n+i]))
	}
	x.idx = C.pm_index(C.int(n), &table[0], &table[n], &idxOpt, &x.opt)
	if x.idx == nil {
		return nil, errors.New("indexing reference: minimap2 made no index")
	}
	return x, nil
}

// Close frees the index once no read is being aligned. It may be called twice.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.idx != nil {
		C.mm_idx_destroy(x.idx)
		x.idx = nil
	}
	return nil
}

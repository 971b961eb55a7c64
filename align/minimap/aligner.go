package minimap

/*
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/porestream/porestream/align"
)

// MaxReadLength is the longest read, in bases, that is aligned.
const MaxReadLength = 1 << 27

// Aligner aligns reads to an Index, one at a time. Close frees its memory.
type Aligner struct {
	index *Index

	mu  sync.Mutex
	buf *C.mm_tbuf_t // nil when closed
}

// NewAligner is one worker's aligner.
func (x *Index) NewAligner() *Aligner {
	return &Aligner{index: x, buf: C.mm_tbuf_init()}
}

// Map aligns a read and returns its primary alignment followed by its
// supplementary ones, best first; none when it does not align. seq is the read as sequenced; letters
// other than ACGT match nothing.
func (a *Aligner) Map(name string, seq []byte) ([]align.Alignment, error) {
	if len(seq) == 0 {
		return nil, nil
	}
	if err := checkLength(name, seq); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.index.mu.RLock()
	defer a.index.mu.RUnlock()
	if a.buf == nil || a.index.idx == nil {
		return nil, ErrClosed
	}

	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	var hits C.pm_hits
	if C.pm_map(a.index.idx, &a.index.opt, a.buf, cname, (*C.char)(unsafe.Pointer(&seq[0])), C.int(len(seq)), &hits) != 0 {
		return nil, fmt.Errorf("aligning read %s: %w", name, errors.New("out of memory"))
	}
	defer C.pm_free(&hits)

	out, err := a.index.alignments(&hits)
	if err != nil {
		return nil, fmt.Errorf("aligning read %s: %w", name, err)
	}
	return out, nil
}

func checkLength(name string, seq []byte) error {
	if len(seq) > MaxReadLength {
		return fmt.Errorf("aligning read %s: %d bases, more than the limit of %d", name, len(seq), MaxReadLength)
	}
	return nil
}

// alignments copies hits out of C memory, primary ones first.
func (x *Index) alignments(hits *C.pm_hits) ([]align.Alignment, error) {
	out := make([]align.Alignment, 0, int(hits.n))
	list := unsafe.Slice(hits.hit, hits.n)
	for i := range list {
		aln, err := x.convert(&list[i])
		if err != nil {
			return nil, err
		}
		out = append(out, aln)
	}
	slices.SortStableFunc(out, func(p, q align.Alignment) int {
		if p.Supplementary != q.Supplementary {
			if q.Supplementary {
				return -1
			}
			return 1
		}
		return cmp.Compare(q.Score, p.Score)
	})
	return out, nil
}

// convert copies a hit out of C memory.
func (x *Index) convert(h *C.pm_hit) (align.Alignment, error) {
	out := align.Alignment{
		Contig:         x.contigs[h.contig],
		Start:          int(h.start),
		End:            int(h.end),
		Reverse:        h.reverse != 0,
		QueryStart:     int(h.query_start),
		QueryEnd:       int(h.query_end),
		MappingQuality: uint8(h.mapq),
		Supplementary:  h.supplementary != 0,
		Ops:            make([]align.Op, 0, int(h.n_cigar)),
		Score:          int(h.score),
		NM:             int(h.nm),
	}
	matches, events := 0, 0
	for _, c := range unsafe.Slice(h.cigar, h.n_cigar) {
		op := align.Op{Len: int(c >> 4)}
		switch c & 0xf {
		case C.MM_CIGAR_EQ_MATCH:
			op.Kind = align.Match
			matches += op.Len
		case C.MM_CIGAR_X_MISMATCH:
			op.Kind = align.Mismatch
			events += op.Len
		case C.MM_CIGAR_INS:
			op.Kind = align.Insertion
			events++
		case C.MM_CIGAR_DEL:
			op.Kind = align.Deletion
			events++
		default:
			return align.Alignment{}, fmt.Errorf("unexpected CIGAR operation %d", c&0xf)
		}
		out.Ops = append(out.Ops, op)
	}
	if matches+events > 0 {
		out.Divergence = float64(events) / float64(matches+events)
	}
	return out, nil
}

// Close frees the aligner's memory. It may be called twice.
func (a *Aligner) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.buf != nil {
		C.mm_tbuf_destroy(a.buf)
		a.buf = nil
	}
	return nil
}

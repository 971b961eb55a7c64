package minimap

/*
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unsafe"

	"github.com/porestream/porestream/genome"
)

// The file of an index is minimap2's, so that either program can use the other's:
//
//	"MMI\x02", then as little-endian uint32 w, k, b (binary logarithm of the number of buckets),
//	the number of sequences, and flags (1: homopolymers are compressed, 2: no bases);
//	of each sequence the length of its name as a byte, the name, and its length as uint32;
//	of each bucket n as uint32, n positions as uint64, the number of its seeds as uint32, and of
//	each seed two uint64: seed<<1|single, and its position or, if it isn't single, where its
//	positions begin among those of the bucket <<32 | how many there are;
//	the bases of all sequences, one behind the other, 8 to a uint32, of 4 bits each.
//
// A position is sequence<<32 | last base<<1 | strand. minimap2 reads an index without checking
// it: minimap2 would map to a file that ends early or whose numbers point anywhere all the
// same, or end the process. So this package checks a file before it gives it to minimap2.
const (
	indexMagic   = "MMI\x02"
	indexHPC     = 1
	indexNoBases = 2
	// maxBuckets is the greatest b; minimap2 makes 14.
	maxBuckets = 24
	// maxIndexName is the longest name that the file can hold.
	maxIndexName = 255
)

// errIndexShort says that a file ends too early.
var errIndexShort = errors.New("it is cut short: make it again with pore index")

// indexed is what the file of an index says of itself.
type indexed struct {
	w, k, flags uint32
	names       []string
	lengths     []uint32
}

// checkIndex goes through the file of an index to its end.
func checkIndex(in io.Reader) (*indexed, error) {
	r := &indexReader{in: bufio.NewReaderSize(in, 1<<18)}
	x, err := r.check()
	if r.err != nil { // values read beyond the file's end mean nothing
		return nil, r.err
	}
	return x, err
}

// indexReader reads numbers, zeros once something has gone wrong.
type indexReader struct {
	in  *bufio.Reader
	err error
	buf [4096]byte
	set seedSet
}

func (r *indexReader) bytes(n int) []byte {
	b := r.buf[:n]
	if r.err == nil {
		if _, err := io.ReadFull(r.in, b); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			r.err = errIndexShort
		} else {
			r.err = err
		}
	}
	if r.err != nil {
		clear(b)
	}
	return b
}

func (r *indexReader) uint32() uint32 { return binary.LittleEndian.Uint32(r.bytes(4)) }

// numbers calls fn with n numbers, width at a time.
func (r *indexReader) numbers(n uint64, width int, fn func(b []byte) bool) bool {
	for n > 0 && r.err == nil {
		some := min(n, uint64(len(r.buf)/width))
		b := r.bytes(int(some) * width)
		for i := 0; i < len(b) && r.err == nil; i += width {
			if !fn(b[i : i+width]) {
				return false
			}
		}
		n -= some
	}
	return true
}

func (r *indexReader) check() (*indexed, error) {
	head, _ := r.in.Peek(len(indexMagic))
	if string(head) != indexMagic[:len(head)] || len(head) == 0 {
		return nil, errors.New("this is no index of minimap2's: make one with pore index")
	}
	r.bytes(len(indexMagic))
	x := &indexed{w: r.uint32(), k: r.uint32()}
	buckets, sequences := r.uint32(), r.uint32()
	x.flags = r.uint32()
	switch {
	case r.err != nil:
		return nil, r.err
	case x.k < 1 || x.k > 28 || x.w < 1 || x.w > 255 || buckets > maxBuckets:
		return nil, fmt.Errorf("it is damaged: seeds of %d bases, windows of %d, 2^%d buckets", x.k, x.w, buckets)
	case x.flags&^(indexHPC|indexNoBases) != 0:
		return nil, fmt.Errorf("it is of another kind (flags %#x)", x.flags)
	}
	bases := uint64(0)
	for range sequences {
		name := string(r.bytes(int(r.bytes(1)[0])))
		length := r.uint32()
		if r.err != nil {
			return nil, r.err
		}
		x.names, x.lengths = append(x.names, name), append(x.lengths, length)
		bases += uint64(length)
	}
	for bucket := range uint64(1) << buckets {
		if err := r.bucket(x); r.err != nil || err != nil {
			return nil, fmt.Errorf("it is damaged: bucket %d: %w", bucket, errors.Join(err, r.err))
		}
	}
	if x.flags&indexNoBases == 0 {
		r.numbers((bases+7)/8, 4, func([]byte) bool { return true })
	}
	if _, err := r.in.Peek(1); r.err == nil && err == nil {
		return nil, errors.New("more follows behind the index: one in several parts is of no use, make it again with pore index")
	}
	return x, r.err
}

// bucket goes through one bucket.
func (r *indexReader) bucket(x *indexed) error {
	inside := func(position uint64) bool {
		contig := position >> 32
		return contig < uint64(len(x.lengths)) && uint32(position)>>1 < x.lengths[contig]
	}
	positions := uint64(r.uint32())
	if !r.numbers(positions, 8, func(b []byte) bool { return inside(binary.LittleEndian.Uint64(b)) }) {
		return errors.New("a position is outside of the sequences")
	}
	r.set.reset()
	twice := false
	ok := r.numbers(uint64(r.uint32()), 16, func(b []byte) bool {
		seed, value := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		if twice = !r.set.add(seed >> 1); twice {
			return false
		}
		if seed&1 == 1 {
			return inside(value)
		}
		n := value & (1<<32 - 1)
		return n > 0 && value>>32+n <= positions
	})
	switch {
	case twice:
		return errors.New("a seed is there twice")
	case !ok:
		return errors.New("a seed is nowhere")
	}
	return nil
}

// seedSet is a set of seeds, which are less than 2^63, in memory that is used again for each
// bucket.
type seedSet struct {
	slots []uint64 // seed+1, or 0 for none; as many as a power of two
	n     int
}

func (s *seedSet) reset() {
	if s.slots == nil {
		s.slots = make([]uint64, 1<<10)
	}
	clear(s.slots)
	s.n = 0
}

// add adds a seed, and reports whether it was not there.
func (s *seedSet) add(seed uint64) bool {
	if 2*s.n >= len(s.slots) {
		old := s.slots
		s.slots, s.n = make([]uint64, 2*len(old)), 0
		for _, o := range old {
			if o != 0 {
				s.add(o - 1)
			}
		}
	}
	mask := uint64(len(s.slots) - 1)
	for at := seed * 0x9e3779b97f4a7c15 >> 32 & mask; ; at = (at + 1) & mask {
		switch s.slots[at] {
		case 0:
			s.slots[at] = seed + 1
			s.n++
			return true
		case seed + 1:
			return false
		}
	}
}

// fits says why an index is not that of a reference, with the seeds of a preset.
func (x *indexed) fits(g *genome.Genome, preset string, opt *C.mm_idxopt_t) error {
	hpc := x.flags&indexHPC != 0
	switch {
	case x.flags&indexNoBases != 0:
		return errors.New("it has no bases: make it again with pore index")
	case x.k != uint32(opt.k) || x.w != uint32(opt.w) || hpc != (opt.flag&C.MM_I_HPC != 0):
		return fmt.Errorf("its seeds are of %d bases, one of %d (-k%d -w%d), and those of preset %s of %d, one of %d: make it again with pore index --preset %s",
			x.k, x.w, x.k, x.w, preset, opt.k, opt.w, preset)
	case len(x.names) != len(g.Contigs):
		return fmt.Errorf("it has %d sequences, and the reference %d contigs: make it again from this reference", len(x.names), len(g.Contigs))
	}
	for i, c := range g.Contigs {
		if x.names[i] != c.Name || int(x.lengths[i]) != len(c.Seq) {
			return fmt.Errorf("its sequence %d is %q of %d bases, and the reference's %s of %d: make it again from this reference", i+1, x.names[i], x.lengths[i], c.Name, len(c.Seq))
		}
	}
	return nil
}

// LoadIndex reads the index of g from a file that [Index.Write] or minimap2 -d has written. A
// file that is cut short, is of another reference, down to its bases, or has other seeds than
// the preset is an error. minimap2 can't map files into memory: the file is read.
func LoadIndex(g *genome.Genome, path string, cfg Config) (*Index, error) {
	opt, mapping, err := cfg.options()
	if err != nil {
		return nil, fmt.Errorf("index %s: %w", path, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the index: %w", err)
	}
	defer f.Close()
	about, err := checkIndex(f)
	if err == nil {
		err = about.fits(g, cfg.Preset, &opt)
	}
	if err != nil {
		return nil, fmt.Errorf("index %s: %w", path, err)
	}
	x := &Index{contigs: g.Names(), opt: mapping}
	// The very file that was checked, whatever its name leads to by now.
	same := C.CString(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	defer C.free(unsafe.Pointer(same))
	if x.idx = C.pm_load(same, &x.opt); x.idx == nil {
		return nil, fmt.Errorf("index %s: minimap2 can't read it: make it again with pore index", path)
	}
	for i, c := range g.Contigs {
		if at := C.pm_differs(x.idx, C.uint32_t(i), (*C.char)(unsafe.Pointer(unsafe.SliceData(c.Seq)))); at >= 0 {
			return nil, errors.Join(fmt.Errorf("index %s: its base %d of %s is not the reference's: make it again from this reference", path, at+1, c.Name), x.Close())
		}
	}
	return x, nil
}

// Write writes the index to a file, which minimap2 can use as well.
func (x *Index) Write(path string) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.idx == nil {
		return ErrClosed
	}
	if i := slices.IndexFunc(x.contigs, func(name string) bool { return len(name) > maxIndexName }); i >= 0 {
		return fmt.Errorf("writing the index: the name of contig %d has more than %d letters", i+1, maxIndexName)
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	if failed, err := C.pm_dump(x.idx, name); failed != 0 {
		return fmt.Errorf("writing the index: %w", err)
	}
	return nil
}

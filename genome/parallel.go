package genome

import (
	"bytes"
	"errors"
	"io"
	"runtime"

	"golang.org/x/sync/errgroup"
)

const (
	// chunk is about how many bytes a worker reads at once: they are still in the cache when they are parsed.
	chunk = 1 << 17
	// longestLine is the longest line that is read so.
	longestLine = 1 << 20
)

// errNotIndexed is never seen by callers: the file is read again from its beginning.
var errNotIndexed = errors.New("not as the index has it")

// readIndexed reads a plain FASTA file of the given size by its index, contigs side by side on all cores. It is nil if
// anything is not as the index has it. The caller then reads the file from its beginning, which reports the fault and its line.
// With an arena the contigs are packed.
func readIndexed(r io.ReaderAt, size int64, list []indexed, pack *arena) *Genome {
	total := basesOf(list)
	if total > min(size, maxReserved) || !headersFit(r, size, list) {
		return nil
	}
	var space []byte
	if pack == nil {
		if space = reserve(int(total)); int64(cap(space)) < total {
			return nil
		}
		space = space[:total]
	}
	g := &Genome{byName: make(map[string]*Contig, len(list))}
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i := range list {
		x := &list[i]
		c := &Contig{Name: x.name}
		if pack != nil {
			c.packed = newPacked(pack)
		} else {
			c.Seq, space = space[:x.length:x.length], space[x.length:]
		}
		g.Contigs = append(g.Contigs, c)
		g.byName[c.Name] = c
		workers.Go(func() error { return x.fill(r, c) })
	}
	if workers.Wait() != nil {
		return nil
	}
	return g
}

// headersFit says whether there is nothing but the header line of the contig before each sequence, and nothing behind
// the last one.
func headersFit(r io.ReaderAt, size int64, list []indexed) bool {
	end := int64(0) // of the sequence before
	for i := range list {
		x := &list[i]
		if x.offset <= end || x.offset-end > maxHeader || x.width > longestLine || x.lastByte() > size {
			return false
		}
		header := make([]byte, x.offset-end)
		if _, err := r.ReadAt(header, end); err != nil {
			return false
		}
		if name, ok := headerName(header); !ok || name != x.name {
			return false
		}
		end = x.lastByte()
	}
	rest := make([]byte, min(size-end, 2))
	_, err := r.ReadAt(rest, end)
	return (err == nil || size == end) && size-end <= 2 && len(bytes.TrimSpace(rest)) == 0
}

// fill reads the sequence into c, whose Seq is as long if c isn't packed.
func (x *indexed) fill(r io.ReaderAt, c *Contig) error {
	buf := make([]byte, max(1, chunk/x.width)*x.width) // whole lines
	seq := c.Seq
	var piece []byte // to be packed
	if c.packed != nil {
		piece = make([]byte, len(buf))
		defer c.closePacked()
	}
	for at, last := x.offset, x.lastByte(); at < last; {
		lines := buf[:min(int64(len(buf)), last-at)]
		if _, err := r.ReadAt(lines, at); err != nil {
			return err
		}
		at += int64(len(lines))
		if c.packed != nil {
			seq = piece
		}
		for len(lines) > 0 {
			n := min(int(x.bases), len(lines), len(seq))
			if c.packed != nil {
				copy(seq, lines[:n])
			} else if !upperInto(seq[:n], lines[:n]) {
				return errNotIndexed
			}
			seq, lines = seq[n:], lines[n:]
			if len(lines) == 0 {
				break
			}
			newline := lines[:min(int(x.width-x.bases), len(lines))]
			if s := string(newline); s != "\n" && s != "\r\n" {
				return errNotIndexed
			}
			lines = lines[len(newline):]
		}
		if c.packed != nil {
			if !c.packed.add(piece[:len(piece)-len(seq)]) {
				return errNotIndexed
			}
		}
	}
	return nil
}

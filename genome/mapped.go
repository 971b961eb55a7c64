package genome

import (
	"bytes"
	"fmt"
	"sync"
)

// Problem: a human genome has 3.1 billion bases. On the heap they cost as much again, for the garbage collector lets a
// heap grow to twice what lives in it.
//
// Strategy: large genomes lie outside the heap. If a FASTA file has an index and each sequence on one line, the file
// itself is mapped into memory: its pages are the kernel's to drop and to read again, and are shared by all processes.
// Otherwise the bases are read into memory taken from the system, one byte each.
//
// Consequences: that memory is kept for the life of the process, since nothing records which slices of it are in use. A
// mapped file must not be shortened meanwhile.

// largeGenome is the size of a file from which on its bases lie outside the heap.
const largeGenome = 64 << 20

// unwrapped says whether a FASTA file may be used as it lies: every sequence on one line.
func unwrapped(list []indexed) bool {
	for i := range list {
		if !list[i].oneLine() {
			return false
		}
	}
	return len(list) > 0
}

// view makes a genome of a whole FASTA file in memory, which may be written to, in which each sequence has a line. Only
// letters in lower case are written over, so that all other pages stay the file's.
func view(path string, data []byte, list []indexed) (*Genome, error) {
	g := &Genome{byName: make(map[string]*Contig, len(list))}
	var workers sync.WaitGroup
	errs := make([]error, len(list))
	end := int64(0) // of the sequence before
	for i := range list {
		x := &list[i]
		last := x.lastByte()
		if x.offset <= end || last > int64(len(data)) {
			return nil, errStale(path, "contig %q lies at bytes %d to %d of %d", x.name, x.offset, last, len(data))
		}
		if name, ok := headerName(data[end:x.offset]); !ok || name != x.name {
			return nil, errStale(path, "contig %q is not at byte %d", x.name, x.offset)
		}
		c := &Contig{Name: x.name, Seq: data[x.offset:last:last]}
		g.Contigs = append(g.Contigs, c)
		g.byName[c.Name] = c
		end = last
		workers.Go(func() {
			errs[i] = upper(c)
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("reading reference %s: %w", path, err)
		}
	}
	if len(bytes.TrimSpace(data[end:])) > 0 {
		return nil, errStale(path, "the file goes on behind contig %q", list[len(list)-1].name)
	}
	return g, nil
}

// headerName is the name in a header line that may have the ends of lines before it; false if there is anything else.
func headerName(b []byte) (string, bool) {
	b = bytes.TrimLeft(b, "\r\n")
	if len(b) < 2 || b[0] != '>' || b[len(b)-1] != '\n' || bytes.IndexByte(b, '\n') != len(b)-1 {
		return "", false
	}
	name, _, _ := bytes.Cut(bytes.ReplaceAll(bytes.TrimRight(b[1:], "\r\n"), []byte("\t"), []byte(" ")), []byte(" "))
	return string(name), true
}

// upper brings the letters of a contig into upper case.
func upper(c *Contig) error {
	for i, b := range c.Seq {
		u := letter[b]
		if u == b {
			continue
		}
		if u == 0 {
			return fmt.Errorf("%q is not a nucleotide letter (contig %q, base %d)", b, c.Name, i+1)
		}
		c.Seq[i] = u
	}
	return nil
}

package genome

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// maxIndexed bounds the contigs of an index; the assemblies with the most pieces have some millions.
const maxIndexed = 16 << 20

// indexed is a line of a faidx index: where the sequence of a contig lies in its FASTA file (before compression).
type indexed struct {
	name           string
	length, offset int64 // bases; first byte
	bases, width   int64 // of a line, without and with its end
}

// lastByte is the offset after the last base.
func (x *indexed) lastByte() int64 {
	return x.offset + (x.length-1)/x.bases*x.width + (x.length-1)%x.bases + 1
}

// oneLine says whether the sequence has no line ends inside.
func (x *indexed) oneLine() bool { return x.length <= x.bases }

// loadIndex reads the index beside a FASTA file; nil if there is none.
func loadIndex(path string) ([]indexed, error) {
	f, err := os.Open(path + ".fai")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading index: %w", err)
	}
	defer f.Close()
	list, err := readIndex(f)
	if err != nil {
		return nil, fmt.Errorf("reading index %s.fai: %w", path, err)
	}
	return list, nil
}

// readIndex reads a faidx index (samtools' faidx(5)): name, length, offset, bases and bytes of a line.
func readIndex(r io.Reader) ([]indexed, error) {
	var list []indexed
	seen := map[string]bool{}
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxHeader)
	for line := 1; sc.Scan(); line++ {
		f := strings.Split(strings.TrimSuffix(sc.Text(), "\r"), "\t")
		if len(f) != 5 {
			return nil, fmt.Errorf("line %d: %d columns, want 5: not a faidx index of a FASTA file", line, len(f))
		}
		x := indexed{name: f[0]}
		for i, field := range []*int64{&x.length, &x.offset, &x.bases, &x.width} {
			n, err := strconv.ParseInt(f[i+1], 10, 64)
			if err != nil || n < 0 || n > 1<<48 {
				return nil, fmt.Errorf("line %d: %q is not a number of bytes", line, f[i+1])
			}
			*field = n
		}
		switch {
		case x.length < 1 || x.length > maxContig || x.bases < 1 || x.width < x.bases:
			return nil, fmt.Errorf("line %d: contig %q of %d bases in lines of %d bases and %d bytes is impossible", line, x.name, x.length, x.bases, x.width)
		case seen[x.name]:
			return nil, fmt.Errorf("line %d: contig %q appears twice", line, x.name)
		case len(list) == maxIndexed:
			return nil, fmt.Errorf("more than %d contigs", maxIndexed)
		}
		seen[x.name] = true
		list = append(list, x)
	}
	if err := sc.Err(); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("the index is empty")
	}
	return list, nil
}

// errStale is the error for an index that was made for another file.
func errStale(path string, format string, args ...any) error {
	return fmt.Errorf("index %s.fai does not fit the file: %s: make it anew with samtools faidx", path, fmt.Sprintf(format, args...))
}

// checkIndex compares what was read with the index.
func (g *Genome) checkIndex(path string, list []indexed) error {
	for i, c := range g.Contigs {
		if i == len(list) || list[i].name != c.Name {
			return errStale(path, "it has not contig %q as number %d", c.Name, i+1)
		}
		if n := list[i].length; n != int64(c.Len()) {
			return errStale(path, "contig %q has %d bases, not %d", c.Name, c.Len(), n)
		}
	}
	if len(list) > len(g.Contigs) {
		return errStale(path, "the file has no contig %q", list[len(g.Contigs)].name)
	}
	return nil
}

// basesOf is the number of bases in all contigs of an index.
func basesOf(list []indexed) (n int64) {
	for i := range list {
		n += list[i].length
	}
	return n
}

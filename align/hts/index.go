package hts

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/biogo/hts/bam"
	"github.com/biogo/hts/bgzf"
	"github.com/biogo/hts/csi"
	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align/hts/internal/blocks"
)

// Index says where a BAM file has the alignments of a stretch.
type Index struct {
	Path   string
	Older  bool // than the file
	chunks func(ref *sam.Reference, start, end int) ([]bgzf.Chunk, error)
}

// FindIndex reads the index of a file (PATH.bai, PATH.csi), as samtools names it; nil if there is none.
func FindIndex(path string, file os.FileInfo) (*Index, error) {
	for _, candidate := range []string{path + ".bai", strings.TrimSuffix(path, ".bam") + ".bai", path + ".csi"} {
		f, err := os.Open(candidate)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("opening the index: %w", err)
		}
		defer f.Close()
		x := &Index{Path: candidate}
		if info, err := f.Stat(); err == nil {
			x.Older = info.ModTime().Before(file.ModTime())
		}
		if err := x.read(bufio.NewReader(f)); err != nil {
			return nil, fmt.Errorf("reading the index %s: %w: make it again (samtools index)", candidate, err)
		}
		return x, nil
	}
	return nil, nil //nolint:nilnil // a file need not have one
}

// read reads BAI or CSI. The packages take the numbers in a file for granted.
func (x *Index) read(r io.Reader) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	if strings.HasSuffix(x.Path, ".csi") {
		z, err := blocks.NewReader(r, 1)
		if err != nil {
			return err
		}
		defer z.Close()
		i, err := csi.ReadFrom(z)
		if err != nil {
			return err
		}
		x.chunks = func(ref *sam.Reference, start, end int) ([]bgzf.Chunk, error) {
			if ref.ID() >= i.NumRefs() {
				return nil, nil
			}
			return i.Chunks(ref.ID(), start, end), nil
		}
		return nil
	}
	i, err := bam.ReadIndex(r)
	if err != nil {
		return err
	}
	x.chunks = func(ref *sam.Reference, start, end int) ([]bgzf.Chunk, error) {
		if ref.ID() >= i.NumRefs() {
			return nil, nil
		}
		chunks, err := i.Chunks(ref, start, end)
		if err != nil && len(chunks) == 0 {
			return nil, nil // no alignment lies there
		}
		return chunks, nil
	}
	return nil
}

// Chunks are those in which alignments to a stretch of a reference sequence may lie.
func (x *Index) Chunks(ref *sam.Reference, start, end int) ([]bgzf.Chunk, error) {
	chunks, err := x.chunks(ref, start, end)
	if err != nil {
		return nil, fmt.Errorf("looking up %s in %s: %w", ref.Name(), x.Path, err)
	}
	return chunks, nil
}

// Apart are chunks in ascending order without what they overlap, as [Reader.Limit] wants them.
func Apart(all []bgzf.Chunk) []bgzf.Chunk {
	slices.SortFunc(all, func(a, b bgzf.Chunk) int { return CompareOffsets(a.Begin, b.Begin) })
	var apart []bgzf.Chunk
	for _, c := range all {
		if n := len(apart); n > 0 && CompareOffsets(c.Begin, apart[n-1].End) <= 0 {
			if CompareOffsets(c.End, apart[n-1].End) > 0 {
				apart[n-1].End = c.End
			}
			continue
		}
		apart = append(apart, c)
	}
	return apart
}

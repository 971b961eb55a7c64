package aligned

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

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/hts"
)

// index tells where a BAM file has the alignments of a stretch.
type index struct {
	path   string
	older  bool // than the file
	chunks func(ref *sam.Reference, start, end int) ([]bgzf.Chunk, error)
}

// findIndex reads the index of a file, as samtools names it; nil if there is none.
func findIndex(path string, file os.FileInfo) (*index, error) {
	for _, candidate := range []string{path + ".bai", strings.TrimSuffix(path, ".bam") + ".bai", path + ".csi"} {
		f, err := os.Open(candidate)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("opening the index: %w", err)
		}
		defer f.Close()
		x := &index{path: candidate}
		if info, err := f.Stat(); err == nil {
			x.older = info.ModTime().Before(file.ModTime())
		}
		if err := x.read(bufio.NewReader(f)); err != nil {
			return nil, fmt.Errorf("reading the index %s: %w: make it again (samtools index)", candidate, err)
		}
		return x, nil
	}
	return nil, nil //nolint:nilnil // a file need not have one
}

// read reads BAI or CSI. The packages take the numbers in a file for granted.
func (x *index) read(r io.Reader) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	if strings.HasSuffix(x.path, ".csi") {
		z, err := bgzf.NewReader(r, 1)
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

// seekTo makes a read only what may overlap the regions of the plan, with the help
// of the index.
func (a *Alignments) seekTo(p *plan) error {
	var all []bgzf.Chunk
	for _, ref := range a.header.Refs() {
		contig := a.contigs[ref.ID()]
		if contig == nil {
			continue
		}
		for _, region := range p.regionsOf(contig) {
			start, end := align.RegionBounds(region, len(contig.Seq))
			chunks, err := a.index.chunks(ref, max(0, start-align.RegionHalo), min(end+align.RegionHalo, len(contig.Seq)))
			if err != nil {
				return fmt.Errorf("looking up %s in %s: %w", ref.Name(), a.index.path, err)
			}
			all = append(all, chunks...)
		}
	}
	slices.SortFunc(all, func(a, b bgzf.Chunk) int { return hts.CompareOffsets(a.Begin, b.Begin) })
	var apart []bgzf.Chunk
	for _, c := range all {
		if n := len(apart); n > 0 && hts.CompareOffsets(c.Begin, apart[n-1].End) <= 0 {
			if hts.CompareOffsets(c.End, apart[n-1].End) > 0 {
				apart[n-1].End = c.End
			}
			continue
		}
		apart = append(apart, c)
	}
	a.total = 0
	for _, c := range apart {
		a.total += c.End.File - c.Begin.File
	}
	if err := a.records.Limit(apart); err != nil {
		return fmt.Errorf("going to the first alignment by %s: %w", a.index.path, err)
	}
	return nil
}

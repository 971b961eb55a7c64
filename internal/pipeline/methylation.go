package pipeline

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/motif"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/wholefile"
)

// MethylationFold is the state of a methylation topic as a consumer sees it: the newest counts of every stretch,
// and which runs have ended. However often a record is delivered, and in whatever order the partitions come, it is
// the same.
type MethylationFold struct {
	runEnds
	newest[methylation.Stretch]
}

// NewMethylationFold returns the state of an empty topic with a number of partitions.
func NewMethylationFold(partitions int32) *MethylationFold {
	return &MethylationFold{runEnds: newRunEnds(partitions), newest: makeNewest[methylation.Stretch]()}
}

// Add takes one record and returns the revision that it brings, or nil when it brings none: it is older than what is
// known, a marker, or an event of a kind this program doesn't know.
func (f *MethylationFold) Add(rec stream.Record) (*methylation.Stretch, error) {
	s, end, err := methylation.Decode(rec)
	switch {
	case err != nil:
		return nil, err
	case end != nil:
		f.add(rec.Partition, end)
	case s != nil:
		if known := f.latest[string(rec.Key)]; known == nil || s.Revision > known.Revision {
			f.keep(rec.Key, s)
			return s, nil
		}
	}
	return nil, nil
}

// Withhold takes counts that aren't wanted: neither they nor their older revisions are listed, until newer ones are added.
func (f *MethylationFold) Withhold(rec stream.Record) error {
	s, err := f.Add(rec)
	if s != nil {
		f.withhold(rec.Key, &methylation.Stretch{Sample: s.Sample, Revision: s.Revision})
	}
	return err
}

// of are the newest counts of a sample.
func (f *MethylationFold) of(sample string) iter.Seq[*methylation.Stretch] {
	return func(yield func(*methylation.Stretch) bool) {
		for s := range f.listed {
			if s.Sample == sample && !yield(s) {
				return
			}
		}
	}
}

// Within refuses a genome that lacks places of a sample's counts: a file by it would leave them out unsaid.
func (f *MethylationFold) Within(sample string, g *genome.Genome) error {
	for s := range f.of(sample) {
		if err := within(g, s.Stretch.Contig, s.Stretch.End); err != nil {
			return err
		}
	}
	return nil
}

// Samples lists the samples with counts, sorted.
func (f *MethylationFold) Samples() []string {
	samples := make(map[string]bool)
	for s := range f.listed {
		samples[s.Sample] = true
	}
	return slices.Sorted(maps.Keys(samples))
}

// Final reports whether all counts of a sample are final.
func (f *MethylationFold) Final(sample string) bool {
	for s := range f.of(sample) {
		if s.Status != methylation.Final {
			return false
		}
	}
	return true
}

// Haplotypes lists those of a sample that there are counts of, ascending.
func (f *MethylationFold) Haplotypes(sample string) []int {
	found := make(map[int]bool)
	for s := range f.of(sample) {
		if s.Haplotype > 0 {
			found[s.Haplotype] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Rows calls yield with the rows of a sample's haplotype, 0 for all of its reads, in the order of a pile-up's, contigs in the order that rank gives. That
// nothing was counted by haplotype is an error: no rows would read as if no base of it were modified.
func (f *MethylationFold) Rows(sample string, haplotype int, rank func(contig string) int, yield func(contig string, row *pileup.Row) error) error {
	if haplotype > 0 && len(f.Haplotypes(sample)) == 0 {
		return fmt.Errorf("sample %s has no counts by haplotype: they come when its runs have ended, where reads of two copies differ, and processors have --methylation-haplotypes", sample)
	}
	var list []*methylation.Stretch
	for s := range f.of(sample) {
		if s.Haplotype == haplotype && len(s.Sites.Pos) > 0 {
			list = append(list, s)
		}
	}
	place := func(a, b *methylation.Stretch) int {
		return cmp.Or(cmp.Compare(rank(a.Stretch.Contig), rank(b.Stretch.Contig)), strings.Compare(a.Stretch.Contig, b.Stretch.Contig), cmp.Compare(a.Stretch.Pos, b.Stretch.Pos))
	}
	slices.SortFunc(list, place)
	for len(list) > 0 {
		n := 1
		for n < len(list) && place(list[0], list[n]) == 0 {
			n++
		}
		var rows []pileup.Row
		for _, s := range list[:n] {
			code, err := modbase.ParseCode(s.Code)
			if err != nil {
				return err
			}
			for i := range s.Sites.Pos {
				rows = append(rows, s.Sites.Row(i, code))
			}
		}
		slices.SortStableFunc(rows, func(a, b pileup.Row) int {
			return cmp.Or(cmp.Compare(a.Pos, b.Pos), cmp.Compare(a.Strand, b.Strand), a.Code.Compare(b.Code)) // + is before - in ASCII, too
		})
		for i := range rows {
			if err := yield(list[0].Stretch.Contig, &rows[i]); err != nil {
				return err
			}
		}
		list = list[n:]
	}
	return nil
}

// WriteBedMethyl writes the counts of a sample's haplotype, 0 for all of its reads, as pore pileup does: in 18 columns as modkit has them.
func (f *MethylationFold) WriteBedMethyl(w io.Writer, sample string, haplotype int, rank func(contig string) int) error {
	var line []byte
	return f.Rows(sample, haplotype, rank, func(contig string, row *pileup.Row) error {
		line = pileup.AppendBED(line[:0], contig, row, nil)
		_, err := w.Write(line)
		return err
	})
}

// WriteMotifs writes the motifs that a sample's modifications are at, as a table. The genome must be the one that the
// counts are of: around positions of another one there are no motifs, or wrong ones.
func (f *MethylationFold) WriteMotifs(ctx context.Context, w io.Writer, sample string, g *genome.Genome) error {
	finder := motif.NewFinder(motif.Config{})
	err := f.Rows(sample, 0, g.Rank, func(contig string, row *pileup.Row) error {
		c := g.Contig(contig)
		switch {
		case c == nil:
			return fmt.Errorf("modified bases are counted on %s, which isn't in the reference FASTA: give the processors' reference", contig)
		case row.Pos >= len(c.Seq):
			return fmt.Errorf("modified bases are counted at %s:%d, and %s has %d bases in the reference FASTA: give the processors' reference", contig, row.Pos+1, contig, len(c.Seq))
		}
		finder.Add(c.Seq, row)
		return nil
	})
	if err != nil {
		return err
	}
	motifs, err := finder.Find(ctx)
	if err != nil {
		return err
	}
	lines := []byte(motif.Header)
	for _, m := range motifs {
		lines = m.Append(lines)
	}
	_, err = w.Write(lines)
	return err
}

// writeMethylation writes a sample's methylation.bed, those of both haplotypes if they were counted, its motifs, and a bedGraph for each modification and strand.
func (r *Result) writeMethylation(ctx context.Context, path func(name string) string, sample string) (err error) {
	counted := []int{0}
	if len(r.Methylation.Haplotypes(sample)) > 0 {
		counted = append(counted, 1, 2) // of one there may be nothing
	}
	for _, haplotype := range counted {
		name := "methylation.bed"
		if haplotype > 0 {
			name = fmt.Sprintf("methylation.%d.bed", haplotype)
		}
		if err := wholefile.Write(path(name), func(w *bufio.Writer) error {
			return r.Methylation.WriteBedMethyl(w, sample, haplotype, r.Genome.Rank)
		}); err != nil {
			return err
		}
	}
	if err := wholefile.Write(path("methylation.motifs.tsv"), func(w *bufio.Writer) error {
		return r.Methylation.WriteMotifs(ctx, w, sample, r.Genome)
	}); err != nil {
		return err
	}
	type track struct {
		*bufio.Writer
		file *wholefile.File
	}
	tracks := make(map[string]track)
	defer func() {
		for _, t := range tracks {
			err = errors.Join(err, t.file.Discard())
		}
	}()
	var line []byte
	err = r.Methylation.Rows(sample, 0, r.Genome.Rank, func(contig string, row *pileup.Row) error {
		if row.Valid() == 0 {
			return nil
		}
		name := "methylation." + row.Code.String() + map[pileup.Strand]string{pileup.Plus: ".plus", pileup.Minus: ".minus"}[row.Strand] + ".bedgraph"
		t, ok := tracks[name]
		if !ok {
			file, err := wholefile.Create(path(filepath.Base(name)))
			if err != nil {
				return err
			}
			t = track{bufio.NewWriter(file), file}
			tracks[name] = t
		}
		line = pileup.AppendBedGraph(line[:0], contig, row)
		_, err := t.Write(line)
		return err
	})
	for _, name := range slices.Sorted(maps.Keys(tracks)) {
		if err != nil {
			break
		}
		if err = tracks[name].Flush(); err == nil {
			err = tracks[name].file.Commit()
		}
	}
	return err
}

package source

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"github.com/porestream/porestream/genome"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// writer writes a file from front to end and keeps its checksums.
type writer struct {
	w     *bufio.Writer
	at    int64
	crc   uint32 // of the block so far
	block int    // bytes in it
	crcs  []byte
}

func (w *writer) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		n := min(len(p), blockSize-w.block)
		w.crc = crc32.Update(w.crc, castagnoli, p[:n])
		if _, err := w.w.Write(p[:n]); err != nil {
			return 0, err
		}
		w.block += n
		w.at += int64(n)
		p = p[n:]
		if w.block == blockSize {
			w.endBlock()
		}
	}
	return total, nil
}

func (w *writer) endBlock() {
	w.crcs = binary.LittleEndian.AppendUint32(w.crcs, w.crc)
	w.crc, w.block = 0, 0
}

// align fills up to a multiple of 8.
func (w *writer) align() error {
	_, err := w.Write(make([]byte, -w.at&7))
	return err
}

// finish writes the checksums and the trailer.
func (w *writer) finish(metaAt, metaSize int64) error {
	if w.block > 0 {
		w.endBlock()
	}
	crcsAt := w.at
	t := []byte(trailerMagic)
	t = binary.LittleEndian.AppendUint64(t, uint64(metaAt))
	t = binary.LittleEndian.AppendUint64(t, uint64(metaSize))
	t = binary.LittleEndian.AppendUint64(t, uint64(crcsAt))
	t = binary.LittleEndian.AppendUint64(t, uint64(len(w.crcs)/4))
	t = binary.LittleEndian.AppendUint64(t, uint64(crcsAt)+uint64(len(w.crcs))+trailerSize)
	t = binary.LittleEndian.AppendUint32(t, crc32.Checksum(w.crcs, castagnoli))
	t = binary.LittleEndian.AppendUint32(t, crc32.Checksum(t, castagnoli))
	_, _ = w.w.Write(w.crcs)
	_, _ = w.w.Write(t)
	return w.w.Flush()
}

// layout turns sorted items into a file.
type layout struct {
	w     *writer
	meta  *Meta
	g     *genome.Genome
	rows  *table // of alleles and spans, in a temporary file until the records are written
	spans *table
	// counts are the numbers of alleles and spans of each contig of g.
	alleles, intervals []int

	indexes map[int32]*index
	last    item // allele before the current one, without its record
	begun   bool // there is one
}

// index collects a contig's search structures while its rows are written.
type index struct {
	buckets []byte // bucket index, encoded
	bucket  int    // that is open
	shift   int
	rows    uint32
	spans   int
	ends    []uint32 // greatest ends of groups of fanout spans
}

// table is a temporary file of rows.
type table struct {
	f *os.File
	w *bufio.Writer
}

func newTable(dir string) (*table, error) {
	f, err := os.CreateTemp(dir, ".pss-rows-*")
	if err != nil {
		return nil, fmt.Errorf("making a temporary file: %w", err)
	}
	_ = os.Remove(f.Name())
	return &table{f, bufio.NewWriterSize(f, 256<<10)}, nil
}

// write makes the whole file of what s holds.
func (l *layout) write(s *sorter, dict *dictionary, dir string) error {
	head := append([]byte(magic), make([]byte, headerSize-len(magic))...)
	binary.LittleEndian.PutUint32(head[8:], Version)
	binary.LittleEndian.PutUint32(head[12:], blockSize)
	if _, err := l.w.Write(head); err != nil {
		return err
	}
	var err error
	if l.rows, err = newTable(dir); err != nil {
		return err
	}
	defer l.rows.f.Close()
	if l.spans, err = newTable(dir); err != nil {
		return err
	}
	defer l.spans.f.Close()
	l.indexes = map[int32]*index{}
	l.meta.Unique = true
	if err := s.each(l.add); err != nil {
		return err
	}
	if err := l.tables(); err != nil {
		return err
	}
	if err := l.dictionary(dict); err != nil {
		return err
	}
	return l.description()
}

// add writes an item's record and its row.
func (l *layout) add(it *item) error {
	ix := l.indexes[it.contig]
	if ix == nil {
		ix = &index{shift: shiftFor(len(l.g.Contigs[it.contig].Seq), l.alleles[it.contig])}
		l.indexes[it.contig] = ix
	}
	at := l.w.at
	var size [binary.MaxVarintLen64]byte
	if _, err := l.w.Write(size[:binary.PutUvarint(size[:], uint64(len(it.record)))]); err != nil {
		return err
	}
	if _, err := l.w.Write(it.record); err != nil {
		return err
	}
	var row [rowSize]byte
	binary.LittleEndian.PutUint64(row[8:], uint64(at))
	if !it.span {
		binary.LittleEndian.PutUint64(row[:], rowKey(int(it.start), it.second))
		ix.allele(it.start)
		if l.begun && l.last.contig == it.contig && l.last.start == it.start && l.last.second == it.second {
			l.meta.Unique = false // or two long alleles have the same hash, which is no harm
		}
		l.last, l.last.record, l.begun = *it, nil, true
		_, err := l.rows.w.Write(row[:])
		return err
	}
	binary.LittleEndian.PutUint32(row[:], it.start)
	binary.LittleEndian.PutUint32(row[4:], it.second)
	if ix.spans%fanout == 0 {
		ix.ends = append(ix.ends, 0)
	}
	ix.spans++
	group := &ix.ends[len(ix.ends)-1]
	*group = max(*group, it.second)
	_, err := l.spans.w.Write(row[:])
	return err
}

// allele counts a row that begins at start, and opens the buckets up to its own.
func (ix *index) allele(start uint32) {
	for b := int(start >> ix.shift); ix.bucket <= b; ix.bucket++ {
		ix.buckets = binary.LittleEndian.AppendUint32(ix.buckets, ix.rows)
	}
	ix.rows++
}

// endAlleles closes the bucket index of a contig that has n entries in it.
func (ix *index) endAlleles(n int) {
	for ; ix.bucket < n; ix.bucket++ {
		ix.buckets = binary.LittleEndian.AppendUint32(ix.buckets, ix.rows)
	}
}

// shiftFor chooses the size of buckets, a power of two, so that one holds about two rows if they are spread evenly.
func shiftFor(length, rows int) int {
	shift := 0
	for length>>shift > rows/2 && length>>shift > 0 {
		shift++
	}
	return shift
}

// tables writes the rows and indexes of all contigs.
func (l *layout) tables() error {
	for _, t := range []*table{l.rows, l.spans} {
		if err := t.w.Flush(); err != nil {
			return err
		}
		if _, err := t.f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	rows, spans := bufio.NewReaderSize(l.rows.f, 256<<10), bufio.NewReaderSize(l.spans.f, 256<<10)
	for i, c := range l.g.Contigs {
		ix := l.indexes[int32(i)]
		if ix == nil {
			continue
		}
		m := contigMeta{
			Name: c.Name, Length: c.Len(), Digest: c.Digest(),
			Rows: l.alleles[i], Spans: l.intervals[i], Shift: ix.shift,
		}
		if err := l.contig(&m, ix, rows, spans); err != nil {
			return err
		}
		l.meta.Contigs = append(l.meta.Contigs, m)
	}
	return nil
}

// contig writes one contig's tables.
func (l *layout) contig(m *contigMeta, ix *index, rows, spans io.Reader) error {
	section := func(at *int64, write func() error) error {
		if err := l.w.align(); err != nil {
			return err
		}
		*at = l.w.at
		return write()
	}
	copied := func(r io.Reader, n int) func() error {
		return func() error {
			_, err := io.CopyN(l.w, r, int64(n))
			return err
		}
	}
	if m.Rows > 0 {
		if err := section(&m.RowsAt, copied(rows, m.Rows*rowSize)); err != nil {
			return err
		}
		ix.endAlleles(m.buckets())
		err := section(&m.BucketsAt, func() error {
			_, err := l.w.Write(ix.buckets)
			return err
		})
		if err != nil {
			return err
		}
	}
	if m.Spans == 0 {
		return nil
	}
	if err := section(&m.SpansAt, copied(spans, m.Spans*spanSize)); err != nil {
		return err
	}
	return section(&m.LevelsAt, func() error { return l.levels(ix.ends) })
}

// levels writes the greatest ends of groups of spans, then of groups of those groups, and so on up to one.
func (l *layout) levels(ends []uint32) error {
	for {
		b := make([]byte, 0, 4*len(ends))
		for _, e := range ends {
			b = binary.LittleEndian.AppendUint32(b, e)
		}
		if _, err := l.w.Write(b); err != nil {
			return err
		}
		if len(ends) == 1 {
			return nil
		}
		up := make([]uint32, 0, len(ends)/fanout+1)
		for group := range slices.Chunk(ends, fanout) {
			up = append(up, slices.Max(group))
		}
		ends = up
	}
}

// dictionary writes the texts that have numbers.
func (l *layout) dictionary(d *dictionary) error {
	if err := l.w.align(); err != nil {
		return err
	}
	l.meta.Dictionary = dictMeta{Count: len(d.texts), At: l.w.at, Size: int64(d.bytes)}
	end := uint64(0)
	var b [8]byte
	for _, s := range d.texts {
		end += uint64(len(s))
		binary.LittleEndian.PutUint64(b[:], end)
		if _, err := l.w.Write(b[:]); err != nil {
			return err
		}
	}
	for _, s := range d.texts {
		if _, err := io.WriteString(l.w, s); err != nil {
			return err
		}
	}
	return nil
}

// description writes the meta data and what follows it.
func (l *layout) description() error {
	b, err := json.Marshal(l.meta)
	if err != nil {
		return fmt.Errorf("encoding the description: %w", err)
	}
	if len(b) > maxMeta {
		return errors.New("the description of the source is too long: too many contigs or fields")
	}
	at := l.w.at
	if _, err := l.w.Write(b); err != nil {
		return err
	}
	return l.w.finish(at, int64(len(b)))
}

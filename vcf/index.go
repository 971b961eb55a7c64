package vcf

import (
	"encoding/binary"
	"maps"
	"slices"
)

// Places of a tabix (TBI) index: bins of 16 kb and up over 512 Mb, a virtual offset for every 16 kb (tabix format, SAM
// specification section 5). A CSI index has as many levels as the longest contig needs.
const (
	indexShift  = 14
	tabixLevels = 5
	tabixLimit  = 1 << (indexShift + 3*tabixLevels)
)

// indexer collects where the records of a BGZF file are. Records of a contig come together and sorted by position.
//
// Package tabix of biogo/hts can't be used: its Add makes every record a contig of its own.
type indexer struct {
	csi      bool
	levels   int // of bins, without the root
	names    []string
	contigs  []*contigIndex
	position map[string]int
}

// contigIndex is the index of one contig.
type contigIndex struct {
	bins     map[uint32]*binIndex
	linear   []uint64 // by window of 16 kb, the offset of the first record that overlaps it; 0: none
	from, to uint64   // of all its records
	records  uint64
}

// binIndex is where the records of a bin lie: chunks of virtual offsets.
type binIndex struct {
	first  uint64
	chunks [][2]uint64
}

// newIndexer makes an index for contigs of up to the given number of bases.
func newIndexer(longest int) *indexer {
	x := &indexer{levels: tabixLevels, csi: longest > tabixLimit, position: make(map[string]int)}
	for longest > 1<<(indexShift+3*x.levels) {
		x.levels++
	}
	return x
}

// add notes a record over the 0-based interval [start, end) of a contig, which lies between two virtual offsets.
func (x *indexer) add(contig string, start, end int, from, to uint64) {
	i, ok := x.position[contig]
	if !ok {
		i = len(x.names)
		x.position[contig] = i
		x.names = append(x.names, contig)
		x.contigs = append(x.contigs, &contigIndex{bins: make(map[uint32]*binIndex), from: from})
	}
	c := x.contigs[i]
	c.to = to
	c.records++
	bin := c.bins[x.bin(start, end)]
	if bin == nil {
		bin = &binIndex{first: from}
		c.bins[x.bin(start, end)] = bin
	}
	if n := len(bin.chunks); n > 0 && bin.chunks[n-1][1] == from {
		bin.chunks[n-1][1] = to
	} else {
		bin.chunks = append(bin.chunks, [2]uint64{from, to})
	}
	for w := start >> indexShift; w <= (end-1)>>indexShift; w++ {
		for len(c.linear) <= w {
			c.linear = append(c.linear, 0)
		}
		if c.linear[w] == 0 {
			c.linear[w] = from
		}
	}
}

// bin is the number of the smallest bin that holds [start, end).
func (x *indexer) bin(start, end int) uint32 {
	first := (1<<(3*x.levels) - 1) / 7 // number of the first bin of the level
	shift := indexShift
	for level := x.levels; level > 0; level-- {
		if start>>shift == (end-1)>>shift {
			return uint32(first + start>>shift)
		}
		shift += 3
		first -= 1 << (3 * (level - 1))
	}
	return 0
}

// firstAt is the bin's first position.
func (x *indexer) firstAt(bin uint32) int {
	first, shift := 0, indexShift+3*x.levels
	for level := 0; ; level++ {
		n := 1 << (3 * level)
		if int(bin) < first+n {
			return (int(bin) - first) << shift
		}
		first += n
		shift -= 3
	}
}

// append writes the index, which is then to be compressed.
func (x *indexer) append(b []byte) []byte {
	le := binary.LittleEndian
	names := 0
	for _, n := range x.names {
		names += len(n) + 1
	}
	// What tabix has to know of the file: it is VCF, contig and position are columns 1 and 2, "#" begins a header line.
	const vcfFormat = 2
	head := []uint32{vcfFormat, 1, 2, 0, '#', 0, uint32(names)}
	if x.csi {
		b = append(b, "CSI\x01"...)
		b = le.AppendUint32(b, indexShift)
		b = le.AppendUint32(b, uint32(x.levels))
		b = le.AppendUint32(b, uint32(4*len(head)+names))
	} else {
		b = append(b, "TBI\x01"...)
		b = le.AppendUint32(b, uint32(len(x.contigs)))
	}
	for _, n := range head {
		b = le.AppendUint32(b, n)
	}
	for _, n := range x.names {
		b = append(append(b, n...), 0)
	}
	if x.csi {
		b = le.AppendUint32(b, uint32(len(x.contigs)))
	}
	for _, c := range x.contigs {
		b = x.appendContig(b, c)
	}
	return le.AppendUint64(b, 0) // records without a place
}

func (x *indexer) appendContig(b []byte, c *contigIndex) []byte {
	le := binary.LittleEndian
	// Windows without a record begin where the one before does.
	for i := 1; i < len(c.linear); i++ {
		if c.linear[i] == 0 {
			c.linear[i] = c.linear[i-1]
		}
	}
	b = le.AppendUint32(b, uint32(len(c.bins)+1))
	for _, number := range slices.Sorted(maps.Keys(c.bins)) {
		bin := c.bins[number]
		b = le.AppendUint32(b, number)
		if x.csi {
			first := bin.first
			if w := x.firstAt(number) >> indexShift; w < len(c.linear) && c.linear[w] != 0 {
				first = c.linear[w]
			}
			b = le.AppendUint64(b, first)
		}
		b = le.AppendUint32(b, uint32(len(bin.chunks)))
		for _, chunk := range bin.chunks {
			b = le.AppendUint64(le.AppendUint64(b, chunk[0]), chunk[1])
		}
	}
	// A bin beyond all others holds the contig's extent and number of records.
	b = le.AppendUint32(b, uint32((1<<(3*(x.levels+1))-1)/7+1))
	if x.csi {
		b = le.AppendUint64(b, 0)
	}
	b = le.AppendUint32(b, 2)
	for _, n := range []uint64{c.from, c.to, c.records, 0} {
		b = le.AppendUint64(b, n)
	}
	if !x.csi {
		b = le.AppendUint32(b, uint32(len(c.linear)))
		for _, offset := range c.linear {
			b = le.AppendUint64(b, offset)
		}
	}
	return b
}

package annotate

import (
	"cmp"
	"slices"
	"sort"
	"sync"

	"github.com/porestream/porestream/genome"
)

// Model is a set of transcripts on a genome. It does not change and may be shared.
type Model struct {
	// Faults are the faults of the file that the model leaves out or repairs.
	Faults []Fault
	// Origin says where the models come from if it is no annotation, such as that they are predicted; empty otherwise.
	// It is given with every result that follows from them.
	Origin string

	contigs    map[*genome.Contig]*track
	regulation map[*genome.Contig]*regulatoryTrack
	count      int

	numbered sync.Once
}

// Transcripts is the number of transcripts, coding and not.
func (m *Model) Transcripts() int { return m.count }

// track holds the transcripts of one contig so that those in reach of a position are found fast.
type track struct {
	transcripts []*transcript // by start
	starts      []int         // of the transcripts
	// reach[i] is the greatest end among transcripts[:i+1]: where it falls below a position no earlier transcript
	// overlaps it.
	reach []int
	// mitochondrial says that coding sequences of the contig read in the vertebrate mitochondrial code.
	mitochondrial bool
	// circle is the length of a circular contig, and unrolled the contig that its transcripts are on; 0 and nil if the
	// contig is linear.
	circle   int
	unrolled *genome.Contig
}

// foundAt is where on a track the search before ended: most files are sorted, so that the next one ends there, or near.
type foundAt struct {
	track *track
	n     int // transcripts that start before or at the end of the searched range
}

// upTo is the number of transcripts that start at pos or before.
func (k *track) upTo(at *foundAt, pos int) int {
	n := at.n
	if at.track != k {
		n = 0
	}
	const near = 8 // steps before a search in halves is faster
	for range near {
		switch {
		case n < len(k.starts) && k.starts[n] <= pos:
			n++
		case n > 0 && k.starts[n-1] > pos:
			n--
		default:
			*at = foundAt{k, n}
			return n
		}
	}
	n = sort.Search(len(k.starts), func(i int) bool { return k.starts[i] > pos })
	*at = foundAt{k, n}
	return n
}

// overlapping appends the transcripts that share a base or an edge with [start,end] to dst.
func (k *track) overlapping(dst []*transcript, at *foundAt, start, end int) []*transcript {
	n := k.upTo(at, end)
	for i := n - 1; i >= 0 && k.reach[i] >= start; i-- {
		if k.transcripts[i].end >= start {
			dst = append(dst, k.transcripts[i])
		}
	}
	return dst
}

// index sorts the transcripts and computes the reach.
func (k *track) index() {
	slices.SortStableFunc(k.transcripts, func(s, t *transcript) int { return cmp.Compare(s.start, t.start) })
	k.reach, k.starts = make([]int, len(k.transcripts)), make([]int, len(k.transcripts))
	reach := 0
	for i, t := range k.transcripts {
		reach = max(reach, t.end)
		k.reach[i], k.starts[i] = reach, t.start
		k.mitochondrial = k.mitochondrial || t.code != nil && t.code.table == vertebrateMitochondrialCode
	}
}

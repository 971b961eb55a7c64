package annotate

import (
	"sort"
	"sync"

	"github.com/porestream/porestream/genome"
)

// Model is a set of transcripts on a genome. It does not change and may be shared.
type Model struct {
	// Faults tell what the file has and the model leaves out or repairs.
	Faults []Fault

	contigs    map[*genome.Contig]*track
	regulation map[*genome.Contig]*regulatoryTrack
	count      int

	numbered sync.Once
	ranked   []*transcript // by rank
}

// Transcripts is the number of transcripts, coding and not.
func (m *Model) Transcripts() int { return m.count }

// track holds the transcripts of one contig so that those in reach of a position are found fast.
type track struct {
	transcripts []*transcript // by start
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

// overlapping appends the transcripts that share a base or an edge with [start,end] to dst.
func (k *track) overlapping(dst []*transcript, start, end int) []*transcript {
	n := sort.Search(len(k.transcripts), func(i int) bool { return k.transcripts[i].start > end })
	for i := n - 1; i >= 0 && k.reach[i] >= start; i-- {
		if k.transcripts[i].end >= start {
			dst = append(dst, k.transcripts[i])
		}
	}
	return dst
}

// index sorts the transcripts and computes the reach.
func (k *track) index() {
	sort.SliceStable(k.transcripts, func(i, j int) bool { return k.transcripts[i].start < k.transcripts[j].start })
	k.reach = make([]int, len(k.transcripts))
	reach := 0
	for i, t := range k.transcripts {
		reach = max(reach, t.end)
		k.reach[i] = reach
		k.mitochondrial = k.mitochondrial || t.code != nil && t.code.table == vertebrateMitochondrialCode
	}
}

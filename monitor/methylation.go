package monitor

import (
	"cmp"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/porestream/porestream/modbase/stage/methylation"
)

// methylationKey is one modification along a contig in a sample, of one haplotype or, with 0, of all reads.
type methylationKey struct {
	sample, contig, code string
	haplotype            int
}

// methylationTrack is what is known of a modification along a contig.
//
// Problem: a human genome has 56 million sites, of each strand one, and a page shows some thousand.
//
// Strategy: the newest revision of each stretch is kept, with its sites at six bytes each until all tracks
// together have the sites of the limit, and beyond that with their sums by strand.
//
// Consequences: memory is bounded by the numbers of sites and of stretches. A view of what is known by its sums
// has bins that are no finer than a stretch, and says so.
type methylationTrack struct {
	stretches map[int64]*methylationStretch // by their first position, 0-based
	starts    map[int64][]int64             // these positions, by the whole times that the longest stretch fits before
	length    int                           // end of the last one
	sums      [2]methylationSum
	final     int // stretches
	coarse    int // stretches that are known by their sums
	updated   time.Time
}

// methylationStretch is the newest revision of a stretch.
type methylationStretch struct {
	revision uint64
	sums     [2]methylationSum // + and -
	sites    []methylationSite // nil: see sums
	length   int32
	final    bool
}

// methylationSum is of the sites of one strand.
type methylationSum struct{ modified, valid, sites int }

func (s *methylationSum) add(o methylationSum, sign int) {
	s.modified += sign * o.modified
	s.valid += sign * o.valid
	s.sites += sign * o.sites
}

// methylationSite is one position: its offset in the stretch, with the strand in the topmost bit.
type methylationSite struct{ at, modified, valid uint16 }

// reverseBit marks sites of the reverse strand.
const reverseBit = 1 << 15

func (m methylationSite) strand() int { return int(m.at >> 15) }
func (m methylationSite) offset() int { return int(m.at &^ reverseBit) }

// newMethylationSite is a site; counts that are too large for it are divided by the same number.
func newMethylationSite(offset int, strand byte, modified, valid int) methylationSite {
	site := methylationSite{at: uint16(offset)}
	if strand == '-' {
		site.at |= reverseBit
	}
	for valid >= 1<<16 {
		modified, valid = modified/2, valid/2
	}
	site.modified, site.valid = uint16(modified), uint16(valid)
	return site
}

func (v *View) addMethylation(s *methylation.Stretch, at time.Time) {
	length := s.Stretch.End - s.Stretch.Pos + 1
	if length > reverseBit {
		v.leftOut["methylation"]++
		return
	}
	key, start := methylationKey{s.Sample, s.Stretch.Contig, s.Code, s.Haplotype}, s.Stretch.Pos-1
	track := v.methylation[key]
	var known *methylationStretch
	if track != nil {
		known = track.stretches[start]
	}
	switch {
	case known != nil && s.Revision <= known.revision:
		return // an earlier one that came late
	case known == nil && v.stretches >= v.limits.MethylationStretches, track == nil && len(v.methylation) >= v.limits.MethylationTracks:
		v.leftOut["methylation"]++
		return
	case track == nil:
		track = &methylationTrack{stretches: make(map[int64]*methylationStretch), starts: make(map[int64][]int64)}
		v.methylation[key] = track
	}
	next := &methylationStretch{revision: s.Revision, length: int32(length), final: s.Status == methylation.Final}
	for i, modified := range s.Sites.Modified {
		strand := 0
		if s.Sites.Strands[i] == '-' {
			strand = 1
		}
		next.sums[strand].add(methylationSum{modified, modified + s.Sites.Canonical[i] + s.Sites.Other[i], 1}, 1)
	}
	before := 0
	if known != nil {
		before = len(known.sites)
	}
	if n := len(s.Sites.Pos); v.sites-before+n <= v.limits.MethylationSites {
		next.sites = make([]methylationSite, n)
		for i, pos := range s.Sites.Pos {
			next.sites[i] = newMethylationSite(pos-int(s.Stretch.Pos), s.Sites.Strands[i], s.Sites.Modified[i], s.Sites.Modified[i]+s.Sites.Canonical[i]+s.Sites.Other[i])
		}
	}
	if known != nil {
		track.count(known, -1)
		v.stretches--
	} else {
		track.starts[start/reverseBit] = append(track.starts[start/reverseBit], start)
	}
	track.count(next, 1)
	v.stretches++
	v.sites += len(next.sites) - before
	track.stretches[start] = next
	track.length = max(track.length, int(s.Stretch.End))
	if at.After(track.updated) {
		track.updated = at
	}
	v.unsent.methylation[key] = true
}

// count adds a stretch to what the track says of all of them, or takes it away.
func (t *methylationTrack) count(s *methylationStretch, sign int) {
	for strand := range s.sums {
		t.sums[strand].add(s.sums[strand], sign)
	}
	if s.final {
		t.final += sign
	}
	if s.sites == nil {
		t.coarse += sign
	}
}

// lengthOf is the length of the contig of a track, as far as it is known.
func (v *View) lengthOf(key methylationKey, t *methylationTrack) int {
	if c := v.contigs[contigKey{key.sample, key.contig}]; c != nil {
		return max(c.length, t.length)
	}
	return t.length
}

func (v *View) methylationOf(keys []methylationKey) Methylation {
	out := Methylation{Tracks: make([]MethylationTrack, 0, len(keys))}
	for _, key := range keys {
		t := v.methylation[key]
		out.Tracks = append(out.Tracks, MethylationTrack{
			Sample: key.sample, Name: key.contig, Code: key.code, Haplotype: key.haplotype, Length: v.lengthOf(key, t),
			Sites: t.sums[0].sites + t.sums[1].sites, Modified: t.sums[0].modified + t.sums[1].modified, Valid: t.sums[0].valid + t.sums[1].valid,
			Stretches: len(t.stretches), Final: t.final, Coarse: t.coarse, Updated: t.updated.UTC(),
		})
	}
	return out
}

// changedTracks are tracks that have changed since they were last sent, as many as fit into one event.
func (v *View) changedTracks() []methylationKey {
	keys := sortedTracks(v.unsent.methylation)
	keys = keys[:min(len(keys), maxRows)]
	for _, key := range keys {
		delete(v.unsent.methylation, key)
	}
	return keys
}

func sortedTracks[T any](tracks map[methylationKey]T) []methylationKey {
	return slices.SortedFunc(maps.Keys(tracks), func(a, b methylationKey) int {
		return cmp.Or(cmp.Compare(a.sample, b.sample), cmp.Compare(a.contig, b.contig), cmp.Compare(a.code, b.code), cmp.Compare(a.haplotype, b.haplotype))
	})
}

// ErrNoMethylation says that there are no counts of a modification.
var ErrNoMethylation = errors.New("nothing is known of that modification on that contig in that sample")

// States of bins of a [MethylationZoom].
const (
	binEmpty       = '.'
	binProvisional = 'p'
	binFinal       = 'f'
)

// MethylationStretch is what a reader of the page asks for: what reads of a sample, of one haplotype or with 0 all, say of a modification at positions [From, To).
type MethylationStretch struct {
	Sample, Contig, Code string
	Haplotype            int
	From, To             int // To is cut to the contig's length, and 0 means that
	Bins                 int // to have at most
}

// MethylationZoom is what is known of a modification in a stretch.
func (v *View) MethylationZoom(of MethylationStretch) (MethylationZoom, error) {
	key := methylationKey{of.Sample, of.Contig, of.Code, of.Haplotype}
	t := v.methylation[key]
	if t == nil {
		return MethylationZoom{}, ErrNoMethylation
	}
	to := of.To
	if length := v.lengthOf(key, t); to == 0 || to > length {
		to = length
	}
	from := min(max(of.From, 0), to-1)
	n := min(max(of.Bins, 1), MaxZoomBins)
	width := max(1, (to-from+n-1)/n)
	var seen []int64
	for start, s := range t.stretches {
		if int(start) < to && from < int(start)+int(s.length) {
			seen = append(seen, start)
			if s.sites == nil {
				width = max(width, int(s.length))
			}
		}
	}
	bins := (to - from + width - 1) / width
	z := MethylationZoom{Sample: of.Sample, Contig: of.Contig, Code: of.Code, Haplotype: of.Haplotype, From: from, To: to, Bin: width, Strands: [2]MethylationBins{newMethylationBins(bins), newMethylationBins(bins)}}
	states := slices.Repeat([]byte{binEmpty}, bins)
	add := func(pos, strand int, sum methylationSum, final bool) {
		if pos < from || pos >= to {
			return
		}
		b := (pos - from) / width
		z.Strands[strand].Modified[b] += sum.modified
		z.Strands[strand].Valid[b] += sum.valid
		z.Strands[strand].Sites[b] += sum.sites
		switch {
		case !final:
			states[b] = binProvisional
		case states[b] == binEmpty:
			states[b] = binFinal
		}
	}
	for _, start := range seen {
		s := t.stretches[start]
		if s.sites == nil {
			// The stretch stands in the bin of its middle; bins are as wide as it is.
			middle := min(max(int(start)+int(s.length)/2, from), to-1)
			for strand, sum := range s.sums {
				if sum.sites > 0 {
					add(middle, strand, sum, s.final)
				}
			}
			continue
		}
		for _, site := range s.sites {
			add(int(start)+site.offset(), site.strand(), methylationSum{int(site.modified), int(site.valid), 1}, s.final)
		}
	}
	z.States = string(states)
	return z, nil
}

func newMethylationBins(n int) MethylationBins {
	return MethylationBins{Modified: make([]int, n), Valid: make([]int, n), Sites: make([]int, n)}
}

// over are the stretches over some of the positions [from, to), 0-based, by their first position.
func (t *methylationTrack) over(from, to int64) iter.Seq2[int64, *methylationStretch] {
	return func(yield func(int64, *methylationStretch) bool) {
		for at := max(0, from-reverseBit) / reverseBit; at <= max(0, to)/reverseBit; at++ {
			for _, start := range t.starts[at] {
				if s := t.stretches[start]; start < to && start+int64(s.length) > from && !yield(start, s) {
					return
				}
			}
		}
	}
}

// nearReach is within how many bases of a variant sites are shown beside it.
const nearReach = 500

// SitesNear are the sites with calls that are nearest to a position, 1-based, of all reads.
func (v *View) SitesNear(sample, contig string, pos int64) []NearSite {
	out := []NearSite{}
	for key, t := range v.methylation {
		if key.sample != sample || key.contig != contig || key.haplotype > 0 {
			continue
		}
		for start, s := range t.over(pos-nearReach-1, pos+nearReach) {
			for _, site := range s.sites {
				at := start + int64(site.offset()) + 1
				if site.valid > 0 && max(at-pos, pos-at) <= nearReach {
					out = append(out, NearSite{Pos: at, Strand: string("+-"[site.strand()]), Code: key.code, Modified: int(site.modified), Valid: int(site.valid), Final: s.final})
				}
			}
		}
	}
	return nearest(out, pos, func(s NearSite) (int64, string) { return s.Pos, s.Strand + s.Code })
}

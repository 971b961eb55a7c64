package eval

import (
	"errors"
	"fmt"
	"math"

	"github.com/porestream/porestream/align"
)

// Limits of what is distinguished; what is beyond counts with the last.
const (
	maxRun     = 10 // true length of homopolymers, in bases
	maxCalled  = 15 // called length of homopolymers
	maxGap     = 50 // length of insertions and deletions
	maxQuality = 93 // Phred, the highest that FASTQ can hold
)

// homopolymer is the shortest run that the share of errors in homopolymers is about.
const homopolymer = 3

// identityUnit is the inverse of what sums of identities are rounded to: sums of integers
// don't depend on the order.
const identityUnit = 1_000_000_000

// identityBins is the inverse of the resolution of the median.
const identityBins = 100_000

// Options say what is counted besides. The zero value counts the default motifs.
type Options struct {
	// Motifs are sequences of IUPAC letters, in the direction of the read; nil: DefaultMotifs.
	Motifs []Motif
	// Labels are where reads are known to be from; nil: not known.
	Labels *Labels
}

// Tally is what was counted of reads so far. The zero value is not usable; see NewTally.
// It is not safe for concurrent use: workers have one each, and Merge joins them.
type Tally struct {
	motifs []Motif
	labels *Labels
	counts
	lengths    map[int]int64            // reads by length
	identities map[int32]int64          // aligned reads by identity in identityBins
	contigs    map[string]*contigCounts // by name
	seen       []labelState             // by label

	work workspace
}

// contigCounts are the sums of a contig.
type contigCounts struct{ reads, bases, columns, matches, identity int64 }

// counts are the figures that add up.
type counts struct {
	reads, bases, aligned                int64 // aligned: reads
	alignedBases, clippedBases           int64
	alignedShare, identity               int64 // sums over aligned reads, in identityUnit
	matches, substitutions               int64
	insertions, deletions                int64 // bases
	ambiguous                            int64 // of the substitutions, those with a letter that is no base
	homopolymerInserted, homopolymerGone int64
	pairs                                [4][4]int64 // true, called
	inserted, deleted                    [maxGap + 1]int64
	runs                                 [4][maxRun + 1]runCounts
	contexts                             [64]siteCounts
	sites                                siteCounts
	qualities                            [maxQuality + 1]qualityCounts
	readQualities                        [maxQuality + 1]readQualityCounts
	inMotifs                             []motifCounts
	withoutQualities                     int64 // reads
}

type runCounts struct {
	runs, exact, substituted int64
	difference, distance     int64 // sums of called less true length, and of its size
	called                   [maxCalled + 1]int64
}

// siteCounts count what became of bases of the reference.
type siteCounts struct{ sites, substitutions, insertions, deletions int64 }

type motifCounts struct {
	occurrences, exact int64
	siteCounts
}

type qualityCounts struct{ bases, substitutions, insertions int64 }

type readQualityCounts struct{ reads, identity int64 }

// NewTally starts counting.
func NewTally(opts Options) *Tally {
	t := &Tally{
		motifs: opts.Motifs, labels: opts.Labels, lengths: make(map[int]int64), identities: make(map[int32]int64),
		contigs: make(map[string]*contigCounts),
	}
	if t.motifs == nil {
		t.motifs = DefaultMotifs()
	}
	t.inMotifs = make([]motifCounts, len(t.motifs))
	if t.labels != nil {
		t.seen = make([]labelState, len(t.labels.places))
	}
	return t
}

// Row is what a read came to.
type Row struct {
	Name    string
	Length  int     // bases
	Quality float64 // Phred of the mean error probability of its bases; NaN if it has no qualities

	Aligned        bool // the rest is of aligned reads only
	Contig         string
	Start, End     int // 0-based half open
	Reverse        bool
	MappingQuality uint8
	AlignedBases   int // called bases that are part of the alignment
	Matches        int
	Substitutions  int
	Inserted       int // bases
	Deleted        int // bases
}

// Columns is the number of columns of the alignment.
func (r *Row) Columns() int { return r.Matches + r.Substitutions + r.Inserted + r.Deleted }

// Identity is matches over columns.
func (r *Row) Identity() float64 { return float64(r.Matches) / float64(r.Columns()) }

// Add counts a read. a is its primary alignment and ref the whole contig that it is on;
// both are nil for a read that does not align. An alignment that contradicts the sequences
// is an error, and nothing is counted.
func (t *Tally) Add(read *align.Read, a *align.Alignment, ref []byte) (Row, error) {
	row := Row{Name: read.ID, Length: len(read.Seq), Quality: MeanQuality(read.Qualities)}
	if n := len(read.Qualities); n > 0 && n != len(read.Seq) {
		return row, fmt.Errorf("counting read %s: %d qualities for %d bases", read.ID, n, len(read.Seq))
	}
	if a != nil {
		if err := t.work.load(read, a, ref); err != nil {
			return row, fmt.Errorf("counting read %s: %w", read.ID, err)
		}
	}
	t.reads++
	t.bases += int64(row.Length)
	t.lengths[row.Length]++
	if len(read.Qualities) == 0 {
		t.withoutQualities++
	}
	if a != nil {
		t.countColumns(&row)
		t.countRuns()
		t.countContexts()
		row.Aligned, row.AlignedBases = true, a.QueryEnd-a.QueryStart
		row.Contig, row.Start, row.End, row.Reverse, row.MappingQuality = a.Contig, a.Start, a.End, a.Reverse, a.MappingQuality
		t.countRead(&row)
	}
	t.place(&row)
	return row, nil
}

// countRead counts figures of an aligned read as a whole.
func (t *Tally) countRead(row *Row) {
	identity := int64(math.Round(row.Identity() * identityUnit))
	t.aligned++
	t.alignedBases += int64(row.AlignedBases)
	t.clippedBases += int64(row.Length - row.AlignedBases)
	t.alignedShare += int64(math.Round(float64(row.AlignedBases) / float64(row.Length) * identityUnit))
	t.identity += identity
	t.identities[int32(math.Round(row.Identity()*identityBins))]++
	if !math.IsNaN(row.Quality) {
		q := &t.readQualities[min(maxQuality, int(row.Quality))]
		q.reads++
		q.identity += identity
	}
	c := t.contigs[row.Contig]
	if c == nil {
		c = new(contigCounts)
		t.contigs[row.Contig] = c
	}
	c.reads++
	c.bases += int64(row.AlignedBases)
	c.columns += int64(row.Columns())
	c.matches += int64(row.Matches)
	c.identity += identity
}

// countColumns counts the columns of the alignment in work.
func (t *Tally) countColumns(row *Row) {
	w := &t.work
	q, r := 0, 0
	for _, op := range w.ops {
		switch op.Kind {
		case align.Match, align.Mismatch:
			for range op.Len {
				called, truth := w.query[q], w.target[r]
				w.called[r] = called
				right := called == truth && called != noBase
				if right {
					row.Matches++
				} else {
					row.Substitutions++
				}
				if x, y := code(truth), code(called); x >= 0 && y >= 0 {
					t.pairs[x][y]++
				} else {
					t.ambiguous++
				}
				if len(w.qualities) > 0 {
					bin := &t.qualities[min(maxQuality, w.qualities[q])]
					bin.bases++
					if !right {
						bin.substitutions++
					}
				}
				q++
				r++
			}
		case align.Insertion:
			row.Inserted += op.Len
			t.inserted[min(maxGap, op.Len)]++
			w.inserted[r] = w.query[q : q+op.Len]
			for range op.Len {
				if w.lengthensRun(w.query[q], r) {
					t.homopolymerInserted++
				}
				if len(w.qualities) > 0 {
					bin := &t.qualities[min(maxQuality, w.qualities[q])]
					bin.bases++
					bin.insertions++
				}
				q++
			}
		case align.Deletion:
			row.Deleted += op.Len
			t.deleted[min(maxGap, op.Len)]++
			for range op.Len {
				w.called[r] = deleted
				if w.runs[r] >= homopolymer {
					t.homopolymerGone++
				}
				r++
			}
		}
	}
	t.matches += int64(row.Matches)
	t.substitutions += int64(row.Substitutions)
	t.insertions += int64(row.Inserted)
	t.deletions += int64(row.Deleted)
}

// lengthensRun reports whether base, inserted before position r of the target, lengthens a
// homopolymer.
func (w *workspace) lengthensRun(base byte, r int) bool {
	for _, n := range [2]int{r - 1, r} {
		if n >= 0 && n < len(w.target) && w.target[n] == base && w.runs[n] >= homopolymer {
			return true
		}
	}
	return false
}

// countRuns counts how homopolymers of the alignment in work were called.
func (t *Tally) countRuns() {
	w := &t.work
	for start := 0; start < len(w.target); start += int(w.runs[start]) {
		length := int(w.runs[start])
		end := start + length
		base := code(w.target[start])
		if start == 0 || end == len(w.target) || base < 0 {
			continue // the run may go on beyond the alignment
		}
		called, exact, substituted := 0, true, false
		for i := start; i < end; i++ {
			switch w.called[i] {
			case w.target[i]:
				called++
			case deleted:
				exact = false
			default:
				substituted, exact = true, false
			}
			if i == start {
				continue
			}
			for _, b := range w.inserted[i] {
				exact = false
				if b == w.target[start] {
					called++
				}
			}
		}
		// Beside the run only what touches it is part of it.
		before, after := w.inserted[start], w.inserted[end]
		for i := len(before) - 1; i >= 0 && before[i] == w.target[start]; i-- {
			called++
			exact = false
		}
		for i := 0; i < len(after) && after[i] == w.target[start]; i++ {
			called++
			exact = false
		}
		c := &t.runs[base][min(maxRun, length)]
		c.runs++
		c.called[min(maxCalled, called)]++
		difference := int64(called - length)
		c.difference += difference
		c.distance += max(difference, -difference)
		if exact {
			c.exact++
		}
		if substituted {
			c.substituted++
		}
	}
}

// at counts what became of position i of the target.
func (c *siteCounts) at(w *workspace, i int) {
	c.sites++
	switch w.called[i] {
	case deleted:
		c.deletions++
	case noBase:
		c.substitutions++
	default:
		if w.called[i] != w.target[i] {
			c.substitutions++
		}
	}
}

// countContexts counts errors by the bases around them, and in motifs.
func (t *Tally) countContexts() {
	w := &t.work
	index := 0 // of the three bases that end at i, with those before
	known := 0 // bases in a row that are bases
	for i, b := range w.target {
		t.sites.at(w, i)
		if i > 0 && len(w.inserted[i]) > 0 {
			t.sites.insertions++
		}
		x := code(b)
		if x < 0 {
			known = 0
			continue
		}
		known++
		index = (index<<2 | x) & 63
		if known < 3 {
			continue
		}
		c := &t.contexts[index]
		c.at(w, i-1)
		if len(w.inserted[i]) > 0 {
			c.insertions++
		}
	}
	for m := range t.motifs {
		t.countMotif(&t.motifs[m], &t.inMotifs[m])
	}
}

// countMotif counts errors in the occurrences of a motif. Occurrences can overlap: a base
// in two of them counts once.
func (t *Tally) countMotif(motif *Motif, c *motifCounts) {
	w := &t.work
	n := len(motif.masks)
	counted := 0    // positions before it are counted
	countedGap := 0 // insertions before positions up to it, too
	for start := 0; start+n <= len(w.target); start++ {
		if !motif.at(w.target[start:]) {
			continue
		}
		c.occurrences++
		exact := true
		for i := start; i < start+n; i++ {
			gap := i > start && len(w.inserted[i]) > 0
			exact = exact && !gap && w.called[i] == w.target[i]
			if i >= counted {
				c.at(w, i)
				counted = i + 1
			}
			if gap && i > countedGap {
				c.insertions++
				countedGap = i
			}
		}
		if exact {
			c.exact++
		}
	}
}

// Merge adds what another tally has counted. Both must have been made with the same
// options.
func (t *Tally) Merge(other *Tally) error {
	if len(t.motifs) != len(other.motifs) || t.labels != other.labels {
		return errors.New("merging tallies: they were made with different options")
	}
	a, b := &t.counts, &other.counts
	for _, p := range []struct{ to, from *int64 }{
		{&a.reads, &b.reads}, {&a.bases, &b.bases}, {&a.aligned, &b.aligned}, {&a.alignedBases, &b.alignedBases},
		{&a.clippedBases, &b.clippedBases}, {&a.alignedShare, &b.alignedShare}, {&a.identity, &b.identity},
		{&a.matches, &b.matches}, {&a.substitutions, &b.substitutions}, {&a.insertions, &b.insertions},
		{&a.deletions, &b.deletions}, {&a.ambiguous, &b.ambiguous}, {&a.homopolymerInserted, &b.homopolymerInserted},
		{&a.homopolymerGone, &b.homopolymerGone}, {&a.withoutQualities, &b.withoutQualities},
	} {
		*p.to += *p.from
	}
	for i := range a.pairs {
		addAll(a.pairs[i][:], b.pairs[i][:])
	}
	addAll(a.inserted[:], b.inserted[:])
	addAll(a.deleted[:], b.deleted[:])
	for base := range a.runs {
		for n := range a.runs[base] {
			a.runs[base][n].add(&b.runs[base][n])
		}
	}
	for i := range a.contexts {
		a.contexts[i].add(b.contexts[i])
	}
	a.sites.add(b.sites)
	for i := range a.qualities {
		to, from := &a.qualities[i], b.qualities[i]
		to.bases += from.bases
		to.substitutions += from.substitutions
		to.insertions += from.insertions
		a.readQualities[i].reads += b.readQualities[i].reads
		a.readQualities[i].identity += b.readQualities[i].identity
	}
	for i := range a.inMotifs {
		to, from := &a.inMotifs[i], b.inMotifs[i]
		to.occurrences += from.occurrences
		to.exact += from.exact
		to.add(from.siteCounts)
	}
	for k, n := range other.lengths {
		t.lengths[k] += n
	}
	for k, n := range other.identities {
		t.identities[k] += n
	}
	for name, from := range other.contigs {
		to := t.contigs[name]
		if to == nil {
			to = new(contigCounts)
			t.contigs[name] = to
		}
		to.reads += from.reads
		to.bases += from.bases
		to.columns += from.columns
		to.matches += from.matches
		to.identity += from.identity
	}
	for i, s := range other.seen {
		t.seen[i] |= s
	}
	return nil
}

func addAll(to, from []int64) {
	for i, n := range from {
		to[i] += n
	}
}

func (c *siteCounts) add(from siteCounts) {
	c.sites += from.sites
	c.substitutions += from.substitutions
	c.insertions += from.insertions
	c.deletions += from.deletions
}

// errors is how many sites something is wrong at, an insertion with the site before it.
func (c *siteCounts) errors() int64 { return c.substitutions + c.insertions + c.deletions }

// MeanQuality is the Phred quality of the mean error probability of bases, as it is
// reported for a whole read; NaN without any.
func MeanQuality(qualities []byte) float64 {
	if len(qualities) == 0 {
		return math.NaN()
	}
	var by [256]int
	for _, q := range qualities {
		by[q]++
	}
	sum := 0.0
	for q, n := range by {
		if n > 0 {
			sum += float64(float64(n) * math.Pow(10, -float64(q)/10))
		}
	}
	return -10 * math.Log10(sum/float64(len(qualities)))
}

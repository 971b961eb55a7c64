package eval

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// SchemaVersion is the version of a Report in JSON. Fields are added without a new one;
// one that changes its meaning or goes takes it up.
const SchemaVersion = 1

// Calibration is evaluated over these predicted qualities, in bins of this many bases
// and more: with fewer the observed quality is chance.
const (
	CalibrationLow, CalibrationHigh = 5, 20
	CalibrationBases                = 1000
)

// Report is what reads came to. Shares are within 0 to 1; one of nothing is nil, and so is
// what reads have not. docs/files/evaluating-basecalls.md explains each figure.
type Report struct {
	SchemaVersion int        `json:"schema_version"`
	Reads         Reads      `json:"reads"`
	Identity      Identity   `json:"identity"`
	Errors        Errors     `json:"errors"`
	Confusion     Confusion  `json:"confusion"`
	Insertions    []Lengths  `json:"insertion_lengths"`
	Deletions     []Lengths  `json:"deletion_lengths"`
	Homopolymers  []Run      `json:"homopolymers"`
	Contexts      []Context  `json:"contexts"` // the worst first
	Motifs        []InMotif  `json:"motifs"`
	Qualities     *Qualities `json:"qualities,omitempty"`
	Contigs       []Contig   `json:"contigs"` // the one with the most bases first
	Labels        *Labelled  `json:"labels,omitempty"`
}

// Reads are figures of reads as a whole.
type Reads struct {
	Reads       int64    `json:"reads"`
	Bases       int64    `json:"bases"`
	N50         int      `json:"n50"` // half of the bases are in reads of this length and more
	Aligned     int64    `json:"aligned"`
	AlignedRate *float64 `json:"aligned_share"` // of the reads
	// AlignedBases and ClippedBases are those of the reads that align: what is part of the
	// alignment, and what isn't.
	AlignedBases int64    `json:"aligned_bases"`
	ClippedBases int64    `json:"clipped_bases"`
	ClippedRate  *float64 `json:"clipped_share"`     // of the bases of the reads that align
	AlignedPart  *float64 `json:"aligned_part_mean"` // mean over the reads that align of the share of their bases that does
}

// Identity is over the reads that align.
type Identity struct {
	Mean   *float64 `json:"mean"`
	Median *float64 `json:"median"` // within 0.00001
	// Histogram has the reads with an identity of i to i+1 %, those of 100 % in the last.
	Histogram [100]int64 `json:"histogram"`
}

// Errors are the columns of all alignments by kind, and their shares of all columns.
type Errors struct {
	Columns       int64 `json:"columns"`
	Matches       int64 `json:"matches"`
	Substitutions int64 `json:"substitutions"`
	Insertions    int64 `json:"insertions"` // bases
	Deletions     int64 `json:"deletions"`  // bases
	// HomopolymerInsertions lengthen, and HomopolymerDeletions shorten, runs of three equal
	// bases of the reference and more.
	HomopolymerInsertions int64 `json:"homopolymer_insertions"`
	HomopolymerDeletions  int64 `json:"homopolymer_deletions"`
	PerColumn             Rates `json:"per_column"`
	PerKilobase           Rates `json:"per_kilobase"` // of the reference under the alignments
}

// Rates are errors by kind, over something.
type Rates struct {
	Substitutions *float64 `json:"substitutions"`
	Insertions    *float64 `json:"insertions"`
	Deletions     *float64 `json:"deletions"`
	All           *float64 `json:"all"`
}

// Confusion shows which bases are called as which.
type Confusion struct {
	// Counts has a row for each base of the reference, A, C, G, T in the direction of the
	// read, and a column for what is called.
	Counts [4][4]int64 `json:"counts"`
	// Ambiguous are substitutions with a letter that is none of the four bases.
	Ambiguous int64 `json:"ambiguous"`
}

// Lengths is the number of gaps of a length.
type Lengths struct {
	Length int   `json:"length"` // the longest: this and more
	Count  int64 `json:"count"`
}

// Run is how the homopolymers of a base and a length are called.
type Run struct {
	Base   string `json:"base"`   // A, C, G or T, or all
	Length int    `json:"length"` // the longest: this and more
	Runs   int64  `json:"runs"`
	// Exact is the share that is called right.
	Exact *float64 `json:"exact"`
	// Substituted is the share with a substitution, which shortens the run without a gap.
	Substituted *float64 `json:"substituted"`
	MeanError   *float64 `json:"mean_error"`          // called less true length, in bases
	MeanSize    *float64 `json:"mean_absolute_error"` // bases
	// Called has the number of runs by called length, from 0; the last: that and more.
	Called []int64 `json:"called"`
}

// Context is what becomes of the middle one of three bases.
type Context struct {
	Bases         string   `json:"bases"`
	Sites         int64    `json:"sites"`
	Substitutions int64    `json:"substitutions"`
	Insertions    int64    `json:"insertions"` // behind the base; one of any length counts once
	Deletions     int64    `json:"deletions"`
	Rate          *float64 `json:"error_rate"` // errors per site
}

// InMotif is what becomes of the bases of a motif.
type InMotif struct {
	Motif         string   `json:"motif"`
	Occurrences   int64    `json:"occurrences"`
	Exact         *float64 `json:"exact"` // share that is spelled right
	Sites         int64    `json:"sites"` // bases of the reference in it
	Substitutions int64    `json:"substitutions"`
	Insertions    int64    `json:"insertions"` // within it
	Deletions     int64    `json:"deletions"`
	Rate          *float64 `json:"error_rate"`           // errors per site
	Elsewhere     *float64 `json:"error_rate_elsewhere"` // of all other bases
}

// Qualities show how far predicted qualities can be believed.
type Qualities struct {
	Bins []QualityBin `json:"bins"`
	// Deviation is the largest distance of observed from predicted quality of the bins from
	// CalibrationLow to CalibrationHigh with CalibrationBases and more, DeviationAt where it is.
	Deviation   *float64 `json:"max_deviation"`
	DeviationAt int      `json:"max_deviation_at"`
	// MeanDeviation is the mean distance of all bins, weighted by bases.
	MeanDeviation *float64         `json:"mean_deviation"`
	Reads         []ReadQualityBin `json:"reads"`
	Without       int64            `json:"reads_without"` // reads without qualities
}

// QualityBin is the aligned bases of one predicted quality.
type QualityBin struct {
	Quality       int     `json:"quality"`
	Bases         int64   `json:"bases"`
	Substitutions int64   `json:"substitutions"`
	Insertions    int64   `json:"insertions"`
	Observed      float64 `json:"observed"` // Phred; of half an error where there is none
	// Between are the qualities that would leave that many wrong bases likely: the score
	// interval of 95 % (Wilson 1927), as if bases were wrong independently of each other.
	Between [2]float64 `json:"observed_95"`
}

// wrong is the number of wrong bases.
func (b QualityBin) wrong() int64 { return b.Substitutions + b.Insertions }

// ReadQualityBin is the reads that align with a mean quality of Quality to Quality+1.
type ReadQualityBin struct {
	Quality  int     `json:"quality"`
	Reads    int64   `json:"reads"`
	Identity float64 `json:"identity_mean"`
	Observed float64 `json:"observed"` // that identity as Phred, which deletions count in too
}

// Contig is what aligns to a contig.
type Contig struct {
	Name     string  `json:"name"`
	Reads    int64   `json:"reads"`
	Bases    int64   `json:"aligned_bases"`
	Mean     float64 `json:"identity_mean"`
	Accuracy float64 `json:"matches_per_column"`
}

// Labelled shows what became of reads whose place is known.
type Labelled struct {
	Reads   int      `json:"reads"` // with a label
	Called  int      `json:"called"`
	Aligned int      `json:"aligned"`
	Placed  int      `json:"placed"` // aligned where the label says
	Rate    *float64 `json:"aligned_share"`
	Right   *float64 `json:"placed_share"`
}

// Report says what was counted so far.
func (t *Tally) Report() *Report {
	r := &Report{
		SchemaVersion: SchemaVersion, Confusion: Confusion{t.pairs, t.ambiguous},
		Insertions: lengths(t.inserted[:]), Deletions: lengths(t.deleted[:]),
		Homopolymers: t.homopolymers(), Contexts: t.worst(), Contigs: t.byContig(), Motifs: make([]InMotif, 0, len(t.motifs)),
	}
	r.Reads = Reads{
		Reads: t.reads, Bases: t.bases, N50: t.n50(), Aligned: t.aligned, AlignedRate: ratio(t.aligned, t.reads),
		AlignedBases: t.alignedBases, ClippedBases: t.clippedBases, ClippedRate: ratio(t.clippedBases, t.clippedBases+t.alignedBases),
		AlignedPart: ratio(t.alignedShare, t.aligned*identityUnit),
	}
	r.Identity.Mean, r.Identity.Median = ratio(t.identity, t.aligned*identityUnit), t.median()
	for i, n := range t.identities {
		r.Identity.Histogram[min(99, int(i)/(identityBins/100))] += n
	}
	onReference := t.matches + t.substitutions + t.deletions
	columns := onReference + t.insertions
	r.Errors = Errors{
		Columns: columns, Matches: t.matches, Substitutions: t.substitutions, Insertions: t.insertions, Deletions: t.deletions,
		HomopolymerInsertions: t.homopolymerInserted, HomopolymerDeletions: t.homopolymerGone,
		PerColumn: t.rates(1, columns), PerKilobase: t.rates(1000, onReference),
	}
	for i, m := range t.motifs {
		c := &t.inMotifs[i]
		r.Motifs = append(r.Motifs, InMotif{
			Motif: m.String(), Occurrences: c.occurrences, Exact: ratio(c.exact, c.occurrences), Sites: c.sites,
			Substitutions: c.substitutions, Insertions: c.insertions, Deletions: c.deletions,
			Rate: ratio(c.errors(), c.sites), Elsewhere: ratio(t.sites.errors()-c.errors(), t.sites.sites-c.sites),
		})
	}
	if t.reads > t.withoutQualities {
		r.Qualities = t.calibration()
	}
	if t.labels != nil {
		l := &Labelled{Reads: len(t.seen)}
		for _, s := range t.seen {
			l.Called += int(s & wasCalled / wasCalled)
			l.Aligned += int(s & wasAligned / wasAligned)
			l.Placed += int(s & wasPlaced / wasPlaced)
		}
		l.Rate, l.Right = ratio(int64(l.Aligned), int64(l.Reads)), ratio(int64(l.Placed), int64(l.Reads))
		r.Labels = l
	}
	return r
}

// ratio is a/b, nil if b is 0.
func ratio(a, b int64) *float64 {
	if b == 0 {
		return nil
	}
	return new(float64(a) / float64(b))
}

func (t *Tally) rates(per float64, n int64) Rates {
	rate := func(events int64) *float64 {
		if n == 0 {
			return nil
		}
		return new(float64(events) * per / float64(n))
	}
	return Rates{rate(t.substitutions), rate(t.insertions), rate(t.deletions), rate(t.substitutions + t.insertions + t.deletions)}
}

func (t *Tally) n50() int {
	left := t.bases
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(t.lengths))) {
		if left -= int64(n) * t.lengths[n]; 2*left <= t.bases {
			return n
		}
	}
	return 0
}

// median is the middle identity, or the mean of the two in the middle.
func (t *Tally) median() *float64 {
	if t.aligned == 0 {
		return nil
	}
	bins := slices.Sorted(maps.Keys(t.identities))
	at := func(rank int64) float64 { // rank from 0
		for _, i := range bins {
			if rank -= t.identities[i]; rank < 0 {
				return float64(i) / identityBins
			}
		}
		return math.NaN() // not reached
	}
	return new((at((t.aligned-1)/2) + at(t.aligned/2)) / 2)
}

func lengths(counts []int64) []Lengths {
	out := []Lengths{}
	for n, count := range counts {
		if count > 0 {
			out = append(out, Lengths{n, count})
		}
	}
	return out
}

func (t *Tally) homopolymers() []Run {
	out := make([]Run, 0, 5*maxRun)
	for base := -1; base < 4; base++ {
		for length := 1; length <= maxRun; length++ {
			var c runCounts
			name := "all"
			if base >= 0 {
				c, name = t.runs[base][length], "ACGT"[base:base+1]
			} else {
				for b := range t.runs {
					c.add(&t.runs[b][length])
				}
			}
			out = append(out, Run{
				Base: name, Length: length, Runs: c.runs, Exact: ratio(c.exact, c.runs), Substituted: ratio(c.substituted, c.runs),
				MeanError: ratio(c.difference, c.runs), MeanSize: ratio(c.distance, c.runs), Called: slices.Clone(c.called[:]),
			})
		}
	}
	return out
}

// worst lists contexts with the highest error rate first, those that don't occur last.
func (t *Tally) worst() []Context {
	out := make([]Context, 0, len(t.contexts))
	for i, c := range t.contexts {
		bases := string([]byte{"ACGT"[i>>4], "ACGT"[i>>2&3], "ACGT"[i&3]})
		out = append(out, Context{bases, c.sites, c.substitutions, c.insertions, c.deletions, ratio(c.errors(), c.sites)})
	}
	rate := func(c Context) float64 {
		if c.Rate == nil {
			return -1
		}
		return *c.Rate
	}
	slices.SortStableFunc(out, func(a, b Context) int { return cmp.Compare(rate(b), rate(a)) })
	return out
}

func (t *Tally) byContig() []Contig {
	out := make([]Contig, 0, len(t.contigs))
	for name, c := range t.contigs {
		out = append(out, Contig{
			Name: name, Reads: c.reads, Bases: c.bases, Mean: float64(c.identity) / identityUnit / float64(c.reads),
			Accuracy: float64(c.matches) / float64(c.columns),
		})
	}
	slices.SortFunc(out, func(a, b Contig) int {
		return cmp.Or(cmp.Compare(b.Bases, a.Bases), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// calibration compares predicted with observed qualities.
func (t *Tally) calibration() *Qualities {
	out := &Qualities{Bins: []QualityBin{}, Reads: []ReadQualityBin{}, Without: t.withoutQualities}
	bases, distance := int64(0), 0.0
	for q, c := range t.qualities {
		if c.bases == 0 {
			continue
		}
		bin := QualityBin{Quality: q, Bases: c.bases, Substitutions: c.substitutions, Insertions: c.insertions}
		bin.Observed = phred(max(float64(bin.wrong()), 0.5) / float64(c.bases))
		least, most := scoreInterval(bin.wrong(), c.bases)
		bin.Between = [2]float64{phred(most), phred(max(least, 1e-9))}
		out.Bins = append(out.Bins, bin)
		off := math.Abs(bin.Observed - float64(q))
		bases += c.bases
		distance += float64(off * float64(c.bases))
		if q >= CalibrationLow && q <= CalibrationHigh && c.bases >= CalibrationBases && (out.Deviation == nil || off > *out.Deviation) {
			out.Deviation, out.DeviationAt = &off, q
		}
	}
	if bases > 0 {
		out.MeanDeviation = new(distance / float64(bases))
	}
	for q, c := range t.readQualities {
		if c.reads > 0 {
			identity := float64(c.identity) / identityUnit / float64(c.reads)
			out.Reads = append(out.Reads, ReadQualityBin{q, c.reads, identity, phred(max(1-identity, 1e-9))})
		}
	}
	return out
}

// scoreInterval is the least and the most probability of an event that came k times of n
// and lies no further from k/n than 95 % of such counts would.
func scoreInterval(k, n int64) (least, most float64) {
	const z = 1.959963984540054 // that 2.5 % of a normal distribution exceed
	share, trials := float64(k)/float64(n), float64(n)
	middle := share + z*z/(2*trials)
	reach := float64(z * math.Sqrt(share*(1-share)/trials+z*z/(4*trials*trials)))
	scale := 1 + z*z/trials
	return max(0, (middle-reach)/scale), min(1, (middle+reach)/scale)
}

// phred is a probability in decibels.
func phred(p float64) float64 { return max(0, -10*math.Log10(p)) }

func (c *runCounts) add(from *runCounts) {
	c.runs += from.runs
	c.exact += from.exact
	c.substituted += from.substituted
	c.difference += from.difference
	c.distance += from.distance
	addAll(c.called[:], from.called[:])
}

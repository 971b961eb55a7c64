package variant

import (
	"math"
	"slices"
)

// Block is a stretch without a call whose positions say equally surely that there
// is no variant.
type Block struct {
	Span
	// Depth is the median, MinDepth the least number of reads per position,
	// deletions included.
	Depth, MinDepth int
	// Quality is the least Phred-scaled probability, at any of its positions, that
	// there is a variant; at most 99.
	Quality int
	// Likelihoods are, for each genotype of the reference and one other allele, the
	// least Phred-scaled likelihood at any position: of no copy and one, in diploids
	// of none, one and two. That of the reference is 0 at all positions or at none.
	Likelihoods []int
}

// NoCall says that the reads don't say that it is the reference: there are none, or some
// other allele explains them better, although none is called.
func (b *Block) NoCall() bool { return b.MinDepth == 0 || b.Likelihoods[0] > 0 }

// Callability says what the reads allow to be said about a position.
type Callability uint8

// In the order in which they are checked.
const (
	Ambiguous         Callability = iota // the reference base is not known
	NoCoverage                           // no read lies there
	Callable                             // enough reads to find a variant by
	LowMappingQuality                    // enough reads, but they may belong elsewhere
	LowDepth                             // too few reads
)

// String is the name in a callable BED.
func (c Callability) String() string {
	return [...]string{"N", "NO_COVERAGE", "CALLABLE", "LOW_MAPPING_QUALITY", "LOW_DEPTH"}[c]
}

// CallableSpan is a stretch of one callability.
type CallableSpan struct {
	Span
	Callability Callability
}

// SurveyConfig says what a survey is to find. Every zero number means its default.
type SurveyConfig struct {
	Blocks   bool
	Callable bool
	// QualityBand is the width of the bands of Quality; a block stays within one.
	// Qualities from 50 on are one band. Default 10.
	QualityBand int
	// MinDepth is the number of usable reads from which on a position is callable:
	// those that a substitution would be put to. Default 6.
	MinDepth int
	// MaxLowMapping is the share of reads with a mapping quality below
	// Config.MinMappingQuality above which a position isn't callable. Default 0.5.
	MaxLowMapping float64
}

// WithDefaults fills in the defaults.
func (c SurveyConfig) WithDefaults() SurveyConfig {
	def(&c.QualityBand, 10)
	def(&c.MinDepth, 6)
	def(&c.MaxLowMapping, 0.5)
	return c
}

// sureQuality is the quality from which on it doesn't matter how much higher it is.
// With noisy reads it would change at nearly every position.
const sureQuality = 50

// band is the number of the band that a quality is in.
func (c SurveyConfig) band(quality int) int { return min(quality, sureQuality) / c.QualityBand }

// Survey is what a region says where it says nothing of variants. Both lists are
// by position and without a gap within what was asked for; blocks leave out the rows.
type Survey struct {
	Blocks   []Block
	Callable []CallableSpan
}

// Survey examines the positions that lie in within, whose spans are ascending and
// disjoint, and in the region's core. rows are the REF spans of its variants,
// ascending, which no block may overlap. Like Finalize it depends on the set of
// segments only.
//
// Problem: a place without a call may have thirty reads that show the reference,
// or none.
//
// Assumptions: reads are independent, and show something else than the reference
// as often as the region's reads do in that context: the five bases around for
// substitutions, the homopolymer run for the gaps that begin there.
//
// Strategy: at each position the reads are counted that show the reference and
// nothing else, and those that don't; the likelihoods of no copy, and of one or two
// of some other allele, follow.
//
// Consequences: where errors are frequent more reads are needed for the same
// quality; where as many reads disagree as a variant would make, the quality is 0
// even though no allele was called, and so is the genotype unknown.
func (r *Region) Survey(cfg SurveyConfig, within, rows []Span) Survey {
	cfg = cfg.WithDefaults()
	s := surveyor{region: r, cfg: cfg, median: make([]int32, r.cfg.MaxDepth+1)}
	if cfg.Blocks {
		s.noise = newNoise(r.errorModel())
	}
	if cfg.Callable {
		s.low = r.uncertain()
	}
	for _, span := range within {
		for at := max(span.Start, r.start); at < min(span.End, r.end); {
			t := r.tileAt(at)
			end := min(span.End, r.tileEnd(t))
			for len(rows) > 0 && rows[0].End <= at {
				rows = rows[1:]
			}
			s.tile(t, Span{at, end}, rows)
			at = end
		}
	}
	s.endBlock()
	return s.found
}

// uncertain counts, for each position of the core from its first, the reads that map
// there with too low a quality; nil: none.
func (r *Region) uncertain() []int32 {
	var low []int32 // until the end, differences
	for i := range r.reads.table {
		rd := &r.reads.table[i]
		if !rd.is(readUncertain) {
			continue
		}
		start, end := max(int(rd.start)+r.reach(), r.start), min(int(rd.end)+r.reach(), r.end)
		if start >= end {
			continue
		}
		if low == nil {
			low = make([]int32, r.end-r.start+1)
		}
		low[start-r.start]++
		low[end-r.start]--
	}
	for i := 1; i < len(low); i++ {
		low[i] += low[i-1]
	}
	return low
}

// Reference surveys the whole core, around the variants that were called, for the
// stream, which publishes the survey once a region is final. revision grows with what
// the region knows, and is 1 without a read. There is nothing new, and ok is false,
// until a segment has come after the last call; the survey's settings must not
// change.
func (r *Region) Reference(cfg SurveyConfig) (found Survey, revision uint64, ok bool) {
	revision = uint64(r.Segments()) + 1
	if revision == r.reported {
		return Survey{}, revision, false
	}
	rows := r.rows()
	r.version++
	r.reported = revision
	return r.Survey(cfg, []Span{{r.start, r.end}}, rows), revision, true
}

// Provisional returns the blocks of each of some stretches of the core by the reads so far, around what is called so far. Blocks end where a stretch does.
// No state changes.
func (r *Region) Provisional(cfg SurveyConfig, stretches []Span) [][]Block {
	cfg.Blocks, cfg.Callable = true, false
	rows := r.rows()
	found := make([][]Block, len(stretches))
	for i, stretch := range stretches { // each by itself, as a block goes on where stretches touch
		found[i] = r.Survey(cfg, []Span{stretch}, rows).Blocks
	}
	return found
}

// rows are the REF spans of the variants that are called now.
func (r *Region) rows() []Span {
	var rows []Span
	for t := range r.tiles {
		for _, a := range r.publishing.alive(t) {
			rows = append(rows, Span{int(a.call.GetPos()) - 1, int(a.call.GetPos()) - 1 + len(a.call.GetRef())})
		}
	}
	r.publishing.rest()
	return Union(rows)
}

// LeastMappingQuality is MinMappingQuality, or its default.
func (c Config) LeastMappingQuality() int { return c.withDefaults().MinMappingQuality }

// Restrict makes Finalize leave out the tiles that hold nothing of within, which is
// ascending and disjoint. What all reads of the region teach of errors and of
// haplotypes stays known, so the calls of the others are those of the whole region.
func (r *Region) Restrict(within []Span) {
	r.leftOut = make([]bool, len(r.tiles))
	for t := range r.tiles {
		for len(within) > 0 && within[0].End <= r.tileStart(t) {
			within = within[1:]
		}
		r.leftOut[t] = len(within) == 0 || within[0].Start >= r.tileEnd(t)
	}
}

// leaves reports whether a tile is left out.
func (r *Region) leaves(t int) bool { return r.leftOut != nil && r.leftOut[t] }

// surveyor makes a survey.
type surveyor struct {
	region *Region
	cfg    SurveyConfig
	low    []int32 // reads of too low a mapping quality by position of the core; nil: none
	noise  *noise
	found  Survey

	columns []column
	usable  []int32

	open   bool // a block is open
	block  Block
	median []int32 // positions of the open block by depth
}

// column is what the reads show at one position: how many there are, and by
// strand, how many show the reference and nothing else, and how many something else.
type column struct {
	depth      int32
	ref, other [2]int32
}

// tile surveys a part of tile t.
func (s *surveyor) tile(t int, span Span, rows []Span) {
	r := s.region
	m := &r.work.scratch
	empty := r.tiles[t].reads == 0
	if !empty {
		m.load(r, t)
		s.columns = m.agreement(s.columns)
		if s.cfg.Callable {
			s.usable = m.usable(&r.work.aligner, r.contig.Seq, s.usable)
		}
	}
	for pos := span.Start; pos < span.End; pos++ {
		var col column
		var usable int32
		if !empty {
			col = s.columns[pos-m.lo]
			if s.cfg.Callable {
				usable = s.usable[pos-m.lo]
			}
		}
		if s.cfg.Callable {
			s.callable(pos, int(col.depth), int(usable))
		}
		if !s.cfg.Blocks {
			continue
		}
		for len(rows) > 0 && rows[0].End <= pos {
			rows = rows[1:]
		}
		if len(rows) > 0 && rows[0].Start <= pos {
			s.endBlock()
			continue
		}
		s.reference(pos, col)
	}
}

// callable adds a position to the callable spans.
func (s *surveyor) callable(pos, depth, usable int) {
	low := 0
	if s.low != nil {
		low = int(s.low[pos-s.region.start])
	}
	is := LowDepth
	switch {
	case baseCode[s.region.contig.Seq[pos]] > 3:
		is = Ambiguous
	case depth+low == 0:
		is = NoCoverage
	case float64(low) > s.cfg.MaxLowMapping*float64(depth+low) && depth+low >= s.cfg.MinDepth,
		usable < s.cfg.MinDepth && usable+low >= s.cfg.MinDepth:
		is = LowMappingQuality
	case usable >= s.cfg.MinDepth:
		is = Callable
	}
	list := s.found.Callable
	if n := len(list); n > 0 && list[n-1].End == pos && list[n-1].Callability == is {
		list[n-1].End++
		return
	}
	s.found.Callable = append(list, CallableSpan{Span{pos, pos + 1}, is})
}

// reference adds a position to the open block, or begins another one.
func (s *surveyor) reference(pos int, col column) {
	depth := int(col.depth)
	pl, quality := s.likelihoods(pos, col)
	b := &s.block
	if !s.open || b.End != pos || s.cfg.band(quality) != s.cfg.band(b.Quality) ||
		(depth == 0) != (b.MinDepth == 0) || len(pl) != len(b.Likelihoods) || (pl[0] > 0) != (b.Likelihoods[0] > 0) {
		s.endBlock()
		s.open = true
		*b = Block{Span: Span{pos, pos + 1}, MinDepth: depth, Quality: quality, Likelihoods: pl}
		s.median[depth]++
		return
	}
	b.End++
	b.MinDepth = min(b.MinDepth, depth)
	b.Quality = min(b.Quality, quality)
	for i := range pl {
		b.Likelihoods[i] = min(b.Likelihoods[i], pl[i])
	}
	s.median[depth]++
}

// endBlock closes the open block.
func (s *surveyor) endBlock() {
	if !s.open {
		return
	}
	s.open = false
	half := int32(s.block.End-s.block.Start+1) / 2
	for depth, n := range s.median {
		if half -= n; half <= 0 {
			s.block.Depth = depth
			break
		}
	}
	clear(s.median)
	s.found.Blocks = append(s.found.Blocks, s.block)
}

// likelihoods are the Phred-scaled likelihoods at a position, and how sure the
// reads are that it is the reference.
func (s *surveyor) likelihoods(pos int, col column) (pl []int, quality int) {
	shares := otherShares(s.region.cfg.PloidyAt(s.region.contig.Name, pos))
	logs := make([]float64, 1, len(shares)+1)
	if col.ref[0]+col.ref[1]+col.other[0]+col.other[1] == 0 {
		return make([]int, len(shares)+1), 0
	}
	rates := s.noise.at(s.region.contig.Seq, pos)
	for strand, e := range rates {
		logs[0] += logCounts(e, col.ref[strand], col.other[strand])
	}
	for _, share := range shares {
		sum := 0.0
		for strand, e := range rates {
			// A read of the other allele shows the reference by error as often as the
			// other way round.
			sum += logCounts(float64(share*(1-e))+float64((1-share)*e), col.ref[strand], col.other[strand])
		}
		logs = append(logs, sum)
	}
	best := slices.Max(logs)
	for _, l := range logs {
		pl = append(pl, int(math.Round(min(maxLikelihood, (best-l)*10/math.Ln10))))
	}
	if pl[0] == 0 {
		quality = min(maxQual, slices.Min(pl[1:]))
	}
	return pl, quality
}

// maxLikelihood caps likelihoods, which are of no more use beyond.
const maxLikelihood = 990

// logCounts is the log likelihood of reads of which a share other is expected to
// show something else than the reference.
func logCounts(other float64, ref, others int32) float64 {
	return float64(float64(ref)*math.Log(1-other)) + float64(float64(others)*math.Log(other))
}

// otherShares are the shares of molecules that carry another allele, in the
// genotypes beside that of the reference only.
func otherShares(p Ploidy) []float64 {
	if genotypeSize(p) == 1 {
		return []float64{1}
	}
	return []float64{0.5, 1}
}

// agreement counts, for each column of the matrix, the reads that show the reference.
func (m *matrix) agreement(list []column) []column {
	list = append(list[:0], make([]column, m.hi-m.lo)...)
	for i := range m.rows {
		w := &m.rows[i]
		strand := strandIndex(w.seg.reverse)
		ins := w.ins
		for c := w.from; c < w.to; c++ {
			for len(ins) > 0 && ins[0].after < c {
				ins = ins[1:]
			}
			code := w.code[c]
			if code == absent {
				continue
			}
			list[c].depth++
			switch {
			case code == baseN || m.ref[c] > 3:
			case code == m.ref[c] && (len(ins) == 0 || ins[0].after != c):
				list[c].ref[strand]++
			default:
				list[c].other[strand]++
			}
		}
	}
	return list
}

// noise is how often reads of the reference show something else.
type noise struct {
	mismatch  [kmerCount]float64 // by the bases that the pore saw
	deletion  [maxRun + 1][4]float64
	insertion [maxRun + 1][4]float64
	inGap     float64 // a deletion that began before
	elsewhere float64 // insertions that lengthen no run
}

// Bounds of a rate at one position: no context is as clean, or as hopeless, as
// few observations may suggest.
const (
	minNoise = 0.002
	maxNoise = 0.35
)

func newNoise(model *errorModel) *noise {
	c := model.counts
	var n noise
	for k := range kmer(kmerCount) {
		for b := range byte(4) {
			if b != k.middle() {
				n.mismatch[k] += model.confusion(k, b, 0, 0)
			}
		}
	}
	var deletions uint64
	for run := 1; run <= maxRun; run++ {
		for b := range 4 {
			n.deletion[run][b] = rate(c.deletions[run][b], c.runs[run][b], model.prior.Deletion[run])
			n.insertion[run][b] = rate(c.insertions[run][b], c.runs[run][b], model.prior.Insertion[run])
			deletions += c.deletions[run][b]
		}
	}
	n.inGap = rate(c.deletedBases-min(c.deletedBases, deletions), c.positions, model.prior.Gaps*model.prior.Extension)
	n.elsewhere = rate(c.others, c.positions, model.prior.Other)
	return &n
}

// at is the rate at a position by strand. Gaps lie as far left as they go, so those
// of a run are counted where it begins.
func (n *noise) at(ref []byte, pos int) (rates [2]float64) {
	for strand := range rates {
		reverse := strand == 1
		e := n.mismatch[kmerAt(ref, pos, reverse)] + n.inGap + n.elsewhere
		if b := baseCode[ref[pos]]; b < 4 && (pos == 0 || ref[pos-1] != ref[pos]) {
			e += n.deletion[min(runFrom(ref, pos), maxRun)][strandBase(b, reverse)]
		}
		if next := pos + 1; next < len(ref) && ref[next] != ref[pos] && baseCode[ref[next]] < 4 {
			e += n.insertion[min(runFrom(ref, next), maxRun)][strandBase(baseCode[ref[next]], reverse)]
		}
		rates[strand] = min(maxNoise, max(minNoise, e))
	}
	return rates
}

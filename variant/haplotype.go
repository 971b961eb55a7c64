package variant

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/porestream/porestream/variant/phase"
)

// haplotypes is which reads of a diploid region are of one haplotype.
//
// Strategy: substitutions that are heterozygous beyond doubt, by the aligned bases
// alone, tie the reads together (package phase). No network is needed for that, so
// both the haplotypes that a network is given and the phasing of its calls can
// rest on it.
//
// Consequences: what lies far from any clear heterozygous substitution has no
// haplotype; phase sets end at the borders of regions.
type haplotypes struct {
	sites []phasedSite      // by position
	marks map[uint32][]mark // by number of a segment: what its read shows at phased sites, by position
}

// mark is what a read shows at a phased site.
type mark struct {
	pos int32 // 0-based
	set int32 // position of the phase set's first site
	llr int32 // log likelihood ratio of haplotype 1 over 2, in milli-Phred
}

// hetSite is a substitution that a column shows to be heterozygous; bases are
// codes.
type hetSite struct {
	pos      int
	ref, alt byte
}

// phasedSite is one that ties reads together.
type phasedSite struct {
	hetSite
	set     int32   // position of the phase set's first site
	swapped bool    // haplotype 1 has the alternate base
	quality float64 // Phred-scaled probability that it is the other
}

const (
	// hetMinOdds is by how much two haplotypes have to explain a column better
	// than one, as a power of ten.
	hetMinOdds = 2
	// hetMinError is the least rate of wrong bases that one haplotype is granted.
	hetMinError = 0.05
	// hetMaxOthers is the largest share of reads that show neither allele.
	hetMaxOthers = 0.3
	// hetMinStrand is the least share of either allele on a strand, from
	// hetStrandReads reads on: errors that follow the strand are none of the sample.
	hetMinStrand   = 0.1
	hetStrandReads = 4
)

// phasedTiles is how many tiles on either side of one are read to find the
// haplotypes of its reads while the run goes on: about the length of a read.
const phasedTiles = 8

// outlinedTiles is how many tiles are searched for sites together, as each time all of the region's
// reads are asked whether they reach there.
const outlinedTiles = 4

// allTiles are the region's.
func (r *Region) allTiles() iter.Seq[int] {
	return func(yield func(int) bool) {
		for t := range r.tiles {
			if !yield(t) {
				return
			}
		}
	}
}

// tilesAround are those not more than n tiles from one of the given ones, which
// ascend.
func (r *Region) tilesAround(tiles []int, n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		next := 0
		for _, t := range tiles {
			for next = max(next, t-n); next <= min(t+n, len(r.tiles)-1); next++ {
				if !yield(next) {
					return
				}
			}
		}
	}
}

// phaseReads finds the haplotypes of the reads over some tiles, which ascend, from
// what they show there; nil if the sample doesn't have two.
func (r *Region) phaseReads(model *errorModel, tiles iter.Seq[int]) *haplotypes {
	if !r.has(Diploid) {
		return nil
	}
	sites, seen := r.observeSites(model, tiles)
	molecules, reads := r.molecules(seen)
	resolved, err := phase.Resolve(len(sites), reads)
	if err != nil {
		panic("variant: reads out of order: " + err.Error()) // molecules puts them in order
	}
	h := &haplotypes{marks: make(map[uint32][]mark, len(seen))}
	for i, s := range resolved.Sites {
		if s.Set >= 0 {
			h.sites = append(h.sites, phasedSite{sites[i], int32(sites[s.Set].pos), s.Swapped, s.Quality})
		}
	}
	for i, segments := range molecules {
		var marks []mark
		for _, o := range reads[i] {
			s := resolved.Sites[o.Site]
			if s.Set < 0 {
				continue
			}
			llr := min(phase.MaxLLR, max(-phase.MaxLLR, o.LLR))
			if !s.Swapped {
				llr = -llr // haplotype 1 has the reference there
			}
			marks = append(marks, mark{int32(sites[o.Site].pos), int32(sites[s.Set].pos), llr})
		}
		for _, n := range segments {
			h.marks[n] = marks
		}
	}
	return h
}

// observeSites finds the heterozygous sites of some tiles, which ascend, and what segments, by their
// number, show there.
func (r *Region) observeSites(model *errorModel, tiles iter.Seq[int]) (sites []hetSite, seen map[uint32]phase.Read) {
	seen = make(map[uint32]phase.Read)
	m := &r.work.scratch
	outlined := 0 // tiles before this one are
	for t := range tiles {
		if r.tiles[t].reads == 0 {
			continue
		}
		if t >= outlined {
			outlined = min(t+outlinedTiles, len(r.tiles))
			m.outline(r, r.tileStart(t), r.tileEnd(outlined-1))
			r.work.counts = m.pileup(r.work.counts)
		}
		for _, site := range r.hetSites(t, m, model) {
			col := site.pos - m.lo
			for i := range m.rows {
				w := &m.rows[i]
				if base, qual := m.shows(w, col); base == site.ref || base == site.alt {
					cost := &model.pair[strandIndex(w.seg.reverse)][qual][base]
					seen[w.seg.number] = append(seen[w.seg.number], phase.Observation{Site: len(sites), LLR: cost[site.ref] - cost[site.alt]})
				}
			}
			sites = append(sites, site)
		}
	}
	return sites, seen
}

// molecules puts together what the segments of each molecule show: segments of one read are
// neighbours in canonical order, and of one molecule. The second result is what the molecules, in the
// order of the first, show together.
func (r *Region) molecules(seen map[uint32]phase.Read) (segments [][]uint32, reads []phase.Read) {
	var last *read
	for n, rd := range r.reads.all() {
		if seen[n] == nil {
			continue
		}
		if k := len(segments) - 1; last != nil && last.key.sameRead(rd.key) {
			segments[k] = append(segments[k], n)
			reads[k] = merged(reads[k], seen[n])
		} else {
			segments = append(segments, []uint32{n})
			reads = append(reads, seen[n])
		}
		last = rd
	}
	return segments, reads
}

// has reports whether any place of the region is of the given ploidy.
func (r *Region) has(p Ploidy) bool {
	if r.ploidy(r.start) == p {
		return true
	}
	for _, s := range r.cfg.Ploidies[r.contig.Name] {
		for _, begin := range [2]int{s.Start, s.End} {
			if r.start < begin && begin < r.end && r.ploidy(begin) == p {
				return true
			}
		}
	}
	return false
}

// merged is what two segments of a molecule show. Where both show a site, what they
// say is added.
func merged(a, b phase.Read) phase.Read {
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, func(a, b phase.Observation) int { return cmp.Compare(a.Site, b.Site) })
	out := all[:0]
	for _, o := range all {
		if n := len(out); n > 0 && out[n-1].Site == o.Site {
			out[n-1].LLR += o.LLR
		} else {
			out = append(out, o)
		}
	}
	return out
}

// hetSites finds the clear heterozygous substitutions of tile t's core, whose reads
// are in m.
func (r *Region) hetSites(t int, m *matrix, model *errorModel) []hetSite {
	e := min(0.3, max(hetMinError, 3*model.mismatch))
	gain, loss := math.Log10(0.5/e), math.Log10(0.5/(1-e))
	var out []hetSite
	for pos := r.tileStart(t); pos < r.tileEnd(t); pos++ {
		c, ref := &r.work.counts[pos-m.lo], m.ref[pos-m.lo]
		if ref > 3 {
			continue
		}
		alt, depth := ref, int32(0)
		for code := range byte(deleted + 1) {
			n := c[0][code] + c[1][code]
			depth += n
			if code < 4 && code != ref && n > 0 && (alt == ref || n > c[0][alt]+c[1][alt]) {
				alt = code
			}
		}
		if alt == ref || r.cfg.PloidyAt(r.contig.Name, pos) != Diploid {
			continue
		}
		refs, alts := float64(c[0][ref]+c[1][ref]), float64(c[0][alt]+c[1][alt])
		sound := float64(alts*gain)+float64(refs*loss) >= hetMinOdds && float64(refs*gain)+float64(alts*loss) >= hetMinOdds &&
			float64(depth)-refs-alts <= hetMaxOthers*float64(depth)
		for strand := range c {
			a, b := c[strand][ref], c[strand][alt]
			sound = sound && (a+b < hetStrandReads || float64(min(a, b)) >= hetMinStrand*float64(a+b))
		}
		if sound {
			out = append(out, hetSite{pos, ref, alt})
		}
	}
	return out
}

// hapReads is what is known of the haplotypes of a candidate's reads.
type hapReads struct {
	set   int32 // the phase set with the most evidence: the position of its first site; noSet: none
	reads []hapRead
}

// hapRead is what is known of a read at an allele.
type hapRead struct {
	haplotype int   // 1 or 2; 0: unknown
	llr       int32 // log likelihood ratio of haplotype 1 over 2, in milli-Phred; 0 unless it is known
}

// noSet is the phase set of reads of which no haplotype is known.
const noSet = -1

// share is the probability that the read is of haplotype 1.
func (h hapRead) share() float64 { return 1 / (1 + math.Pow(10, -float64(h.llr)/10_000)) }

// side is where an allele lies of which one haplotype has a copy.
type side struct {
	set       int32 // as in hapReads
	haplotype int   // 1 or 2; 0: not known
}

// of is what is known of the haplotypes of c's reads, which are in m, from what
// they show farther from c than what they are asked about it.
func (h *haplotypes) of(c *candidate, m *matrix) hapReads {
	numbers := make([]uint32, len(c.reads))
	for i := range c.reads {
		numbers[i] = m.rows[c.reads[i].row].seg.number
	}
	set, reads := h.around(c.start-flank, c.end+flank, numbers)
	return hapReads{set, reads}
}

// place says on which haplotype c lies, if one has it.
func (h *hapReads) place(c *candidate) side {
	if h.set == noSet {
		return side{noSet, 0}
	}
	evidence := make([]phase.Evidence, len(c.reads))
	for i := range c.reads {
		evidence[i] = phase.Evidence{
			Allele:    int32(math.Round(c.reads[i].llr * 10_000 / math.Ln10)),
			Haplotype: h.reads[i].llr,
		}
	}
	haplotype, _ := phase.Place(evidence)
	return side{h.set, haplotype}
}

// phase puts v's genotype into the order of the haplotypes and names the phase set,
// by the 1-based position of its first site: 0 if c is on both haplotypes, or it is
// not known on which.
func (v *verdict) phase(c *candidate) (set int64) {
	s := c.side
	if c.ploidy != Diploid || v.copies != 1 || s.haplotype == 0 {
		return 0
	}
	if o := v.other; o != nil && (o.side.set != s.set || o.side.haplotype != 3-s.haplotype) {
		return 0
	}
	other := v.genotype[0]
	if other == 1 {
		other = v.genotype[1]
	}
	v.genotype = []uint32{1, other}
	if s.haplotype == 2 {
		v.genotype = []uint32{other, 1}
	}
	return int64(s.set) + 1
}

// around finds the haplotypes of reads at reference positions [lo, hi) from what
// they show elsewhere, within the phase set with the most evidence.
func (h *haplotypes) around(lo, hi int, segments []uint32) (set int32, reads []hapRead) {
	set, reads = noSet, make([]hapRead, len(segments))
	each := func(visit func(read int, m mark)) {
		for i, s := range segments {
			for _, m := range h.marks[s] {
				if int(m.pos) < lo || int(m.pos) >= hi {
					visit(i, m)
				}
			}
		}
	}
	weight := make(map[int32]int64)
	var sets []int32
	each(func(_ int, m mark) {
		if _, ok := weight[m.set]; !ok {
			sets = append(sets, m.set)
		}
		weight[m.set] += int64(max(m.llr, -m.llr))
	})
	slices.Sort(sets)
	for _, s := range sets {
		if set == noSet || weight[s] > weight[set] {
			set = s
		}
	}
	sums := make([][2]int64, len(segments))
	each(func(read int, m mark) {
		switch {
		case m.set != set:
		case m.llr > 0:
			sums[read][0] += int64(m.llr)
		default:
			sums[read][1] -= int64(m.llr)
		}
	})
	for i, s := range sums {
		reads[i].haplotype, _ = phase.Haplotype(s[0], s[1])
		if reads[i].haplotype != 0 {
			reads[i].llr = int32(min(maxHapSupport, max(-maxHapSupport, s[0]-s[1])))
		}
	}
	return set, reads
}

// maxHapSupport bounds how sure a read's haplotype is, in milli-Phred: one in a
// thousand is a chimera or lies elsewhere.
const maxHapSupport = 30_000

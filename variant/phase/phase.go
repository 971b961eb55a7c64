// Package phase finds which alleles of a diploid sample lie on one copy of a
// chromosome, and which copy each read is of.
//
// Problem: a read of a diploid sample shows one allele at each heterozygous site
// it passes, with errors. Reads that pass several sites tie the alleles of these
// together. Which ties are sound, and where do they end?
//
// Assumptions: two haplotypes, so that at every site one carries the first
// allele and the other the second; a read is of one haplotype, except now and
// then a chimera; a read errs at one site independently of the others. Reads come
// from either haplotype alike.
//
// Strategy: the split of the reads that agrees best with what they show is that of
// the weighted minimum error correction problem (MEC), as in WhatsHap (Patterson
// et al. 2015, doi:10.1089/cmb.2014.0157): found exactly by dynamic programming
// over the reads that are active at a site, of which at most maxActive are taken.
// With all reads, however deep, sites are then flipped and stretches switched while that
// lessens the errors. At last every site and every link between neighbours has
// to stand against its opposite: a site that the haplotypes don't explain is left
// unphased, and a weak link ends the phase set.
//
// Consequences: time and memory are linear in the sites, whatever the depth; what
// isn't tied by at least two reads is reported as unphased, never guessed.
// Evidence is summed as integers and reads are ordered by what they show, so the
// result depends on the set of reads alone, whatever the order they are given in.
package phase

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// MaxLLR bounds what one read says about one site, in milli-Phred: however sure
// a base, its place in the alignment may be wrong.
const MaxLLR = 20_000

// Observation is what a read shows at a site.
type Observation struct {
	Site int // index of the site
	// LLR is the log likelihood ratio of the site's second allele over its first,
	// in milli-Phred. What is beyond [MaxLLR] counts as that.
	LLR int32
}

// Read is what one molecule shows, by site.
type Read []Observation

// Site is what is known of a site.
type Site struct {
	// Set is the index of the first site of its phase set; -1: not phased.
	Set int
	// Swapped: haplotype 1 carries the second allele. False at the first site of
	// a set, which thereby decides which haplotype is the first.
	Swapped bool
	// Quality is the Phred-scaled probability that the alleles are the wrong way
	// round, given the other sites of the set: PQ of VCF.
	Quality float64
}

// Tag is the haplotype that a read is of.
type Tag struct {
	Set       int // index of the first site of the phase set
	Haplotype int // 1 or 2; 0: unknown
	// Quality is the Phred-scaled probability that it is the other haplotype.
	Quality float64
}

// Result is the phase of a region.
type Result struct {
	Sites []Site
	// Tags has, for each read in the order given, a tag for every phase set that it
	// shows an allele of, ordered by set.
	Tags [][]Tag
}

const (
	// minQuality is what a site and a link need, in milli-Phred.
	minQuality = 20_000
	// minAgreement is the least share of the reads' weight that has to speak for a
	// site's place and for a link. Of a site that is not heterozygous, or of
	// stretches that are not neighbours, it is about a half, however many reads
	// there are. LongPhase asks for 0.65 to 0.75.
	minAgreement = 0.75
	// maxLink bounds what one read says for a link or a site's place, in
	// milli-Phred: one read in about thirty is taken for a chimera or misplaced. Less than
	// minQuality, so that no read links alone.
	maxLink = 15_000
	// minTag is the quality from which a read is tagged with a haplotype.
	minTag = 10
	// minTagAgreement is the least share of a read's weight that has to speak for
	// its haplotype.
	minTagAgreement = 0.7
	// maxQuality bounds qualities that are reported.
	maxQuality = 99
)

// Resolve phases sites 0 to sites-1, in the order of their positions, from what
// the reads show. An error means that a read is malformed: its sites have to
// be in range and ascend.
func Resolve(sites int, reads []Read) (*Result, error) {
	res := &Result{Sites: make([]Site, sites), Tags: make([][]Tag, len(reads))}
	for i := range res.Sites {
		res.Sites[i].Set = -1
	}
	var informative []Read
	for i, r := range reads {
		clean, err := r.clean(sites)
		if err != nil {
			return nil, fmt.Errorf("phasing: read %d: %w", i, err)
		}
		if len(clean) >= 2 {
			informative = append(informative, clean)
		}
	}
	slices.SortFunc(informative, compareReads)

	for _, g := range newGraph(sites, informative).divide(make([]int, sites)) {
		g.solve()
		for _, set := range g.settle() {
			set.writeSites(res.Sites)
		}
	}
	for i, r := range reads {
		res.Tags[i] = tags(r, res.Sites)
	}
	return res, nil
}

// clean checks r and leaves out what says nothing.
func (r Read) clean(sites int) (Read, error) {
	out := make(Read, 0, len(r))
	last := -1
	for _, o := range r {
		if o.Site < 0 || o.Site >= sites {
			return nil, fmt.Errorf("site %d of %d", o.Site, sites)
		}
		if o.Site <= last {
			return nil, fmt.Errorf("site %d follows site %d", o.Site, last)
		}
		last = o.Site
		if o.LLR != 0 {
			out = append(out, Observation{o.Site, bounded(o.LLR)})
		}
	}
	return out, nil
}

func bounded(llr int32) int32 { return min(MaxLLR, max(-MaxLLR, llr)) }

// compareReads orders reads by what they show. Reads that show the same are alike.
func compareReads(a, b Read) int {
	return slices.CompareFunc(a, b, func(a, b Observation) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.LLR, b.LLR))
	})
}

// writeSites writes what is known of the sites of a phase set.
func (g *graph) writeSites(sites []Site) {
	for i, b := range g.places() {
		sites[g.sites[i]] = Site{Set: g.sites[0], Swapped: g.turn[i] != g.turn[0], Quality: phred(b.llr)}
	}
}

// tags says which haplotypes r is of.
func tags(r Read, sites []Site) []Tag {
	sums := make(map[int][2]int64)
	var sets []int
	for _, o := range r {
		s := sites[o.Site]
		if s.Set < 0 || o.LLR == 0 {
			continue
		}
		sum, ok := sums[s.Set]
		if !ok {
			sets = append(sets, s.Set)
		}
		// Haplotype 1 has the first allele unless swapped.
		llr := int64(bounded(o.LLR))
		if s.Swapped == (llr > 0) {
			sum[0] += abs(llr)
		} else {
			sum[1] += abs(llr)
		}
		sums[s.Set] = sum
	}
	slices.Sort(sets)
	var out []Tag
	for _, s := range sets {
		t := Tag{Set: s}
		t.Haplotype, t.Quality = Haplotype(sums[s][0], sums[s][1])
		out = append(out, t)
	}
	return out
}

// Haplotype says which haplotype a read is of, of whose sites first speaks for
// haplotype 1 and second for 2, in milli-Phred, and the Phred-scaled probability
// that it is the other: 0 when too little is known, or the sites contradict each
// other, as in a chimera.
func Haplotype(first, second int64) (haplotype int, quality float64) {
	quality = phred(abs(first - second))
	switch {
	case quality < minTag || float64(max(first, second)) < minTagAgreement*float64(first+second):
		return 0, quality
	case first > second:
		return 1, quality
	}
	return 2, quality
}

// phred is the Phred-scaled probability of the lesser of two hypotheses whose
// log likelihood ratio is llr >= 0 in milli-Phred, to two decimals.
func phred(llr int64) float64 {
	// -10 log10(1 / (1 + 10^(llr/10000)))
	q := float64(llr)/1000 + float64(10*math.Log10(1+math.Pow(10, -float64(llr)/10_000)))
	return min(maxQuality, math.Round(q*100)/100)
}

// Evidence is what one read says of an allele: log likelihood ratios in
// milli-Phred.
type Evidence struct {
	Allele    int32 // of the read showing the allele over its not showing it
	Haplotype int32 // of the read being of haplotype 1 over 2, by other sites than the allele's; 0: unknown
}

// Place says on which haplotype, 1 or 2, an allele lies that one of them carries,
// and the Phred-scaled probability that it is the other. It is held to what sites
// are held to by [Resolve]: 0 when too little is known, or the haplotypes don't
// explain which reads show the allele.
func Place(reads []Evidence) (haplotype int, quality float64) {
	var b ballot
	for _, e := range reads {
		if e.Allele != 0 && e.Haplotype != 0 {
			b.cast(int64(bounded(e.Allele)), int64(e.Haplotype))
		}
	}
	haplotype = 1
	if b.llr < 0 {
		haplotype = 2
		b = ballot{-b.llr, b.differ, b.agree}
	}
	if b.weak() || b.divided() {
		return 0, 0
	}
	return haplotype, phred(b.llr)
}

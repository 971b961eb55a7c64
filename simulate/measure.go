package simulate

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/porestream/porestream/genome"
)

// MeasureOptions say how a profile is measured.
type MeasureOptions struct {
	Name, Description, Source string
	// Seed chooses the systematic sites of the profile that is made; where the real
	// ones are is not kept.
	Seed uint64
	// SameGenome says that the reads are of the reference itself, so that whatever
	// differs is an error. Else sites where most reads of both strands differ alike
	// don't count.
	SameGenome bool
	// Known are variants of the sample, which don't count either.
	Known []Site
}

// Measure makes a profile of aligned reads.
//
// Assumptions: alignments are right but for where gaps are in repeats, and there are
// some 100,000 bases of them; systematic errors show only where a strand is read 12
// times and more.
//
// Strategy: a first pass counts errors by site and strand, which distinguishes variants
// and systematic errors from others. The second counts by context, run and quality
// without those. The third compares the errors of each read, bin by bin, with those that
// the counts predict, for the spread between reads and the bursts within. Rates of rare
// contexts and runs are drawn towards those of more general classes.
func Measure(observations []Observation, opts MeasureOptions) (*Profile, error) {
	m := &meter{sites: make(map[*genome.Contig][]*page), known: make(map[string]map[int]bool)}
	for _, s := range opts.Known {
		if m.known[s.Contig] == nil {
			m.known[s.Contig] = make(map[int]bool)
		}
		for i := range len(s.Ref) {
			m.known[s.Contig][s.Start+i] = true
		}
	}
	each := func(visit func(*Observation, *walk)) error {
		var w walk
		for i := range observations {
			if err := w.load(&observations[i]); err != nil {
				return fmt.Errorf("measuring errors: alignment %d: %w", i+1, err)
			}
			visit(&observations[i], &w)
		}
		return nil
	}
	if err := each(m.countSites); err != nil {
		return nil, err
	}
	if m.bases < 10_000 {
		return nil, fmt.Errorf("measuring errors: %d aligned bases, want at least 10,000", m.bases)
	}
	m.classifySites(observations, opts.SameGenome)
	if err := each(m.count); err != nil {
		return nil, err
	}
	p := &Profile{Format: ProfileFormat, Name: opts.Name, Description: opts.Description, Source: opts.Source, Seed: opts.Seed}
	if err := m.fill(p); err != nil {
		return nil, fmt.Errorf("measuring errors: %w", err)
	}
	f := newFit(p)
	if err := each(func(o *Observation, w *walk) { f.add(w, m.skipped(o)) }); err != nil {
		return nil, err
	}
	f.fill(p)
	return p, nil
}

// pageSize is how many positions of a contig are counted together.
const pageSize = 4096

// siteKinds are what is counted at a site: the base that is called instead, deletedColumn
// (also of a deletion that goes beyond the run), doubledColumn, insertedColumn; and
// wrongRun at the first base, on the reference, of a run of 2 and more.
const (
	wrongRun  = contextColumns
	siteKinds = contextColumns + 1
)

// siteCount is what reads of one strand do at a position.
type siteCount struct {
	depth   uint16
	runs    uint16 // reads in which the run that begins here was whole
	counts  [siteKinds]uint16
	flags   byte
	base    byte // code in reading direction
	length  byte // of the run
	context uint16
}

// Flags of a site.
const (
	maskedSite     = 1 << iota // a variant, or too near to one
	systematicSite             // an error that many reads make
)

type page [pageSize][2]siteCount

// meter counts.
type meter struct {
	sites map[*genome.Contig][]*page
	known map[string]map[int]bool
	bases int // of the template

	exposed  [contexts]float64
	errors   [contexts][contextColumns]float64
	eventsAt [contexts]float64 // any bases of the first pass
	rough    [contexts][contextColumns]float64
	runs     [4][maxRunLength + 1][runChanges]float64
	inserts  [32]float64 // by length
	added    [4]float64  // bases inserted
	gaps     [64]float64 // deletions of several runs by length
	template float64     // bases of the second pass
	bad      float64     // bases in error, of the second pass
	quality  [classes][qualities]float64

	systematic [3]float64 // sites by kind: substituted, deleted, inserted
	eligible   float64
	fractions  []float64
	dispersion struct{ sum, weight float64 }
}

// site returns the counts of a position.
func (m *meter) site(c *genome.Contig, position int, reverse bool) *siteCount {
	pages := m.sites[c]
	if pages == nil {
		pages = make([]*page, len(c.Seq)/pageSize+1)
		m.sites[c] = pages
	}
	p := &pages[position/pageSize]
	if *p == nil {
		*p = new(page)
	}
	strand := 0
	if reverse {
		strand = 1
	}
	return &(*p)[position%pageSize][strand]
}

// inner calls visit for the runs of a walk that are not at its ends, and have only A, C,
// G and T around.
func (w *walk) inner(visit func(*runCall)) {
	for i := range w.runs {
		r := &w.runs[i]
		if r.start >= margin && r.start+r.length <= len(w.template)-margin && w.template[r.start] < 4 {
			visit(r)
		}
	}
}

func (m *meter) countSites(o *Observation, w *walk) {
	w.inner(func(r *runCall) {
		for i := r.start; i < r.start+r.length; i++ {
			kmer, ok := w.context(i, contextBases)
			if !ok {
				continue
			}
			m.bases++
			s := m.site(o.Contig, w.position(i), w.reverse)
			s.base, s.length, s.context = w.template[i], byte(min(r.length, 255)), uint16(kmer)
			s.depth = up(s.depth)
			m.eventsAt[kmer]++
			kind := m.kind(w, r, i)
			if kind >= 0 {
				s.counts[kind] = up(s.counts[kind])
				m.rough[kmer][kind]++
			}
		}
		if r.length > 1 && !r.other {
			at := r.start
			if w.reverse {
				at = r.start + r.length - 1
			}
			s := m.site(o.Contig, w.position(at), w.reverse)
			s.runs = up(s.runs)
			if r.change != 0 {
				s.counts[wrongRun] = up(s.counts[wrongRun])
			}
		}
	})
}

// kind returns the column of a context that a base of a run counts in, -1 for none.
func (m *meter) kind(w *walk, r *runCall, i int) int {
	switch c := w.called[i]; {
	case c == gone && (r.other || r.length == 1):
		return deletedColumn
	case c < 4 && c != w.template[i]:
		return int(c)
	case w.extra[i] > 0 || r.length == 1 && r.change > 1:
		return insertedColumn
	case r.length == 1 && r.change == 1:
		return doubledColumn
	}
	return -1
}

// up adds one, up to what the type holds.
func up(n uint16) uint16 {
	if n == math.MaxUint16 {
		return n
	}
	return n + 1
}

// classifySites finds the variants and the systematic errors.
func (m *meter) classifySites(observations []Observation, sameGenome bool) {
	var contigs []*genome.Contig // in a fixed order
	for i := range observations {
		if c := observations[i].Contig; !slices.Contains(contigs, c) {
			contigs = append(contigs, c)
		}
	}
	for _, c := range contigs {
		for n, p := range m.sites[c] {
			if p == nil {
				continue
			}
			for i := range p {
				position := n*pageSize + i
				if m.known[c.Name][position] || !sameGenome && isVariant(&p[i]) {
					m.mask(c, position)
				}
			}
		}
	}
	for _, c := range contigs {
		for _, p := range m.sites[c] {
			if p == nil {
				continue
			}
			for i := range p {
				for strand := range p[i] {
					m.classifySite(&p[i][strand])
				}
			}
		}
	}
	slices.Sort(m.fractions)
	m.siteSpread(contigs)
}

// isVariant says whether reads of both strands differ alike from the reference, or most
// of few reads. Only a VCF distinguishes variants of a run of 4 and more from errors.
func isVariant(strands *[2]siteCount) bool {
	forward, reverse := &strands[0], &strands[1]
	both := func(a, b uint16, least float64) bool {
		if forward.depth+reverse.depth >= 3 && float64(a+b) >= 0.6*float64(forward.depth+reverse.depth) {
			return true
		}
		return forward.depth >= 4 && reverse.depth >= 4 && float64(a) >= least*float64(forward.depth) && float64(b) >= least*float64(reverse.depth)
	}
	for base := range 4 {
		if both(forward.counts[base], reverse.counts[3-base], 0.2) {
			return true
		}
	}
	length := max(forward.length, reverse.length)
	if length > 0 && length < minRun {
		for _, kind := range []int{deletedColumn, insertedColumn} {
			if both(forward.counts[kind], reverse.counts[kind], 0.3) {
				return true
			}
		}
		return both(forward.counts[wrongRun], reverse.counts[wrongRun], 0.4)
	}
	return false
}

// mask leaves a variant and its surroundings out.
func (m *meter) mask(c *genome.Contig, position int) {
	for at := max(0, position-4); at <= min(len(c.Seq)-1, position+4); at++ {
		if m.sites[c][at/pageSize] == nil {
			continue
		}
		m.site(c, at, false).flags |= maskedSite
		m.site(c, at, true).flags |= maskedSite
	}
}

// leastDepth is how often a strand is read before systematic errors show.
const leastDepth = 12

// classifySite finds the systematic error of a site.
func (m *meter) classifySite(s *siteCount) {
	if s.flags&maskedSite != 0 || s.depth < leastDepth {
		return
	}
	m.eligible++
	best, which := 0.0, -1
	for kind := range contextColumns {
		n := float64(s.counts[kind])
		if kind == doubledColumn || kind == deletedColumn && s.length > 1 || n < best {
			continue
		}
		best, which = n, kind
	}
	share := best / float64(s.depth)
	rate := (m.rough[s.context][which] + 1) / (m.eventsAt[s.context] + 100)
	if share < 0.15 || poissonTail(int(best), 1.5*rate*float64(s.depth)) > 1e-6 {
		return
	}
	s.flags |= systematicSite
	m.fractions = append(m.fractions, share)
	switch which {
	case deletedColumn:
		m.systematic[1]++
	case insertedColumn:
		m.systematic[2]++
	default:
		m.systematic[0]++
	}
}

// poissonTail returns the probability of n events and more.
func poissonTail(n int, mean float64) float64 {
	term, below := math.Exp(-mean), 0.0
	for k := range n {
		below += term
		term *= mean / float64(k+1)
	}
	// The rest of the sum, for what is lost in the difference from 1.
	if above := 1 - below; above > 1e-9 {
		return above
	}
	sum := 0.0
	for k := n; k < n+200; k++ {
		sum += term
		term *= mean / float64(k+1)
	}
	return sum
}

// siteSpread estimates how much the odds of a wrong run differ between sites, from the
// variance between them beyond the binomial's.
func (m *meter) siteSpread(contigs []*genome.Contig) {
	type group struct{ reads, wrong, sites float64 }
	var groups [4][maxRunLength + 1]group
	visit := func(use func(s *siteCount, g *group)) {
		for _, c := range contigs {
			for _, p := range m.sites[c] {
				if p == nil {
					continue
				}
				for i := range p {
					for strand := range p[i] {
						if s := &p[i][strand]; s.flags&maskedSite == 0 && s.runs >= 5 {
							use(s, &groups[s.base][min(s.length, maxRunLength)])
						}
					}
				}
			}
		}
	}
	visit(func(s *siteCount, g *group) {
		g.reads += float64(s.runs)
		g.wrong += float64(s.counts[wrongRun])
		g.sites++
	})
	var observed, expected, pairs [4][maxRunLength + 1]float64
	visit(func(s *siteCount, g *group) {
		n, p := float64(s.runs), g.wrong/g.reads
		b, l := s.base, min(s.length, maxRunLength)
		d := float64(s.counts[wrongRun]) - float64(n*p)
		observed[b][l] += float64(d * d)
		expected[b][l] += float64(n * p * (1 - p))
		pairs[b][l] += float64(n * (n - 1))
	})
	for b := range groups {
		for l, g := range groups[b] {
			p := g.wrong / max(g.reads, 1)
			if g.sites < 20 || p < 0.005 || p > 0.9 {
				continue
			}
			// Variance of the chance between sites, and by the delta method of its log odds.
			v := (observed[b][l] - expected[b][l]) / pairs[b][l]
			m.dispersion.sum += g.reads * p * v / (p * p * (1 - p) * (1 - p))
			m.dispersion.weight += float64(g.reads * p)
		}
	}
}

// skipped returns a function that says whether a base of the template doesn't count.
func (m *meter) skipped(o *Observation) func(w *walk, i int) bool {
	return func(w *walk, i int) bool { return m.site(o.Contig, w.position(i), w.reverse).flags != 0 }
}

// count counts by context, run and quality.
func (m *meter) count(o *Observation, w *walk) {
	skipped := m.skipped(o)
	w.inner(func(r *runCall) {
		for i := r.start - 1; i <= r.start+r.length; i++ {
			if skipped(w, i) {
				return
			}
		}
		m.template += float64(r.length)
		if r.length > 1 && !r.other {
			change := min(max(r.change, -noChange), runChanges-1-noChange)
			m.runs[w.template[r.start]][min(r.length, maxRunLength)][change+noChange]++
		}
		m.bad += math.Abs(float64(r.change))
		for i := r.start; i < r.start+r.length; i++ {
			kmer, ok := w.context(i, contextBases)
			if !ok || w.called[i] == unknown {
				continue
			}
			if r.other && w.called[i] == gone {
				m.bad++
				if w.called[i-1] != gone { // the beginning of a deletion
					n := 1
					for i+n < len(w.called) && w.called[i+n] == gone {
						n++
					}
					if n > 1 {
						m.gaps[min(n, len(m.gaps)-1)]++
					}
				}
				continue
			}
			kind := m.kind(w, r, i)
			if r.length > 1 && w.called[i] == gone {
				continue
			}
			m.exposed[kmer]++
			if kind < 0 {
				continue
			}
			m.errors[kmer][kind]++
			switch {
			case kind < 4:
				m.bad++
			case kind == insertedColumn && w.extra[i] > 0:
				x := w.inserts(i)
				m.bad += float64(len(x))
				m.inserts[min(len(x), len(m.inserts)-1)]++
				for _, b := range x {
					if b < 4 {
						m.added[b]++
					}
				}
			case kind == insertedColumn:
				m.inserts[min(r.change, len(m.inserts)-1)]++
			}
		}
	})
	if w.quality != nil {
		w.classify(func(c class, q byte) { m.quality[c][min(q, qualities-1)]++ })
	}
}

// classify calls visit for the bases that were called, but not at the ends, in order.
func (w *walk) classify(visit func(c class, q byte)) {
	classesOf := make([]class, len(w.bases)+1)
	mark := func(at int) { // beside an error between base at-1 and base at
		if at > 0 && classesOf[at-1] < beside {
			classesOf[at-1] = beside
		}
		if at < len(w.bases) && classesOf[at] < beside {
			classesOf[at] = beside
		}
	}
	for _, r := range w.runs {
		if r.length >= minRun {
			for i := r.start; i < r.start+r.length; i++ {
				if w.called[i] < 4 {
					classesOf[w.at[i]] = inRun
				}
			}
		}
	}
	next := 0 // base of the read
	for i := range w.template {
		for ; next < w.at[i]; next++ {
			classesOf[next] = inserted
			mark(next)
			mark(next + 1)
		}
		if w.called[i] == gone {
			mark(next)
			continue
		}
		if w.called[i] != w.template[i] {
			classesOf[next] = wrong
			mark(next)
			mark(next + 1)
		}
		next++
	}
	if len(w.template) < 2*margin {
		return
	}
	for at := w.at[margin]; at < w.at[len(w.at)-margin]; at++ {
		visit(classesOf[at], w.quality[at])
	}
}

// fill turns counts into a profile.
func (m *meter) fill(p *Profile) error {
	p.ErrorRate = m.bad / m.template
	m.fillContexts(p)
	m.fillRuns(p)
	p.Insertions.Lengths = shares(m.inserts[1:], 12)
	p.Insertions.Bases = shares(m.added[:], 4)
	p.Deletions.Lengths = shares(m.gaps[2:], 30)
	for _, n := range m.gaps {
		p.Deletions.Rate += n / m.template
	}
	if m.eligible > 0 {
		s := &p.Systematic
		s.Substitutions, s.Deletions, s.Insertions = m.systematic[0]/m.eligible, m.systematic[1]/m.eligible, m.systematic[2]/m.eligible
		if n := len(m.fractions); n > 0 {
			for k := range 11 {
				s.Fractions = append(s.Fractions, m.fractions[k*(n-1)/10])
			}
		}
	}
	if m.dispersion.weight > 0 {
		p.Runs.SiteSpread = math.Sqrt(max(0, m.dispersion.sum/m.dispersion.weight))
	}
	q := &p.Qualities
	for c, to := range [classes]*[]float64{right: &q.Right, inRun: &q.InRun, beside: &q.Beside, wrong: &q.Wrong, inserted: &q.Inserted} {
		*to = slices.Clone(m.quality[c][:])
		normalise(*to)
		if checkShares(*to) != nil {
			return errors.New("no read has qualities")
		}
	}
	return nil
}

// shares returns what share each count has, of at most so many; a share each of a
// thousandth is added, so that none are 0.
func shares(counts []float64, most int) []float64 {
	counts = counts[:min(most, len(counts))]
	total := sum(counts)
	out := make([]float64, len(counts))
	for i, n := range counts {
		out[i] = n + float64(0.001*total) + 1e-3/float64(1+float64(i*i))
	}
	normalise(out)
	return out
}

// fillContexts makes rates of 5-mers. Those that are seldom seen are drawn towards the
// rates of the 3-mer, and those towards the rates of the base.
func (m *meter) fillContexts(p *Profile) {
	const strength5, strength3 = 150, 500 // bases that the more general rates count as
	type sums struct {
		exposed float64
		errors  [contextColumns]float64
	}
	var bases [2][4]sums // by single and middle
	trimers := make(map[int]*sums)
	add := func(s *sums, kmer int) {
		s.exposed += m.exposed[kmer]
		for k, n := range m.errors[kmer] {
			s.errors[k] += n
		}
	}
	kind := func(kmer int) int {
		if single(kmer) {
			return 1
		}
		return 0
	}
	for kmer := range contexts {
		add(&bases[kind(kmer)][middle(kmer)], kmer)
		t := kmer >> 2 & 63
		if trimers[t] == nil {
			trimers[t] = new(sums)
		}
		add(trimers[t], kmer)
	}
	p.Contexts = make(map[string][]float64, contexts)
	for kmer := range contexts {
		row := make([]float64, contextColumns)
		b, t := &bases[kind(kmer)][middle(kmer)], trimers[kmer>>2&63]
		for k := range row {
			if k == middle(kmer) || (k == deletedColumn || k == doubledColumn) && !single(kmer) {
				continue
			}
			general := (b.errors[k] + 0.1) / (b.exposed + 100)
			three := (t.errors[k] + float64(strength3*general)) / (t.exposed + strength3)
			row[k] = (m.errors[kmer][k] + float64(strength5*three)) / (m.exposed[kmer] + strength5)
		}
		p.Contexts[spell(kmer, contextBases)] = row
	}
}

// fillRuns makes rows of run lengths. Those that are seldom seen are drawn towards what
// such runs of all bases are called as, and those towards the next shorter run's, with
// somewhat greater odds of being wrong.
func (m *meter) fillRuns(p *Profile) {
	const strength, pooledStrength, errorFactor = 40, 20, 1.3
	var rows [4][][]float64
	var before []float64
	for n := 2; n <= maxRunLength; n++ {
		pooled := make([]float64, runChanges)
		for b := range 4 {
			for k, v := range m.runs[b][n] {
				pooled[k] += v
			}
		}
		if before != nil {
			for k, v := range before {
				if k != noChange {
					v *= errorFactor
				}
				pooled[k] += float64(pooledStrength * v)
			}
		} else {
			pooled[noChange-1] += 0.1
			pooled[noChange] += 10
			pooled[noChange+1] += 0.1
		}
		normalise(pooled)
		before = pooled
		for b := range 4 {
			row := make([]float64, runChanges)
			for k, v := range m.runs[b][n] {
				row[k] = v + float64(strength*pooled[k])
			}
			// A run can't lose more bases than it has.
			for k := range noChange - n {
				row[k] = 0
			}
			normalise(row)
			rows[b] = append(rows[b], row)
		}
	}
	p.Runs.A, p.Runs.C, p.Runs.G, p.Runs.T = rows[0], rows[1], rows[2], rows[3]
}

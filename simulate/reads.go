package simulate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"
)

// ReadsConfig says which reads are made.
type ReadsConfig struct {
	// Depth is the mean number of reads at a base of the reference, over all
	// haplotypes.
	Depth float64
	// Length is the mean length of molecules in bases, and LengthSpread the standard
	// deviation of lengths over that mean; they are distributed lognormally. 0 makes
	// all the same.
	Length, LengthSpread float64
	// MinLength is the shortest molecule. Those that reach over the end of a linear
	// sequence end there, and are left out if that makes them shorter.
	MinLength int
	// Circular says that contigs have no ends.
	Circular bool
	// Seed chooses the reads; with other seeds they are others.
	Seed uint64
}

// Validate says what is wrong with a configuration.
func (cfg *ReadsConfig) Validate() error {
	switch {
	case !(cfg.Depth > 0 && cfg.Depth <= 1e6):
		return fmt.Errorf("a depth of %g: want more than 0, up to 1,000,000", cfg.Depth)
	case !(cfg.Length >= 1 && cfg.Length <= 1e7):
		return fmt.Errorf("a mean length of %g: want 1 to 10,000,000 bases", cfg.Length)
	case !(cfg.LengthSpread >= 0 && cfg.LengthSpread <= 3):
		return fmt.Errorf("a length spread of %g: want 0 to 3", cfg.LengthSpread)
	case cfg.MinLength < 1 || float64(cfg.MinLength) > cfg.Length:
		return fmt.Errorf("a least length of %d: want 1 to the mean length of %g", cfg.MinLength, cfg.Length)
	}
	return nil
}

// longest is the greatest length of a molecule over the mean.
const longest = 8

// Molecule is what a read is read from.
type Molecule struct {
	Haplotype *Haplotype
	Start     int // 0-based first base on the haplotype
	Length    int // bases; on a circular haplotype they may reach over its end
	Reverse   bool
}

// Name returns the name of a read of the molecule: number, haplotype and strand, and
// the interval on the reference, 1-based with its end, as samtools has it. On a circular
// contig the end may come before the start.
func (m *Molecule) Name(number int) string {
	strand := byte('+')
	if m.Reverse {
		strand = '-'
	}
	h := m.Haplotype
	last := (m.Start + m.Length - 1) % len(h.Seq)
	return fmt.Sprintf("r%07d_h%d%c_%s:%d-%d", number, h.Number, strand, h.Contig, h.Position(m.Start)+1, h.Position(last)+1)
}

// Origin is what the name of a simulated read says.
type Origin struct {
	Haplotype  int // from 1
	Reverse    bool
	Contig     string
	Start, End int // 0-based half open on the reference; End < Start where a read goes over the origin
}

// ParseName reads the name of a simulated read.
func ParseName(name string) (Origin, error) {
	fail := func() (Origin, error) {
		return Origin{}, fmt.Errorf("%q is not the name of a simulated read", clip(name))
	}
	_, rest, ok := strings.Cut(name, "_h")
	where, position, ok2 := strings.Cut(rest, "_")
	colon, dash := strings.LastIndexByte(position, ':'), strings.LastIndexByte(position, '-')
	if !ok || !ok2 || len(where) < 2 || colon < 1 || dash < colon {
		return fail()
	}
	o := Origin{Contig: position[:colon], Reverse: where[len(where)-1] == '-'}
	var errs [3]error
	o.Haplotype, errs[0] = strconv.Atoi(where[:len(where)-1])
	o.Start, errs[1] = strconv.Atoi(position[colon+1 : dash])
	o.End, errs[2] = strconv.Atoi(position[dash+1:])
	if errors.Join(errs[:]...) != nil || o.Haplotype < 1 || o.Start < 1 || o.End < 1 {
		return fail()
	}
	o.Start--
	return o, nil
}

// Library is what molecules are drawn from: fragments of haplotypes. It is safe for
// concurrent use.
type Library struct {
	cfg       ReadsConfig
	sigma     float64 // of the logarithm of lengths
	stretches []stretch
	ends      []int // of the stretches, each with space for starts before it
	starts    int   // how many start positions there are
	bases     int
}

// stretch is a part of a haplotype that reads can be of: without N.
type stretch struct {
	haplotype  *Haplotype
	start, end int
}

// NewLibrary makes fragments of haplotypes, of each base alike, with the lengths that
// cfg says. Its depth and seed say nothing here.
func NewLibrary(haplotypes []*Haplotype, cfg ReadsConfig) (*Library, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("simulating reads: %w", err)
	}
	l := &Library{cfg: cfg, sigma: math.Sqrt(math.Log(1 + float64(cfg.LengthSpread*cfg.LengthSpread)))}
	margin := int(cfg.Length * longest)
	if cfg.Circular {
		margin = 0
	}
	for _, h := range haplotypes {
		before := len(l.stretches)
		l.stretches = append(l.stretches, h.stretches(cfg.MinLength)...)
		if cfg.Circular && (len(l.stretches) != before+1 || l.stretches[before].end-l.stretches[before].start != len(h.Seq)) {
			return nil, fmt.Errorf("simulating reads: %s cannot be circular: it has letters other than A, C, G and T, or less than %d bases", h.Contig, cfg.MinLength)
		}
		for _, s := range l.stretches[before:] {
			l.bases += s.end - s.start
			l.starts += s.end - s.start + margin
			l.ends = append(l.ends, l.starts)
		}
	}
	if l.bases == 0 {
		return nil, fmt.Errorf("simulating reads: the reference has no stretch of %d bases A, C, G or T", cfg.MinLength)
	}
	return l, nil
}

// Bases is how many bases molecules can be of, over all haplotypes.
func (l *Library) Bases() int { return l.bases }

// maxVain is for how many draws in a row a molecule may be too short.
const maxVain = 1_000_000

// Draw draws a molecule.
func (l *Library) Draw(rnd *rand.Rand) (Molecule, error) {
	for range maxVain {
		at := rnd.IntN(l.starts)
		i := sort.SearchInts(l.ends, at+1)
		from := l.stretches[i]
		start := from.end - (l.ends[i] - at)
		length := l.cfg.Length
		if l.sigma > 0 {
			length *= math.Exp(float64(l.sigma*rnd.NormFloat64()) - float64(l.sigma*l.sigma/2))
		}
		n := min(max(int(length+0.5), 1), int(l.cfg.Length*longest))
		reverse := rnd.IntN(2) == 1
		end := start + n
		if l.cfg.Circular {
			n = min(n, len(from.haplotype.Seq))
		} else {
			start, end = max(start, from.start), min(end, from.end)
			n = end - start
		}
		if n >= l.cfg.MinLength {
			return Molecule{Haplotype: from.haplotype, Start: start, Length: n, Reverse: reverse}, nil
		}
	}
	return Molecule{}, fmt.Errorf("simulating reads: hardly any has %d bases", l.cfg.MinLength)
}

// Sampler makes reads of haplotypes. It is safe for concurrent use.
type Sampler struct {
	maker     *Maker
	molecules []Molecule
	bases     int
}

// Maker makes reads of molecules. It is safe for concurrent use.
type Maker struct {
	model *model
	seed  uint64
}

// NewMaker makes reads with the errors of a profile. Which errors a read has depends on the
// seed, the molecule and the read's number alone.
func NewMaker(p *Profile, seed uint64) *Maker { return &Maker{newModel(p), seed} }

// NewSampler draws the molecules to be read. haplotypes are all of a genome's, ploidy of
// them for each contig.
func NewSampler(haplotypes []*Haplotype, ploidy int, p *Profile, cfg ReadsConfig) (*Sampler, error) {
	library, err := NewLibrary(haplotypes, cfg)
	if err != nil {
		return nil, err
	}
	s := &Sampler{maker: NewMaker(p, cfg.Seed)}
	target := int(cfg.Depth * float64(library.bases) / float64(ploidy))
	rnd, _ := newRand(cfg.Seed, planStream, 0)
	for s.bases < target {
		m, err := library.Draw(rnd)
		if err != nil {
			return nil, err
		}
		s.molecules = append(s.molecules, m)
		s.bases += m.Length
	}
	return s, nil
}

// stretches returns the parts of a haplotype of at least so many bases A, C, G and T.
func (h *Haplotype) stretches(least int) []stretch {
	var out []stretch
	for at := 0; at < len(h.Seq); {
		start := at
		for at < len(h.Seq) && code[h.Seq[at]] < 4 {
			at++
		}
		if at-start >= least {
			out = append(out, stretch{h, start, at})
		}
		for at < len(h.Seq) && code[h.Seq[at]] > 3 {
			at++
		}
	}
	return out
}

// Len is the number of reads.
func (s *Sampler) Len() int { return len(s.molecules) }

// Bases is the number of bases of all molecules.
func (s *Sampler) Bases() int { return s.bases }

// Molecule returns what read i is read from.
func (s *Sampler) Molecule(i int) *Molecule { return &s.molecules[i] }

// Read is a simulated read.
type Read struct {
	Name      string
	Seq       []byte // A, C, G and T
	Qualities []byte // Phred

	// What differs from the molecule, in bases.
	Substituted, Inserted, Deleted int

	// Scratch.
	template   []byte   // codes of bases, with siteBases/2 more on either side
	kmers      []uint32 // the siteBases-mer around each base
	classes    []class
	afterError bool
}

// AppendFASTQ appends the read as a FASTQ record.
func (r *Read) AppendFASTQ(b []byte) []byte {
	b = append(b, '@')
	b = append(b, r.Name...)
	b = append(b, '\n')
	b = append(b, r.Seq...)
	b = append(b, "\n+\n"...)
	at := len(b)
	b = append(b, r.Qualities...)
	for i := at; i < len(b); i++ {
		b[i] += 33
	}
	return append(b, '\n')
}

// Read makes read i. What it returns is in r, whose memory is used again.
func (s *Sampler) Read(i int, r *Read) { s.maker.Make(&s.molecules[i], i, r) }

// Make makes the read of a molecule, which is named by its number, from 0. What it returns is
// in r, whose memory is used again.
func (k *Maker) Make(m *Molecule, number int, r *Read) {
	rnd, pcg := newRand(k.seed, errorStream, uint64(number))
	score := rnd.NormFloat64()
	r.Name = m.Name(number + 1)
	r.load(m)
	r.call(k.model, math.Exp(float64(k.model.spread*score)-float64(k.model.spread*k.model.spread/2)), rnd, pcg)
	r.rate(k.model, -score, rnd)
}

// AppendCodes appends the codes (0 to 3 for A, C, G and T) of the molecule's bases in
// reading direction, with flank more on either side: those of the haplotype, and A
// beyond its ends.
func (m *Molecule) AppendCodes(dst []byte, flank int) []byte {
	seq := m.Haplotype.Seq
	n := m.Length + 2*flank
	first := len(dst)
	for i := range n {
		at := m.Start - flank + i
		if m.Start+m.Length > len(seq) { // over the origin
			at = (at + len(seq)) % len(seq)
		}
		b := byte(0)
		if at >= 0 && at < len(seq) {
			b = code[seq[at]] & 3
		}
		dst = append(dst, b)
	}
	if m.Reverse {
		t := dst[first:]
		for i, j := 0, len(t)-1; i < j; i, j = i+1, j-1 {
			t[i], t[j] = t[j], t[i]
		}
		for i := range t {
			t[i] = 3 - t[i]
		}
	}
	return dst
}

// load fills template and kmers.
func (r *Read) load(m *Molecule) {
	const flank = siteBases / 2
	r.template = m.AppendCodes(r.template[:0], flank)
	r.kmers = r.kmers[:0]
	kmer := uint32(0)
	for i, b := range r.template {
		kmer = (kmer<<2 | uint32(b)) & (siteContexts - 1)
		if i >= 2*flank {
			r.kmers = append(r.kmers, kmer)
		}
	}
}

// emit appends a called base.
func (r *Read) emit(base byte, c class) {
	if c == wrong || c == inserted {
		r.stumble()
	} else if r.afterError {
		r.afterError = false
		c = beside
	}
	r.Seq = append(r.Seq, letters[base])
	r.classes = append(r.classes, c)
}

// stumble notes an error between the last base and the next.
func (r *Read) stumble() {
	if n := len(r.classes); n > 0 && r.classes[n-1] < beside {
		r.classes[n-1] = beside
	}
	r.afterError = true
}

// skip leaves out bases of the template.
func (r *Read) skip(n int) {
	if n > 0 {
		r.Deleted += n
		r.stumble()
	}
}

// call writes the sequence: what the template is called as, by a read whose rate of
// errors is rate times the mean.
func (r *Read) call(m *model, rate float64, rnd *rand.Rand, pcg *rand.PCG) {
	const flank = siteBases / 2
	r.Seq, r.classes, r.afterError = r.Seq[:0], r.classes[:0], false
	r.Substituted, r.Inserted, r.Deleted = 0, 0, 0
	t := r.template[flank : len(r.template)-flank]
	burst := m.newBurst(rnd)
	odds := rate * burst.rate
	over := 1 / odds
	for i := 0; i < len(t); {
		if i >= burst.until {
			burst.turn(m, i, rnd)
			odds = rate * burst.rate
			over = 1 / odds
		}
		base, n := t[i], 1
		for i+n < len(t) && t[i+n] == base {
			n++
		}
		if n == 1 {
			context := &m.contexts[r.kmers[i]>>(siteBases-contextBases)&(contexts-1)]
			if m.sites != nil {
				if site := &m.sites[r.kmers[i]]; site.fraction > 0 && unit(pcg.Uint64()) < float64(site.fraction) {
					r.err(base, site.kind, site.base)
					i++
					continue
				}
			}
			u := unit(pcg.Uint64()) * over
			if u >= context.total {
				r.emit(base, right)
				i++
				continue
			}
			i += r.stray(m, context, base, u, len(t)-i, pcg)
			continue
		}
		i += r.run(m, i, n, odds, len(t)-i, pcg)
	}
}

// run calls a run of n bases, or the beginning of one, and returns how many bases of
// the template that took.
func (r *Read) run(m *model, at, n int, odds float64, left int, pcg *rand.PCG) int {
	const flank = siteBases / 2
	base := r.template[at+flank]
	model := &m.runs[base][min(n, maxRunLength)]
	before := uint64(r.kmers[at] >> (2*flank + 2) & 63)
	end := r.template[at+n+flank:]
	after := uint64(end[0])<<4 | uint64(end[1])<<2 | uint64(end[2])
	called := n
	if model.wrong > 0 {
		own := float64(model.odds * odds * m.surroundings(base, min(n, maxRunLength), before, after))
		if unit(pcg.Uint64()) < own/(1+own) {
			called = max(0, n+pick(model.changes[:], unit(pcg.Uint64()))-noChange)
		}
	}
	class := right
	if n >= minRun {
		class = inRun
	}
	over := 1 / odds
	for j := range min(n, called) {
		kmer := r.kmers[at+j]
		context := &m.contexts[kmer>>(siteBases-contextBases)&(contexts-1)]
		if m.sites != nil {
			if site := &m.sites[kmer]; site.fraction > 0 && unit(pcg.Uint64()) < float64(site.fraction) {
				r.err(base, site.kind, site.base)
				continue
			}
		}
		u := unit(pcg.Uint64()) * over
		if u >= context.total {
			r.emit(base, class)
		} else if taken := r.stray(m, context, base, u, left-j, pcg); taken > 1 {
			return j + taken
		}
	}
	for range called - n {
		r.emit(base, inserted)
		r.Inserted++
	}
	r.skip(n - called)
	return n
}

// stray makes the error of a context that u falls to, and returns how many bases of
// the template that took.
func (r *Read) stray(m *model, context *contextModel, base byte, u float64, left int, pcg *rand.PCG) int {
	kind := 0
	for kind < contextColumns && u >= context.steps[kind] {
		kind++
	}
	switch kind {
	case insertedColumn:
		r.emit(base, right)
		for range 1 + pick(m.insertions, unit(pcg.Uint64())) {
			r.emit(byte(pick(m.inserted[:], unit(pcg.Uint64()))), inserted)
			r.Inserted++
		}
	case contextColumns:
		n := min(left, 2+pick(m.deletions, unit(pcg.Uint64())))
		r.skip(n)
		return n
	default:
		r.err(base, byte(kind), base)
	}
	return 1
}

// err makes a substitution, a deletion, a doubling or an insertion of one base.
func (r *Read) err(base, kind, extra byte) {
	switch kind {
	case deletedColumn:
		r.skip(1)
	case doubledColumn, insertedColumn:
		r.emit(base, right)
		r.emit(extra, inserted)
		r.Inserted++
	default:
		r.emit(kind, wrong)
		r.Substituted++
	}
}

// burst is where a read is between bursts of errors.
type burst struct {
	inside bool
	until  int // base of the template
	rate   float64
}

// newBurst begins a read.
func (m *model) newBurst(rnd *rand.Rand) burst {
	if m.bursts.share == 0 {
		return burst{rate: 1, until: math.MaxInt}
	}
	b := burst{inside: rnd.Float64() >= m.bursts.share}
	b.turn(m, 0, rnd)
	return b
}

// turn goes into a burst at a base, or out of one.
func (b *burst) turn(m *model, at int, rnd *rand.Rand) {
	b.inside = !b.inside
	length := m.bursts.length
	b.rate = m.bursts.inside
	if !b.inside {
		length *= (1 - m.bursts.share) / m.bursts.share
		b.rate = m.bursts.out
	}
	b.until = at + 1 + int(min(rnd.ExpFloat64()*length, 1e12)) // no read is as long
}

// rate writes the qualities of a read with a normal score of its own.
func (r *Read) rate(m *model, own float64, rnd *rand.Rand) {
	own = float64(own * math.Sqrt(m.readShare))
	base := math.Sqrt(1 - m.readShare)
	fresh := math.Sqrt(1 - float64(m.correlation*m.correlation))
	state := rnd.NormFloat64()
	r.Qualities = r.Qualities[:0]
	for _, c := range r.classes {
		z := own + float64(base*state)
		bin := int((float64(z/levelRange) + 1) * (levelBins / 2))
		r.Qualities = append(r.Qualities, m.levels[c][min(max(bin, 0), levelBins-1)])
		state = float64(m.correlation*state) + float64(fresh*rnd.NormFloat64())
	}
}

package variant

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/packed"
	"github.com/porestream/porestream/stream/streampb"
)

// The motif guard: alleles that one strand's reads show because the basecaller gets a motif
// wrong are marked.
//
// Problem: a basecaller that has not learned a modified base reads it as another one. It does
// so wherever the modification's motif is (GATC, CCWGG, or one that nobody knows), in reads of
// one strand at each place, so that a sample gets false alleles by the hundred, all of one kind.
//
// Assumptions: true variants lie in a motif by chance, so that most of the motif's places have
// none, and reads of both strands show them.
//
// Strategy: in a region, a place is piled up where reads of one strand show a wrong base, together,
// that the other strand's reads hardly show. Piles are counted by every stretch of 4 to 6 bases
// around them, in reading direction, and by which of its bases is wrong. A stretch is a motif if
// far more of its places are piled up than of all places with that base, by a bound on the
// binomial's tail, divided by the number of stretches (Bonferroni). An allele in a motif, with the
// motif's change, is an artefact if its reads are likelier those of the motif on one strand and
// errors on the other than those of a variant on both.
//
// Consequences: what is marked is a function of the region's reads. A motif with fewer than four
// or five places in a region, of more than six bases or with a gap in the middle isn't found, unless it is
// known ([Config.ModifiedMotifs]); nor is one where reads of one strand alone lie. Gaps aren't counted. Regions are searched only if
// there is an allele that one strand could have made up.

// filterMotif is the filter of such alleles.
const filterMotif = "MotifArtifact"

const (
	leastMotif, mostMotif = 4, 6 // bases
	motifReach            = mostMotif - 1

	// pileReads is how many reads of a strand, and pileShare the share of these, that show one wrong
	// base make a pile; pileOther is how large the share of the other strand's may be beside it.
	pileReads = 2
	pileShare = 0.12
	pileOther = 0.25
	// pileDepth is how many reads of either strand a place needs to be counted.
	pileDepth = 3

	// motifPiles and motifShare are how many of a motif's places, and which share of them, are piled
	// up at least.
	motifPiles = 4
	motifShare = 0.35
	// motifDoubt is the probability of a motif by chance in a region.
	motifDoubt = 1e-3
	// maxMotifs bounds the motifs of a region: those with the most wrong reads.
	maxMotifs = 32

	// motifSpread is how much a motif's places differ in their share of wrong reads: the beta
	// distribution's sum of parameters.
	motifSpread = 6
	// leastMotifOdds is how much likelier an artefact is than a variant, where one is marked.
	leastMotifOdds = 10
	// motifQual is the QUAL from which on a call speaks against an artefact: each dB more as much as
	// motifQualWeight dB of odds. The QUAL rests on more than counts of reads: on qualities, and on
	// the reads' haplotypes. Of 540 artefacts in reads with three such motifs, called as a mixture, 8
	// have 20 and more and none 25.
	motifQual, motifQualWeight = 15, 2
	// leastOtherError is the least rate of errors that is assumed.
	leastOtherError = 0.003
)

// motifTests is the number of stretches that are tested, each with every base that is wrong and
// every base in its place.
var motifTests = func() (n float64) {
	for length := leastMotif; length <= mostMotif; length++ {
		n += float64(math.Pow(4, float64(length)) * float64(length) * 3)
	}
	return n
}()

// pile is a place where the reads of one strand show a wrong base.
type pile struct {
	context [2*motifReach + 1]byte // codes of the reference, in reading direction, the place in the middle
	to      byte                   // what the reads show
	wrong   int32                  // reads that show it
	reads   int32                  // of that strand
}

// motifSearch is the memory of a search.
type motifSearch struct {
	places [mostMotif + 1][]uint32 // by length, of stretches on the forward strand: where both strands have reads
	bases  [4]uint32               // the same of single bases
	piles  []pile
	found  [mostMotif + 1][]uint32 // piles by length and motifKey.index
	known  []knownMotif

	// Of the stretch that is being counted, by column: the reads of either strand, and those that show another
	// base.
	depth    [2][]int32
	wrong    [][2][4]int32
	unpacker unpacker
}

// motifKey is a stretch of bases and which of them is read as which.
type motifKey struct {
	length int
	word   uint32 // codes, two bits each, the first highest
	at     int    // the wrong base
	to     byte
}

func (k motifKey) index() int { return (int(k.word)*k.length+k.at)*4 + int(k.to) }

// base is the code of the i-th base.
func (k motifKey) base(i int) byte { return byte(k.word>>(2*(k.length-1-i))) & 3 }

// within reports whether o is a part of k with the same wrong base.
func (k motifKey) within(o motifKey) bool {
	shift := k.at - o.at
	if k.to != o.to || o.length >= k.length || shift < 0 || shift+o.length > k.length {
		return false
	}
	return k.word>>(2*(k.length-shift-o.length))&(1<<(2*o.length)-1) == o.word
}

// reversed is the word of the other strand.
func reversed(word uint32, length int) (out uint32) {
	for range length {
		out = out<<2 | 3 - word&3
		word >>= 2
	}
	return out
}

func (s *motifSearch) begin(known []knownMotif) {
	s.known = append(s.known[:0], known...)
	s.piles, s.bases = s.piles[:0], [4]uint32{}
	for length := leastMotif; length <= mostMotif; length++ {
		if s.places[length] == nil {
			s.places[length] = make([]uint32, 1<<(2*length))
			s.found[length] = make([]uint32, (1<<(2*length))*length*4)
		}
		clear(s.places[length])
		clear(s.found[length])
	}
}

// countPlaces counts the places that were counted, from position lo of a contig on, and enters the piles.
func (s *motifSearch) countPlaces(ref []byte, lo int) {
	const mask = 1<<(2*mostMotif) - 1
	word, clean := uint32(0), 0 // of the bases from pos on, and how many of them aren't ambiguous
	next := lo
	for col := range s.wrong {
		pos := lo + col
		for ; next < min(pos+mostMotif, len(ref)); next++ {
			if code := baseCode[ref[next]]; code < 4 {
				word, clean = (word<<2|uint32(code))&mask, clean+1
			} else {
				word, clean = word<<2&mask, 0
			}
		}
		base := baseCode[ref[pos]]
		if base > 3 {
			continue
		}
		depth := [2]int32{s.depth[0][col], s.depth[1][col]}
		if depth[0] < pileDepth || depth[1] < pileDepth {
			continue
		}
		s.bases[base]++
		s.countKnown(ref, pos, base)
		if ahead := next - pos; ahead == mostMotif {
			for length := leastMotif; length <= mostMotif; length++ {
				if clean >= mostMotif || clean > 0 && s.clean(ref, pos, length) {
					s.places[length][word>>(2*(mostMotif-length))]++
				}
			}
		}
		c := &s.wrong[col]
		for strand := range c {
			if wrong := c[strand][0] + c[strand][1] + c[strand][2] + c[strand][3]; wrong < pileReads || float64(wrong) < pileShare*float64(depth[strand]) {
				continue
			}
			for b := range byte(4) {
				n := c[strand][b]
				share := float64(n) / float64(depth[strand])
				if b == base || n < pileReads || share < pileShare || float64(c[1-strand][b]) > pileOther*share*float64(depth[1-strand]) {
					continue
				}
				p := pile{to: strandBase(b, strand == 1), wrong: n, reads: depth[strand]}
				s.pile(ref, pos, strand == 1, p)
				s.pileKnown(ref, pos, base, strand == 1, &p)
			}
		}
	}
}

// clean reports whether no base of a stretch is ambiguous.
func (s *motifSearch) clean(ref []byte, pos, length int) bool {
	return !hasAmbiguity(ref[pos : pos+length])
}

// pile enters a pile under all stretches around it.
func (s *motifSearch) pile(ref []byte, pos int, reverse bool, p pile) {
	for i := range p.context {
		at := pos + i - motifReach
		if reverse {
			at = pos - i + motifReach
		}
		p.context[i] = baseN
		if at >= 0 && at < len(ref) {
			p.context[i] = strandBase(baseCode[ref[at]], reverse)
		}
	}
	s.piles = append(s.piles, p)
	for length := leastMotif; length <= mostMotif; length++ {
		for at := range length {
			k := motifKey{length: length, at: at, to: p.to}
			known := true
			for _, b := range p.context[motifReach-at:][:length] {
				known = known && b < 4
				k.word = k.word<<2 | uint32(b&3)
			}
			if known {
				s.found[length][k.index()]++
			}
		}
	}
}

// counted is how many of the places of k there are, on either strand, and how many are piled up.
func (s *motifSearch) counted(k motifKey) (places, piled float64) {
	n := s.places[k.length][k.word] + s.places[k.length][reversed(k.word, k.length)]
	piled = float64(s.found[k.length][k.index()])
	return max(float64(n), piled), piled
}

// motifs are what stands out.
func (s *motifSearch) motifs() []motif {
	var expected [4][4]float64 // share of piles of all places, by base and what is read
	for i := range s.piles {
		p := &s.piles[i]
		expected[p.context[motifReach]][p.to]++
	}
	for from := range expected {
		for to := range expected[from] {
			expected[from][to] = (expected[from][to] + 1) / (float64(s.bases[from]+s.bases[3-from]) + 4)
		}
	}
	limit := math.Log(motifTests / motifDoubt)
	flagged := make(map[motifKey]bool)
	var order []motifKey
	for length := leastMotif; length <= mostMotif; length++ {
		for i, n := range s.found[length] {
			if n < motifPiles {
				continue
			}
			k := motifKey{length: length, word: uint32(i / 4 / length), at: i / 4 % length, to: byte(i % 4)}
			places, piled := s.counted(k)
			share, chance := piled/places, expected[k.base(k.at)][k.to]
			if share >= motifShare && places*divergence(share, chance) >= limit {
				flagged[k] = true
				order = append(order, k)
			}
		}
	}
	var kept []motifKey
	for _, k := range order {
		if !s.coarse(k, flagged) && !slices.ContainsFunc(kept, k.within) {
			kept = append(kept, k)
		}
	}
	list := s.knownWrong(&expected)
	for _, m := range s.named(s.unexplained(kept)) {
		if !slices.ContainsFunc(list, func(known motif) bool { return known.compare(&m) == 0 }) {
			list = append(list, m)
		}
	}
	return list[:min(len(list), maxMotifs)]
}

// divergence is that of a share from an expected one (Kullback and Leibler), by which Chernoff
// bounds the binomial's tail; 0 if it is lower.
func divergence(share, expected float64) float64 {
	if share <= expected {
		return 0
	}
	d := float64(share * math.Log(share/expected))
	if share < 1 {
		d += float64((1 - share) * math.Log((1-share)/(1-expected)))
	}
	return d
}

// coarse reports whether k stands out only because a longer motif does: those that go on by one base
// have nearly all of its piles, and far fewer places.
func (s *motifSearch) coarse(k motifKey, flagged map[motifKey]bool) bool {
	if k.length == mostMotif {
		return false
	}
	all, piledAll := s.counted(k)
	for _, before := range []bool{false, true} {
		var places, piled float64
		for b := range uint32(4) {
			long := motifKey{length: k.length + 1, word: k.word<<2 | b, at: k.at, to: k.to}
			if before {
				long.word, long.at = b<<(2*k.length)|k.word, k.at+1
			}
			if flagged[long] {
				n, p := s.counted(long)
				places, piled = places+n, piled+p
			}
		}
		if piled >= 0.8*piledAll && places <= 0.75*all {
			return true
		}
	}
	return false
}

// unexplained are the stretches that aren't explained by others, of whose places a larger share is
// piled up.
func (s *motifSearch) unexplained(keys []motifKey) (out []motifKey) {
	share := func(k motifKey) float64 {
		places, piled := s.counted(k)
		return piled / places
	}
	slices.SortStableFunc(keys, func(a, b motifKey) int { return cmp.Compare(share(b), share(a)) })
	explained := make([]bool, len(s.piles))
	for _, k := range keys {
		var own []int
		for i := range s.piles {
			if !explained[i] && s.piles[i].in(k) {
				own = append(own, i)
			}
		}
		if places, _ := s.counted(k); len(own) < motifPiles || float64(len(own)) < motifShare*places {
			continue
		}
		for _, i := range own {
			explained[i] = true
		}
		out = append(out, k)
	}
	return out
}

// in reports whether p is a pile of k.
func (p *pile) in(k motifKey) bool {
	if p.to != k.to {
		return false
	}
	for i := range k.length {
		if p.context[motifReach-k.at+i] != k.base(i) {
			return false
		}
	}
	return true
}

// motif is bases that reads of one strand get wrong.
type motif struct {
	bases           []byte // sets of codes, in reading direction: bit 0 is A
	at              int    // the wrong one
	to              byte   // what reads show instead, a code
	places, piled   float64
	wrong, allReads uint64 // reads of the strand at the piled up places, and how many of them are wrong
}

// named joins stretches that differ in one base (CCAGG and CCTGG are CCWGG), leaves out what is any
// base at the ends, and counts.
func (s *motifSearch) named(keys []motifKey) []motif {
	list := make([]motif, len(keys))
	for i, k := range keys {
		m := motif{at: k.at, to: k.to}
		for j := range k.length {
			m.bases = append(m.bases, 1<<k.base(j))
		}
		m.places, _ = s.counted(k)
		list[i] = m
	}
	for joined := true; joined; {
		joined = false
		for i := 0; i < len(list) && !joined; i++ {
			for j := i + 1; j < len(list) && !joined; j++ {
				if list[i].join(&list[j]) {
					list = slices.Delete(list, j, j+1)
					joined = true
				}
			}
		}
	}
	for i := range list {
		list[i].trim()
	}
	slices.SortFunc(list, func(a, b motif) int { return cmp.Or(a.compare(&b), cmp.Compare(b.places, a.places)) })
	list = slices.CompactFunc(list, func(a, b motif) bool { return a.compare(&b) == 0 })
	for i := range list {
		m := &list[i]
		for j := range s.piles {
			if p := &s.piles[j]; p.to == m.to && m.covers(p.context[motifReach-m.at:]) {
				m.piled++
				m.wrong, m.allReads = m.wrong+uint64(p.wrong), m.allReads+uint64(p.reads)
			}
		}
		m.places = max(m.places, m.piled)
	}
	slices.SortStableFunc(list, func(a, b motif) int { return cmp.Compare(b.wrong, a.wrong) })
	return list[:min(len(list), maxMotifs)]
}

func (m *motif) compare(o *motif) int {
	return cmp.Or(cmp.Compare(m.at, o.at), cmp.Compare(m.to, o.to), slices.Compare(m.bases, o.bases))
}

// join makes m one with o, if both differ in one base other than the wrong one.
func (m *motif) join(o *motif) bool {
	if len(m.bases) != len(o.bases) || m.at != o.at || m.to != o.to {
		return false
	}
	differ := -1
	for i := range m.bases {
		if m.bases[i] == o.bases[i] {
			continue
		}
		if differ >= 0 || i == m.at {
			return false
		}
		differ = i
	}
	if differ < 0 {
		return false
	}
	m.bases[differ] |= o.bases[differ]
	m.places += o.places
	return true
}

// anyBase is the set of all bases.
const anyBase = 15

// trim leaves out what is any base at the ends.
func (m *motif) trim() {
	for len(m.bases) > 1 && m.bases[0] == anyBase && m.at > 0 {
		m.bases, m.at = m.bases[1:], m.at-1
	}
	for len(m.bases)-1 > m.at && m.bases[len(m.bases)-1] == anyBase {
		m.bases = m.bases[:len(m.bases)-1]
	}
}

// covers reports whether codes begin with the motif.
func (m *motif) covers(of []byte) bool {
	for i, set := range m.bases {
		if of[i] > 3 || set>>of[i]&1 == 0 {
			return false
		}
	}
	return true
}

// lies reports whether the motif's wrong base, in reads of a strand, is at a position of a contig.
func (m *motif) lies(ref []byte, pos int, reverse bool) bool {
	for i, set := range m.bases {
		at := pos + i - m.at
		if reverse {
			at = pos - i + m.at
		}
		if at < 0 || at >= len(ref) {
			return false
		}
		if b := strandBase(baseCode[ref[at]], reverse); b > 3 || set>>b&1 == 0 {
			return false
		}
	}
	return true
}

// message is what is said of the motif.
func (m *motif) message() *streampb.MotifError {
	name := make([]byte, len(m.bases))
	for i, set := range m.bases {
		name[i] = genome.Letter(set)
	}
	return &streampb.MotifError{
		Motif: string(name), Base: uint32(m.at) + 1, Shows: string("ACGT"[m.to]),
		Sites: uint32(m.places), Affected: uint32(m.piled), Reads: m.allReads, Wrong: m.wrong,
	}
}

// motifOf reads what message has written.
func motifOf(e *streampb.MotifError) (motif, error) {
	m := motif{at: int(e.GetBase()) - 1, places: float64(e.GetSites()), piled: float64(e.GetAffected()), wrong: e.GetWrong(), allReads: e.GetReads()}
	for i := range len(e.GetMotif()) {
		set := genome.BaseSet(e.GetMotif()[i])
		if set == 0 {
			return motif{}, fmt.Errorf("motif %q", e.GetMotif())
		}
		m.bases = append(m.bases, set)
	}
	if len(m.bases) > maxKnownMotif || m.at < 0 || m.at >= len(m.bases) || bits.OnesCount8(m.bases[m.at]) != 1 || len(e.GetShows()) != 1 || baseCode[e.GetShows()[0]] > 3 ||
		m.piled < 1 || m.places < m.piled || m.wrong < 1 || m.allReads < m.wrong {
		return motif{}, fmt.Errorf("motif %q, base %d read as %q at %d of %d sites by %d of %d reads", e.GetMotif(), e.GetBase(), e.GetShows(), e.GetAffected(), e.GetSites(), e.GetWrong(), e.GetReads())
	}
	m.to = baseCode[e.GetShows()[0]]
	return m, nil
}

// motifState is the motifs that were found in a region, and how many reads it had then.
type motifState struct {
	list []motif
	at   int
}

// motifTiles is how many tiles are searched together: many, as each time all of the region's reads are
// asked whether they reach there.
const motifTiles = 16

// findMotifs searches the whole region, and changes nothing but r.work.
func (r *Region) findMotifs() motifState {
	s := &r.work.motifs
	s.begin(r.known)
	for t := 0; t < len(r.tiles); t += motifTiles {
		lo, hi := r.tileStart(t), r.tileEnd(min(t+motifTiles, len(r.tiles))-1)
		if s.count(r, lo, hi) {
			s.countPlaces(r.contig.Seq, lo)
		}
	}
	return motifState{list: s.motifs(), at: r.reads.kept + r.reads.partial}
}

// count counts what reads show at positions [lo, hi) other than the reference. It reports whether
// there are any reads. A tile's matrix has the same and more, for ten times the work.
func (s *motifSearch) count(r *Region, lo, hi int) bool {
	c := &r.work.chooser
	c.choose(&r.reads, r.reach(), lo, hi, r.cfg.MaxDepth)
	if len(c.picks) == 0 {
		return false
	}
	s.wrong = slices.Grow(s.wrong[:0], hi-lo)[:hi-lo]
	clear(s.wrong)
	for strand := range s.depth {
		s.depth[strand] = slices.Grow(s.depth[strand][:0], hi-lo+1)[:hi-lo+1]
		clear(s.depth[strand])
	}
	u := &s.unpacker
	for i := range c.picks {
		p := &c.picks[i]
		if p.first == none {
			continue
		}
		rd := &r.reads.table[p.number]
		strand := strandIndex(rd.is(readReverse))
		for at := p.first; at != none; at = c.spans[at].next {
			s.depth[strand][c.spans[at].from]++
			s.depth[strand][c.spans[at].to]--
		}
		u.open(r.reads.batches[r.reads.batchOf(int(p.number))].data[rd.at:], int(rd.start)+r.reach(), int(rd.end)+r.reach(), lo, r.contig.Seq)
		own := p.first
		for ch, ok := u.next(); ok && ch.pos < hi; ch, ok = u.next() {
			if ch.kind != align.Mismatch || ch.pos < lo || ch.base > 3 {
				continue
			}
			col := int32(ch.pos - lo)
			for own != none && c.spans[own].to <= col {
				own = c.spans[own].next
			}
			if own != none && c.spans[own].from <= col {
				s.wrong[col][strand][ch.base]++
			}
		}
	}
	for strand := range s.depth { // until now, differences
		for i := 1; i < len(s.depth[strand]); i++ {
			s.depth[strand][i] += s.depth[strand][i-1]
		}
	}
	return true
}

// guard marks the calls that are artefacts of motifs. The motifs are searched for anew if that
// is asked for, or the reads have doubled since, and a call needs it.
func (r *Region) guard(tiles []evaluatedTile, anew bool) {
	if anew {
		r.motifs = motifState{}
	}
	var model *errorModel
	for _, j := range tiles {
		for _, c := range j.calls {
			if len(c.GetRef()) != len(c.GetAlt()) || !couldBeMotif(c) {
				continue
			}
			if model == nil {
				model = r.errorModel()
			}
			if !r.likeMotif(c, model, nil) {
				continue
			}
			if reads := r.reads.kept + r.reads.partial; r.motifs.at == 0 || !anew && reads >= 2*r.motifs.at {
				r.motifs = r.findMotifs()
			}
			for i := range r.motifs.list {
				if m := &r.motifs.list[i]; r.likeMotif(c, model, m) {
					c.Motif = m.message()
					c.Filters = append(slices.Clone(c.GetFilters()), filterMotif)
					break
				}
			}
		}
	}
}

// couldBeMotif says, quickly, whether one strand shows the allele much more than the other.
func couldBeMotif(c *streampb.Call) bool {
	a, b := strandReads(c, 0), strandReads(c, 1)
	x, y := float64(a[0])*float64(b[1]), float64(b[0])*float64(a[1]) // shares, times both depths
	return min(x, y) <= 0.5*max(x, y)
}

// strandReads is how many reads of a strand show the allele, of how many.
func strandReads(c *streampb.Call, strand int) [2]uint32 {
	if strand == 0 {
		return [2]uint32{c.GetAltForward(), c.GetAltForward() + c.GetRefForward() + c.GetOtherForward()}
	}
	return [2]uint32{c.GetAltReverse(), c.GetAltReverse() + c.GetRefReverse() + c.GetOtherReverse()}
}

// likeMotif reports whether some substitution of c, in reads of one strand, is likelier an artefact of
// motif m than a variant; nil: of the motif that would explain it best.
func (r *Region) likeMotif(c *streampb.Call, model *errorModel, m *motif) bool {
	for i := range len(c.GetRef()) {
		if c.GetRef()[i] == c.GetAlt()[i] {
			continue
		}
		pos := int(c.GetPos()) - 1 + i
		to := baseCode[c.GetAlt()[i]]
		for strand := range 2 {
			reverse := strand == 1
			if m != nil && (m.to != strandBase(to, reverse) || !m.lies(r.contig.Seq, pos, reverse)) {
				continue
			}
			own, other := strandReads(c, strand), strandReads(c, 1-strand)
			e := model.confusion(kmerAt(r.contig.Seq, pos, !reverse), strandBase(to, !reverse), int(other[0]), int(other[1]))
			sure := max(0, c.GetQual()-motifQual) * motifQualWeight * math.Ln10 / 10
			if motifOdds(own, other, m, max(leastOtherError, e), r.cfg.SNPRate/3)-sure >= math.Log(leastMotifOdds) {
				return true
			}
		}
	}
	return false
}

// motifOdds is the natural logarithm of the odds of an artefact against a variant. own and other
// are how many reads, of how many, show it on the motif's and on the other strand; e is the rate of
// errors on the latter, and prior the probability of a variant.
func motifOdds(own, other [2]uint32, m *motif, e, prior float64) float64 {
	a, n, b, k := float64(own[0]), float64(own[1]), float64(other[0]), float64(other[1])
	if a == 0 {
		return math.Inf(-1)
	}
	binomial := func(hits, n, p float64) float64 { return float64(hits*math.Log(p)) + float64((n-hits)*math.Log1p(-p)) }
	clip := func(p float64) float64 { return min(0.98, max(0.02, p)) }
	f := clip((a + b) / (n + k))
	variant := binomial(a, n, f) + binomial(b, k, f) + math.Log(prior)
	artefact := binomial(b, k, e)
	if m == nil {
		return artefact + binomial(a, n, clip(a/n)) - variant
	}
	mean := clip(float64(m.wrong) / float64(m.allReads))
	lbeta := func(x, y float64) float64 {
		u, _ := math.Lgamma(x)
		v, _ := math.Lgamma(y)
		w, _ := math.Lgamma(x + y)
		return u + v - w
	}
	x, y := float64(mean*motifSpread), float64((1-mean)*motifSpread)
	artefact += lbeta(x+a, y+n-a) - lbeta(x, y) + math.Log(m.piled/m.places)
	return artefact - variant
}

// append writes the motifs; see stream/STATE.md.
func (s *motifState) append(b []byte) ([]byte, error) {
	b = packed.AppendLen(packed.AppendLen(b, s.at), len(s.list))
	for i := range s.list {
		var err error
		if b, err = packed.AppendMessage(b, s.list[i].message()); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// restore reads what append has written.
func (s *motifState) restore(in *packed.Reader) {
	s.at = in.Len(maxReads)
	for range in.Count(1) {
		e := new(streampb.MotifError)
		in.Message(e)
		if in.Err() != nil {
			return
		}
		m, err := motifOf(e)
		if err != nil {
			in.Fail("%w", err)
			return
		}
		s.list = append(s.list, m)
	}
	if len(s.list) > maxMotifs {
		in.Fail("%d motifs", len(s.list))
	}
}

package variant

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/porestream/porestream/genome"
)

// Motifs that are known to be modified, because reads say so of their bases or a laboratory knows its strain, need less
// evidence than what the guard finds by itself: a few stretches are tested instead of all, so that two sites can be enough, and
// they may be long or have a gap. Reads must still get them wrong, on one strand, far more often than other bases: a motif that
// the basecalling model knows marks nothing.

// MaxKnownMotifs is how many motifs [Config.ModifiedMotifs] may have.
const MaxKnownMotifs = 64

const (
	// maxKnownMotif is the most letters of a known motif.
	maxKnownMotif = 32
	// leastFixed is how many of its letters stand for one base: CHH is at every tenth base of a genome.
	leastFixed = 2
	// knownPiles is how many of a known motif's places are piled up at least.
	knownPiles = 2
)

// knownMotif is a base of a known motif that reads might get wrong, and what was counted of it.
type knownMotif struct {
	motif               // places and piled aren't used
	base   byte         // code of the wrong base
	places uint32       // where both strands have reads
	shown  [4]knownPile // by what reads show
}

type knownPile struct {
	piled       uint32
	wrong, read uint64
}

// knownMotifsOf are all bases of motifs that reads might get wrong: those that are one of the four.
func knownMotifsOf(motifs []string) (list []knownMotif, err error) {
	if len(motifs) > MaxKnownMotifs {
		return nil, fmt.Errorf("%d modified motifs: want at most %d", len(motifs), MaxKnownMotifs)
	}
	for _, letters := range motifs {
		sets := make([]byte, len(letters))
		for i := range sets {
			if sets[i] = genome.BaseSet(letters[i]); sets[i] == 0 {
				return nil, fmt.Errorf("modified motif %q: %q is no letter of IUPAC's for bases", letters, letters[i])
			}
		}
		if len(letters) > maxKnownMotif || fixedBases(letters) < leastFixed {
			return nil, fmt.Errorf("modified motif %q: want at most %d letters, and two of A, C, G and T among them", letters, maxKnownMotif)
		}
		for at, set := range sets {
			if bits.OnesCount8(set) == 1 {
				list = append(list, knownMotif{motif: motif{bases: sets, at: at}, base: byte(bits.TrailingZeros8(set))})
			}
		}
	}
	return list, nil
}

// SpecificMotifs divides motifs that are modified into those that [Config.ModifiedMotifs] takes and those of too few bases to distinguish errors from chance, as CHH of plants.
func SpecificMotifs(motifs []string) (specific, loose []string) {
	for _, letters := range motifs {
		if fixedBases(letters) < leastFixed {
			loose = append(loose, letters)
		} else {
			specific = append(specific, letters)
		}
	}
	return specific, loose
}

// KnownMotifs are motifs as regions take them; see [Region.UseMotifs].
type KnownMotifs struct{ list []knownMotif }

// NewKnownMotifs takes those of the configuration's motifs and of those that were found, the best first, that calling can take: with bases
// enough to distinguish errors from chance, and of these at most [MaxKnownMotifs]. It lists the others, too.
func (c Config) NewKnownMotifs(found []string) (known KnownMotifs, leftOut []string, err error) {
	all, leftOut := SpecificMotifs(found)
	all = slices.DeleteFunc(all, func(letters string) bool { return slices.Contains(c.ModifiedMotifs, letters) })
	if most := MaxKnownMotifs - len(c.ModifiedMotifs); len(all) > most {
		all, leftOut = all[:most], append(leftOut, all[most:]...)
	}
	slices.Sort(all)
	known.list, err = knownMotifsOf(slices.Concat(c.ModifiedMotifs, all))
	return known, leftOut, err
}

// UseMotifs makes r call with known motifs instead of its configuration's. What it has found of motifs stays until it searches again; see
// [Region.ForgetMotifs].
func (r *Region) UseMotifs(known KnownMotifs) { r.known = known.list }

// ForgetMotifs has r search for motifs again when the next call needs them.
func (r *Region) ForgetMotifs() {
	r.motifs = motifState{}
	r.version++
}

// fixedBases is how many of a motif's letters stand for one base.
func fixedBases(letters string) (n int) {
	for i := range len(letters) {
		if bits.OnesCount8(genome.BaseSet(letters[i])) == 1 {
			n++
		}
	}
	return n
}

// countKnown counts a place, of which base is the code in the reference.
func (s *motifSearch) countKnown(ref []byte, pos int, base byte) {
	for i := range s.known {
		k := &s.known[i]
		for _, reverse := range [...]bool{false, true} {
			if strandBase(base, reverse) == k.base && k.lies(ref, pos, reverse) {
				k.places++
			}
		}
	}
}

// pileKnown enters a pile under the known motifs that it lies in.
func (s *motifSearch) pileKnown(ref []byte, pos int, base byte, reverse bool, p *pile) {
	for i := range s.known {
		k := &s.known[i]
		if strandBase(base, reverse) == k.base && k.lies(ref, pos, reverse) {
			shown := &k.shown[p.to]
			shown.piled++
			shown.wrong, shown.read = shown.wrong+uint64(p.wrong), shown.read+uint64(p.reads)
		}
	}
}

// knownWrong are the known motifs that reads get wrong, given the shares of piles of all places.
func (s *motifSearch) knownWrong(expected *[4][4]float64) (list []motif) {
	limit := math.Log(3 * float64(len(s.known)) / motifDoubt)
	for i := range s.known {
		k := &s.known[i]
		for to := range byte(4) {
			shown := k.shown[to]
			if shown.piled < knownPiles {
				continue
			}
			places := float64(max(k.places, shown.piled))
			share := float64(shown.piled) / places
			if share < motifShare || places*divergence(share, expected[k.base][to]) < limit {
				continue
			}
			m := k.motif
			m.to, m.places, m.piled, m.wrong, m.allReads = to, places, float64(shown.piled), shown.wrong, shown.read
			list = append(list, m)
		}
	}
	return list
}

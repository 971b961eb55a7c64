package motif

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/pileup"
)

// An excerpt of a genome's places.
//
// Problem: a genome's places are spread over workers, and only all of them together show its motifs.
//
// Strategy: a search needs which places are modified and the bases around them, and of the others a part. Each worker makes an
// excerpt of its places, and one searches in all of them. Which places are left out follows from the bases around
// them and from the genome's size, so that what is found doesn't depend on how places are spread over workers.

// greatest is how many bases a genome has at most of whose modified places none is left out.
const greatest = 8 << 20

// Excerpt is what a search for motifs needs of places. The letters it finds are those of a [Finder] that was given the same
// places, as long as both take all of them.
type Excerpt struct {
	cfg Config
	// Of 2^modified of the modified places, and of 2^others of the others, one is kept.
	modified, others int
	places           map[modbase.Code]*Surroundings
}

// Surroundings are places of one modification, each as the bases around it: two bits a base, the first of 2 Reach + 1 lowest.
type Surroundings struct {
	Code             modbase.Code
	Modified, Others []uint64
}

// NewExcerpt returns one of no places, in a genome of a number of bases.
func NewExcerpt(cfg Config, bases int) *Excerpt {
	return &Excerpt{
		cfg: cfg.withDefaults(), modified: bits.Len(uint(bases / greatest)), others: bits.Len(uint(bases / plain)),
		places: make(map[modbase.Code]*Surroundings),
	}
}

// Add takes a row as [Finder.Add] does.
func (e *Excerpt) Add(contig []byte, row *pileup.Row) {
	valid := row.Valid()
	if valid < e.cfg.MinCoverage {
		return
	}
	context, ok := contextOf(contig, row)
	if !ok {
		return
	}
	context &^= minus
	if s := e.of(row.Code); 2*row.Modified > valid {
		if hash(context)>>(64-e.modified) == 0 {
			s.Modified = append(s.Modified, context)
		}
	} else if hash(context+1)>>(64-e.others) == 0 {
		s.Others = append(s.Others, context)
	}
}

func (e *Excerpt) of(code modbase.Code) *Surroundings {
	s := e.places[code]
	if s == nil {
		s = &Surroundings{Code: code}
		e.places[code] = s
	}
	return s
}

// Surroundings lists the places by code, each code's ascending.
func (e *Excerpt) Surroundings() []Surroundings {
	var list []Surroundings
	for _, code := range slices.SortedFunc(maps.Keys(e.places), modbase.Code.Compare) {
		s := e.places[code]
		slices.Sort(s.Modified)
		slices.Sort(s.Others)
		list = append(list, *s)
	}
	return list
}

// Put takes in what an excerpt of another part of the genome lists.
func (e *Excerpt) Put(list Surroundings) {
	s := e.of(list.Code)
	s.Modified, s.Others = append(s.Modified, list.Modified...), append(s.Others, list.Others...)
}

// Letters searches for motifs, and returns their letters, each once, those with the most evidence first. The error is the context's.
func (e *Excerpt) Letters(ctx context.Context) ([]string, error) {
	var all []Motif
	f := &Finder{cfg: e.cfg}
	for _, list := range e.Surroundings() {
		for base := range uint64(4) {
			s := &sample{weight: math.Ldexp(1, e.others-e.modified)}
			for i, contexts := range [][]uint64{list.Modified, list.Others} {
				for _, context := range contexts {
					if context>>(2*Reach)&3 == base {
						s.contexts, s.modified = append(s.contexts, context), append(s.modified, i == 0)
					}
				}
			}
			patterns, err := f.search(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("searching for modified motifs: %w", err)
			}
			for i := range patterns {
				letters, _ := patterns[i].letters()
				all = append(all, Motif{Letters: letters, Evidence: patterns[i].g})
			}
		}
	}
	return ByEvidence(all), nil
}

// ByEvidence are the letters of motifs, each once, those with the most evidence first.
func ByEvidence(found []Motif) []string {
	found = slices.Clone(found)
	slices.SortStableFunc(found, func(a, b Motif) int {
		return cmp.Or(cmp.Compare(b.Evidence, a.Evidence), cmp.Compare(a.Letters, b.Letters))
	})
	var letters []string
	for i := range found {
		if !slices.Contains(letters, found[i].Letters) {
			letters = append(letters, found[i].Letters)
		}
	}
	return letters
}

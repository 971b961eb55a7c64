package homology

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Protein is one that somebody knows.
type Protein struct {
	ID      string   // accession, or another name that is unique in its file
	Gene    string   // symbol, such as dnaA; empty if it has none
	Product string   // what it is said to be; empty if nothing is
	Terms   []string // of the Gene Ontology, such as GO:0003677
	Source  string   // name of the file
	Seq     []byte   // letters
}

// Hit is a known protein that a query is similar to.
type Hit struct {
	Protein *Protein
	Score   int     // in half bits of BLOSUM62
	Expect  float64 // number of such hits by chance
	// Identity is the share of the alignment's columns, gaps included, in which both have the same residue.
	Identity float64
	// QueryCoverage and Coverage are the shares of the query and of the known protein that are aligned.
	QueryCoverage, Coverage float64
	Number                  int // of the protein in the index
	// What is aligned, half open.
	QueryStart, QueryEnd, Start, End int
}

const (
	word = 5 // residues
	// words is the number of different ones.
	words = amino * amino * amino * amino * amino
	// diagonals is how far apart the diagonals of shared words may lie that count as one.
	diagonals = 16
	// candidates is the most proteins that a query is aligned with.
	candidates = 8
	// remoteCandidates is the same among remote relatives, of which a few share no more words than others do by chance.
	remoteCandidates = 16
	// fewerShared is how many times fewer words than the first a candidate may share.
	fewerShared = 8
	// shortQuery is a length in residues up to which one shared word is enough for an alignment.
	shortQuery = 50
)

// The classes of residues that words distinguish: each by itself, or the ten of Murphy, Wallqvist and Levy (Protein Eng. 2000), within which one takes the other's
// place in remote relatives.
var (
	each  = classes("A", "R", "N", "D", "C", "Q", "E", "G", "H", "I", "L", "K", "M", "F", "P", "S", "T", "W", "Y", "V")
	alike = classes("LVIM", "C", "A", "G", "ST", "P", "FYW", "EDNQ", "KR", "H")
)

func classes(list ...string) (of [amino]byte) {
	for i, class := range list {
		for _, r := range encode(nil, []byte(class)) {
			of[r] = byte(i)
		}
	}
	return of
}

// MostResidues is the most that an index takes: more than all reviewed bacterial proteins of UniProt have.
const MostResidues = 1 << 27

// Index finds known proteins by their words. It doesn't change, and may be shared.
type Index struct {
	proteins []Protein
	text     []byte       // all proteins, encoded, one after another
	begin    []uint32     // of each in text; one more than there are proteins
	first    []uint32     // of each word in places; one more than there are words
	places   []uint32     // of words in text
	common   int          // words with more places are passed over
	seen     *[amino]byte // the class of each residue, which words distinguish
	most     int          // proteins that a query is aligned with
}

// NewIndex makes an index. Where two proteins are equally similar to a query, the earlier one is
// returned.
func NewIndex(proteins []Protein) (*Index, error) { return newIndex(proteins, &each, candidates) }

// NewRemoteIndex makes an index that finds proteins of which two in five residues are the same, where NewIndex's has to have more. A search takes a hundred times as
// long.
func NewRemoteIndex(proteins []Protein) (*Index, error) {
	return newIndex(proteins, &alike, remoteCandidates)
}

func newIndex(proteins []Protein, seen *[amino]byte, most int) (*Index, error) {
	x := &Index{proteins: proteins, seen: seen, most: most}
	total := 0
	for i := range proteins {
		total += len(proteins[i].Seq)
	}
	if total > MostResidues {
		return nil, fmt.Errorf("the known proteins have %d residues, more than %d: give those of related organisms", total, MostResidues)
	}
	x.text = make([]byte, 0, total)
	for i := range proteins {
		x.begin = append(x.begin, uint32(len(x.text)))
		x.text = encode(x.text, proteins[i].Seq)
	}
	x.begin = append(x.begin, uint32(len(x.text)))
	x.first = make([]uint32, words+1)
	x.eachWord(func(code, _ int) { x.first[code+1]++ })
	for i := range words {
		x.first[i+1] += x.first[i]
	}
	x.places = make([]uint32, x.first[words])
	next := slices.Clone(x.first[:words])
	x.eachWord(func(code, at int) {
		x.places[next[code]] = uint32(at)
		next[code]++
	})
	x.common = 1000 + len(x.text)>>12
	return x, nil
}

// Len is the number of proteins.
func (x *Index) Len() int { return len(x.proteins) }

// eachWord calls f with every word of the proteins and where it begins in the text.
func (x *Index) eachWord(f func(code, at int)) {
	for i := range x.proteins {
		begin := int(x.begin[i])
		x.wordsOf(x.text[begin:x.begin[i+1]], func(code, at int) { f(code, begin+at) })
	}
}

// wordsOf calls f with the words of a protein that have amino acids alone.
func (x *Index) wordsOf(protein []byte, f func(code, at int)) {
	code, known := 0, 0
	for i, r := range protein {
		if r >= amino {
			known = 0
			continue
		}
		code = (code*amino + int(x.seen[r])) % words
		if known++; known >= word {
			f(code, i-word+1)
		}
	}
}

// diagonal is where a known protein and a query share words.
type diagonal struct {
	shared, protein, offset int
}

// A hit of a word is a number, so that hits are sorted by protein and diagonal: the diagonal is moved by middle so that it is never below zero.
const middle = 1 << 31

// Search returns the known proteins that are most similar to a query, best first, with at most the expected number of hits by chance. w is used and
// may be used again.
func (x *Index) Search(query []byte, expect float64, w *Workspace) []Hit {
	w.encoded = encode(w.encoded[:0], query)
	fewest := 2
	if len(w.encoded) <= shortQuery {
		fewest = 1
	}
	w.collect(x, w.encoded, wanted{fewest: fewest, every: 1, without: -1, longest: MostResidues})
	return x.hits(w.encoded, expect, w)
}

// everyWord is which words relatives are searched by: they share many.
const everyWord = 3

// encoded is what the index has of a protein.
func (x *Index) encoded(protein int) []byte { return x.text[x.begin[protein]:x.begin[protein+1]] }

// Relatives is Search for a protein of the index among the others. Only those that share so much of its words are aligned with it.
func (x *Index) Relatives(protein int, shared, expect float64, w *Workspace) []Hit {
	q := x.encoded(protein)
	fewest := max(2, int(shared*float64(len(q)-word+1)/everyWord))
	w.collect(x, q, wanted{fewest: fewest, every: everyWord, without: protein, longest: MostResidues})
	return x.hits(q, expect, w)
}

// Remote is Search for a protein of the index among the others of at least and at most so many residues.
func (x *Index) Remote(protein, shortest, longest int, expect float64, w *Workspace) []Hit {
	q := x.encoded(protein)
	w.collect(x, q, wanted{fewest: 2, every: 1, without: protein, shortest: shortest, longest: longest})
	return x.hits(q, expect, w)
}

// hits aligns what was collected.
func (x *Index) hits(q []byte, expect float64, w *Workspace) []Hit {
	var out []Hit
	for _, d := range w.near {
		p := &x.proteins[d.protein]
		known := x.encoded(d.protein)
		a := w.align(q, known, d.offset, halfBand)
		if a.columns == 0 {
			continue
		}
		chance := kappa * float64(len(q)) * float64(len(x.text)) * math.Exp(-lambda*float64(a.score))
		if chance > expect {
			continue
		}
		out = append(out, Hit{
			Protein: p, Number: d.protein, Score: a.score, Expect: chance, Identity: float64(a.identical) / float64(a.columns),
			QueryCoverage: float64(a.toA-a.fromA) / float64(len(q)), Coverage: float64(a.toB-a.fromB) / float64(len(known)),
			QueryStart: a.fromA, QueryEnd: a.toA, Start: a.fromB, End: a.toB,
		})
	}
	// What was aligned first had more words in common, and of those with as many came first: the order among equals stays.
	slices.SortStableFunc(out, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Identity, a.Identity), cmp.Compare(b.Coverage, a.Coverage))
	})
	return out
}

// wanted says which proteins are collected.
type wanted struct {
	fewest            int // words that they share
	every             int // of the query's words, which are searched
	without           int // the protein that isn't; -1 for none
	shortest, longest int // residues that they have
}

// collect finds the proteins and diagonals on which q shares the most words.
func (w *Workspace) collect(x *Index, q []byte, want wanted) {
	w.hits, w.near = w.hits[:0], w.near[:0]
	x.wordsOf(q, func(code, at int) {
		places := x.places[x.first[code]:x.first[code+1]]
		if at%want.every != 0 || len(places) > x.common {
			return
		}
		for _, place := range places {
			protein := sort.Search(len(x.begin)-1, func(i int) bool { return x.begin[i+1] > place })
			w.hits = append(w.hits, uint64(protein)<<32|uint64(middle+int(place-x.begin[protein])-at))
		}
	})
	slices.Sort(w.hits)
	for from := 0; from < len(w.hits); {
		protein := w.hits[from] >> 32
		to := from
		best := diagonal{protein: int(protein)}
		for low := from; to < len(w.hits) && w.hits[to]>>32 == protein; to++ {
			for w.hits[to]-w.hits[low] > diagonals {
				low++
			}
			if n := to - low + 1; n > best.shared {
				best.shared, best.offset = n, int(w.hits[low+n/2]&(1<<32-1))-middle
			}
		}
		length := int(x.begin[protein+1] - x.begin[protein])
		if best.shared >= want.fewest && best.protein != want.without && want.shortest <= length && length <= want.longest {
			w.near = append(w.near, best)
		}
		from = to
	}
	longer := func(protein []byte) int { return max(len(protein)-len(q), len(q)-len(protein)) } // or shorter
	slices.SortFunc(w.near, func(a, b diagonal) int {
		if a.shared == b.shared && want.without >= 0 {
			// The genes of a genome may come in any order. Of as many words, those of what is about as long as q come first.
			s, t := x.encoded(a.protein), x.encoded(b.protein)
			if c := cmp.Or(longer(s)-longer(t), bytes.Compare(s, t)); c != 0 {
				return c
			}
		}
		return cmp.Or(b.shared-a.shared, a.protein-b.protein)
	})
	w.near = w.near[:min(len(w.near), x.most)]
	for i := range w.near {
		if w.near[i].shared*fewerShared < w.near[0].shared {
			w.near = w.near[:i]
			break
		}
	}
}

package genes

import (
	"cmp"
	"context"
	"slices"
)

// Stretches that stand in a genome more than once.
//
// Strategy: words of 32 bases, of which one in sixteen is kept, chosen by the word itself, so that copies have the same ones on either strand. From a word
// that two places share the alignment goes on either way, without gaps, until it falls too far below its best score.
//
// Consequence: a copy with a gap within is seen in parts, and one that differs in every thirtieth base or more isn't seen.

// copied is a stretch of what is read of a piece that stands elsewhere in the genome as well, on either strand.
type copied struct {
	piece, from, to int
}

const (
	wordWidth = 32
	// wordShare is of how many words one is kept.
	wordShare = 16
	// partners is how many of a word's other places each is compared with: the next ones in turn.
	partners = 6
	// mostPlaces is how many places a word of an insertion sequence may have: about 250 copies of one are the most that is known, in Bordetella pertussis. A short
	// unit that fills a stretch has many thousands, and to compare them would take minutes.
	mostPlaces = 500
	// differs is what two bases that differ cost, where two that are the same give one, and fallen is how far an alignment's score may fall.
	differs, fallen = 3, 40
	// Insertion sequences have 600 to 3,000 bases, and some transposons more.
	shortestCopy, longestCopy = 600, 8000
	// sameEnds is how far apart the ends of a stretch may be that several copies show.
	sameEnds = 12
	// margin is how far around a copy its genes are read.
	margin = 12_000
)

// wordAt is where a word, or its complement, stands.
type wordAt struct {
	word       uint64 // the lesser of the two
	piece, at  int32
	complement bool // it is the complement that is kept
}

// words are the places of words in the genome, sorted by word, piece and place.
func (f *finder) words() (out []wordAt) {
	for i, p := range f.pieces {
		var word, other uint64
		known := 0
		for k, b := range p.forward[:min(len(p.forward), p.length+wordWidth-1)] {
			if b == unknown {
				known = 0
				continue
			}
			word, other = word<<2|uint64(b), other>>2|uint64(3-b)<<(2*wordWidth-2)
			if known++; known < wordWidth {
				continue
			}
			if w := min(word, other); word != other && scattered(w)%wordShare == 0 {
				out = append(out, wordAt{w, int32(i), int32(k - wordWidth + 1), other < word})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b wordAt) int { return cmp.Compare(a.word, b.word) })
	return out
}

// scattered is a number that neighbouring words have far apart.
func scattered(word uint64) uint64 {
	word = (word ^ word>>31) * 0x9e3779b97f4a7c15
	return word ^ word>>29
}

// copies are the stretches that stand more than once, by piece and place. Ends that several pairs of copies show are the innermost.
func (f *finder) copies(ctx context.Context) ([]copied, error) {
	var found []copied
	words := f.words()
	seen := map[diagonal][][2]int{}
	for i := 0; i < len(words); {
		k := i + 1
		for k < len(words) && words[k].word == words[i].word {
			k++
		}
		group := words[i:k]
		if i = k; len(group) > mostPlaces {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for x, a := range group {
			for y := 1; y <= min(partners, len(group)-1); y++ {
				b := group[(x+y)%len(group)]
				found = append(found, f.pair(a, b, seen)...)
			}
		}
	}
	slices.SortFunc(found, func(a, b copied) int { return cmp.Or(a.piece-b.piece, a.from-b.from, a.to-b.to) })
	var out []copied
next:
	for _, c := range found {
		for i := len(out) - 1; i >= 0 && out[i].piece == c.piece && out[i].from >= c.from-2*sameEnds; i-- {
			if o := &out[i]; abs(o.from-c.from) <= sameEnds && abs(o.to-c.to) <= sameEnds {
				o.from, o.to = max(o.from, c.from), min(o.to, c.to)
				continue next
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// diagonal is where one base of a piece stands beside one of another.
type diagonal struct {
	a, b     int32
	opposite bool // on the other strand
	between  int
}

// pair are the two stretches around a word that are alike; none if they are too short or too long, or if they were seen.
func (f *finder) pair(a, b wordAt, seen map[diagonal][][2]int) []copied {
	d := diagonal{a.piece, b.piece, a.complement != b.complement, int(b.at - a.at)}
	s, t := f.pieces[a.piece].forward, f.pieces[b.piece].forward
	x, y := f.inner(a), f.inner(b)
	if d.opposite {
		d.between = int(b.at + a.at)
	}
	for _, r := range seen[d] {
		if x >= r[0] && x < r[1] {
			return nil
		}
	}
	same := func(i int) bool {
		x, y := x+i, y+i
		if d.opposite {
			y -= 2*i - wordWidth + 1
		}
		if x < 0 || y < 0 || x >= len(s) || y >= len(t) || s[x] == unknown {
			return false
		}
		if d.opposite {
			return s[x] == 3-t[y]
		}
		return s[x] == t[y]
	}
	low, high := reach(same, 0, -1), reach(same, wordWidth-1, 1)+1
	seen[d] = append(seen[d], [2]int{x + low, x + high})
	if n := high - low; n < shortestCopy || n > longestCopy {
		return nil
	}
	other := copied{int(b.piece), y + low, y + high}
	if d.opposite {
		other.from, other.to = y+wordWidth-high, y+wordWidth-low
	}
	return []copied{{int(a.piece), x + low, x + high}, other}
}

// inner is where a word stands so that as much as may be is around it: at the beginning of a circular piece, one turn later.
func (f *finder) inner(w wordAt) int {
	p, at := f.pieces[w.piece], int(w.at)
	if p.circular && at < min(margin, (len(p.forward)-p.length)/2) {
		at += p.length
	}
	return at
}

// reach is the place at which an alignment has its best score, beginning behind from.
func reach(same func(i int) bool, from, step int) (at int) {
	at = from
	for i, score, best := from+step, 0, 0; score >= best-fallen && abs(i-from) <= longestCopy; i += step {
		if !same(i) {
			score -= differs
		} else if score++; score > best {
			best, at = score, i
		}
	}
	return at
}

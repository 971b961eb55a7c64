package simulate

import (
	"errors"
	"fmt"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
)

// Observation is the primary alignment of a real read, to measure a profile by.
type Observation struct {
	Contig    *genome.Contig
	Start     int // 0-based first reference base
	Reverse   bool
	Ops       []align.Op // reference strand; Match and Mismatch may stand for each other
	Bases     []byte     // the aligned part of the read, on the reference's strand
	Qualities []byte     // Phred, as Bases; nil if they are not known
}

// margin is how many bases at either end of an alignment don't count: an aligner ends
// where errors begin to be many.
const margin = 16

// Columns of a base of the template in a walk.
const (
	gone    = 4 // deleted
	unknown = 5 // the read has N
)

// walk is an alignment in reading direction, and what it says of each base of the
// template and of each run.
type walk struct {
	template []byte // codes; 4 for letters other than A, C, G and T
	called   []byte // code, gone or unknown
	at       []int  // index in bases of the called base; of a deleted one, of the next
	extra    []int  // bases inserted after the template's base
	bases    []byte // codes of the read's bases
	quality  []byte // nil if they are not known
	first    int    // reference position of template[0]
	reverse  bool
	runs     []runCall
}

// runCall is a run and what became of it.
type runCall struct {
	start, length int
	change        int  // of the called length
	other         bool // a deletion that goes beyond the run touches it
}

// position is the reference position of a base of the template.
func (w *walk) position(i int) int {
	if w.reverse {
		return w.first - i
	}
	return w.first + i
}

// load walks along an observation.
func (w *walk) load(o *Observation) error {
	w.template, w.called, w.at, w.extra = w.template[:0], w.called[:0], w.at[:0], w.extra[:0]
	w.bases = w.bases[:0]
	// Insertions before the first reference base and behind the last are no part of it.
	ops, bases, qualities := o.Ops, o.Bases, o.Qualities
	if len(qualities) != len(bases) {
		qualities = nil
	}
	for len(ops) > 0 && ops[0].Kind == align.Insertion && ops[0].Len <= len(bases) {
		bases, qualities, ops = bases[ops[0].Len:], qualities[min(ops[0].Len, len(qualities)):], ops[1:]
	}
	for n := len(ops) - 1; n >= 0 && ops[n].Kind == align.Insertion && ops[n].Len <= len(bases); n-- {
		keep := len(bases) - ops[n].Len
		bases, qualities, ops = bases[:keep], qualities[:min(keep, len(qualities))], ops[:n]
	}
	for _, b := range bases {
		c := code[b]
		if c < 4 && o.Reverse {
			c = 3 - c
		}
		w.bases = append(w.bases, c)
	}
	ref, q := o.Start, 0
	for _, op := range ops {
		if op.Len < 0 || op.Kind != align.Insertion && ref+op.Len > len(o.Contig.Seq) || op.Kind != align.Deletion && q+op.Len > len(bases) {
			return errors.New("the alignment goes beyond the read or the contig")
		}
		switch op.Kind {
		case align.Insertion:
			if n := len(w.extra); n > 0 {
				w.extra[n-1] += op.Len
			}
			q += op.Len
		case align.Deletion, align.Match, align.Mismatch:
			for range op.Len {
				c := code[o.Contig.Seq[ref]]
				if c < 4 && o.Reverse {
					c = 3 - c
				}
				called := byte(gone)
				if op.Kind != align.Deletion {
					if called = w.bases[q]; called > 3 {
						called = unknown
					}
				}
				w.template = append(w.template, c)
				w.called = append(w.called, called)
				w.at = append(w.at, q)
				w.extra = append(w.extra, 0)
				if op.Kind != align.Deletion {
					q++
				}
				ref++
			}
		}
	}
	if q != len(bases) {
		return fmt.Errorf("the alignment has %d bases, the read %d", q, len(bases))
	}
	w.quality = append([]byte(nil), qualities...)
	w.first, w.reverse = o.Start, o.Reverse
	if o.Reverse {
		w.turn(ref)
	}
	w.findRuns()
	return nil
}

// turn reverses everything; bases are complemented already. end is the position behind
// the alignment.
func (w *walk) turn(end int) {
	n := len(w.template)
	w.first = end - 1
	reverse(w.template)
	reverse(w.called)
	reverse(w.bases)
	reverse(w.quality)
	// What is inserted after a base comes before it when read the other way.
	reverse(w.extra)
	if n > 0 {
		copy(w.extra, w.extra[1:])
		w.extra[n-1] = 0
	}
	at := len(w.bases)
	for i := n - 1; i >= 0; i-- {
		at -= w.extra[i]
		if w.called[i] != gone {
			at--
		}
		w.at[i] = at
	}
}

func reverse[T any](s []T) {
	for i, j := 0, len(s)-1; i < j; i, j = i+1, j-1 {
		s[i], s[j] = s[j], s[i]
	}
}

// inserts returns the bases inserted after base i of the template.
func (w *walk) inserts(i int) []byte {
	at := w.at[i]
	if w.called[i] != gone {
		at++
	}
	return w.bases[at : at+w.extra[i]]
}

// findRuns lists the runs and takes insertions and deletions within them as changes of
// their lengths: what aligners put anywhere.
func (w *walk) findRuns() {
	w.runs = w.runs[:0]
	t := w.template
	of := make([]int32, len(t)) // run of a base
	for i := 0; i < len(t); {
		n := 1
		for i+n < len(t) && t[i+n] == t[i] {
			n++
		}
		for k := range n {
			of[i+k] = int32(len(w.runs))
		}
		w.runs = append(w.runs, runCall{start: i, length: n})
		i += n
	}
	for i := 0; i < len(t); i++ {
		if w.called[i] == gone {
			n := 1
			for i+n < len(t) && w.called[i+n] == gone && w.extra[i+n-1] == 0 {
				n++
			}
			if of[i] == of[i+n-1] {
				w.runs[of[i]].change -= n
			} else {
				for k := range n {
					w.runs[of[i+k]].other = true
				}
			}
			// Bases that are inserted after the last one are handled below.
			i += n - 1
		}
		if w.extra[i] == 0 {
			continue
		}
		x := w.inserts(i)
		switch {
		case allAre(x, t[i]):
			w.runs[of[i]].change += len(x)
			w.extra[i] = -len(x)
		case i+1 < len(t) && allAre(x, t[i+1]):
			w.runs[of[i+1]].change += len(x)
			w.extra[i] = -len(x)
		}
	}
	// From here on extra counts only bases that don't change the length of a run.
	for i := range w.extra {
		w.extra[i] = max(w.extra[i], 0)
	}
}

func allAre(x []byte, b byte) bool {
	for _, c := range x {
		if c != b {
			return false
		}
	}
	return len(x) > 0
}

// context returns the k-mer around a base of the template, false where it has a letter
// other than A, C, G and T.
func (w *walk) context(i, bases int) (int, bool) {
	kmer := 0
	for _, b := range w.template[i-bases/2 : i+bases/2+1] {
		if b > 3 {
			return 0, false
		}
		kmer = kmer<<2 | int(b)
	}
	return kmer, true
}

package watchlist

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/vrs"
)

// Shown is how many reads show something by their bases, whether it is called or not: an allele that a panel names,
// whatever the count, or one that no panel names, if enough reads show it for the caller to evaluate it and it is no
// part of a call.
type Shown struct {
	Named            string // Name of a [Named]; "": an allele that no panel names
	Pos              int    // 1-based; of Ref, or of the first base that is named
	Ref, Alt         string // of an allele that no panel names
	Forward, Reverse int    // reads that show it, by strand
	Depth            int    // reads that show its presence or absence
}

func compareShown(a, b Shown) int {
	return cmp.Or(cmp.Compare(a.Pos, b.Pos), cmp.Compare(a.Named, b.Named), cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Alt, b.Alt))
}

// counts are the reads that show it, and all.
func (s *Shown) counts() (alt, depth int) {
	alt = s.Forward + s.Reverse
	return alt, max(alt, s.Depth)
}

// carried is what reads show in the places of a subject.
type carried struct {
	Shown
	contig      string
	from        [2]int // start and end of the stretch that reported it
	fulfils     bool   // it is what the subject is about, or a part of that; else it only makes its place doubtful
	positions   int    // of the place
	allele      *event.Allele
	consequence *annotate.Consequence
}

func (c *carried) compare(o *carried) int {
	return cmp.Or(cmp.Compare(c.contig, o.contig), cmp.Compare(c.from[0], o.from[0]), cmp.Compare(c.from[1], o.from[1]), compareShown(c.Shown, o.Shown))
}

// place is the allele in words.
func (c *carried) place() string {
	if c.Named != "" {
		return fmt.Sprintf("%s:%d", c.contig, c.Pos)
	}
	return fmt.Sprintf("%s>%s at %s:%d", clip(c.Ref), clip(c.Alt), c.contig, c.Pos)
}

// unnamed is an allele of a [Shown] and what it means to the panels.
type unnamed struct {
	shown      Shown
	allele     event.Allele
	hits       []hit
	start, end int // 0-based positions that it concerns in any of its spellings
}

// understand annotates the alleles that no panel names; those that are not ones of the reference are left out.
func (w *Watch) understand(contig string, shown []Shown) []unnamed {
	c := w.genome.Contig(contig)
	if c == nil {
		return nil
	}
	var out []unnamed
	for _, s := range shown {
		if s.Named != "" || s.Pos < 1 || s.Pos-1+len(s.Ref) > len(c.Seq) || string(c.Seq[s.Pos-1:s.Pos-1+len(s.Ref)]) != s.Ref {
			continue
		}
		id, err := vrs.AlleleID(c.Digest(), c.Seq, s.Pos-1, s.Ref, s.Alt)
		if err != nil {
			continue
		}
		u := unnamed{shown: s, allele: event.Allele{VRSID: id, Contig: contig, Pos: int64(s.Pos), Ref: s.Ref, Alt: s.Alt}}
		if u.start, u.end, err = touched(c.Seq, s.Pos-1, s.Ref, s.Alt); err != nil {
			continue
		}
		annotation, err := w.annotator.Annotate(contig, s.Pos, s.Ref, s.Alt)
		if err != nil {
			continue
		}
		u.hits = w.matches(nil, &event.Variant{Allele: u.allele, Annotation: annotation})
		out = append(out, u)
	}
	return out
}

// overlaps reports whether a position of [start,end) is in the area.
func (a *area) overlaps(contig string, start, end int) bool {
	return slices.ContainsFunc(a.chunks, func(c span) bool { return c.contig == contig && c.start < end && start < c.end })
}

// hear replaces the earlier report on a stretch by what its reads show now.
func (st *subjectState) hear(s *subject, contig string, w *window, others []unnamed) {
	from := [2]int{w.start, w.end}
	st.carried = slices.DeleteFunc(st.carried, func(c carried) bool { return c.contig == contig && c.from == from })
	for _, k := range w.shown {
		if k.Named == s.name && slices.ContainsFunc(s.named, func(n Named) bool { return n.Contig == contig && n.Pos == k.Pos-1 }) {
			st.carried = append(st.carried, carried{Shown: k, contig: contig, from: from, fulfils: true, allele: s.allele})
		}
	}
	for i := range others {
		u := &others[i]
		if len(s.named) > 0 || !s.area.overlaps(contig, u.start, u.end) {
			continue
		}
		c := carried{Shown: u.shown, contig: contig, from: from, positions: u.end - u.start, allele: &u.allele}
		for _, h := range u.hits {
			if h.subject == s {
				c.fulfils, c.consequence = true, h.consequence
			}
		}
		st.carried = append(st.carried, c)
	}
	slices.SortFunc(st.carried, func(a, b carried) int { return a.compare(&b) })
}

// readEvidence is what the reads at the places of a subject say, whatever is called.
type readEvidence struct {
	// worst is what fulfils the subject and speaks most for it; nil: nothing is known of.
	worst *carried
	state State   // of it: SUSPECTED or ""
	ratio float64 // of it; -Inf without it

	unknown   bool     // what the subject names was not counted everywhere
	shallow   *carried // covered by too few reads that show its presence or absence; nil: nothing
	undecided *carried // what reads speak neither for nor against; nil: nothing
	doubtful  int      // positions where reads show an allele that isn't called and doesn't fulfil the subject
	instead   *carried // the first such; nil: none
}

// listen sums up the reports on the reads.
func (st *subjectState) listen(s *subject, final bool) readEvidence {
	h := readEvidence{ratio: math.Inf(-1)}
	known := 0
	for i := range st.carried {
		c := &st.carried[i]
		alt, depth := c.counts()
		state := s.test.speak(alt, depth, final)
		switch {
		case c.fulfils:
			if state != Suspected && state != "" {
				h.undecided, state = c, ""
			}
			ratio := s.test.ratio(alt, depth)
			if h.worst == nil || cmp.Or(cmp.Compare(weight(state), weight(h.state)), cmp.Compare(ratio, h.ratio)) > 0 {
				h.worst, h.state = c, state
			}
			h.ratio = max(h.ratio, ratio)
			if c.Named != "" && depth < s.test.needed && (h.shallow == nil || depth < h.shallow.Depth) {
				h.shallow = c
			}
		case state != "":
			h.doubtful += c.positions
			if h.instead == nil {
				h.instead = c
			}
		}
	}
	for _, n := range s.named {
		if slices.ContainsFunc(st.carried, func(c carried) bool { return c.contig == n.Contig && c.Pos == n.Pos+1 && c.Named != "" }) {
			known++
		}
	}
	h.unknown = known < len(s.named)
	return h
}

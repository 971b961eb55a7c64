package watchlist

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream/packed"
)

// trackerVersion is the encoding of a Tracker; stream/STATE.md describes it. Earlier ones are not read: what the reads show
// is not in them, and another Version made them.
const trackerVersion = 2

// modelsVersion is the encoding where panels ask models: with the last answer of each.
const modelsVersion = 3

// regionsVersion is the encoding where panels ask for methylation: that of models, with what is known of methylation, and how often a
// subject was evaluated.
const regionsVersion = 4

// sumsVersion is that with sums of stretches, and positions only where they are needed.
const sumsVersion = 5

// encoding is the version that states of a watch have.
func (w *Watch) encoding() byte {
	switch {
	case w.AsksMethylation() != "":
		return sumsVersion
	case len(w.uses) > 0:
		return modelsVersion
	}
	return trackerVersion
}

// Version counts the changes of this package that make other alerts follow from the same evidence: state that another
// one has made must not be gone on with.
const Version = 5

// Limits of what a state may hold; names are bounded as in records.
const (
	maxName        = 512
	maxStretch     = 1 << 20
	maxPosition    = 1 << 40
	maxDocument    = 1 << 24
	maxEvaluations = 1 << 20
)

// stateCodes are the states as they are written; the first is for what nothing was said of.
var stateCodes = [...]State{"", Pending, Suspected, Detected, Negative, NotCallable, Resistant, Intermediate, Susceptible, Classified}

// subjectKey distinguishes subjects, whatever the order in which panels were given.
type subjectKey struct{ panel, rule, name string }

func (s *subject) key() subjectKey { return subjectKey{s.panel.ID, s.rule.id, s.name} }

func (k subjectKey) compare(o subjectKey) int {
	return cmp.Or(strings.Compare(k.panel, o.panel), strings.Compare(k.rule, o.rule), strings.Compare(k.name, o.name))
}

// Sample is the sample's name.
func (t *Tracker) Sample() string { return t.sample }

// Version changes whenever what AppendState writes may have.
func (t *Tracker) Version() uint64 { return t.version }

// AppendState appends all that is known of the sample. What follows from that, like the depth of areas, is left out.
func (t *Tracker) AppendState(b []byte) ([]byte, error) {
	version := t.watch.encoding()
	b = packed.AppendBytes(append(b, version), t.sample)
	b = packed.AppendLen(b, len(t.runs))
	for _, run := range slices.Sorted(maps.Keys(t.runs)) {
		b = packed.AppendBool(packed.AppendBytes(b, run), t.runs[run])
	}
	b = packed.AppendLen(b, len(t.depths))
	for _, contig := range slices.Sorted(maps.Keys(t.depths)) {
		b = t.depths[contig].append(packed.AppendBytes(b, contig))
	}
	if version >= regionsVersion {
		b = t.appendMarks(b)
	}
	for _, s := range t.watch.sorted {
		st := &t.states[s.number]
		if len(st.alleles) == 0 && st.answer == (answer{}) && st.evaluations == 0 && st.callsSeen == 0 {
			continue
		}
		key := s.key()
		b = append(b, 1)
		b = packed.AppendBytes(packed.AppendBytes(packed.AppendBytes(b, key.panel), key.rule), key.name)
		b = st.answer.append(b)
		if version >= modelsVersion {
			b = packed.AppendBytes(b, st.said)
		}
		if version >= regionsVersion {
			b = packed.AppendLen(packed.AppendLen(b, st.evaluations), st.callsSeen)
		}
		b = packed.AppendLen(b, len(st.alleles))
		for _, a := range st.alleles {
			var err error
			if b, err = a.append(b); err != nil {
				return nil, fmt.Errorf("encoding allele %s of sample %s: %w", a.allele.VRSID, t.sample, err)
			}
		}
	}
	return append(b, 0), nil
}

// append writes the stretches whose depth is known.
func (d *depths) append(b []byte) []byte {
	b = packed.AppendLen(b, len(d.windows))
	for _, w := range d.windows {
		b = packed.AppendLen(packed.AppendLen(b, w.start), w.end-w.start)
		b = packed.AppendLen(packed.AppendUint(b, w.revision), len(w.blocks))
		for _, k := range w.blocks {
			b = packed.AppendInt(b, int64(k.Start-w.start))
			b = packed.AppendInt(packed.AppendInt(b, int64(k.End-k.Start)), int64(k.Depth))
		}
		b = packed.AppendLen(b, len(w.shown))
		for _, k := range w.shown {
			b = packed.AppendInt(packed.AppendBytes(b, k.Named), int64(k.Pos))
			b = packed.AppendBytes(packed.AppendBytes(b, k.Ref), k.Alt)
			for _, n := range [...]int{k.Forward, k.Reverse, k.Depth} {
				b = packed.AppendInt(b, int64(n))
			}
		}
	}
	return b
}

// append writes the last alert.
func (a *answer) append(b []byte) []byte {
	b = append(b, byte(slices.Index(stateCodes[:], a.state)))
	b = packed.AppendUint(b, a.revision)
	if a.revision > 0 {
		b = append(b, a.content[:]...)
	}
	return b
}

// evidence is the kept state of an allele, as a document.
type evidence struct {
	Allele      event.Allele          `json:"variant"`
	Run         string                `json:"run"`
	Status      string                `json:"status"`
	Revision    uint64                `json:"revision"`
	Call        event.Call            `json:"call"`
	Consequence *annotate.Consequence `json:"consequence,omitempty"`
}

// append writes the evidence on an allele. Of the last evaluation only that the reads confirmed the allele matters,
// see [test.evaluate].
func (s *seen) append(b []byte) ([]byte, error) {
	document, err := json.Marshal(evidence{s.allele, s.run, s.status, s.revision, s.call, s.consequence})
	if err != nil {
		return nil, err
	}
	b = packed.AppendBool(packed.AppendBytes(b, document), s.reads.state == Detected)
	return s.answer.append(b), nil
}

// RestoreTracker returns the tracker that wrote b, of the same panels.
func (w *Watch) RestoreTracker(b []byte) (*Tracker, error) {
	in := packed.NewReader(b)
	version := in.Version(sumsVersion)
	if want := w.encoding(); version > 0 && version != want && (version != regionsVersion || want != sumsVersion) {
		in.Fail("version %d, and this program with these panels reads version %d: start the stage anew from its topic", version, want)
	}
	t := w.NewTracker(in.String(maxName))
	for range in.Count(2) {
		run := in.String(maxName)
		t.runs[run] = in.Bool()
	}
	for range in.Count(2) {
		contig := in.String(maxName)
		if t.depths[contig] != nil {
			in.Fail("the depth of contig %q comes twice", contig)
		}
		d := restoreDepths(in)
		if in.Err() != nil {
			break
		}
		t.depths[contig] = d
	}
	if version >= regionsVersion {
		t.restoreMarks(in, version)
	}
	for in.Bool() {
		t.restoreSubject(in, version)
	}
	if err := in.Done(); err != nil {
		return nil, fmt.Errorf("restoring what panels know of sample %q: %w", t.sample, err)
	}
	for contig, d := range t.depths {
		for _, k := range d.windows {
			t.sumUp(nil, contig, &k)
		}
	}
	for _, s := range w.subjects {
		if s.hidden {
			t.note(s)
		}
	}
	for _, at := range w.sites {
		t.noteSite(at)
	}
	for i := range t.uses {
		t.uses[i].dirty = false // it was answered before the state was written
	}
	return t, nil
}

// restoreDepths reads what depths.append wrote.
func restoreDepths(in *packed.Reader) *depths {
	d := &depths{}
	for range in.Count(4) {
		w := window{start: in.Len(maxPosition)}
		w.end = w.start + in.Len(maxStretch)
		w.revision = in.Uint(math.MaxUint64)
		n := in.Count(3)
		w.blocks = make([]DepthBlock, 0, n)
		for range n {
			k := DepthBlock{Start: w.start + within(in)}
			k.End = k.Start + within(in)
			k.Depth = within(in)
			w.blocks = append(w.blocks, k)
		}
		for range in.Count(7) {
			k := Shown{Named: in.String(maxDocument), Pos: within(in), Ref: in.String(maxDocument), Alt: in.String(maxDocument)}
			k.Forward, k.Reverse, k.Depth = within(in), within(in), within(in)
			w.shown = append(w.shown, k)
		}
		if k := len(d.windows); k > 0 && compareWindows(d.windows[k-1], w) >= 0 || w.start == w.end {
			in.Fail("stretch %d-%d is empty or out of order", w.start, w.end)
		}
		if in.Err() != nil {
			break
		}
		d.windows = append(d.windows, w)
		d.longest = max(d.longest, w.end-w.start)
	}
	return d
}

// within reads a signed number that is no larger than positions are.
func within(in *packed.Reader) int {
	v := in.Int()
	if v < -maxPosition || v > maxPosition {
		in.Fail("%d is no position", v)
	}
	return int(v)
}

// restoreSubject reads the state of one subject.
func (t *Tracker) restoreSubject(in *packed.Reader, version byte) {
	key := subjectKey{in.String(maxName), in.String(maxName), in.String(maxDocument)}
	last, said := restoreAnswer(in), ""
	if version >= modelsVersion {
		said = in.String(maxName)
	}
	evaluations, callsSeen := 0, 0
	if version >= regionsVersion {
		evaluations, callsSeen = in.Len(maxEvaluations), in.Len(math.MaxInt)
	}
	i, ok := slices.BinarySearchFunc(t.watch.sorted, key, func(s *subject, key subjectKey) int { return s.key().compare(key) })
	if !ok {
		in.Fail("no panel has rule %q of panel %q", key.rule, key.panel)
		return
	}
	st := &t.states[t.watch.sorted[i].number]
	if len(st.alleles) > 0 || st.answer != (answer{}) || st.evaluations > 0 || st.callsSeen > 0 {
		in.Fail("rule %q comes twice", key.rule)
		return
	}
	st.answer, st.said, st.evaluations, st.callsSeen = last, said, evaluations, callsSeen
	for range in.Count(4) {
		a := restoreSeen(in)
		if k := len(st.alleles); k > 0 && st.alleles[k-1].allele.VRSID >= a.allele.VRSID {
			in.Fail("allele %q is out of order", a.allele.VRSID)
		}
		if in.Err() != nil {
			return
		}
		st.alleles = append(st.alleles, a)
	}
}

func restoreSeen(in *packed.Reader) *seen {
	document := in.Bytes(maxDocument)
	a := &seen{}
	if in.Bool() {
		a.reads.state = Detected
	}
	a.answer = restoreAnswer(in)
	if in.Err() != nil {
		return a
	}
	var e evidence
	if err := json.Unmarshal(document, &e); err != nil {
		in.Fail("evidence: %w", err)
	}
	a.allele, a.run, a.status, a.revision, a.call, a.consequence = e.Allele, e.Run, e.Status, e.Revision, e.Call, e.Consequence
	return a
}

func restoreAnswer(in *packed.Reader) answer {
	code := in.Len(len(stateCodes) - 1)
	a := answer{state: stateCodes[code], revision: in.Uint(math.MaxUint64)}
	if a.revision > 0 {
		copy(a.content[:], in.Fixed(len(a.content)))
	}
	if (a.revision > 0) != (code > 0) {
		in.Fail("state %q of revision %d", a.state, a.revision)
	}
	return a
}

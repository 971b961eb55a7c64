package stage

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/packed"
	"github.com/porestream/porestream/stream/streampb"
)

// assess takes an assessment and returns the revision of the allele's event that follows, and those of neighbours that it is taken together with, or isn't any more; none if nothing has
// changed or the allele isn't called. It may come before the allele's call: those of another partition may be committed later.
func (n *neighbours) assess(a *streampb.CarryOver) ([]revision, error) {
	on := n.at(contigKey{a.GetSample(), a.GetContig()})
	at, known := slices.BinarySearchFunc(on.carried, a, comparePlaces)
	switch {
	case known && proto.Equal(on.carried[at], a):
		return nil, nil
	case known:
		on.carried[at] = a
	default:
		on.carried = slices.Insert(on.carried, at, a)
	}
	on.version++
	return n.carry(on, a, a.GetExplained())
}

// carry returns the revisions that follow from what was said of an allele's carry-over, if it is called.
func (n *neighbours) carry(on *contig, a *streampb.CarryOver, explained bool) ([]revision, error) {
	i, called := slices.BinarySearchFunc(on.alleles, a, func(s *standing, a *streampb.CarryOver) int { return comparePlaces(s.call, a) })
	if !called {
		return nil, nil
	}
	own := on.alleles[i]
	joined := own.joins()
	own.carried = explained
	if own.call.GetStatus() == streampb.CallStatus_RETRACTED {
		return nil, nil
	}
	return n.revise(on, own, joined)
}

// unassess lets go of the assessments by the controls of a run, and returns the revisions of events that follow.
func (n *neighbours) unassess(run string) (revisions []revision, err error) {
	keys := slices.SortedFunc(maps.Keys(n.contigs), func(a, b contigKey) int {
		return cmp.Or(cmp.Compare(a.sample, b.sample), cmp.Compare(a.contig, b.contig))
	})
	for _, key := range keys {
		on := n.contigs[key]
		var gone []*streampb.CarryOver
		on.carried = slices.DeleteFunc(on.carried, func(c *streampb.CarryOver) bool {
			if c.GetRun() != run {
				return false
			}
			gone = append(gone, c)
			return true
		})
		for _, c := range gone {
			on.version++
			more, wrong := n.carry(on, c, false)
			revisions, err = append(revisions, more...), cmp.Or(err, wrong)
		}
	}
	return revisions, err
}

// explained reports whether carry-over explains an allele by the newest assessment.
func (on *contig) explained(c *streampb.Call) bool {
	at, known := slices.BinarySearchFunc(on.carried, c, comparePlaces)
	return known && on.carried[at].GetExplained()
}

// carriedOver is the newest assessment of a call; nil: there is none.
func (n *neighbours) carriedOver(c *streampb.Call) *streampb.CarryOver {
	on := n.contigs[contigKey{c.GetSample(), c.GetContig()}]
	if on == nil || c.GetStatus() == streampb.CallStatus_RETRACTED {
		return nil
	}
	at, known := slices.BinarySearchFunc(on.carried, c, comparePlaces)
	if !known {
		return nil
	}
	return on.carried[at]
}

// showCarryOver makes an event say what carry-over explains of it.
func showCarryOver(v *event.Variant, c *streampb.CarryOver) {
	if c == nil {
		return
	}
	v.Call.CarryOver = &event.CarryOver{
		Explained: c.GetExplained(), Basis: c.GetBasis(), Control: c.GetControl(), ControlAlt: c.GetControlAlt(), ControlDepth: c.GetControlDepth(),
	}
	if c.GetBounded() {
		share := c.GetShare()
		v.Call.CarryOver.Share = &share
	}
	if c.GetExplained() {
		v.Call.Filters = append(slices.Clone(v.Call.Filters), event.CarryOverFilter)
	}
}

// appendCarried writes a contig's assessments.
func (on *contig) appendCarried(b []byte) ([]byte, error) {
	b = packed.AppendLen(b, len(on.carried))
	for _, c := range on.carried {
		b = packed.AppendBytes(packed.AppendBytes(packed.AppendUint(b, uint64(c.GetPos())), c.GetRef()), c.GetAlt())
		c = proto.CloneOf(c)
		c.Sample, c.Contig, c.Pos, c.Ref, c.Alt = "", "", 0, "", ""
		var err error
		if b, err = packed.AppendMessage(b, c); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// restoreCarried reads what appendCarried wrote of a contig.
func restoreCarried(in *packed.Reader, key contigKey) []*streampb.CarryOver {
	var list []*streampb.CarryOver
	for range in.Count(4) {
		pos, ref, alt := int64(in.Uint(math.MaxInt64)), in.String(maxAllele), in.String(maxAllele)
		c := new(streampb.CarryOver)
		in.Message(c)
		if in.Err() != nil {
			break
		}
		c.Sample, c.Contig, c.Pos, c.Ref, c.Alt = key.sample, key.contig, pos, ref, alt
		if k := len(list); k > 0 && comparePlaces(list[k-1], c) >= 0 {
			in.Fail("the carry-over of an allele at %d is out of order", pos)
		}
		list = append(list, c)
	}
	return list
}

// ends are the runs whose end waits until what carry-over explains is final: only then is the end passed on, so that nothing follows it.
type ends struct {
	held     map[string]bool // ended upstream, and waits
	assessed map[string]bool // carry-over is final
	version  uint64
}

// hold reports whether the end of a run, which has just come, has to wait.
func (e *ends) hold(run string) bool {
	if e.assessed[run] {
		return false
	}
	if e.held == nil {
		e.held = make(map[string]bool)
	}
	e.held[run] = true
	e.version++
	return true
}

// assess notes that carry-over is final, and reports whether the run's end had waited for that.
func (e *ends) assess(run string) bool {
	if e.assessed == nil {
		e.assessed = make(map[string]bool)
	}
	waited := e.held[run]
	delete(e.held, run)
	e.assessed[run] = true
	e.version++
	return waited
}

// endsSection is the name of their section.
const endsSection = "carry-over ends"

const endsVersion = 1

func (e *ends) append(b []byte) []byte {
	b = append(b, endsVersion)
	for _, runs := range []map[string]bool{e.held, e.assessed} {
		b = packed.AppendStrings(b, slices.Sorted(maps.Keys(runs)))
	}
	return b
}

func (e *ends) restore(b []byte) error {
	in := packed.NewReader(b)
	in.Version(endsVersion)
	read := func() map[string]bool {
		runs := make(map[string]bool)
		for _, run := range in.Strings(maxName) {
			runs[run] = true
		}
		return runs
	}
	e.held, e.assessed, e.version = read(), read(), 1
	return in.Done()
}

// carryOverEnd passes on the end of a run that had waited. Where carry-over couldn't be assessed in the end, nothing holds that was said of it before: what was depends on
// how reads came.
func (h *handler) carryOverEnd(end *streampb.CarryOverEnd, replayed bool) ([]stream.Out, error) {
	var outs []stream.Out
	if end.GetTooMany() {
		revisions, err := h.neighbours.unassess(end.GetRun())
		if !replayed {
			if err != nil {
				h.log.Warn("calls can't be taken together with their neighbours", "run", end.GetRun(), "err", err)
			}
			if outs, err = h.publish(nil, revisions); err != nil {
				return nil, err
			}
		}
	}
	if !h.ends.assess(end.GetRun()) {
		return outs, nil
	}
	ended, err := h.runEnd(&streampb.Marker{Run: h.markers.Run(end.GetRun())})
	return append(outs, ended...), err
}

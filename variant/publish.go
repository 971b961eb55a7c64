package variant

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/packed"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/vrs"
)

// publisher remembers what has been said about a region, so that what is said
// next is a revision of it.
//
// Problem: every read changes depths and qualities a little, and consumers act
// on every revision.
//
// Strategy: a live revision is made when an allele appears, becomes stable, changes
// its genotype or its filters, doubles its depth, or goes. An allele is shown live
// from MinQual, and at least what its ploidy asks for (liveBar), with no filter except
// LowDepth, and taken back when its QUAL has fallen to half of that or a filter speaks
// against it, so that an allele at the threshold doesn't flicker. It is stable once no
// evaluation of it has been doubtful for some reads. Then it takes two evaluations
// that disown it, one after the other, to take it back.
//
// Consequences: the number of revisions of an allele grows with the logarithm
// of its depth. BenchmarkReplay measures the rest.
type publisher struct {
	contig *genome.Contig
	sample string
	reads  *reads // has the names of runs

	// What was published about the alleles of a tile, by position: packed,
	// because a human genome has five million. The tile that was evaluated last
	// is held unpacked as well.
	tiles   []string
	current int // noTile: none
	page    []*published
	changed bool // page is newer than tiles
}

const noTile = -1

// published is the last revision of an allele.
type published struct {
	call  *streampb.Call
	alive bool // not retracted
	since int  // depth when it last appeared, changed or was in doubt; disowned
}

// disowned stands for the depth since which a stable allele is as it is, when the
// last evaluation didn't find it.
const disowned = 0

type alleleKey struct {
	pos      int64
	ref, alt string
}

func keyOfCall(c *streampb.Call) alleleKey { return alleleKey{c.GetPos(), c.GetRef(), c.GetAlt()} }

// loadPage brings what was published about a tile into p.page.
func (p *publisher) loadPage(tile int) {
	if tile == p.current {
		return
	}
	p.pack()
	p.current = tile
	clear(p.page)
	p.page = p.page[:0]
	if p.tiles[tile] == "" {
		return
	}
	in := packed.NewReader([]byte(p.tiles[tile]))
	p.page = p.unpack(in, p.page)
	if err := in.Done(); err != nil {
		panic("variant: what was said about a tile can't be read: " + err.Error()) // it was packed, or checked, here
	}
}

// pack packs what was said about the current tile.
func (p *publisher) pack() {
	if !p.changed {
		return
	}
	slices.SortFunc(p.page, func(a, b *published) int { return compareCalls(a.call, b.call) })
	b := packed.AppendLen(nil, len(p.page))
	for _, a := range p.page {
		b = packed.AppendLen(packed.AppendBool(b, a.alive), a.since)
		b = packed.AppendLen(b, p.reads.runNumber(a.call.GetRun()))
		call := proto.CloneOf(a.call)
		call.Run, call.Sample, call.Contig, call.VrsId = "", "", "", ""
		var err error
		if b, err = packed.AppendMessage(b, call); err != nil {
			panic("variant: a call can't be packed: " + err.Error()) // names are valid UTF-8, or they had not come
		}
	}
	p.tiles[p.current], p.changed = string(b), false
}

// rest packs everything.
func (p *publisher) rest() {
	p.pack()
	p.current, p.page = noTile, nil
}

// unpack appends what pack has packed.
func (p *publisher) unpack(in *packed.Reader, list []*published) []*published {
	for range in.Count(4) {
		a := &published{alive: in.Bool(), since: in.Len(math.MaxInt32), call: new(streampb.Call)}
		run := in.Len(len(p.reads.runs) - 1)
		in.Message(a.call)
		if in.Err() != nil {
			break
		}
		c := a.call
		var err error
		c.Run, c.Sample, c.Contig = p.reads.runs[run], p.sample, p.contig.Name
		if c.VrsId, err = vrs.AlleleID(p.contig.Digest(), p.contig.Seq, int(c.GetPos())-1, c.GetRef(), c.GetAlt()); err != nil {
			in.Fail("call at %d: %w", c.GetPos(), err)
			break
		}
		list = append(list, a)
	}
	return list
}

// find is what was said about the allele of c, or nil.
func (p *publisher) find(tile int, c *streampb.Call) *published {
	p.loadPage(tile)
	for _, a := range p.page {
		if keyOfCall(a.call) == keyOfCall(c) {
			return a
		}
	}
	return nil
}

// alive lists the published alleles of a tile, by position.
func (p *publisher) alive(tile int) []*published {
	p.loadPage(tile)
	var out []*published
	for _, a := range p.page {
		if a.alive {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *published) int { return compareCalls(a.call, b.call) })
	return out
}

// Calls lists the calls that stand, by position. They are not to be changed. Nothing of the region changes.
func (r *Region) Calls() []*streampb.Call {
	var out []*streampb.Call
	for i := range r.tiles {
		for _, a := range r.publishing.alive(i) {
			out = append(out, a.call)
		}
	}
	r.publishing.rest()
	return out
}

// revise makes c, of the given tile, the next revision of its allele.
func (p *publisher) revise(tile int, c *streampb.Call, status streampb.CallStatus, reason string) *streampb.Call {
	a := p.find(tile, c)
	if a == nil {
		a = &published{}
		p.page = append(p.page, a)
	}
	p.changed = true
	c.Revision = a.call.GetRevision() + 1
	c.Status = status
	c.Reason = reason
	if !a.alive || status == streampb.CallStatus_RETRACTED || !sameGenotype(a.call, c) {
		a.since = int(c.GetDepth())
	}
	a.alive = status != streampb.CallStatus_RETRACTED
	a.call = proto.CloneOf(c)
	return c
}

// retract says that an allele is no longer called.
func (p *publisher) retract(tile int, a *published, reason string) *streampb.Call {
	return p.revise(tile, proto.CloneOf(a.call), streampb.CallStatus_RETRACTED, reason)
}

// Evaluate evaluates the places that have enough new reads, and returns the
// revisions that follow, ordered by position, retractions first. Called after
// every Apply, it makes the revisions a function of the sequence of segments.
//
// A place has enough new reads when there are three, and a fifth of those that
// were there when it was last evaluated.
//
// An error is the network's. The region is then as it was before, so that
// Evaluate can be called again.
func (r *Region) Evaluate() ([]*streampb.Call, error) {
	var due, rest []int
	for _, t := range r.touched {
		if r.tiles[t].due() {
			due = append(due, t)
		} else {
			rest = append(rest, t)
		}
	}
	if len(due) == 0 {
		return nil, nil
	}
	slices.Sort(due)
	tiles, err := r.evaluateTiles(due, false)
	if err != nil {
		return nil, err
	}

	r.version++
	r.guard(tiles, false)
	r.touched = append(r.touched[:0], rest...)
	var out []*streampb.Call
	for _, j := range tiles {
		r.tiles[j.tile].markEvaluated()
		out = append(out, r.live(j.tile, j.calls)...)
	}
	r.survey(tiles, false)
	return out, nil
}

// markEvaluated notes that the tile has been evaluated.
func (t *tile) markEvaluated() {
	t.evaluated = t.reads + t.partial
	t.dirty = false
}

// due reports whether the tile has enough new reads.
func (t *tile) due() bool {
	return t.reads+t.partial-t.evaluated >= max(3, (t.evaluated+4)/5)
}

// live compares what a tile holds with what was said about it.
func (r *Region) live(t int, calls []*streampb.Call) []*streampb.Call {
	p := &r.publishing
	current := make(map[alleleKey]*streampb.Call, len(calls))
	var standing []*streampb.Call // that are shown after this evaluation
	for _, c := range calls {
		current[keyOfCall(c)] = c
		if a := p.find(t, c); a != nil && a.alive && r.holds(c) || (a == nil || !a.alive) && r.shows(c) {
			standing = append(standing, c)
		}
	}

	out := r.retractions(t, current, standing)
	for _, c := range calls {
		if revision := r.revision(t, c, standing); revision != nil {
			out = append(out, revision)
		}
	}
	return out
}

// retractions takes back what was said about a tile and no longer holds: current are its calls now, and standing those of them that are shown.
// What was stable has to be out of favour twice in a row, unless another call is in its place.
func (r *Region) retractions(t int, current map[alleleKey]*streampb.Call, standing []*streampb.Call) (out []*streampb.Call) {
	p := &r.publishing
	for _, a := range p.alive(t) {
		c := current[keyOfCall(a.call)]
		reason, replaced := "quality fell", false
		switch {
		case c == nil:
			reason, replaced = r.replaced(a.call, standing)
		case r.holds(c):
			continue
		case slices.Contains(c.GetFilters(), filterStrandBias):
			reason = "strands disagree"
		case slices.Contains(c.GetFilters(), filterMotif):
			reason = "one strand's reads err at a motif"
		}
		if a.call.GetStatus() == streampb.CallStatus_STABLE && a.since != disowned && !replaced {
			a.since, p.changed = disowned, true
			continue
		}
		out = append(out, p.retract(t, a, reason))
	}
	return out
}

// revision is what there is to say of a call of a tile that was not said, or not so, before; nil: nothing.
func (r *Region) revision(t int, c *streampb.Call, standing []*streampb.Call) *streampb.Call {
	p, depth := &r.publishing, int(c.GetDepth())
	a := p.find(t, c)
	if a == nil || !a.alive {
		if !r.shows(c) {
			return nil
		}
		return p.revise(t, c, r.status(c, depth), r.lateness())
	}
	if !r.holds(c) {
		return nil
	}
	stable := a.call.GetStatus() == streampb.CallStatus_STABLE
	if a.since == disowned || !stable && (!r.beyondDoubt(c) || r.touches(c, standing)) {
		a.since, p.changed = depth, true
	}
	changed := !sameGenotype(a.call, c) && c.GetGenotypeQuality() >= liveMinGenotypeQual
	status, reason := r.status(c, a.since), r.lateness()
	switch {
	case changed:
		status, reason = r.status(c, depth), cmp.Or(reason, genotypeChanged(a.call))
	case stable && !r.final:
		status = streampb.CallStatus_STABLE // an unchanged call stays stable
	}
	if changed || status != a.call.GetStatus() && !(r.final && a.call.GetStatus() == streampb.CallStatus_FINAL) ||
		!slices.Equal(c.GetFilters(), a.call.GetFilters()) ||
		c.GetDepth() >= 2*a.call.GetDepth() {
		return p.revise(t, c, status, reason)
	}
	return nil
}

// sameGenotype reports whether two revisions agree on the genotype. The haplotype
// of its alleles counts only where both state it.
func sameGenotype(a, b *streampb.Call) bool {
	x, y := a.GetGenotype(), b.GetGenotype()
	if a.GetPhaseSet() != b.GetPhaseSet() {
		x, y = slices.Sorted(slices.Values(x)), slices.Sorted(slices.Values(y))
	}
	return slices.Equal(x, y) && slices.EqualFunc(a.GetOthers(), b.GetOthers(), func(a, b *streampb.OtherAllele) bool { return proto.Equal(a, b) })
}

// genotypeChanged is the reason of a revision with another genotype.
func genotypeChanged(before *streampb.Call) string {
	numbers := make([]string, len(before.GetGenotype()))
	for i, n := range before.GetGenotype() {
		numbers[i] = strconv.FormatUint(uint64(n), 10)
	}
	separator := "/"
	if before.GetPhaseSet() != 0 {
		separator = "|"
	}
	return "genotype was " + strings.Join(numbers, separator)
}

// holds reports whether an allele that was published stays so. What is final stays
// in the result whatever its filters; a share of the reads at its threshold comes
// and goes.
func (r *Region) holds(c *streampb.Call) bool {
	return r.final || c.GetQual() >= r.liveBar(c).qual/2 && onlyLowDepth(c, filterLowQual, filterLowFraction)
}

// shows reports whether an allele that isn't shown is to be, while the run goes on.
func (r *Region) shows(c *streampb.Call) bool {
	b := r.liveBar(c)
	return c.GetQual() >= b.qual && onlyLowDepth(c) && int(c.GetDepth()) >= b.depth && r.borneOut(c)
}

// borneOut reports whether enough reads show what c says, if it is an event of a diploid sample:
// the allele itself, or with one copy of it the other one as well.
//
// A network is asked about one change of an event alone. In a stretch that basecallers can't read, events
// are proposed that few reads have, and that the next reads spell otherwise.
func (r *Region) borneOut(c *streampb.Call) bool {
	if e := editOf(c); len(e.Ref) == 0 || len(e.Alt) == 0 || len(e.Ref) == 1 && len(e.Alt) == 1 || r.ploidy(e.Start) != Diploid {
		return true
	}
	alt := c.GetAltForward() + c.GetAltReverse()
	n := alt
	if slices.Contains(c.GetGenotype(), 0) {
		n += c.GetRefForward() + c.GetRefReverse()
	}
	if len(c.GetOthers()) > 0 {
		n += c.GetOtherForward() + c.GetOtherReverse()
	}
	return alt >= minSupport && 2*n >= c.GetDepth()
}

// touches reports whether another call that stands is so close to c that both are one event if a haplotype has them.
// Which haplotype they are on is often not known before the end, so more reads may well change them.
func (r *Region) touches(c *streampb.Call, standing []*streampb.Call) bool {
	if len(c.GetOthers()) > 0 {
		return false // each haplotype has something of its own here
	}
	e := editOf(c)
	return slices.ContainsFunc(standing, func(other *streampb.Call) bool {
		o := editOf(other)
		between := max(o.Start-e.End(), e.Start-o.End())
		return o != e && between >= 0 && between < r.cfg.MNPDistance
	})
}

// editOf is what a call changes, without what its alleles have in common.
func editOf(c *streampb.Call) vrs.Edit {
	return vrs.Edit{Start: int(c.GetPos()) - 1, Ref: c.GetRef(), Alt: c.GetAlt()}.Trim()
}

// bar is what a call needs while the run goes on.
type bar struct {
	qual   float64 // to be shown
	depth  int     // to be shown
	stable float64 // QUAL, to be stable

	// neither is the largest share of the reads that may show neither the reference
	// nor an allele of the genotype, for it to be stable.
	neither float64
}

// liveBar is the bar for c.
//
// Reads are yet to come, so what is doubtful can wait. Set by replays in random order (BenchmarkReplay), so
// that of stable alleles less than one in 1,000 is taken back. Of alleles that were shown about 1 in 100
// isn't called at the end. A haploid allele that a network holds likely stays so at QUAL 20, because its
// calibration assumes variants as rare as in nature.
func (r *Region) liveBar(c *streampb.Call) bar {
	b := bar{qual: 20, depth: 5, stable: 30, neither: 1}
	p := r.ploidy(int(c.GetPos()) - 1)
	switch {
	case p != Haploid:
		b.qual, b.depth = 25, 8
	case r.cfg.Network != nil:
		b.stable = 20
	}
	if p == Diploid && len(c.GetOthers()) == 0 {
		b.neither = 0.125
	}
	b.qual, b.stable = max(b.qual, r.cfg.MinQual), cmp.Or(r.cfg.StableQual, b.stable)
	return b
}

// liveMinGenotypeQual is the least quality of another genotype that is published
// while the run goes on, so that a doubtful one doesn't flicker.
const liveMinGenotypeQual = 8

// onlyLowDepth reports whether nothing but LowDepth, and what else is allowed,
// filters c.
func onlyLowDepth(c *streampb.Call, allowed ...string) bool {
	for _, f := range c.GetFilters() {
		if f != filterLowDepth && !slices.Contains(allowed, f) {
			return false
		}
	}
	return true
}

// beyondDoubt reports whether an evaluation that found c leaves nothing but depth to ask for.
//
// A place where basecallers go astray says so by reads that show neither the reference
// nor the allele. In a haploid sample these take nothing away from an allele that most
// reads show; of a heterozygous one they can be as many as the reads that show it.
func (r *Region) beyondDoubt(c *streampb.Call) bool {
	b := r.liveBar(c)
	neither := float64(c.GetOtherForward() + c.GetOtherReverse())
	return len(c.GetFilters()) == 0 && c.GetQual() >= b.stable && float64(c.GetGenotypeQuality()) >= b.stable/2 &&
		c.GetAltForward() > 0 && c.GetAltReverse() > 0 && neither <= b.neither*float64(c.GetDepth())
}

// status is what a live call deserves, unchanged and beyond doubt since it had the
// given depth.
func (r *Region) status(c *streampb.Call, since int) streampb.CallStatus {
	switch depth := int(c.GetDepth()); {
	case r.final:
		return streampb.CallStatus_AMENDED
	case r.beyondDoubt(c) && depth >= r.cfg.StableDepth && depth-since >= r.cfg.StableReads:
		return streampb.CallStatus_STABLE
	}
	return streampb.CallStatus_PROVISIONAL
}

// lateness is the reason of a revision after the end of the run.
func (r *Region) lateness() string {
	if r.final {
		return "reads came after the end of the run"
	}
	return ""
}

// replaced is the reason for which an allele is gone, and whether it is another allele
// in its place, of some that are shown: what a reason names has been published.
func (r *Region) replaced(old *streampb.Call, calls []*streampb.Call) (reason string, by bool) {
	for _, c := range calls {
		if c.GetPos() < old.GetPos()+int64(len(old.GetRef())) && old.GetPos() < c.GetPos()+int64(len(c.GetRef())) {
			return fmt.Sprintf("replaced by %d %s>%s", c.GetPos(), c.GetRef(), c.GetAlt()), true
		}
	}
	return "reads no longer support it", false
}

// Finalize evaluates everything and returns every call of the region as FINAL,
// ordered by position, with a RETRACTED revision for every allele that was
// published and isn't called. The calls, apart from their revision numbers,
// depend on the set of applied segments of reads that have ended only; it lets go of
// those that go on. Finalizing again returns what has changed since, as AMENDED. An
// error is the network's, and the region is then otherwise as it was before.
func (r *Region) Finalize() ([]*streampb.Call, error) {
	r.letGo(r.reads.allGoingOn())
	var covered []int
	for t := range r.tiles {
		if r.tiles[t].reads > 0 && !r.leaves(t) {
			covered = append(covered, t)
		}
	}
	tiles, err := r.evaluateTiles(covered, true)
	if err != nil {
		return nil, err
	}

	r.version++
	r.guard(tiles, true)
	again := r.final
	r.final = true
	p := &r.publishing
	var out []*streampb.Call
	for _, j := range tiles {
		t, calls := j.tile, j.calls
		r.tiles[t].markEvaluated()
		for _, a := range p.alive(t) {
			if !slices.ContainsFunc(calls, func(c *streampb.Call) bool { return keyOfCall(c) == keyOfCall(a.call) }) {
				reason, _ := r.replaced(a.call, calls)
				out = append(out, p.retract(t, a, reason))
			}
		}
		for _, c := range calls {
			status, reason := streampb.CallStatus_FINAL, ""
			a := p.find(t, c)
			said := a != nil && a.alive
			if said && !sameGenotype(a.call, c) {
				reason = genotypeChanged(a.call)
			}
			if again {
				if said && sameEvidence(a.call, c) {
					continue
				}
				status, reason = streampb.CallStatus_AMENDED, r.lateness()
			}
			out = append(out, p.revise(t, c, status, reason))
		}
	}
	r.touched = nil
	r.survey(tiles, true)
	r.rest()
	slices.SortStableFunc(out, compareCalls)
	return out, nil
}

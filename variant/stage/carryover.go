package stage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/carryover"
	"github.com/porestream/porestream/vrs"
)

// Carry-over between the samples of runs with negative controls.
//
// Problem: an allele is assessed by the reads of all samples at it, called or not, and these are worked on by many handlers, on as many partitions, of as many
// processes; each knows its own.
//
// Strategy: the handler of partition 0 asks all, itself included, over the topic of reads: which alleles are the samples called with, and how many of their reads show the
// alleles that any of them is called with. Once all have answered one query, it assesses, and writes what has news to the calls' partitions. While a run goes
// on it asks now and then. Each partition notifies it when it has all reads of a run, so that it asks for the last time; and then it sends the end of that run's carry-over.
//
// Consequences: what is asked, answered and assessed are records of transactions, so that the new owner of a partition fences the one before here as elsewhere. What is assessed last
// is a function of the reads. The handler of partition 0 keeps none of this in its state: a new one asks anew, and sends everything, because it doesn't know what was sent.

const (
	// partSize bounds a record of a query or an answer, in bytes.
	partSize = 400 << 10
	// alleleBytes are at most those of a called allele in a list besides its bases and id: its position, and tags and lengths.
	alleleBytes = 24
	// listLength is how many alleles one list has at most.
	listLength = 4096
	// maxAssessed bounds the different alleles that the samples of a run are called with. Beyond it nothing of the run is assessed: a limit that all runs had together would make
	// what is final about one depend on how far another has come.
	maxAssessed = 100_000
	// lostAfter is after how many ticks a query is asked again, twice as many each time that follows, mostLost times: a partition that is being restored, or has many records
	// to handle first, takes its time, and must not find more queries than it answers.
	lostAfter = 15
	mostLost  = 4
	// restFactor is how many ticks pass for each that an answer took.
	restFactor = 4
	// bytesPerTick are those of a query and its answers for which a tick passes.
	bytesPerTick = 128 << 10
	// quietAfter is after how many answers alike more and more ticks pass, up to longestRest.
	quietAfter  = 5
	longestRest = 30
	// countedAtOnce is at how many alleles reads are counted while readers of the regions wait: some ten milliseconds where each is in another tile.
	countedAtOnce = 64
)

// answering is what a handler needs to answer queries.
type answering struct {
	parts    []*streampb.CarryOverQuery // of the query that comes
	known    map[regionKey]*tallied
	notified bool // partition 0 was notified since the last query that reads came late
}

// tallied is a region as it was.
type tallied struct {
	of      *variant.Region
	version uint64
	calls   []*streampb.Call
	alleles []vrs.Edit
	counts  []runCounts
}

// runCounts are the reads of a run.
type runCounts struct {
	run    string
	counts []variant.Support
}

// query takes a part of a query, and answers it once it is complete.
func (h *handler) query(q *streampb.CarryOverQuery) ([]stream.Out, error) {
	a := &h.answering
	if q.GetPart() == 0 {
		a.parts = nil
	}
	if int(q.GetPart()) != len(a.parts) || len(a.parts) > 0 && a.parts[0].GetId() != q.GetId() {
		a.parts = nil // of one whose beginning was restored over: it will be asked again
		return nil, nil
	}
	a.parts = append(a.parts, q)
	if len(a.parts) < int(q.GetParts()) {
		return nil, nil
	}
	parts := a.parts
	a.parts, a.notified = nil, false
	if h.replayed {
		return nil, nil
	}
	var samples []string
	for _, q := range parts {
		samples = append(samples, q.GetSamples()...)
	}
	return h.answer(q.GetId(), samples, allelesOf(parts))
}

// allelesOf are the alleles of a query, by contig.
func allelesOf(parts []*streampb.CarryOverQuery) map[string][]vrs.Edit {
	alleles := make(map[string][]vrs.Edit)
	for _, q := range parts {
		for _, list := range q.GetAlleles() {
			for i, pos := range list.GetPositions() {
				alleles[list.GetContig()] = append(alleles[list.GetContig()], vrs.Edit{Start: int(pos), Ref: list.GetRefs()[i], Alt: list.GetAlts()[i]})
			}
		}
	}
	return alleles
}

// answer is what the handler's regions have of some samples: calls that stand, and reads at alleles.
func (h *handler) answer(id uint64, samples []string, alleles map[string][]vrs.Edit) ([]stream.Out, error) {
	a := &h.answering
	before := a.known
	a.known = make(map[regionKey]*tallied)
	parts := answerParts{list: []*streampb.CarryOverReport{{}}}
	listed := make(map[string]map[changeAt]bool) // by run
	for _, key := range h.sampleRegions(samples...) {
		r := h.regions[key]
		k := before[key]
		if k == nil || k.of != r || k.version != r.StateVersion() {
			k = &tallied{of: r, version: r.StateVersion(), calls: r.Calls()}
		}
		a.known[key] = k
		h.answerCalls(&parts, key, k.calls, listed)
		h.answerReads(&parts, key, k, alleles[key.contig])
	}
	return h.report(id, parts.list)
}

// answerParts is an answer in parts, none of which is much larger than partSize unless a list in it is.
type answerParts struct {
	list []*streampb.CarryOverReport
	size int // of the last one
}

// last is the part that a list of so many bytes goes into.
func (p *answerParts) last(added int) *streampb.CarryOverReport {
	if p.size += added; p.size > partSize {
		p.list, p.size = append(p.list, new(streampb.CarryOverReport)), added
	}
	return p.list[len(p.list)-1]
}

func (p *answerParts) called(list *streampb.Alleles) {
	part := p.last(proto.Size(list))
	part.Called = append(part.Called, list)
}

// answerCalls lists the calls of a region. It stops where all runs with controls that the sample is of have more alleles
// listed than are assessed; partition 0 sees that.
func (h *handler) answerCalls(parts *answerParts, key regionKey, all []*streampb.Call, listed map[string]map[changeAt]bool) {
	runs := h.controlledRuns(key.sample)
	full := func() bool {
		return !slices.ContainsFunc(runs, func(run string) bool { return len(listed[run]) <= h.mostAssessed })
	}
	for calls := range slices.Chunk(all, listLength) {
		list, bytes := &streampb.Alleles{Sample: key.sample, Contig: key.contig}, 0
		for _, c := range calls {
			if full() {
				break
			}
			for _, run := range runs {
				if listed[run] == nil {
					listed[run] = make(map[changeAt]bool)
				}
				listed[run][changeAt{key.contig, vrs.Edit{Start: int(c.GetPos()) - 1, Ref: c.GetRef(), Alt: c.GetAlt()}.Trim()}] = true
			}
			if bytes > partSize { // of long alleles
				parts.called(list)
				list, bytes = &streampb.Alleles{Sample: key.sample, Contig: key.contig}, 0
			}
			list.Positions, list.Refs = append(list.Positions, c.GetPos()), append(list.Refs, c.GetRef())
			list.Alts, list.VrsIds = append(list.Alts, c.GetAlt()), append(list.VrsIds, c.GetVrsId())
			bytes += len(c.GetRef()) + len(c.GetAlt()) + len(c.GetVrsId()) + alleleBytes
		}
		if len(list.GetPositions()) > 0 {
			parts.called(list)
		}
	}
}

// answerReads counts the reads of a region at those of the contig's alleles that lie within it.
func (h *handler) answerReads(parts *answerParts, key regionKey, k *tallied, all []vrs.Edit) {
	start, end := k.of.Bounds()
	from := startingAt(all, start)
	own := all[from:startingAt(all, end)]
	if k.counts == nil || !slices.Equal(k.alleles, own) {
		k.alleles, k.counts = own, h.supportBetween(k.of, own)
	}
	for _, of := range k.counts {
		if run := h.markers.Run(of.run); run != nil && len(run.GetControls()) == 0 {
			continue // nothing of it is assessed
		}
		first := from
		for counts := range slices.Chunk(of.counts, listLength) {
			list := &streampb.AlleleReads{Sample: key.sample, Contig: key.contig, First: uint32(first), Run: of.run}
			for _, c := range counts {
				list.Alt, list.Depth, list.Left = append(list.Alt, uint32(c.Shows)), append(list.Depth, uint32(c.Depth)), append(list.Left, uint32(c.Left))
			}
			p := parts.last(proto.Size(list))
			p.Reads = append(p.Reads, list)
			first += len(counts)
		}
	}
}

// changeAt is where an allele is, and what it changes.
type changeAt struct {
	contig string
	vrs.Edit
}

// controlledRuns are the runs with controls that a sample is of; one without a name if none is known here yet.
func (h *handler) controlledRuns(sample string) []string {
	runs := slices.DeleteFunc(h.markers.RunsOf(sample), func(run string) bool { return len(h.markers.Run(run).GetControls()) == 0 })
	if len(runs) == 0 {
		return []string{""}
	}
	return runs
}

// startingAt is the first of alleles that begins at or behind a position.
func startingAt(alleles []vrs.Edit, pos int) int {
	i, _ := slices.BinarySearchFunc(alleles, pos, func(e vrs.Edit, pos int) int { return cmp.Compare(e.Start, pos) })
	return i
}

// supportBetween is [variant.Region.RunSupport] of each run, with the handler's lock, which is held, let go of now and then for those who read the regions.
func (h *handler) supportBetween(r *variant.Region, alleles []vrs.Edit) []runCounts {
	counts := []runCounts{}
	for _, run := range r.Runs() {
		of := runCounts{run, make([]variant.Support, 0, len(alleles))}
		for part := range slices.Chunk(alleles, countedAtOnce) {
			if len(of.counts)+len(counts) > 0 {
				h.mu.Unlock()
				h.mu.Lock()
			}
			of.counts = append(of.counts, r.RunSupport(run, part)...)
		}
		counts = append(counts, of)
	}
	return counts
}

// report are the records of a report's parts. id 0: it answers no query.
func (h *handler) report(id uint64, parts []*streampb.CarryOverReport) ([]stream.Out, error) {
	var ended []string
	for _, run := range h.markers.Runs() {
		if h.markers.Ended(run.GetId()) && !h.ending[run.GetId()] && h.markers.AwaitsCarryOver(run.GetId()) {
			ended = append(ended, run.GetId())
		}
	}
	var outs []stream.Out
	for i, p := range parts {
		p.Source, p.Sources, p.Query, p.Part, p.Parts, p.Ended = uint32(h.partition), uint32(h.partitions), id, uint32(i), uint32(len(parts)), ended
		value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_CarryOverReport{CarryOverReport: p}})
		if err != nil {
			return nil, err
		}
		outs = append(outs, stream.Out{Topic: h.cfg.Topics.Reads, Partition: 0, Key: stream.CarryOverKey(p.GetSource()), Value: value})
	}
	return outs, nil
}

// notify informs partition 0 that it is to ask: this one has all reads of a run, or reads that came after that.
func (h *handler) notify() ([]stream.Out, error) {
	return h.report(0, []*streampb.CarryOverReport{{}})
}

// late notifies partition 0, once until it asks, that reads of a sample came after its runs had ended.
func (h *handler) late(sample string) ([]stream.Out, error) {
	if h.replayed || h.answering.notified || !h.markers.Assessed(sample) || !h.markers.SampleEnded(sample) {
		return nil, nil
	}
	h.answering.notified = true
	return h.notify()
}

// asking is what the handler of partition 0 knows of all others.
type asking struct {
	round   uint64 // how often was asked
	id      uint64 // of the newest query; 0: none
	samples []string
	runs    map[string]bool            // that it asks for: one that was named since is of the next query
	alleles map[string][]vrs.Edit      // of it
	reports map[uint32]*reply          // by source: those that answer it, complete ones and others
	open    bool                       // not all have answered
	again   bool                       // something has happened that needs another
	size    int                        // its bytes, in all partitions
	waited  int                        // ticks since
	lost    int                        // queries one behind the other that not all have answered in time
	rest    int                        // ticks until the next
	answers [sha256.Size]byte          // a hash of what all answered last
	alike   int                        // how often they had answered the same before
	ended   map[string]map[uint32]bool // by run, the partitions that have all of its reads
	called  map[string][]vrs.Edit      // by contig, when all had answered last
	many    map[string]bool            // runs with controls whose samples are called with too many
	warned  map[string]bool            // of these, those that were logged
	sent    map[alleleAt]*streampb.CarryOver
	known   bool            // sent is all that annotate has
	done    map[string]bool // runs whose end was sent
	tooMany map[string]bool // of these, those of which it says that nothing was assessed
	silent  map[string][]string
}

// reply is a partition's answer.
type reply struct {
	parts []*streampb.CarryOverReport
}

func (r *reply) complete() bool {
	return len(r.parts) > 0 && len(r.parts) == int(r.parts[0].GetParts())
}

// ended reports whether all reads of a run were there when the partition answered.
func (r *reply) ended(run string) bool {
	_, ended := slices.BinarySearch(r.parts[0].GetEnded(), run)
	return ended
}

// alleleAt is an allele of a sample.
type alleleAt struct {
	sample, contig, vrsID string
	pos                   int64
	ref, alt              string
}

func (a alleleAt) compare(o alleleAt) int {
	return cmp.Or(cmp.Compare(a.sample, o.sample), cmp.Compare(a.contig, o.contig), cmp.Compare(a.pos, o.pos), cmp.Compare(a.ref, o.ref), cmp.Compare(a.alt, o.alt))
}

// edit is what changes.
func (a alleleAt) edit() vrs.Edit {
	return vrs.Edit{Start: int(a.pos) - 1, Ref: a.ref, Alt: a.alt}.Trim()
}

// carryOverTick asks, while something is to be assessed.
func (h *handler) carryOverTick() ([]stream.Out, error) {
	a := &h.asking
	switch {
	case h.partition != 0 || !a.again && !slices.ContainsFunc(h.markers.Runs(), func(run *streampb.Run) bool { return !a.done[run.GetId()] && h.markers.AwaitsCarryOver(run.GetId()) }):
		return nil, nil
	case a.open:
		if a.waited++; a.waited < lostAfter<<a.lost {
			return nil, nil
		}
		a.lost = min(a.lost+1, mostLost)
	case a.rest > 0:
		a.rest--
		return nil, nil
	}
	return h.ask()
}

// ask asks all partitions for what the samples are called with, and for their reads at the alleles that they were called with when that was asked last.
func (h *handler) ask() ([]stream.Out, error) {
	a := &h.asking
	a.samples, a.runs = nil, make(map[string]bool)
	for _, run := range h.markers.Runs() {
		a.runs[run.GetId()] = h.markers.AwaitsCarryOver(run.GetId())
		if len(run.GetControls()) > 0 {
			a.samples = append(a.samples, stream.SamplesOf(run)...)
		}
	}
	slices.Sort(a.samples)
	a.samples = slices.Compact(a.samples)
	a.round++
	a.alleles = a.called
	hash := sha256.New()
	fmt.Fprintf(hash, "%d %q", a.round, a.samples)
	parts := []*streampb.CarryOverQuery{{}}
	size := 0
	for _, sample := range a.samples {
		if size += len(sample) + 4; size > partSize {
			parts, size = append(parts, new(streampb.CarryOverQuery)), len(sample)+4
		}
		p := parts[len(parts)-1]
		p.Samples = append(p.Samples, sample)
	}
	for _, contig := range slices.Sorted(maps.Keys(a.alleles)) {
		fmt.Fprintf(hash, " %q", contig)
		var list *streampb.Alleles
		for _, e := range a.alleles[contig] {
			fmt.Fprintf(hash, " %d %s %s", e.Start, e.Ref, e.Alt)
			added := len(e.Ref) + len(e.Alt) + 12
			if size+added > partSize && size > 0 {
				parts, list, size = append(parts, new(streampb.CarryOverQuery)), nil, 0
			}
			if size += added; list == nil {
				list = &streampb.Alleles{Contig: contig}
				p := parts[len(parts)-1]
				p.Alleles = append(p.Alleles, list)
				size += len(contig) + 16
			}
			list.Positions, list.Refs, list.Alts = append(list.Positions, int64(e.Start)), append(list.Refs, e.Ref), append(list.Alts, e.Alt)
		}
	}
	a.id = max(1, binary.LittleEndian.Uint64(hash.Sum(nil)))
	a.reports, a.open, a.again, a.waited = make(map[uint32]*reply), true, false, 0
	a.size = 0
	var outs []stream.Out
	for i, q := range parts {
		q.Id, q.Part, q.Parts = a.id, uint32(i), uint32(len(parts))
		value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_CarryOverQuery{CarryOverQuery: q}})
		if err != nil {
			return nil, err
		}
		a.size += len(value) * int(h.partitions)
		for p := range h.partitions {
			outs = append(outs, stream.Out{Topic: h.cfg.Topics.Reads, Partition: p, Key: stream.CarryOverKey(0), Value: value})
		}
	}
	return outs, nil
}

// reported takes a report of a partition.
func (h *handler) reported(m *streampb.CarryOverReport) ([]stream.Out, error) {
	if m.GetSources() != uint32(h.partitions) {
		return nil, &stream.DecodeError{Code: stream.CodeInvalid, Reason: fmt.Sprintf("report of carry-over by one of %d partitions, and the topic has %d", m.GetSources(), h.partitions)}
	}
	a := &h.asking
	for _, run := range m.GetEnded() {
		if a.ended == nil {
			a.ended = make(map[string]map[uint32]bool)
		}
		if a.ended[run] == nil {
			a.ended[run] = make(map[uint32]bool)
		}
		a.ended[run][m.GetSource()] = true
	}
	switch {
	case h.replayed:
		return nil, nil
	case m.GetQuery() == 0:
		late := len(m.GetEnded()) > 0 && !slices.ContainsFunc(m.GetEnded(), func(run string) bool { return !a.done[run] })
		overdue := h.overdue()
		if !late && !overdue {
			return nil, nil // others haven't all reads yet
		}
		if a.again = a.open || !overdue && a.rest > 0; a.again {
			return nil, nil
		}
		return h.ask()
	case m.GetQuery() != a.id:
		return nil, nil
	}
	of := a.reports[m.GetSource()]
	if of == nil || m.GetPart() == 0 {
		of = new(reply)
		a.reports[m.GetSource()] = of
	}
	if int(m.GetPart()) == len(of.parts) {
		of.parts = append(of.parts, m)
	}
	if len(a.reports) < int(h.partitions) {
		return nil, nil
	}
	for _, of := range a.reports {
		if !of.complete() {
			return nil, nil
		}
	}
	return h.assess()
}

// overdue reports whether all partitions have all reads of a run whose carry-over's end wasn't sent.
func (h *handler) overdue() bool {
	a := &h.asking
	for run, sources := range a.ended {
		if len(sources) == int(h.partitions) && !a.done[run] && h.markers.AwaitsCarryOver(run) {
			return true
		}
	}
	return false
}

// assess assesses by the answers of all partitions, and sends what has news.
func (h *handler) assess() ([]stream.Out, error) {
	a := &h.asking
	a.open, a.lost = false, 0
	if err := a.setRest(h.partitions); err != nil {
		return nil, err
	}
	final := h.finalSamples()
	calls, complete := h.takeCalls(final)
	if !complete {
		return h.ask() // with what they are called with now
	}
	byRun := make(map[alleleAt][]ofRun)
	a.silent = make(map[string][]string)
	for _, run := range h.markers.Runs() {
		if len(run.GetControls()) > 0 && a.runs[run.GetId()] && !a.many[run.GetId()] {
			h.assessRun(run, calls, byRun)
		}
	}
	if a.sent == nil {
		a.sent, a.done, a.tooMany = make(map[alleleAt]*streampb.CarryOver), make(map[string]bool), make(map[string]bool)
	}
	ends := h.endRuns()
	outs, err := h.sendNews(byRun, final)
	if err != nil {
		return nil, err
	}
	a.known = true
	for _, end := range ends {
		value, err := stream.EncodeCalls(&streampb.CallRecord{Body: &streampb.CallRecord_CarryOverEnd{CarryOverEnd: end}})
		if err != nil {
			return nil, err
		}
		for p := range h.cfg.CallsPartitions {
			outs = append(outs, stream.Out{Topic: h.cfg.Topics.Calls, Partition: p, Key: stream.CarryOverEndKey(end.GetRun()), Value: value})
		}
	}
	if len(a.many) > 0 {
		a.rest = max(a.rest, longestRest)
	}
	if !h.overdue() && (!a.again || a.rest > 0) {
		return outs, nil
	}
	asked, err := h.ask()
	return append(outs, asked...), err
}

// allEnded reports whether a run has ended for all partitions, by their answers.
func (a *asking) allEnded(run string) bool {
	for _, of := range a.reports {
		if !of.ended(run) {
			return false
		}
	}
	return true
}

// finalSamples are the samples all of whose runs have ended, those without controls as well: their reads count.
func (h *handler) finalSamples() map[string]bool {
	final := make(map[string]bool)
	for _, run := range h.markers.Runs() {
		all := h.asking.allEnded(run.GetId())
		for _, sample := range stream.SamplesOf(run) {
			before, seen := final[sample]
			final[sample] = all && (before || !seen)
		}
	}
	return final
}

// endRuns are the ends of assessment of the runs that have ended since, or that have too many alleles
// now and hadn't before or the other way round.
func (h *handler) endRuns() []*streampb.CarryOverEnd {
	a := &h.asking
	var ends []*streampb.CarryOverEnd
	for _, run := range h.markers.Runs() {
		id := run.GetId()
		if !a.runs[id] || !a.allEnded(id) || a.done[id] && a.many[id] == a.tooMany[id] {
			continue
		}
		ends = append(ends, &streampb.CarryOverEnd{Run: id, TooMany: a.many[id]})
		a.done[id], a.tooMany[id] = true, a.many[id]
		if a.many[id] { // annotate lets go of what was sent of it
			maps.DeleteFunc(a.sent, func(_ alleleAt, c *streampb.CarryOver) bool { return c.GetRun() == id })
			h.metrics.carryOverTooMany()
		}
	}
	return ends
}

// sendNews sends the assessments of alleles that differ from those sent last.
func (h *handler) sendNews(byRun map[alleleAt][]ofRun, final map[string]bool) (outs []stream.Out, err error) {
	a := &h.asking
	for _, at := range slices.SortedFunc(maps.Keys(byRun), alleleAt.compare) {
		next := at.carryOver(byRun[at])
		if !news(a.sent[at], next, final[at.sample] || !a.known) {
			continue
		}
		value, err := stream.EncodeCalls(&streampb.CallRecord{Body: &streampb.CallRecord_CarryOver{CarryOver: next}})
		if err != nil {
			return nil, err
		}
		a.sent[at] = next
		outs = append(outs, stream.Out{Topic: h.cfg.Topics.Calls, Partition: stream.ContigPartition(at.sample, at.contig, h.cfg.CallsPartitions), Key: stream.AlleleKey(at.sample, at.vrsID), Value: value})
	}
	return outs, nil
}

// setRest sets how long nothing is asked after all have answered: what is asked and answered costs time, and stays in the topic of reads.
func (a *asking) setRest(partitions int32) error {
	hash, size := sha256.New(), a.size
	for source := range uint32(partitions) {
		for _, p := range a.reports[source].parts {
			id := p.GetQuery()
			p.Query = 0
			b, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
			p.Query = id
			if err != nil {
				return fmt.Errorf("hashing a report of carry-over: %w", err)
			}
			hash.Write(b)
			size += len(b)
		}
	}
	sum := [sha256.Size]byte(hash.Sum(nil))
	if a.alike++; sum != a.answers {
		a.answers, a.alike = sum, 0
	}
	a.rest = max(restFactor*a.waited, size/bytesPerTick, min(a.alike-quietAfter, longestRest))
	return nil
}

// takeCalls takes what samples are called with from the answers. It isn't complete if one has to be asked anew at once: a sample that nothing more
// comes of is called with an allele at which no reads were counted, or none has been asked for yet.
func (h *handler) takeCalls(final map[string]bool) (calls map[string][]alleleAt, complete bool) {
	a := &h.asking
	calls = make(map[string][]alleleAt)
	for source := range uint32(h.partitions) {
		for _, p := range a.reports[source].parts {
			for _, list := range p.GetCalled() {
				for i, pos := range list.GetPositions() {
					at := alleleAt{list.GetSample(), list.GetContig(), list.GetVrsIds()[i], pos, list.GetRefs()[i], list.GetAlts()[i]}
					calls[at.sample] = append(calls[at.sample], at)
				}
			}
		}
	}
	h.leaveOut(calls)
	a.called = make(map[string][]vrs.Edit)
	for _, list := range calls {
		for _, at := range list {
			a.called[at.contig] = append(a.called[at.contig], at.edit())
		}
	}
	for contig, list := range a.called {
		slices.SortFunc(list, carryover.CompareEdits)
		a.called[contig] = slices.Compact(list)
	}
	if len(a.alleles) == 0 && len(a.called) > 0 {
		return calls, false
	}
	for sample, list := range calls {
		for _, at := range list {
			if _, counted := slices.BinarySearchFunc(a.alleles[at.contig], at.edit(), carryover.CompareEdits); !counted && final[sample] {
				return calls, false
			}
		}
	}
	return calls, true
}

// leaveOut determines the runs whose samples are called with too many alleles, and takes the calls away of samples that are of no other run with controls. A run has too many or not
// by what its own samples are called with, so it doesn't matter what other runs came to.
func (h *handler) leaveOut(calls map[string][]alleleAt) {
	a := &h.asking
	a.many = make(map[string]bool)
	assessed := make(map[string]bool)
	for _, run := range h.markers.Runs() {
		if len(run.GetControls()) == 0 {
			continue
		}
		id, samples := run.GetId(), stream.SamplesOf(run)
		n := 0
		for _, sample := range samples {
			n += len(calls[sample])
		}
		if n > h.mostAssessed {
			places := make(map[changeAt]bool)
			for _, sample := range samples {
				for _, at := range calls[sample] {
					places[changeAt{at.contig, at.edit()}] = true
				}
			}
			n = len(places)
		}
		if n <= h.mostAssessed {
			for _, sample := range samples {
				assessed[sample] = true
			}
			continue
		}
		a.many[id] = true
		if !a.warned[id] {
			if a.warned == nil {
				a.warned = make(map[string]bool)
			}
			a.warned[id] = true
			h.log.Warn("carry-over of a run isn't assessed: its samples are called with too many alleles; pore carryover marks files", "run", id, "limit", h.mostAssessed)
		}
	}
	maps.DeleteFunc(calls, func(sample string, _ []alleleAt) bool { return !assessed[sample] })
}

// ofRun is an allele's assessment by a run's controls.
type ofRun struct {
	run string
	carryover.Assessment
}

// carryOver is the record of an allele's assessments by all runs that its sample is of.
func (a alleleAt) carryOver(runs []ofRun) *streampb.CarryOver {
	list := make([]carryover.Assessment, len(runs))
	for i, of := range runs {
		list[i] = of.Assessment
	}
	j, most := carryover.Combine(list)
	next := &streampb.CarryOver{
		Run: runs[most].run, Sample: a.sample, Contig: a.contig, Pos: a.pos, Ref: a.ref, Alt: a.alt,
		Explained: j.Explained, Bounded: j.Bounded(), Basis: string(j.Basis), Control: j.Control, ControlAlt: uint32(j.Alt), ControlDepth: uint32(j.Depth),
	}
	if j.Bounded() {
		next.Share = j.Share
	}
	return next
}

// assessRun takes in what a run's controls say, by the reads of that run alone, of the alleles that its samples are called with: a control of the same name in another run is another one.
func (h *handler) assessRun(run *streampb.Run, calls map[string][]alleleAt, byRun map[alleleAt][]ofRun) {
	a := &h.asking
	controls := make(carryover.Controls)
	for _, c := range run.GetControls() {
		controls[c.GetSample()] = carryover.Kind(c.GetKind())
	}
	table := carryover.NewTable(controls, stream.SamplesOf(run))
	for _, sample := range stream.SamplesOf(run) {
		for _, at := range calls[sample] {
			if _, counted := slices.BinarySearchFunc(a.alleles[at.contig], at.edit(), carryover.CompareEdits); counted { // else it was called since that was asked
				table.Add(at.contig, at.edit())
			}
		}
	}
	for source := range uint32(h.partitions) {
		for _, p := range a.reports[source].parts {
			for _, list := range p.GetReads() {
				asked, first := a.alleles[list.GetContig()], int(list.GetFirst())
				if list.GetRun() != "" && list.GetRun() != run.GetId() || first+len(list.GetAlt()) > len(asked) { // as they are, of an answer to this query
					continue
				}
				countOf(table, list, asked[first:])
			}
		}
	}
	for sample, list := range calls {
		if !table.Assesses(sample) {
			continue
		}
		for _, at := range list {
			if j := table.Assess(sample, at.contig, at.edit()); j != nil {
				byRun[at] = append(byRun[at], ofRun{run.GetId(), *j})
			}
		}
	}
	a.silent[run.GetId()] = table.Silent()
}

// countOf takes a list of reads at alleles that were asked for into a run's table, which may have some of these.
func countOf(table *carryover.Table, list *streampb.AlleleReads, asked []vrs.Edit) {
	reads, own := readsOf(list), table.Alleles()[list.GetContig()]
	n := 0
	for i := 0; i < len(reads); {
		for n < len(own) && carryover.CompareEdits(own[n], asked[i]) < 0 {
			n++
		}
		together := 0 // as they come in both
		for i+together < len(reads) && n+together < len(own) && own[n+together] == asked[i+together] {
			together++
		}
		if together > 0 {
			table.Count(list.GetSample(), list.GetContig(), n, reads[i:i+together])
		}
		i += max(together, 1)
	}
}

// news reports whether an assessment is worth a revision; all: any difference is.
func news(old, next *streampb.CarryOver, all bool) bool {
	switch {
	case all:
		return !proto.Equal(old, next)
	case old == nil:
		return next.GetExplained()
	}
	return old.GetExplained() != next.GetExplained() || old.GetBounded() != next.GetBounded() || math.Abs(old.GetShare()-next.GetShare()) >= 0.1
}

func readsOf(list *streampb.AlleleReads) []carryover.Reads {
	reads := make([]carryover.Reads, len(list.GetAlt()))
	for i := range reads {
		reads[i] = carryover.Reads{Alt: int(list.GetAlt()[i]), Depth: int(list.GetDepth()[i]), Left: int(list.GetLeft()[i])}
	}
	return reads
}

// SilentControls lists the controls of runs of which no read lies at any allele, ascending; none where another process assesses carry-over.
func (rs *Regions) SilentControls() []string {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var all []string
	for h := range rs.handlers {
		h.mu.Lock()
		for _, names := range h.asking.silent {
			all = append(all, names...)
		}
		h.mu.Unlock()
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Tick is called now and then once the partition is live.
func (w worker) Tick(ctx context.Context, now time.Time, emit stream.Emitter) error {
	w.handler.mu.Lock()
	w.handler.replayed = false
	w.handler.motifsTick(now)
	outs, err := w.handler.carryOverTick()
	if err == nil {
		var haplotypes []stream.Out
		haplotypes, err = w.handler.haplotypesTick(now)
		outs = append(outs, haplotypes...)
	}
	w.handler.mu.Unlock()
	if err != nil || len(outs) == 0 {
		return err
	}
	return emit.Emit(ctx, outs, nil)
}

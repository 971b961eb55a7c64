package stream

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream/streampb"
)

// Markers aligns the run markers of several upstream partitions.
//
// Problem: records of a run arrive over several upstream partitions in no
// common order, and the result of a run may be called final only when nothing
// of it can follow.
//
// Strategy: every upstream partition sends its own end marker behind its last
// record. A run has ended for this reader once the markers of all sources are
// here, and a sample once all of its known runs have ended.
//
// Markers are idempotent: a marker delivered again changes nothing. The zero
// value is ready to use.
type Markers struct {
	runs    map[string]*runMarkers
	version uint64

	assessed        map[string]bool // samples of runs with controls, as of a version
	assessedVersion uint64
}

type runMarkers struct {
	run     *streampb.Run
	sources uint32
	ended   map[uint32]streampb.EndStatus // by source
}

// Start notes that a source has begun a run and reports whether the run was
// unknown until now.
func (m *Markers) Start(mk *streampb.Marker) (isNew bool, err error) {
	_, isNew, err = m.enter(mk)
	return isNew, err
}

// End notes that a source has nothing more of a run and reports whether there is
// news to pass on: it was the last one missing, or the run turns out to have
// ended in another way, as when one that was given up comes back.
func (m *Markers) End(mk *streampb.Marker) (news bool, err error) {
	r, _, err := m.enter(mk)
	if err != nil {
		return false, err
	}
	ended, before := r.complete(), r.status()
	r.ended[mk.GetSource()] = max(mk.GetEndStatus(), streampb.EndStatus_END_STATUS_NORMAL)
	m.version++
	return r.complete() && (!ended || r.status() != before), nil
}

func (r *runMarkers) complete() bool { return len(r.ended) == int(r.sources) }

// status is how the run ended as far as its sources have.
func (r *runMarkers) status() streampb.EndStatus {
	worst := streampb.EndStatus_END_STATUS_UNSPECIFIED
	for _, s := range r.ended {
		worst = max(worst, s)
	}
	return worst
}

// EndStatus returns how a run ended, and unspecified while it goes on.
func (m *Markers) EndStatus(id string) streampb.EndStatus {
	if !m.Ended(id) {
		return streampb.EndStatus_END_STATUS_UNSPECIFIED
	}
	return m.runs[id].status()
}

func (m *Markers) enter(mk *streampb.Marker) (r *runMarkers, isNew bool, err error) {
	if m.runs == nil {
		m.runs = make(map[string]*runMarkers)
	}
	id := mk.GetRun().GetId()
	r, known := m.runs[id]
	if !known {
		r = &runMarkers{run: proto.CloneOf(mk.GetRun()), sources: mk.GetSources(), ended: make(map[uint32]streampb.EndStatus)}
		m.runs[id] = r
		m.version++
	}
	switch {
	case r.sources != mk.GetSources():
		return nil, false, decodeErrorf(CodeInvalid, "run %s: marker speaks of %d sources, earlier ones of %d", id, mk.GetSources(), r.sources)
	case r.run.GetSample() != mk.GetRun().GetSample():
		return nil, false, decodeErrorf(CodeInvalid, "run %s: marker names sample %q, earlier ones %q", id, mk.GetRun().GetSample(), r.run.GetSample())
	case !slices.Equal(r.run.GetSamples(), mk.GetRun().GetSamples()):
		return nil, false, decodeErrorf(CodeInvalid, "run %s: marker names samples %q, earlier ones %q: were processors started with different barcodes?",
			id, mk.GetRun().GetSamples(), r.run.GetSamples())
	}
	if controls, more := joinControls(r.run.GetControls(), mk.GetRun().GetControls()); more {
		r.run = proto.CloneOf(r.run) // others hold it
		r.run.Controls = controls
		m.version++
	}
	return r, !known, nil
}

// joinControls adds controls that another source names, and reports whether there are some: processors may have been
// started with different ones. Of two kinds of one control it is that which comes first.
func joinControls(known, more []*streampb.Control) ([]*streampb.Control, bool) {
	all := slices.Clone(known)
	for _, c := range more {
		i, has := slices.BinarySearchFunc(all, c.GetSample(), func(c *streampb.Control, sample string) int { return strings.Compare(c.GetSample(), sample) })
		switch {
		case !has:
			all = slices.Insert(all, i, c)
		case c.GetKind() < all[i].GetKind():
			all[i] = c
		}
	}
	return all, !slices.EqualFunc(known, all, func(a, b *streampb.Control) bool { return proto.Equal(a, b) })
}

// AwaitsCarryOver reports whether carry-over is assessed in a run, or in another of which one of its samples is: nothing of it is final before
// that is. Once the run has ended here, it is the same for all readers of its markers that know the same runs.
func (m *Markers) AwaitsCarryOver(id string) bool {
	run := m.Run(id)
	return run != nil && slices.ContainsFunc(SamplesOf(run), m.Assessed)
}

// Assessed reports whether a sample is of a run with controls. It is fast where there are many runs: it is asked for every read.
func (m *Markers) Assessed(sample string) bool {
	if m.assessedVersion != m.version {
		m.assessed, m.assessedVersion = make(map[string]bool), m.version
		for _, r := range m.runs {
			if len(r.run.GetControls()) > 0 {
				for _, s := range SamplesOf(r.run) {
					m.assessed[s] = true
				}
			}
		}
	}
	return m.assessed[sample]
}

// Run returns the run's description, or nil when no marker named it yet.
func (m *Markers) Run(id string) *streampb.Run {
	if r := m.runs[id]; r != nil {
		return r.run
	}
	return nil
}

// Ended reports whether every source has ended the run.
func (m *Markers) Ended(id string) bool {
	r := m.runs[id]
	return r != nil && r.complete()
}

// SamplesOf lists the samples that reads of a run may be of.
func SamplesOf(run *streampb.Run) []string {
	if len(run.GetSamples()) > 0 {
		return run.GetSamples()
	}
	return []string{run.GetSample()}
}

// SampleEnded reports whether every known run of a sample has ended, and that
// there is one.
func (m *Markers) SampleEnded(sample string) bool {
	known := false
	for _, r := range m.runs {
		if !slices.Contains(SamplesOf(r.run), sample) {
			continue
		}
		if !r.complete() {
			return false
		}
		known = true
	}
	return known
}

// RunsOf lists the known runs that reads of a sample may be of, ascending.
func (m *Markers) RunsOf(sample string) []string {
	var ids []string
	for id, r := range m.runs {
		if slices.Contains(SamplesOf(r.run), sample) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Runs lists the known runs, by id.
func (m *Markers) Runs() []*streampb.Run {
	var runs []*streampb.Run
	for _, id := range slices.Sorted(maps.Keys(m.runs)) {
		runs = append(runs, m.runs[id].run)
	}
	return runs
}

// Open lists the runs that have not ended, by id.
func (m *Markers) Open() []*streampb.Run {
	var open []*streampb.Run
	for _, r := range m.runs {
		if !r.complete() {
			open = append(open, r.run)
		}
	}
	sort.Slice(open, func(i, j int) bool { return open[i].GetId() < open[j].GetId() })
	return open
}

// Broadcast makes one copy of a marker for every partition of a topic.
func Broadcast(topic string, partitions int32, mk *streampb.Marker, end bool, value []byte) []Out {
	outs := make([]Out, partitions)
	for p := range outs {
		outs[p] = Out{Topic: topic, Partition: int32(p), Key: MarkerKey(mk, end), Value: value}
	}
	return outs
}

// ReadsMarker encodes a marker for the reads topic.
func ReadsMarker(mk *streampb.Marker, end bool) ([]byte, error) {
	rec := &streampb.ReadRecord{Body: &streampb.ReadRecord_RunStart{RunStart: mk}}
	if end {
		rec.Body = &streampb.ReadRecord_RunEnd{RunEnd: mk}
	}
	return EncodeReads(rec)
}

// CallsMarker encodes a marker for the calls topic.
func CallsMarker(mk *streampb.Marker, end bool) ([]byte, error) {
	rec := &streampb.CallRecord{Body: &streampb.CallRecord_RunStart{RunStart: mk}}
	if end {
		rec.Body = &streampb.CallRecord_RunEnd{RunEnd: mk}
	}
	return EncodeCalls(rec)
}

// WatchMarker encodes a marker for the watch topic, of a writer with the given
// panels.
func WatchMarker(mk *streampb.Marker, end bool, panels string) ([]byte, error) {
	rec := &streampb.WatchRecord{Body: &streampb.WatchRecord_RunStart{RunStart: mk}, Panels: panels}
	if end {
		rec.Body = &streampb.WatchRecord_RunEnd{RunEnd: mk}
	}
	return EncodeWatch(rec)
}

// MethylationEnd encodes the end of a run for the watch topic, of a partition of the methylate stage.
func MethylationEnd(mk *streampb.Marker, panels string) ([]byte, error) {
	return EncodeWatch(&streampb.WatchRecord{Body: &streampb.WatchRecord_MethylationEnd{MethylationEnd: mk}, Panels: panels})
}

// SignalMarker encodes a marker for the signal topic.
func SignalMarker(mk *streampb.Marker, end bool) ([]byte, error) {
	rec := &streampb.SignalRecord{Body: &streampb.SignalRecord_RunStart{RunStart: mk}}
	if end {
		rec.Body = &streampb.SignalRecord_RunEnd{RunEnd: mk}
	}
	return EncodeSignal(rec)
}

// Forward is the marker that partition of partitions sends on for mk's run. Once
// the run has ended, the marker holds how it ended.
func (m *Markers) Forward(mk *streampb.Marker, partition, partitions int32) *streampb.Marker {
	if partition < 0 || partition >= partitions {
		panic(fmt.Sprintf("stream: partition %d of %d", partition, partitions))
	}
	run := mk.GetRun()
	if all := m.Run(run.GetId()).GetControls(); len(all) > 0 { // those that any source names
		run = proto.CloneOf(run)
		run.Controls = all
	}
	return &streampb.Marker{Run: run, Source: uint32(partition), Sources: uint32(partitions), EndStatus: m.EndStatus(run.GetId())}
}

// Missing returns how many sources a run has and lists those that have not ended
// it, ascending.
func (m *Markers) Missing(id string) (sources uint32, missing []uint32) {
	r := m.runs[id]
	if r == nil {
		return 0, nil
	}
	for source := range r.sources {
		if _, ended := r.ended[source]; !ended {
			missing = append(missing, source)
		}
	}
	return r.sources, missing
}

package stage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/porestream/porestream/internal/planted"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// fold is everything that the stage knows of its partition: a function of the
// records, whether what followed from them has been computed or not.
type fold struct {
	markers   stream.Markers
	runs      map[string]*runActivity
	version   uint64 // of runs
	assembler *assembler
}

// runActivity is when something was last heard of a run.
type runActivity struct {
	lastOffset, lastMS int64 // of its newest record
	// active tells that something came after the run's end, or that it has not
	// ended: it has to end some day.
	active bool
}

func newFold(maxSamples, maxBytes int) *fold {
	return &fold{runs: make(map[string]*runActivity), assembler: newAssembler(maxSamples, maxBytes)}
}

// effects are what has to follow from a record, in this order.
type effects struct {
	reads []*assembledRead // to be called and emitted
	// marker is to be passed on, behind everything that came before: the start of a
	// run or, with end, its end.
	marker *streampb.Marker
	end    bool
	// added is what came of a chunk, for the record.
	chunk *streampb.SignalChunk
	added added
}

// apply folds in a record. A bad one (see [stream.IsBadRecord]) leaves no trace
// but its error.
func (f *fold) apply(rec stream.Record) (effects, error) {
	m, err := stream.DecodeSignal(rec.Value)
	if err != nil {
		return effects{}, err
	}
	switch body := m.Body.(type) {
	case *streampb.SignalRecord_RunStart:
		if _, err := f.markers.Start(body.RunStart); err != nil {
			return effects{}, err
		}
		f.heard(body.RunStart.GetRun().GetId(), rec)
		return effects{marker: body.RunStart}, nil
	case *streampb.SignalRecord_RunEnd:
		return f.runEnd(body.RunEnd, rec)
	default:
		return f.addChunk(m.GetChunk(), rec)
	}
}

// heard notes that a record spoke of a run.
func (f *fold) heard(run string, rec stream.Record) {
	r := f.runs[run]
	if r == nil {
		r = new(runActivity)
		f.runs[run] = r
	}
	r.lastOffset, r.lastMS, r.active = rec.Offset, max(r.lastMS, rec.Time.UnixMilli()), true
	f.version++
}

func (f *fold) addChunk(c *streampb.SignalChunk, rec stream.Record) (effects, error) {
	if f.markers.Run(c.GetRun()) == nil {
		return effects{}, refuse(stream.CodeInvalid, "chunk of run %s, whose start marker is not in this partition", c.GetRun())
	}
	res, err := f.assembler.add(c, rec.Time.UnixMilli())
	if err != nil {
		return effects{}, err
	}
	f.heard(c.GetRun(), rec)
	return effects{reads: res.finished, chunk: c, added: res}, nil
}

// runEnd finishes the run's open reads once all sources have ended it. A run
// that was sent again ends again, which lets the reads that came late count.
func (f *fold) runEnd(mk *streampb.Marker, rec stream.Record) (effects, error) {
	id := mk.GetRun().GetId()
	timeout := mk.GetEndStatus() == streampb.EndStatus_END_STATUS_TIMEOUT
	if r := f.runs[id]; timeout && (r == nil || !r.active || r.lastOffset != mk.GetLastOffset()) {
		return effects{}, nil // the run has gone on, or ended, since that was written
	}
	if _, err := f.markers.End(mk); err != nil {
		return effects{}, err
	}
	if !timeout { // several sources may time out with one last record
		f.heard(id, rec)
	}
	if !f.markers.Ended(id) {
		return effects{}, nil
	}
	reads := f.assembler.finishRun(id)
	if r := f.runs[id]; r != nil {
		r.active = false
		f.version++
	}
	e := effects{reads: reads, marker: mk, end: true, added: added{lostEnds: len(reads)}}
	if planted.Is(planted.ForgetRunEnd) {
		e.marker = nil
	}
	return e, nil
}

// idle lists the end markers that are due, because nothing was heard of a run for
// so long: in order of the runs' ids, one for each source that has not ended its
// run. A run that came back after its end has one.
func (f *fold) idle(nowMS, timeoutMS int64) []*streampb.Marker {
	var ids []string
	for id, r := range f.runs {
		if r.active && nowMS-r.lastMS > timeoutMS {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, strings.Compare)
	var due []*streampb.Marker
	for _, id := range ids {
		sources, missing := f.markers.Missing(id)
		if len(missing) == 0 {
			missing = []uint32{0}
		}
		for _, source := range missing {
			due = append(due, &streampb.Marker{
				Run: f.markers.Run(id), Source: source, Sources: sources,
				EndStatus: streampb.EndStatus_END_STATUS_TIMEOUT, LastOffset: f.runs[id].lastOffset,
			})
		}
	}
	return due
}

// fingerprint is what the state depends on besides the records.
func (f *fold) fingerprint(model string) string {
	return fmt.Sprintf("model=%s max-read-samples=%d max-open-bytes=%d", model, f.assembler.maxSamples, f.assembler.maxBytes)
}

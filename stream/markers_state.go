package stream

import (
	"fmt"
	"math"
	"slices"

	"github.com/porestream/porestream/stream/packed"
	"github.com/porestream/porestream/stream/streampb"
)

// MarkersSection is the name of the section that a stage keeps its [Markers] in.
const MarkersSection = "markers"

// markersVersion is the newest encoding of Markers; see STATE.md.
const markersVersion = 1

// maxMarkedRuns bounds the runs of one state, so that a few bytes can't make a
// reader hold much.
const maxMarkedRuns = 1 << 20

// Version changes whenever what AppendState writes may have.
func (m *Markers) Version() uint64 { return m.version }

// AppendState appends what the markers so far say, as STATE.md describes.
func (m *Markers) AppendState(b []byte) ([]byte, error) {
	ids := make([]string, 0, len(m.runs))
	for id := range m.runs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	b = packed.AppendLen(append(b, markersVersion), len(ids))
	for _, id := range ids {
		r := m.runs[id]
		var err error
		if b, err = packed.AppendMessage(b, r.run); err != nil {
			return nil, fmt.Errorf("encoding the markers of run %s: %w", id, err)
		}
		b = packed.AppendUint(b, r.sources)
		ended := make([]uint32, 0, len(r.ended))
		for source := range r.ended {
			ended = append(ended, source)
		}
		slices.Sort(ended)
		b = packed.AppendLen(b, len(ended))
		next := uint32(0)
		for _, source := range ended {
			b = packed.AppendUint(b, source-next)
			b = packed.AppendUint(b, uint32(r.ended[source]))
			next = source + 1
		}
	}
	return b, nil
}

// RestoreState makes m what it was when AppendState wrote b. After an error m is
// what it was before.
func (m *Markers) RestoreState(b []byte) error {
	in := packed.NewReader(b)
	in.Version(markersVersion)
	n := min(in.Count(1), maxMarkedRuns)
	runs := make(map[string]*runMarkers)
	last := ""
	for i := 0; i < n && in.Err() == nil; i++ {
		r := restoreRun(in)
		id := r.run.GetId()
		if i > 0 && id <= last {
			in.Fail("run %q behind run %q", id, last)
		}
		runs[id], last = r, id
	}
	if err := in.Done(); err != nil {
		return fmt.Errorf("restoring markers: %w", err)
	}
	m.runs = runs
	m.version++
	return nil
}

func restoreRun(in *packed.Reader) *runMarkers {
	r := &runMarkers{run: new(streampb.Run), ended: make(map[uint32]streampb.EndStatus)}
	in.Message(r.run)
	if in.Err() == nil {
		if err := validRun(r.run); err != nil {
			in.Fail("%w", err)
		}
	}
	r.sources = uint32(in.Uint(maxSources))
	ended := in.Count(2)
	next := uint64(0)
	for range ended {
		source := next + in.Uint(maxSources)
		if source >= uint64(r.sources) {
			in.Fail("run %s: the end of source %d of %d", r.run.GetId(), source, r.sources)
			break
		}
		status := streampb.EndStatus(in.Uint(math.MaxInt32))
		if status == streampb.EndStatus_END_STATUS_UNSPECIFIED {
			in.Fail("run %s: source %d ended without a status", r.run.GetId(), source)
			break
		}
		r.ended[uint32(source)] = status
		next = source + 1
	}
	if r.sources == 0 {
		in.Fail("run %s has no sources", r.run.GetId())
	}
	return r
}

package processor

import (
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant/carryover"
)

// NamedControls are the controls of runs by the flags and the sample sheet of a process.
type NamedControls struct {
	Flags  *Controls
	Sheet  *demux.Sheet // nil: none
	Path   string       // of the sheet
	Logger *slog.Logger

	mu   sync.Mutex
	said map[string]bool // runs of which it was said that their controls aren't known
}

// Named are the controls of a run as they are called, a barcode for the sample of it, together with those that the run comes with.
func (n *NamedControls) Named(run *streampb.Run) []*streampb.Control {
	named, err := n.of(run)
	if err != nil {
		n.refuse(run, err, len(run.GetControls()) > 0)
		return run.GetControls()
	}
	return listed(named)
}

// OfSamples are the controls of a run among its samples, which are known. If one that is named isn't among them, which is logged, they are those that the run comes with, which others
// name, or none if that one is one of these.
func (n *NamedControls) OfSamples(run *streampb.Run) []*streampb.Control {
	named, err := n.of(run)
	if err == nil && len(named) > 0 {
		named, err = named.Among(stream.SamplesOf(run), "run "+run.GetId())
	}
	if err != nil {
		come, wrong := controlsOf(run).Among(stream.SamplesOf(run), "run "+run.GetId())
		if wrong != nil {
			come = nil
		}
		n.refuse(run, err, len(come) > 0)
		return listed(come)
	}
	return listed(named)
}

// controlsOf are the controls that a run comes with.
func controlsOf(run *streampb.Run) carryover.Controls {
	controls := make(carryover.Controls)
	for _, c := range run.GetControls() {
		controls[c.GetSample()] = carryover.Kind(c.GetKind())
	}
	return controls
}

func (n *NamedControls) of(run *streampb.Run) (carryover.Controls, error) {
	named, err := n.Flags.Of(n.Sheet, n.Path, &demux.RunKey{ID: run.GetId(), FlowCell: run.GetFlowCell(), Position: run.GetPosition()})
	if err != nil {
		return nil, err
	}
	for name, kind := range controlsOf(run) {
		if _, known := named[name]; !known {
			named[name] = kind
		}
	}
	return named, nil
}

// refuse logs, once, that a run goes on without controls, or with those alone that it comes with.
func (n *NamedControls) refuse(run *streampb.Run, err error, come bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.said[run.GetId()] {
		return
	}
	if n.said == nil {
		n.said = make(map[string]bool)
	}
	n.said[run.GetId()] = true
	if come {
		n.Logger.Warn("carry-over of a run is assessed by the controls alone that it comes with", "err", err)
		return
	}
	n.Logger.Warn("carry-over of a run isn't assessed", "err", err)
}

// listed are controls as a run has them.
func listed(controls carryover.Controls) []*streampb.Control {
	var list []*streampb.Control
	for _, name := range slices.Sorted(maps.Keys(controls)) {
		list = append(list, &streampb.Control{Sample: name, Kind: string(controls[name])})
	}
	return list
}

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
		n.refuse(run, err)
		return run.GetControls()
	}
	return listed(named)
}

// OfSamples are the controls of a run among its samples, which are known. None: none are named, or one that is isn't among them, which is logged.
func (n *NamedControls) OfSamples(run *streampb.Run) []*streampb.Control {
	named, err := n.of(run)
	if err == nil && len(named) > 0 {
		named, err = named.Among(stream.SamplesOf(run), "run "+run.GetId())
	}
	if err != nil {
		n.refuse(run, err)
		return nil
	}
	return listed(named)
}

func (n *NamedControls) of(run *streampb.Run) (carryover.Controls, error) {
	named, err := n.Flags.Of(n.Sheet, n.Path, &demux.RunKey{ID: run.GetId(), FlowCell: run.GetFlowCell(), Position: run.GetPosition()})
	if err != nil {
		return nil, err
	}
	for _, c := range run.GetControls() {
		if _, known := named[c.GetSample()]; !known {
			named[c.GetSample()] = carryover.Kind(c.GetKind())
		}
	}
	return named, nil
}

// refuse logs, once, that a run goes on without controls.
func (n *NamedControls) refuse(run *streampb.Run, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.said[run.GetId()] {
		return
	}
	if n.said == nil {
		n.said = make(map[string]bool)
	}
	n.said[run.GetId()] = true
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

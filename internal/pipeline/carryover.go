package pipeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant/carryover"
)

// Carried is what carry-over came to between the samples of the runs.
type Carried struct {
	// Controls are the controls and their kinds, by sample.
	Controls carryover.Controls `json:"controls"`
	// Samples are the others that have calls.
	Samples map[string]carryover.Summary `json:"samples"`
	// Silent are controls of which no read lies at any allele: clean ones, or barcodes of which nothing was sequenced. They bound nothing.
	Silent []string `json:"silent,omitempty"`
	// Unassessed are runs of which nothing is said, as their samples are called with too many alleles.
	Unassessed []string `json:"not_assessed,omitempty"`
	// Doubted counts answers of panels that carry-over made doubtful.
	Doubted int `json:"doubted,omitempty"`
}

// Warnings says what a reader of the results must know of the controls, a line each.
func (c *Carried) Warnings() []string {
	if c == nil {
		return nil
	}
	var lines []string
	for _, name := range c.Silent {
		lines = append(lines, carryover.SilentWarning(name, c.Controls[name]))
	}
	for _, run := range c.Unassessed {
		lines = append(lines, fmt.Sprintf("carry-over of run %s is not assessed, and no allele marked: its samples are called with too many alleles (docs/files/carryover.md); pore carryover marks their files", run))
	}
	var marked, unbounded int
	for _, s := range c.Samples {
		marked, unbounded = marked+s.Marked, unbounded+s.Unbounded
	}
	if marked > 0 {
		lines = append(lines, fmt.Sprintf("%d alleles of samples are explained by carry-over and marked CarryOver", marked))
	}
	if unbounded > 0 {
		lines = append(lines, fmt.Sprintf("%d alleles are not bounded by the controls, which have no reads there, or none at all, or have the alleles themselves", unbounded))
	}
	return lines
}

// controls are the controls of each run, and an error if one is none of its samples.
func (r *run) controls(runs []*streampb.Run) (map[string]carryover.Controls, error) {
	sheet, path := sheetOf(r.cfg, r.engines)
	named := make(map[string]carryover.Controls)
	var first error
	for _, run := range runs {
		controls, err := r.cfg.Controls.Of(sheet, path, &demux.RunKey{ID: run.GetId(), FlowCell: run.GetFlowCell(), Position: run.GetPosition()})
		if err != nil {
			return nil, err
		}
		if len(controls) == 0 {
			continue
		}
		controls, err = controls.Among(stream.SamplesOf(run), "run "+run.GetId())
		if err != nil {
			first = cmp.Or(first, err)
			continue // it may be another run's
		}
		named[run.GetId()] = controls
	}
	if len(named) == 0 {
		return nil, first
	}
	return named, nil
}

// carryOver sums up what events and alerts say of carry-over. nil: no run has controls.
func (r *run) carryOver(fold *Fold, alerts *AlertFold, runs []*streampb.Run) (*Carried, error) {
	controls, err := r.controls(runs)
	if err != nil || len(controls) == 0 {
		return nil, err
	}
	out := &Carried{Controls: make(carryover.Controls), Samples: make(map[string]carryover.Summary), Silent: r.regions.SilentControls()}
	for _, own := range controls {
		maps.Copy(out.Controls, own)
	}
	for _, v := range fold.latest {
		if v.Status == streampb.CallStatus_RETRACTED.String() || v.Call.CarryOver == nil {
			continue
		}
		s := out.Samples[v.Sample]
		s.Add(*assessmentOf(v))
		out.Samples[v.Sample] = s
	}
	out.Unassessed = unassessed(fold, runs, controls)
	if alerts != nil {
		for _, a := range alerts.latest {
			if a.CarryOver != nil {
				out.Doubted++
			}
		}
	}
	return out, nil
}

// unassessed are the runs with controls of whose samples a final allele was not assessed.
func unassessed(fold *Fold, runs []*streampb.Run, controls map[string]carryover.Controls) (list []string) {
	without := make(map[string]bool) // samples
	for _, v := range fold.latest {
		if v.Status == streampb.CallStatus_FINAL.String() && v.Call.CarryOver == nil {
			without[v.Sample] = true
		}
	}
	for _, run := range runs {
		own := controls[run.GetId()]
		if own != nil && slices.ContainsFunc(stream.SamplesOf(run), func(sample string) bool {
			_, control := own[sample]
			return !control && without[sample]
		}) {
			list = append(list, run.GetId())
		}
	}
	slices.Sort(list)
	return list
}

// assessmentOf is the assessment within an event; nil: there is none.
func assessmentOf(v *event.Variant) *carryover.Assessment {
	c := v.Call.CarryOver
	if c == nil {
		return nil
	}
	j := &carryover.Assessment{
		Explained: c.Explained, Basis: carryover.Basis(c.Basis), Control: c.Control, Reads: carryover.Reads{Alt: int(c.ControlAlt), Depth: int(c.ControlDepth)},
	}
	if c.Share != nil {
		j.Share = *c.Share
	}
	return j
}

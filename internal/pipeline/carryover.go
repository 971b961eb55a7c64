package pipeline

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/carryover"
	"github.com/porestream/porestream/vrs"
	"github.com/porestream/porestream/watchlist"
)

// Carried is what carry-over came to between the samples of the runs.
type Carried struct {
	// Controls are the controls and their kinds, by sample.
	Controls carryover.Controls `json:"controls"`
	// Samples are the others that have calls.
	Samples map[string]carryover.Summary `json:"samples"`
	// Silent are controls of which no read lies at any allele: a clean control, or a barcode that nothing was sequenced of.
	Silent []string `json:"silent,omitempty"`
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
	var marked, unbounded int
	for _, s := range c.Samples {
		marked, unbounded = marked+s.Marked, unbounded+s.Unbounded
	}
	if marked > 0 {
		lines = append(lines, fmt.Sprintf("%d alleles of samples are explained by carry-over and marked CarryOver", marked))
	}
	if unbounded > 0 {
		lines = append(lines, fmt.Sprintf("%d alleles are not bounded by the controls, which have no reads there or have the alleles themselves", unbounded))
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

// carryOver marks the alleles of a fold, and the answers of panels, that carry-over explains, run by run, while the regions with their reads are still held.
// An allele of a sample of several runs is as doubtful as in the run in which it is the most. nil: no run has controls.
func (r *run) carryOver(fold *Fold, alerts *AlertFold, runs []*streampb.Run) (*Carried, error) {
	controls, err := r.controls(runs)
	if err != nil || len(controls) == 0 {
		return nil, err
	}
	out := &Carried{Controls: make(carryover.Controls), Samples: make(map[string]carryover.Summary)}
	worst := make(map[string]*carryover.Assessment) // by key of the event
	for _, run := range runs {
		own := controls[run.GetId()]
		if len(own) == 0 {
			continue
		}
		maps.Copy(out.Controls, own)
		table := carryover.NewTable(own, stream.SamplesOf(run))
		var evaluated []string
		for _, key := range slices.Sorted(maps.Keys(fold.latest)) {
			if v := fold.latest[key]; v.Status != streampb.CallStatus_RETRACTED.String() && table.Assesses(v.Sample) {
				table.Add(v.Allele.Contig, editOf(v))
				evaluated = append(evaluated, key)
			}
		}
		for contig, list := range table.Alleles() {
			for sample, counts := range r.regions.Support(contig, list) {
				table.Count(sample, contig, 0, readsOf(counts))
			}
		}
		for _, key := range evaluated {
			v := fold.latest[key]
			j := table.Assess(v.Sample, v.Allele.Contig, editOf(v))
			if old := worst[key]; old == nil || j.Explained && !old.Explained || j.Explained == old.Explained && j.Share > old.Share {
				worst[key] = j
			}
		}
		out.Silent = append(out.Silent, table.Silent()...)
	}
	slices.Sort(out.Silent)
	out.Silent = slices.Compact(out.Silent)
	marked := make(map[string][]*event.Variant) // by sample
	for _, key := range slices.Sorted(maps.Keys(worst)) {
		v := withCarryOver(fold.latest[key], worst[key])
		fold.latest[key] = v
		s := out.Samples[v.Sample]
		s.Add(*worst[key])
		out.Samples[v.Sample] = s
		if v.Call.CarryOver.Explained {
			marked[v.Sample] = append(marked[v.Sample], v)
		}
	}
	if alerts != nil {
		out.Doubted = alerts.doubt(marked)
	}
	return out, nil
}

func editOf(v *event.Variant) vrs.Edit {
	return vrs.Edit{Start: int(v.Allele.Pos) - 1, Ref: v.Allele.Ref, Alt: v.Allele.Alt}
}

func readsOf(counts []variant.Support) []carryover.Reads {
	reads := make([]carryover.Reads, len(counts))
	for i, c := range counts {
		reads[i] = carryover.Reads{Alt: c.Shows, Depth: c.Depth, Left: c.Left}
	}
	return reads
}

// withCarryOver is a copy of an event that holds its carry-over assessment.
func withCarryOver(v *event.Variant, j *carryover.Assessment) *event.Variant {
	marked := *v
	marked.Call.CarryOver = &event.CarryOver{
		Explained: j.Explained, Basis: string(j.Basis), Control: j.Control, ControlAlt: uint32(j.Alt), ControlDepth: uint32(j.Depth),
	}
	if j.Bounded() {
		marked.Call.CarryOver.Share = &j.Share
	}
	if j.Explained {
		marked.Call.Filters = append(slices.Clone(v.Call.Filters), carryover.Filter)
	}
	return &marked
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

// doubt makes answers doubtful that go by alleles which carry-over explains, by sample, and counts them: DETECTED becomes SUSPECTED if all alleles that it
// goes by are, and a model's answer NOT_CALLABLE if a feature is that drives it.
func (f *AlertFold) doubt(marked map[string][]*event.Variant) int {
	doubted := 0
	for key, a := range f.latest {
		if next := doubtful(a, marked[a.Sample]); next != nil {
			f.latest[key] = next
			doubted++
		}
	}
	return doubted
}

// doubtful is the alert that an alert becomes by what is marked in its sample; nil: it stays.
func doubtful(a *watchlist.Alert, marked []*event.Variant) *watchlist.Alert {
	byID := make(map[string]*event.Variant)
	for _, v := range marked {
		byID[v.Allele.VRSID] = v
	}
	next := *a
	switch a.State {
	case watchlist.Detected:
		rests := detectedAlleles(a)
		if len(rests) == 0 || a.AlleleCount > len(a.Alleles) || slices.ContainsFunc(rests, func(id string) bool { return byID[id] == nil }) {
			return nil
		}
		next.Alleles = slices.Clone(a.Alleles)
		for i := range next.Alleles {
			if byID[next.Alleles[i].VRSID] != nil && next.Alleles[i].State == watchlist.Detected {
				next.Alleles[i].State = watchlist.Suspected
			}
		}
		next.State = watchlist.Suspected
		next.CarryOver = byID[rests[0]].Call.CarryOver
		next.Reason = reasonOf(byID[rests[0]], len(rests))
	case watchlist.Resistant, watchlist.Intermediate, watchlist.Classified:
		if a.Model == nil {
			return nil
		}
		for _, d := range a.Model.Drivers {
			for _, v := range marked {
				if d.Effect > 0 && drives(d.Feature, v) {
					next.State, next.CarryOver = watchlist.NotCallable, v.Call.CarryOver
					next.Reason = fmt.Sprintf("%s drives the model's answer %s: %s", d.Feature, a.Answer(), reasonOf(v, 1))
					return &next
				}
			}
		}
		return nil
	default:
		return nil
	}
	return &next
}

// detectedAlleles are the ids of the alleles that a DETECTED alert goes by.
func detectedAlleles(a *watchlist.Alert) []string {
	var ids []string
	for _, s := range a.Alleles {
		if s.State == watchlist.Detected {
			ids = append(ids, s.VRSID)
		}
	}
	if len(ids) == 0 && a.Allele != nil {
		ids = append(ids, a.Allele.VRSID)
	}
	return ids
}

func reasonOf(v *event.Variant, alleles int) string {
	what := fmt.Sprintf("carry-over explains %s:%d %s>%s", v.Allele.Contig, v.Allele.Pos, v.Allele.Ref, v.Allele.Alt)
	if alleles > 1 {
		what += fmt.Sprintf(" and %d more", alleles-1)
	}
	return what + ": " + assessmentOf(v).String()
}

var (
	featureCodon = regexp.MustCompile(`^(.+):[^:0-9]*([0-9]+)[^:]*$`)
	proteinCodon = regexp.MustCompile(`p\.\(?[A-Za-z*]+([0-9]+)(?:_[A-Za-z*]+([0-9]+))?`)
)

// drives reports whether an allele is what makes a model's feature present: GENE:M184V, by gene and codon, or an allele by its place.
func drives(feature string, v *event.Variant) bool {
	if feature == fmt.Sprintf("%s:%d:%s:%s", v.Allele.Contig, v.Allele.Pos, v.Allele.Ref, v.Allele.Alt) || feature == v.Allele.VRSID {
		return true
	}
	m := featureCodon.FindStringSubmatch(feature)
	if m == nil {
		return false
	}
	return slices.ContainsFunc(v.Annotation.Consequences, func(c annotate.Consequence) bool {
		if c.Gene == nil || !strings.EqualFold(c.Gene.Symbol, m[1]) && c.Gene.ID != m[1] {
			return false
		}
		codon := proteinCodon.FindStringSubmatch(c.HGVSp)
		return codon != nil && (codon[1] == m[2] || codon[2] == m[2])
	})
}

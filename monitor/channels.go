package monitor

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/porestream/porestream/stream/streampb"
)

// cell is the newest report about the channels of a run.
type cell struct {
	instance string
	sequence uint64
	at       int64 // Unix milliseconds
	report   *streampb.ChannelReport
}

func (v *View) addChannels(m *streampb.Status, report *streampb.ChannelReport) {
	id := report.GetRun()
	known := v.cells[id]
	if known != nil && cmp.Or(cmp.Compare(known.at, m.GetTimeMs()), cmp.Compare(known.instance, m.GetInstance()), cmp.Compare(known.sequence, m.GetSequence())) >= 0 {
		return
	}
	if known == nil && len(v.cells) >= v.limits.FlowCells {
		oldest := ""
		for id, c := range v.cells {
			if o := v.cells[oldest]; o == nil || c.at < o.at || c.at == o.at && id < oldest {
				oldest = id
			}
		}
		v.leftOut["channels"]++
		if v.cells[oldest].at > m.GetTimeMs() {
			return
		}
		delete(v.cells, oldest)
	}
	v.cells[id] = &cell{instance: m.GetInstance(), sequence: m.GetSequence(), at: m.GetTimeMs(), report: report}
	if known == nil || string(known.report.GetStates()) != string(report.GetStates()) || known.report.GetEnded() != report.GetEnded() || known.report.GetSequencer() != report.GetSequencer() {
		v.unsent.channels = true
	}
}

// Geometries of flow cells.
const (
	layoutMinION     = "minion"
	layoutPromethION = "promethion"
	layoutFlongle    = "flongle"
	layoutGrid       = "grid"
)

// layoutOf is how the channels of a flow cell lie. The product is believed if the
// channels fit it; without one the number of channels decides.
func layoutOf(product string, channels int) (layout string, columns, rows, count int) {
	product = strings.ToUpper(product)
	switch {
	case strings.HasPrefix(product, "FLO-FLG") && channels <= 126, product == "" && channels > 0 && channels <= 126 && channels > 100:
		return layoutFlongle, 13, 10, 126
	case strings.HasPrefix(product, "FLO-PRO") && channels <= 3000, channels > 512 && channels <= 3000:
		return layoutPromethION, 120, 25, 3000
	case channels <= 512:
		return layoutMinION, 32, 16, 512
	}
	columns = 100
	return layoutGrid, columns, (channels + columns - 1) / columns, channels
}

// flowCells are those to show: of each position the newest run.
func (v *View) flowCells() []FlowCell {
	newest := make(map[string]FlowCell)
	for id, c := range v.cells {
		about := &streampb.Run{}
		if r := v.runs[id]; r != nil {
			about = r.about
		}
		states := c.report.GetStates()
		f := FlowCell{
			ID: id, Source: c.report.GetSource(), Position: cmp.Or(about.GetPosition(), about.GetDevice()), FlowCell: about.GetFlowCell(), Run: id,
			Updated: time.UnixMilli(c.at).UTC(), Legend: ChannelLegend(), Origin: OriginSignal,
		}
		if c.report.GetSequencer() {
			f.Origin = OriginSequencer
		}
		f.Layout, f.Columns, f.Rows, f.Count = layoutOf(about.GetFlowCellProduct(), len(states))
		letters := make([]byte, f.Count)
		for i := range letters {
			switch {
			case i >= len(states) || c.report.GetEnded():
				letters[i] = ChannelInactive
			case f.Legend[string(states[i])] == "":
				letters[i] = ChannelUnknown // a newer ingest knows more states
			default:
				letters[i] = states[i]
			}
		}
		f.States = string(letters)
		place := f.Source + "\x00" + f.Position
		if f.Position == "" {
			place = "\x00" + id
		}
		if o, is := newest[place]; !is || f.Updated.After(o.Updated) || f.Updated.Equal(o.Updated) && f.ID > o.ID {
			newest[place] = f
		}
	}
	list := make([]FlowCell, 0, len(newest))
	for _, f := range newest {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b FlowCell) int { return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.ID, b.ID)) })
	return list
}

package stage

import (
	"fmt"

	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Watch says what the stage passes on to the watch stage.
type Watch struct {
	// Partitions is the number of partitions of the watch topic.
	Partitions int32
	// Panels is the fingerprint of the panels behind Asked.
	Panels string
	// Asked are the parts of a stretch of a contig that rules ask a modification of, 0-based, half open, ascending and apart.
	Asked func(contig, code string, start, end int) [][2]int
}

// watch returns the watch stage's record of a revision; none, if no rule asks for the stretch. A stretch that has lost its calls is passed
// on, too.
func (h *handler) watch(s *methylation.Stretch) ([]stream.Out, error) {
	w := h.cfg.Watch
	if w == nil {
		return nil, nil
	}
	start, end := int(s.Stretch.Pos)-1, int(s.Stretch.End)
	spans := w.Asked(s.Stretch.Contig, s.Code, start, end)
	if len(spans) == 0 {
		return nil, nil
	}
	m := &streampb.Methylation{
		Run: s.Run, Sample: s.Sample, Contig: s.Stretch.Contig, Start: int64(start), End: int64(end), Code: s.Code, Revision: s.Revision,
	}
	for i, pos := range s.Sites.Pos {
		at := pos - 1
		for len(spans) > 0 && spans[0][1] <= at {
			spans = spans[1:]
		}
		if len(spans) == 0 {
			break
		}
		if at < spans[0][0] {
			continue
		}
		place := uint32(2 * (at - start))
		if s.Sites.Strands[i] == '-' {
			place++
		}
		modified := s.Sites.Modified[i]
		m.Places = append(m.Places, place)
		m.Modified = append(m.Modified, uint32(modified))
		m.Calls = append(m.Calls, uint32(modified+s.Sites.Canonical[i]+s.Sites.Other[i]))
	}
	value, err := stream.EncodeWatch(&streampb.WatchRecord{Body: &streampb.WatchRecord_Methylation{Methylation: m}, Panels: w.Panels})
	if err != nil {
		return nil, fmt.Errorf("passing counts of modified bases on to panels: %w", err)
	}
	return []stream.Out{{Topic: h.cfg.Topics.Watch, Partition: stream.AnyPartition, Key: []byte(s.Sample), Value: value}}, nil
}

// watchEnd announces to every partition of the watch topic that this one has nothing more of a run.
func (h *handler) watchEnd(own *streampb.Marker) ([]stream.Out, error) {
	w := h.cfg.Watch
	if w == nil {
		return nil, nil
	}
	value, err := stream.MethylationEnd(own, w.Panels)
	if err != nil {
		return nil, err
	}
	return stream.Broadcast(h.cfg.Topics.Watch, w.Partitions, own, true, value), nil
}

package stage

import (
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Watch says what the stage passes on to the watch stage.
type Watch struct {
	// Partitions is the number of partitions of the watch topic.
	Partitions int32
	// Panels is the fingerprint of the panels behind Concerns.
	Panels string
	// Concerns reports whether a variant concerns a rule.
	Concerns func(*event.Variant) bool
}

// watchVariant returns the watch stage's record of a variant, whose document
// is given.
func (h *handler) watchVariant(v *event.Variant, document []byte) ([]stream.Out, error) {
	w := h.cfg.Watch
	if w == nil || !w.Concerns(v) {
		return nil, nil
	}
	return h.watchRecord(v.Sample, &streampb.WatchRecord{Body: &streampb.WatchRecord_Variant{Variant: document}, Panels: w.Panels})
}

// watchCoverage passes coverage on.
func (h *handler) watchCoverage(c *streampb.Coverage) ([]stream.Out, error) {
	w := h.cfg.Watch
	if w == nil {
		if !h.unwatched {
			h.unwatched = true
			h.log.Warn("coverage of panels' targets is dropped: this process has no --panel", "panels", c.GetPanels())
		}
		return nil, nil
	}
	return h.watchRecord(c.GetSample(), &streampb.WatchRecord{Body: &streampb.WatchRecord_Coverage{Coverage: c}, Panels: w.Panels})
}

// watchMarker announces to every partition of the watch topic that this one has
// begun or ended a run.
func (h *handler) watchMarker(mk *streampb.Marker, end bool) ([]stream.Out, error) {
	w := h.cfg.Watch
	if w == nil {
		return nil, nil
	}
	own := h.markers.Forward(mk, h.partition, h.partitions)
	value, err := stream.WatchMarker(own, end, w.Panels)
	if err != nil {
		return nil, err
	}
	return stream.Broadcast(h.cfg.Topics.Watch, w.Partitions, own, end, value), nil
}

func (h *handler) watchRecord(sample string, rec *streampb.WatchRecord) ([]stream.Out, error) {
	value, err := stream.EncodeWatch(rec)
	if err != nil {
		return nil, err
	}
	return []stream.Out{{Topic: h.cfg.Topics.Watch, Partition: stream.AnyPartition, Key: []byte(sample), Value: value}}, nil
}

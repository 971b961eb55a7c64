package stage

import (
	"fmt"
	"slices"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/packed"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// modelsSection is the section of the names of basecalling models. Without one there is none.
const modelsSection = "models"

// modelsVersion is the newest version of that section.
const modelsVersion = 1

// maxModels bounds the names of a partition. A sender of more than that doesn't send names of
// models.
const maxModels = 4096

// model takes the name of a basecalling model.
func (h *handler) model(m *streampb.ModelName) error {
	if h.basecallers.Len() >= maxModels && !h.basecallers.Has(m.GetNumber()) {
		return &stream.DecodeError{Code: stream.CodeInvalid, Reason: fmt.Sprintf("basecalling model %q is one too many: %d have been named here", m.GetName(), maxModels)}
	}
	if err := h.refuse(m.GetName()); err != nil {
		return err
	}
	if h.basecallers.Has(m.GetNumber()) {
		return nil
	}
	h.basecallers.Add(m.GetName())
	h.modelsVersion++
	return nil
}

// refuse is the error of reads of a live record that may not be called from.
func (h *handler) refuse(name string) error {
	if !h.cfg.Strict || h.replayed {
		return nil
	}
	if err := h.basecallers.Refuse(name); err != nil {
		return &stream.Permanent{Err: err}
	}
	return nil
}

// appendModels writes the names.
func (h *handler) appendModels(b []byte) []byte {
	return packed.AppendStrings(append(b, modelsVersion), h.basecallers.Names())
}

// restoreModels reads what appendModels wrote.
func (h *handler) restoreModels(b []byte) error {
	in := packed.NewReader(b)
	in.Version(modelsVersion)
	last := ""
	for range in.Count(2) {
		name := in.String(maxName)
		if in.Err() == nil && (name <= last || !stream.ModelNameable(name)) {
			in.Fail("basecalling model %q behind %q", name, last)
		}
		if in.Err() != nil {
			break
		}
		h.basecallers.Add(name)
		last = name
	}
	return in.Done()
}

// ModelReads is the basecalling models of reads, as reports have them.
func ModelReads(list []variant.ModelReads) []*streampb.ModelReads {
	if len(list) > stream.MaxRegionModels {
		slices.SortStableFunc(list, func(a, b variant.ModelReads) int { return int(b.Reads) - int(a.Reads) })
		list = list[:stream.MaxRegionModels]
	}
	out := make([]*streampb.ModelReads, len(list))
	for i, m := range list {
		out[i] = &streampb.ModelReads{Name: m.Name, Reads: m.Reads, Mismatch: m.Match == variant.Mismatched}
	}
	return out
}

// Models are how many reads of each sample each basecalling model has called, over the
// regions that are held here, by name.
func (rs *Regions) Models() map[string][]*streampb.ModelReads {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	all := make(map[string][]*streampb.ModelReads)
	for h := range rs.handlers {
		h.mu.Lock()
		for key, r := range h.regions {
			all[key.sample] = stream.AddModelReads(all[key.sample], ModelReads(r.Models())...)
		}
		h.mu.Unlock()
	}
	return all
}

package stage

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/watchlist"
)

const (
	// stateVersion counts changes of what the sections are; stream/STATE.md
	// describes them.
	stateVersion = 1

	maxSectionName = 512

	// methylationSection is the run markers of the methylate stage.
	methylationSection = "methylation"
	// beforeSection is those of runs that ended under other panels.
	beforeSection = "before"
)

// fingerprint is a hash over what the state depends on besides records. How many
// partitions there are decides which samples are answered here.
func (c *Config) fingerprint(partitions int32) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "watch %d %q %q %d", watchlist.Version, c.Panels, c.Genes, partitions))
	return hex.EncodeToString(sum[:])
}

// Format describes the inputs that the state depends on.
func (h *handler) Format() stream.StateFormat {
	return stream.StateFormat{Stage: Name, Version: stateVersion, Fingerprint: h.fingerprint}
}

// Sections lists the markers and each sample.
func (h *handler) Sections() []stream.Section {
	list := []stream.Section{{Name: stream.MarkersSection, Version: h.markers.Version()}}
	if h.cfg.Watch.AsksMethylation() != "" {
		list = append(list, stream.Section{Name: methylationSection, Version: h.methylation.Version()}, stream.Section{Name: beforeSection, Version: h.before.Version()})
	}
	for name, t := range h.sections {
		list = append(list, stream.Section{Name: name, Version: t.Version()})
	}
	slices.SortFunc(list, func(a, b stream.Section) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// AppendSection appends one of them.
func (h *handler) AppendSection(b []byte, name string) ([]byte, error) {
	switch name {
	case stream.MarkersSection:
		return h.markers.AppendState(b)
	case methylationSection:
		return h.methylation.AppendState(b)
	case beforeSection:
		return h.before.AppendState(b)
	}
	t := h.sections[name]
	if t == nil {
		return nil, fmt.Errorf("section %q is not one of this state", name)
	}
	return t.AppendState(b)
}

// RestoreSection takes one of them.
func (h *handler) RestoreSection(name string, b []byte) error {
	switch name {
	case stream.MarkersSection:
		return h.markers.RestoreState(b)
	case methylationSection:
		return h.methylation.RestoreState(b)
	case beforeSection:
		return h.before.RestoreState(b)
	}
	t, err := h.cfg.Watch.RestoreTracker(b)
	if err != nil {
		return fmt.Errorf("restoring section %q: %w", name, err)
	}
	if h.trackers[t.Sample()] != nil {
		return fmt.Errorf("restoring section %q: sample %q comes twice", name, t.Sample())
	}
	h.take(t)
	return nil
}

// section names the section of a sample.
func section(sample string) string {
	return stream.SectionName("sample/", url.PathEscape(sample), maxSectionName)
}

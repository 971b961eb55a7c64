package stage

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/packed"
	"github.com/porestream/porestream/variant"
)

// stateVersion counts changes of what the sections are; each has a version of
// its own besides. stream/STATE.md describes them.
const stateVersion = 2

// regionVersion is the newest version of what precedes a region's part in its
// section.
const regionVersion = 1

// maxName bounds names of samples and contigs, as records do.
const maxName = 512

// maxSectionName leaves space for the number of a batch within what a snapshot allows.
const maxSectionName = 480

// fingerprint is a hash over what the state depends on besides records.
func (c *Config) fingerprint() string {
	h := sha256.New()
	line := func(format string, args ...any) { fmt.Fprintf(h, format+"\n", args...) }
	line("%s", c.Variant.Fingerprint())
	if c.FindMotifs {
		line("motifs of methylate")
	}
	if c.Haplotypes {
		line("haplotypes for methylate")
	}
	for _, contig := range c.Genome.Contigs {
		line("contig %q %s", contig.Name, contig.Digest())
	}
	for _, contig := range slices.Sorted(maps.Keys(c.Targets)) {
		spans := slices.SortedFunc(slices.Values(c.Targets[contig].Spans), func(a, b variant.Span) int {
			return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
		})
		named := slices.SortedFunc(slices.Values(c.Targets[contig].Named), func(a, b variant.Named) int {
			return cmp.Or(cmp.Compare(a.Pos, b.Pos), cmp.Compare(a.Name, b.Name))
		})
		line("target %q %v %q", contig, spans, fmt.Sprint(named))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Format says what the state depends on.
func (h *handler) Format() stream.StateFormat {
	return stream.StateFormat{Stage: Name, Version: stateVersion, Fingerprint: h.fingerprint}
}

// Sections lists the markers, and the state and the batches of reads of each
// region.
func (h *handler) Sections() []stream.Section {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := []stream.Section{{Name: stream.MarkersSection, Version: h.markers.Version()}}
	if h.basecallers.Len() > 0 {
		list = append(list, stream.Section{Name: modelsSection, Version: h.modelsVersion})
	}
	if h.cfg.FindMotifs {
		list = append(list, stream.Section{Name: motifsSection, Version: h.motifsVersion})
	}
	if h.cfg.Haplotypes {
		list = append(list, stream.Section{Name: haplotypesSection, Version: h.haplotypesVersion})
	}
	for name, key := range h.names {
		r := h.regions[key]
		list = append(list, stream.Section{Name: name, Version: r.StateVersion()})
		for i := range r.Batches() {
			list = append(list, stream.Section{Name: readsSection(name, i), Version: r.ReadsVersion(i)})
		}
	}
	slices.SortFunc(list, func(a, b stream.Section) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// AppendSection appends one of them: whose part it is, and the part.
func (h *handler) AppendSection(b []byte, name string) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch name {
	case stream.MarkersSection:
		return h.markers.AppendState(b)
	case modelsSection:
		return h.appendModels(b), nil
	case motifsSection:
		return h.appendMotifs(b), nil
	case haplotypesSection:
		return h.appendHaplotypes(b), nil
	}
	key, ok := h.names[name]
	if ok {
		return h.regions[key].AppendState(key.append(b, stateOnly))
	}
	if i := strings.LastIndex(name, readsInfix); i >= 0 {
		key, ok = h.names[name[:i]]
		batch, err := strconv.Atoi(name[i+len(readsInfix):])
		if ok && err == nil && batch >= 0 && batch < h.regions[key].Batches() {
			return h.regions[key].AppendReads(key.append(b, batch), batch), nil
		}
	}
	return nil, fmt.Errorf("section %q is not one of this state", name)
}

// RestoreSection takes one of them.
func (h *handler) RestoreSection(name string, b []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if name == stream.MarkersSection {
		return h.markers.RestoreState(b)
	}
	restore := h.restorePart
	switch name {
	case modelsSection:
		restore = h.restoreModels
	case motifsSection:
		restore = h.restoreMotifs
	case haplotypesSection:
		restore = h.restoreHaplotypes
	}
	if err := restore(b); err != nil {
		return fmt.Errorf("restoring section %q: %w", name, err)
	}
	return nil
}

func (h *handler) restorePart(b []byte) error {
	in := packed.NewReader(b)
	in.Version(regionVersion)
	key := regionKey{in.String(maxName), in.String(maxName), uint32(in.Uint(math.MaxUint32))}
	batch := in.Len(math.MaxInt32) + stateOnly
	part := in.Rest()
	if err := in.Done(); err != nil {
		return err
	}
	x, err := h.restorer(key)
	if err != nil {
		return err
	}
	if batch == stateOnly {
		err = x.State(part)
	} else {
		err = x.Reads(batch, part)
	}
	if err != nil || !x.Complete() {
		return err
	}
	r, err := x.Region()
	if err != nil {
		return err
	}
	delete(h.restoring, key)
	h.open(key, r)
	return nil
}

func (h *handler) restorer(key regionKey) (*variant.Restorer, error) {
	if x := h.restoring[key]; x != nil {
		return x, nil
	}
	if h.regions[key] != nil {
		return nil, fmt.Errorf("region %d of %s is complete already", key.region, key.contig)
	}
	contig, err := h.contig(key)
	if err != nil {
		return nil, err
	}
	x, err := variant.NewRestorer(contig, int(key.region), h.caller(key), h.cfg.Targets[key.contig])
	if err != nil {
		return nil, err
	}
	x.Use(&h.work)
	if h.restoring == nil {
		h.restoring = make(map[regionKey]*variant.Restorer)
	}
	h.restoring[key] = x
	return x, nil
}

// restored refuses to go on from half a state.
func (h *handler) restored() error {
	for key, x := range h.restoring {
		if _, err := x.Region(); err != nil {
			return fmt.Errorf("the state of sample %s is not complete: %w", key.sample, err)
		}
	}
	if h.checked {
		return nil
	}
	h.checked = true
	for key, r := range h.regions { // sections come in any order
		if f := h.found[key.sample]; f != nil {
			r.UseMotifs(f.known)
		}
	}
	return nil
}

// open takes a region into the state.
func (h *handler) open(key regionKey, r *variant.Region) {
	r.Use(&h.work)
	h.regions[key] = r
	h.names[key.section()] = key
}

// stateOnly stands for the part of a region that is no batch of reads.
const stateOnly = -1

// append writes whose part follows.
func (k regionKey) append(b []byte, batch int) []byte {
	b = packed.AppendBytes(packed.AppendBytes(append(b, regionVersion), k.sample), k.contig)
	return packed.AppendLen(packed.AppendUint(b, k.region), batch-stateOnly)
}

// section names the section of a region's state.
func (k regionKey) section() string {
	return stream.SectionName("region/", fmt.Sprintf("%s/%s/%d", url.PathEscape(k.sample), url.PathEscape(k.contig), k.region), maxSectionName)
}

const readsInfix = "/reads/"

// readsSection names the section of a batch of reads.
func readsSection(region string, batch int) string {
	return fmt.Sprintf("%s%s%06d", region, readsInfix, batch)
}

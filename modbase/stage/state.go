package stage

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/packed"
	"github.com/porestream/porestream/stream/planted"
	"github.com/porestream/porestream/stream/streampb"
)

const (
	// stateVersion counts changes of what the sections are; stream/STATE.md describes them.
	stateVersion = 2
	// partVersion is the newest version of the sections of regions, and of shares.
	partVersion = 1

	// maxName bounds names, and maxCode texts of codes; a section's leaves space for the number of a
	// batch.
	maxName        = 512
	maxCode        = 16
	maxSectionName = 480
	sharesSection  = "shares"
	motifsSection  = "motifs"
	placesPrefix   = "places/"
	readsInfix     = "/reads/"
)

// fingerprint is a hash over what the state depends on besides records. Version 1 of the state named reads by other keys, which nobody can make anew of what is
// kept of a read: a program that went on with it would count a read again that comes once more.
func (c *Config) fingerprint() string {
	h := sha256.New()
	fmt.Fprintln(h, "reads by their key of state 2")
	fmt.Fprintf(h, "methylate %v %v %v %d\n", c.Filter.Thresholds, c.Filter.Given, c.Filter.Percentile, c.MaxRegion)
	if c.FindMotifs {
		fmt.Fprintln(h, "finds motifs") // a sample's excerpts are of all of its reads
	}
	if c.Haplotypes {
		fmt.Fprintln(h, "counts by haplotype") // what is known of them is part of the state
	}
	for _, contig := range c.Genome.Contigs {
		fmt.Fprintf(h, "contig %q %s\n", contig.Name, contig.Digest())
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Format says what the state depends on.
func (h *handler) Format() stream.StateFormat {
	return stream.StateFormat{Stage: Name, Version: stateVersion, Fingerprint: h.fingerprint}
}

// Sections lists the markers, the partitions' reports of their calls, and for each region what was published and the batches of
// reads.
func (h *handler) Sections() []stream.Section {
	list := []stream.Section{{Name: stream.MarkersSection, Version: h.markers.Version()}, {Name: sharesSection, Version: h.sharesVersion}}
	if h.cfg.FindMotifs {
		list = append(list, stream.Section{Name: motifsSection, Version: h.searchesVersion})
		for sample, s := range h.searches {
			for source, of := range s.from {
				for i := range of.parts {
					list = append(list, stream.Section{Name: placesSection(sample, source, i), Version: of.version})
				}
			}
		}
	}
	list = append(list, h.phasedSections()...)
	for name, key := range h.names {
		r := h.regions[key]
		list = append(list, stream.Section{Name: name, Version: r.version})
		for i := range r.batches {
			list = append(list, stream.Section{Name: readsSection(name, i), Version: r.batches[i].version})
		}
	}
	slices.SortFunc(list, func(a, b stream.Section) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// AppendSection appends one of them.
func (h *handler) AppendSection(b []byte, name string) ([]byte, error) {
	switch name {
	case stream.MarkersSection:
		return h.markers.AppendState(b)
	case sharesSection:
		return h.appendShares(b)
	case motifsSection:
		return h.appendSearches(b), nil
	case knownSection:
		return h.appendKnown(b), nil
	}
	if key, ok := h.phasedNames[name]; ok {
		return h.appendPhased(b, key)
	}
	if strings.HasPrefix(name, placesPrefix) {
		if p := h.placesOf(name); p != nil {
			return packed.AppendMessage(append(b, partVersion), p)
		}
	}
	key, ok := h.names[name]
	if ok {
		return h.regions[key].appendHead(key.append(b, 0)), nil
	}
	if i := strings.LastIndex(name, readsInfix); i >= 0 {
		key, ok = h.names[name[:i]]
		n, err := strconv.Atoi(name[i+len(readsInfix):])
		if ok && err == nil && n >= 0 && n < len(h.regions[key].batches) {
			return h.regions[key].batches[n].append(key.append(b, n+1)), nil
		}
	}
	return nil, fmt.Errorf("section %q is not one of this state", name)
}

// RestoreSection takes one of them.
func (h *handler) RestoreSection(name string, b []byte) error {
	var err error
	switch {
	case name == stream.MarkersSection:
		return h.markers.RestoreState(b)
	case name == sharesSection:
		err = h.restoreShares(b)
	case name == motifsSection:
		err = h.restoreSearches(b)
	case strings.HasPrefix(name, placesPrefix):
		err = h.restorePlaces(b)
	case name == knownSection:
		err = h.restoreKnown(b)
	case strings.HasPrefix(name, phasedPrefix):
		err = h.restorePhased(b)
	case !planted.Is(planted.ForgetCounts):
		err = h.restorePart(b)
	}
	if err != nil {
		return fmt.Errorf("restoring section %q: %w", name, err)
	}
	return nil
}

// appendShares writes what is known of samples beyond their regions.
func (h *handler) appendShares(b []byte) ([]byte, error) {
	b = packed.AppendStrings(append(b, partVersion), slices.Sorted(maps.Keys(h.open)))
	b = packed.AppendLen(b, len(h.shares))
	for _, sample := range slices.Sorted(maps.Keys(h.shares)) {
		s := h.shares[sample]
		b = packed.AppendBytes(b, sample)
		b = packed.AppendBool(b, s.published != nil)
		var err error
		if s.published != nil {
			if b, err = packed.AppendMessage(b, s.published); err != nil {
				return nil, err
			}
		}
		b = packed.AppendLen(b, len(s.from))
		for _, source := range slices.Sorted(maps.Keys(s.from)) {
			if b, err = packed.AppendMessage(packed.AppendUint(b, source), s.from[source]); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

func (h *handler) restoreShares(b []byte) error {
	in := packed.NewReader(b)
	in.Version(partVersion)
	for _, run := range in.Strings(maxName) {
		h.open[run] = true
	}
	for range in.Count(1) {
		s := h.of(in.String(maxName))
		if in.Bool() {
			s.published = restoreCalls(in)
		}
		for range in.Count(1) {
			source := uint32(in.Uint(math.MaxUint32))
			s.from[source] = restoreCalls(in)
		}
	}
	h.sharesVersion++
	return in.Done()
}

func restoreCalls(in *packed.Reader) *streampb.SampleCalls {
	m := new(streampb.SampleCalls)
	in.Message(m)
	for _, of := range m.GetBases() {
		if of.GetBase() > 3 || len(of.GetProbabilities()) != len(of.GetCalls()) {
			in.Fail("calls of base %d: %d probabilities and %d counts", of.GetBase(), len(of.GetProbabilities()), len(of.GetCalls()))
		}
	}
	return m
}

// placesSections begins the names of the sections of excerpts of a sample.
func placesSections(sample string) string {
	return stream.SectionName(placesPrefix, url.PathEscape(sample), maxSectionName-64) + "/"
}

// placesSection names the section of a part of a partition's excerpt.
func placesSection(sample string, source uint32, part int) string {
	return fmt.Sprintf("%s%d/%05d", placesSections(sample), source, part)
}

// placesOf is the part of an excerpt that a section is of; nil: it is of none.
func (h *handler) placesOf(name string) *streampb.ModifiedPlaces {
	for sample, s := range h.searches {
		rest, own := strings.CutPrefix(name, placesSections(sample))
		if !own {
			continue
		}
		var source uint32
		var part int
		if _, err := fmt.Sscanf(rest, "%d/%d", &source, &part); err != nil || s.from[source] == nil || part < 0 || part >= len(s.from[source].parts) {
			return nil
		}
		return s.from[source].parts[part]
	}
	return nil
}

// appendSearches writes what is known of samples' motifs besides excerpts.
func (h *handler) appendSearches(b []byte) []byte {
	b = packed.AppendLen(append(b, partVersion), len(h.searches))
	for _, sample := range slices.Sorted(maps.Keys(h.searches)) {
		s := h.searches[sample]
		b = packed.AppendLen(packed.AppendLen(packed.AppendBytes(b, sample), s.reads), s.next)
		b = packed.AppendBool(packed.AppendBool(append(b, s.sent[:]...), s.waits), s.again)
		b = packed.AppendStrings(packed.AppendLen(b, s.searched), s.found)
		b = packed.AppendLen(b, len(s.from))
		for _, source := range slices.Sorted(maps.Keys(s.from)) {
			b = packed.AppendLen(packed.AppendUint(b, source), len(s.from[source].parts))
		}
	}
	return b
}

// maxPlaceParts bounds the records of an excerpt, and maxLetters a motif's letters.
const maxPlaceParts, maxLetters = 1 << 16, 64

func (h *handler) restoreSearches(b []byte) error {
	in := packed.NewReader(b)
	in.Version(partVersion)
	for range in.Count(1) {
		s := h.search(in.String(maxName))
		s.reads, s.next = in.Len(math.MaxInt32), in.Len(math.MaxInt32)
		copy(s.sent[:], in.Fixed(len(s.sent)))
		s.waits, s.again = in.Bool(), in.Bool()
		s.searched, s.found = in.Len(math.MaxInt32), in.Strings(maxLetters)
		for range in.Count(1) {
			source := uint32(in.Uint(math.MaxUint32))
			s.place(source, in.Len(maxPlaceParts))
		}
	}
	h.searchesVersion++
	return in.Done()
}

// place makes space for the parts of an excerpt.
func (s *search) place(source uint32, parts int) *received {
	of := s.from[source]
	if of == nil {
		of = new(received)
		s.from[source] = of
	}
	for len(of.parts) < parts {
		of.parts = append(of.parts, nil)
	}
	of.version++
	return of
}

func (h *handler) restorePlaces(b []byte) error {
	in := packed.NewReader(b)
	in.Version(partVersion)
	m := new(streampb.ModifiedPlaces)
	in.Message(m)
	if err := in.Done(); err != nil {
		return err
	}
	if m.GetPart() >= maxPlaceParts {
		return fmt.Errorf("part %d of an excerpt", m.GetPart())
	}
	part := int(m.GetPart())
	h.search(m.GetSample()).place(m.GetSource(), part+1).parts[part] = m
	return nil
}

// append writes whose part follows, and which.
func (k regionKey) append(b []byte, part int) []byte {
	b = packed.AppendBytes(packed.AppendBytes(append(b, partVersion), k.sample), k.contig)
	return packed.AppendLen(packed.AppendUint(b, k.region), part)
}

// section names the section of a region.
func (k regionKey) section() string { return k.sectionOf("region/") }

// sectionOf names the section of something that is kept of a region, by a prefix for what it is.
func (k regionKey) sectionOf(prefix string) string {
	return stream.SectionName(prefix, fmt.Sprintf("%s/%s/%d", url.PathEscape(k.sample), url.PathEscape(k.contig), k.region), maxSectionName)
}

func readsSection(region string, batch int) string {
	return fmt.Sprintf("%s%s%06d", region, readsInfix, batch)
}

// appendHead writes what is known of a region besides its reads.
func (r *region) appendHead(b []byte) []byte {
	b = packed.AppendLen(packed.AppendLen(b, len(r.batches)), r.next)
	return appendSaid(b, r.said)
}

// appendSaid writes what was published.
func appendSaid(b []byte, of map[stretchKey]said) []byte {
	b = packed.AppendLen(b, len(of))
	for _, key := range slices.SortedFunc(maps.Keys(of), stretchKey.compare) {
		s := of[key]
		b = packed.AppendBytes(packed.AppendLen(b, key.start), key.code)
		b = append(packed.AppendUint(b, s.revision), s.digest[:]...)
	}
	return b
}

func restoreSaid(in *packed.Reader, of map[stretchKey]said) {
	for range in.Count(1) {
		key := stretchKey{in.Len(math.MaxInt32), in.String(maxCode)}
		s := said{revision: in.Uint(math.MaxUint64)}
		copy(s.digest[:], in.Fixed(len(s.digest)))
		of[key] = s
	}
}

// append writes a batch, read by read.
func (b *batch) append(out []byte) []byte {
	out = packed.AppendLen(packed.AppendLen(out, b.bytes), len(b.reads))
	for _, k := range b.reads {
		out = packed.AppendBool(append(out, k.key[:]...), k.leftOut)
		out = packed.AppendBool(out, k.reverse)
		out = packed.AppendLen(packed.AppendLen(out, int(k.start)), int(k.end-k.start))
		out = packed.AppendLen(packed.AppendLen(out, int(k.ops)), int(k.bases))
		out = packed.AppendBytes(out, k.data)
	}
	return out
}

func (h *handler) restorePart(b []byte) error {
	in := packed.NewReader(b)
	in.Version(partVersion)
	key := regionKey{in.String(maxName), in.String(maxName), uint32(in.Uint(math.MaxUint32))}
	part := in.Len(math.MaxInt32)
	if err := in.Err(); err != nil {
		return err
	}
	r := h.regions[key]
	if r == nil {
		contig := h.cfg.Genome.Contig(key.contig)
		if contig == nil || int64(key.region)*align.RegionWidth >= int64(len(contig.Seq)) {
			return fmt.Errorf("region %d of %s is not in the reference", key.region, key.contig)
		}
		r = h.newRegion(key, contig.Seq)
		r.headed = false
		h.take(r)
	}
	if part == 0 {
		r.restoreHead(in)
	} else {
		r.restoreBatch(in, part-1)
	}
	return in.Done()
}

func (r *region) restoreHead(in *packed.Reader) {
	r.headed = true
	r.complete, r.next = in.Len(math.MaxInt32), in.Len(math.MaxInt32)
	restoreSaid(in, r.said)
	r.version++
}

// maxBatches bounds those of one region.
const maxBatches = 1 << 20

func (r *region) restoreBatch(in *packed.Reader, number int) {
	if number >= maxBatches {
		in.Fail("batch %d", number)
		return
	}
	for len(r.batches) <= number {
		r.batches = append(r.batches, batch{})
	}
	b := &r.batches[number]
	b.bytes = in.Len(math.MaxInt32)
	b.version++
	for range in.Count(1) {
		k := &kept{key: readKey(fixed(in)), leftOut: in.Bool(), reverse: in.Bool(), batchNumber: int32(number)}
		k.start = int32(in.Len(len(r.contig)))
		k.end = k.start + int32(in.Len(align.MaxSegmentSpan))
		k.ops, k.bases = int32(in.Len(math.MaxInt32)), int32(in.Len(math.MaxInt32))
		k.data = slices.Clone(in.Bytes(math.MaxInt32))
		if in.Err() != nil {
			return
		}
		if !k.leftOut {
			s := &streampb.Segment{ReadId: "kept", Contig: r.key.contig, Region: r.key.region, Start: int64(k.start)}
			if int(k.ops)+int(k.bases) > len(k.data) {
				in.Fail("a read of %d bytes has %d of operations and %d of bases", len(k.data), k.ops, k.bases)
				return
			}
			s.Ops, s.Bases = k.data[:k.ops], k.data[k.ops:k.ops+k.bases]
			if _, err := align.Check(s, len(r.contig)); err != nil {
				in.Fail("%w", err)
				return
			}
			if err := r.calls.Check(k.calls(), r.span(k)); err != nil {
				in.Fail("%w", err)
				return
			}
		}
		b.reads = append(b.reads, k)
		r.enter(k)
	}
}

func fixed(in *packed.Reader) []byte {
	b := in.Fixed(len(readKey{}))
	if b == nil {
		return make([]byte, len(readKey{}))
	}
	return b
}

// restored refuses to go on from half a state.
func (h *handler) restored() error {
	if h.checked {
		return nil
	}
	for _, key := range slices.SortedFunc(maps.Keys(h.regions), regionKey.compare) {
		r := h.regions[key]
		if !r.headed || len(r.batches) != r.complete || slices.ContainsFunc(r.batches, func(b batch) bool { return len(b.reads) == 0 }) {
			return fmt.Errorf("the state of region %d of %s of sample %s is not complete", key.region, key.contig, key.sample)
		}
	}
	for sample, s := range h.searches {
		for source, of := range s.from {
			if slices.Contains(of.parts, nil) {
				return fmt.Errorf("the state of what partition %d reported of the motifs of sample %s is not complete", source, sample)
			}
		}
	}
	h.checked = true
	return nil
}

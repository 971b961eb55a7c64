package stage

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/packed"
	"github.com/porestream/porestream/stream/streampb"
)

const (
	// stateVersion counts changes of what the sections are; stream/STATE.md
	// describes them.
	stateVersion = 1
	// contigVersion is the encoding of a contig's section without carry-over, and
	// carriedVersion with it.
	contigVersion  = 1
	carriedVersion = 2
	// neighboursVersion counts the changes of this package, and of haplotypes,
	// that make other events follow from the same calls.
	neighboursVersion = 2

	maxName        = 512 // of a sample or contig, as in records
	maxSectionName = 512
	maxAllele      = 1 << 20
)

// fingerprint is a hash over what the state depends on besides records.
func (c *Config) fingerprint() string {
	text := fmt.Appendf(nil, "annotate %d %v %q", neighboursVersion, c.Haplotypes != nil, c.Genes)
	if c.Scoring != nil { // revisions have other numbers
		text = append(text, " scores"...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Format describes the inputs that the state depends on.
func (h *handler) Format() stream.StateFormat {
	return stream.StateFormat{Stage: Name, Version: stateVersion, Fingerprint: h.fingerprint}
}

// Sections lists the markers and each contig of each sample.
func (h *handler) Sections() []stream.Section {
	list := []stream.Section{{Name: stream.MarkersSection, Version: h.markers.Version()}}
	if h.ends.version > 0 {
		list = append(list, stream.Section{Name: endsSection, Version: h.ends.version})
	}
	for name, on := range h.neighbours.sections {
		list = append(list, stream.Section{Name: name, Version: on.version})
	}
	slices.SortFunc(list, func(a, b stream.Section) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// AppendSection appends one of them.
func (h *handler) AppendSection(b []byte, name string) ([]byte, error) {
	if name == stream.MarkersSection {
		return h.markers.AppendState(b)
	}
	if name == endsSection {
		return h.ends.append(b), nil
	}
	on := h.neighbours.sections[name]
	if on == nil {
		return nil, fmt.Errorf("section %q is not one of this state", name)
	}
	b, err := on.append(b)
	if err != nil {
		return nil, fmt.Errorf("encoding section %q: %w", name, err)
	}
	return b, nil
}

// RestoreSection takes one of them.
func (h *handler) RestoreSection(name string, b []byte) error {
	if name == stream.MarkersSection {
		return h.markers.RestoreState(b)
	}
	if name == endsSection {
		if err := h.ends.restore(b); err != nil {
			return fmt.Errorf("restoring section %q: %w", name, err)
		}
		return nil
	}
	if err := h.neighbours.restore(b); err != nil {
		return fmt.Errorf("restoring section %q: %w", name, err)
	}
	return nil
}

// section names the section of a contig.
func (k contigKey) section() string {
	return stream.SectionName("contig/", url.PathEscape(k.sample)+"/"+url.PathEscape(k.contig), maxSectionName)
}

// append writes what stands on a contig. What all of its calls have in common is
// written once.
func (on *contig) append(b []byte) ([]byte, error) {
	version := byte(contigVersion)
	if len(on.carried) > 0 {
		version = carriedVersion
	}
	b = packed.AppendBytes(packed.AppendBytes(append(b, version), on.key.sample), on.key.contig)
	b = packed.AppendLen(b, len(on.alleles))
	for _, s := range on.alleles {
		call := proto.CloneOf(s.call)
		call.Sample, call.Contig = "", ""
		var err error
		if b, err = packed.AppendMessage(b, call); err != nil {
			return nil, err
		}
		b = packed.AppendUint(b, s.revision-call.GetRevision()) // at least the call's
		var compounds []byte
		if len(s.compounds) > 0 {
			if compounds, err = json.Marshal(s.compounds); err != nil {
				return nil, err
			}
		}
		b = packed.AppendBytes(b, compounds)
	}
	if version == carriedVersion {
		return on.appendCarried(b)
	}
	return b, nil
}

// restore reads what append wrote.
func (n *neighbours) restore(b []byte) error {
	in := packed.NewReader(b)
	version := in.Version(carriedVersion)
	key := contigKey{in.String(maxName), in.String(maxName)}
	if n.contigs[key] != nil {
		in.Fail("contig %q of sample %q comes twice", key.contig, key.sample)
	}
	var alleles []*standing
	for range in.Count(3) {
		s := restoreStanding(in, key)
		if in.Err() != nil {
			break
		}
		if k := len(alleles); k > 0 && alleles[k-1].compare(s) >= 0 {
			in.Fail("allele %s is out of order", s.call.GetVrsId())
		}
		alleles = append(alleles, s)
	}
	var assessed []*streampb.CarryOver
	if version == carriedVersion {
		assessed = restoreCarried(in, key)
	}
	if err := in.Done(); err != nil {
		return err
	}
	on := n.at(key)
	on.alleles, on.carried, on.version = alleles, assessed, 1
	for _, s := range alleles {
		s.carried = on.explained(s.call)
	}
	return nil
}

func restoreStanding(in *packed.Reader, key contigKey) *standing {
	s := &standing{call: new(streampb.Call)}
	in.Message(s.call)
	s.revision = s.call.GetRevision() + in.Uint(math.MaxUint32)
	compounds := in.Bytes(math.MaxInt32)
	if in.Err() != nil {
		return s
	}
	if c := s.call; c.GetPos() < 1 || c.GetRef() == "" || c.GetAlt() == "" || c.GetRevision() == 0 || s.revision < c.GetRevision() {
		in.Fail("call %s of revision %d at %d", c.GetVrsId(), c.GetRevision(), c.GetPos())
	}
	if len(compounds) > 0 {
		if err := json.Unmarshal(compounds, &s.compounds); err != nil {
			in.Fail("compounds of %s: %w", s.call.GetVrsId(), err)
		}
	}
	s.call.Sample, s.call.Contig = key.sample, key.contig
	return s
}

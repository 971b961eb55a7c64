package monitor

import (
	"cmp"
	"container/list"
	"encoding/json"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// keptRevisions is how many revisions of a variant are shown.
const keptRevisions = 50

// maxDocument bounds the document of a variant that is kept to be shown, in bytes.
const maxDocument = 64 << 10

// importance orders variants by how much a page without them would miss.
type importance int

const (
	retracted importance = iota
	filtered
	modifier
	low
	moderate
	high
	importances
)

// variantTable is the newest revision of the variants that matter most.
//
// Problem: a human genome has five million variants, and a page shows some thousand.
//
// Strategy: the table has a fixed number of slots. When they are used up, the least
// important variant goes, and of several the one that has not changed for the longest
// time.
//
// Consequences: whatever comes, retracted and filtered calls go first and those that
// change a protein stay; the number of those that are not shown is given.
type variantTable struct {
	limit   int
	rows    map[string]*receivedVariant
	classes [importances]*list.List // of ids, least recently changed first
	seed    maphash.Seed
	// gone are hashes of ids that have been left out, up to maxGone.
	gone    map[uint64]struct{}
	changed map[string]bool
	removed map[string]bool
}

const maxGone = 1 << 20

// receivedVariant is what is kept of a variant.
type receivedVariant struct {
	row       Variant
	document  json.RawMessage // nil: too long
	revisions []Revision
	motif     *event.Motif // of an artefact of one
	carryOver *event.CarryOver
	phaseSet  int64 // 0: not phased
	class     importance
	place     *list.Element
}

func newVariantTable(limit int) variantTable {
	t := variantTable{
		limit: limit, rows: make(map[string]*receivedVariant), seed: maphash.MakeSeed(),
		gone: make(map[uint64]struct{}), changed: make(map[string]bool), removed: make(map[string]bool),
	}
	for i := range t.classes {
		t.classes[i] = list.New()
	}
	return t
}

func (t *variantTable) add(e *event.Variant, rec stream.Record) {
	id := string(rec.Key)
	h := t.rows[id]
	switch {
	case h == nil:
		h = &receivedVariant{}
		t.rows[id] = h
		delete(t.gone, maphash.String(t.seed, id))
	case e.Revision <= h.row.Revision:
		h.remember(revisionOf(e, rec)) // an earlier one that came late
		return
	default:
		t.classes[h.class].Remove(h.place)
	}
	h.row = rowOf(id, e, rec)
	h.motif, h.carryOver, h.phaseSet = e.Call.Motif, e.Call.CarryOver, e.Call.PhaseSet
	h.document = nil
	if len(rec.Value) <= maxDocument {
		h.document = slices.Clone(rec.Value)
	}
	h.remember(revisionOf(e, rec))
	h.class = importanceOf(&h.row)
	h.place = t.classes[h.class].PushBack(id)
	t.changed[id] = true
	delete(t.removed, id)
	if len(t.rows) > t.limit {
		t.evict()
	}
}

// evict leaves out what is missed least.
func (t *variantTable) evict() {
	for _, class := range t.classes {
		if front := class.Front(); front != nil {
			id, _ := class.Remove(front).(string)
			delete(t.rows, id)
			delete(t.changed, id)
			t.removed[id] = true
			if len(t.gone) < maxGone {
				t.gone[maphash.String(t.seed, id)] = struct{}{}
			}
			return
		}
	}
}

func (h *receivedVariant) remember(r Revision) {
	i, known := slices.BinarySearchFunc(h.revisions, r.Revision, func(a Revision, n uint64) int { return cmp.Compare(a.Revision, n) })
	if known || i == 0 && len(h.revisions) >= keptRevisions {
		return
	}
	h.revisions = slices.Insert(h.revisions, i, r)
	if len(h.revisions) > keptRevisions {
		h.revisions = slices.Delete(h.revisions, 0, 1)
	}
}

func importanceOf(v *Variant) importance {
	switch {
	case v.Status == streampb.CallStatus_RETRACTED.String():
		return retracted
	case v.Filter != passed:
		return filtered
	}
	switch v.Impact {
	case "HIGH":
		return high
	case "MODERATE":
		return moderate
	case "LOW":
		return low
	}
	return modifier
}

const passed = "PASS"

func filterOf(e *event.Variant) string {
	if len(e.Call.Filters) == 0 {
		return passed
	}
	return strings.Join(e.Call.Filters, ";")
}

func revisionOf(e *event.Variant, rec stream.Record) Revision {
	return Revision{
		Revision: e.Revision, Status: e.Status, Filter: filterOf(e), Qual: e.Call.Qual,
		Depth: int(e.Call.Depth), AltDepth: int(e.Call.AltForward + e.Call.AltReverse), Time: rec.Time.UTC(),
	}
}

func rowOf(id string, e *event.Variant, rec stream.Record) Variant {
	most := e.Annotation.MostSevere
	row := Variant{
		ID: id, Sample: e.Sample, Contig: e.Allele.Contig, Pos: e.Allele.Pos, Ref: cut(e.Allele.Ref), Alt: cut(e.Allele.Alt),
		Status: e.Status, Revision: e.Revision, Filter: filterOf(e), Qual: e.Call.Qual,
		Depth: int(e.Call.Depth), AltDepth: int(e.Call.AltForward + e.Call.AltReverse),
		Genotype: genotype(&e.Call), Gene: most.Gene, Consequence: most.Term, Impact: string(most.Impact),
		HGVSp: e.ProteinChange(), Updated: rec.Time.UTC(),
	}
	if row.Depth > 0 {
		row.Fraction = float64(row.AltDepth) / float64(row.Depth)
	}
	for i := range e.Annotation.Consequences {
		c := &e.Annotation.Consequences[i]
		if c.Feature != nil && c.Feature.ID == most.Transcript {
			if _, coding, ok := strings.Cut(c.HGVSc, ":"); ok {
				row.HGVSc = coding
			}
			break
		}
	}
	var known []string
	for _, k := range e.Annotation.Known {
		name := k.ID
		if name == "" {
			name = k.Source
		}
		if !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	row.Known = strings.Join(known, ";")
	return row
}

func genotype(c *event.Call) string {
	separator := "/"
	if c.PhaseSet != 0 {
		separator = "|"
	}
	numbers := make([]string, len(c.Genotype))
	for i, n := range c.Genotype {
		numbers[i] = strconv.FormatUint(uint64(n), 10)
	}
	return strings.Join(numbers, separator)
}

// maxBases is how much of an allele a row shows.
const maxBases = 50

func cut(bases string) string {
	if utf8.RuneCountInString(bases) <= maxBases {
		return bases
	}
	return string([]rune(bases)[:maxBases]) + "…"
}

// counts are the variants that stand, and those of them that passed all filters.
func (t *variantTable) counts() (standing, pass int64) {
	for i, class := range t.classes {
		n := int64(class.Len())
		if importance(i) > retracted {
			standing += n
		}
		if importance(i) > filtered {
			pass += n
		}
	}
	return standing, pass
}

// Detail is what is known of one variant; the pileup is not part of the view.
func (v *View) Detail(id string) (Detail, error) {
	h := v.variants.rows[id]
	if h == nil {
		return Detail{}, ErrNoVariant
	}
	document := h.document
	if document == nil {
		document = json.RawMessage("null")
	}
	return Detail{
		Row: h.row, Variant: document, Revisions: slices.Clone(h.revisions),
		Phased: v.variants.phasedWith(h), Near: v.SitesNear(h.row.Sample, h.row.Contig, h.row.Pos),
	}, nil
}

// maxNear is how many variants and sites beside a variant are shown.
const maxNear = 20

// phasedWith are the variants nearest to one that stand in the same phase set.
func (t *variantTable) phasedWith(h *receivedVariant) []Variant {
	out := []Variant{}
	if h.phaseSet == 0 {
		return out
	}
	for _, o := range t.rows {
		if o != h && o.phaseSet == h.phaseSet && o.row.Sample == h.row.Sample && o.row.Contig == h.row.Contig && o.class > retracted {
			out = append(out, o.row)
		}
	}
	return nearest(out, h.row.Pos, func(v Variant) (int64, string) { return v.Pos, v.ID })
}

// nearest are those of a list that are nearest to a position, as many as are shown, by position and name.
func nearest[T any](list []T, pos int64, of func(T) (int64, string)) []T {
	slices.SortFunc(list, func(a, b T) int {
		p, name := of(a)
		q, other := of(b)
		return cmp.Or(cmp.Compare(max(p-pos, pos-p), max(q-pos, pos-q)), cmp.Compare(p, q), cmp.Compare(name, other))
	})
	list = list[:min(len(list), maxNear)]
	slices.SortFunc(list, func(a, b T) int {
		p, name := of(a)
		q, other := of(b)
		return cmp.Or(cmp.Compare(p, q), cmp.Compare(name, other))
	})
	return list
}

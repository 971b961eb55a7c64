package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/porestream/porestream/stream"
)

// Index is what the state topic holds of one source: for every key the last
// record's place and checksum, not the sections' content. It takes about 150
// bytes per part.
type Index struct {
	source    Source
	prefix    string
	sections  map[copyOf]*copies
	tables    map[slot]*copies
	manifests map[slot]*manifest
}

// copyOf is a section in a slot.
type copyOf struct {
	name string
	slot
}

// copies are the parts that were seen of a section's or table's copy.
type copies struct{ parts []part }

// part is a record with a part; the zero value is none.
type part struct {
	present bool
	damaged bool
	sum     partSum
	offset  int64 // of the record in the state topic
	taken   int64
	content []byte // of tables
}

// manifest is a record with a trailer.
type manifest struct {
	trailer *trailer
	err     error // why there is no trailer, or why the snapshot is refused
	offset  int64 // of the record in the state topic
	time    time.Time
}

// NewIndex returns an index without records.
func NewIndex(source Source) *Index {
	return &Index{
		source: source, prefix: source.prefix(),
		sections:  make(map[copyOf]*copies),
		tables:    make(map[slot]*copies),
		manifests: make(map[slot]*manifest),
	}
}

// Source is whose state is indexed.
func (x *Index) Source() Source { return x.source }

// Add notes a record of the state topic. Records come in the order of the log,
// all that [Source.Place] has on its partition; those of other sources are passed
// over. The record is not kept.
func (x *Index) Add(rec stream.Record) {
	if len(rec.Key) < len(x.prefix) || string(rec.Key[:len(x.prefix)]) != x.prefix {
		return
	}
	k, err := parseKey(rec.Key[len(x.prefix):])
	if err != nil {
		return // no key of this version of the format: not ours to read or remove
	}
	switch k.kind {
	case kindSection:
		setPart(x.sections, copyOf{k.name, k.slot}, k.part, rec, false)
	case kindTable:
		setPart(x.tables, k.slot, k.part, rec, true)
	case kindManifest:
		x.setManifest(k.slot, rec)
	}
}

func setPart[K comparable](all map[K]*copies, k K, n int, rec stream.Record, keep bool) {
	c := all[k]
	if c == nil {
		if len(rec.Value) == 0 {
			return
		}
		c = &copies{}
		all[k] = c
	}
	for len(c.parts) <= n {
		c.parts = append(c.parts, part{})
	}
	if len(rec.Value) == 0 {
		c.parts[n] = part{}
		for len(c.parts) > 0 && !c.parts[len(c.parts)-1].present {
			c.parts = c.parts[:len(c.parts)-1]
		}
		if len(c.parts) == 0 {
			delete(all, k)
		}
		return
	}
	p := part{present: true, offset: rec.Offset}
	taken, content, err := decodePart(rec.Value)
	if err != nil {
		p.damaged = true
	} else {
		p.taken, p.sum = taken, sumOf(content)
		if keep {
			p.content = slices.Clone(content)
		}
	}
	c.parts[n] = p
}

func (x *Index) setManifest(s slot, rec stream.Record) {
	if len(rec.Value) == 0 {
		delete(x.manifests, s)
		return
	}
	m := &manifest{offset: rec.Offset, time: rec.Time}
	m.trailer, m.err = decodeTrailer(rec.Value)
	if m.err == nil && (m.trailer.slot != s || m.trailer.source != x.source) {
		m.err = fmt.Errorf("%w: the manifest belongs to slot %d.%d of %v", errDamaged, m.trailer.epoch, m.trailer.index, m.trailer.source)
	}
	x.manifests[s] = m
}

// Snapshot is a complete snapshot in an [Index].
type Snapshot struct {
	source  Source
	slot    slot
	format  stream.StateFormat
	origin  int64
	offset  int64
	bytes   int64
	time    time.Time
	entries []entry
	parts   []located
}

// located says which part of which section a record of the state topic holds.
type located struct {
	offset int64
	entry  int32
	part   int32
}

// Source is whose state it is.
func (s *Snapshot) Source() Source { return s.source }

// Offset is the input offset up to which records are folded into the state: that
// of the first record to be replayed.
func (s *Snapshot) Offset() int64 { return s.offset }

// Time is when the manifest was written, by the producer's clock.
func (s *Snapshot) Time() time.Time { return s.time }

// Format is what the snapshot was written in.
func (s *Snapshot) Format() stream.StateFormat { return s.format }

// Sections is the number of sections, and Bytes their size together.
func (s *Snapshot) Sections() int { return len(s.entries) }

// Bytes is the size of all sections.
func (s *Snapshot) Bytes() int64 { return s.bytes }

// Refusal is a snapshot that was passed over, and why.
type Refusal struct {
	// Offset is the snapshot's input offset; -1 if its manifest can't be read.
	Offset int64
	// Time is when its manifest was written.
	Time time.Time
	// Reason says why it can't be used.
	Reason string
}

func (r Refusal) String() string {
	if r.Offset < 0 {
		return fmt.Sprintf("snapshot of %s: %s", r.Time.UTC().Format(time.RFC3339), r.Reason)
	}
	return fmt.Sprintf("snapshot at offset %d of %s: %s", r.Offset, r.Time.UTC().Format(time.RFC3339), r.Reason)
}

// Choose returns the newest snapshot that a handler with the given format can
// begin with; nil if there is none. refused are the ones that are newer, and why.
//
// committed is the group's position: a snapshot has folded in the records from
// its origin on, and none that is not dealt with. logStart is the start of the
// input's log, which must hold the records behind the snapshot.
//
// Newest is that of the highest epoch, and in an epoch that of the highest
// offset: what a writer relies on is what the epochs before have left, so a late
// snapshot of an owner that was declared dead must not come before those of the
// owner after it.
func (x *Index) Choose(format stream.StateFormat, committed stream.Position, logStart int64) (chosen *Snapshot, refused []Refusal) {
	for _, s := range x.newestFirst() {
		m := x.manifests[s]
		err := m.err
		if err == nil {
			err = m.trailer.fits(format, committed, logStart)
		}
		if err == nil {
			chosen, err = x.complete(m)
		}
		if err == nil {
			return chosen, refused
		}
		refused = append(refused, m.refusal(err))
	}
	return nil, refused
}

// newestFirst lists the manifests' slots, in an epoch those that can't be read
// first.
func (x *Index) newestFirst() []slot {
	offset := func(m *manifest) int64 {
		if m.trailer == nil {
			return maxOffset
		}
		return m.trailer.offset
	}
	return slices.SortedFunc(maps.Keys(x.manifests), func(a, b slot) int {
		ma, mb := x.manifests[a], x.manifests[b]
		return cmp.Or(cmp.Compare(b.epoch, a.epoch), cmp.Compare(offset(mb), offset(ma)), cmp.Compare(mb.offset, ma.offset))
	})
}

func (m *manifest) refusal(err error) Refusal {
	r := Refusal{Offset: -1, Time: m.time, Reason: err.Error()}
	if m.trailer != nil {
		r.Offset = m.trailer.offset
	}
	return r
}

func (t *trailer) fits(format stream.StateFormat, committed stream.Position, logStart int64) error {
	switch {
	case t.format.Stage != format.Stage:
		return fmt.Errorf("it is the state of stage %q, not of %q", t.format.Stage, format.Stage)
	case t.format.Version > format.Version:
		return fmt.Errorf("written by a newer Porestream, in version %d of the state of stage %s; this program reads up to %d: update it", t.format.Version, format.Stage, format.Version)
	case t.format.Fingerprint != format.Fingerprint:
		return fmt.Errorf("made with another reference, model or thresholds, or by another version of the stage (fingerprint %.16s, now %.16s)", t.format.Fingerprint, format.Fingerprint)
	case t.origin != committed.Origin:
		return fmt.Errorf("it began with offset %d, the group with %d: the group was reset", t.origin, committed.Origin)
	case t.offset > committed.Offset:
		return fmt.Errorf("it is ahead of the committed offset %d", committed.Offset)
	case t.offset < logStart:
		return fmt.Errorf("the log no longer has the records behind it: it begins at offset %d", logStart)
	}
	return nil
}

// complete finds all that a manifest names.
func (x *Index) complete(m *manifest) (*Snapshot, error) {
	t := m.trailer
	table, err := x.table(t)
	if err != nil {
		return nil, err
	}
	entries, err := decodeTable(table, t.sections)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{source: t.source, slot: t.slot, format: t.format, origin: t.origin, offset: t.offset, time: m.time, entries: entries}
	for i := range entries {
		e := &entries[i]
		c := x.sections[copyOf{e.name, e.slot}]
		for n, sum := range e.parts {
			p, err := c.part(n, sum, e.taken)
			if err != nil {
				return nil, fmt.Errorf("section %q: %w", e.name, err)
			}
			s.parts = append(s.parts, located{p.offset, int32(i), int32(n)})
		}
		s.bytes += e.bytes()
	}
	if s.bytes != t.bytes {
		return nil, fmt.Errorf("%w: its sections have %d bytes, not %d", errDamaged, s.bytes, t.bytes)
	}
	slices.SortFunc(s.parts, func(a, b located) int { return cmp.Compare(a.offset, b.offset) })
	return s, nil
}

func (x *Index) table(t *trailer) ([]byte, error) {
	var b []byte
	c := x.tables[t.slot]
	for n, sum := range t.table {
		p, err := c.part(n, sum, t.offset)
		if err != nil {
			return nil, fmt.Errorf("the table of sections: %w", err)
		}
		b = append(b, p.content...)
	}
	return b, nil
}

// part finds a part and compares it with what a manifest says of it. c may be
// nil.
func (c *copies) part(n int, sum partSum, taken int64) (part, error) {
	if c == nil || n >= len(c.parts) || !c.parts[n].present {
		return part{}, fmt.Errorf("part %d is missing", n)
	}
	switch p := c.parts[n]; {
	case p.damaged:
		return part{}, fmt.Errorf("part %d is damaged", n)
	case p.taken != taken:
		return part{}, fmt.Errorf("part %d is that of another snapshot, at offset %d", n, p.taken)
	case p.sum != sum:
		return part{}, fmt.Errorf("part %d has other content", n)
	default:
		return p, nil
	}
}

// Refuse takes a snapshot out of the choice, because it could not be restored.
func (x *Index) Refuse(s *Snapshot, why error) {
	if m := x.manifests[s.slot]; m != nil {
		m.err = why
	}
}

// Summary is a manifest that was found, for a person to read.
type Summary struct {
	// Format, Origin, Offset, Sections and Bytes are what the manifest says; Offset is -1
	// if it can't be read.
	Format         stream.StateFormat
	Origin, Offset int64
	Sections       int
	Bytes          int64
	// Time is when it was written.
	Time time.Time
	// Fault is why the snapshot is of no use to anybody; nil if it is complete.
	Fault error
}

// List returns a summary of every manifest, newest first. Whether a stage can use them
// depends on its own format besides.
func (x *Index) List() []Summary {
	var out []Summary
	for _, s := range x.newestFirst() {
		m := x.manifests[s]
		sum := Summary{Offset: -1, Time: m.time, Fault: m.err}
		if t := m.trailer; t != nil {
			sum.Format, sum.Origin, sum.Offset, sum.Sections, sum.Bytes = t.format, t.origin, t.offset, t.sections, t.bytes
			if sum.Fault == nil {
				_, sum.Fault = x.complete(m)
			}
		}
		out = append(out, sum)
	}
	return out
}

// Empty reports whether nothing of the source was found, not even remains.
func (x *Index) Empty() bool {
	return len(x.sections) == 0 && len(x.tables) == 0 && len(x.manifests) == 0
}

// ErrUnusable is what errors of a snapshot that can't be restored are: the one
// before may do.
var ErrUnusable = errors.New("snapshot can't be restored")

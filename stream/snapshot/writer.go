package snapshot

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/porestream/porestream/stream"
)

// WriterConfig says where a writer's records go.
type WriterConfig struct {
	// Topic is the state topic and Partition the source's place on it, see
	// [Source.Place].
	Topic     string
	Partition int32
	// Epoch is the generation of the consumer group in which the writer began.
	// Writers of one source have different ones.
	Epoch int32
	// Origin is the input offset that the state began with, as in
	// [stream.Position].
	Origin int64
}

// Writer turns a handler's state into the records of snapshots, one after the
// other. It is for one handler, and for as long as nobody else has the
// partition. It is not safe for concurrent use.
//
// A snapshot goes through these steps, after which the next may begin:
//
//	for out, err := range w.Take(state, offset) { ... }  // send them in this order
//	w.Durable()                                          // once all of them are durable
//	w.Committed(offset)                                  // after each commit
//
// In transactions, all of a snapshot's records are durable when the transaction
// that holds the last of them has committed, and that same transaction's offset
// counts for Committed.
type Writer struct {
	cfg    WriterConfig
	source Source
	prefix string
	split  int // the largest part; tests have smaller ones

	base    *taken // the snapshot that must stay as it is; nil before there is one
	pending *taken // the one on its way to become it

	// What the topic holds of the source, as far as it is known: numbers of
	// parts.
	sections  map[copyOf]int
	tables    map[slot]int
	manifests map[slot]struct{}
}

// taken is a snapshot, as its writer sees it.
type taken struct {
	slot    slot
	offset  int64
	durable bool
	format  stream.StateFormat
	entries map[string]stored
	// versions are the handler's versions of what was written.
	versions map[string]uint64
}

// NewWriter begins after a restore. index is what the topic held then, base the
// snapshot that was restored and state the handler's right after it, before any
// record was replayed. base is nil if the handler began empty.
func NewWriter(cfg WriterConfig, index *Index, base *Snapshot, state stream.State) *Writer {
	w := &Writer{
		cfg: cfg, source: index.source, prefix: index.prefix, split: maxPart,
		sections:  make(map[copyOf]int, len(index.sections)),
		tables:    make(map[slot]int, len(index.tables)),
		manifests: make(map[slot]struct{}, len(index.manifests)),
	}
	for k, c := range index.sections {
		w.sections[k] = len(c.parts)
	}
	for k, c := range index.tables {
		w.tables[k] = len(c.parts)
	}
	for k := range index.manifests {
		w.manifests[k] = struct{}{}
	}
	if base == nil {
		return w
	}
	w.base = &taken{
		slot: base.slot, offset: base.offset, durable: true, format: base.format,
		entries: make(map[string]stored, len(base.entries)), versions: make(map[string]uint64),
	}
	for i := range base.entries {
		w.base.entries[base.entries[i].name] = base.entries[i].stored
	}
	// Sections in an older encoding are written anew: a manifest's format is
	// that of all its sections.
	if base.format == state.Format() {
		for _, s := range state.Sections() {
			w.base.versions[s.Name] = s.Version
		}
	}
	return w
}

// Offset is the input offset of the last snapshot that every later owner can
// use; ok is false before there is one.
func (w *Writer) Offset() (offset int64, ok bool) {
	if w.base == nil {
		return 0, false
	}
	return w.base.offset, true
}

// Ready reports whether the next snapshot may begin: the one before has become
// the one to fall back on.
func (w *Writer) Ready() bool { return w.pending == nil }

// Durable notes that all records of the snapshot are durable.
func (w *Writer) Durable() {
	if w.pending != nil {
		w.pending.durable = true
	}
}

// Committed notes that a commit of an offset has succeeded that was sent, or
// whose transaction was ended, after Durable.
func (w *Writer) Committed(offset int64) {
	if w.pending != nil && w.pending.durable && w.pending.offset <= offset {
		w.base, w.pending = w.pending, nil
	}
}

// Abandon gives up a snapshot that was not written to its end. The next one
// begins where it would have.
func (w *Writer) Abandon() { w.pending = nil }

// ErrNotReady is what a snapshot begun too early yields.
var ErrNotReady = errors.New("the snapshot before is not yet one to fall back on")

// Take yields the records of a snapshot of state, which holds all records of the
// input below offset. They are to be sent in this order, and belong to the
// caller. The state must not change meanwhile. Only one section is held at a
// time.
//
// When the iteration stops early or yields an error, the snapshot has to be
// given up with Abandon.
func (w *Writer) Take(state stream.State, offset int64) iter.Seq2[stream.Out, error] {
	return func(yield func(stream.Out, error) bool) {
		if err := w.take(state, offset, func(out stream.Out) bool { return yield(out, nil) }); err != nil && !errors.Is(err, errStopped) {
			yield(stream.Out{}, fmt.Errorf("taking a snapshot of %v at offset %d: %w", w.source, offset, err))
		}
	}
}

var errStopped = errors.New("stopped")

func (w *Writer) take(state stream.State, offset int64, yield func(stream.Out) bool) error {
	sections := state.Sections()
	if err := w.check(sections, offset); err != nil {
		return err
	}
	next := &taken{
		slot: w.free(w.baseSlot()), offset: offset, format: state.Format(),
		entries: make(map[string]stored, len(sections)), versions: make(map[string]uint64, len(sections)),
	}
	w.pending = next
	if err := w.sweep(sections, yield); err != nil {
		return err
	}
	var content, table []byte
	var bytes int64
	for i := range sections {
		s := &sections[i]
		e := entry{name: s.Name}
		var err error
		if unchanged, same := w.unchanged(s, next.format); same {
			e.stored = unchanged
		} else if content, err = state.AppendSection(content[:0], s.Name); err != nil {
			return fmt.Errorf("encoding section %q: %w", s.Name, err)
		} else if e.stored, err = w.section(s.Name, offset, content, yield); err != nil {
			return err
		}
		next.entries[s.Name], next.versions[s.Name] = e.stored, s.Version
		bytes += e.bytes()
		table = appendEntry(table, &e)
	}
	return w.manifest(next, table, bytes, yield)
}

func (w *Writer) check(sections []stream.Section, offset int64) error {
	switch {
	case w.pending != nil:
		return ErrNotReady
	case w.cfg.Origin < 0 || offset < w.cfg.Origin || offset > maxOffset:
		return fmt.Errorf("the state began with offset %d", w.cfg.Origin)
	case w.base != nil && offset < w.base.offset:
		return fmt.Errorf("the snapshot before is at offset %d", w.base.offset)
	case len(sections) > maxSections:
		return fmt.Errorf("%d sections, at most %d can be kept", len(sections), maxSections)
	}
	for i := range sections {
		name := sections[i].Name
		if name == "" || len(name) > maxName || i > 0 && sections[i-1].Name >= name {
			return fmt.Errorf("section names have 1 to %d bytes and ascend: %q", maxName, name)
		}
	}
	return nil
}

func (w *Writer) baseSlot() *slot {
	if w.base == nil {
		return nil
	}
	return &w.base.slot
}

// free is the writer's slot that used does not lie in.
func (w *Writer) free(used *slot) slot {
	if used != nil && *used == (slot{w.cfg.Epoch, 0}) {
		return slot{w.cfg.Epoch, 1}
	}
	return slot{w.cfg.Epoch, 0}
}

// unchanged is where the base has a section's content, if it has it.
func (w *Writer) unchanged(s *stream.Section, format stream.StateFormat) (stored, bool) {
	if w.base == nil || w.base.format != format {
		return stored{}, false
	}
	version, known := w.base.versions[s.Name]
	at, exists := w.base.entries[s.Name]
	return at, known && exists && version == s.Version
}

// sweep removes what the base does not use and this snapshot will not overwrite:
// copies of sections that are gone, and what other writers have left. It is
// repeated after a crash: the index still lists what is left to remove.
//
// It waits for a base of the writer's own. Until then a later owner may choose a
// snapshot of an earlier epoch, and by the time the removals arrive it may have.
func (w *Writer) sweep(sections []stream.Section, yield func(stream.Out) bool) error {
	if w.base == nil || w.base.slot.epoch != w.cfg.Epoch {
		return nil
	}
	var spare []key
	for s := range w.manifests {
		if s.epoch != w.cfg.Epoch {
			spare = append(spare, key{kind: kindManifest, slot: s})
		}
	}
	for s, parts := range w.tables {
		if s.epoch != w.cfg.Epoch {
			for n := range parts {
				spare = append(spare, key{kind: kindTable, slot: s, part: n})
			}
		}
	}
	for c, parts := range w.sections {
		_, live := slices.BinarySearchFunc(sections, c.name, func(s stream.Section, name string) int {
			switch {
			case s.Name < name:
				return -1
			case s.Name > name:
				return 1
			}
			return 0
		})
		if w.uses(c) || live && c.epoch == w.cfg.Epoch {
			continue
		}
		for n := range parts {
			spare = append(spare, key{kind: kindSection, slot: c.slot, part: n, name: c.name})
		}
	}
	// Ordered, so that equal histories write equal bytes.
	slices.SortFunc(spare, compareKeys)
	for _, k := range spare {
		if err := w.remove(k, yield); err != nil {
			return err
		}
	}
	return nil
}

func compareKeys(a, b key) int {
	switch {
	case a.kind != b.kind:
		return int(a.kind) - int(b.kind) // manifests first, then what they speak of
	case a.slot != b.slot:
		if a.slot.less(b.slot) {
			return -1
		}
		return 1
	case a.name != b.name:
		if a.name < b.name {
			return -1
		}
		return 1
	}
	return a.part - b.part
}

func (w *Writer) uses(c copyOf) bool {
	at, exists := w.base.entries[c.name]
	return exists && at.slot == c.slot
}

func (w *Writer) remove(k key, yield func(stream.Out) bool) error {
	if err := w.send(k, nil, yield); err != nil {
		return err
	}
	switch k.kind {
	case kindManifest:
		delete(w.manifests, k.slot)
	case kindTable:
		forget(w.tables, k.slot, k.part)
	case kindSection:
		forget(w.sections, copyOf{k.name, k.slot}, k.part)
	}
	return nil
}

// forget notes that a part is gone. Parts are removed in order, so a copy is
// only forgotten with its last one.
func forget[K comparable](all map[K]int, k K, part int) {
	if part == all[k]-1 {
		delete(all, k)
	}
}

// section writes a section's content to the slot that the base does not use.
func (w *Writer) section(name string, offset int64, content []byte, yield func(stream.Out) bool) (stored, error) {
	if limit := maxParts * w.split; len(content) > limit {
		return stored{}, fmt.Errorf("section %q has %d bytes, at most %d can be kept", name, len(content), limit)
	}
	var used *slot
	if w.base != nil {
		if at, exists := w.base.entries[name]; exists {
			used = &at.slot
		}
	}
	at := stored{slot: w.free(used), taken: offset}
	c := copyOf{name, at.slot}
	var err error
	at.parts, err = w.parts(key{kind: kindSection, slot: at.slot, name: name}, offset, content, w.sections[c], func(parts int) { w.sections[c] = parts }, yield)
	return at, err
}

// parts writes content under a key. If there were more parts before, it removes
// those that remain of them. note is called with how many there may be now.
func (w *Writer) parts(k key, offset int64, content []byte, before int, note func(int), yield func(stream.Out) bool) ([]partSum, error) {
	var sums []partSum
	for {
		chunk := content[:min(len(content), w.split)]
		content = content[len(chunk):]
		k.part = len(sums)
		sums = append(sums, sumOf(chunk))
		note(max(before, len(sums)))
		if err := w.send(k, encodePart(offset, chunk), yield); err != nil {
			return nil, err
		}
		if len(content) == 0 {
			break
		}
	}
	for k.part = len(sums); k.part < before; k.part++ {
		if err := w.send(k, nil, yield); err != nil {
			return nil, err
		}
	}
	note(len(sums))
	return sums, nil
}

// manifest writes the table and, last of all, the trailer.
func (w *Writer) manifest(next *taken, table []byte, bytes int64, yield func(stream.Out) bool) error {
	if limit := maxParts * w.split; len(table) > limit {
		return fmt.Errorf("the table of %d sections has %d bytes, at most %d can be kept", len(next.entries), len(table), limit)
	}
	sums, err := w.parts(key{kind: kindTable, slot: next.slot}, next.offset, table, w.tables[next.slot], func(parts int) { w.tables[next.slot] = parts }, yield)
	if err != nil {
		return err
	}
	w.manifests[next.slot] = struct{}{}
	return w.send(key{kind: kindManifest, slot: next.slot}, encodeTrailer(&trailer{
		source: w.source, slot: next.slot, format: next.format, origin: w.cfg.Origin, offset: next.offset,
		sections: len(next.entries), bytes: bytes, table: sums,
	}), yield)
}

func (w *Writer) send(k key, value []byte, yield func(stream.Out) bool) error {
	if !yield(stream.Out{
		Topic: w.cfg.Topic, Partition: w.cfg.Partition,
		Key: k.append([]byte(w.prefix)), Value: value,
	}) {
		return errStopped
	}
	return nil
}

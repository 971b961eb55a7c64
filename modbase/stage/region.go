package stage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// stretchWidth is how much of a region one document covers: so little that the largest, with a row for each
// position and strand, of up to 60 bytes of JSON, fits a record.
const stretchWidth = 4096

// batchBytes is about how much of its reads a region writes to its snapshot at a time.
const batchBytes = 256 << 10

// overhead is what a read takes in memory besides its bytes.
const overhead = 128

// readKey is that of [align.ReadKey], by which the variant stage reports haplotypes.
type readKey [16]byte

// kept is what is kept of a read: its alignment as differences from the reference, and its packed calls.
type kept struct {
	key         readKey
	start       int32
	end         int32
	ops, bases  int32 // bytes of the data that are operations, and bases behind them; the calls come last
	reverse     bool
	leftOut     bool // beyond the region's memory: only the key is kept
	data        []byte
	batchNumber int32
}

func (k *kept) size() int { return overhead + len(k.data) }

// calls are its packed calls.
func (k *kept) calls() []byte { return k.data[k.ops+k.bases:] }

// batch is reads in the order in which they came; once it is full it stays as it is.
type batch struct {
	reads   []*kept
	bytes   int
	version uint64
}

// region is the reads of one region of a sample, and what was said of them.
type region struct {
	key        regionKey
	contig     []byte
	start, end int // of the core
	limit      int // bytes
	batches    []batch
	seen       map[readKey]*kept
	calls      pileup.Counter // of the reads that aren't left out
	bytes      int
	leftOut    int
	cut        *readKey // reads from this key on are left out
	next       int      // number of reads at which it is evaluated again
	said       map[stretchKey]said
	version    uint64
	complete   int // batches that a state to be restored has
	headed     bool
}

type stretchKey struct {
	start int
	code  string
}

func (k stretchKey) compare(o stretchKey) int {
	return cmp.Or(cmp.Compare(k.start, o.start), cmp.Compare(k.code, o.code))
}

// said is the newest document of a stretch.
type said struct {
	revision uint64
	digest   [8]byte // of what it says
}

func newRegion(key regionKey, contig []byte, limit int) *region {
	r := &region{key: key, contig: contig, limit: limit, seen: make(map[readKey]*kept), next: 1, said: make(map[stretchKey]said), headed: true}
	r.start, r.end = align.RegionBounds(int(key.region), len(contig))
	return r
}

func (h *handler) newRegion(key regionKey, contig []byte) *region {
	return newRegion(key, contig, h.cfg.MaxRegion)
}

// apply takes a segment, and reports whether it is new.
func (r *region) apply(s *streampb.Segment) (changed bool, err error) {
	extent, err := align.Check(s, len(r.contig))
	if err != nil {
		return false, err
	}
	k := &kept{
		key: align.ReadKey(s), start: int32(s.GetStart()), end: int32(s.GetStart()) + int32(extent.Reference), reverse: s.GetReverse(),
		ops: int32(len(s.GetOps())), bases: int32(len(s.GetBases())),
		data: slices.Concat(s.GetOps(), s.GetBases(), s.GetModified()),
	}
	if err := r.calls.Check(s.GetModified(), r.span(k)); err != nil {
		return false, fmt.Errorf("segment of read %s: %w", s.GetReadId(), err)
	}
	if r.seen[k.key] != nil {
		return false, nil
	}
	r.add(k)
	r.enforceLimit()
	return true, nil
}

func (r *region) add(k *kept) {
	n := len(r.batches)
	if n == 0 || r.batches[n-1].bytes >= batchBytes {
		r.batches = append(r.batches, batch{})
		n++
	}
	b := &r.batches[n-1]
	k.batchNumber = int32(n - 1)
	b.reads = append(b.reads, k)
	b.bytes += k.size()
	b.version++
	r.enter(k)
	r.version++
}

// enter counts a read that a batch has, whose calls are those that were checked last.
func (r *region) enter(k *kept) {
	r.seen[k.key] = k
	if k.leftOut || r.cut != nil && bytes.Compare(k.key[:], r.cut[:]) >= 0 {
		r.leave(k)
	} else {
		r.calls.CountChecked(1)
	}
	r.bytes += k.size()
}

// leave lets go of what a read says.
func (r *region) leave(k *kept) {
	k.leftOut, k.data, k.ops, k.bases = true, nil, 0, 0
	r.leftOut++
	if r.cut == nil || bytes.Compare(k.key[:], r.cut[:]) < 0 {
		key := k.key
		r.cut = &key
	}
}

// enforceLimit leaves reads out until the others fit into the memory limit: those of the highest keys, which are
// hashes. So which they are is a function of the set of reads.
func (r *region) enforceLimit() {
	for r.bytes-r.leftOut*overhead > r.limit {
		var last *kept
		for _, k := range r.seen {
			if !k.leftOut && (last == nil || bytes.Compare(k.key[:], last.key[:]) > 0) {
				last = k
			}
		}
		r.bytes -= len(last.data)
		_ = r.calls.Count(last.calls(), r.span(last), -1) // that they are whole was checked as they came
		r.leave(last)
		r.batches[last.batchNumber].version++
		r.version++
	}
}

// span is the positions of the core that a read's calls are of.
func (r *region) span(k *kept) pileup.Span {
	return pileup.Span{Origin: int(k.start), Start: max(r.start, int(k.start)), End: min(r.end, int(k.end))}
}

// due reports whether so many reads have come that the region is to be evaluated: the first one, and whenever
// they have doubled.
func (r *region) due() bool { return len(r.seen) >= r.next }

// read makes a read of what is kept of it.
func (r *region) read(k *kept, group int, thresholds *pileup.Thresholds) (*pileup.Read, error) {
	return pileup.Unpack(pileup.Segment{
		Group: group, Start: int(k.start), End: int(k.end), Reverse: k.reverse, Ops: k.data[:k.ops], Bases: k.data[k.ops : k.ops+k.bases], Contig: r.contig,
	}, k.calls(), r.span(k), thresholds)
}

// evaluate counts the region's reads, and has emit take the stretches whose counts differ from those published
// before, and their records. They come by position and code.
func (r *region) evaluate(run, status string, thresholds *pileup.Thresholds, topic string, emit func(*methylation.Stretch, stream.Out) error) error {
	r.next = 2 * max(1, len(r.seen))
	r.version++
	publisher := newPublisher(r, r.said, run, status, thresholds, topic, emit)
	if err := r.pile(thresholds, 1, together, publisher.row); err != nil {
		return err
	}
	return publisher.to(r.end)
}

// together has all reads be of one group.
func together(*kept) int { return 0 }

// pile counts the region's reads by group; rows come by position, strand, group and modification.
func (r *region) pile(thresholds *pileup.Thresholds, groups int, group func(*kept) int, emit func(*pileup.Row) error) error {
	reads := make([]*kept, 0, len(r.seen))
	for i := range r.batches {
		for _, k := range r.batches[i].reads {
			if !k.leftOut {
				reads = append(reads, k)
			}
		}
	}
	slices.SortFunc(reads, func(a, b *kept) int {
		return cmp.Or(cmp.Compare(a.start, b.start), bytes.Compare(a.key[:], b.key[:]))
	})
	pile := pileup.NewPile(pileup.Config{Groups: groups, Spans: [][2]int{{r.start, r.end}}}, emit)
	for _, k := range reads {
		rd, err := r.read(k, group(k), thresholds)
		if err != nil {
			return err
		}
		if err := pile.Add(rd); err != nil && !errors.Is(err, modbase.ErrKinds) {
			return err
		}
	}
	return pile.Finish()
}

// named are thresholds as documents have them.
func named(thresholds *pileup.Thresholds) map[string]float64 {
	all := make(map[string]float64)
	for i, t := range thresholds {
		if t > 0 {
			all["ACGT"[i:i+1]] = float64(t) / pileup.Units
		}
	}
	return all
}

// publisher makes rows documents, stretch by stretch.
type publisher struct {
	r        *region
	topic    string
	emit     func(*methylation.Stretch, stream.Out) error
	at       int // where the stretch begins
	document methylation.Stretch
	encoder  methylation.Encoder
	before   map[stretchKey]said
	said     map[int][]string // codes of which something was said, by where stretches begin
	sets     map[int][]int64  // of the haplotype's reads, likewise
	sites    []*sites         // of the stretch, by code
	free     []*sites
}

// sites are those of one code in a stretch.
type sites struct {
	of   modbase.Code
	code string
	methylation.Sites
}

func newPublisher(r *region, before map[stretchKey]said, run, status string, thresholds *pileup.Thresholds, topic string, emit func(*methylation.Stretch, stream.Out) error) *publisher {
	t := &publisher{r: r, topic: topic, emit: emit, at: r.start, before: before, said: make(map[int][]string), document: methylation.Stretch{
		SchemaVersion: methylation.SchemaVersion, Run: run, Sample: r.key.sample, Status: status, Thresholds: named(thresholds), LeftOut: r.leftOut,
	}}
	for key := range before {
		t.said[key.start] = append(t.said[key.start], key.code)
	}
	return t
}

func (t *publisher) row(row *pileup.Row) error {
	if err := t.to(row.Pos); err != nil {
		return err
	}
	for _, s := range t.sites {
		if s.of == row.Code {
			s.Add(row)
			return nil
		}
	}
	t.of(row.Code, row.Code.String()).Add(row)
	return nil
}

// of are new sites of the stretch.
func (t *publisher) of(of modbase.Code, code string) *sites {
	var s *sites
	if n := len(t.free); n > 0 {
		s, t.free = t.free[n-1], t.free[:n-1]
		s.Reset()
	} else {
		s = &sites{Sites: methylation.NewSites()}
	}
	s.of, s.code = of, code
	t.sites = append(t.sites, s)
	return s
}

// to publishes the stretches that end at or before a position.
func (t *publisher) to(pos int) error {
	for t.at < t.r.end && min(t.at+stretchWidth, t.r.end) <= pos {
		if err := t.finish(); err != nil {
			return err
		}
		t.at += stretchWidth
	}
	return nil
}

// finish publishes the stretch, also for codes that it no longer has.
func (t *publisher) finish() error {
	for _, code := range t.said[t.at] {
		if !slices.ContainsFunc(t.sites, func(s *sites) bool { return s.code == code }) {
			t.of(0, code)
		}
	}
	slices.SortFunc(t.sites, func(a, b *sites) int { return cmp.Compare(a.code, b.code) })
	for _, s := range t.sites {
		if err := t.publish(s); err != nil {
			return err
		}
	}
	t.free, t.sites = append(t.free, t.sites...), t.sites[:0]
	return nil
}

// publish publishes the sites of a code if they differ from those published before. The run and
// the revision don't count as a difference.
func (t *publisher) publish(s *sites) error {
	doc := &t.document
	doc.Stretch = event.Stretch{Contig: t.r.key.contig, Pos: int64(t.at) + 1, End: int64(min(t.at+stretchWidth, t.r.end))}
	doc.Code, doc.PhaseSets, doc.Sites = s.code, t.sets[t.at], s.Sites
	sum, err := t.encoder.Digest(doc)
	if err != nil {
		return err
	}
	key := stretchKey{t.at, s.code}
	before := t.before[key]
	digest := [8]byte(sum[:8])
	if before.revision > 0 && before.digest == digest {
		return nil
	}
	doc.Revision = before.revision + 1
	t.before[key] = said{doc.Revision, digest}
	return t.emit(doc, t.encoder.Record(doc, t.topic))
}

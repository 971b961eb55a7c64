package pipeline

import (
	"cmp"
	"maps"
	"slices"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// newest has the newest revision of each thing that a topic has, by key. Of one that isn't wanted it keeps no more than its revision, and whose it is: a topic of
// many samples needn't fit in memory for a file of one.
type newest[T any] struct {
	latest   map[string]*T
	withheld map[string]bool // keys of those of latest that aren't wanted
}

func makeNewest[T any]() newest[T] {
	return newest[T]{latest: make(map[string]*T), withheld: make(map[string]bool)}
}

func (n *newest[T]) keep(key []byte, v *T) {
	n.latest[string(key)] = v
	delete(n.withheld, string(key))
}

func (n *newest[T]) withhold(key []byte, bare *T) {
	n.latest[string(key)] = bare
	n.withheld[string(key)] = true
}

// listed calls yield with those that are wanted.
func (n *newest[T]) listed(yield func(*T) bool) {
	for key, v := range n.latest {
		if !n.withheld[key] && !yield(v) {
			return
		}
	}
}

// Fold is the state of a variants topic as a consumer sees it: the newest
// revision of every allele, and which runs have ended. It is a pure function of
// the records added, whatever order the partitions come in and however often a
// record is delivered.
type Fold struct {
	runEnds
	newest[event.Variant]
	references references
}

// NewFold returns the state of an empty topic with a number of partitions.
func NewFold(partitions int32) *Fold {
	return &Fold{runEnds: newRunEnds(partitions), newest: makeNewest[event.Variant](), references: make(references)}
}

// Add takes one record and returns the revision that it brings, or nil when it
// brings none: it is older than what is known, a marker, or an event of a kind
// this program doesn't know.
func (f *Fold) Add(rec stream.Record) (*event.Variant, error) {
	v, end, err := event.Decode(rec)
	switch {
	case err != nil:
		return nil, err
	case end != nil:
		f.add(rec.Partition, end)
	case v != nil:
		known := f.latest[string(rec.Key)]
		if known == nil || v.Revision > known.Revision {
			f.keep(rec.Key, v)
			return v, nil
		}
	default:
		return nil, f.references.add(rec)
	}
	return nil, nil
}

// Withhold takes a variant, or an event of places without one, that isn't wanted: neither it nor its older revisions are listed, until a newer one is added.
func (f *Fold) Withhold(rec stream.Record) error {
	ref, err := event.DecodeReference(rec)
	if ref != nil {
		f.references.put(ref, rec, true)
	}
	if err != nil || event.TypeOf(rec) != event.TypeVariant {
		return err
	}
	v, err := f.Add(rec)
	if v != nil {
		f.withhold(rec.Key, &event.Variant{Sample: v.Sample, Revision: v.Revision})
	}
	return err
}

// Samples lists the samples that have a call, or a record about places without a call, sorted.
func (f *Fold) Samples() []string {
	var samples []string
	for v := range f.listed {
		samples = append(samples, v.Sample)
	}
	for place, ref := range f.references {
		if !ref.withheld {
			samples = append(samples, place.sample)
		}
	}
	slices.Sort(samples)
	return slices.Compact(samples)
}

// Shown lists the samples of which reads were seen, sorted: they have a call, or a record about places
// without one shows reads. A sample with nothing but reads that cover little may be missing.
func (f *Fold) Shown() []string {
	shown := make(map[string]bool)
	for _, v := range f.latest {
		shown[v.Sample] = true
	}
	for place, ref := range f.references {
		shown[place.sample] = shown[place.sample] || ref.read
	}
	maps.DeleteFunc(shown, func(_ string, read bool) bool { return !read })
	return slices.Sorted(maps.Keys(shown))
}

// Variants lists the newest revisions of a sample that are not retracted, by
// position, with contigs in the order that rank gives.
func (f *Fold) Variants(sample string, rank func(contig string) int) []*event.Variant {
	return f.sorted(rank, func(v *event.Variant) bool { return v.Sample == sample })
}

// sorted lists those that are wanted, as Variants does.
func (f *Fold) sorted(rank func(contig string) int, wanted func(*event.Variant) bool) []*event.Variant {
	var list []*event.Variant
	for v := range f.listed {
		if wanted(v) && v.Status != streampb.CallStatus_RETRACTED.String() {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b *event.Variant) int {
		return cmp.Or(
			cmp.Compare(rank(a.Allele.Contig), rank(b.Allele.Contig)),
			cmp.Compare(a.Allele.Pos, b.Allele.Pos),
			cmp.Compare(a.Allele.Ref, b.Allele.Ref),
			cmp.Compare(a.Allele.Alt, b.Allele.Alt),
		)
	})
	return list
}

// passed counts the variants of the runs' samples that passed all filters. The
// topic may hold other samples.
func (f *Fold) passed(runs []*streampb.Run) int64 {
	var n int64
	for _, v := range f.latest {
		if ofRuns(v, runs) && v.Passed() {
			n++
		}
	}
	return n
}

// ofRuns reports whether a variant is of a sample of the runs.
func ofRuns(v *event.Variant, runs []*streampb.Run) bool {
	return slices.ContainsFunc(runs, func(r *streampb.Run) bool { return slices.Contains(stream.SamplesOf(r), v.Sample) })
}

// motifs sums up what the runs' samples say of motifs that reads of one strand get wrong.
func (f *Fold) motifs(runs []*streampb.Run) []event.MotifCount {
	var counts event.MotifCounts
	for _, v := range f.latest {
		if ofRuns(v, runs) {
			counts.Add(v.Sample, v.Allele, v.Call.Motif, v.Status)
		}
	}
	return counts.List()
}

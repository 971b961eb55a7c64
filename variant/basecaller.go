package variant

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/packed"
	"github.com/porestream/porestream/stream/streampb"
)

// How far a network can be believed depends on the basecalling model of the reads.
//
// Problem: a network was trained on, and its qualities were calibrated for, the reads of some
// basecalling models; on others it may be confidently wrong, and nothing in a call shows it.
//
// Strategy: a region counts its segments by the model that has called their read. The counts
// decide which of the network's suits scores the region: the one that fits most of its segments.
// They also show which of the models the network was not made for; each call names these.
//
// Consequences: counts are sums over the set of segments, so what is final depends on neither
// order nor partitions. For a sample that mixes models, the suit is chosen region by region.

// Suit is what a network has for the reads of some basecalling models.
type Suit struct {
	Name    string
	Matches func(model string) bool
	Network Network     // scores alleles of these reads
	Errors  *ErrorRates // what is expected of them; nil: the usual
}

// Suited is a Network that says whose reads it was made for.
type Suited interface {
	Network
	// Suits lists what it has, the first that matches a model being that model's; none: it
	// doesn't say.
	Suits() []Suit
}

// mismatchShare is the part of a region's segments that a basecalling model must have called
// to be named in the region's calls: fewer change nothing.
const mismatchShare = 0.05

// Basecallers are the basecalling models that are known by name, and what a network has for
// each. Safe for concurrent use. Nil knows none.
type Basecallers struct {
	network string // what the variant model is called in errors
	suits   []Suit

	mu    sync.RWMutex
	known map[uint32]basecaller
}

type basecaller struct {
	name string
	suit int // in suits; negative: none
}

// NewBasecallers knows no model yet. A network that isn't Suited says of none that it was
// made for it, nor that it wasn't.
func NewBasecallers(network Network, name string) *Basecallers {
	b := &Basecallers{network: name, known: make(map[uint32]basecaller)}
	if s, ok := network.(Suited); ok {
		b.suits = s.Suits()
	}
	return b
}

// HasSuits reports whether the network states for which models' reads it was made.
func (b *Basecallers) HasSuits() bool { return b != nil && len(b.suits) > 0 }

// Add takes a name, and returns its number in segments. Empty is 0.
func (b *Basecallers) Add(name string) uint32 {
	number := stream.ModelNumber(name)
	if number == 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.known[number]; !known {
		b.known[number] = basecaller{name, slices.IndexFunc(b.suits, func(s Suit) bool { return s.Matches(name) })}
	}
	return number
}

// Has reports whether the name of a number was added.
func (b *Basecallers) Has(number uint32) bool {
	_, ok := b.of(number)
	return ok
}

// Len is the number of names.
func (b *Basecallers) Len() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.known)
}

// Names are the names that were added, in their order.
func (b *Basecallers) Names() []string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	names := make([]string, 0, len(b.known))
	for _, k := range b.known {
		names = append(names, k.name)
	}
	slices.Sort(names)
	return names
}

func (b *Basecallers) of(number uint32) (basecaller, bool) {
	if b == nil || number == 0 {
		return basecaller{}, false
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	k, ok := b.known[number]
	return k, ok
}

// Match is how a network and the model that has called a read go together.
type Match int

// The matches. Without a network that states its models, all are Unnamed or Undeclared.
const (
	Undeclared Match = iota // the network doesn't state for which models' reads it was made
	Unnamed                 // nobody has named the read's model
	Matched                 // the network was made for it
	Mismatched              // it was not
)

// String is the match's name in metrics.
func (m Match) String() string {
	return [...]string{"untold", "unnamed", "matched", "mismatched"}[m]
}

// Match says how the network goes with a read whose segment has a number.
func (b *Basecallers) Match(number uint32) Match {
	k, ok := b.of(number)
	switch {
	case !b.HasSuits():
		return Undeclared
	case !ok:
		return Unnamed
	case k.suit < 0:
		return Mismatched
	}
	return Matched
}

// matchName is Match of the model of a name, whether or not that was added.
func (b *Basecallers) matchName(name string) Match {
	switch {
	case !b.HasSuits():
		return Undeclared
	case stream.ModelNumber(name) == 0:
		return Unnamed
	case !slices.ContainsFunc(b.suits, func(s Suit) bool { return s.Matches(name) }):
		return Mismatched
	}
	return Matched
}

// Name is the name of a number; empty if it wasn't added.
func (b *Basecallers) Name(number uint32) string {
	k, _ := b.of(number)
	return k.name
}

// ErrModelMismatch is that of reads which a variant model was not made for.
var ErrModelMismatch = errors.New("the variant model was not made for these reads")

// Refuse is the error of reads of a basecalling model (empty: nobody has named it) that the
// network was not made for; nil if it was.
func (b *Basecallers) Refuse(name string) error {
	switch b.matchName(name) {
	case Unnamed:
		return fmt.Errorf("%w: no basecalling model is named for them, and %s is for those of %s: say which it was (--called-by), or go on without --strict-models",
			ErrModelMismatch, b.network, b.have())
	case Mismatched:
		return fmt.Errorf("%w: %s has called them, and %s is for those of %s: give a variant model that is for them (--variant-model), call them with one of these, or go on without --strict-models, and calls say ModelMismatch",
			ErrModelMismatch, name, b.network, b.have())
	}
	return nil
}

// have is a list of the suits for people.
func (b *Basecallers) have() string {
	text := ""
	for i, s := range b.suits {
		if i > 0 {
			text += ", "
		}
		text += s.Name
	}
	return text
}

// modelCounts is a region's segments by the model that has called their reads.
type modelCounts map[uint32]modelCount

type modelCount struct {
	segments uint64
	reads    uint64 // of these, primary ones of reads that begin in the core
}

// add counts a segment of a region whose core begins at start.
func (c modelCounts) add(s *streampb.Segment, start int) {
	n := c[s.GetModel()]
	n.segments++
	if !s.GetSupplementary() && s.GetStart() >= int64(start) {
		n.reads++
	}
	c[s.GetModel()] = n
}

// append writes the counts, by number.
func (c modelCounts) append(b []byte) []byte {
	b = packed.AppendLen(b, len(c))
	for _, number := range slices.Sorted(maps.Keys(c)) {
		n := c[number]
		b = packed.AppendUint(packed.AppendUint(packed.AppendUint(b, number), n.segments), n.reads)
	}
	return b
}

// restore reads what append wrote.
func (c modelCounts) restore(in *packed.Reader) {
	last := int64(-1)
	for range in.Count(3) {
		number := in.Uint(1<<32 - 1)
		n := modelCount{segments: in.Uint(maxReads), reads: in.Uint(maxReads)}
		if int64(number) <= last || n.segments == 0 || n.reads > n.segments {
			in.Fail("basecalling model %d with %d segments of %d reads", number, n.segments, n.reads)
			return
		}
		last = int64(number)
		c[uint32(number)] = n
	}
}

// ModelReads is how many reads one basecalling model has called.
type ModelReads struct {
	Name  string // empty: nobody has named it
	Reads uint64
	Match Match
}

// Models lists the basecalling models of the reads that begin in the region, by name.
// The counts depend on the set of segments alone.
func (r *Region) Models() []ModelReads {
	sums := make(map[string]ModelReads)
	for number, n := range r.models {
		k, _ := r.cfg.Basecallers.of(number)
		m := sums[k.name]
		m.Name, m.Match = k.name, r.cfg.Basecallers.Match(number)
		m.Reads += n.reads
		sums[k.name] = m
	}
	return slices.SortedFunc(maps.Values(sums), func(a, b ModelReads) int { return cmp.Compare(a.Name, b.Name) })
}

// fitting is what scores a region's alleles, and the models that its calls name as not fitting.
type fitting struct {
	network  Network
	errors   *ErrorRates
	mismatch []string // basecalling models that the network wasn't made for, the most frequent first
}

// fit chooses the network and the error rates for the region as it is.
func (r *Region) fit() fitting {
	f := fitting{network: r.cfg.Network, errors: r.cfg.Errors}
	b := r.cfg.Basecallers
	if !b.HasSuits() {
		return f
	}
	type stranger struct {
		name     string
		segments uint64
	}
	var strangers []stranger
	total := uint64(0)
	votes := make([]uint64, len(b.suits))
	for number, n := range r.models {
		total += n.segments
		switch k, ok := b.of(number); {
		case !ok:
		case k.suit < 0:
			strangers = append(strangers, stranger{k.name, n.segments})
		default:
			votes[k.suit] += n.segments
		}
	}
	best := 0
	for i, n := range votes {
		if n > votes[best] {
			best = i
		}
	}
	if votes[best] > 0 {
		f.network, f.errors = b.suits[best].Network, b.suits[best].Errors
	}
	slices.SortFunc(strangers, func(a, b stranger) int {
		return cmp.Or(cmp.Compare(b.segments, a.segments), cmp.Compare(a.name, b.name))
	})
	for _, s := range strangers {
		if float64(s.segments) >= mismatchShare*float64(total) {
			f.mismatch = append(f.mismatch, s.name)
		}
	}
	return f
}

// errorModel is that of the region's reads.
func (r *Region) errorModel() *errorModel { return r.counted().model(r.fit().errors) }

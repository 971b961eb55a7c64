package demux

// Unclassified is what reads are called whose barcode wasn't found.
const Unclassified = "unclassified"

// Reason says why a read has no barcode.
type Reason uint8

// The reasons.
const (
	Found         Reason = iota // it has one
	NoBarcode                   // none is near enough to any
	Ambiguous                   // a second barcode is nearly as near
	FarFromEnd                  // the barcode is too far from the read's end
	EndsDisagree                // front and rear have different barcodes
	OneEnd                      // it is asked for at both ends and there only at one
	Midstrand                   // there are flanks amid the read: it is two reads
	SecondBarcode               // another barcode stands right beside the first
	NoInner                     // it has an outer barcode, but no inner one
	UnlistedPair                // it has both, but no sample has the two together
)

// Reasons are the names of the reasons, for counts.
var Reasons = [...]string{"found", "no_barcode", "ambiguous", "far_from_end", "ends_disagree", "one_end", "midstrand",
	"second_barcode", "no_inner_barcode", "unlisted_pair"}

// String returns the reason's name.
func (r Reason) String() string { return Reasons[r] }

// Classification is what the ends of a read say of its barcode.
type Classification struct {
	// Barcode is its index among those of [Classifier.Barcodes], -1 if there is none.
	Barcode int
	Reason  Reason
	// Penalty is the best barcode's edit distance, Margin how much greater that of
	// the second best is, also where none is found.
	Penalty, Margin int
	// Score is 1 less Penalty by the length of what was compared.
	Score       float64
	Front, Rear End
	// Inner is what was found behind the outer barcode, with places in the whole read: of
	// kits with two barcodes, whose other fields describe the outer one; nil without one.
	Inner *Classification
}

// Uncut returns the classification of a read that keeps its barcodes.
func (c Classification) Uncut() Classification {
	c.Front.Counts, c.Rear.Counts, c.Inner = false, false, nil
	return c
}

// End is what was found at one end of a read.
type End struct {
	// Barcode is the index of the best barcode there, -1 if that end isn't searched.
	Barcode    int
	Penalty    int
	Score      float64 // of the barcode
	FlankScore float64
	// Start and End are where flanks and barcode lie in the read, [Start, End).
	Start, End int
	// Counts says that it is the barcode of the classification and near enough: it
	// is to be cut off.
	Counts bool
}

// Classifier finds the barcodes of one kit. It is safe for concurrent use.
type Classifier struct {
	kit      Kit
	bothEnds bool
	// one and two are what stands at the front and at the rear of a molecule. A read
	// of its other strand has them the other way round.
	one, two  construct
	different bool
	// inner finds the inner barcodes of a kit that has them, and pairs are the numbers of
	// outer and inner barcodes that go together.
	inner *Classifier
	pairs map[[2]int]int
	names []string
}

// construct is one end's flanks and barcodes, ready for the search.
type construct struct {
	mask     probe // flanks with N in the barcode's place
	flanks   int   // bases that are not N
	outer    int   // bases before the barcode
	barcode  int   // bases of a barcode
	barcodes []*pattern
}

// NewClassifier returns a classifier for a kit. With bothEnds a barcode counts only if
// it is at both ends; the kit must have one there.
func NewClassifier(kit Kit, bothEnds bool) *Classifier {
	c := &Classifier{kit: kit, bothEnds: bothEnds, names: kit.names()}
	sequences := [2][]string{}
	for _, b := range kit.Barcodes {
		sequences[0] = append(sequences[0], b.Front)
		sequences[1] = append(sequences[1], b.Rear)
	}
	c.one = newConstruct(kit.Front, sequences[0], kit.Scoring)
	c.two = newConstruct(kit.Rear, sequences[1], kit.Scoring)
	c.different = kit.AtFront && kit.AtRear && kit.Front != kit.Rear
	if kit.Inner != nil {
		inner := *kit.Inner
		// Where the outer barcode of an end isn't recognised it stands before the inner one.
		outer := max(c.one.mask.forward.length, c.two.mask.forward.length)
		inner.Scoring.BarcodeEndProximity += outer
		inner.Scoring.FrontBarcodeWindow += outer
		inner.Scoring.RearBarcodeWindow += outer
		c.inner, c.pairs = NewClassifier(inner, bothEnds), make(map[[2]int]int)
		for i, name := range c.names {
			c.pairs[kit.pair(name)] = i
		}
	}
	return c
}

// Barcodes are what barcodes are called, barcode07, by the numbers of classifications; pairs
// of an outer and an inner one barcode07_02. They are not to be changed.
func (c *Classifier) Barcodes() []string { return c.names }

// Name returns what a classification is called in outputs: kit and barcode, or both kits
// and the pair.
func (c *Classifier) Name(barcode int) string {
	switch {
	case barcode < 0:
		return Unclassified
	case c.inner != nil:
		return c.kit.Name + "_" + c.inner.kit.Name + "_" + c.names[barcode]
	}
	return c.kit.Name + "_" + c.names[barcode]
}

func newConstruct(flanks Flanks, barcodes []string, s Scoring) construct {
	n := len(barcodes[0])
	k := construct{flanks: len(flanks.Outer) + len(flanks.Inner), outer: len(flanks.Outer), barcode: n}
	mask := make([]byte, n)
	for i := range mask {
		mask[i] = 'N'
	}
	k.mask = newProbe(flanks.Outer + string(mask) + flanks.Inner)
	left := flanks.Outer[max(0, len(flanks.Outer)-s.FlankLeftPad):]
	right := flanks.Inner[:min(len(flanks.Inner), s.FlankRightPad)]
	for _, b := range barcodes {
		k.barcodes = append(k.barcodes, newPattern(left+b+right))
	}
	return k
}

// slack is by how many bases to both sides the search for a barcode extends the place that
// the flanks give, because of insertions and deletions between.
const slack = 8

// place is where a construct's flanks lie in a window.
type place struct {
	*construct
	window []byte
	match
	score float64 // of the flanks
}

func (k *construct) locate(window []byte) place {
	m := k.mask.find(window)
	return place{construct: k, window: window, match: m, score: max(0, 1-float64(m.distance)/float64(k.flanks))}
}

// secondFlankScore is the score of flanks from which a second barcode beside the first is
// examined: flanks that were ligated to others lack the bases of the sequencing adapter.
const secondFlankScore = 0.6

// beside searches for a further barcode right before and right behind a place in a text, which
// runs from the read's end inwards. It reports whether there is another than the given one, and
// where the last one ends that is the same.
func (p *place) beside(text []byte, barcode int, s Scoring, buffer []int) (other bool, end int) {
	reach := p.mask.forward.length + 2*slack
	end = p.match.end
	for _, part := range [2]Interval{{end, min(len(text), end+reach)}, {max(0, p.start-reach), p.start}} {
		second := p.locate(text[part.Start:part.End])
		if second.score < max(secondFlankScore, s.MinFlankScore) {
			continue
		}
		penalties := second.penalties(s, buffer[:0])
		best, margin := least(penalties)
		switch {
		case penalties[best] > s.MaxBarcodePenalty || margin < s.MinBarcodePenaltyDist:
		case best != barcode:
			return true, end
		default:
			end = max(end, part.Start+second.match.end)
		}
	}
	return false, end
}

// least returns the first least penalty, and by how much the second least is greater.
func least(penalties []int) (best, margin int) {
	const none = 1 << 30
	second := none
	for i, penalty := range penalties {
		switch {
		case i == 0:
		case penalty < penalties[best]:
			second, best = penalties[best], i
		default:
			second = min(second, penalty)
		}
	}
	return best, second - penalties[best]
}

// penalties appends the edit distance of each barcode at a place to dst.
func (p *place) penalties(s Scoring, dst []int) []int {
	barcode := p.start + p.outer
	from := max(0, barcode-s.FlankLeftPad-slack)
	to := min(len(p.window), barcode+p.barcode+s.FlankRightPad+slack)
	for _, b := range p.barcodes {
		penalty, _ := b.infix(p.window[min(from, to):to])
		dst = append(dst, penalty)
	}
	return dst
}

// Classify finds the barcode of a read, which is upper-case ACGT; of a kit with an outer and
// an inner barcode both, the inner one in what the outer one leaves of the read.
func (c *Classifier) Classify(sequence []byte) Classification {
	found := c.classify(sequence)
	if c.inner == nil || found.Reason != Found {
		return found
	}
	rest := Interval{0, len(sequence)}
	if found.Front.Counts {
		rest.Start = found.Front.End
	}
	if found.Rear.Counts {
		rest.End = found.Rear.Start
	}
	inner := Classification{Barcode: -1, Reason: NoBarcode, Front: End{Barcode: -1}, Rear: End{Barcode: -1}}
	if rest.Start < rest.End {
		inner = c.inner.classify(sequence[rest.Start:rest.End])
		for _, e := range []*End{&inner.Front, &inner.Rear} {
			if e.Barcode >= 0 {
				e.Start, e.End = e.Start+rest.Start, e.End+rest.Start
			}
		}
	}
	pair, listed := c.pairs[[2]int{found.Barcode, inner.Barcode}]
	switch {
	case inner.Reason != Found:
		found.Reason = NoInner
	case !listed:
		found.Reason = UnlistedPair
	default:
		found.Barcode, found.Inner = pair, &inner
		return found
	}
	found = found.Uncut()
	inner = inner.Uncut()
	found.Barcode, found.Inner = -1, &inner
	return found
}

// classify finds one barcode.
//
// The flanks show where in a window at each end of the read the barcode is. For a kit with
// different flanks they also show the read's strand: that on which the better of both ends
// is best. Each barcode is compared at that place. The best one must be near (or far nearer
// than the second best), and near the end of the read; the other end must not have a
// different barcode.
func (c *Classifier) classify(sequence []byte) Classification {
	s := c.kit.Scoring
	var front, rear place
	var buffer [512]byte
	fromEnd := appendReverseComplement(buffer[:0], sequence[max(0, len(sequence)-s.RearBarcodeWindow-maxPattern-2*slack):])
	tail := fromEnd[:min(len(fromEnd), s.RearBarcodeWindow)]
	head := sequence[:min(len(sequence), s.FrontBarcodeWindow)]
	if c.kit.AtFront {
		front = c.one.locate(head)
	}
	if c.kit.AtRear {
		rear = c.two.locate(tail)
	}
	if c.different {
		otherFront, otherRear := c.two.locate(head), c.one.locate(tail)
		if betterEnds(otherFront, otherRear, front, rear) {
			front, rear = otherFront, otherRear
		}
	}
	var buffers [2][128]int
	result := Classification{Barcode: -1, Front: End{Barcode: -1}, Rear: End{Barcode: -1}}
	var frontPenalties, rearPenalties []int
	if c.kit.AtFront {
		frontPenalties = front.penalties(s, buffers[0][:0])
		result.Front = front.end(frontPenalties)
	}
	if c.kit.AtRear {
		rearPenalties = rear.penalties(s, buffers[1][:0])
		result.Rear = rear.end(rearPenalties)
		n := len(sequence)
		result.Rear.Start, result.Rear.End = n-result.Rear.End, n-result.Rear.Start
	}
	best, at := c.decide(&result, frontPenalties, rearPenalties)
	end, where, distanceToEnd := &result.Front, &front, result.Front.Start
	if at == atRear {
		end, where, distanceToEnd = &result.Rear, &rear, len(sequence)-result.Rear.End
	}
	result.Score = max(0, 1-float64(result.Penalty)/float64(where.barcodes[best].length))
	result.Reason = c.assess(&result, best, end, distanceToEnd)
	if result.Reason == Found && c.midstrand(sequence) {
		result.Reason = Midstrand
	}
	if result.Reason != Found {
		return result
	}
	end.Counts = true
	for _, other := range []*End{&result.Front, &result.Rear} {
		if other.Barcode == best && other.Penalty <= s.MaxBarcodePenalty && other.FlankScore >= s.MinFlankScore {
			other.Counts = true
		}
	}
	if result.Front.Counts {
		another, last := front.beside(sequence, best, s, buffers[0][:0])
		if result.Front.End = last; another {
			result.Reason = SecondBarcode
		}
	}
	if result.Rear.Counts {
		another, last := rear.beside(fromEnd, best, s, buffers[1][:0])
		if result.Rear.Start = len(sequence) - last; another {
			result.Reason = SecondBarcode
		}
	}
	if result.Reason != Found {
		return result.Uncut()
	}
	result.Barcode = best
	return result
}

// betterEnds reports whether the ends a, b fit better than c, d: by the better of both,
// and if these are alike by the other.
func betterEnds(a, b, c, d place) bool {
	ab, cd := max(a.score, b.score), max(c.score, d.score)
	if ab != cd {
		return ab > cd
	}
	return min(a.score, b.score) > min(c.score, d.score)
}

const (
	atFront = iota
	atRear
)

// decide finds the best barcode by the lower of its penalties at both ends, and which
// end that is; of equal ones the first, and the front. It notes penalty and margin.
func (c *Classifier) decide(result *Classification, front, rear []int) (best, at int) {
	const none = 1 << 30
	lowest, second := none, none
	for i := range c.kit.Barcodes {
		penalty, where := none, atFront
		if front != nil {
			penalty = front[i]
		}
		if rear != nil && rear[i] < penalty {
			penalty, where = rear[i], atRear
		}
		switch {
		case penalty < lowest:
			lowest, second, best, at = penalty, lowest, i, where
		case penalty < second:
			second = penalty
		}
	}
	result.Penalty, result.Margin = lowest, none
	if second < none {
		result.Margin = second - lowest
	}
	return best, at
}

// outerFlankScore is the score of flanks from which the outer barcode of an end can speak against
// that of the other end. Kits share sequences, so where the outer barcode is missing, the inner
// one resembles another outer one, but not its flanks.
const outerFlankScore = 0.7

// assess applies the rules to the best barcode.
func (c *Classifier) assess(r *Classification, best int, end *End, distanceToEnd int) Reason {
	s := c.kit.Scoring
	near := r.Penalty <= s.MaxBarcodePenalty
	switch {
	case near && end.FlankScore < s.MinFlankScore:
		return NoBarcode
	case near && r.Margin < s.MinBarcodePenaltyDist:
		return Ambiguous
	case !near && r.Margin < s.MinSeparationOnlyDist:
		return NoBarcode
	case distanceToEnd > s.BarcodeEndProximity:
		return FarFromEnd
	}
	if !c.kit.AtFront || !c.kit.AtRear {
		return Found
	}
	for _, e := range []End{r.Front, r.Rear} {
		if e.Barcode != best && e.Penalty <= s.MaxBarcodePenalty && (c.inner == nil || e.FlankScore >= outerFlankScore) {
			return EndsDisagree
		}
	}
	if c.bothEnds {
		for _, e := range []End{r.Front, r.Rear} {
			if e.Barcode != best || e.Penalty > s.MaxBarcodePenalty {
				return OneEnd
			}
		}
	}
	return Found
}

// end sums up a place.
func (p *place) end(penalties []int) End {
	e := End{FlankScore: p.score, Start: p.match.start, End: p.match.end}
	for i, penalty := range penalties {
		if i == 0 || penalty < e.Penalty {
			e.Barcode, e.Penalty = i, penalty
		}
	}
	e.Score = max(0, 1-float64(e.Penalty)/float64(p.barcodes[0].length))
	return e
}

// midstrand reports whether there are a barcode's flanks between the windows.
func (c *Classifier) midstrand(sequence []byte) bool {
	s := c.kit.Scoring
	from, to := s.FrontBarcodeWindow, len(sequence)-s.RearBarcodeWindow
	if from >= to || !c.kit.AtFront {
		return false
	}
	constructs := []*construct{&c.one}
	if c.different {
		constructs = append(constructs, &c.two)
	}
	for _, k := range constructs {
		if distance, _ := k.mask.forward.infix(sequence[from:to]); 1-float64(distance)/float64(k.flanks) >= s.MidstrandFlankScore {
			return true
		}
	}
	return false
}

// Info returns what the tag bi holds: the barcode's score, then for front and rear of the
// read where flanks and barcode begin and end there, in bases of the whole read, and the
// score of the best barcode there; -1 for an end that wasn't searched. For an outer and an
// inner barcode these are seven numbers each, the outer one's first.
func Info(c *Classification) []float32 {
	info := []float32{float32(c.Score)}
	for _, e := range []End{c.Front, c.Rear} {
		if e.Barcode < 0 {
			info = append(info, -1, -1, -1)
			continue
		}
		info = append(info, float32(e.Start), float32(e.End), float32(e.Score))
	}
	if c.Inner != nil {
		info = append(info, Info(c.Inner)...)
	}
	return info
}

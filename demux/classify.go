package demux

// Unclassified is what reads are called whose barcode wasn't found.
const Unclassified = "unclassified"

// Reason says why a read has no barcode.
type Reason uint8

// The reasons.
const (
	Found        Reason = iota // it has one
	NoBarcode                  // none is near enough to any
	Ambiguous                  // a second barcode is nearly as near
	FarFromEnd                 // the barcode is too far from the read's end
	EndsDisagree               // front and rear have different barcodes
	OneEnd                     // it is asked for at both ends and there only at one
	Midstrand                  // there are flanks amid the read: it is two reads
)

// Reasons are the names of the reasons, for counts.
var Reasons = [...]string{"found", "no_barcode", "ambiguous", "far_from_end", "ends_disagree", "one_end", "midstrand"}

// String returns the reason's name.
func (r Reason) String() string { return Reasons[r] }

// Classification is what the ends of a read say of its barcode.
type Classification struct {
	// Barcode is its index among the kit's barcodes, -1 if there is none.
	Barcode int
	Reason  Reason
	// Penalty is the best barcode's edit distance, Margin how much greater that of
	// the second best is, also where none is found.
	Penalty, Margin int
	// Score is 1 less Penalty by the length of what was compared.
	Score       float64
	Front, Rear End
}

// End is what was found at one end of a read.
type End struct {
	// Barcode is the index of the best barcode there, -1 if that end isn't looked at.
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
}

// construct is one end's flanks and barcodes, ready to be looked for.
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
	c := &Classifier{kit: kit, bothEnds: bothEnds}
	sequences := [2][]string{}
	for _, b := range kit.Barcodes {
		sequences[0] = append(sequences[0], b.Front)
		sequences[1] = append(sequences[1], b.Rear)
	}
	c.one = newConstruct(kit.Front, sequences[0], kit.Scoring)
	c.two = newConstruct(kit.Rear, sequences[1], kit.Scoring)
	c.different = kit.AtFront && kit.AtRear && kit.Front != kit.Rear
	return c
}

// Kit returns the kit.
func (c *Classifier) Kit() Kit { return c.kit }

// Name returns what a classification is called in outputs: the kit and the barcode.
func (c *Classifier) Name(barcode int) string {
	if barcode < 0 {
		return Unclassified
	}
	return c.kit.Name + "_" + c.kit.Barcodes[barcode].Name
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

// slack is by how many bases more to both sides a barcode is looked for than where the
// flanks have it, because of insertions and deletions between.
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

// Classify finds the barcode of a read, which is upper-case ACGT.
//
// The flanks tell where in a window at each end of the read the barcode is, and, for a
// kit with different flanks, which strand it is of: that on which the better of both
// ends is best. There each barcode is compared. What is best must be near (or far nearer
// than the second best), and near the end of the read; the other end must not say
// otherwise.
func (c *Classifier) Classify(sequence []byte) Classification {
	s := c.kit.Scoring
	var front, rear place
	var buffer [512]byte
	tail := appendReverseComplement(buffer[:0], sequence[max(0, len(sequence)-s.RearBarcodeWindow):])
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
	var room [2][128]int
	result := Classification{Barcode: -1, Front: End{Barcode: -1}, Rear: End{Barcode: -1}}
	var frontPenalties, rearPenalties []int
	if c.kit.AtFront {
		frontPenalties = front.penalties(s, room[0][:0])
		result.Front = front.end(frontPenalties)
	}
	if c.kit.AtRear {
		rearPenalties = rear.penalties(s, room[1][:0])
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
	result.Reason = c.judge(&result, best, end, distanceToEnd)
	if result.Reason == Found && c.midstrand(sequence) {
		result.Reason = Midstrand
	}
	if result.Reason != Found {
		return result
	}
	result.Barcode = best
	end.Counts = true
	for _, other := range []*End{&result.Front, &result.Rear} {
		if other.Barcode == best && other.Penalty <= s.MaxBarcodePenalty && other.FlankScore >= s.MinFlankScore {
			other.Counts = true
		}
	}
	return result
}

// betterEnds tells whether the ends a, b fit better than c, d: by the better of both,
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

// judge applies the rules to the best barcode.
func (c *Classifier) judge(r *Classification, best int, end *End, distanceToEnd int) Reason {
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
		if e.Barcode != best && e.Penalty <= s.MaxBarcodePenalty {
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

// midstrand tells whether there are a barcode's flanks between the windows.
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
// score of the best barcode there; -1 for an end that wasn't looked at.
func Info(c *Classification) []float32 {
	info := []float32{float32(c.Score)}
	for _, e := range []End{c.Front, c.Rear} {
		if e.Barcode < 0 {
			info = append(info, -1, -1, -1)
			continue
		}
		info = append(info, float32(e.Start), float32(e.End), float32(e.Score))
	}
	return info
}

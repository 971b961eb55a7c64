package demux

// Adapter is a sequence that library preparation puts on molecules, an adapter or a
// primer.
type Adapter struct {
	Name string
	// Front is what a read begins with, Rear what it ends with, both as the read has
	// them; empty for none.
	Front, Rear string
}

// Adapters returns the adapters that reads are searched for: the ligation and the rapid
// adapter (LA, RA), whose strands are alike since R9, and that of direct RNA (RNA004).
// Sources: Porechop 0.2.4 (adapters.py), Dorado (adapter_primer_kits.cpp).
func Adapters() []Adapter {
	return []Adapter{
		{"LA", "CCTGTACTTCGTTCAGTTACGTATTGC", "AGCAATACGTAACTGAAC"},
		{"NSK007", "AATGTACTTCGTTCAGTTACGTATTGCT", "GCAATACGTAACTGAACGAAGT"},
		{"RNA004", "", "GGTTGTTTCTGTTGGTGCTG"},
	}
}

// Primers returns the primers that reads are searched for behind an adapter: those of
// cDNA (SSP and VNP, as in SQK-PCS109 and SQK-PCS110), in both directions, and RAP T,
// what the transposase of a rapid kit leaves. Sources as of Adapters.
func Primers() []Adapter {
	var primers []Adapter
	for _, p := range []struct{ name, front, rear string }{
		{"cDNA", "TTTCTGTTGGTGCTGATATTGCTGGG", "ACTTGCCTGTCGCTCTATCTTCTTT"},
		{"PCS110", "TTTCTGTTGGTGCTGATATTGCTTT", "ACTTGCCTGTCGCTCTATCTTCAGAGGAGAGTCCGCCGCCCGCAAGTTTT"},
	} {
		primers = append(primers,
			Adapter{p.name, p.front, reverseComplement(p.rear)},
			Adapter{p.name + "_rev", p.rear, reverseComplement(p.front)})
	}
	return append(primers, Adapter{"RAP", "GTTTTCGCATTTATCGTGAAACGCTTTCGCGTTTTTCGTGCGCCGCTTCA", ""})
}

// Windows at a read's ends in which adapters and primers lie, and the least score, 1
// less the edit distance by the length, of those that are found: at the rear adapters
// are short, and match by chance more easily. docs/files/demux.md shows what the scores
// find at the ends of real reads, and amid them.
const (
	adapterWindow = 75
	primerWindow  = 150
	minFront      = 0.7
	minRear       = 0.8
)

// Interval is a stretch of a sequence, [Start, End).
type Interval struct{ Start, End int }

// Trimmer finds what is to be cut off reads besides barcodes. It is safe for
// concurrent use.
type Trimmer struct {
	steps []trimStep
}

// trimStep is one search: adapters, then primers.
type trimStep struct {
	fronts, rears []*pattern
	window        int
}

// NewTrimmer returns a trimmer for the adapters and primers given.
func NewTrimmer(adapters, primers []Adapter) *Trimmer {
	step := func(list []Adapter, window int) trimStep {
		s := trimStep{window: window}
		for _, a := range list {
			if a.Front != "" {
				s.fronts = append(s.fronts, newPattern(a.Front))
			}
			if a.Rear != "" {
				// The end is searched on the other strand, so that of two places
				// the one further inside counts there too.
				s.rears = append(s.rears, newPattern(reverseComplement(a.Rear)))
			}
		}
		return s
	}
	return &Trimmer{[]trimStep{step(adapters, adapterWindow), step(primers, primerWindow)}}
}

// Inside returns the stretch of a read between what library preparation put on it:
// adapters, primers, and a classification's barcodes with their flanks. If nothing
// were left, the read stays whole: it is known to be short, not to be without an insert.
func (t *Trimmer) Inside(sequence []byte, found Classification) Interval {
	inside := Interval{0, len(sequence)}
	if t != nil {
		var buffer [primerWindow]byte
		for _, s := range t.steps {
			inside.Start += cut(sequence[inside.Start:min(len(sequence), inside.Start+s.window)], s.fronts, minFront)
			tail := sequence[max(0, inside.End-s.window):inside.End]
			inside.End -= cut(appendReverseComplement(buffer[:0], tail), s.rears, minRear)
		}
	}
	for c := &found; c != nil; c = c.Inner {
		if c.Front.Counts {
			inside.Start = max(inside.Start, c.Front.End)
		}
		if c.Rear.Counts {
			inside.End = min(inside.End, c.Rear.Start)
		}
	}
	if inside.Start >= inside.End {
		return Interval{0, len(sequence)}
	}
	return inside
}

// cut returns how many bases at the beginning of a window end with the best adapter.
func cut(window []byte, adapters []*pattern, least float64) int {
	best, end := 0.0, 0
	for _, a := range adapters {
		distance, at := a.infix(window)
		if score := 1 - float64(distance)/float64(a.length); score >= least && score > best {
			best, end = score, at
		}
	}
	return end
}

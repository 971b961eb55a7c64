package annotate

// NMD predicts whether nonsense-mediated decay removes the messenger of a transcript with a premature stop, by the
// rules of VEP's NMD plugin. NMD_transcript_variant is another thing: the class of the unchanged transcript.
type NMD struct {
	// Predicted is false if the messenger escapes.
	Predicted bool `json:"predicted"`
	// Rule names why it escapes: "single_exon", "last_exon", "last_50_bases_of_penultimate_exon" or
	// "first_100_coding_bases".
	Rule string `json:"rule,omitempty"`
}

const (
	nmdBeforeJunction = 50  // bases before the last junction in which a stop is not seen
	nmdAfterStart     = 100 // coding bases after the start in which translation begins anew
)

// The predictions.
var (
	nmdPredicted   = &NMD{Predicted: true}
	nmdSingleExon  = &NMD{Rule: "single_exon"}
	nmdLastExon    = &NMD{Rule: "last_exon"}
	nmdPenultimate = &NMD{Rule: "last_50_bases_of_penultimate_exon"}
	nmdNearStart   = &NMD{Rule: "first_100_coding_bases"}
)

// nmdTerms are the consequences that bring about a premature stop.
const nmdTerms termSet = 1<<stopGained | 1<<frameshift | 1<<spliceDonor | 1<<spliceAcceptor

// nmd is the prediction, nil for a consequence without a premature stop and for one that is not wholly in the coding
// sequence, as most at splice sites. Like the plugin it uses the position of the variant, not of the new stop.
func (e *effect) nmd() *NMD {
	t := e.t
	if e.terms&nmdTerms == 0 || t.cds == nil || e.cdsFrom < 0 || e.cdsTo < 0 || e.cdnaTo < 0 {
		return nil
	}
	if len(t.exons) == 1 {
		return nmdSingleExon
	}
	last := t.exons[len(t.exons)-1].offset
	switch {
	case e.cdnaTo > last:
		return nmdLastExon
	case e.cdnaTo > last-nmdBeforeJunction && e.cdnaTo > t.exons[len(t.exons)-2].offset:
		return nmdPenultimate
	case e.cdsTo <= nmdAfterStart:
		return nmdNearStart
	}
	return nmdPredicted
}

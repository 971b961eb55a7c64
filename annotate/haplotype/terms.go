package haplotype

// Terms is a set of consequence terms and of marks that go with them.
type Terms uint32

// The terms, in the order in which they are written, and marks that have no name of their own.
const (
	printedElsewhere Terms = 1 << iota // the consequence is written at another record of its compound
	Synonymous
	Missense
	StopLost
	StopGained
	InframeDeletion
	InframeInsertion
	Frameshift
	SpliceAcceptor
	SpliceDonor
	StartLost
	SpliceRegion
	StopRetained
	UTR5
	UTR3
	NonCoding
	Intron
	_
	InframeAltering
	UpstreamStop  // a stop before it on the haplotype: written as "*" in front
	incompleteCDS // the stop is not in the annotation: takes start and stop terms back
	CodingSequence
	FeatureElongation
	FeatureTruncation
	StartRetained
)

// compound are the terms that belong to a change of the protein rather than to a place on the transcript.
const compound = Synonymous | Missense | StopLost | StopGained | InframeDeletion | InframeInsertion | Frameshift |
	StartLost | StopRetained | InframeAltering | incompleteCDS | UpstreamStop | StartRetained | FeatureElongation | FeatureTruncation

const startStop = StopLost | StopGained | StopRetained | StartLost | StartRetained

// places are terms after which no strand is written where there is no change of the protein to report.
const places = SpliceAcceptor | SpliceDonor | SpliceRegion | FeatureElongation | FeatureTruncation

// names are the names of the terms by bit; "" for marks.
var names = [...]string{
	1: "synonymous", "missense", "stop_lost", "stop_gained", "inframe_deletion", "inframe_insertion", "frameshift",
	"splice_acceptor", "splice_donor", "start_lost", "splice_region", "stop_retained", "5_prime_utr", "3_prime_utr",
	"non_coding", "intron", "", "inframe_altering", "", "", "coding_sequence", "feature_elongation", "feature_truncation",
	"start_retained",
}

// Names are the names of the terms in the order in which they are written.
func (t Terms) Names() []string {
	var out []string
	for i, name := range names {
		if name != "" && t&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// append appends the names with "&" between them, and reports whether there are any.
func (t Terms) append(dst []byte) ([]byte, bool) {
	any := false
	for i, name := range names {
		if name == "" || t&(1<<i) == 0 {
			continue
		}
		if any {
			dst = append(dst, '&')
		}
		dst = append(dst, name...)
		any = true
	}
	return dst, any
}

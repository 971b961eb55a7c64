package haplotype

// aftermath is a compound's effect, determined by its translation.
type aftermath struct {
	ref, alt *protein
	shift    int  // bases that the compound adds
	several  bool // variants are in it
	local    bool // by the rules for one variant at a time

	terms     Terms
	removed   Terms // terms that the translation takes back
	startLost bool  // with the frame: what would be translated is not
}

// evaluate sets the terms; terms has those of the variants' places. It reports whether the changed protein has a stop.
func (a *aftermath) evaluate() bool {
	whole := a.alt.aminos
	wholeMarks := a.alt.marks
	a.ref.cut()
	stopped := a.alt.cut()
	a.evaluateStop()
	a.evaluateStart()
	if a.shift != 0 {
		a.evaluateLength()
	} else {
		a.compare(whole, wholeMarks)
	}
	if a.several && a.terms&(InframeDeletion|InframeInsertion|InframeAltering) != 0 && a.alt.stops() {
		a.removed |= InframeDeletion | InframeInsertion | InframeAltering // the stop comes before the frame is found again
		a.terms |= Frameshift | StopGained
	}
	if a.terms&Frameshift != 0 && a.terms&StartLost != 0 && (!a.local || a.shift != 0) {
		a.removed |= Frameshift
		a.startLost = true
	}
	return stopped
}

func (a *aftermath) evaluateStop() {
	if a.terms&StopLost == 0 {
		return
	}
	switch {
	case a.ref.stops() && a.alt.stops():
		a.remove(StopLost)
		a.terms |= StopRetained
	case a.ref.stops():
	case a.alt.stops(): // of an incomplete coding sequence, as real data have it
		a.remove(StopGained)
		a.terms |= StopRetained
	default:
		a.terms |= incompleteCDS
	}
}

func (a *aftermath) evaluateStart() {
	switch {
	case a.terms&StartLost == 0:
	case a.local:
		if len(a.ref.marks) == 0 || a.ref.marks[0] != 'M' {
			a.remove(StartLost)
		}
	case a.ref.lastMark() == 'M' && a.alt.lastMark() == 'M':
		a.remove(StartLost)
		a.terms |= StartRetained
	}
}

// evaluateLength is for compounds that change the length.
func (a *aftermath) evaluateLength() {
	switch {
	case a.shift%3 != 0:
		a.terms |= Frameshift
	case a.shift < 0:
		a.terms |= InframeDeletion
	default:
		a.terms |= InframeInsertion
	}
	if !a.ref.stops() && a.alt.stops() {
		a.terms |= StopGained
	}
}

// remove takes terms back: by the rules for one variant at a time those so far, else also those still to come.
func (a *aftermath) remove(t Terms) {
	if a.local {
		a.terms &^= t
		return
	}
	a.removed |= t
}

// compare compares the proteins amino acid by amino acid. aminos and marks are the changed one as it would be without
// its first stop: what follows the stop is compared with it, but for the amino acid next to the stop, which is gone.
func (a *aftermath) compare(aminos, marks []byte) {
	same := true
	for i, amino := range a.ref.aminos {
		var other, mark byte
		if i < len(aminos) && (i != len(a.alt.aminos)) {
			other, mark = aminos[i], marks[i]
		}
		if amino == other {
			continue
		}
		same = false
		switch {
		case a.ref.marks[i] == '*':
			a.terms |= StopLost
		case mark == '*':
			a.terms |= StopGained
		default:
			a.terms |= Missense
		}
	}
	if same {
		a.terms |= Synonymous
	}
}

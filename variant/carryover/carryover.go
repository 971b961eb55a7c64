package carryover

import "math"

// Kind is what a control was made of.
type Kind string

// The kinds, as MinKNOW's sample sheets name them.
const (
	// Negative is a control with nucleic acid of its own that lacks what samples are asked for.
	Negative Kind = "negative_control"
	// NoTemplate is a control without any: each of its reads came from elsewhere.
	NoTemplate Kind = "no_template_control"
)

// Reads are the reads of a sample at an allele's place.
type Reads struct {
	Alt   int // that show the allele
	Depth int // that could show it
	Left  int // of the sample there that weren't counted, as there are too many
}

// usedShare is the share of the reads that were counted.
func (r Reads) usedShare() float64 {
	n := float64(max(r.Depth, 1))
	return n / (n + float64(r.Left))
}

// all is how many reads show the allele, those that weren't counted included, if these are as the others.
func (r Reads) all() int { return int(math.Round(float64(r.Alt) / r.usedShare())) }

// Control is a control of the run.
type Control struct {
	Name string
	Kind Kind
	Reads
	// Silent: no read of it lies at any allele of the run. It may be clean, and may not have been sequenced.
	Silent bool
}

// Basis is what an assessment is based on.
type Basis string

// The bases.
const (
	// NoSource: neither another sample nor a control shows the allele.
	NoSource Basis = "no_source"
	// Hopping: reads of other samples with the allele, at the rate at which they got into the controls.
	Hopping Basis = "hopping"
	// Contamination: reads of a control with the allele.
	Contamination Basis = "contamination"
	// NotCovered: no read of a control lies there, and none of the controls is one without template, so nothing is bounded.
	NotCovered Basis = "not_covered"
	// NotCounted: the sample's own reads don't show the allele by their bases, so there is nothing to compare.
	NotCounted Basis = "not_counted"
	// SilentControl: the controls that could bound it, without template, have no read at any allele of the run. Whether they were sequenced isn't known, so
	// nothing is bounded. An allele is still marked that carry-over would explain beside empty controls that were: beside others more are.
	SilentControl Basis = "silent_control"
	// OwnAllele: the negative controls have the allele themselves, so nothing is bounded.
	OwnAllele Basis = "own_allele"
)

// Assessment is what carry-over explains of an allele in a sample.
type Assessment struct {
	// Explained says that the reads can't be distinguished from carry-over.
	Explained bool
	// Share is the share of the sample's reads with the allele that carry-over gives at most.
	Share float64
	// Expected is the number of reads that it gives at most, on average.
	Expected float64
	// Own is how many reads of the sample show the allele.
	Own   int
	Basis Basis
	// Control is the control that shows the allele in the most reads, and Reads its reads.
	Control string
	Reads
}

// Alpha is the greatest probability that an allele, all of whose reads are carried over from a source that was seen, isn't marked. Half
// of it is spent on the bound and half on the sample's own reads.
const Alpha = 0.01

// ownShare is the share of a negative control's reads from which on, by the lower bound, an allele is its own: no carry-over makes
// up so much of a sample that has nucleic acid of its own.
const ownShare = 0.2

// Assess says what carry-over explains of own.Alt reads of a sample. others is how many reads of the run's
// other samples, controls aside, show the allele, of those that weren't counted as many as are to be
// expected.
//
// Hopping: each of a run's reads with the allele, own and others, could have got into each control; k of them
// did. The Clopper–Pearson bound of k among them is the greatest rate h at which a read gets into one wrong
// barcode, and the sample gets a binomial number of the others' reads at that rate. A control that stays
// empty so still lets 5.3 reads of others into each sample; one of which nothing shows that it was sequenced
// counts only if there is no other, and bounds nothing then. Where only a share of a control's reads was
// counted, more of them may have the allele, and h is larger by that share; of the sample, its own share of
// those is seen. Reads of a control that has the allele itself can get into samples as others' can.
//
// Contamination, where a control shows the allele: of a negative control, the bound of the share of its reads
// that show it holds for the sample's depth; of one without template, the bound of a Poisson number of reads
// holds for those that were counted, for nothing of its own competed with it.
//
// The allele is explained if either source gives as many reads with a probability above Alpha/2. The larger of the two is
// returned.
func Assess(own Reads, others int, controls []Control) Assessment {
	return assess(own, others, controls, newBounds())
}

func assess(own Reads, others int, controls []Control, b *bounds) (j Assessment) {
	j.Basis, j.Own = NoSource, own.Alt
	var usable, silent []Control
	unusable := NotCovered
	for _, c := range controls {
		switch {
		case c.Kind == Negative && c.Depth == 0:
		case c.Kind == Negative && c.Alt > 0 && b.lower(c.Alt, c.Depth) >= ownShare:
			unusable = OwnAllele
			others += c.all()
		case c.Silent:
			silent = append(silent, c)
		default:
			usable = append(usable, c)
		}
		if j.Control == "" || c.Alt > j.Alt || c.Alt == j.Alt && c.Depth > j.Depth {
			j.Control, j.Reads = c.Name, c.Reads
		}
	}
	switch {
	case own.Alt == 0:
		j.Basis = NotCounted
		return j
	case len(usable)+len(silent) == 0:
		j.Basis = unusable
		return j
	case len(usable) == 0:
		usable = silent
		defer func() { j.Basis = SilentControl }()
	}
	if others > 0 {
		hopped, trials, used := 0, 0, 0.0
		for _, c := range usable {
			could := own.all() + others + c.all()
			hopped, trials, used = hopped+c.Alt, trials+could, used+float64(float64(could)*c.usedShare())
		}
		rate := min(1, b.upper(hopped, trials)*float64(trials)/used) * own.usedShare()
		j.source(Hopping, rate*float64(others), tail(own.Alt, others, rate), own)
	}
	for _, c := range usable {
		switch {
		case c.Alt == 0:
		case c.Kind == NoTemplate:
			most := b.upperPoisson(c.Alt) / c.usedShare() * own.usedShare()
			j.source(Contamination, most, tailPoisson(own.Alt, most), own)
		default:
			share := b.upper(c.Alt, c.Depth)
			j.source(Contamination, share*float64(own.Depth), tail(own.Alt, own.Depth, share), own)
		}
	}
	return j
}

// source takes a source in that gives a number of reads at most, and as many as the sample has with a probability.
func (j *Assessment) source(basis Basis, expected, probability float64, own Reads) {
	j.Explained = j.Explained || probability > Alpha/2
	if expected > j.Expected {
		j.Basis, j.Expected = basis, expected
	}
	j.Share = min(1, j.Expected/float64(own.Alt))
}

// Bounded reports whether controls bound anything of the allele.
func (j *Assessment) Bounded() bool {
	switch j.Basis {
	case NotCovered, NotCounted, OwnAllele, SilentControl:
		return false
	}
	return true
}

// Combine is the assessment of an allele of a sample that several runs have reads of, by those of each run, in a fixed order. Each run's reads are assessed
// by its own controls; all that are bounded together are explained if the sum of what carry-over gives to the runs makes as many reads with a
// probability above Alpha/2, where that number is taken to be Poisson's, which is wider than the binomial ones. Reads of a run without a bound count only
// where no run has one. The rest is that of the run to which carry-over gives most, whose index it returns.
func Combine(runs []Assessment) (all Assessment, most int) {
	rank := func(j *Assessment) int {
		switch {
		case j.Bounded():
			return 0
		case j.Basis == SilentControl:
			return 1
		case j.Basis != NotCounted:
			return 2
		}
		return 3
	}
	least := 3
	for i := range runs {
		least = min(least, rank(&runs[i]))
	}
	own, expected, n := 0, 0.0, 0
	for i := range runs {
		j := &runs[i]
		if rank(j) != least {
			continue
		}
		if n == 0 || j.Expected > all.Expected {
			all, most = *j, i
		}
		own, expected, n = own+j.Own, expected+j.Expected, n+1
	}
	if n > 1 && least <= 1 {
		all.Own, all.Expected = own, expected
		all.Share, all.Explained = min(1, expected/float64(own)), expected > 0 && tailPoisson(own, expected) > Alpha/2
	}
	return all, most
}

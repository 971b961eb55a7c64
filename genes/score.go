package genes

import "math"

// The features of a start that it is chosen by among those of its frame.
const (
	featureCoding  = iota // log odds of the codons behind it
	featureForeign        // the same as those of a foreign gene
	featureATG
	featureGTG
	featureKind
	featureBinding
	featureUp
	featureDown
	featureReach  // logarithm of the share of the longest gene that the frame can have
	featureBefore // log odds of the codons just before it
	featureBehind // log odds of the codons just behind it
	featureBeyond // logarithm of the codons that a longer gene would have more
	featurePairs  // as featureCoding, by which amino acids are near each other
	featurePairsBefore
	featurePairsBehind
	featureSite // log odds of a Shine-Dalgarno site before it
	startFeatures
)

// usualStart is about the log odds of each of the parts of what is around a true start.
const usualStart = 1.5

// vicinity is how many codons before a start and behind it are scored separately.
const vicinity = 16

// The features of a frame that decide whether it is a gene, for its best start.
const (
	geneOwn = iota // log odds by the genome's own genes, bounded
	geneForeign
	geneBest // the higher of the two
	genePairs
	geneRival // the log odds of the best of the other frames there
	geneLength
	geneBinding
	geneKind
	geneUp
	geneDown
	geneMeanOwn // per codon, in parts of what is usual for the genome
	geneMeanForeign
	geneMeanPairs
	geneMeanRival
	geneContent // GC content, less the genome's
	geneReach
	geneSite
	genePlain // how much more the bases resemble the whole genome than what is between its genes
	geneFeatures
)

const (
	// bound is where more evidence for a gene stops to count fully: it doesn't make a gene surer, but more than one that it overlaps.
	bound  = 30
	beyond = .3
	// eager is added to the log odds of frames. The network takes most frames for none because they lie in other genes, and these the chain leaves
	// out as well. The genomes of phages and plasmids, which are short, have fewer frames that are no genes. Where the ribosome scans
	// for the start, genes are not so close.
	eager      = .5
	eagerShort = 1.5
	// eagerReport and eagerReportShort are added to these for the genes that are reported. What a genome is learnt from must be surer than that.
	eagerReport      = .4
	eagerReportShort = .75
	// short is how many known bases a genome has less than, to be one of these.
	short = 400_000
)

// scored is a frame whose starts have scores.
type scored struct {
	gene   [geneFeatures]float64
	starts [][startFeatures]float64
	score  []float64 // of the starts, log probabilities
	best   int
	total  float64 // log odds of the frame's being a gene
}

// features sets what is known of a frame's starts. s is the strand.
func (f *finder) features(s []byte, fr *frame, out *scored) {
	out.starts = out.starts[:0]
	own, foreign, pairs := float32(-1e9), float32(-1e9), float32(-1e9)
	for _, b := range fr.starts {
		own, foreign, pairs = max(own, b.own), max(foreign, b.foreign), max(pairs, b.pairs)
	}
	farthest := int(fr.starts[0].at)
	for _, b := range fr.starts {
		at := int(b.at)
		var x [startFeatures]float64
		x[featureCoding] = max(float64(b.own-own), -bound)
		x[featureForeign] = max(float64(b.foreign-foreign), -bound)
		x[featurePairs] = max(float64(b.pairs-pairs), -bound)
		switch b.kind {
		case startATG:
			x[featureATG] = 1
		case startGTG:
			x[featureGTG] = 1
		}
		if b.kind == startOpen {
			// The start is beyond the end: it is taken for one as they mostly are.
			x[featureATG], x[featureKind] = 1, f.starts.kinds[startATG]
			x[featureBinding], x[featureSite], x[featureUp], x[featureDown], x[featureBefore] = usualStart, usualStart, usualStart, usualStart, -usualStart
		} else {
			x[featureKind] = f.starts.kinds[b.kind]
			x[featureBinding], _ = f.starts.binding(s, at)
			x[featureUp], x[featureDown] = f.starts.flanking(s, at)
			x[featureSite] = f.starts.site(s, at)
		}
		x[featureReach] = math.Log(float64(int(fr.stop)-at) / float64(int(fr.stop)-farthest))
		x[featureBeyond] = math.Log(1 + float64(at-farthest)/3)
		if b.kind != startOpen {
			x[featureBefore], x[featurePairsBefore] = f.stretch(s, max(at-3*vicinity, farthest), at)
		}
		x[featureBehind], x[featurePairsBehind] = f.stretch(s, at+3, min(at+3+3*vicinity, int(fr.stop)-3))
		out.starts = append(out.starts, x)
	}
}

// stretch is the log odds of codons in frame: by the genome's own genes, and by which amino acids are near each other.
func (f *finder) stretch(s []byte, from, to int) (own, pairs float64) {
	var sum, near float32
	var behind [separations]int // codons before the one at hand, the nearest first
	seen := 0
	for i := from; i+3 <= to; i += 3 {
		codon := codonAt(s, i)
		if codon < 0 {
			seen = 0
			continue
		}
		if seen > 0 {
			sum += f.tables.own[behind[0]<<6|codon]
		}
		for d := range min(seen, separations) {
			near += f.tables.pairs[d][behind[d]<<6|codon]
		}
		copy(behind[1:], behind[:])
		behind[0] = codon
		seen++
	}
	return float64(sum), float64(near)
}

// plain is how much more the bases of a frame resemble the whole genome than what is between genes.
func (f *finder) plain(s []byte, from, to int) float64 {
	var sum float32
	last := -1
	for i := from; i+3 <= to; i += 3 {
		codon := codonAt(s, i)
		if last >= 0 && codon >= 0 {
			sum += f.tables.plain[last<<6|codon]
		}
		last = codon
	}
	return float64(sum)
}

// weigh sets the scores of a frame's starts and of the frame.
func (f *finder) weigh(s []byte, fr *frame, out *scored) {
	out.score = out.score[:0]
	out.best = 0
	sum := math.Inf(-1)
	for i := range out.starts {
		v := f.prior.Weights.Start.value(out.starts[i][:])
		out.score = append(out.score, v)
		if v > out.score[out.best] {
			out.best = i
		}
		sum = logAdd(sum, v)
	}
	for i := range out.score {
		out.score[i] -= sum
	}
	b := &fr.starts[out.best]
	x := &out.starts[out.best]
	length := float64(fr.stop-b.at) / 3
	own, foreign, pairs := float64(b.own), float64(b.foreign), float64(b.pairs)
	rival, content := f.rival(s, int(b.at), int(fr.stop))
	top := max(own, foreign)
	out.gene = [geneFeatures]float64{
		geneOwn: clamp(own), geneForeign: clamp(foreign), geneBest: clamp(top), genePairs: clamp(pairs), geneRival: clamp(rival), geneLength: math.Log(length / 100),
		geneBinding: x[featureBinding], geneSite: x[featureSite], geneKind: x[featureKind], geneUp: x[featureUp], geneDown: x[featureDown],
		geneMeanOwn: own / length / f.usual, geneMeanForeign: foreign / length, geneMeanPairs: pairs / length, geneMeanRival: rival / length / f.usual,
		geneContent: content - f.gc, geneReach: x[featureReach],
		genePlain: clamp(f.plain(s, int(b.at), int(fr.stop)-3)),
	}
	out.total = f.eager() + f.prior.Weights.Gene.value(out.gene[:]) + float64(beyond*max(0, top-bound))
}

func (f *finder) eager() float64 {
	often, report := eager, eagerReport
	switch {
	case f.starts.scanned:
		return 0
	case f.known < short:
		often, report = eagerShort, eagerReportShort
	}
	if !f.reporting {
		return often
	}
	return often + report
}

func clamp(x float64) float64 { return min(max(x, -bound), bound) }

// rivalStop is what a stop costs a rival.
const rivalStop = -2

// rival is the highest log odds that the bases of a frame have in one of the five others, stops or not; and their GC content. What reads better in
// another frame is the shadow of a gene there.
func (f *finder) rival(s []byte, from, to int) (best, content float64) {
	var sums [6]float32
	word, back, known, strong, all := 0, 0, 0, 0, 0
	for i := from; i < to; i++ {
		b := s[i]
		if b == unknown {
			known = 0
			continue
		}
		all++
		if b == 1 || b == 2 {
			strong++
		}
		word = (word<<2 | int(b)) & 4095
		back = back>>2 | int(3-b)<<10
		if known++; known < 6 {
			continue
		}
		k := (i - from) % 3
		sums[k] += max(f.tables.own[word], rivalStop)
		sums[3+k] += max(f.tables.own[back], rivalStop)
	}
	// The sixth base of a pair of codons of the frame itself is its third, so the sum of phase 2 is its own.
	high := sums[0]
	for k, v := range sums {
		if k != 2 {
			high = max(high, v)
		}
	}
	return float64(high), float64(strong) / float64(max(1, all))
}

package score

import (
	"math"
	"strconv"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
)

// spliceNames are the changes by the rule splice, in SpliceAI's order.
var spliceNames = [4]string{"acceptor_gain", "acceptor_loss", "donor_gain", "donor_loss"}

// spliceDecimals is what SpliceAI prints.
const spliceDecimals = 2

// maxInserted bounds the bases of an insertion, which are computed in windows.
const maxInserted = 5000

// planSplice makes the windows of an allele for each gene that its first base lies in: bases around it as far as the
// network's context and the distance reach, N outside of the transcript. The alternative allele is put in afterwards, so that
// its window is longer or shorter; outputs of one that is longer come from several windows.
func (r *Rule) planSplice(a *annotate.Spelled, w *Windows) []Job {
	var found [8]*numbered
	genes := r.genes.at(found[:0], a.Contig, a.Pos)
	length, distance := r.m.WindowLength(), r.m.Distance()
	half := length / 2
	from := a.Pos - 1 - half
	ref, alt := strings.ToUpper(a.Ref), strings.ToUpper(a.Alt)
	switch {
	case len(genes) == 0, from < 0, from+length > a.Contig.Len(), len(ref) > 2*distance,
		// A window that ends within REF can't say whether REF fits; with a distance that allows REF it never does.
		half+len(ref) > length, !a.Contig.Has(a.Pos-1, ref):
		return nil
	}
	jobs := make([]Job, 0, len(genes))
	for _, gene := range genes {
		j := Job{score: r.label, gene: gene, pos: a.Pos, refBases: len(ref), altBases: len(alt)}
		j.score.Gene = gene.Name
		switch {
		case len(ref) > 1 && len(alt) > 1:
			j.score.Unscored = "REF and ALT are both longer than a base"
		case len(alt) > maxInserted:
			j.score.Unscored = "ALT is longer than " + strconv.Itoa(maxInserted) + " bases"
		}
		if j.score.Unscored != "" {
			jobs = append(jobs, j)
			continue
		}
		window := a.Contig.Append(nil, from, from+length)
		mask(window[:clamp(gene.Start-from, length)])
		mask(window[clamp(gene.End-from, length):])
		changed := make([]byte, 0, length+len(alt))
		changed = append(append(append(changed, window[:half]...), alt...), window[half+len(ref):]...)
		if !gene.Forward {
			genome.ReverseComplement(window)
			genome.ReverseComplement(changed)
		}
		j.ref = []int{w.add(window)}
		for wanted := len(changed) - r.m.Input.Context; wanted > 0; wanted -= r.m.positions() {
			tile := changed[:min(length, len(changed))]
			for len(tile) < length { // outputs followed only by N are not evaluated
				tile = append(tile[:len(tile):len(tile)], 'N')
			}
			j.alt = append(j.alt, w.add(tile))
			changed = changed[min(r.m.positions(), len(changed)):]
		}
		j.finish = r.finishSplice
		jobs = append(jobs, j)
	}
	return jobs
}

func clamp(i, n int) int { return min(max(i, 0), n) }

func mask(bases []byte) {
	for i := range bases {
		bases[i] = 'N'
	}
}

// finishSplice compares the outputs position by position. Bases that are deleted have probability 0; those that are inserted
// stand for one position, with the largest of their probabilities.
func (r *Rule) finishSplice(j *Job, out func(int) []float32) error {
	cover := r.m.positions()
	wanted := cover + j.altBases - j.refBases
	// probability of a channel at a position of the alternative sequence, in the reference's direction
	alternative := func(i, channel int) float32 {
		if !j.gene.Forward {
			i = wanted - 1 - i
		}
		return r.at(out(j.alt[i/cover]), i%cover, channel)
	}
	reference := func(i, channel int) float32 {
		if !j.gene.Forward {
			i = cover - 1 - i
		}
		return r.at(out(j.ref[0]), i, channel)
	}
	middle, deleted, inserted := cover/2, j.refBases-1, j.altBases-1
	// Of a deletion of more bases than the distance there are fewer outputs than would fill the left half; SpliceAI has what
	// there is on the left then.
	kept := min(middle+1, wanted)
	aligned := func(i, channel int) float32 {
		switch {
		case i < kept && (i < middle || inserted == 0):
			return alternative(i, channel)
		case i < kept+deleted && deleted > 0:
			return 0
		case i == middle:
			largest := alternative(i, channel)
			for k := 1; k <= inserted; k++ {
				largest = max(largest, alternative(i+k, channel))
			}
			return largest
		}
		return alternative(i+inserted-deleted, channel)
	}
	found, err := r.largestChanges(cover, reference, aligned)
	if err != nil {
		return err
	}
	annotated := j.gene.nearest(j.pos) - j.pos
	j.score.Changes = make([]annotate.ScoreChange, len(found))
	for i, f := range found {
		position := f.at - middle
		isGain, isAnnotated := i%2 == 0, position == annotated
		if r.m.Splice.Mask && isGain == isAnnotated {
			f.value *= 0 // keeps the sign, as SpliceAI prints it
		}
		j.score.Changes[i] = annotate.ScoreChange{Name: spliceNames[i], Score: round(float64(f.value), spliceDecimals), Position: &position}
	}
	j.score.Score = summit(j.score.Changes)
	return nil
}

// largestChange is the largest gain or loss of a probability, and at which position.
type largestChange struct {
	value float32
	at    int
}

// largestChanges are the largest gain and loss of an acceptor, then those of a donor, over so many positions. Of equal ones the
// leftmost counts. An error is a probability that is none.
func (r *Rule) largestChanges(positions int, reference, aligned func(i, channel int) float32) (found [4]largestChange, err error) {
	for i := range found {
		found[i].value = float32(math.Inf(-1))
	}
	for i := range positions {
		for k, channel := range [2]int{r.acceptor, r.donor} {
			before, after := reference(i, channel), aligned(i, channel)
			if err := checkProbability(before); err != nil {
				return found, err
			}
			if err := checkProbability(after); err != nil {
				return found, err
			}
			if gain := after - before; gain > found[2*k].value {
				found[2*k] = largestChange{gain, i}
			}
			if loss := before - after; loss > found[2*k+1].value {
				found[2*k+1] = largestChange{loss, i}
			}
		}
	}
	return found, nil
}

// Describe says how the scores stand in INFO.
func (r *Rule) Describe() annotate.ScoreField {
	f := annotate.ScoreField{Network: r.m.Name, Version: r.m.Version, SHA256: r.label.SHA256, Key: r.m.Info, Licence: r.m.Licence, Splice: r.m.Rule == Splice}
	if f.Splice {
		mask := "not masked"
		if r.m.Splice.Mask {
			mask = "masked"
		}
		f.Description = "Delta scores (DS) and delta positions (DP) for acceptor gain (AG), acceptor loss (AL), donor gain (DG) and donor loss (DL) by " +
			r.m.Name + " " + r.m.Version + ", within " + strconv.Itoa(r.m.Distance()) + " bases, " + mask +
			". Format: ALLELE|SYMBOL|DS_AG|DS_AL|DS_DG|DS_DL|DP_AG|DP_AL|DP_DG|DP_DL"
		return f
	}
	names := make([]string, len(r.tracks))
	for i := range r.tracks {
		names[i] = r.tracks[i].name
	}
	f.Description = "Changes (" + string(r.m.Rule) + ") of tracks by " + r.m.Name + " " + r.m.Version + ". Format: ALLELE|" + strings.Join(names, "|")
	return f
}

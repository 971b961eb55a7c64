package score

import (
	"fmt"
	"math"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
)

// trackDecimals is how many decimals changes of tracks have.
const trackDecimals = 4

// track is a name for some outputs.
type track struct {
	name    string
	outputs []int
	bins    []int
	mean    bool
}

func newTrack(t *Track, m *Manifest) track {
	is := track{name: t.Name, mean: t.Combine == "mean"}
	is.outputs, _ = numbers(t.Outputs, m.Output.Count) // the manifest is valid
	if t.Bins == "" {
		for i := range m.Output.Bins {
			is.bins = append(is.bins, i)
		}
		return is
	}
	is.bins, _ = numbers(t.Bins, m.Output.Bins)
	return is
}

// planTracks makes the windows of an allele: bases around the middle of REF, and the same with ALT in its place, which takes
// in more or fewer bases behind it. There is N outside of the contig.
func (r *Rule) planTracks(a *annotate.Spelled, w *Windows) []Job {
	ref, alt := strings.ToUpper(a.Ref), strings.ToUpper(a.Alt)
	at, length := a.Pos-1, r.m.Input.Length
	if !a.Contig.Has(at, ref) {
		return nil
	}
	j := Job{score: r.label, finish: r.finishTracks}
	if max(len(ref), len(alt)) > length/2 {
		j.finish, j.score.Unscored = nil, "REF or ALT is longer than half a window"
		return []Job{j}
	}
	from := at + len(ref)/2 - length/2
	window, changed := make([]byte, 0, length), make([]byte, 0, length)
	window = appendBases(window, a.Contig, from, length)
	changed = append(append(changed, window[:at-from]...), alt...)
	changed = appendBases(changed, a.Contig, at+len(ref), length-len(changed))
	j.ref, j.alt = []int{w.add(window)}, []int{w.add(changed)}
	if r.m.Input.Strand == BothStrands {
		genome.ReverseComplement(window)
		genome.ReverseComplement(changed)
		j.ref, j.alt = append(j.ref, w.add(window)), append(j.alt, w.add(changed))
	}
	return []Job{j}
}

// appendBases appends n bases of a contig, N where it has none.
func appendBases(dst []byte, contig *genome.Contig, from, n int) []byte {
	begun := len(dst)
	for i := from; i < min(from+n, 0); i++ {
		dst = append(dst, 'N')
	}
	dst = contig.Append(dst, clamp(from, contig.Len()), clamp(from+n, contig.Len()))
	for len(dst) < begun+n {
		dst = append(dst, 'N')
	}
	return dst
}

// finishTracks sums or averages the changes of the outputs of each track; of two strands it takes the mean output.
func (r *Rule) finishTracks(j *Job, out func(int) []float32) error {
	j.score.Changes = make([]annotate.ScoreChange, len(r.tracks))
	for i := range r.tracks {
		t := &r.tracks[i]
		sum := 0.0
		for _, bin := range t.bins {
			for _, channel := range t.outputs {
				before, err := r.output(j.ref, bin, channel, out)
				if err != nil {
					return err
				}
				after, err := r.output(j.alt, bin, channel, out)
				if err != nil {
					return err
				}
				sum += after - before
			}
		}
		if t.mean {
			sum /= float64(len(t.bins) * len(t.outputs))
		}
		j.score.Changes[i] = annotate.ScoreChange{Name: t.name, Score: round(sum, trackDecimals)}
	}
	j.score.Score = summit(j.score.Changes)
	return nil
}

// output is an output, or its logit, of a window and perhaps its other strand, whose bins come the other way round.
func (r *Rule) output(windows []int, bin, channel int, out func(int) []float32) (float64, error) {
	sum := 0.0
	for strand, w := range windows {
		at := bin
		if strand > 0 {
			at = r.m.Output.Bins - 1 - bin
		}
		v := r.at(out(w), at, channel)
		if math.IsInf(float64(v), 0) || math.IsNaN(float64(v)) {
			return 0, fmt.Errorf("an output is %v: %w", v, errNotFinite)
		}
		if r.m.Rule == LogitDifference {
			if err := checkProbability(v); err != nil {
				return 0, err
			}
		}
		sum += float64(v)
	}
	v := sum / float64(len(windows))
	if r.m.Rule == LogitDifference {
		// The smallest that a float32 can distinguish from one.
		v = min(max(v, 1.0/(1<<23)), 1-1.0/(1<<23))
		v = math.Log(v / (1 - v))
	}
	return v, nil
}

package score

import (
	"errors"
	"fmt"
	"math"

	"github.com/porestream/porestream/annotate"
)

// Rule makes windows of alleles, and scores of what a network says of the windows. It is safe for concurrent use.
type Rule struct {
	m     *Manifest
	genes *Genes
	// label is what all scores say of the network.
	label    annotate.Score
	acceptor int // channels, by the rule splice
	donor    int
	tracks   []track
}

// NewRule returns the rule of a manifest. By the rule splice it scores alleles within genes; by the others genes may be nil.
func NewRule(m *Manifest, genes *Genes) *Rule {
	r := &Rule{m: m, genes: genes, label: annotate.Score{Network: m.Name, Version: m.Version, SHA256: m.Fingerprint(), Licence: m.Licence}}
	for i, name := range m.Output.Channels {
		switch name {
		case "acceptor":
			r.acceptor = i
		case "donor":
			r.donor = i
		}
	}
	for i := range m.Tracks {
		r.tracks = append(r.tracks, newTrack(&m.Tracks[i], m))
	}
	return r
}

// Windows are the windows that alleles need, each once.
type Windows struct {
	Bases []string // each of the manifest's WindowLength
	index map[string]int
}

func (w *Windows) add(bases []byte) int {
	if i, ok := w.index[string(bases)]; ok {
		return i
	}
	if w.index == nil {
		w.index = make(map[string]int)
	}
	s := string(bases)
	w.index[s] = len(w.Bases)
	w.Bases = append(w.Bases, s)
	return len(w.Bases) - 1
}

// Job is one score that an allele gets: the windows to compute for it, and how it is reported.
type Job struct {
	score    annotate.Score
	finish   func(j *Job, out func(window int) []float32) error
	ref, alt []int // windows; of alt those that follow each other along the gene
	gene     *numbered
	pos      int
	refBases int
	altBases int
}

// Plan appends the windows that an allele needs to w, and returns what becomes of them; nothing if the network has nothing to
// say about it.
func (r *Rule) Plan(a *annotate.Spelled, w *Windows) []Job {
	if !isAllele(a.Ref) || !isAllele(a.Alt) || a.Contig == nil {
		return nil
	}
	if r.m.Rule == Splice {
		return r.planSplice(a, w)
	}
	return r.planTracks(a, w)
}

// Wanted reports whether an allele gets any score, without making windows.
func (r *Rule) Wanted(a *annotate.Spelled) bool { return len(r.Plan(a, new(Windows))) > 0 }

// Finish makes the score of a job. out gives what the network said of a window.
func (r *Rule) Finish(j *Job, out func(window int) []float32) (annotate.Score, error) {
	if j.finish != nil {
		if err := j.finish(j, out); err != nil {
			return annotate.Score{}, err
		}
	}
	return j.score, nil
}

// at is output channel c of position i.
func (r *Rule) at(out []float32, i, c int) float32 {
	if r.m.Output.Layout == ChannelsFirst {
		return out[c*r.m.positions()+i]
	}
	return out[i*r.m.channels()+c]
}

// nearlyAll is more of random bases than any network takes for splice sites that was not made at random itself.
const nearlyAll = 0.9

// CheckOutputs finds out from the outputs of a window of random bases whether there can be scores of such: probabilities where the rule has
// them, finite numbers else. Next to none of random bases is at a splice site.
func (r *Rule) CheckOutputs(out []float32) error {
	if r.m.Rule == Splice {
		return r.checkSites(out)
	}
	for i := range r.tracks {
		for _, bin := range r.tracks[i].bins {
			for _, channel := range r.tracks[i].outputs {
				if _, err := r.output([]int{0}, bin, channel, func(int) []float32 { return out }); err != nil {
					return fmt.Errorf("track %s: %w", r.tracks[i].name, err)
				}
			}
		}
	}
	return nil
}

func (r *Rule) checkSites(out []float32) error {
	for _, channel := range []int{r.acceptor, r.donor} {
		sum := 0.0
		for i := range r.m.positions() {
			p := r.at(out, i, channel)
			if err := checkProbability(p); err != nil {
				return err
			}
			sum += float64(p)
		}
		if share := sum / float64(r.m.positions()); share > nearlyAll {
			names := r.m.Output.Channels
			return fmt.Errorf("%.0f %% of random bases are at splice sites (%s): output.channels = %q is not the order of the network's outputs", 100*share, names[channel], names)
		}
	}
	return nil
}

// isAllele reports whether an allele is letters.
func isAllele(s string) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return s != ""
}

// summit is the largest change by size, of changes that are there.
func summit(changes []annotate.ScoreChange) *float64 {
	best := 0.0
	for _, c := range changes {
		best = max(best, math.Abs(float64(c.Score)))
	}
	return &best
}

// round rounds to decimals, half to even as printing does.
func round(v float64, decimals int) annotate.Delta {
	scale := math.Pow10(decimals)
	return annotate.Delta(math.RoundToEven(v*scale) / scale)
}

// errNoProbability is what a network gives that a manifest lies about.
var errNoProbability = errors.New("its outputs are no probabilities, as its manifest says: is an activation missing, or input or output another?")

// errNotFinite is the error for outputs whose change can't be computed.
var errNotFinite = errors.New("there is no change of what is no finite number: does the network end in a logarithm?")

func checkProbability(p float32) error {
	if !(p >= -1e-4 && p <= 1+1e-4) {
		return fmt.Errorf("an output is %v: %w", p, errNoProbability)
	}
	return nil
}

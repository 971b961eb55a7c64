package stage

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/packed"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// The motifs that samples modify, which the stage methylate finds.
//
// While runs go on, regions call with the motifs so far. Those of all reads of ended runs follow from the set of reads, and what is
// final waits for them, so that it does, too.

const (
	motifsSection = "motifs"
	// motifsPart is the newest version of the section.
	motifsPart = 1
	// maxLetters bounds a motif.
	maxLetters = 64
)

// foundMotifs are the motifs of a sample.
type foundMotifs struct {
	runs    []string // whose reads they are all of; none while one goes on
	letters []string
	known   variant.KnownMotifs
}

// settled reports whether a sample can be final: all of its runs have ended, and its motifs are of all of them.
func (h *handler) settled(sample string) bool {
	if !h.markers.SampleEnded(sample) {
		return false
	}
	f := h.found[sample]
	return !h.cfg.FindMotifs || f != nil && slices.Equal(f.runs, h.markers.RunsOf(sample))
}

// receiveMotifs takes a sample's motifs, and makes the sample final if that is what it has waited for.
func (h *handler) receiveMotifs(m *streampb.ModifiedMotifs) ([]stream.Out, error) {
	if !h.cfg.FindMotifs {
		return nil, nil
	}
	before := h.found[m.GetSample()]
	if before == nil {
		before = new(foundMotifs)
	}
	if err := h.know(m.GetSample(), m.GetRuns(), m.GetMotifs()); err != nil {
		return nil, err
	}
	h.motifsVersion++
	changed := !slices.Equal(before.letters, m.GetMotifs())
	if changed {
		for _, key := range h.sampleRegions(m.GetSample()) {
			h.regions[key].UseMotifs(h.found[key.sample].known)
			h.regions[key].ForgetMotifs()
		}
	}
	first := !slices.Equal(before.runs, m.GetRuns())
	if !h.settled(m.GetSample()) || !first && !changed {
		return nil, nil
	}
	runs := h.markers.RunsOf(m.GetSample())
	outs, err := h.sampleEnd(runs[len(runs)-1], m.GetSample(), first)
	if err != nil {
		return nil, err
	}
	haplotypes, err := h.haplotypes([]string{m.GetSample()})
	if err != nil {
		return nil, err
	}
	outs = append(outs, haplotypes...)
	ends, err := h.ends()
	if err != nil || first {
		return append(outs, ends...), err
	}
	notified, err := h.late(m.GetSample()) // other alleles may be called now than when carry-over was assessed
	return slices.Concat(outs, ends, notified), err
}

// know takes motifs into the state.
func (h *handler) know(sample string, runs, letters []string) error {
	known, leftOut, err := h.cfg.Variant.NewKnownMotifs(letters)
	if err != nil {
		return &stream.DecodeError{Code: stream.CodeInvalid, Reason: fmt.Sprintf("motifs of sample %s: %v", sample, err)}
	}
	if len(leftOut) > 0 && !h.replayed {
		h.log.Warn("modified motifs of too few bases to distinguish errors from chance, or beyond the number that calling takes, mark no calls", "sample", sample, "motifs", leftOut)
	}
	h.found[sample] = &foundMotifs{runs: runs, letters: letters, known: known}
	return nil
}

// ends passes on the ends of runs that no motifs have to come for.
func (h *handler) ends() ([]stream.Out, error) {
	var outs []stream.Out
	for _, id := range slices.Sorted(maps.Keys(h.ending)) {
		run := h.markers.Run(id)
		if slices.ContainsFunc(stream.SamplesOf(run), func(sample string) bool { return h.markers.SampleEnded(sample) && !h.settled(sample) }) {
			continue
		}
		delete(h.ending, id) // before it reports what has ended
		h.motifsVersion++
		end, err := h.end(&streampb.Marker{Run: run})
		if err != nil {
			return nil, err
		}
		outs = append(outs, end...)
	}
	return outs, nil
}

// motifsTick reports, once, that runs wait for motifs that don't come.
func (h *handler) motifsTick(now time.Time) {
	if h.wait.Overdue(now, len(h.ending) > 0) {
		h.log.Warn("final calls wait for the motifs that the stage methylate finds: do processors with that stage run, all with --find-modified-motifs?",
			"runs", slices.Sorted(maps.Keys(h.ending)))
	}
}

// appendMotifs writes the section of motifs.
func (h *handler) appendMotifs(b []byte) []byte {
	b = packed.AppendStrings(append(b, motifsPart), slices.Sorted(maps.Keys(h.ending)))
	b = packed.AppendLen(b, len(h.found))
	for _, sample := range slices.Sorted(maps.Keys(h.found)) {
		f := h.found[sample]
		b = packed.AppendStrings(packed.AppendStrings(packed.AppendBytes(b, sample), f.runs), f.letters)
	}
	return b
}

func (h *handler) restoreMotifs(b []byte) error {
	in := packed.NewReader(b)
	in.Version(motifsPart)
	for _, run := range in.Strings(maxName) {
		h.ending[run] = true
	}
	for range in.Count(1) {
		sample, runs, letters := in.String(maxName), in.Strings(maxName), in.Strings(maxLetters)
		if in.Err() != nil {
			break
		}
		if err := h.know(sample, runs, letters); err != nil {
			return err
		}
	}
	h.motifsVersion++
	return in.Done()
}

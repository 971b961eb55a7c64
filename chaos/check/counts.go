package check

import (
	"fmt"
	"maps"
	"slices"

	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
)

// site is a position on a strand, 1-based.
type site struct {
	pos    int
	strand byte
}

// counted is the newest revision of a stretch, and how many reads it has at its sites, whatever they say there.
type counted struct {
	revision uint64
	status   string
	reads    map[site]int
}

// checkCounts checks the counts of modified bases. A site's reads only become more: with last counts that are those of a file, every read has been counted
// once in each revision that has it. By haplotype they may become fewer, as later reads may say that an earlier one is of the other.
func checkCounts(r *report, run, reference *Contents) {
	newest := make(map[string]*counted)
	for _, rec := range run.Records[run.Topics.Methylation] {
		s, _, err := methylation.Decode(rec)
		if s == nil || err != nil {
			continue // that it can't be read is among the revisions
		}
		key := string(rec.Key)
		c := &counted{s.Revision, s.Status, readsOf(&s.Sites)}
		if before := newest[key]; before != nil {
			if s.Revision <= before.revision {
				continue // likewise
			}
			if s.Haplotype == 0 {
				checkLost(r, rec, before, c)
			}
		}
		newest[key] = c
	}
	for _, key := range slices.Sorted(maps.Keys(newest)) {
		if c := newest[key]; c.status != methylation.Final {
			r.add(Counts, run.Topics.Methylation, key+" was never made final", "its last revision, %d, is %s", c.revision, c.status)
		}
	}
	checkFiles(r, Counts, "bedMethyl of ", "the bytes differ from those counted in a file of the same reads", run.Methylation, reference.Methylation)
}

// checkLost reports the first site that has lost reads since the revision before. One without any call that counts isn't listed, and so can't be compared.
func checkLost(r *report, rec stream.Record, before, now *counted) {
	lost, first := 0, site{}
	for at, n := range before.reads {
		if m, listed := now.reads[at]; !listed || m >= n {
			continue
		}
		if lost == 0 || at.pos < first.pos || at.pos == first.pos && at.strand < first.strand {
			first = at
		}
		lost++
	}
	if lost > 0 {
		r.add(Counts, at(rec), fmt.Sprintf("revision %d of %s has lost reads", now.revision, rec.Key),
			"at %d%c %d reads, in revision %d %d; %d sites", first.pos, first.strand, now.reads[first], before.revision, before.reads[first], lost)
	}
}

func readsOf(s *methylation.Sites) map[site]int {
	reads := make(map[site]int, len(s.Pos))
	for i, pos := range s.Pos {
		reads[site{pos, s.Strands[i]}] = s.Modified[i] + s.Canonical[i] + s.Other[i] + s.Deleted[i] + s.Failed[i] + s.Different[i] + s.Uncalled[i]
	}
	return reads
}

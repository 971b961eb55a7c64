package pipeline

import "github.com/porestream/porestream/annotate/event"

// runEnds counts the ends of runs on a public topic: every source says so in every
// partition.
type runEnds struct {
	partitions int32
	ends       map[string]map[endKey]struct{} // by run
	sources    map[string]uint32              // the most that an end speaks of, by run
}

type endKey struct {
	partition int32
	source    uint32
}

func newRunEnds(partitions int32) runEnds {
	return runEnds{partitions: partitions, ends: make(map[string]map[endKey]struct{}), sources: make(map[string]uint32)}
}

func (r *runEnds) add(partition int32, end *event.RunEnd) {
	if r.ends[end.Run] == nil {
		r.ends[end.Run] = make(map[endKey]struct{})
	}
	r.ends[end.Run][endKey{partition, end.Source}] = struct{}{}
	r.sources[end.Run] = max(r.sources[end.Run], end.Sources)
}

// Ended reports whether nothing more of a run can come.
func (r *runEnds) Ended(run string) bool {
	sources := r.sources[run]
	return sources > 0 && len(r.ends[run]) == int(r.partitions)*int(sources)
}

package annotate

import "sort"

// regulatory is a region that takes part in the regulation of genes.
type regulatory struct {
	start, end int
	// name has the type RegulatoryFeature, or MotifFeature for the binding site of a transcription factor, and as
	// biotype the kind of region as the annotation names it: promoter, enhancer, CTCF_binding_site.
	name *Feature
}

// motif says whether r is the binding site of a transcription factor.
func (r *regulatory) motif() bool { return r.name.Type == "MotifFeature" }

// regulatoryTrack holds the regulatory regions of one contig.
type regulatoryTrack struct {
	regions []*regulatory // by start
	reach   []int         // see track.reach
}

// overlapping appends the regions that share a base or an edge with [start,end] to dst.
func (k *regulatoryTrack) overlapping(dst []*regulatory, start, end int) []*regulatory {
	n := sort.Search(len(k.regions), func(i int) bool { return k.regions[i].start > end })
	for i := n - 1; i >= 0 && k.reach[i] >= start; i-- {
		if k.regions[i].end >= start {
			dst = append(dst, k.regions[i])
		}
	}
	return dst
}

// index sorts the regions and computes the reach.
func (k *regulatoryTrack) index() {
	sort.SliceStable(k.regions, func(i, j int) bool { return k.regions[i].start < k.regions[j].start })
	k.reach = make([]int, len(k.regions))
	reach := 0
	for i, r := range k.regions {
		reach = max(reach, r.end)
		k.reach[i] = reach
	}
}

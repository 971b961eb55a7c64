package annotate

import (
	"cmp"
	"sort"
	"strconv"
	"strings"
)

// regulatory is a region that takes part in the regulation of genes.
type regulatory struct {
	start, end int
	// name has the type RegulatoryFeature, or MotifFeature for the binding site of a transcription factor, and as
	// biotype the kind of region as the annotation names it: promoter, enhancer, CTCF_binding_site.
	name *Feature
}

// motif reports whether r is the binding site of a transcription factor.
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

// isRegulatory reports whether rows of this type are regulatory regions: those of the Ensembl Regulatory Build and
// their like in other annotations.
func isRegulatory(kind []byte) bool {
	switch string(kind) {
	case "regulatory_region", "promoter", "promoter_flanking_region", "enhancer", "silencer", "open_chromatin_region",
		"CTCF_binding_site", "TF_binding_site", "TFBS", "epigenetically_modified_region",
		"epigenetically_modified_accessible_region", "EMAR", "transcriptional_cis_regulatory_region":
		return true
	}
	return false
}

// regulatory is the row as a regulatory region.
func (r *record) regulatory() *regulatory {
	kind := string(r.kind)
	id := r.first("regulatory_feature_stable_id", "stable_id", "ID", "gene_id", "Name")
	if _, after, ok := strings.Cut(id, ":"); ok && !strings.Contains(id, "..") { // promoter:ENSR1_A2
		id = after
	}
	id = cmp.Or(id, kind+"_"+strconv.Itoa(r.start+1)+"_"+strconv.Itoa(r.end))
	name := &Feature{Type: "RegulatoryFeature", ID: id, Biotype: kind}
	switch kind {
	case "TF_binding_site", "TFBS":
		name.Type, name.Biotype = "MotifFeature", "TF_binding_site"
	case "regulatory_region":
		name.Biotype = cmp.Or(strings.ReplaceAll(r.first("feature_type", "regulatory_class"), " ", "_"), kind)
	}
	return &regulatory{start: max(0, r.start), end: min(r.end, r.region.length), name: name}
}

package variant

// LeftOut is how many haplotypes of neighbouring alleles were not put to reads, by the bound that left
// them out, in all evaluations: where alleles crowd, an event that is missed may be one of them.
type LeftOut struct {
	Alleles      int // haplotypes of one allele of a cluster, that has more than maxCluster stronger ones
	Combinations int // of an allele with others, where not all combinations fit into maxHaplotypes
	Proposals    int // that reads seem to have, beyond maxComplex or with more changes than maxComplexParts
	Wide         int // clusters in which no haplotypes of reads were searched, as they are wider than maxWindow
}

// Add adds what another region, or another evaluation, left out.
func (n *LeftOut) Add(o LeftOut) {
	n.Alleles += o.Alleles
	n.Combinations += o.Combinations
	n.Proposals += o.Proposals
	n.Wide += o.Wide
}

// TakeLeftOut is what evaluations since the last call of it left out.
func (r *Region) TakeLeftOut() LeftOut {
	n := r.bounds
	r.bounds = LeftOut{}
	return n
}

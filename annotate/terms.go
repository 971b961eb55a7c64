package annotate

import (
	"iter"
	"math/bits"
)

// Term is a Sequence Ontology consequence term.
type Term struct {
	SO   string `json:"so"`   // accession
	Name string `json:"name"` // name
}

// Impact is VEP's coarse class of a term. It is kept beside severity, which is the rank of the term.
type Impact string

// The impacts, from severe to slight.
const (
	High     Impact = "HIGH"
	Moderate Impact = "MODERATE"
	Low      Impact = "LOW"
	Modifier Impact = "MODIFIER"
)

// termID numbers the terms by severity, the most severe first.
type termID uint8

const (
	transcriptAblation termID = iota
	spliceAcceptor
	spliceDonor
	stopGained
	frameshift
	stopLost
	startLost
	transcriptAmplification
	featureElongation
	featureTruncation
	inframeInsertion
	inframeDeletion
	missense
	proteinAltering
	spliceDonor5thBase
	spliceRegion
	spliceDonorRegion
	splicePolypyrimidine
	incompleteTerminalCodon
	startRetained
	stopRetained
	synonymous
	codingSequence
	matureMiRNA
	fivePrimeUTR
	threePrimeUTR
	nonCodingExon
	intron
	nmdTranscript
	nonCodingTranscript
	codingTranscript
	upstreamGene
	downstreamGene
	motifAblation
	motifAmplification
	motifVariant
	regulatoryAblation
	regulatoryAmplification
	regulatoryVariant
	intergenic
	sequenceVariant
	termCount
)

// terms are the Sequence Ontology's names and VEP's impacts, in VEP's order of severity (Ensembl releases 115 and
// 116).
var terms = [termCount]struct {
	Term
	impact Impact
}{
	transcriptAblation:      {Term{"SO:0001893", "transcript_ablation"}, High},
	spliceAcceptor:          {Term{"SO:0001574", "splice_acceptor_variant"}, High},
	spliceDonor:             {Term{"SO:0001575", "splice_donor_variant"}, High},
	stopGained:              {Term{"SO:0001587", "stop_gained"}, High},
	frameshift:              {Term{"SO:0001589", "frameshift_variant"}, High},
	stopLost:                {Term{"SO:0001578", "stop_lost"}, High},
	startLost:               {Term{"SO:0002012", "start_lost"}, High},
	transcriptAmplification: {Term{"SO:0001889", "transcript_amplification"}, High},
	featureElongation:       {Term{"SO:0001907", "feature_elongation"}, High},
	featureTruncation:       {Term{"SO:0001906", "feature_truncation"}, High},
	inframeInsertion:        {Term{"SO:0001821", "inframe_insertion"}, Moderate},
	inframeDeletion:         {Term{"SO:0001822", "inframe_deletion"}, Moderate},
	missense:                {Term{"SO:0001583", "missense_variant"}, Moderate},
	proteinAltering:         {Term{"SO:0001818", "protein_altering_variant"}, Moderate},
	spliceDonor5thBase:      {Term{"SO:0001787", "splice_donor_5th_base_variant"}, Low},
	spliceRegion:            {Term{"SO:0001630", "splice_region_variant"}, Low},
	spliceDonorRegion:       {Term{"SO:0002170", "splice_donor_region_variant"}, Low},
	splicePolypyrimidine:    {Term{"SO:0002169", "splice_polypyrimidine_tract_variant"}, Low},
	incompleteTerminalCodon: {Term{"SO:0001626", "incomplete_terminal_codon_variant"}, Low},
	startRetained:           {Term{"SO:0002019", "start_retained_variant"}, Low},
	stopRetained:            {Term{"SO:0001567", "stop_retained_variant"}, Low},
	synonymous:              {Term{"SO:0001819", "synonymous_variant"}, Low},
	codingSequence:          {Term{"SO:0001580", "coding_sequence_variant"}, Modifier},
	matureMiRNA:             {Term{"SO:0001620", "mature_miRNA_variant"}, Modifier},
	fivePrimeUTR:            {Term{"SO:0001623", "5_prime_UTR_variant"}, Modifier},
	threePrimeUTR:           {Term{"SO:0001624", "3_prime_UTR_variant"}, Modifier},
	nonCodingExon:           {Term{"SO:0001792", "non_coding_transcript_exon_variant"}, Modifier},
	intron:                  {Term{"SO:0001627", "intron_variant"}, Modifier},
	nmdTranscript:           {Term{"SO:0001621", "NMD_transcript_variant"}, Modifier},
	nonCodingTranscript:     {Term{"SO:0001619", "non_coding_transcript_variant"}, Modifier},
	codingTranscript:        {Term{"SO:0001968", "coding_transcript_variant"}, Modifier},
	upstreamGene:            {Term{"SO:0001631", "upstream_gene_variant"}, Modifier},
	downstreamGene:          {Term{"SO:0001632", "downstream_gene_variant"}, Modifier},
	motifAblation:           {Term{"SO:0001895", "TFBS_ablation"}, Moderate},
	motifAmplification:      {Term{"SO:0001892", "TFBS_amplification"}, Modifier},
	motifVariant:            {Term{"SO:0001782", "TF_binding_site_variant"}, Modifier},
	regulatoryAblation:      {Term{"SO:0001894", "regulatory_region_ablation"}, Modifier},
	regulatoryAmplification: {Term{"SO:0001891", "regulatory_region_amplification"}, Modifier},
	regulatoryVariant:       {Term{"SO:0001566", "regulatory_region_variant"}, Modifier},
	intergenic:              {Term{"SO:0001628", "intergenic_variant"}, Modifier},
	sequenceVariant:         {Term{"SO:0001060", "sequence_variant"}, Modifier},
}

// Terms yields all consequence terms with their impacts, the most severe first.
func Terms() iter.Seq2[Term, Impact] {
	return func(yield func(Term, Impact) bool) {
		for i := range terms {
			if !yield(terms[i].Term, terms[i].impact) {
				return
			}
		}
	}
}

// termSet is a set of terms, one bit each.
type termSet uint64

func (s termSet) has(t termID) bool { return s&(1<<t) != 0 }

func (s *termSet) add(t termID) { *s |= 1 << t }

// addIf adds t when ok.
func (s *termSet) addIf(ok bool, t termID) {
	if ok {
		s.add(t)
	}
}

// worst is the most severe term of a set that is not empty.
func (s termSet) worst() termID {
	return termID(bits.TrailingZeros64(uint64(s)))
}

// alone holds each term as a list of its own, for sets of one.
var alone = func() (lists [termCount][1]Term) {
	for t := range lists {
		lists[t][0] = terms[t].Term
	}
	return lists
}()

// list are the set's terms from severe to slight.
func (s termSet) list() []Term {
	n := bits.OnesCount64(uint64(s))
	if n == 1 {
		return alone[s.worst()][:]
	}
	list := make([]Term, 0, n)
	for ; s != 0; s &= s - 1 {
		list = append(list, terms[s.worst()].Term)
	}
	return list
}

package annotate

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/vcf"
)

// ANNDescription is the Description of INFO/ANN in a VCF header, as SnpEff writes it.
const ANNDescription = "Functional annotations: 'Allele | Annotation | Annotation_Impact | Gene_Name | Gene_ID | Feature_Type | Feature_ID | " +
	"Transcript_BioType | Rank | HGVS.c | HGVS.p | cDNA.pos / cDNA.length | CDS.pos / CDS.length | AA.pos / AA.length | Distance | " +
	"ERRORS / WARNINGS / INFO' "

// annTerm is a consequence in SnpEff's vocabulary, numbered in its order (EffectType in its source, version 5.1). It
// orders terms within an entry, and entries of the same impact.
type annTerm uint8

const (
	annNone annTerm = iota
	annTranscriptAblation
	annFrameshift
	annStopGained
	annStopLost
	annStartLost
	annSpliceAcceptor
	annSpliceDonor
	annMissense
	annDuplication
	annSpliceRegion
	annSynonymous
	annStartRetained
	annStopRetained
	annCodingSequence
	annConservativeInsertion
	annDisruptiveInsertion
	annConservativeDeletion
	annDisruptiveDeletion
	annFivePrimeUTR
	annThreePrimeUTR
	annMotif
	annMotifAblation
	annRegulatory
	annMiRNA
	annUpstream
	annDownstream
	annIntron
	annIntragenic
	annIntergenic
	annNonCodingExon
	annNonCodingTranscript
	annElongation
	annTruncation
)

// annTerms are SnpEff's names, and its impacts where they are not VEP's.
var annTerms = [...]struct {
	name   string
	impact Impact
}{
	annTranscriptAblation:    {"transcript_ablation", High},
	annFrameshift:            {"frameshift_variant", High},
	annStopGained:            {"stop_gained", High},
	annStopLost:              {"stop_lost", High},
	annStartLost:             {"start_lost", High},
	annSpliceAcceptor:        {"splice_acceptor_variant", High},
	annSpliceDonor:           {"splice_donor_variant", High},
	annMissense:              {"missense_variant", Moderate},
	annDuplication:           {"duplication", Moderate},
	annSpliceRegion:          {"splice_region_variant", Low},
	annSynonymous:            {"synonymous_variant", Low},
	annStartRetained:         {"initiator_codon_variant", Low},
	annStopRetained:          {"stop_retained_variant", Low},
	annCodingSequence:        {"coding_sequence_variant", Modifier},
	annConservativeInsertion: {"conservative_inframe_insertion", Moderate},
	annDisruptiveInsertion:   {"disruptive_inframe_insertion", Moderate},
	annConservativeDeletion:  {"conservative_inframe_deletion", Moderate},
	annDisruptiveDeletion:    {"disruptive_inframe_deletion", Moderate},
	annFivePrimeUTR:          {"5_prime_UTR_variant", Modifier},
	annThreePrimeUTR:         {"3_prime_UTR_variant", Modifier},
	annMotif:                 {"TF_binding_site_variant", Low},
	annMotifAblation:         {"TFBS_ablation", Low},
	annRegulatory:            {"regulatory_region_variant", Modifier},
	annMiRNA:                 {"miRNA", Modifier},
	annUpstream:              {"upstream_gene_variant", Modifier},
	annDownstream:            {"downstream_gene_variant", Modifier},
	annIntron:                {"intron_variant", Modifier},
	annIntragenic:            {"intragenic_variant", Modifier},
	annIntergenic:            {"intergenic_region", Modifier},
	annNonCodingExon:         {"non_coding_transcript_exon_variant", Modifier},
	annNonCodingTranscript:   {"non_coding_transcript_variant", Modifier},
	annElongation:            {"feature_elongation", Modifier},
	annTruncation:            {"feature_truncation", Modifier},
}

// annTermOf maps terms to SnpEff's; those that it has no word for, and that always stand beside another, to none.
// Changes that keep the frame depend on more than the term; see annTermsOf.
var annTermOf = [termCount]annTerm{
	transcriptAblation:      annTranscriptAblation,
	spliceAcceptor:          annSpliceAcceptor,
	spliceDonor:             annSpliceDonor,
	stopGained:              annStopGained,
	frameshift:              annFrameshift,
	stopLost:                annStopLost,
	startLost:               annStartLost,
	missense:                annMissense,
	spliceDonor5thBase:      annSpliceRegion, // SnpEff's splice region reaches from base 3 to base 8 of the intron
	spliceRegion:            annSpliceRegion,
	spliceDonorRegion:       annSpliceRegion,
	startRetained:           annStartRetained,
	stopRetained:            annStopRetained,
	synonymous:              annSynonymous,
	codingSequence:          annCodingSequence,
	fivePrimeUTR:            annFivePrimeUTR,
	threePrimeUTR:           annThreePrimeUTR,
	nonCodingExon:           annNonCodingExon,
	intron:                  annIntron,
	nonCodingTranscript:     annNonCodingTranscript,
	upstreamGene:            annUpstream,
	transcriptAmplification: annDuplication,
	featureElongation:       annElongation,
	featureTruncation:       annTruncation,
	matureMiRNA:             annMiRNA,
	motifAblation:           annMotifAblation,
	motifAmplification:      annDuplication,
	motifVariant:            annMotif,
	regulatoryAblation:      annRegulatory,
	regulatoryAmplification: annDuplication,
	regulatoryVariant:       annRegulatory,
	downstreamGene:          annDownstream,
	intergenic:              annIntergenic,
}

// annEntry is one entry of INFO/ANN.
type annEntry struct {
	*Consequence
	e      *effect
	shift  int // see annShift
	terms  []annTerm
	impact Impact
}

// annShift is by how many bases SnpEff moves an insertion or deletion towards the 3' end of its transcript before it
// determines its consequence. Our own place is the leftmost on the contig, which on the reverse strand is that end.
func annShift(e *effect, c *Consequence) int {
	if e.t != nil && e.t.forward {
		return c.HGVSOffset
	}
	return 0
}

// annTermsOf are e's terms in SnpEff's words and order.
func annTermsOf(e *effect, shift int) []annTerm {
	var list []annTerm
	for t := range termCount {
		if !e.terms.has(t) {
			continue
		}
		word := annTermOf[t]
		switch t {
		case inframeInsertion:
			word = annDisruptiveInsertion
			if c := e.codon; c != nil && (c.lead+shift)%3 == 0 && c.refLen == 0 {
				word = annConservativeInsertion
			}
		case inframeDeletion:
			word = annDisruptiveDeletion
			if c := e.codon; c != nil && (c.lead+shift)%3 == 0 && c.altLen == 0 {
				word = annConservativeDeletion
			}
		case proteinAltering:
			word = annDisruptiveDeletion
			if e.codon != nil && e.codon.altLen > e.codon.refLen {
				word = annDisruptiveInsertion
			}
		}
		if word != annNone && !slices.Contains(list, word) {
			list = append(list, word)
		}
	}
	if len(list) == 0 {
		return []annTerm{annIntragenic}
	}
	slices.Sort(list)
	return list
}

// impactRanks orders impacts, the most severe first.
var impactRanks = map[Impact]int{High: 0, Moderate: 1, Low: 2, Modifier: 3}

// compareANN orders entries as SnpEff does: by impact, term, canonical transcript first, then by place and ID.
func compareANN(x, y *annEntry) int {
	if c := cmp.Or(cmp.Compare(impactRanks[x.impact], impactRanks[y.impact]), cmp.Compare(x.terms[0], y.terms[0])); c != 0 {
		return c
	}
	s, t := x.e.t, y.e.t
	if s == nil || t == nil {
		return yesFirst(s != nil, t != nil)
	}
	return cmp.Or(yesFirst(s.canonical, t.canonical), cmp.Compare(s.start, t.start), cmp.Compare(s.end, t.end), cmp.Compare(s.id, t.id))
}

// appendANN appends what there is to say about an allele as the value of INFO/ANN.
func (a *Annotator) appendANN(b []byte, j *evaluatedAllele) []byte {
	v := j.described()
	effects, beside := j.effects, true
	for _, e := range effects {
		beside = beside && e.terms&^(1<<upstreamGene|1<<downstreamGene) == 0
	}
	if beside { // SnpEff says so, too, where there are genes in reach
		effects = append(effects[:len(effects):len(effects)], &effect{terms: 1 << intergenic})
	}
	entries := make([]annEntry, len(effects))
	for i, e := range effects {
		c := e.consequence(j.name)
		x := annEntry{Consequence: &c, e: e, shift: annShift(e, &c), impact: Modifier}
		x.terms = annTermsOf(e, x.shift)
		for _, t := range x.terms {
			if impact := annTerms[t].impact; impactRanks[impact] < impactRanks[x.impact] {
				x.impact = impact
			}
		}
		entries[i] = x
	}
	slices.SortStableFunc(entries, func(x, y annEntry) int { return compareANN(&x, &y) })
	hgvsg := v.describeOnContig()
	for i := range entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = a.appendANNEntry(b, v, j.alt, hgvsg, &entries[i])
	}
	return b
}

// annEscapes percent-encodes what would end a sub-field, an entry or an INFO field.
var annEscapes = vcf.NewEscaper("%;=,|", " ", "_", "\t", "_")

// appendANNEntry appends one entry.
func (a *Annotator) appendANNEntry(b []byte, v *variant, alt, hgvsg string, x *annEntry) []byte {
	text := func(s string) { b = append(annEscapes.Append(b, s), '|') }
	text(alt)
	for i, t := range x.terms {
		if i > 0 {
			b = append(b, '&')
		}
		b = append(b, annTerms[t].name...)
		if t == annStartRetained && x.e.codon != nil && x.e.codon.refLen == x.e.codon.altLen {
			b = append(b, "&non_canonical_start_codon"...)
		}
	}
	b = append(b, '|')
	text(string(x.impact))
	if x.e.t == nil {
		return a.appendANNBeside(b, v, hgvsg, x)
	}
	text(cmp.Or(x.Gene.Symbol, x.Gene.ID))
	text(cmp.Or(x.Gene.ID, x.Gene.Symbol))
	text("transcript")
	text(x.Feature.ID)
	text(x.Feature.Biotype)
	text(cmp.Or(x.Exon, x.Intron))
	text(afterColon(x.HGVSc))
	text(afterColon(x.HGVSp))
	t, e := x.e.t, x.e
	b = appendOf(b, annFirst(e, e.cdnaFrom, e.cdnaTo, x.shift), t.cdnaLength)
	if t.cds != nil {
		first := annFirst(e, e.cdsFrom, e.cdsTo, x.shift)
		b = appendOf(b, first-t.pad, t.cdsLen-t.pad)
		if e.codon == nil {
			first = 0
		}
		b = appendOf(b, (first+2)/3, max(0, t.cdsLen/3-1)) // without the stop
	} else {
		b = append(b, "||"...)
	}
	if x.Distance > 0 {
		b = strconv.AppendInt(b, int64(annDistance(e)), 10)
	}
	b = append(b, '|')
	if x.shift != 0 {
		b = append(b, "INFO_REALIGN_3_PRIME"...)
	}
	return b
}

// annFirst is the number of the first base concerned, of the offsets [from,to), or a number below 1 if there is none. For
// an insertion it is the base that follows on the contig.
func annFirst(e *effect, from, to, shift int) int {
	switch {
	case from < 0 && to < 0:
		return 0
	case from < 0:
		from = to - 1
	case from == to && !e.t.forward:
		from--
	}
	return from + shift + 1
}

// annDistance is the distance to the transcript of e, which is counted from the variant's first base on the contig.
func annDistance(e *effect) int {
	v, t := e.seen, e.t
	if v.start < t.start {
		return t.start - v.start
	}
	return v.start - (t.end - 1)
}

// appendANNBeside appends the rest of the entry of a variant that is on no transcript.
func (a *Annotator) appendANNBeside(b []byte, v *variant, hgvsg string, x *annEntry) []byte {
	text := func(s string) { b = append(annEscapes.Append(b, s), '|') }
	if x.Feature != nil {
		text("")
		text("")
		text(x.Feature.Type)
		text(x.Feature.ID)
		text(x.Feature.Biotype)
	} else {
		left, right := a.neighbours(v)
		text(cmp.Or(left.Symbol, left.ID) + "-" + cmp.Or(right.Symbol, right.ID))
		text(cmp.Or(left.ID, left.Symbol) + "-" + cmp.Or(right.ID, right.Symbol))
		text("intergenic_region")
		text(cmp.Or(left.ID, left.Symbol) + "-" + cmp.Or(right.ID, right.Symbol))
		text("")
	}
	text("")
	if place := afterColon(hgvsg); place != "" {
		text("n" + place[1:]) // SnpEff numbers the contig as a transcript that is not coding
	} else {
		text("")
	}
	return append(b, "|||||"...)
}

// neighbours are the genes left and right of a variant that is in none; CHR_START and CHR_END where there is none.
func (a *Annotator) neighbours(v *variant) (left, right Gene) {
	left, right = Gene{Symbol: "CHR_START"}, Gene{Symbol: "CHR_END"}
	k := a.model.contigs[v.contig]
	if k == nil || len(k.transcripts) == 0 {
		return left, right
	}
	n, _ := slices.BinarySearchFunc(k.transcripts, v.end, func(t *transcript, end int) int { return cmp.Compare(t.start, end) })
	if n < len(k.transcripts) {
		right = *k.transcripts[n].gene.name
	}
	for i := n - 1; i >= 0; i-- {
		if k.transcripts[i].end == k.reach[n-1] {
			left = *k.transcripts[i].gene.name
			break
		}
	}
	return left, right
}

// appendOf appends a position and the length that it is in, and ends the sub-field. A position below 1 is none.
func appendOf(b []byte, position, length int) []byte {
	if position >= 1 {
		b = strconv.AppendInt(b, int64(position), 10)
		b = append(b, '/')
		b = strconv.AppendInt(b, int64(length), 10)
	}
	return append(b, '|')
}

// afterColon is an HGVS description without the sequence that it is about.
func afterColon(s string) string { return s[strings.LastIndexByte(s, ':')+1:] }

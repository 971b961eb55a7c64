// Package annotate determines the effects of a variant on the genes and regulatory regions it touches.
//
// A Model (genes, transcripts and coding regions from GFF3) and a genome make an Annotator. It is a pure function:
// a variant's annotation depends on nothing but the variant, the model and the genome, never on its neighbours or
// on the order of variants, so any number of goroutines may share one, and a stream gives what a batch gives.
//
// Consequences are Sequence Ontology terms in the severity order of Ensembl VEP, decided by VEP's rules (McLaren et
// al. 2016) on the left-aligned variant, so that every spelling of a variant has the same consequence. HGVS
// descriptions follow the nomenclature's 3' rule in the direction of the described sequence, and proteins are
// compared as proteins. Where VEP's implementation differs from the definition of a term, the definition is
// followed:
//
//   - An insertion or deletion that could as well lie inside an exon does not destroy the splice site beside it.
//   - A start codon that the changed sequence still has is not lost, also where a bacterial code begins with another
//     codon than ATG, and one allele never both loses and keeps it. A coding sequence that does not begin with a
//     start codon has none to lose.
//   - Start and stop are also evaluated where a deletion reaches beyond the transcript, as it often does in genomes
//     whose genes have no untranslated regions; translation then reads on along the contig.
//   - The codon after a shift at the end of the coding sequence is completed by the bases that follow before it is
//     evaluated.
//   - Of several changed stretches of one allele each counts for the splice terms, not the last alone.
//   - The windows of the splice terms do not reach out of short introns.
//
// Symbolic alleles and breakends have VEP's consequences of structural variants; see [Annotator.AnnotateSite].
//
// Coordinates inside the package are inter-residue (0-based, half open) on the forward strand of the contig unless
// a name says otherwise.
package annotate

// Package genes finds the protein-coding genes of a genome in its sequence alone: of bacteria, archaea, their viruses, plasmids, and
// viruses without introns.
//
// Problem: a genome has several times as many open reading frames as genes, each with several places where it
// may start. The features of genes differ from genome to genome, and often nothing is known but the sequence.
//
// Assumptions: genes have no introns, mostly don't overlap, and none lies within another on a level that matters. One genetic code holds for all contigs,
// and they are of one organism.
//
// Strategy:
//
//  1. Every contig is read in a form that depends neither on its strand nor, if it is circular, on where it is cut (sequence.go).
//  2. All frames of all starts get log odds of being read as genes: by a Markov chain over the genome's own codons (coding.go), by the codons of a gene of
//     that GC content anywhere, and by which amino acids are near each other in proteins (scan.go).
//  3. Starts get log odds by their codon, the binding site of the ribosome before them, whose motifs are found by expectation and maximisation, and the
//     bases around (start.go); and by how much of a Shine-Dalgarno site is before them in a row (site.go).
//  4. Two small networks weigh these: which start, and whether gene or not (score.go, network.go).
//  5. The best set of genes is a chain found by dynamic programming, with the distances that neighbours keep (path.go, spacing.go). Sums over all
//     chains give posterior probabilities.
//  6. All models are learnt anew from the genes found, and again. They begin with a prior, which stays as pseudo-counts: short genomes stay near it.
//  7. Genes of the chain that are parts of a broken one by their codons (joint.go), by an insertion sequence in it (repeat.go, insertion.go), or by a longer gene of the
//     same genome (alone.go), are taken out.
//
// The prior, networks included, is made of annotated genomes by LearnPrior (learn.go, fit.go; command train/genes).
//
// Consequences: what is found is a function of the sequence, to the last bit, and independent of the order of contigs but for numbering. Genes of
// eukaryotes aren't found, and fragments of broken genes are genes here if nothing shows that they are.
package genes

// Package haplotype determines the effects of variants on transcripts as bcftools csq does: together, where they lie on
// one haplotype, so that two changes of one codon are one amino acid and a frame that is lost and found again is one
// change; or each on its own.
//
// The rules are those of bcftools csq 1.24 (csq.c and gff.c, MIT licence; Danecek and McCarthy, Bioinformatics 2017,
// doi:10.1093/bioinformatics/btx100), to the letter of INFO/BCSQ, with the structure and the code of its own. Effects departs from them in one point: what
// replaces bases by more or fewer ones is translated as it is (Options.replaced).
//
//	VCF record ─▶ site ─▶ coding, untranslated, splice, transcript (four passes over the genes)
//	                          │ coding changes grow a tree of haplotypes per transcript
//	                          ▼
//	              transcript left behind: its haplotypes are cut into compounds and translated
//	                          ▼
//	              sites whose transcripts are all behind leave, in order
//
// Positions within the package are 0-based and ends inclusive, as in the original; so that rules can be held beside it.
package haplotype

package haplotype

import "strings"

// biotype is a class of transcripts as it is written.
type biotype struct {
	name   string
	coding bool // its coding sequence is translated; outside of it there are introns
	decay  bool // its messenger decays, which is written beside the terms
}

// biotypes are the classes that are known, by the beginnings of the names that annotations use; of two that fit, the
// first counts. Transcripts of other classes have no consequences.
var biotypes = [...]struct {
	prefix string
	fold   bool // upper or lower case
	biotype
}{
	{"protein_coding", false, biotype{"protein_coding", true, false}},
	{"pseudogene", false, biotype{name: "pseudogene"}},
	{"processed_transcript", false, biotype{name: "processed_transcript"}},
	{"processed_pseudogene", false, biotype{name: "processed_pseudogene"}},
	{"polymorphic_pseudogene", false, biotype{"polymorphic_pseudogene", true, false}},
	{"artifact", false, biotype{name: "artifact"}},
	{"antisense", false, biotype{name: "antisense"}},
	{"ambiguous_orf", false, biotype{name: "ambiguous_orf"}},
	{"IG_pseudogene", false, biotype{name: "IG_pseudogene"}},
	{"IG_C_pseudogene", false, biotype{name: "IG_C_pseudogene"}},
	{"IG_J_pseudogene", false, biotype{name: "IG_J_pseudogene"}},
	{"IG_V_pseudogene", false, biotype{name: "IG_V_pseudogene"}},
	{"IG_C", false, biotype{"IG_C", true, false}},
	{"IG_D", false, biotype{"IG_D", true, false}},
	{"IG_J", false, biotype{"IG_J", true, false}},
	{"IG_V", false, biotype{"IG_V", true, false}},
	{"IG_LV", false, biotype{"IG_LV", true, false}},
	{"TR_V_pseudogene", false, biotype{name: "TR_V_pseudogene"}},
	{"TR_J_pseudogene", false, biotype{name: "TR_J_pseudogene"}},
	{"TR_C", false, biotype{"TR_C", true, false}},
	{"TR_D", false, biotype{"TR_D", true, false}},
	{"TR_J", false, biotype{"TR_J", true, false}},
	{"TR_V", false, biotype{"TR_V", true, false}},
	{"Mt_tRNA_pseudogene", false, biotype{name: "MT_tRNA_pseudogene"}},
	{"Mt_tRNA", true, biotype{name: "MT_tRNA"}},
	{"Mt_rRNA", true, biotype{name: "MT_rRNA"}},
	{"mRNA", true, biotype{"protein_coding", true, false}},
	{"lincRNA", false, biotype{name: "lincRNA"}},
	{"lncRNA", false, biotype{name: "lncRNA"}},
	{"macro_lncRNA", false, biotype{name: "macro_lncRNA"}},
	{"misc_RNA_pseudogene", false, biotype{name: "misc_RNA_pseudogene"}},
	{"miRNA_pseudogene", false, biotype{name: "miRNA_pseudogene"}},
	{"miRNA", false, biotype{name: "miRNA"}},
	{"misc_RNA", false, biotype{name: "misc_RNA"}},
	{"rRNA", false, biotype{name: "rRNA"}},
	{"ribozyme", false, biotype{name: "ribozyme"}},
	{"retained_intron", false, biotype{name: "retained_intron"}},
	{"retrotransposed", false, biotype{name: "retrotransposed"}},
	{"snRNA", false, biotype{name: "snRNA"}},
	{"sRNA", false, biotype{name: "sRNA"}},
	{"scRNA", false, biotype{name: "scRNA"}},
	{"scaRNA", false, biotype{name: "scaRNA"}},
	{"snoRNA", false, biotype{name: "snoRNA"}},
	{"sense_intronic", false, biotype{name: "sense_intronic"}},
	{"sense_overlapping", false, biotype{name: "sense_overlapping"}},
	{"tRNA_pseudogene", false, biotype{name: "Trna_pseudogene"}},
	{"transcribed_processed_pseudogene", false, biotype{name: "transcribed_processed_pseudogene"}},
	{"transcribed_unprocessed_pseudogene", false, biotype{name: "transcribed_unprocessed_pseudogene"}},
	{"transcribed_unitary_pseudogene", false, biotype{name: "transcribed_unitary_pseudogene"}},
	{"translated_unprocessed_pseudogene", false, biotype{name: "translated_unprocessed_pseudogene"}},
	{"translated_processed_pseudogene", false, biotype{name: "translated_processed_pseudogene"}},
	{"nonsense_mediated_decay", false, biotype{"NMD", true, true}},
	{"non_stop_decay", false, biotype{"non_stop_decay", true, false}},
	{"NMD", false, biotype{"NMD", true, true}},
	{"known_ncrna", false, biotype{name: "known_ncRNA"}},
	{"unitary_pseudogene", false, biotype{name: "unitary_pseudogene"}},
	{"unprocessed_pseudogene", false, biotype{name: "unprocessed_pseudogene"}},
	{"LRG_gene", false, biotype{name: "LRG_gene"}},
	{"3prime_overlapping_ncRNA", true, biotype{name: "3_prime_overlapping_ncRNA"}},
	{"3_prime_overlapping_ncRNA", true, biotype{name: "3_prime_overlapping_ncRNA"}},
	{"disrupted_domain", false, biotype{name: "disrupted_domain"}},
	{"vaultRNA", false, biotype{name: "vaultRNA"}},
	{"bidirectional_promoter_lncRNA", false, biotype{name: "bidirectional_promoter_lncRNA"}},
}

// biotypeOf is the class that name stands for, or nil.
func biotypeOf(name string) *biotype {
	for i := range biotypes {
		b := &biotypes[i]
		if strings.HasPrefix(name, b.prefix) || b.fold && len(name) >= len(b.prefix) && strings.EqualFold(name[:len(b.prefix)], b.prefix) {
			return &b.biotype
		}
	}
	return nil
}

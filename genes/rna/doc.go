// Package rna finds the genes of ribosomal and transfer RNA in bacteria and phages: ribosomal RNA by the sequences of other organisms, transfer RNA by
// its cloverleaf.
//
// Problem: a reference without annotation has RNA genes as well, and a search for proteins alone takes variants in them for variants between
// genes, or for those of a protein that isn't there.
// Strategy: both kinds are so conserved that they are recognised without training on the genome. Ribosomal RNA shares many words of eleven bases with that
// of any other bacterium, in the same order. Transfer RNA has four stems and some bases that hardly ever change.
// Consequence: what is found has the ends that the reference's RNA has, within a few bases. RNA genes of other kinds are not found.
package rna

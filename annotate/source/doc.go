// Package source keeps entries about variants, from ClinVar, gnomAD, dbSNP or any VCF, BED or TSV file, in
// immutable files that are mapped into memory.
//
// A Compiler makes a file of an input; Open maps one for a reference; a Set holds several, replaces them while they are
// read, and answers an annotate.Annotator. The format is described in FORMAT.md.
package source

// Package function reads what genes and proteins do: terms of the Gene Ontology (GAF, GPAD), domains of proteins
// (InterProScan and tables like it) and sets of genes such as pathways (GMT), and finds them for an annotate.Annotator.
//
// Files are held in memory. Annotations with the qualifier NOT are left out; so are obsolete terms when the ontology
// (OBO) is among the files, which also gives terms their names.
package function

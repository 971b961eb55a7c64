// Package minimap aligns reads with minimap2 (Li, Bioinformatics 2018 and 2021)
// through libminimap2.
//
// One Index is shared by any number of Aligners; each Aligner has its own
// working memory and serves one goroutine at a time. The result for a read
// depends on its name, its sequence, the reference and the preset, and on
// nothing else.
package minimap

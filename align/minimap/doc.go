// Package minimap aligns reads with minimap2 (Li, Bioinformatics 2018 and 2021)
// through libminimap2.
//
// One Index is shared by any number of Aligners and Pools. An Aligner has working memory of its
// own and serves one goroutine at a time; a Pool serves many. The result for a read
// depends on its name, its sequence, the reference and the preset, and on
// nothing else.
package minimap

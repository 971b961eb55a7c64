// Package report makes one HTML file of the results of a run, for people: what was found in which sample and what to do,
// markers by sample, depth, quality, versions, and what was not examined.
//
// It reads the files that pore run has written and nothing else, so a report can be made anywhere and
// again. The file needs no network and no script, and is a function of what was read.
package report

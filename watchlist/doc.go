// Package watchlist holds samples against watch-lists while the reads come in: declarative panels of alleles, protein
// changes, genes, regions and consequence classes, and for each of them a state that changes with the evidence.
//
// A [Panel] is what a file says, a [Watch] is panels that were checked against a reference and its genes, and a
// [Tracker] is the state of one sample. All of it is pure: no clock, no goroutine, no I/O but reading a panel's files.
//
// The states of a rule, and of each allele where a rule can match several:
//
//	PENDING       nothing can be said yet
//	SUSPECTED     reads speak for it, but not enough of them, or it is filtered, or not called
//	DETECTED      the sequential test has passed, and every threshold of the rule
//	NEGATIVE      not there, at a depth that makes a miss improbable, and so few reads show it; the probability is part
//	              of the alert
//	NOT_CALLABLE  the run has ended and neither can be said
//
// Two properties hold. Evaluating again after every read does not raise the rate of false alarms: the test is a
// likelihood ratio that exceeds 1/alpha with a probability of at most alpha, ever. And once the runs of a sample have
// ended, the states depend on its final variants and depths alone, not on the order in which anything arrived.
//
// docs/consume/watchlists.md describes how to write a panel.
package watchlist

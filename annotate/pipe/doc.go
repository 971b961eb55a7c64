// Package pipe annotates VCF streams on several cores.
//
//	reader ─▶ transformers ─▶ workers ─▶ writer
//
// The reader cuts the stream into batches of whole lines and passes each one on as soon as it has a line, so that a
// live stream is not held back. Transformers (usually there are none) see the records one after the other
// and may hold them back until they know what comes next. Workers annotate batches in parallel, each with memory of
// its own. The writer puts the batches out in the order of the stream. A fixed number of batches circulates, so that
// memory is bounded and a slow goroutine holds up the others.
package pipe

// Package infer runs networks on windows of a signal and shares each
// run among all producers of windows. It is the only package that knows ONNX
// Runtime.
//
// A [Runner] is one copy of a network on one device with space for one batch. A
// [Batcher] owns some runners and a queue. Everything that wants windows
// computed becomes a [Producer]: it submits requests, blocks while the queue is
// full, and receives its own requests back in the order in which they were
// computed. Every request that was submitted comes back exactly once.
//
// # When a batch leaves
//
// A free runner takes the requests that are due first, of any producers, for one of three
// reasons, and the reason is a metric label:
//
//   - full: there are as many as a batch holds;
//   - delay: the oldest has waited for the maximum delay;
//   - drain: nothing more can come, because every producer is waiting for results
//     or has left, or because the batcher is closing.
//
// The third reason is what makes a single reader fast: nobody waits for a timer
// when the only one who could fill the batch waits for it too.
//
// Windows are of one length. One that is shorter, the last of a read, leaves in a batch with
// those of its own length: what a row is computed to doesn't depend on the
// others, but it would on what pads it. Only networks that leave the length open have such windows,
// on a CPU ([Runners.Unit]). Where many reads are at hand and nobody waits for one by itself, it waits until
// there is a whole batch of its length, or nothing else to do ([Request.Leisure]).
//
// # Who comes first
//
// A producer can be patient: its windows are of a read that goes on, and nobody
// waits for them yet. They have a queue of their own, no batch waits for them to
// fill it, and requests of other producers overtake them, by a second at most.
// When its read ends the producer hurries, and so do those of its windows that are
// queued.
//
// # What a batch costs
//
// On a GPU a batch is padded to its full size: the libraries below choose
// their algorithms by shape, and with a fixed shape the result of a row can't
// depend on how many others there were. On a CPU, and on a GPU where operators of our own
// compute all of the network, a smaller batch is proportionally cheaper, so nothing is
// padded, provided that rows are computed independently of their number; that is checked
// bit for bit when a network is loaded, and one that fails gets fixed batches as well. In whole
// numbers ([PrecisionInt8]) rows are never independent there, so a batch is one window.
package infer

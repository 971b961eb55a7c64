// Package stage is the adaptive stage of the stream: signal chunks in, decisions
// about reads in progress out.
//
// # The life of an evaluation
//
// The handler of a signal partition collects the beginning of each channel's read
// ([channels]). When there is enough of one, an [evaluation] is queued at the
// [desk], which all partitions of the process share. A free worker takes the evaluation
// whose signal is the youngest, basecalls and aligns that signal, and asks the policy. A
// decision is published at once.
//
// An evaluation is worth nothing when it is late, so none waits for long. One that is
// older than the stage's limit, or that exceeds the queue, is given back to its read,
// counted, and due again with the read's next chunk.
//
// Nothing is kept: an offset is dealt with as soon as its record has been handled, and a
// new owner begins at the end of the log. Decisions go out at least once, outside of
// any transaction, because a repeated one is harmless and one that waits is not.
package stage

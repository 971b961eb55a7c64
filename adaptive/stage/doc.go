// Package stage is the adaptive stage of the stream: signal chunks in, decisions
// about reads in progress out.
//
// # The life of a look
//
// The handler of a signal partition collects the beginning of each channel's read
// ([channels]). When there is enough of one, a look is queued at the [desk], which all
// partitions of the process share. A free worker takes the look whose signal is the
// youngest, basecalls and aligns it, and asks the policy. A decision is published at
// once.
//
// A look is worth nothing when it is late, so none waits for long: what is older than
// the stage's limit, or has no room, is given back to its read, counted, and due again
// with the read's next chunk.
//
// Nothing is kept: an offset is dealt with as soon as its record has been handled, and a
// new owner begins at the end of the log. Decisions go out at least once, outside of
// any transaction, because a repeated one is harmless and one that waits is not.
package stage

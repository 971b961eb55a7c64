// Package stage is the basecall stage of the stream: signal chunks in, aligned
// read segments out.
//
// # The life of a chunk
//
// The handler of a signal partition decodes a chunk and gives it to the
// [assembler], which collects each channel's read. When a read is complete its
// current is basecalled, aligned and cut into one segment per region of the
// reference that it touches; segments go to the partition of the reads topic
// that owns the region. All of a read's chunks are resolved together, once its
// segments are durable, so after a crash the committed offset lies before every
// read that is not done.
//
// A run's end marker is passed on to every partition of the reads topic once
// every earlier read of the partition is durable there.
package stage

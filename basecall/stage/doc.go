// Package stage is the basecall stage of the stream: signal chunks in, aligned
// read segments out.
//
// # The life of a chunk
//
// The handler of a signal partition gives every record to its [fold], which is
// all that the stage knows: a function of the records. There the [assembler]
// collects each channel's read, packed as it came. A chunk is dealt with once it
// is in there, for the state is kept in snapshots and can be had again from the
// log. Beside the fold, the read's [calls] get its samples at once, and have those
// windows basecalled that are due. When a chunk completes a read, what is left of
// it is basecalled, and the read aligned and cut into one segment per region of the
// reference that it touches; segments go to the partition of the reads topic that
// owns the region. Only the record that completed the read stays open until then.
//
// What is being called is no part of the state: it follows from the signal, to the
// byte. A new owner of the partition calls open reads anew, as chunks of them come.
//
// All that follows from one record is emitted at once and resolves the record.
// So of every record either all or nothing is downstream, and a new owner does
// the rest, once: it folds in again what is dealt with, muted, and handles what
// is open.
//
// A run's end marker is passed on to every partition of the reads topic once
// every earlier read of the partition is durable there.
package stage

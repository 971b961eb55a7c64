// Package kafka carries records between the stages over Apache Kafka, and is
// the only one to know which client library does it.
//
// Of the library, connections (with TLS, SASL and version negotiation), the
// plainer request types and the group membership are used; its reader, writer
// and client are not. The writer can't be made idempotent, the reader delivers
// what transactions have aborted and lets an old member's late commit rewind a
// new one's, and the client routes by metadata that is seconds old. So this
// package sends every request to a broker of its own choice (see call in
// wire.go) and encodes and decodes produce and fetch requests itself:
//
//   - [Producer] writes with producer id and sequence numbers and resends the
//     same bytes until they are acknowledged, so that a retry never doubles a
//     record. Back-pressure is in bytes.
//   - [Fetcher] reads one partition and shows only committed records.
//   - [RunGroup] is a member of a consumer group: every assigned partition gets
//     a worker that owns a [stream.Handler] and takes it through restore, live
//     and drain.
//
// # Life of a generation
//
// The group gives this member partitions. Each gets a worker, which asks for
// the log's bounds, makes a handler, replays the records before the committed
// offset and then fetches and handles live. Every second one commit covers all
// workers. When the group takes the partitions away, when the service stops,
// or when a worker fails, all workers stop fetching, let their handlers finish
// within a bound, wait for what these have emitted, and a last commit is made;
// only then does the library rejoin. Heartbeats never wait for a handler.
//
// # What is not obvious
//
//   - Offsets that a handler resolves count only when everything it emitted
//     before is durable, not just that emission's own records.
//   - A broker lets every member commit every partition. Commits are made from
//     a generation's own workers alone, and a generation that has ended can't
//     commit.
//   - A batch buffer is reused only when its first try succeeded: a try that
//     was given up may still be sending the bytes.
//   - Sequence numbers are per partition, and so is the recovery: when one
//     partition has to go on under a new producer id, the others keep theirs.
//
// Offsets are committed only as far as everything before them is resolved: its
// effects are durable downstream. A crash therefore repeats work and never
// loses any.
package kafka

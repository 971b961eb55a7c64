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
//   - [Transactor] writes likewise inside transactions, with the group's offsets
//     in them; see below.
//   - [Fetcher] reads one partition and shows only committed records.
//   - [RunGroup] is a member of a consumer group: every assigned partition gets
//     a worker that owns a [stream.Handler] and takes it through restore, live
//     and drain.
//
// # Life of a generation
//
// The group gives this member partitions, where it can those that it had. Each
// gets a worker, which first takes the partition's transactional id: from then on
// nobody else can commit for it. Then it fetches the committed position, which
// stands still now, and asks for the log's bounds; goes on with the handler it
// has kept if nobody has gone further since, or else makes one, restores the
// newest usable snapshot and replays what came after it; and then fetches and
// handles live. What to do with a record, what to commit and when is decided by
// package partition. While there is something to commit the worker commits, in a
// transaction with what its handler has emitted, several times a second.
//
// When the group takes the partitions away, when the service stops, or when a
// worker fails, all workers stop fetching, let their handlers finish within a
// bound, wait for what these have emitted, and commit for a last time; only then
// does the library rejoin. What has been drained is kept for the next generation.
// Neither a handler nor a commit is ever waited for by the heartbeats.
//
// # Transactions
//
// A [Transactor] has a transactional id. Taking it fences the holder before: the
// coordinator aborts what that holder left open and completes what it had
// decided. Each transaction goes the same way. The first batch of a partition
// makes the partition part of it (AddPartitionsToTxn, one request for all
// partitions that have records by then); Hold keeps what is sent later in the
// buffer and waits until the brokers have all that was sent before; Commit adds
// the group's offsets with generation and member (AddOffsetsToTxn,
// TxnOffsetCommit: the coordinator refuses those of a generation that has ended)
// and ends the transaction (EndTxn).
//
// Every request is repeated with the same content, at the coordinator's new
// place if it has moved, and repeating is harmless: the coordinator keeps the
// outcome of the last transaction until the next begins. So a commit whose
// answer is lost is asked about until the answer comes. If it does not come in
// time, or another has the id by then, the commit is in doubt, and only there:
// the next holder of the id settles it, and the group's committed offset, which
// [Client.CommittedOffset] fetches once no transaction can change it any more,
// shows what became of it.
//
// An abort takes a new epoch. A batch that was given up may still be on its way;
// in a next transaction under the old epoch it would be taken for a part of it.
// The new epoch is asked for by naming the old one, so one who has been fenced
// can't get the id back by aborting.
//
// A broker answers a commit once it has decided, and marks the partitions a few
// milliseconds later. Until then readers don't see the transaction, and the
// coordinator answers CONCURRENT_TRANSACTIONS to the next; that is waited for.
//
// # What is not obvious
//
//   - Offsets that a handler resolves count only when everything it emitted
//     before is durable or in the same transaction, not just that emission's own
//     records.
//   - The committed position records which records behind the offset are dealt
//     with. A new owner commits nothing until it has read that far again, or that
//     would be forgotten.
//   - A broker lets every member commit every partition. Commits are made from
//     a generation's own workers alone, and a generation that has ended can't
//     commit.
//   - A batch buffer is reused only when its first try succeeded: a try that
//     was given up may still be sending the bytes.
//   - Sequence numbers are per partition, and so is the recovery: when one
//     partition has to go on under a new producer id, the others keep theirs.
//
// Offsets are committed only as far as everything before them is resolved: its
// effects are durable downstream, or become so with the commit. A crash therefore
// repeats work and never loses any; in transactions nobody sees that it did.
package kafka

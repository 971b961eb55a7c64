// Package stream defines what travels between the stages and the pure logic of
// a partition worker: record types and their codec, topic names and settings,
// partition choice, offset tracking and run markers.
//
// Nothing here does I/O, starts a goroutine or reads a clock. The packages
// below it do: stream/kafka speaks to brokers, stream/embedded runs one inside
// the process.
//
//	sequencer ─ ingest ─▶ signal ─▶ basecall ─▶ reads ─▶ variant ─▶ calls ─▶ annotate ─▶ variants
//	                                                                                └─▶ watch ─▶ watch ─▶ alerts
//
// # Life of a partition
//
// One partition of an input topic has one worker at a time, and the worker owns
// its [Handler]. The input topic is the changelog: a new owner first replays
// the records before the committed offset with emission muted, which rebuilds
// the handler's state, and then goes live. Handlers are deterministic functions
// of the record sequence, so a record that is delivered twice produces the same
// records downstream, and every identifier downstream is derived from content:
// consumers that fold by identifier see each effect once.
package stream

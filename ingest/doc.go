// Package ingest puts recorded signal on the signal topic as the sequencer
// would have: chunk by chunk, all channels at once, by the recording's clock.
//
// The order in which chunks leave is decided by [Schedule], a pure type; the
// [Player] around it reads samples, packs them, keeps the pace and sends.
package ingest

// Package minknow follows sequencers through MinKNOW's gRPC interface and turns
// what their runs give while they run into chunks of signal.
//
// What MinKNOW gives live (data.get_live_reads) is made for adaptive sampling: the
// chunks of reads in progress, each said to begin at a sample of the run. It says
// neither which chunk is a read's last nor that it has skipped one. [reads], a
// pure type, finds out both: the stretches of a channel follow each other without
// a gap, so where the next one begins the read has ended, and what lies between
// what has come is missing. Around it, a position follows one flow cell position
// through its runs, and [Follow] all positions of a host.
package minknow

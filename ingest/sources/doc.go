// Package sources runs many sources of signal in one process, each for itself: one
// that fails, panics, hangs or floods doesn't hurt the others, and a new list of
// sources stops and starts only what has changed.
//
// table.go decides what is to be stopped and started, and reads no clock;
// supervisor.go does it. follow.go reads the file of sources when it changes, and
// status.go is what the process says of its sources.
package sources

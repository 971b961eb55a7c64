//go:build race

package vbz

// raceDetector says that the race detector is on, whose bookkeeping allocates.
const raceDetector = true

//go:build race

package testenv

// raceDetector says whether the race detector looks on.
const raceDetector = true

//go:build race

package testenv

// raceDetector says whether the test was built with the race detector.
const raceDetector = true

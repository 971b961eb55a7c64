//go:build !race

package vbz

const raceDetector = false

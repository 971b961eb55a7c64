package main

import (
	"os"
	"runtime/debug"
)

// setGCPercent says how far the heap may grow between two collections, in per cent of what
// is in use, unless the environment's GOGC does.
func setGCPercent(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

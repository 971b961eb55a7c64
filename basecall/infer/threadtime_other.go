//go:build !linux

package infer

import "time"

// threadTime returns the time, for want of the thread's own.
func threadTime() time.Duration { return time.Duration(time.Now().UnixNano()) }

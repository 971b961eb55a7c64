package infer

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the processor time that the calling thread has taken.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return time.Duration(time.Now().UnixNano()) // the kernel has had this clock since 2.6.12
	}
	return time.Duration(t.Nano())
}

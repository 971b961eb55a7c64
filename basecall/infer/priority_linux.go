package infer

import "golang.org/x/sys/unix"

// givingWay is by how much the priority of threads that give way is lowered: beside a thread that doesn't, one gets a tenth of a core, so that
// what it computes goes on, and no batch seems to hang.
const givingWay = 10

// giveWay lowers the calling thread's priority, which can't be raised again. The kernel refuses that to nobody.
func giveWay() {
	had, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return // there is no seccomp profile in use that refuses it; nothing depends on it
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, min(20-had+givingWay, 19)) // Getpriority returns 20 less the priority
}

package bench

import (
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Cores returns how many processor cores the process may use.
func Cores() int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return runtime.NumCPU()
	}
	return set.Count()
}

// OnCores runs do with the whole process on the first n of its cores, and then
// gives it back those that it had. Libraries' threads move as well.
func OnCores(n int, do func() error) (err error) {
	var had, few unix.CPUSet
	if err := unix.SchedGetaffinity(0, &had); err != nil {
		return fmt.Errorf("reading the process' cores: %w", err)
	}
	if n < 1 || n > had.Count() {
		return fmt.Errorf("running on %d cores: the process has %d", n, had.Count())
	}
	for cpu := 0; few.Count() < n; cpu++ {
		if had.IsSet(cpu) {
			few.Set(cpu)
		}
	}
	if err := moveThreads(&few); err != nil {
		return err
	}
	procs := runtime.GOMAXPROCS(n)
	defer func() {
		runtime.GOMAXPROCS(procs)
		if back := moveThreads(&had); err == nil {
			err = back
		}
	}()
	return do()
}

// moveThreads moves all threads of the process to the given cores. A thread that is
// made later inherits the cores of its creator. A thread that the first pass misses,
// because it was just being made, is listed in the second.
func moveThreads(set *unix.CPUSet) error {
	for range 2 {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("listing the process' threads: %w", err)
		}
		for _, task := range tasks {
			id, err := strconv.Atoi(task.Name())
			if err != nil {
				continue
			}
			if err := unix.SchedSetaffinity(id, set); err != nil && err != unix.ESRCH {
				return fmt.Errorf("moving thread %d: %w", id, err)
			}
		}
	}
	return nil
}

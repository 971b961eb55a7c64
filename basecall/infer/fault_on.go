//go:build planted

package infer

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// faultEnv names a file that says what a device does wrong. It is read before
// every batch:
//
//	error N        the next N batches of the process fail
//	hang SECONDS   the next batch of the process takes so much longer
//	shape          batches come back with a row too few
//
// Another content begins anew; no file or an empty one is a device that works.
const faultEnv = "PORESTREAM_DEVICE_FAULT"

// faults is shared by the runners of a process: what a batch of any of them has
// used up is gone.
var faults struct {
	sync.Mutex
	content string
	left    int
}

// faulty makes a runner do what the file says.
func faulty(r Runner) Runner {
	path := os.Getenv(faultEnv)
	if path == "" {
		return r
	}
	return &faultyRunner{Runner: r, path: path}
}

type faultyRunner struct {
	Runner
	path string
}

// Run implements Runner.
func (f *faultyRunner) Run(rows, samples int) (int, error) {
	content, err := os.ReadFile(f.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	text := strings.TrimSpace(string(content))
	var n int
	switch {
	case text == "":
		used(text, 0)
	case text == "shape":
		computed, err := f.Runner.Run(rows, samples)
		return min(computed, rows) - 1, err
	case scan(text, "error %d", &n):
		if used(text, n) {
			return 0, errors.New("planted failure of the device")
		}
	case scan(text, "hang %d", &n):
		if used(text, 1) {
			time.Sleep(time.Duration(n) * time.Second)
		}
	default:
		return 0, fmt.Errorf("%s: %q is no fault of a device", f.path, text)
	}
	return f.Runner.Run(rows, samples)
}

func scan(text, format string, n *int) bool {
	_, err := fmt.Sscanf(text, format, n)
	return err == nil
}

// used reports whether this batch is one of the n that the content is about.
func used(content string, n int) bool {
	faults.Lock()
	defer faults.Unlock()
	if faults.content != content {
		faults.content, faults.left = content, n
	}
	if faults.left == 0 {
		return false
	}
	faults.left--
	return true
}

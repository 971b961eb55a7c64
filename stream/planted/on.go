//go:build planted

package planted

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Enabled reports whether this build can plant bugs.
const Enabled = true

// environment lists the bugs to plant, separated by commas.
const environment = "PORESTREAM_PLANTED"

// chosen is read once: a bug never comes or goes while a process runs. A name that is no bug's stops the process, lest a run
// without any bug passes for one that the checker missed.
var chosen = sync.OnceValue(func() []Bug {
	var bugs []Bug
	for name := range strings.SplitSeq(os.Getenv(environment), ",") {
		if name == "" {
			continue
		}
		if !slices.Contains(All(), Bug(name)) {
			panic(fmt.Sprintf("%s names %q, but the bugs are %q", environment, name, All()))
		}
		bugs = append(bugs, Bug(name))
	}
	return bugs
})

// asleep counts the calls of Without that have not returned.
var asleep atomic.Int32

// Is reports whether the bug is planted.
func Is(bug Bug) bool { return asleep.Load() == 0 && slices.Contains(chosen(), bug) }

// Without runs do without any bug: the check of a process with bugs must have none itself.
func Without(do func()) {
	asleep.Add(1)
	defer asleep.Add(-1)
	do()
}

//go:build planted

package planted

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// Enabled tells whether this build can plant bugs.
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

// Is reports whether the bug is planted.
func Is(bug Bug) bool { return slices.Contains(chosen(), bug) }

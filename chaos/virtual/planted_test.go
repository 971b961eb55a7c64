//go:build planted

package virtual

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream/planted"
)

// catches are the promises of which each planted bug must be seen to break one at least.
var catches = map[planted.Bug][]string{
	planted.SkipOffsets:         {"every read called once"},
	planted.NoFencing:           {"every read called once", "revisions ascend", "committed offsets never go back", "what is written follows from what was read"},
	planted.NoTrailer:           {"what is written follows from what was read"},
	planted.LoudReplay:          {"every read called once"},
	planted.DoubleApply:         {"what is written follows from what was read"},
	planted.ForgetRunEnd:        {"every run begins and ends once"},
	planted.CommitBeforeProduce: {"every read called once"},
	planted.IgnoreAbort:         {"no dead letters"},
	planted.DoubleCount:         {"modified bases of every read counted once"},
	planted.ForgetCounts:        {"modified bases of every read counted once"},
}

// always are bugs that every seed shows.
var always = []planted.Bug{planted.DoubleApply, planted.ForgetRunEnd, planted.DoubleCount}

// TestEveryPlantedBugIsCaught runs the suite once without a bug, which must pass, and once with each, which must not, for the reason that
// the bug gives.
func TestEveryPlantedBugIsCaught(t *testing.T) {
	if os.Getenv("PORESTREAM_PLANTED_RUN") != "" {
		t.Skip("this is one of its runs")
	}
	run := func(bug planted.Bug) (string, error) {
		seeds := 3
		if slices.Contains(always, bug) {
			seeds = 1
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestProcessorsComeAndGo$", "-test.v", "-test.timeout", "5m")
		cmd.Env = append(os.Environ(), "PORESTREAM_PLANTED_RUN=1", fmt.Sprint("PORESTREAM_VIRTUAL_SEEDS=", seeds), "PORESTREAM_PLANTED="+string(bug))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("")
	require.NoError(t, err, out)
	var table strings.Builder
	for _, bug := range planted.All() {
		out, err := run(bug)
		var found []string
		for _, promise := range catches[bug] {
			for line := range strings.Lines(out) {
				if _, said, ok := strings.Cut(line, ": "+promise+": "); ok {
					found = append(found, promise+": "+strings.TrimSpace(said))
					break
				}
			}
		}
		if err == nil || len(found) == 0 {
			t.Errorf("%s was not caught: %v\n%s", bug, err, out)
			found = []string{"NOT CAUGHT"}
		}
		fmt.Fprintf(&table, "%-22s %s\n", bug, found[0])
	}
	t.Logf("planted bugs and what gave them away:\n%s", table.String())
}

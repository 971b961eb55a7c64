package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWhatCILeavesOutIsWatched: a test that CI leaves out while the files of its group are unchanged names a group that CI has, and is one of its
// files; and each group's passing is written down.
func TestWhatCILeavesOutIsWatched(t *testing.T) {
	read, err := os.ReadFile("../.ci/run")
	require.NoError(t, err)
	script := regexp.MustCompile(`(?m)^\s*#.*$`).ReplaceAllString(strings.ReplaceAll(string(read), "\\\n", " "), "")
	var passing []string
	for _, m := range regexp.MustCompile(`\btested (\w+)|for group in ([\w ]+); do tested \$group`).FindAllStringSubmatch(script, -1) {
		passing = append(passing, strings.Fields(m[1]+" "+m[2])...)
	}
	files := make(map[string][]string)
	var groups []string
	for _, m := range regexp.MustCompile(`(?m)^\twithout (\w+) (.+)$`).FindAllStringSubmatch(script, -1) {
		list := exec.CommandContext(t.Context(), "bash", "-c", "set -f; git ls-files -co --exclude-standard -- "+m[2])
		list.Dir = root()
		out, err := list.Output()
		require.NoError(t, err, m[1])
		groups = append(groups, m[1])
		files[m[1]] = strings.Fields(string(out))
	}
	assert.ElementsMatch(t, groups, passing)

	asked := regexp.MustCompile(`SkipUnchanged\(t, "(\w+)"\)`)
	lines := inTree(t, asked.String())
	assert.Greater(t, len(lines), 10)
	for _, line := range lines {
		group := asked.FindStringSubmatch(line[1])[1]
		assert.Contains(t, files[group], line[0], "it is left out with %s, and a change of it would go untested", group)
	}
}

// TestPlantedTestsAreRun: go test ./... builds no test with this tag.
func TestPlantedTestsAreRun(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	require.NoError(t, err)
	found := 0
	for _, line := range inTree(t, "^//go:build planted$") {
		if strings.HasSuffix(line[0], "_test.go") {
			found++
			assert.Regexp(t, `(?m)^\t.* test .*-tags planted .*\./`+filepath.Dir(line[0])+`( |$)`, string(makefile), "no target runs %s", line[0])
		}
	}
	assert.Positive(t, found)
}

// inTree finds a pattern's lines in files of Go, but in this one, and returns each with its file before it.
func inTree(t *testing.T, pattern string) (found [][2]string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "grep", "--untracked", "-zE", pattern, "--", "*.go", ":!e2e/ci_test.go")
	cmd.Dir = root()
	out, err := cmd.Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		file, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00")
		found = append(found, [2]string{file, text})
	}
	return found
}

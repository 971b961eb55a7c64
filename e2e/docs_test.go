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

var (
	fence      = regexp.MustCompile("(?ms)^ *```([^`\n]*)\n(.*?)^ *```")
	inlineCode = regexp.MustCompile("`([^`\n]+)`")
	programOf  = regexp.MustCompile(`^(?:\./)?(?:bin/)?(pore|ingest|processor)$`)
	assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
)

// words splits the text of one or more shell commands at blanks as a shell does, with quotes and backslashes. What ends a command or takes
// its output elsewhere is a word of its own.
func words(text string) (list []string) {
	var word strings.Builder
	inWord, quote := false, rune(0)
	end := func() {
		if inWord {
			list = append(list, word.String())
		}
		word.Reset()
		inWord = false
	}
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case quote != 0 && r == quote:
			quote = 0
		case quote == '\'', quote != 0 && r != '\\':
			word.WriteRune(r)
		case r == '\\' && i+1 < len(runes):
			i++
			if runes[i] != '\n' {
				word.WriteRune(runes[i])
				inWord = true
			}
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == '#' && !inWord: // a comment
			for i+1 < len(runes) && runes[i+1] != '\n' {
				i++
			}
		case strings.ContainsRune("|;&<>()\n", r):
			end()
			list = append(list, string(r))
		case r == ' ' || r == '\t':
			end()
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	end()
	return list
}

// commandsOf are the calls of our programs in a text of shell commands: program and arguments, without those that stand for something else.
func commandsOf(text string) (calls [][]string) {
	var call []string
	begins := true
	for _, w := range append(words(text), "\n") {
		switch {
		case strings.ContainsAny(w, "<>") && len(w) == 1: // what follows is a file
			begins = false
			if call != nil {
				calls, call = append(calls, call), nil
			}
		case len(w) == 1 && strings.Contains("|;&()\n", w):
			begins = true
			if call != nil {
				calls, call = append(calls, call), nil
			}
		case call != nil:
			if w != "..." && w != "…" {
				call = append(call, w)
			}
		case begins && programOf.MatchString(w):
			call = []string{programOf.FindStringSubmatch(w)[1]}
		default:
			begins = begins && assignment.MatchString(w)
		}
	}
	return calls
}

// group is in the help of what has commands and takes no other words.
var group = regexp.MustCompile(`(?m)^  (pore[a-z -]*) \[flags\]\n  pore[a-z -]* \[command\]$`)

// unknownCommand is the word of a call, if there is one, for which the program has no command: its help is then that of what
// comes before, which has commands.
func unknownCommand(call []string, help string) string {
	of := group.FindStringSubmatch(help)
	if of == nil {
		return ""
	}
	if rest := call[len(strings.Fields(of[1])):]; len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return rest[0]
	}
	return ""
}

// TestCommandsOfTheDocsAreAccepted extracts each command line of our programs from the documents and has the program read it: its commands
// and flags exist, and take such values.
func TestCommandsOfTheDocsAreAccepted(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "git", "-C", root(), "ls-files", "*.md").Output()
	require.NoError(t, err)
	// What has been isn't what is, and what a program writes of itself it accepts.
	left := regexp.MustCompile(`^(CHANGELOG\.md|docs/(measured|develop/decisions|reference/(pore|ingest|processor))/.*)$`)
	tried, seen := 0, make(map[string]bool)
	for file := range strings.Lines(string(out)) {
		file = strings.TrimSpace(file)
		text, err := os.ReadFile(filepath.Join(root(), file))
		if os.IsNotExist(err) || left.MatchString(file) {
			continue
		}
		require.NoError(t, err)
		for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
			if m[1] == "text" { // what is printed
				continue
			}
			for _, call := range commandsOf(m[2]) {
				res := command(t, call[0], append(call[1:], "--help")...)
				assert.Zero(t, res.code, "%s shows %q, which ends with: %s", file, call, res.stderr)
				assert.Empty(t, unknownCommand(call, res.stdout), "%s shows %q, of which this is no command", file, call)
				tried++
			}
		}
		// In a sentence a command is named by the one flag that it is about, and may lack others and that flag's value.
		for _, m := range inlineCode.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
			for _, call := range commandsOf(m[1]) {
				if line := strings.Join(call, " "); !seen[line] && strings.Contains(line, " -") {
					seen[line] = true
					res := command(t, call[0], append(call[1:], "--help")...)
					assert.NotContains(t, res.stderr, "unknown", "%s names %q", file, line)
					assert.Empty(t, unknownCommand(call, res.stdout), "%s names %q, of which this is no command", file, line)
					tried++
				}
			}
		}
	}
	assert.Greater(t, tried, 250)
}

// TestShellWords: what a shell would make of it.
func TestShellWords(t *testing.T) {
	for text, want := range map[string][][]string{
		"bin/pore call -o 'a b' x.bam | pore annotate \"c d\" > y": {{"pore", "call", "-o", "a b", "x.bam"}, {"pore", "annotate", "c d"}},
		"A=1 ingest --brokers \\\n  k:9092 # --none\nls pore":      {{"ingest", "--brokers", "k:9092"}},
		`pore hgvs 'NM_1.1:c.1T>A' "\"q\""`:                        {{"pore", "hgvs", "NM_1.1:c.1T>A", `"q"`}},
		"echo pore; processor --listen :1 2>/dev/null":             {{"processor", "--listen", ":1", "2"}},
	} {
		assert.Equal(t, want, commandsOf(text), text)
	}
}

// TestUnknownCommandsShow: help of a command that isn't there ends well, with the help of what is before it.
func TestUnknownCommandsShow(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"pore": "", "pore nosuch": "nosuch", "pore model": "", "pore model nosuch x": "nosuch", "pore model ls": "", "pore model ls x": "", "pore basecall x": "",
		"ingest reads.pod5": "",
	} {
		call := strings.Fields(line)
		res := command(t, call[0], append(call[1:], "--help")...)
		assert.Equal(t, want, unknownCommand(call, res.stdout), line)
	}
}

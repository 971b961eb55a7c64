// Package clitest holds the commands of a program to what their users count on:
// help that is whole and of one kind, examples and documents that the program would
// take, and a manual that is current.
package clitest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/cli/manual"
)

var update = flag.Bool("update-manual", false, "rewrite the program's manual in docs")

// Program runs all checks. make gives the whole program anew at each call; root is the
// way to the repository's root.
func Program(t *testing.T, root string, make func() *cobra.Command) {
	t.Run("help", func(t *testing.T) { help(t, make()) })
	t.Run("examples", func(t *testing.T) { examples(t, make) })
	t.Run("documents", func(t *testing.T) { documents(t, root, make()) })
	t.Run("manual", func(t *testing.T) { current(t, root, make()) })
	t.Run("pages", func(t *testing.T) { pages(t, make()) })
	t.Run("completion", func(t *testing.T) { completion(t, make) })
}

// manyMeanings are flags that mean something else in different commands, by what these
// work on: times of a run, offsets, formats; channels to take or to simulate; copies of a
// contig or the number of haplotypes; a compiled source or where a profile is from;
// contigs by name or all of them; a file, or a switch for more output.
var manyMeanings = []string{"from", "to", "channels", "ploidy", "source", "circular", "callable", "version"}

// help checks that every command and every flag says what it is for, and that a flag
// that several commands have is the same in all of them.
func help(t *testing.T, root *cobra.Command) {
	type use struct{ command, kind, short string }
	flags := map[string]use{}
	for _, cmd := range manual.Commands(root) {
		path := cmd.CommandPath()
		if s := cmd.Short; s == "" || strings.HasSuffix(s, ".") || !unicode.IsUpper([]rune(s)[0]) {
			t.Errorf("%s: %q is to be a sentence without its full stop", path, s)
		}
		if cmd.Runnable() && !cmd.HasSubCommands() && cmd.Example == "" {
			t.Errorf("%s has no example", path)
		}
		cmd.InitDefaultHelpFlag()
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" || strings.HasSuffix(f.Usage, ".") || strings.Contains(f.Usage, "\n") {
				t.Errorf("%s: --%s: %q is to be one line without a full stop", path, f.Name, f.Usage)
			}
			if f.Name != strings.ToLower(f.Name) || strings.Contains(f.Name, "_") {
				t.Errorf("%s: --%s is to be in lower case with dashes", path, f.Name)
			}
			now := use{path, f.Value.Type(), f.Shorthand}
			if before, ok := flags[f.Name]; !ok {
				flags[f.Name] = now
			} else if (before.kind != now.kind || before.short != now.short) && !slices.Contains(manyMeanings, f.Name) {
				t.Errorf("--%s is a %s (-%s) of %s and a %s (-%s) of %s", f.Name, before.kind, before.short, before.command, now.kind, now.short, path)
			}
		})
	}
}

// examples checks that the program takes its own examples.
func examples(t *testing.T, make func() *cobra.Command) {
	for _, cmd := range manual.Commands(make()) {
		for _, line := range joined(cmd.Example) {
			if !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: the example %q is to be indented by two spaces", cmd.CommandPath(), line)
			}
			found := false
			for _, words := range calls(line, cmd.Root().Name()) {
				found = true
				called, rest, err := make().Find(words)
				if err == nil {
					err = called.ParseFlags(rest)
				}
				if err == nil {
					err = called.ValidateArgs(called.Flags().Args())
				}
				if err == nil {
					err = called.ValidateRequiredFlags()
				}
				if err != nil {
					t.Errorf("%s: the example %q is refused: %v", cmd.CommandPath(), line, err)
				}
			}
			if !found {
				t.Errorf("%s: %q is no call of %s", cmd.CommandPath(), line, cmd.Root().Name())
			}
		}
	}
}

// documents checks that flags that documents give to the program are flags that it has.
func documents(t *testing.T, root string, program *cobra.Command) {
	files := []string{filepath.Join(root, "README.md")}
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ os.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			files = append(files, path)
		}
		return err
	}))
	checked := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, line := range code(string(data)) {
			for _, words := range calls(line, program.Name()) {
				cmd, _, err := program.Find(words)
				if err != nil {
					t.Errorf("%s: %q: %v", filepath.Base(file), line, err)
					continue
				}
				cmd.InitDefaultHelpFlag()
				cmd.InitDefaultVersionFlag()
				for _, w := range words {
					name, ok := strings.CutPrefix(strings.Trim(w, "[],."), "--")
					name, _, _ = strings.Cut(name, "=")
					name, _, _ = strings.Cut(name, "|")
					if !ok || name == "" {
						continue
					}
					checked++
					if cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
						t.Errorf("%s: %q: %s has no --%s", filepath.Base(file), line, cmd.CommandPath(), name)
					}
				}
			}
		}
	}
	assert.NotZero(t, checked, "no document calls %s", program.Name())
}

// current checks that the pages in docs/reference/NAME are what the definitions say.
func current(t *testing.T, root string, program *cobra.Command) {
	folder := filepath.Join(root, "docs", "reference", program.Name())
	again := fmt.Sprintf("go test ./cmd/%s -run TestProgram -update-manual", program.Name())
	want := manual.Pages(program)
	for name, page := range want {
		want[name] = fmt.Sprintf("<!-- Made from the commands' definitions: %s -->\n\n%s\nWhat all commands have in common: [commands.md](../commands.md).\n", again, page)
	}
	if *update {
		require.NoError(t, os.RemoveAll(folder))
		require.NoError(t, os.MkdirAll(folder, 0o755))
		for name, page := range want {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(page), 0o644))
		}
		return
	}
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	got := make(map[string]string)
	for _, e := range entries {
		page, err := os.ReadFile(filepath.Join(folder, e.Name()))
		require.NoError(t, err)
		got[e.Name()] = string(page)
	}
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s is not current: run %s, or make docs", filepath.Join(folder, name), again)
		}
		delete(got, name)
	}
	assert.Empty(t, got, "pages of commands that are no more: run %s, or make docs", again)
}

// pages checks the man pages with mandoc's own checker.
func pages(t *testing.T, program *cobra.Command) {
	tool, err := exec.LookPath("mandoc")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("mandoc is missing")
		}
		t.Skip("mandoc is not installed (Debian: apt-get install mandoc)")
	}
	dir := t.TempDir()
	var files []string
	for _, cmd := range manual.Commands(program) {
		path := filepath.Join(dir, manual.PageName(cmd)+".1")
		require.NoError(t, os.WriteFile(path, manual.Man(cmd, manual.Source{Version: "0.1.0", Date: "2026-11-22"}), 0o644))
		files = append(files, path)
	}
	// Its style is that of OpenBSD's own pages; what it calls a warning is wrong anywhere.
	out, err := exec.CommandContext(t.Context(), tool, append([]string{"-T", "lint", "-W", "warning"}, files...)...).CombinedOutput()
	assert.NoError(t, err, "%s", out)
}

// completion checks that shells take the completion scripts, and that these complete
// commands and flags.
func completion(t *testing.T, make func() *cobra.Command) {
	name := make().Name()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		var script bytes.Buffer
		cmd := make()
		cmd.SetArgs([]string{"completion", shell})
		cmd.SetOut(&script)
		require.NoError(t, cmd.Execute())
		require.Contains(t, script.String(), name)
		path, err := exec.LookPath(shell)
		if err != nil {
			if os.Getenv("CI") == "true" {
				t.Errorf("%s is missing", shell)
			}
			t.Logf("%s is not installed: its completion is not checked", shell)
			continue
		}
		file := filepath.Join(t.TempDir(), name+"."+shell)
		require.NoError(t, os.WriteFile(file, script.Bytes(), 0o644))
		out, err := exec.CommandContext(t.Context(), path, "-n", file).CombinedOutput()
		assert.NoError(t, err, "%s: %s", shell, out)
	}
	for _, words := range [][]string{{"ver"}, {"--ver"}, {"version", "--js"}} {
		var out bytes.Buffer
		cmd := make()
		cmd.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, words...))
		cmd.SetOut(&out)
		cmd.SetErr(&bytes.Buffer{})
		require.NoError(t, cmd.Execute())
		first, _, _ := strings.Cut(out.String(), "\n")
		assert.True(t, strings.HasPrefix(first, words[len(words)-1]) && first != words[len(words)-1], "%v is completed to %q", words, out.String())
	}
}

// Mistake is a wrong call of a program.
type Mistake struct {
	Args string // separated by blanks; {tmp} stands for an empty folder
	Code int    // 1: it can't be done; 2: it is called wrongly
	Want string // a part of the one line that says what is wrong
}

// Refuses runs the program with each mistake and checks that it refuses it with one
// line that has what is wanted. The program is the test's own binary, as Run says.
func Refuses(t *testing.T, variable string, mistakes []Mistake) {
	for _, m := range mistakes {
		t.Run(m.Args, func(t *testing.T) {
			code, stdout, stderr := Run(t, variable, strings.Fields(strings.ReplaceAll(m.Args, "{tmp}", t.TempDir()))...)
			assert.Equal(t, m.Code, code)
			assert.Empty(t, stdout)
			line, ended := strings.CutSuffix(stderr, "\n")
			assert.True(t, ended && line != "" && !strings.Contains(line, "\n"), "not one line: %q", stderr)
			assert.Contains(t, line, m.Want)
			assert.NotContains(t, line, "goroutine ")
		})
	}
}

// Main is a program's TestMain. With the environment variable set, as [Run] sets it, the
// test binary is the program.
func Main(m *testing.M, variable string, program func() *cobra.Command) {
	if os.Getenv(variable) != "" {
		os.Exit(cli.Main(program()))
	}
	os.Exit(m.Run())
}

// Run executes a program's own test binary as the program: its TestMain is [Main].
func Run(t *testing.T, variable string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), variable+"=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		_, exited := errors.AsType[*exec.ExitError](err)
		require.True(t, exited, "%v", err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// code returns the lines of a document's code blocks, those that a backslash joins as
// one.
func code(document string) []string {
	var blocks strings.Builder
	inside := false
	for line := range strings.Lines(document) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inside = !inside
		} else if inside {
			blocks.WriteString(line)
		}
	}
	return joined(blocks.String())
}

// joined are the lines of a text, those that a backslash joins as one, without empty
// ones.
func joined(text string) []string {
	return slices.DeleteFunc(strings.Split(strings.ReplaceAll(text, "\\\n", " "), "\n"), func(s string) bool { return strings.TrimSpace(s) == "" })
}

// calls returns the arguments of each call of a program in a line of shell.
func calls(line, program string) [][]string {
	var out [][]string
	var current []string
	end := func() {
		if len(current) > 0 && filepath.Base(current[0]) == program {
			out = append(out, current[1:])
		}
		current = nil
	}
	words := words(line)
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "#":
			end()
			return out
		case "|", "&&", ";", "$":
			end()
		case ">", "2>", "<", ">>", "&":
			i++
		default:
			current = append(current, words[i])
		}
	}
	end()
	return out
}

// words splits a line as a shell does, as far as documents need it: quotes hold words
// together.
func words(line string) []string {
	var out []string
	var word strings.Builder
	var quote rune
	begun := false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ' || r == '\t':
			if begun {
				out = append(out, word.String())
				word.Reset()
				begun = false
			}
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if begun {
		out = append(out, word.String())
	}
	return out
}

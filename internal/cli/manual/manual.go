// Package manual writes the manual of a program from the definitions of its
// commands: a man page for each command, and a document in Markdown for each of
// the program's own.
package manual

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Commands lists a program's commands, the program itself first and each before
// its subcommands, without those that are hidden, help and completion, which every
// program has alike.
func Commands(root *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{root}
	for _, c := range root.Commands() {
		if !c.Hidden && c.Name() != "help" && c.Name() != "completion" {
			all = append(all, Commands(c)...)
		}
	}
	return all
}

// block is a paragraph of a description: lines that may be joined and broken
// anew, or lines that must stay as they are.
type block struct {
	lines []string
	fixed bool
}

// blocks takes a description apart. Lines that begin with a space or a tab stay as
// they are, all others are prose.
func blocks(text string) []block {
	var out []block
	broken := true
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		line = strings.TrimRight(line, " \t\n")
		if line == "" {
			broken = true
			continue
		}
		fixed := line[0] == ' ' || line[0] == '\t'
		if broken || out[len(out)-1].fixed != fixed {
			out = append(out, block{fixed: fixed})
		}
		last := &out[len(out)-1]
		last.lines = append(last.lines, line)
		broken = false
	}
	return out
}

// description is what a command says of itself at length, or else in short.
func description(cmd *cobra.Command) string {
	if cmd.Long != "" {
		return cmd.Long
	}
	return cmd.Short + "."
}

// option is a flag as manuals show it.
type option struct {
	short, long string // with their dashes; short may be empty
	value       string // what the flag takes; empty: nothing
	text        string
}

// options lists the flags of a command that are not hidden, by name.
func options(cmd *cobra.Command) []option {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	var all []option
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		o := option{long: "--" + f.Name}
		if f.Shorthand != "" {
			o.short = "-" + f.Shorthand
		}
		o.value, o.text = pflag.UnquoteUsage(f)
		if o.value == "" && f.Value.Type() != "bool" {
			o.value = f.Value.Type()
		}
		switch f.Name {
		case "help":
			o.text = "print a summary of the command and its options"
		case "version":
			if f.Value.Type() == "bool" {
				o.text = "print what the program was built from, as the command version does"
			}
		}
		if d := defaultOf(f); d != "" {
			o.text += " (default " + d + ")"
		}
		all = append(all, o)
	})
	return all
}

// defaultOf is a flag's default, empty where it adds nothing: a zero, or a default that the flag's
// description already states.
func defaultOf(f *pflag.Flag) string {
	if strings.Contains(f.Usage, "(default") || slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue) {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(f.DefValue, "["), "]")
}

// exits are the exit codes of all programs.
var exits = []struct {
	code string
	text string
}{
	{"0", "It is done."},
	{"1", "It failed. One line on standard error says what, where, and what can be done."},
	{"2", "It was called wrongly. One line on standard error says how."},
}

// Pages writes the documents of a program, by their file's name: README.md of the program itself, and one of
// each of its commands, subcommands included.
func Pages(root *cobra.Command) map[string]string {
	file := func(c *cobra.Command) string { return c.Name() + ".md" }
	pages := map[string]string{"README.md": page([]*cobra.Command{root}, file)}
	for _, c := range children(root) {
		pages[file(c)] = page(Commands(c), func(c *cobra.Command) string { return "#" + strings.ReplaceAll(c.CommandPath(), " ", "-") })
	}
	return pages
}

// page is a document about commands; the title is that of the first. link returns where a reader finds a subcommand.
func page(commands []*cobra.Command, link func(*cobra.Command) string) string {
	var b strings.Builder
	for i, cmd := range commands {
		heading := "##"
		if i == 0 {
			heading = "#"
		}
		fmt.Fprintf(&b, "%s `%s`\n\n%s.\n\n", heading, cmd.CommandPath(), strings.TrimSuffix(cmd.Short, "."))
		section(&b, cmd, link)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// section writes all that a document says of one command.
func section(b *strings.Builder, cmd *cobra.Command, link func(*cobra.Command) string) {
	if cmd.Runnable() {
		fmt.Fprintf(b, "```text\n%s\n```\n\n", useLine(cmd))
	}
	if cmd.Long != "" {
		for _, p := range blocks(cmd.Long) {
			if p.fixed {
				fmt.Fprintf(b, "```text\n%s\n```\n\n", strings.Join(p.lines, "\n"))
			} else {
				fmt.Fprintf(b, "%s\n\n", markdownText(strings.Join(p.lines, "\n")))
			}
		}
	}
	if cmd.Example != "" {
		fmt.Fprintf(b, "```sh\n%s\n```\n\n", unindent(cmd.Example))
	}
	if kids := children(cmd); len(kids) > 0 {
		for _, c := range kids {
			fmt.Fprintf(b, "- [`%s`](%s): %s\n", c.CommandPath(), link(c), markdownText(c.Short))
		}
		b.WriteString("\n")
	}
	var rows []option
	for _, o := range options(cmd) {
		if o.long != "--help" {
			rows = append(rows, o)
		}
	}
	if len(rows) == 0 {
		return
	}
	b.WriteString("| flag | meaning |\n|---|---|\n")
	for _, o := range rows {
		name := o.long
		if o.short != "" {
			name = o.short + ", " + name
		}
		if o.value != "" {
			name += " " + o.value
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", name, markdownText(o.text))
	}
	b.WriteString("\n")
}

// markdownText keeps characters that mean something to Markdown as they are.
func markdownText(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "|", `\|`, "`", "\\`", "[", `\[`).Replace(s)
}

// useLine is how a command is called.
func useLine(cmd *cobra.Command) string {
	return strings.TrimSuffix(cmd.UseLine(), " [flags]") + " [flags]"
}

// children are the commands that a manual lists under one.
func children(cmd *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, c := range Commands(cmd)[1:] {
		if c.Parent() == cmd {
			out = append(out, c)
		}
	}
	return out
}

// unindent takes two spaces off the beginning of each line, with which examples
// stand in help.
func unindent(s string) string {
	var lines []string
	for line := range strings.Lines(strings.Trim(s, "\n")) {
		lines = append(lines, strings.TrimPrefix(strings.TrimRight(line, "\n"), "  "))
	}
	return strings.Join(lines, "\n")
}

// lower begins a sentence in the small, unless its first word is a name.
func lower(s string) string {
	r := []rune(s)
	if len(r) < 2 || !unicode.IsUpper(r[0]) || !unicode.IsLower(r[1]) {
		return s
	}
	r[0] = unicode.ToLower(r[0])
	return string(r)
}

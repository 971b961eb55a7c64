package manual

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// PageName is what the man page of a command is called: pore-simulate-reads.
func PageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// Source is what the pages are of.
type Source struct {
	Version string // of the program
	Date    string // of the version, YYYY-MM-DD; empty: not known
}

// Man is the man page of a command, section 1, in the macros of man(7).
func Man(cmd *cobra.Command, src Source) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %q %q %q\n", strings.ToUpper(roff(PageName(cmd))), src.Date, "Porestream "+src.Version, "Porestream manual")
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(PageName(cmd)), roff(lower(cmd.Short)))
	manSynopsis(&b, cmd)
	b.WriteString(".SH DESCRIPTION\n")
	for i, p := range blocks(description(cmd)) {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		manBlock(&b, p)
	}
	if kids := children(cmd); len(kids) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, c := range kids {
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(PageName(c)), roffLine(c.Short+"."))
		}
	}
	b.WriteString(".SH OPTIONS\n")
	for _, o := range options(cmd) {
		name := `\fB` + roff(o.long) + `\fR`
		if o.short != "" {
			name = `\fB` + roff(o.short) + `\fR, ` + name
		}
		if o.value != "" {
			name += ` \fI` + roff(o.value) + `\fR`
		}
		fmt.Fprintf(&b, ".TP\n%s\n%s\n", name, roffLine(o.text))
	}
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n")
		manBlock(&b, block{fixed: true, lines: strings.Split(unindent(cmd.Example), "\n")})
	}
	b.WriteString(".SH EXIT STATUS\n")
	for _, e := range exits {
		fmt.Fprintf(&b, ".TP\n%s\n%s\n", e.code, roffLine(e.text))
	}
	b.WriteString(".SH SEE ALSO\n")
	others := relatedPages(cmd)
	for i, name := range others {
		sep := ","
		if i == len(others)-1 {
			sep = ""
		}
		fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(name), sep)
	}
	return []byte(b.String())
}

func manSynopsis(b *strings.Builder, cmd *cobra.Command) {
	if !cmd.Runnable() && len(children(cmd)) == 0 {
		return
	}
	b.WriteString(".SH SYNOPSIS\n.nf\n")
	if cmd.Runnable() {
		fmt.Fprintf(b, "%s\n", roffLine(useLine(cmd)))
	}
	if len(children(cmd)) > 0 {
		fmt.Fprintf(b, "%s\n", roffLine(cmd.CommandPath()+" COMMAND [flags]"))
	}
	b.WriteString(".fi\n")
}

// relatedPages are those of the command's parent and of the parent's other commands; of a program, those of the others.
func relatedPages(cmd *cobra.Command) []string {
	var others []string
	if !cmd.HasParent() {
		for _, name := range []string{"ingest", "pore", "processor"} {
			if name != cmd.Name() {
				others = append(others, name)
			}
		}
		return others
	}
	others = append(others, PageName(cmd.Parent()))
	for _, c := range children(cmd.Parent()) {
		if c != cmd && cmd.Parent().HasParent() {
			others = append(others, PageName(c))
		}
	}
	return others
}

func manBlock(b *strings.Builder, p block) {
	if p.fixed {
		b.WriteString(".nf\n")
		defer b.WriteString(".fi\n")
	}
	for _, line := range p.lines {
		fmt.Fprintf(b, "%s\n", roffLine(line))
	}
}

// roff is text in which every character stands for itself. A dash is one that can
// be copied into a shell.
func roff(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, "'", `\(aq`, "\t", "    ").Replace(s)
}

// roffLine is a line of such text, which is no request even if it begins with a dot.
func roffLine(s string) string {
	s = roff(s)
	if strings.HasPrefix(s, ".") {
		return `\&` + s
	}
	return s
}

package manual

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
)

// program has what is hard in a manual: dashes, dots at the beginning of lines, lines
// that must stay as they are, defaults that say nothing, hidden commands and flags.
func program() *cobra.Command {
	nothing := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "pore", Short: "From current to variants", Version: "1"}
	eval := &cobra.Command{Use: "eval", Short: "Compare results"}
	variants := &cobra.Command{
		Use: "variants --truth VCF IN.vcf", Short: "Compare variants with a_truth", Run: nothing,
		Long:    "Compares *all*\n.vcf files and a\\b:\n  het=1   sites\n  x=2\n\nThe end.",
		Example: "  pore eval variants --truth a.vcf \\\n      b.vcf",
	}
	flags := variants.Flags()
	flags.String("truth", "", "VCF of what is true (required)")
	flags.IntP("threads", "t", 4, "workers")
	flags.Float64("least", 0, "least `share`")
	flags.StringSlice("fields", []string{"a", "b"}, "fields|columns")
	flags.Int("auto", 3, "number (default as many as there are)")
	flags.Bool("deep", false, "look deeper")
	flags.String("secret", "", "nobody's")
	_ = flags.MarkHidden("secret")
	eval.AddCommand(variants)
	root.AddCommand(eval, &cobra.Command{Use: "hidden", Hidden: true, Run: nothing})
	return root
}

func TestMan(t *testing.T) {
	cmds := Commands(program())
	var names []string
	for _, c := range cmds {
		names = append(names, PageName(c))
	}
	assert.Equal(t, []string{"pore", "pore-eval", "pore-eval-variants"}, names)
	assert.Equal(t, `.TH PORE\-EVAL\-VARIANTS 1 "2026-11-22" "Porestream 0.1.0" "Porestream manual"
.SH NAME
pore\-eval\-variants \- compare variants with a_truth
.SH SYNOPSIS
.nf
pore eval variants \-\-truth VCF IN.vcf [flags]
.fi
.SH DESCRIPTION
Compares *all*
\&.vcf files and a\eb:
.PP
.nf
  het=1   sites
  x=2
.fi
.PP
The end.
.SH OPTIONS
.TP
\fB\-\-auto\fR \fIint\fR
number (default as many as there are)
.TP
\fB\-\-deep\fR
look deeper
.TP
\fB\-\-fields\fR \fIstrings\fR
fields|columns (default a,b)
.TP
\fB\-h\fR, \fB\-\-help\fR
print a summary of the command and its options
.TP
\fB\-\-least\fR \fIshare\fR
least share
.TP
\fB\-t\fR, \fB\-\-threads\fR \fIint\fR
workers (default 4)
.TP
\fB\-\-truth\fR \fIstring\fR
VCF of what is true (required)
.SH EXAMPLES
.nf
pore eval variants \-\-truth a.vcf \e
    b.vcf
.fi
.SH EXIT STATUS
.TP
0
It is done.
.TP
1
It failed. One line on standard error says what, where, and what can be done.
.TP
2
It was called wrongly. One line on standard error says how.
.SH SEE ALSO
.BR pore\-eval (1)
`, string(Man(cmds[2], Source{Version: "0.1.0", Date: "2026-11-22"})))
}

func TestPages(t *testing.T) {
	pages := Pages(program())
	assert.Contains(t, pages["README.md"], "# `pore`\n\n")
	assert.Contains(t, pages["README.md"], "- [`pore eval`](eval.md): ")
	title, variants, ok := strings.Cut(pages["eval.md"], "## `pore eval variants`\n\n")
	assert.Contains(t, title, "# `pore eval`\n\n")
	assert.Contains(t, title, "- [`pore eval variants`](#pore-eval-variants): ")
	assert.True(t, ok)
	assert.Equal(t, "Compare variants with a_truth.\n\n"+
		"```text\npore eval variants --truth VCF IN.vcf [flags]\n```\n\n"+
		"Compares \\*all\\*\n.vcf files and a\\\\b:\n\n```text\n  het=1   sites\n  x=2\n```\n\nThe end.\n\n"+
		"```sh\npore eval variants --truth a.vcf \\\n    b.vcf\n```\n\n"+
		"| flag | meaning |\n|---|---|\n"+
		"| `--auto int` | number (default as many as there are) |\n"+
		"| `--deep` | look deeper |\n"+
		"| `--fields strings` | fields\\|columns (default a,b) |\n"+
		"| `--least share` | least share |\n"+
		"| `-t, --threads int` | workers (default 4) |\n"+
		"| `--truth string` | VCF of what is true (required) |\n", variants)
}

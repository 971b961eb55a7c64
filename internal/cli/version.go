package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/version"
)

// Version is the version of all commands.
const Version = version.Number

// Part is something that a program works with besides Go modules, and has a
// version of its own.
type Part struct {
	Name    string
	Version func() (string, error)
}

// about is what a program says of itself.
type about struct {
	Name string `json:"name"`
	version.Build
	Parts []aboutPart `json:"parts,omitempty"`
}

type aboutPart struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Error   string `json:"error,omitempty"`
}

func aboutProgram(name string, parts []Part) about {
	a := about{Name: name, Build: version.Read()}
	for _, p := range parts {
		part := aboutPart{Name: p.Name}
		var err error
		if part.Version, err = p.Version(); err != nil {
			part.Error = oneLine(err, false)
		}
		a.Parts = append(a.Parts, part)
	}
	return a
}

// print writes a line for the program and one for each of its parts. The first
// line is the program's name, its version and its commit.
func (a about) print(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s %s\n", a.Name, a.Build); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if a.Time != "" {
		fmt.Fprintf(table, "  committed\t%s\n", a.Time)
	}
	fmt.Fprintf(table, "  Go\t%s %s\n", strings.TrimPrefix(a.Go, "go"), a.Platform)
	for _, p := range a.Parts {
		text := p.Version
		if p.Error != "" {
			text = "unusable: " + p.Error
		}
		fmt.Fprintf(table, "  %s\t%s\n", p.Name, text)
	}
	return table.Flush()
}

// addVersion gives a program the flag --version and the command version, which
// say the same.
func addVersion(root *cobra.Command, parts []Part) {
	root.Version = Version
	root.SetVersionTemplate("{{aboutProgram .}}")
	cobra.AddTemplateFunc("aboutProgram", func(cmd *cobra.Command) string {
		// If this text can't be written, cobra returns the error, which Main reports, and prints it, too: with an output that is set, to
		// that, which takes nothing, and not to standard error.
		cmd.SetOut(cmd.OutOrStdout())
		var b strings.Builder
		_ = aboutProgram(cmd.Root().Name(), parts).print(&b) // memory takes everything
		return b.String()
	})
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say what this program was built from",
		Long: `Prints the version, the commit that the program was built from and whether the
source had been changed since, the Go release and the platform, and the versions of
the libraries that it works with. One that can't be loaded is named with the reason;
that is no error of this command.`,
		Example: "  " + root.Name() + " version\n  " + root.Name() + " version --json",
		Args:    Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a := aboutProgram(cmd.Root().Name(), parts)
			if !asJSON {
				return a.print(cmd.OutOrStdout())
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(a)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "a JSON object")
	root.AddCommand(cmd)
}

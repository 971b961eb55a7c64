package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// FormerFlag gives a flag the name that it once had, too, as [Formerly] does for a command. Of the two the one that comes later holds.
func FormerFlag(flags *pflag.FlagSet, name, now string) {
	f := *flags.Lookup(now)
	f.Name, f.Shorthand, f.Hidden, f.Annotations = name, "", true, nil
	f.Deprecated = fmt.Sprintf("it is called --%s now, and this name will go", now)
	flags.AddFlag(&f)
}

// Formerly gives a command the name that it once had, for scripts that use it: neither help nor completion shows it, and each
// use of it, or of a command below it, says on standard error what it is called now. cmd must not have been added elsewhere.
func Formerly(name string, cmd *cobra.Command, now string) *cobra.Command {
	cmd.Use = name + strings.TrimPrefix(cmd.Use, cmd.Name())
	cmd.Hidden = true
	warn(cmd, now)
	return cmd
}

// warn has a command, and those below it, say what they are called now. cobra's own notice would go to where the results go.
func warn(cmd *cobra.Command, now string) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: it is called %q now, and this name will go\n", cmd.CommandPath(), now)
			return run(cmd, args)
		}
	}
	for _, c := range cmd.Commands() {
		warn(c, now+" "+c.Name())
	}
}

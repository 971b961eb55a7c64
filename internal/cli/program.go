package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli/manual"
	"github.com/porestream/porestream/version"
)

// Program gives the command of a program what all programs have besides help and
// completion, which cobra adds: the flag --version, the command version, and a hidden
// one that writes its manual. Main does it too, unless it has been done.
func Program(root *cobra.Command, parts ...Part) *cobra.Command {
	if root.Version != "" {
		return root
	}
	addVersion(root, parts)
	root.AddCommand(manualCommand())
	return root
}

// manualCommand writes man pages for packagers; it is no part of what the program
// is for, and hidden.
func manualCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "manual DIR",
		Short:  "Write the man pages of all commands into a folder",
		Hidden: true,
		Args:   Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			build := version.Read()
			src := manual.Source{Version: build.Version, Date: build.Time[:min(len("2006-01-02"), len(build.Time))]}
			for _, c := range manual.Commands(cmd.Root()) {
				path := filepath.Join(args[0], manual.PageName(c)+".1")
				if err := os.WriteFile(path, manual.Man(c, src), 0o644); err != nil {
					return fmt.Errorf("writing a man page: %w", err)
				}
			}
			return nil
		},
	}
}

// Command composecheck loads Compose files as Docker Compose would, with every
// profile, and reports what the Compose specification does not allow: unknown
// keys, wrong types, dependencies on services that don't exist.
//
//	composecheck FILE...   the files are merged, as with docker compose -f A -f B
//
// It is a module of its own, so that the Compose library is no dependency of
// Porestream.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "composecheck: name the Compose files")
		os.Exit(2)
	}
	if err := check(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "composecheck: %v\n", err)
		os.Exit(1)
	}
}

func check(ctx context.Context, files []string) error {
	opts, err := cli.NewProjectOptions(files, cli.WithProfiles([]string{"*"}))
	if err != nil {
		return fmt.Errorf("reading %s: %w", strings.Join(files, ", "), err)
	}
	project, err := opts.LoadProject(ctx)
	if err != nil {
		return fmt.Errorf("loading %s: %w", strings.Join(files, ", "), err)
	}
	if len(project.Services) == 0 {
		return fmt.Errorf("loading %s: no services", strings.Join(files, ", "))
	}
	fmt.Printf("%s: %d services: %s\n", strings.Join(files, " + "), len(project.Services), strings.Join(project.ServiceNames(), ", "))
	return nil
}

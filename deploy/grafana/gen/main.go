// Command gen writes the dashboards to dashboards/, beside the package that
// describes them.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/porestream/porestream/deploy/grafana"
)

func main() {
	if err := write("dashboards"); err != nil {
		fmt.Fprintf(os.Stderr, "gen: %v\n", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	for _, d := range grafana.Dashboards() {
		page, err := d.JSON()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, d.File()), page, 0o644); err != nil {
			return fmt.Errorf("writing dashboard: %w", err)
		}
	}
	return nil
}

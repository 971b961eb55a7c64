package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFilesAreInOrder(t *testing.T) {
	for _, files := range [][]string{{"../compose/compose.yaml"}, {"../compose/compose.yaml", "../compose/compose.cuda.yaml"}} {
		if err := check(t.Context(), files); err != nil {
			t.Errorf("%s: %v", strings.Join(files, " + "), err)
		}
	}
}

// Each break of the file that is deployed is found.
func TestBreaksAreFound(t *testing.T) {
	data, err := os.ReadFile("../compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	whole := string(data)
	for name, tt := range map[string]struct{ old, new, want string }{
		"misspelt key":       {"    healthcheck:\n", "    healthchecks:\n", "healthchecks"},
		"no such service":    {"    kafka:\n      condition:", "    kafkas:\n      condition:", "kafkas"},
		"no services at all": {whole, "services: {}\n", "no service"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(whole, tt.old) {
				t.Fatalf("compose.yaml has no %q", tt.old)
			}
			file := filepath.Join(t.TempDir(), "compose.yaml")
			if err := os.WriteFile(file, []byte(strings.Replace(whole, tt.old, tt.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			err := check(t.Context(), []string{file})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error that names %q", err, tt.want)
			}
		})
	}
}

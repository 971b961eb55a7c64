package cli

import (
	"fmt"
	"os"
	"path/filepath"
)

// StateFolder is where a program keeps what outlives it, kind by kind, if the user names no
// folder: where systemd says, or where programs keep what is neither settings nor to be thrown
// away (XDG base directory specification). It is not made here.
func StateFolder(kind string) (string, error) {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" {
		return filepath.Join(dir, kind), nil
	}
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("name a folder: %w", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "porestream", kind), nil
}

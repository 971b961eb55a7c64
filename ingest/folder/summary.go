package folder

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxSummary bounds what is read of a summary; they have a few hundred bytes.
const maxSummary = 64 << 10

// readSummary returns the run that a final summary is of: MinKNOW writes one
// "once all files have been written for the sequencing run" (ONT output
// specifications), with lines such as acquisition_run_id=f7c9... . It returns ""
// if the file doesn't say, for example as it is being written.
func readSummary(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading the end of a run: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSummary))
	if err != nil {
		return "", fmt.Errorf("reading the end of a run: %w", err)
	}
	return parseSummary(b), nil
}

func parseSummary(b []byte) (run string) {
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		key, value, ok := strings.Cut(lines.Text(), "=")
		if ok && strings.TrimSpace(key) == "acquisition_run_id" {
			run = strings.TrimSpace(value)
		}
	}
	return run
}

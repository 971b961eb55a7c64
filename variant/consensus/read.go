package consensus

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/vcf"
)

// maxLine is the longest line of a BED file.
const maxLine = 1 << 20

// ReadVCF adds the records of a VCF, of which the named sample counts, or the only one if none is named, and returns that
// sample's name. Errors begin with the file's name and the line.
func (c *Consensus) ReadVCF(r io.Reader, file, sample string) (string, error) {
	records, err := vcf.NewReader(r)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	samples := records.Header().Samples
	column := slices.Index(samples, sample)
	switch {
	case len(samples) == 0:
		return "", fmt.Errorf("%s: it has no samples, so nothing says which variants one has", file)
	case sample == "" && len(samples) > 1:
		return "", fmt.Errorf("%s: it has %d samples, %s: name one", file, len(samples), strings.Join(samples, ", "))
	case sample == "":
		column = 0
	case column < 0:
		return "", fmt.Errorf("%s: it has no sample %q; there is %s", file, sample, strings.Join(samples, ", "))
	}
	for {
		rec, err := records.Next()
		if errors.Is(err, io.EOF) {
			return samples[column], nil
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		if err := c.Add(rec, column); err != nil {
			return "", fmt.Errorf("%s: line %d: %w", file, records.Line(), err)
		}
	}
}

// ReadBED adds what a BED file covers. Of one with a fourth column, as --callable writes it, only CALLABLE counts. Errors
// begin with the file's name and the line.
func (c *Consensus) ReadBED(r io.Reader, file string) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimRight(lines.Text(), "\r ")
		f := strings.Split(line, "\t")
		if line == "" || line[0] == '#' || strings.HasPrefix(f[0], "track ") || strings.HasPrefix(f[0], "browser ") {
			continue
		}
		if len(f) < 3 {
			return fmt.Errorf("%s:%d: %d columns, want at least contig, start and end with tabs between", file, n, len(f))
		}
		start, err := strconv.Atoi(f[1])
		end, err2 := strconv.Atoi(f[2])
		if err := errors.Join(err, err2); err != nil {
			return fmt.Errorf("%s:%d: %q and %q are no start and end", file, n, clip(f[1]), clip(f[2]))
		}
		c.covered = true
		if len(f) > 3 && f[3] != "CALLABLE" {
			end = start // what else it says must be right all the same
		}
		if err := c.Cover(f[0], start, end); err != nil {
			return fmt.Errorf("%s:%d: %w", file, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w", file, n+1, err)
	}
	return nil
}

func clip(s string) string {
	if len(s) > 20 {
		return strings.ToValidUTF8(s[:20], "") + "…"
	}
	return s
}

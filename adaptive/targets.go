package adaptive

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/textfile"
)

const (
	// maxLine bounds a line of a BED file, in bytes.
	maxLine = 1 << 20
	// maxTargets bounds the intervals of a BED file: more than there are exons.
	maxTargets = 1 << 24
)

// Targets are stretches of a reference.
type Targets struct {
	contigs map[string][]interval // sorted, apart from each other
	bases   int64
}

// interval is 0-based and half open.
type interval struct{ start, end int }

// ReadTargets reads the first three columns of a BED file and widens each interval by
// a margin on both sides: a read that begins there may reach the target in either
// direction, so columns behind the third, and the strand among them, have no say.
// length returns how long a contig of the reference is. Errors begin with the file's
// name and the line.
func ReadTargets(r io.Reader, name string, margin int, length func(contig string) (int, bool)) (*Targets, error) {
	if margin < 0 {
		return nil, fmt.Errorf("%s: a margin of %d bases is negative", name, margin)
	}
	t := &Targets{contigs: make(map[string][]interval)}
	text, err := textfile.NewReader(r, 64<<10)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	in := bufio.NewScanner(text)
	in.Buffer(nil, maxLine)
	n, count := 0, 0
	for in.Scan() {
		n++
		contig, target, err := parseBED(in.Text(), length)
		if err == nil && count == maxTargets {
			err = fmt.Errorf("more than %d intervals", maxTargets)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		if contig == "" {
			continue
		}
		count++
		size, _ := length(contig)
		// In this order, so that a margin of any size can't overflow.
		wide := interval{start: target.start - min(margin, target.start), end: target.end + min(margin, size-target.end)}
		t.contigs[contig] = append(t.contigs[contig], wide)
	}
	if err := in.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a line has more than %d bytes: is this a BED file?", maxLine)
		}
		return nil, fmt.Errorf("%s:%d: %w", name, n+1, err)
	}
	if count == 0 {
		return nil, fmt.Errorf("%s: no intervals: a BED line has a contig, a start from 0 and an end", name)
	}
	for contig, all := range t.contigs {
		t.contigs[contig] = joined(all)
		for _, i := range t.contigs[contig] {
			t.bases += int64(i.end - i.start)
		}
	}
	return t, nil
}

// parseBED reads a line. Without a contig it holds no interval.
func parseBED(line string, length func(string) (int, bool)) (contig string, i interval, err error) {
	line = strings.TrimRight(line, "\r")
	fields := strings.Split(line, "\t")
	if len(fields) == 1 {
		fields = strings.Fields(line) // BED may be written with blanks, too
	}
	if len(fields) == 0 || strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") || fields[0] == "track" || fields[0] == "browser" {
		return "", i, nil
	}
	if len(fields) < 3 {
		return "", i, fmt.Errorf("%d columns, want at least contig, start and end", len(fields))
	}
	size, known := length(fields[0])
	if fields[0] == "" || !known {
		return "", i, fmt.Errorf("contig %q is not in the reference", fields[0])
	}
	var startErr, endErr error
	i.start, startErr = strconv.Atoi(fields[1])
	i.end, endErr = strconv.Atoi(fields[2])
	if startErr != nil || endErr != nil || i.start < 0 || i.end <= i.start || i.end > size {
		return "", i, fmt.Errorf("%q to %q is no interval of %s, which has %d bases", fields[1], fields[2], fields[0], size)
	}
	return fields[0], i, nil
}

// joined sorts intervals and joins those that touch.
func joined(all []interval) []interval {
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.start, b.start) })
	out := all[:1]
	for _, i := range all[1:] {
		if last := &out[len(out)-1]; i.start <= last.end {
			last.end = max(last.end, i.end)
			continue
		}
		out = append(out, i)
	}
	return slices.Clip(out)
}

// Overlaps reports whether a stretch of a contig, 0-based and half open, has a base
// in common with a target or its margin.
func (t *Targets) Overlaps(contig string, start, end int) bool {
	all := t.contigs[contig]
	i, _ := slices.BinarySearchFunc(all, start, func(i interval, start int) int { return cmp.Compare(i.end, start+1) })
	return i < len(all) && all[i].start < end && start < end
}

// Intervals yields start and end, 0-based and half open, of the targets on a contig,
// ascending and apart from each other.
func (t *Targets) Intervals(contig string) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		for _, i := range t.contigs[contig] {
			if !yield(i.start, i.end) {
				return
			}
		}
	}
}

// Bases counts the bases of the targets with their margins.
func (t *Targets) Bases() int64 { return t.bases }

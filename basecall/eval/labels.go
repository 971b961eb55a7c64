package eval

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Labels say where reads are known to be from.
type Labels struct {
	byName map[string]int
	places []place
}

// place is a stretch of a contig, 0-based half open.
type place struct {
	contig     string
	start, end int
	reverse    bool
}

// labelState is what became of a labelled read.
type labelState uint8

const (
	wasCalled labelState = 1 << iota
	wasAligned
	wasPlaced
)

// labelColumns are the columns that are needed, by the names in the first line.
var labelColumns = []string{"read_id", "contig", "start", "end", "strand"}

// maxLabelLine bounds a line of labels.
const maxLabelLine = 1 << 20

// ReadLabels reads labels as TSV. The first line names the columns, of which read_id,
// contig, start, end (0-based half open) and strand (+ or -) are needed, in any order.
func ReadLabels(r io.Reader) (*Labels, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLabelLine)
	var columns []int
	out := &Labels{byName: make(map[string]int)}
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimSuffix(lines.Text(), "\r")
		if line == "" {
			continue
		}
		fields := strings.Split(line, "\t")
		if columns == nil {
			for _, name := range labelColumns {
				at := indexOf(fields, name)
				if at < 0 {
					return nil, fmt.Errorf("line %d: there is no column %s; want %s, separated by tabs", n, name, strings.Join(labelColumns, ", "))
				}
				columns = append(columns, at)
			}
			continue
		}
		if err := out.add(fields, columns); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d: longer than %d bytes: these are no labels", n+1, maxLabelLine)
	case err != nil:
		return nil, fmt.Errorf("after line %d: %w", n, err)
	case len(out.places) == 0:
		return nil, errors.New("there are no labels")
	}
	return out, nil
}

func indexOf(fields []string, name string) int {
	for i, f := range fields {
		if f == name {
			return i
		}
	}
	return -1
}

// add reads a row.
func (l *Labels) add(fields []string, columns []int) error {
	for i, at := range columns {
		if at >= len(fields) {
			return fmt.Errorf("%d fields: %s is missing", len(fields), labelColumns[i])
		}
	}
	name, p := fields[columns[0]], place{contig: fields[columns[1]]}
	var err error
	if p.start, err = strconv.Atoi(fields[columns[2]]); err != nil || p.start < 0 {
		return fmt.Errorf("start %q is no position", fields[columns[2]])
	}
	if p.end, err = strconv.Atoi(fields[columns[3]]); err != nil || p.end <= p.start {
		return fmt.Errorf("end %q is no position after %d", fields[columns[3]], p.start)
	}
	switch fields[columns[4]] {
	case "+":
	case "-":
		p.reverse = true
	default:
		return fmt.Errorf("strand %q: want + or -", fields[columns[4]])
	}
	if name == "" {
		return errors.New("a read without a name")
	}
	if _, again := l.byName[name]; again {
		return fmt.Errorf("read %s has a label already", name)
	}
	l.byName[name] = len(l.places)
	l.places = append(l.places, p)
	return nil
}

// place compares where a read maps with its label: right is the same strand of the same
// contig, and an overlap of half of the shorter of the two stretches.
func (t *Tally) place(row *Row) {
	if t.labels == nil {
		return
	}
	i, ok := t.labels.byName[row.Name]
	if !ok {
		return
	}
	t.seen[i] |= wasCalled
	if !row.Aligned {
		return
	}
	t.seen[i] |= wasAligned
	p := &t.labels.places[i]
	overlap := min(row.End, p.end) - max(row.Start, p.start)
	shorter := min(row.End-row.Start, p.end-p.start)
	if row.Contig == p.contig && row.Reverse == p.reverse && 2*overlap >= shorter {
		t.seen[i] |= wasPlaced
	}
}

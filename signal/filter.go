package signal

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/porestream/porestream/signal/internal/uuid"
)

// Filter chooses reads of a recording: those that meet all of its conditions. The
// zero Filter chooses all reads.
type Filter struct {
	// Reads are the ids of the reads to take; nil means any.
	Reads map[string]struct{}
	// Channels are the channels to take reads of; nil means any.
	Channels []ChannelRange
	// From and To bound when a read begins, by the clock of its run, which is 0
	// when the acquisition starts: at From or later, and before To. A To of 0 means
	// without end.
	From, To time.Duration
}

// ChannelRange is the channels from First to Last, both of them included.
type ChannelRange struct{ First, Last uint32 }

// IsZero reports whether the filter chooses all reads.
func (f *Filter) IsZero() bool {
	return f.Reads == nil && f.Channels == nil && f.From == 0 && f.To == 0
}

// Check refuses conditions that no read can meet.
func (f *Filter) Check() error {
	switch {
	case f.From < 0 || f.To < 0:
		return errors.New("times of the run's clock are not negative")
	case f.To != 0 && f.To <= f.From:
		return fmt.Errorf("no read begins from %v on and before %v", f.From, f.To)
	}
	return nil
}

// maxChannelText is the length of the list of channels that String writes out.
const maxChannelText = 200

// String describes the filter; equal filters are described alike, and different
// ones differently. A long list is named by its hash. The zero Filter is empty.
func (f *Filter) String() string {
	var parts []string
	if f.Reads != nil {
		ids := make([]string, 0, len(f.Reads))
		for id := range f.Reads {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		parts = append(parts, fmt.Sprintf("%d listed reads (%s)", len(ids), shortHash(strings.Join(ids, "\n"))))
	}
	if f.Channels != nil {
		list := channelText(f.Channels)
		if len(list) > maxChannelText {
			list = fmt.Sprintf("of a list (%s)", shortHash(list))
		}
		parts = append(parts, "channels "+list)
	}
	if f.From > 0 {
		parts = append(parts, "from "+f.From.String())
	}
	if f.To > 0 {
		parts = append(parts, "to "+f.To.String())
	}
	return strings.Join(parts, ", ")
}

func shortHash(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:8])
}

// ParseChannels reads a list such as "1-128,300": channels and ranges of them,
// which come in order and without overlaps.
func ParseChannels(s string) ([]ChannelRange, error) {
	var ranges []ChannelRange
	for _, part := range strings.Split(s, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		a, err1 := strconv.ParseUint(first, 10, 32)
		b, err2 := strconv.ParseUint(last, 10, 32)
		if err1 != nil || err2 != nil || a > b {
			return nil, fmt.Errorf("%q is neither a channel nor a range of channels like 1-128", part)
		}
		ranges = append(ranges, ChannelRange{uint32(a), uint32(b)})
	}
	slices.SortFunc(ranges, func(a, b ChannelRange) int { return cmp.Compare(a.First, b.First) })
	merged := ranges[:1]
	for _, r := range ranges[1:] {
		end := &merged[len(merged)-1]
		if uint64(r.First) <= uint64(end.Last)+1 {
			end.Last = max(end.Last, r.Last)
			continue
		}
		merged = append(merged, r)
	}
	return merged, nil
}

func channelText(ranges []ChannelRange) string {
	var b strings.Builder
	for i, r := range ranges {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatUint(uint64(r.First), 10))
		if r.Last > r.First {
			b.WriteString("-" + strconv.FormatUint(uint64(r.Last), 10))
		}
	}
	return b.String()
}

// Bounds of a list of reads.
const (
	maxListedReads = 50_000_000
	maxReadLine    = 64 << 10
)

// LoadReadIDs reads a file of read ids: the first word of each line, or, where the first
// line names columns, the column parent_read_id, or else read_id, of a table that is separated by
// tabs or commas. So sequencing summaries may be given as they are; of a read that was split
// they name the read that is recorded as the parent. Empty lines and lines that begin with # are left
// out. UUIDs may have capitals.
func LoadReadIDs(path string) (map[string]struct{}, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, reason(err))
	}
	defer f.Close()
	ids, err := readIDs(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return ids, nil
}

func readIDs(r io.Reader) (map[string]struct{}, error) {
	ids := make(map[string]struct{})
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxReadLine)
	var columns idColumns
	first := true
	n := 0
	for lines.Scan() {
		n++
		line := lines.Text()
		if n == 1 {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		if line = strings.TrimRight(line, "\r"); strings.Trim(line, " \t,\r") == "" || strings.HasPrefix(strings.TrimLeft(line, " \t"), "#") {
			continue
		}
		if heading := first; heading {
			first = false
			if columns = idColumnsOf(line); columns.known {
				continue
			}
		}
		id, err := columns.id(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if len(ids) == maxListedReads {
			return nil, fmt.Errorf("line %d: more than %d reads", n, maxListedReads)
		}
		if _, isUUID := uuid.Parse(strings.ToLower(id)); isUUID {
			id = strings.ToLower(id)
		}
		ids[id] = struct{}{}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d: longer than %d bytes: not a list of read ids", n+1, maxReadLine)
	case err != nil:
		return nil, reason(err)
	case len(ids) == 0:
		return nil, errors.New("lists no read")
	}
	return ids, nil
}

// idColumns says where in a line a read's id stands; the zero value: it is the first word.
type idColumns struct {
	known     bool
	separator string
	parent    int // column of the recorded read, or else -1
	read      int // column of the read, or else -1
}

// idColumnsOf searches a line for the names of columns.
func idColumnsOf(line string) idColumns {
	c := idColumns{separator: ",", parent: -1, read: -1}
	if strings.Contains(line, "\t") {
		c.separator = "\t"
	}
	for i, name := range strings.Split(line, c.separator) {
		switch strings.ToLower(cell(name)) {
		case "read_id":
			c.read = i
		case "parent_read_id":
			c.parent = i
		}
	}
	c.known = c.read >= 0 || c.parent >= 0
	return c
}

// id is the id that a line names.
func (c *idColumns) id(line string) (string, error) {
	if !c.known || c.parent < 0 && c.read == 0 {
		return strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t,\r", r) })[0], nil
	}
	cells := strings.Split(line, c.separator)
	for _, at := range []int{c.parent, c.read} {
		if at < 0 || at >= len(cells) {
			continue
		}
		if id := cell(cells[at]); id != "" && id != "-" && !strings.ContainsAny(id, " \t,\r") {
			return id, nil
		}
	}
	return "", errors.New("it has no id in the column that the first line calls read_id or parent_read_id")
}

// cell is a field of a table without what tables put around it.
func cell(text string) string { return strings.Trim(strings.TrimSpace(text), `"`) }

// Selection says what a filter has chosen.
type Selection struct {
	// Of is the number of reads there were.
	Of int
	// Missing is the number of listed reads that are in no file, and Example one of
	// them, the first in order.
	Missing int
	Example string
}

// Select leaves the reads of the recording that a filter chooses, and the runs
// that have one. To choose none is an error.
func (x *Index) Select(f Filter) (Selection, error) {
	s := Selection{Of: len(x.entries)}
	if f.IsZero() {
		return s, nil
	}
	if err := f.Check(); err != nil {
		return s, err
	}
	missing := make(map[string]struct{}, len(f.Reads))
	for id := range f.Reads {
		missing[id] = struct{}{}
	}
	kept := x.entries[:0:0]
	for i := range x.entries {
		e := &x.entries[i]
		if f.Reads != nil {
			id := x.id(e)
			delete(missing, id)
			if _, ok := f.Reads[id]; !ok {
				continue
			}
		}
		if f.Channels != nil && !hasChannel(f.Channels, e.channel) {
			continue
		}
		begins := samplesToDuration(e.startSample, x.runs[e.run].SampleRate)
		if begins < f.From || f.To > 0 && begins >= f.To {
			continue
		}
		kept = append(kept, *e)
	}
	s.Missing = len(missing)
	for id := range missing {
		if s.Example == "" || id < s.Example {
			s.Example = id
		}
	}
	if len(kept) == 0 {
		return s, fmt.Errorf("none of the recording's %d reads is chosen by: %s", s.Of, f.String())
	}
	x.entries = slices.Clip(kept)
	x.dropRuns()
	return s, nil
}

// hasChannel searches for a channel in ranges that are in order.
func hasChannel(ranges []ChannelRange, channel uint32) bool {
	i, found := slices.BinarySearchFunc(ranges, channel, func(r ChannelRange, c uint32) int { return cmp.Compare(r.First, c) })
	return found || i > 0 && channel <= ranges[i-1].Last
}

// dropRuns leaves the runs that have reads.
func (x *Index) dropRuns() {
	used := make([]bool, len(x.runs))
	for i := range x.entries {
		used[x.entries[i].run] = true
	}
	moved := make([]uint32, len(x.runs))
	var runs []*Run
	for i, r := range x.runs {
		if used[i] {
			moved[i] = uint32(len(runs))
			runs = append(runs, r)
		}
	}
	x.runs = runs
	for i := range x.entries {
		x.entries[i].run = moved[x.entries[i].run]
	}
}

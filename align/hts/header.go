package hts

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/biogo/hts/sam"
)

// Lines are the lines of a header as they stand in a file, without their ends (SAM
// specification 1.3). A file that is written again is written from them: a [sam.Header]
// keeps only what it knows, and forgets comments behind their first tab, the order of
// fields, and the fraction and the zone of a time.
type Lines []string

// LinesOf are the lines of a header that was made here.
func LinesOf(h *sam.Header) Lines {
	text, _ := h.MarshalText() // which never fails
	return splitLines(string(text))
}

// splitLines leaves out what isn't a line: the ends, and the zeros that pad a BAM header.
func splitLines(text string) Lines {
	var lines Lines
	for line := range strings.SplitSeq(strings.TrimRight(text, "\x00"), "\n") {
		if line = strings.TrimSuffix(line, "\r"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// Is reports whether a line is of a kind, such as @RG.
func Is(line, kind string) bool {
	return strings.HasPrefix(line, kind) && (len(line) == len(kind) || line[len(kind)] == '\t')
}

// Field is the value of a line's field, such as SM of @RG.
func Field(line, tag string) (value string, ok bool) {
	for field := range strings.SplitSeq(line, "\t") {
		if len(field) >= 3 && field[:2] == tag && field[2] == ':' {
			return field[3:], true
		}
	}
	return "", false
}

// WithField is a line whose field has a value: in the place that it had, or the last.
func WithField(line, tag, value string) string {
	fields := strings.Split(line, "\t")
	for i, field := range fields {
		if len(field) >= 3 && field[:2] == tag && field[2] == ':' {
			fields[i] = tag + ":" + value
			return strings.Join(fields, "\t")
		}
	}
	return line + "\t" + tag + ":" + value
}

// WithProgram are the lines with a program behind the last one: its id, which gets a
// number where that is taken, name, version and command line.
func (l Lines) WithProgram(id string, program [3]string) Lines {
	taken, last := make(map[string]bool), ""
	for _, line := range l {
		if name, ok := Field(line, "ID"); ok && Is(line, "@PG") {
			taken[name], last = true, name
		}
	}
	unique := id
	for n := 1; taken[unique]; n++ {
		unique = id + "." + strconv.Itoa(n)
	}
	line := "@PG\tID:" + unique + "\tPN:" + program[0] + "\tCL:" + program[2]
	if last != "" {
		line += "\tPP:" + last
	}
	line += "\tVN:" + program[1]
	// Comments stay the last, as samtools has it.
	at := len(l)
	for at > 0 && Is(l[at-1], "@CO") {
		at--
	}
	return slices.Insert(slices.Clone(l), at, line)
}

// parse returns the parts of a header that callers use: its order, its references, read
// groups and programs. Lines that the library doesn't accept, or not in the form in which
// other programs write them, are left out. Without refs, the references are those of the
// lines @SQ.
func (l Lines) parse(refs []*sam.Reference) (*sam.Header, error) {
	var kept strings.Builder
	seen := make(map[string]bool)
	for i, line := range l {
		switch {
		case Is(line, "@HD"):
			version, ok := Field(line, "VN")
			if !ok {
				version = "1.6"
			}
			if seen["@HD"] {
				continue
			}
			seen["@HD"] = true
			kept.WriteString("@HD\tVN:" + version)
			if order, ok := Field(line, "SO"); ok {
				kept.WriteString("\tSO:" + order)
			}
			kept.WriteByte('\n')
		case Is(line, "@RG"), Is(line, "@PG"):
			id, ok := Field(line, "ID")
			if !ok || seen[line[:3]+id] {
				continue
			}
			seen[line[:3]+id] = true
			kept.WriteString(sanitizedLine(line) + "\n")
		case Is(line, "@SQ") && refs == nil:
			name, _ := Field(line, "SN")
			length, _ := Field(line, "LN")
			if name == "" || length == "" {
				return nil, fmt.Errorf("line %d: %q: a line @SQ needs SN and LN", i+1, clip(line))
			}
			if seen["@SQ"+name] {
				return nil, fmt.Errorf("line %d: reference %s occurs twice", i+1, name)
			}
			seen["@SQ"+name] = true
			kept.WriteString("@SQ\tSN:" + name + "\tLN:" + length + "\n")
		case line[0] != '@':
			return nil, fmt.Errorf("line %d: %q is no line of a header", i+1, clip(line))
		}
	}
	h, err := sam.NewHeader([]byte(kept.String()), nil)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "sam: "))
	}
	for _, ref := range refs {
		if seen["@SQ"+ref.Name()] {
			return nil, fmt.Errorf("reference %s occurs twice", ref.Name())
		}
		seen["@SQ"+ref.Name()] = true
		if err := h.AddReference(ref); err != nil {
			return nil, fmt.Errorf("reference %s: %w", ref.Name(), err)
		}
	}
	return h, nil
}

// sanitizedLine is a line @RG or @PG without what the library reads as a number or a time, and
// without fields that are none or come twice.
func sanitizedLine(line string) string {
	fields := strings.Split(line, "\t")
	seen := map[string]bool{"DT": true, "PI": true}
	kept := fields[:1]
	for _, field := range fields[1:] {
		if len(field) < 3 || field[2] != ':' || seen[field[:2]] {
			continue
		}
		seen[field[:2]] = true
		kept = append(kept, field)
	}
	return strings.Join(kept, "\t")
}

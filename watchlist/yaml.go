package watchlist

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/porestream/porestream/textfile"
	"go.yaml.in/yaml/v3"
)

// maxErrors bounds how many faults of a panel are reported at once.
const maxErrors = 50

// faults collects the faults of a panel, one line each.
type faults struct {
	path   string
	advice string // what to do about any of them, reported with the first; "" for nothing
	list   []fault
	more   int // that the list is too full for
	found  int // in all
}

// fault is what is wrong at a line, and, without naming it again, in other rules.
type fault struct {
	err   error
	cause string // without the rule's name; empty: not a rule's
	again int    // rules that it is wrong in, too
	last  int    // line of the last of them
}

// add notes a fault at a line; line 0 is the file as a whole.
func (f *faults) add(line int, format string, args ...any) {
	f.note(line, fault{err: fmt.Errorf(format, args...)})
}

// addRule notes a fault of a rule; format goes on behind its name. Many rules of a panel for another reference have the same.
func (f *faults) addRule(line int, rule, format string, args ...any) {
	cause := fmt.Errorf(format, args...)
	if i := slices.IndexFunc(f.list, func(other fault) bool { return other.cause == cause.Error() }); i >= 0 {
		f.found++
		f.list[i].again++
		f.list[i].last = line
		return
	}
	f.note(line, fault{err: fmt.Errorf("rule %q%w", rule, cause), cause: cause.Error()})
}

func (f *faults) note(line int, noted fault) {
	f.found++
	if len(f.list) == maxErrors {
		f.more++
		return
	}
	if line > 0 {
		noted.err = fmt.Errorf("%s:%d: %w", f.path, line, noted.err)
	} else {
		noted.err = fmt.Errorf("%s: %w", f.path, noted.err)
	}
	f.list = append(f.list, noted)
}

// err is all of it, or nil.
func (f *faults) err() error {
	var errs []error
	for i, fault := range f.list {
		err := fault.err
		if fault.again > 0 {
			err = fmt.Errorf("%w (%d more like it, the last in line %d)", err, fault.again, fault.last)
		}
		if i == 0 && f.advice != "" {
			err = fmt.Errorf("%w: %s", err, f.advice)
		}
		errs = append(errs, err)
	}
	if f.more > 0 {
		errs = append(errs, fmt.Errorf("%s: and %d more", f.path, f.more))
	}
	return errors.Join(errs...)
}

// A field reads the value of one key.
type field func(value *yaml.Node)

// mapping gives each key of a mapping to its field and notes keys that are unknown or there twice.
func (f *faults) mapping(n *yaml.Node, what string, fields map[string]field) {
	if n.Kind != yaml.MappingNode {
		f.add(n.Line, "%s: want keys with values, have %s", what, describe(n))
		return
	}
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read := fields[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || key.Value == "<<":
			f.add(key.Line, "%s: merged and composed keys are not supported: write the keys out", what)
		case read == nil:
			f.add(key.Line, "%s has no key %q%s: it takes %s", what, clip(key.Value), suggest(key.Value, keysOf(fields)), strings.Join(keysOf(fields), ", "))
		case seen[key.Value]:
			f.add(key.Line, "%s has the key %q twice: keep one", what, key.Value)
		case value.Kind == yaml.AliasNode || value.Anchor != "":
			f.add(value.Line, "%s: anchors and aliases are not supported: write the value out, or use thresholds of the panel", key.Value)
		default:
			seen[key.Value] = true
			read(value)
		}
	}
}

// keysOf are the names of fields, sorted.
func keysOf(fields map[string]field) []string {
	keys := make([]string, 0, len(fields))
	for k := range fields {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// maxText bounds a text of a panel.
const maxText = 1000

// text reads a string. Numbers are taken as they are written, so that a version may be 3.
func (f *faults) text(what string, to *string) field {
	return func(n *yaml.Node) {
		if s, ok := f.scalar(what, n); ok {
			*to = s
		}
	}
}

// scalar is the text of a scalar that is not empty.
func (f *faults) scalar(what string, n *yaml.Node) (string, bool) {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		f.add(n.Line, "%s: anchors and aliases are not supported: write the value out", what)
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
		f.add(n.Line, "%s: want a text, have %s", what, describe(n))
	case n.Value == "" || len(n.Value) > maxText:
		f.add(n.Line, "%s: want 1 to %d bytes of text, have %d", what, maxText, len(n.Value))
	case strings.ContainsFunc(n.Value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		f.add(n.Line, "%s: the text has line breaks or control characters: write it on one line", what)
	default:
		return n.Value, true
	}
	return "", false
}

// item is a text with the line it is on.
type item struct {
	text string
	line int
}

// maxItems bounds a list.
const maxItems = 1_000_000

// texts reads a text or a list of them.
func (f *faults) texts(what string, to *[]item) field {
	return func(n *yaml.Node) {
		list := []*yaml.Node{n}
		if n.Kind == yaml.SequenceNode {
			list = n.Content
		}
		if len(list) == 0 || len(list) > maxItems {
			f.add(n.Line, "%s: want 1 to %d entries, have %d", what, maxItems, len(list))
			return
		}
		for _, e := range list {
			if s, ok := f.scalar(what, e); ok {
				*to = append(*to, item{s, e.Line})
			}
		}
	}
}

// number reads a number within bounds.
func (f *faults) number(what string, low, high float64, to **float64) field {
	return func(n *yaml.Node) {
		v, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 || err != nil || math.IsNaN(v) {
			f.add(n.Line, "%s: want a number, have %s", what, describe(n))
			return
		}
		if v < low || v > high {
			f.add(n.Line, "%s: %s is outside %v to %v", what, n.Value, low, high)
			return
		}
		*to = &v
	}
}

// whole reads a whole number within bounds.
func (f *faults) whole(what string, low, high int, to **int) field {
	return func(n *yaml.Node) {
		var v *float64
		f.number(what, math.Inf(-1), math.Inf(1), &v)(n)
		switch {
		case v == nil:
		case *v < float64(low) || *v > float64(high):
			f.add(n.Line, "%s: %s is outside %d to %d", what, n.Value, low, high)
		case *v != math.Trunc(*v):
			f.add(n.Line, "%s: want a whole number, have %s", what, n.Value)
		default:
			i := int(*v)
			*to = &i
		}
	}
}

// describe names a value of an unexpected kind.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if n.Tag == "!!null" {
		return "nothing"
	}
	return strconv.Quote(clip(n.Value))
}

// clip shortens what a file says for an error message.
func clip(s string) string { return textfile.Clip(s, 60) }

// suggest is a question for the known name that was likely meant, or "".
func suggest(have string, known []string) string {
	best, distance := "", 3
	for _, k := range known {
		if d := levenshtein.ComputeDistance(strings.ToLower(have), strings.ToLower(k)); d < distance && d < len(k) {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (is %q meant?)", best)
}

// Package text checks words from outside before they travel on.
//
// Names of samples, runs and reads end up in SAM headers, VCF and TSV files, JSON
// and protobuf messages. A tab, a line break, a zero byte or bytes that aren't
// UTF-8 would break one of them, far from the file that brought it.
package text

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// Check refuses text that would break a line-based, tab-separated or UTF-8 format.
// The error reads on from the name of what holds the text: "holds a tab".
func Check(s string) error {
	if !utf8.ValidString(s) {
		return errors.New("is not UTF-8")
	}
	i := strings.IndexAny(s, "\t\n\r\x00")
	switch {
	case i < 0:
		return nil
	case s[i] == '\t':
		return errors.New("holds a tab")
	case s[i] == 0:
		return errors.New("holds a zero byte")
	}
	return errors.New("holds a line break")
}

// Clip keeps text short enough to be quoted in an error line.
func Clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

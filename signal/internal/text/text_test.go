package text

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for s, want := range map[string]string{
		"":                 "",
		"Windows 6.1":      "",
		"échantillon 7":    "",
		"a\tb":             "holds a tab",
		"a\nb":             "holds a line break",
		"a\r":              "holds a line break",
		"\x00":             "holds a zero byte",
		"\xe9chantillon":   "is not UTF-8",
		"tab\tthen\nbreak": "holds a tab",
	} {
		err := Check(s)
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("Check(%q) = %v, want %q", s, err, want)
		}
	}
}

func TestLongTextIsClipped(t *testing.T) {
	if s := Clip("short"); s != "short" {
		t.Errorf("%q", s)
	}
	if s := Clip(strings.Repeat("x", 1000)); len(s) > 70 || !strings.HasSuffix(s, "...") {
		t.Errorf("%q", s)
	}
}

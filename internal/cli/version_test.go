package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/porestream/porestream/version"
)

func TestAboutReportsPartsThatAreMissing(t *testing.T) {
	a := aboutProgram("pore", []Part{
		{"minimap2", func() (string, error) { return "2.31", nil }},
		{"ONNX Runtime", func() (string, error) { return "", errors.New("not found:\n tried a, b") }},
	})
	a.Build = version.Build{Version: "1.2.3", Commit: "f79f9af3c1d2e3f4", Modified: true, Time: "2026-11-22T10:00:00Z", Go: "go1.26.8", Platform: "linux/amd64"}
	var b strings.Builder
	if err := a.print(&b); err != nil {
		t.Fatal(err)
	}
	want := `pore 1.2.3 (f79f9af3c1d2, modified)
  committed     2026-11-22T10:00:00Z
  Go            1.26.8 linux/amd64
  minimap2      2.31
  ONNX Runtime  unusable: not found:; tried a, b
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

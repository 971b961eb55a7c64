package hgvs

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMutalyzerGrammar compares the accepted descriptions with mutalyzer-hgvs-parser, whose grammar is wider: it
// takes what the nomenclature has for uncertain sequences, and a few things that it does not have.
func TestMutalyzerGrammar(t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "grammar.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	both := 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		text, verdict, _ := strings.Cut(sc.Text(), "\t")
		_, err := Parse(text)
		switch theirs := verdict == "yes"; {
		case err == nil && theirs:
			both++
		case err == nil:
			if !strings.HasSuffix(strings.TrimSuffix(text, ";9A>C]"), "=") { // 76A=, an old spelling of 76=
				t.Errorf("%s: taken, but not by mutalyzer", text)
			}
		case theirs:
			if !narrower(err.Error()) {
				t.Errorf("%s: mutalyzer takes it: %v", text, err)
			}
		}
	}
	if both < 400 {
		t.Errorf("only %d are taken by both", both)
	}
}

// narrower reports whether a description is refused on purpose, by its error.
func narrower(err string) bool {
	for _, reason := range []string{
		"no change behind the position", // c.76 alone
		"want > or [ behind the bases",  // c.76A
		"an unknown change (?)",         // c.?
	} {
		if strings.Contains(err, reason) {
			return true
		}
	}
	return false
}

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// plainEnglish are uses of the glossary's refused words that mean what they say.
var plainEnglish = regexp.MustCompile(`(?i)\b(look(s|ed|ing)?[ -]?(it |them |this |that |these |a \w+ |each |\w+s? )?(up|ups)\b|in turn\b|looks? like\b|outlook|elbow room|memory growth|growth of (memory|the heap|a colony))`)

// otherPeoples are names and texts in which the words are not ours: of libraries and standards, of commands and files that keep their names,
// and quoted messages.
var otherPeoples = regexp.MustCompile("`[^`\n]*`|\"[^\"\n]*\"|\\]\\([^)]*\\)|bench judge|^judge$|^adaptive-(first|last)-look$|exec\\.LookPath|room temperature|What was not looked at")

// exempt are files that aren't written by hand, or that record what was said once; and one that speaks of memory.
var exempt = regexp.MustCompile(`^chaos/soak/soak\.go$|\.pb\.go$|(^|/)testdata/|^CHANGELOG\.md$|^docs/measured/|^docs/develop/decisions/|^docs/reference/|^NOTICE|^LICEN|^train/.*\.md$|^models/.*\.md$`)

// TestWordsAreTheFieldsTerms refuses the words of the glossary's last table in identifiers, comments, messages, help and documents.
func TestWordsAreTheFieldsTerms(t *testing.T) {
	refused, inNames := refusedWords(t)
	list := exec.Command("git", "ls-files", "*.go", "*.md", "*.proto")
	list.Dir = ".."
	out, err := list.Output()
	require.NoError(t, err)
	for path := range strings.Lines(string(out)) {
		if path = strings.TrimSpace(path); exempt.MatchString(path) {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", path))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		require.NoError(t, err)
		if strings.HasSuffix(path, ".go") {
			goWords(t, path, text, refused, inNames)
			continue
		}
		prose := fencedCode.ReplaceAllStringFunc(string(text), func(code string) string { return strings.Repeat("\n", strings.Count(code, "\n")) })
		for i, line := range strings.Split(prose, "\n") {
			if strings.HasSuffix(path, ".proto") {
				_, line, _ = strings.Cut(line, "//")
			}
			proseWords(t, path, i+1, line, refused)
		}
	}
}

// refusedWords reads the glossary: a pattern for prose, and the words as parts of names.
func refusedWords(t *testing.T) (*regexp.Regexp, map[string]bool) {
	t.Helper()
	text, err := os.ReadFile("reference/glossary.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "| not | but |\n|---|---|\n")
	require.True(t, found)
	var words []string
	inNames := make(map[string]bool)
	for row := range strings.Lines(table) {
		cell, _, ok := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		if !ok {
			break
		}
		for word := range strings.SplitSeq(regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(cell, ""), ",") {
			word = strings.TrimSpace(word)
			words = append(words, regexp.QuoteMeta(word))
			inNames[word] = true
		}
	}
	require.Greater(t, len(words), 20)
	return regexp.MustCompile(`(?i)\b(` + strings.Join(words, "|") + `)\b`), inNames
}

func proseWords(t *testing.T, path string, line int, text string, refused *regexp.Regexp) {
	t.Helper()
	text = plainEnglish.ReplaceAllString(otherPeoples.ReplaceAllString(text, ""), "")
	if word := refused.FindString(text); word != "" {
		assert.Failf(t, "a word of the glossary's last table", "%s:%d: %q in: %s", path, line, word, strings.TrimSpace(text))
	}
}

// goWords checks comments, messages and help, and the words that names are made of.
func goWords(t *testing.T, path string, text []byte, refused *regexp.Regexp, inNames map[string]bool) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, group := range file.Comments {
		for _, c := range group.List {
			first := set.Position(c.Pos()).Line
			for i, line := range strings.Split(c.Text, "\n") {
				proseWords(t, path, first+i, line, refused)
			}
		}
	}
	named := func(id *ast.Ident) {
		if id == nil {
			return
		}
		for _, word := range camelWords(id.Name) {
			if inNames[word] {
				assert.Failf(t, "a word of the glossary's last table", "%s: %s", set.Position(id.Pos()), id.Name)
			}
		}
	}
	messages := !strings.HasSuffix(path, "_test.go")
	ast.Inspect(file, func(n ast.Node) bool { // where names are given, as others' names may be used
		switch n := n.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); messages && n.Kind == token.STRING && err == nil {
				first := set.Position(n.Pos()).Line
				for i, line := range strings.Split(text, "\n") {
					proseWords(t, path, first+i, line, refused)
				}
			}
		case *ast.FuncDecl:
			named(n.Name)
		case *ast.TypeSpec:
			named(n.Name)
		case *ast.Field:
			for _, id := range n.Names {
				named(id)
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				named(id)
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if id, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
					named(id)
				}
			}
		}
		return true
	})
}

// camelWords splits a name as MixedCaps are written, in lower case.
func camelWords(name string) (words []string) {
	start := 0
	for i, r := range name {
		if i > start && (unicode.IsUpper(r) || r == '_') {
			words = append(words, strings.ToLower(strings.Trim(name[start:i], "_")))
			start = i
		}
	}
	return append(words, strings.ToLower(strings.Trim(name[start:], "_")))
}

// Package docs_test holds the documents to each other.
package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingLine  = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	fencedCode   = regexp.MustCompile("(?ms)^```.*?^```")
	codeSpan     = regexp.MustCompile("`[^`\n]*`")
	notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// anchors are the fragments by which a Markdown file's headings are linked, as GitHub makes them.
func anchors(text string) map[string]bool {
	seen := make(map[string]bool)
	for _, m := range headingLine.FindAllStringSubmatch(fencedCode.ReplaceAllString(text, ""), -1) {
		heading := markdownLink.ReplaceAllString(m[1], "]")
		seen[strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")] = true
	}
	return seen
}

// documents lists the Markdown files of the project that are there, from its root.
func documents(t *testing.T) (list []string) {
	t.Helper()
	out, err := exec.Command("git", "-C", "..", "ls-files", "*.md").Output()
	require.NoError(t, err)
	for file := range strings.Lines(string(out)) {
		file = strings.TrimSpace(file)
		if _, err := os.Stat(filepath.Join("..", file)); err == nil { // otherwise deleted, and not committed yet
			list = append(list, file)
		}
	}
	return list
}

// TestLinksOfDocumentsResolve: every relative link in a document that is part of the project leads
// to a file, and to a heading of it.
func TestLinksOfDocumentsResolve(t *testing.T) {
	const root = ".."
	texts := make(map[string]string)
	for _, file := range documents(t) {
		data, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		texts[file] = string(data)
	}
	checked := 0
	for file, text := range texts {
		plain := codeSpan.ReplaceAllString(fencedCode.ReplaceAllString(text, ""), "``")
		for _, m := range markdownLink.FindAllStringSubmatch(plain, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			path, fragment, _ := strings.Cut(m[1], "#")
			target := file
			if path != "" {
				target = filepath.Join(filepath.Dir(file), path)
			}
			if _, err := os.Stat(filepath.Join(root, target)); !assert.NoError(t, err, "%s links to %s", file, m[1]) {
				continue
			}
			if to, isDocument := texts[target]; isDocument && fragment != "" {
				assert.True(t, anchors(to)[fragment], "%s links to %s, which has no such heading", file, m[1])
			}
			checked++
		}
	}
	assert.Greater(t, checked, 300)
}

// TestEveryPageIsInTheIndex: a reader finds each page of docs/ from docs/README.md, and those of commands from their program's.
func TestEveryPageIsInTheIndex(t *testing.T) {
	index, err := os.ReadFile("README.md")
	require.NoError(t, err)
	commands, err := os.ReadFile("reference/commands.md")
	require.NoError(t, err)
	seen := 0
	require.NoError(t, filepath.WalkDir(".", func(page string, _ os.DirEntry, err error) error {
		if filepath.Ext(page) != ".md" || page == "README.md" {
			return err
		}
		seen++
		from, text := "docs/README.md", index
		link := page
		if program, one, ok := strings.Cut(strings.TrimPrefix(page, "reference/"), "/"); ok && strings.HasPrefix(page, "reference/") {
			link = program + "/" + one
			from, text = "docs/reference/commands.md", commands
			if one != "README.md" { // which lists the others
				link, from = one, "docs/reference/"+program+"/README.md"
				text, err = os.ReadFile(filepath.Join("reference", program, "README.md"))
			}
		}
		if folder := "develop/decisions/"; strings.HasPrefix(page, folder) && page != folder+"README.md" {
			link, from = strings.TrimPrefix(page, folder), "docs/"+folder+"README.md"
			text, err = os.ReadFile(filepath.Join(folder, "README.md"))
		}
		if !regexp.MustCompile(`\]\(` + regexp.QuoteMeta(link) + `[)#]`).Match(text) {
			t.Errorf("%s doesn't lead to %s", from, page)
		}
		return err
	}))
	assert.Greater(t, seen, 80)
}

// TestTablesAreShort: a cell of a table is read at a glance. A quoted line or name in it, `so`, counts as a word. The histories of figures are
// what has been, and cards of models are held by the models' digests.
func TestTablesAreShort(t *testing.T) {
	const most = 30
	exempt := regexp.MustCompile(`^(docs/measured/(history|checkpoints)\.md|train/|models/)`)
	cells := 0
	for _, file := range documents(t) {
		if exempt.MatchString(file) {
			continue
		}
		data, err := os.ReadFile(filepath.Join("..", file))
		require.NoError(t, err)
		text := fencedCode.ReplaceAllStringFunc(string(data), func(code string) string { return strings.Repeat("\n", strings.Count(code, "\n")) })
		for i, line := range strings.Split(text, "\n") {
			if !strings.HasPrefix(strings.TrimSpace(line), "|") {
				continue
			}
			line = codeSpan.ReplaceAllString(strings.ReplaceAll(line, `\|`, "or"), "`code`")
			for cell := range strings.SplitSeq(line, "|") {
				cells++
				if n := len(strings.Fields(cell)); n > most {
					t.Errorf("%s:%d: %d words in a cell, %d are the most: %s", file, i+1, n, most, cell)
				}
			}
		}
	}
	assert.Greater(t, cells, 10_000)
}

// TestEntranceIsShort: what a new reader sees first, and what an old one sees last.
func TestEntranceIsShort(t *testing.T) {
	for file, most := range map[string]int{"README.md": 900, "CHANGELOG.md": 1500} {
		data, err := os.ReadFile(filepath.Join("..", file))
		require.NoError(t, err)
		assert.LessOrEqual(t, len(strings.Fields(string(data))), most, "words of %s", file)
	}
}

// TestModelsOfDocumentsAreShipped: a page speaks of today's models. What earlier versions did is in docs/measured, where a figure names its version,
// and in why things were decided.
func TestModelsOfDocumentsAreShipped(t *testing.T) {
	exempt := regexp.MustCompile(`^(docs/measured/|docs/develop/decisions/|train/|models/|CHANGELOG\.md$)`)
	named := regexp.MustCompile("`(r9\\.4-fast|r9\\.4-hac|r9-r10-pileup)`,? (?:version )?([0-9]+\\.[0-9]+\\.[0-9]+)")
	version := regexp.MustCompile(`(?m)^version = "([0-9.]+)"`)
	for _, file := range documents(t) {
		if exempt.MatchString(file) {
			continue
		}
		data, err := os.ReadFile(filepath.Join("..", file))
		require.NoError(t, err)
		for _, m := range named.FindAllStringSubmatch(string(data), -1) {
			manifest, err := os.ReadFile(filepath.Join("..", "models", m[1], "manifest.toml"))
			require.NoError(t, err)
			shipped := version.FindStringSubmatch(string(manifest))
			require.NotNil(t, shipped)
			assert.Equal(t, shipped[1], m[2], "%s: %s is not the version that is shipped", file, m[0])
		}
	}
}

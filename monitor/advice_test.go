package monitor

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
)

// For every reason code of dead letters and every alert there is a sentence that says
// what to do.
func TestAdviceIsComplete(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("..", "stream", "codec.go"))
	require.NoError(t, err)
	codes := regexp.MustCompile(`(?m)^\tCode\w+\s+= "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	require.NotEmpty(t, codes)
	for _, c := range codes {
		require.Equal(t, "dead letter: "+c[1], deadLetterAdvice(c[1]))
	}
	rules, err := os.ReadFile(filepath.Join("..", "deploy", "prometheus", "rules.yml"))
	require.NoError(t, err)
	alerts := regexp.MustCompile(`(?m)^\s+- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	require.NotEmpty(t, alerts)
	for _, a := range alerts {
		require.Contains(t, adviceTable(), a[1], "deploy/prometheus/rules.yml has an alert that the page has no advice on")
	}
	for name, a := range adviceTable() {
		assert.NotEmpty(t, a.title, name)
		assert.False(t, strings.HasSuffix(a.title, ".") || unicode.IsUpper(rune(a.title[0])), "%s: %s", name, a.title)
		assert.True(t, strings.HasSuffix(a.do, ".") && unicode.IsUpper(rune(a.do[0])), "%s: %s", name, a.do)
	}
	assert.Equal(t, "PorestreamDeadLetters", deadLetterAdvice("of a later version"))
	require.Equal(t, stream.CodeLate, codes[len(codes)-1][1])
}

// Every finding has an entry in the table.
func TestFindingsHaveAdvice(t *testing.T) {
	source, err := os.ReadFile("problems.go")
	require.NoError(t, err)
	used := regexp.MustCompile(`advice: +"(\w+)"|, "(\w+)", Severity`).FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(used), 10)
	for _, u := range used {
		require.Contains(t, adviceTable(), u[1]+u[2])
	}
}

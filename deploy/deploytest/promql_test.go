package deploytest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// names returns the series and the labels that a PromQL expression names. It
// knows as much of the language as that takes; promtool checks the rest.
func names(expr string) (metrics, labels []string) {
	tokens := tokenPattern.FindAllString(expr, -1)
	for i := 0; i < len(tokens); i++ {
		token, next := tokens[i], ""
		if i+1 < len(tokens) {
			next = tokens[i+1]
		}
		switch {
		case token == "{": // matchers: label, operator, string
			for i++; i < len(tokens) && tokens[i] != "}"; i++ {
				if identifier.MatchString(tokens[i]) {
					labels = append(labels, tokens[i])
				}
			}
		case slices.Contains([]string{"by", "without", "on", "ignoring", "group_left", "group_right"}, token):
			if next != "(" {
				continue
			}
			for i++; i < len(tokens) && tokens[i] != ")"; i++ {
				if identifier.MatchString(tokens[i]) {
					labels = append(labels, tokens[i])
				}
			}
		case slices.Contains([]string{"and", "or", "unless", "bool", "offset"}, token):
		case identifier.MatchString(token) && next != "(" && next != "by" && next != "without":
			metrics = append(metrics, token)
		}
	}
	return metrics, labels
}

var (
	// Strings, ranges, numbers and durations, identifiers, anything else.
	tokenPattern = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\[[^\]]*\]|[0-9][0-9a-z.]*|[a-zA-Z_:][a-zA-Z0-9_:]*|\S`)
	identifier   = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
)

// checkExpr reports the series that an expression names and that don't exist,
// and the labels that none of its series has.
func checkExpr(expr string, exported map[string][]string) []string {
	var faults []string
	metrics, labels := names(expr)
	if len(metrics) == 0 {
		faults = append(faults, "names no metric")
	}
	var known []string
	for _, m := range metrics {
		l, exists := exported[m]
		if !exists {
			faults = append(faults, fmt.Sprintf("no program exports %s", m))
		}
		known = append(known, l...)
	}
	for _, l := range labels {
		if !slices.Contains(known, l) {
			faults = append(faults, fmt.Sprintf("none of %s has a label %s", strings.Join(metrics, ", "), l))
		}
	}
	return faults
}

func TestNames(t *testing.T) {
	tests := []struct {
		expr            string
		metrics, labels []string
	}{
		{`up{job=~"ingest|processor"} == 0`, []string{"up"}, []string{"job"}},
		{`sum by (model, le) (rate(a_bucket[5m])) >= 0`, []string{"a_bucket"}, []string{"model", "le"}},
		{`sum(rate(a[$__rate_interval])) by (x) / on () b:c_rate5m`, []string{"a", "b:c_rate5m"}, []string{"x"}},
		{`histogram_quantile(0.99, a) or vector(0) unless b offset 15m > 1e3`, []string{"a", "b"}, nil},
		{`a > bool 2`, []string{"a"}, nil},
	}
	for _, test := range tests {
		metrics, labels := names(test.expr)
		assert.Equal(t, test.metrics, metrics, test.expr)
		assert.Equal(t, test.labels, labels, test.expr)
	}
}

func TestCheckExprFindsFaults(t *testing.T) {
	exported := map[string][]string{"a_total": {"job", "topic"}}
	tests := []struct{ expr, fault string }{
		{`rate(a_total{topic="x"}[5m])`, ""},
		{`rate(a_totl[5m])`, "no program exports a_totl"},
		{`rate(a[5m])`, "no program exports a"},
		{`sum by (topik) (a_total)`, "none of a_total has a label topik"},
		{`a_total{partition="1"}`, "none of a_total has a label partition"},
		{`vector(0)`, "names no metric"},
	}
	for _, test := range tests {
		faults := strings.Join(checkExpr(test.expr, exported), "; ")
		assert.Equal(t, test.fault, faults, test.expr)
	}
}

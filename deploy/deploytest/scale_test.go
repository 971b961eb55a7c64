package deploytest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/porestream/porestream/testenv"
)

// A fault that has to last 15 minutes until an alert reports it can't be tried in
// minutes. So the live test runs the shipped rules with all their durations divided
// by one number, rulesFactor: for, the ranges of expressions, their offsets, and
// ages, with which time() is compared. Thresholds stay as they are, in seconds as in
// shares: a latency of 30 s is one of 30 s.
const rulesFactor = 60

// scaleRules divides the durations of a file of rules.
func scaleRules(file []byte, factor int) ([]byte, error) {
	var rules struct {
		Groups []struct {
			Name  string
			Rules []map[string]any
		}
	}
	if err := yaml.Unmarshal(file, &rules); err != nil {
		return nil, err
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			for _, key := range []string{"for", "keep_firing_for"} {
				if r[key] == nil {
					continue
				}
				d, err := scaleDuration(fmt.Sprint(r[key]), factor)
				if err != nil {
					return nil, err
				}
				r[key] = d
			}
			expr, err := scaleExpr(fmt.Sprint(r["expr"]), factor)
			if err != nil {
				return nil, err
			}
			r["expr"] = expr
		}
	}
	return yaml.Marshal(rules)
}

var (
	durationPattern = regexp.MustCompile(`^([0-9]+)(ms|s|m|h|d)$`)
	// A range, an offset, or an age and what it is compared with.
	spanPattern = regexp.MustCompile(`\[([^\]]*)\]|\boffset\s+([0-9a-z:]+)|\btime\(\)[^<>=]*[<>]=?[^<>=]*[<>]=?\s*([0-9]+)|\btime\(\)`)
)

func scaleDuration(s string, factor int) (string, error) {
	m := durationPattern.FindStringSubmatch(s)
	if m == nil {
		return "", fmt.Errorf("the duration %q is not one number and one unit", s)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return "", err
	}
	unit := map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[m[2]]
	return fmt.Sprintf("%dms", time.Duration(n)*unit/time.Duration(factor)/time.Millisecond), nil
}

func scaleExpr(expr string, factor int) (string, error) {
	var fault error
	scaled := spanPattern.ReplaceAllStringFunc(expr, func(found string) string {
		m := spanPattern.FindStringSubmatch(found)
		if m[3] != "" {
			n, err := strconv.Atoi(m[3])
			if err != nil {
				fault = err
			}
			return strings.TrimSuffix(found, m[3]) + strconv.FormatFloat(float64(n)/float64(factor), 'f', -1, 64)
		}
		old := m[1] + m[2]
		if old == "" {
			fault = fmt.Errorf("time() is compared with no number: %s", expr)
			return found
		}
		d, err := scaleDuration(old, factor)
		if err != nil {
			fault = err
		}
		return strings.Replace(found, old, d, 1)
	})
	return scaled, fault
}

func TestScaleExpr(t *testing.T) {
	for _, tt := range []struct{ expr, want, fault string }{
		{`rate(a_total[5m]) > 30`, `rate(a_total[5000ms]) > 30`, ""},
		{`a unless a offset 15m > 0`, `a unless a offset 15000ms > 0`, ""},
		{`max(time() - (a_timestamp_seconds > 0)) > 900`, `max(time() - (a_timestamp_seconds > 0)) > 15`, ""},
		{`max_over_time(a[1h])`, `max_over_time(a[60000ms])`, ""},
		{`a_offset > 5`, `a_offset > 5`, ""},
		{`rate(a[5m:1m])`, ``, `"5m:1m" is not one number`},
		{`rate(a[1h30m])`, ``, `"1h30m" is not one number`},
		{`time() - a`, ``, `compared with no number`},
	} {
		got, err := scaleExpr(tt.expr, 60)
		if tt.fault != "" {
			require.ErrorContains(t, err, tt.fault, tt.expr)
			continue
		}
		require.NoError(t, err, tt.expr)
		assert.Equal(t, tt.want, got)
	}
}

// Scaling by one changes nothing except how durations are spelt, and the scaled file
// has all the rules.
func TestScaleRules(t *testing.T) {
	shipped, err := os.ReadFile(filepath.Join(testenv.Root(t), "deploy/prometheus/rules.yml"))
	require.NoError(t, err)
	scaled, err := scaleRules(shipped, rulesFactor)
	require.NoError(t, err)
	type ruleFile struct {
		Groups []struct{ Rules []map[string]any }
	}
	var was, is ruleFile
	require.NoError(t, yaml.Unmarshal(shipped, &was))
	require.NoError(t, yaml.Unmarshal(scaled, &is))
	require.Len(t, is.Groups, len(was.Groups))
	for i, g := range was.Groups {
		require.Len(t, is.Groups[i].Rules, len(g.Rules))
		for j, r := range g.Rules {
			s := is.Groups[i].Rules[j]
			for _, key := range []string{"alert", "record", "labels", "annotations"} {
				assert.Equal(t, r[key], s[key])
			}
			assert.Equal(t, r["for"] == nil, s["for"] == nil)
			// Nothing that takes minutes is left.
			assert.NotRegexp(t, `\[[0-9]+[mhd]\]|offset [0-9]+[mhd]\b`, s["expr"])
		}
	}
}

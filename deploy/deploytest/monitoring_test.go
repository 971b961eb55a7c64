package deploytest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/porestream/porestream/deploy/grafana"
	"github.com/porestream/porestream/testenv"
)

// rule is a recording or an alerting rule.
type rule struct {
	Record, Alert, Expr string
	Annotations         map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []rule }
	}
	readYAML(t, filepath.Join(testenv.Root(t), "deploy/prometheus/rules.yml"), &file)
	var all []rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, into), path)
}

// labelsOfRecords are the labels that recording rules leave. The others
// aggregate all of them away.
var labelsOfRecords = map[string][]string{"topic": {"topic"}}

func TestRulesNameExistingMetrics(t *testing.T) {
	exported := series(catalogue(t))
	all := rules(t)
	for _, r := range all {
		if r.Record != "" {
			level, _, _ := strings.Cut(r.Record, ":")
			exported[r.Record] = labelsOfRecords[level]
		}
	}
	for _, r := range all {
		assert.Empty(t, checkExpr(r.Expr, exported), "%s%s", r.Record, r.Alert)
	}
}

func TestAlertsHaveARunbook(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs/operate/operations.md"))
	require.NoError(t, err)
	headings := regexp.MustCompile(`(?m)^#+ (Porestream\w+)$`).FindAllStringSubmatch(string(doc), -1)
	documented := make(map[string]bool)
	for _, h := range headings {
		documented[h[1]] = true
	}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		assert.True(t, documented[r.Alert], "docs/operate/operations.md has no heading %s", r.Alert)
		assert.Equal(t, "docs/operate/operations.md#"+strings.ToLower(r.Alert), r.Annotations["runbook"], r.Alert)
		assert.NotEmpty(t, r.Annotations["summary"], r.Alert)
		delete(documented, r.Alert)
	}
	assert.Empty(t, documented, "docs/operate/operations.md explains alerts that don't exist")
}

// Every alert has a case of promtool in which it fires and one in which it doesn't.
func TestAlertsHaveUnitTests(t *testing.T) {
	var file struct {
		Tests []struct {
			Name  string
			Cases []struct {
				Alert  string           `yaml:"alertname"`
				Firing []map[string]any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	readYAML(t, filepath.Join(testenv.Root(t), "deploy/prometheus/rules_test.yml"), &file)
	fires, silent := make(map[string]bool), make(map[string]bool)
	for _, test := range file.Tests {
		for _, c := range test.Cases {
			if len(c.Firing) > 0 {
				fires[c.Alert] = true
			} else {
				silent[c.Alert] = true
			}
		}
	}
	for _, r := range rules(t) {
		if r.Alert != "" {
			assert.True(t, fires[r.Alert], "no case of rules_test.yml has %s fire", r.Alert)
			assert.True(t, silent[r.Alert], "no case of rules_test.yml has %s silent", r.Alert)
		}
	}
}

func TestDashboardsNameExistingMetrics(t *testing.T) {
	exported := series(catalogue(t))
	for _, d := range grafana.Dashboards() {
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				require.NotEmpty(t, p.Queries, p.Title)
				assert.NotEmpty(t, p.Description, p.Title)
				for _, q := range p.Queries {
					assert.Empty(t, checkExpr(q.Expr, exported), "%s: %s", row.Title, p.Title)
				}
			}
		}
	}
}

func TestDashboardsAreRendered(t *testing.T) {
	dir := filepath.Join(testenv.Root(t), "deploy/grafana/dashboards")
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, files, len(grafana.Dashboards()))
	for _, d := range grafana.Dashboards() {
		want, err := d.JSON()
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, d.File()))
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got), "run go generate ./deploy/grafana")
	}
}

// Addresses of the pages contain these: a bookmark must still work.
func TestDashboardsKeepTheirNames(t *testing.T) {
	var names []string
	for _, d := range grafana.Dashboards() {
		names = append(names, d.UID)
	}
	assert.Equal(t, []string{"porestream-operations", "porestream-run", "porestream-inference"}, names)
}

// A query names no variable that its page doesn't have, and a page has none that no
// query names.
func TestDashboardsUseTheirVariables(t *testing.T) {
	named := regexp.MustCompile(`\$([a-z]+)`)
	for _, d := range grafana.Dashboards() {
		unused := make(map[string]bool)
		for _, v := range d.Variables {
			unused[v.Name] = true
		}
		have := maps.Clone(unused)
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				for _, q := range p.Queries {
					for _, m := range named.FindAllStringSubmatch(q.Expr, -1) {
						assert.True(t, have[m[1]], "%s: %s: no variable %s", d.UID, p.Title, m[1])
						delete(unused, m[1])
					}
				}
			}
		}
		assert.Empty(t, unused, d.UID)
	}
}

// What Grafana needs to show a page at all.
func TestDashboardsHaveTheShapeOfGrafana(t *testing.T) {
	for _, d := range grafana.Dashboards() {
		data, err := d.JSON()
		require.NoError(t, err)
		var page struct {
			UID, Title string
			ID         *int
			Templating struct{ List []struct{ Name, Type string } }
			Panels     []struct {
				ID         int
				Type       string
				Datasource struct{ UID string }
				GridPos    struct{ X, Y, W, H int }
				Targets    []struct{ Expr string }
			}
		}
		require.NoError(t, json.Unmarshal(data, &page))
		assert.Equal(t, d.UID, page.UID)
		assert.Nil(t, page.ID, "ids belong to one Grafana")
		require.Len(t, page.Templating.List, 1+len(d.Variables))
		assert.Equal(t, "datasource", page.Templating.List[0].Type)
		titles := make(map[string]bool)
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				assert.False(t, titles[row.Title+p.Title], "%s: %s is there twice", d.UID, p.Title)
				titles[row.Title+p.Title] = true
			}
		}
		ids, cells := make(map[int]bool), make(map[[2]int]string)
		for _, p := range page.Panels {
			assert.False(t, ids[p.ID], "panel id %d is used twice", p.ID)
			ids[p.ID] = true
			assert.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24)
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					assert.Empty(t, cells[[2]int{x, y}], "panels overlap")
					cells[[2]int{x, y}] = p.Type
				}
			}
			if p.Type != "row" {
				assert.Equal(t, "${datasource}", p.Datasource.UID)
				assert.NotEmpty(t, p.Targets)
			}
		}
	}
}

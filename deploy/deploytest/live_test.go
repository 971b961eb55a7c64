package deploytest

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/deploy/grafana"
)

// prometheusVariable names the address of a Prometheus that has watched a whole
// run; deploy/check.sh sets it.
const prometheusVariable = "PORESTREAM_TEST_PROMETHEUS"

// promServer is a Prometheus to ask.
type promServer struct{ url string }

// ask reads the data of an answer.
func (p promServer) ask(t testing.TB, path string, query url.Values, data any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+path+"?"+query.Encode(), nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	require.NoError(t, json.NewDecoder(res.Body).Decode(&answer))
	require.Equal(t, "success", answer.Status, "%s: %s", query, answer.Error)
}

// labelValues are those of a series' label that were ever seen.
func (p promServer) labelValues(t *testing.T, series, label string) (values []string) {
	t.Helper()
	p.ask(t, "/api/v1/label/"+label+"/values", url.Values{"match[]": {series}}, &values)
	return values
}

// values counts the numbers that a query gives over the last 10 minutes.
func (p promServer) values(t *testing.T, query string) int {
	t.Helper()
	now := time.Now()
	var data struct {
		Result []struct{ Values [][2]any }
	}
	p.ask(t, "/api/v1/query_range", url.Values{
		"query": {query}, "step": {"1"},
		"start": {strconv.FormatInt(now.Add(-10*time.Minute).Unix(), 10)}, "end": {strconv.FormatInt(now.Unix(), 10)},
	}, &data)
	n := 0
	for _, series := range data.Result {
		for _, v := range series.Values {
			f, err := strconv.ParseFloat(fmt.Sprint(v[1]), 64)
			require.NoError(t, err)
			if !math.IsNaN(f) {
				n++
			}
		}
	}
	return n
}

// watched is the Prometheus that has watched a run.
func watched(t *testing.T) promServer {
	t.Helper()
	address := os.Getenv(prometheusVariable)
	if address == "" {
		t.Skip("needs a Prometheus that has watched a run: deploy/check.sh starts one and sets ", prometheusVariable)
	}
	return promServer{address}
}

// No label of a real run has a value that TestLabelsAreBounded doesn't know of.
func TestLiveLabelsAreListed(t *testing.T) {
	p := watched(t)
	checked := 0
	for name, m := range catalogue(t) {
		if m.kind == "histogram" {
			name += "_count"
		}
		for _, l := range m.labels {
			_, known, _ := labelOf(m.name, l)
			if len(known.values) == 0 {
				continue
			}
			for _, value := range p.labelValues(t, name, l) {
				assert.Contains(t, known.values, value, "%s: label %s", name, l)
				checked++
			}
		}
	}
	assert.Greater(t, checked, 40)
}

func TestLiveQueriesHaveData(t *testing.T) {
	p := watched(t)
	assert.Zero(t, p.values(t, "porestream_no_such_metric"), "the check can fail")
	// As Grafana would, for a scrape interval of 1 second and 5 minutes shown.
	grafanaVariables := strings.NewReplacer("$__rate_interval", "10s", "$__range", "5m", "$source", ".*")
	for _, d := range grafana.Dashboards() {
		for _, row := range d.Rows {
			for _, panel := range row.Panels {
				for _, q := range panel.Queries {
					// What needs more than a run is asked for all the same: it must be PromQL.
					n := p.values(t, grafanaVariables.Replace(q.Expr))
					assert.True(t, n > 0 || panel.Needs != "", "%s: %s: %s: no data", d.UID, panel.Title, q.Expr)
				}
			}
		}
	}
	for _, r := range rules(t) {
		if r.Record != "" {
			assert.NotZero(t, p.values(t, r.Record), "rule %s records nothing", r.Record)
		}
		p.values(t, r.Expr)
	}
}

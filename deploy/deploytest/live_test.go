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

// values counts the numbers that a query gives over the last 10 minutes.
func (p promServer) values(t *testing.T, query string) int {
	t.Helper()
	now := time.Now()
	ask := url.Values{
		"query": {query}, "step": {"1"},
		"start": {strconv.FormatInt(now.Add(-10*time.Minute).Unix(), 10)}, "end": {strconv.FormatInt(now.Unix(), 10)},
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/api/v1/query_range", strings.NewReader(ask.Encode()))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct{ Values [][2]any }
		}
	}
	require.NoError(t, json.NewDecoder(res.Body).Decode(&answer))
	require.Equal(t, "success", answer.Status, "%s: %s", query, answer.Error)
	n := 0
	for _, series := range answer.Data.Result {
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

func TestLiveQueriesHaveData(t *testing.T) {
	address := os.Getenv(prometheusVariable)
	if address == "" {
		t.Skip("needs a Prometheus that has watched a run: deploy/check.sh starts one and sets ", prometheusVariable)
	}
	p := promServer{address}
	assert.Zero(t, p.values(t, "porestream_no_such_metric"), "the check can fail")
	// As Grafana would, for a scrape interval of 1 second and 5 minutes shown.
	grafanaVariables := strings.NewReplacer("$__rate_interval", "10s", "$__range", "5m")
	for _, d := range grafana.Dashboards() {
		for _, row := range d.Rows {
			for _, panel := range row.Panels {
				for _, q := range panel.Queries {
					assert.NotZero(t, p.values(t, grafanaVariables.Replace(q.Expr)), "%s: %s: %s: no data", d.UID, panel.Title, q.Expr)
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

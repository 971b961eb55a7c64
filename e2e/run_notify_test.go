package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRunNotifies: a run sends its alerts to a webhook, one that fails at first and once doesn't answer in time, and ends when the receiver has all of them: each alert of the
// results, and none under two ids. A receiver that is never there, or that refuses, is named in one line, and the results are there.
func TestRunNotifies(t *testing.T) {
	t.Parallel()
	dir, reads := plateOf(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(at("reads.fastq"), []byte(strings.Join(reads, "")), 0o600))
	var mu sync.Mutex
	tries, taken := 0, make(map[string]string) // id by key and revision
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		tries++
		n := tries
		mu.Unlock()
		switch n {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case 2:
			<-r.Context().Done() // it never answers
			return
		}
		var a struct {
			ID, Sample, Rule, Subject string
			Revision                  uint64
		}
		if json.Unmarshal(body, &a) != nil || r.Header.Get("Ce-Id") != a.ID {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		key, _ := json.Marshal([]any{a.Sample, a.Rule, a.Subject, a.Revision})
		if known, again := taken[string(key)]; again && known != a.ID {
			t.Errorf("%s was sent as %s and as %s", key, known, a.ID)
		}
		taken[string(key)] = a.ID
	}))
	defer hook.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	run := func(url, out string, more ...string) result {
		config := "destinations:\n  - name: lab\n    states: [ANY]\n    timeout: 1s\n    webhook: {url: \"" + url + "\"}\n"
		require.NoError(t, os.WriteFile(at(out+".yaml"), []byte(config), 0o600))
		args := append([]string{"run", "--ref", at("ref.fa"), "--panel", at("panel.yaml"), "--sample-sheet", at("sheet.csv"), "--ploidy", "mixture", "--notify", at(out + ".yaml"), "--out", at(out)}, more...)
		return pore(t, append(args, at("reads.fastq"))...)
	}
	res := run(hook.URL, "told")
	require.Zero(t, res.code, res.stderr)
	finals := 0
	for _, sample := range []string{"a", "b", "water", "wild"} {
		var alerts []struct {
			ID string
		}
		require.NoError(t, json.Unmarshal(readFile(t, filepath.Join(at("told"), sample+".alerts.json")), &alerts))
		for _, a := range alerts {
			require.Contains(t, taken, keyOf(taken, a.ID), "the receiver lacks %s", a.ID)
			finals++
		}
	}
	require.Equal(t, 8, finals)

	res = run(gone.URL, "untold", "--notify-wait", "1s")
	require.NotZero(t, res.code)
	require.Contains(t, res.stderr, "pore run: within 1s of the run's end not all alerts were sent to lab: ")
	require.FileExists(t, filepath.Join(at("untold"), "summary.json"))
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnprocessableEntity) }))
	defer refusing.Close()
	res = run(refusing.URL, "refused")
	require.NotZero(t, res.code)
	require.Regexp(t, `pore run: given up were [0-9]+ alerts for lab: `, res.stderr)
	require.FileExists(t, filepath.Join(at("refused"), "summary.json"))
	res = pore(t, "run", "--ref", at("ref.fa"), "--notify", at("told.yaml"), "--out", at("none"), at("reads.fastq"))
	require.NotZero(t, res.code)
	require.Contains(t, res.stderr, "--notify sends the alerts of panels: give --panel")
}

// keyOf is the key under which an id is.
func keyOf(taken map[string]string, id string) string {
	for key, known := range taken {
		if known == id {
			return key
		}
	}
	return id
}

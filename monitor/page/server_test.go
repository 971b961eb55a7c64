package page

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/monitor/ops"
	"github.com/porestream/porestream/monitor/page/pagetest"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

var topics = stream.NewTopics("")

// served is a server under test.
type served struct {
	*Server
	url   string
	token ops.Token
}

func serve(t *testing.T, change func(*Config)) *served {
	t.Helper()
	cfg := Config{
		Version: "1", Instance: "me", Started: time.Now(), Token: ops.NewToken(), Eager: true,
		NewView: func() *monitor.View { return monitor.NewView(topics, monitor.Limits{}) },
	}
	if change != nil {
		change(&cfg)
	}
	s := New(cfg)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-done)
		web.Close()
	})
	return &served{s, web.URL, cfg.Token}
}

func (s *served) get(t *testing.T, path string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+s.token.Secret())
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(body)
}

// reader reads the events of one connection.
type reader struct {
	t     *testing.T
	lines *bufio.Scanner
	stop  func()
}

func (s *served) open(t *testing.T) *reader {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/api/events", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+s.token.Secret())
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 64<<20)
	return &reader{t, lines, cancel}
}

// next is the next event; false at the end.
func (r *reader) next() (name, data string, ok bool) {
	for r.lines.Scan() {
		switch line := r.lines.Text(); {
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			return name, line[len("data: "):], true
		}
	}
	return "", "", false
}

// until reads on until an event of a name makes fn true.
func (r *reader) until(name string, fn func(data string) bool) {
	r.t.Helper()
	for {
		n, data, ok := r.next()
		require.True(r.t, ok, "the stream has ended before a %s that was waited for", name)
		require.True(r.t, json.Valid([]byte(data)), "%s: %s", n, data)
		if n == name && fn(data) {
			return
		}
	}
}

func variant(t *testing.T, n int, revision uint64) stream.Record {
	t.Helper()
	out, err := event.Variant{
		SchemaVersion: 1, Run: "run", Sample: "x", Revision: revision, Status: "PROVISIONAL",
		Allele:     event.Allele{VRSID: fmt.Sprint("ga4gh:VA.", n), Contig: "c", Pos: int64(n + 1), Ref: "A", Alt: "T"},
		Call:       event.Call{Qual: 30, Genotype: []uint32{1}, Depth: 10, AltForward: 9},
		Annotation: annotate.Annotation{MostSevere: annotate.MostSevere{Term: "stop_gained", Impact: "HIGH"}},
	}.Record(topics.Variants)
	require.NoError(t, err)
	return stream.Record{Topic: out.Topic, Key: out.Key, Value: out.Value, Headers: out.Headers, Time: time.Now()}
}

func (s *served) add(t *testing.T, records ...stream.Record) {
	t.Helper()
	s.Update(func(v *monitor.View) {
		for _, r := range records {
			require.NoError(t, v.Add(r))
		}
	})
}

// A page gets everything first and changes then; one that comes again gets everything
// anew.
func TestPageGetsEverythingThenChanges(t *testing.T) {
	s := serve(t, nil)
	for n := range 1200 {
		s.add(t, variant(t, n, 1))
	}
	for range 2 {
		r := s.open(t)
		name, data, _ := r.next()
		require.Equal(t, monitor.EventHello, name)
		require.Contains(t, data, `"instance":"me"`)
		rows := make(map[string]uint64)
		take := func(data string) bool {
			var v monitor.Variants
			require.NoError(t, json.Unmarshal([]byte(data), &v))
			require.Equal(t, v.Reset, len(rows) == 0)
			for _, row := range v.Upsert {
				rows[row.ID] = row.Revision
			}
			return len(rows) == 1200
		}
		r.until(monitor.EventVariants, take)
		r.until(monitor.EventProblems, func(string) bool { return true })
		revision := rows["x/ga4gh:VA.7"] + 1
		s.add(t, variant(t, 7, revision))
		r.until(monitor.EventVariants, func(data string) bool {
			return strings.Contains(data, `"id":"x/ga4gh:VA.7"`) && strings.Contains(data, fmt.Sprintf(`"revision":%d`, revision))
		})
		r.stop()
	}
}

// Who doesn't read is dropped, and nobody else notices.
func TestSlowPageIsDropped(t *testing.T) {
	s := New(Config{Token: ops.NewToken(), NewView: func() *monitor.View { return monitor.NewView(topics, monitor.Limits{}) }})
	now := time.Now()
	slow, _, err := s.join(now)
	require.NoError(t, err)
	quick, _, err := s.join(now)
	require.NoError(t, err)
	sent := 0
	for n := range 40_000 {
		s.Update(func(v *monitor.View) { require.NoError(t, v.Add(variant(t, n%5000, uint64(n/5000+1)))) })
		if n%500 < 499 {
			continue
		}
		now = now.Add(time.Second)
		s.sendChanges(now)
		queue, ok := s.take(quick)
		require.True(t, ok)
		sent += len(queue)
		require.LessOrEqual(t, slow.bytes, maxQueue)
	}
	_, ok := s.take(slow)
	require.False(t, ok, "a page that reads nothing is not kept waiting for")
	require.Positive(t, sent)
	s.leave(slow)
	s.leave(quick)
	require.Empty(t, s.clients)
}

func TestPagesAreLimited(t *testing.T) {
	s := serve(t, nil)
	for range maxClients {
		_, _, err := s.join(time.Now())
		require.NoError(t, err)
	}
	resp, body := s.get(t, "/api/events")
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Equal(t, "5", resp.Header.Get("Retry-After"))
	assert.JSONEq(t, `{"error":"too many pages are open"}`, body)
}

// Nothing is shown without the token, nothing can be changed, and the page may load
// from its own server alone.
func TestNothingIsShownWithoutTheToken(t *testing.T) {
	s := serve(t, nil)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := &http.Client{Jar: jar}
	ask := func(method, path string) (*http.Response, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		policy := resp.Header.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'")
		require.NotContains(t, policy, "unsafe")
		require.NotContains(t, policy, "*")
		require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
		return resp, string(body)
	}
	for _, path := range []string{"/", "/api/events", "/api/depth", "/api/methylation", "/api/variant?id=x", "/api/pileup?pos=1", "/nothing", "/?token=wrong"} {
		resp, body := ask(http.MethodGet, path)
		assert.Equal(t, http.StatusUnauthorized, resp.StatusCode, path)
		if strings.HasPrefix(path, "/api/") {
			assert.JSONEq(t, `{"error":"a token is needed"}`, body)
		} else {
			assert.Contains(t, body, "<form", path)
		}
	}
	resp, _ := ask(http.MethodGet, "/assets/index.html")
	assert.Equal(t, http.StatusOK, resp.StatusCode)

	resp, body := ask(http.MethodGet, "/?token="+url.QueryEscape(s.token.Secret()))
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.NotContains(t, resp.Request.URL.String(), "token", "the token is out of the address bar")
	assert.Contains(t, body, "<html")
	assert.Equal(t, "no-cache", resp.Header.Get("Cache-Control"))
	resp, _ = ask(http.MethodGet, "/api/depth?sample=a&contig=b")
	assert.Equal(t, http.StatusNotFound, resp.StatusCode, "the cookie lets in")
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
		for _, path := range []string{"/", "/api/events", "/api/variant"} {
			resp, _ := ask(method, path)
			assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode, "%s %s", method, path)
		}
	}
	for _, path := range []string{"/assets/../server.go", "/assets/nope.js", "/api/depth?from=x", "/api/methylation?from=x", "/api/methylation?sample=a&contig=b&code=m", "/api/variant?id=nope"} {
		resp, _ := ask(http.MethodGet, path)
		assert.Contains(t, []int{http.StatusNotFound, http.StatusBadRequest}, resp.StatusCode, path)
	}
}

// fixed answers every place with one pileup.
type fixed struct{ err error }

func (f fixed) Pileup(_ context.Context, at Place) (*monitor.Pileup, error) {
	if f.err != nil {
		return nil, f.err
	}
	return &monitor.Pileup{Contig: at.Contig, From: at.Pos, Reference: "ACGT", Rows: []monitor.PileupRow{}}, nil
}

func owned(t *testing.T, instance, address string) []stream.Record {
	t.Helper()
	var out []stream.Record
	for i, m := range []*streampb.Status{
		{Body: &streampb.Status_Process{Process: &streampb.ProcessReport{Kind: "processor", Host: "lab-2", Address: address, StartedMs: 1}}},
		{Body: &streampb.Status_Depth{Depth: &streampb.DepthReport{Sample: "x", Contig: "c", ContigLength: 100, End: 100, Bin: 100, Depths: []uint32{10}}}},
	} {
		m.Instance, m.Sequence, m.TimeMs = instance, uint64(i+1), time.Now().UnixMilli()
		value, err := stream.EncodeStatus(m)
		require.NoError(t, err)
		out = append(out, stream.Record{Topic: topics.Status, Value: value})
	}
	return out
}

// The reads of a place come from the process that holds them, and where they can't be
// had the page says why.
func TestPileupOfAnotherProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("0123456789abcdef"), 0o600))
	shared, err := ops.ReadToken(file, "")
	require.NoError(t, err)
	holder := serve(t, func(c *Config) { c.Instance, c.Local, c.Token = "other", fixed{}, shared })
	address := strings.TrimPrefix(holder.url, "http://")
	detail := func(change func(*Config), records ...stream.Record) monitor.Detail {
		s := serve(t, func(c *Config) {
			c.Token = shared
			if change != nil {
				change(c)
			}
		})
		s.add(t, append(records, variant(t, 0, 1))...)
		resp, body := s.get(t, "/api/variant?id="+url.QueryEscape("x/ga4gh:VA.0"))
		require.Equal(t, http.StatusOK, resp.StatusCode)
		var d monitor.Detail
		require.NoError(t, json.Unmarshal([]byte(body), &d))
		require.Equal(t, d.Pileup == nil, d.PileupError != "")
		return d
	}
	d := detail(nil, owned(t, "other", address)...)
	require.NotNil(t, d.Pileup, d.PileupError)
	assert.Equal(t, "ACGT", d.Pileup.Reference)
	assert.Len(t, d.Revisions, 1)
	assert.NotNil(t, detail(func(c *Config) { c.Local = fixed{} }).Pileup, "its own")

	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	for _, c := range []struct {
		name, want string
		change     func(*Config)
		records    []stream.Record
	}{
		{"nobody", "no process has reported", nil, nil},
		{"no page", "serves no page", nil, owned(t, "other", "")},
		{"away", "can't be reached", nil, owned(t, "other", strings.TrimPrefix(dead.URL, "http://"))},
		{"another token", "--page-token-file", func(c *Config) { c.Token = ops.NewToken() }, owned(t, "other", address)},
		{"handed over", "handed over", func(c *Config) { c.Local = fixed{ErrNotHere} }, owned(t, "me", address)},
	} {
		assert.Contains(t, detail(c.change, c.records...).PileupError, c.want, c.name)
	}
}

// Topics are followed while a page is open, and not before.
func TestFollowsOnDemand(t *testing.T) {
	begun := make(chan struct{})
	s := serve(t, func(c *Config) {
		c.Eager = false
		c.Follow = func(ctx context.Context, _ *Server) error {
			close(begun)
			<-ctx.Done()
			return nil
		}
	})
	select {
	case <-begun:
		t.Fatal("followed with nobody there")
	default:
	}
	r := s.open(t)
	<-begun
	r.until(monitor.EventSummary, func(string) bool { return true })
}

// TestModifiedBasesAreServed: a page that opens is sent the sums of each modification, and its question has the counts of the stretch.
func TestModifiedBasesAreServed(t *testing.T) {
	s := serve(t, nil)
	s.Update(func(v *monitor.View) {
		for _, rec := range pagetest.Stretches(5, true) {
			require.NoError(t, v.Add(rec))
		}
	})
	page := s.open(t)
	for {
		name, data, ok := page.next()
		require.True(t, ok)
		if name == monitor.EventMethylation {
			var m monitor.Methylation
			require.NoError(t, json.Unmarshal([]byte(data), &m))
			require.Len(t, m.Tracks, 2)
			assert.Equal(t, "m", m.Tracks[1].Code)
			assert.Equal(t, m.Tracks[1].Stretches, m.Tracks[1].Final)
			break
		}
	}
	resp, body := s.get(t, "/api/methylation?sample=lambda&contig=J02459.1&code=m&from=4096&to=8096&bins=4000")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	var zoom monitor.MethylationZoom
	require.NoError(t, json.Unmarshal([]byte(body), &zoom))
	assert.Equal(t, 1, zoom.Bin)
	assert.Equal(t, 500, strings.Count(zoom.States, "f"), "250 sites on each strand, a base apart")
	resp, _ = s.get(t, "/api/methylation?sample=lambda&contig=J02459.1&code=h")
	assert.Equal(t, http.StatusNotFound, resp.StatusCode)
}

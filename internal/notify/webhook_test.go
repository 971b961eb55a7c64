package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/alert"
)

// detected is an alert of a sample, written at a time.
func detected(t testing.TB, sample string, revision uint64) stream.Out {
	t.Helper()
	a := Example()
	a.Sample, a.Revision, a.Reason = sample, revision, "21 of 24 reads show it, <b>\n\"really\"</b>"
	a.ID = "id-" + mailID(sample) + "-" + string(rune('a'+revision))
	out, err := alert.Record("alerts", a)
	require.NoError(t, err)
	return out
}

func asMessage(t testing.TB, out stream.Out, at time.Time) *message {
	t.Helper()
	m, err := newMessage(stream.Record{Topic: "alerts", Key: out.Key, Value: out.Value, Headers: out.Headers, Time: at})
	require.NoError(t, err)
	return m
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestWebhookRequest(t *testing.T) {
	var got *http.Request
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	key := []byte("0123456789abcdef")
	w, err := newWebhook(&Webhook{
		URL: server.URL + "/alerts", ContentType: "application/json", Headers: map[string]string{"X-Lab": "7"},
		HeaderFiles: map[string]string{"X-Api-Key": write(t, "key", "k3y\n")}, BearerTokenFile: write(t, "token", "t0ken\n"),
		SigningKeyFile: write(t, "signing", "whsec_"+base64.StdEncoding.EncodeToString(key)),
	})
	require.NoError(t, err)
	m := asMessage(t, detected(t, "Patient 7 é%", 3), time.Now())
	require.NoError(t, w.send(t.Context(), m))
	require.Equal(t, http.MethodPost, got.Method)
	require.JSONEq(t, string(m.document), string(body))
	for name, want := range map[string]string{
		"Content-Type": "application/json", "X-Lab": "7", "X-Api-Key": "k3y", "Authorization": "Bearer t0ken",
		"Idempotency-Key": `"` + m.ID + `"`, "Ce-Id": m.ID, "Ce-Type": "porestream.alert.v1", "Ce-Specversion": "1.0", "Ce-Source": "urn:porestream:run:test",
		"Ce-Subject": "test/test", "Ce-Partitionkey": "Patient%207%20%C3%A9%2525/test/test/ga4gh:VA.test", "Webhook-Id": m.ID,
	} {
		require.Equal(t, want, got.Header.Get(name), name)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(m.ID + "." + got.Header.Get("Webhook-Timestamp") + "." + string(body)))
	require.Equal(t, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)), got.Header.Get("Webhook-Signature"))
}

func TestWebhookBody(t *testing.T) {
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { body, _ = io.ReadAll(r.Body) }))
	defer server.Close()
	w, err := newWebhook(&Webhook{URL: server.URL, ContentType: "application/json", Body: `{"text": {{json .Text}}, "why": {{json .Reason}}, "pos": {{with .Allele}}{{.Pos}}{{else}}null{{end}}}`})
	require.NoError(t, err)
	require.NoError(t, w.send(t.Context(), asMessage(t, detected(t, "s", 1), time.Now())))
	var said struct {
		Text, Why string
		Pos       int
	}
	require.NoError(t, json.Unmarshal(body, &said))
	require.Equal(t, "21 of 24 reads show it, <b>\n\"really\"</b>", said.Why)
	require.Contains(t, said.Text, "DETECTED     s  test/test  test:1 A>C")
	require.Equal(t, 1, said.Pos)
}

func TestVerdict(t *testing.T) {
	for code, want := range map[int]string{
		200: "taken", 202: "taken", 204: "taken", 301: "again", 307: "again", 400: "refused", 401: "again", 403: "again", 404: "again", 408: "again",
		409: "again", 410: "again", 413: "refused", 422: "refused", 425: "again", 429: "again", 500: "again", 503: "again",
	} {
		err := verdict(&http.Response{StatusCode: code, Header: http.Header{}})
		got := "taken"
		if no := (*refusedError)(nil); errors.As(err, &no) {
			got = "refused"
		} else if err != nil {
			got = "again"
		}
		require.Equal(t, want, got, code)
	}
	later := (*laterError)(nil)
	require.ErrorAs(t, verdict(&http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"120"}}}), &later)
	require.Equal(t, 2*time.Minute, later.after)
}

// A redirect takes no secret anywhere, and no error shows one.
func TestWebhookKeepsSecrets(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	w, err := newWebhook(&Webhook{URLFile: write(t, "url", server.URL+"/s3cret"), BearerTokenFile: write(t, "token", "s3cret"), ContentType: "application/json"})
	require.NoError(t, err)
	m := asMessage(t, detected(t, "s", 1), time.Now())
	require.ErrorContains(t, w.send(t.Context(), m), "redirects are not followed")
	server.Close()
	gone := w.send(t.Context(), m)
	require.Error(t, gone)
	require.NotContains(t, gone.Error(), "s3cret")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NotContains(t, w.send(ended, m).Error(), "s3cret")
}

func TestMessageRefusesIDs(t *testing.T) {
	for _, id := range []string{"", "a b", "a\r\nX: y", "é", `a"b`, "<a>"} {
		a := Example()
		a.ID = id
		out, err := alert.Record("alerts", a)
		require.NoError(t, err)
		_, err = newMessage(stream.Record{Value: out.Value, Headers: out.Headers})
		require.ErrorContains(t, err, "id is none")
	}
}

func TestWants(t *testing.T) {
	only := []watchlist.State{watchlist.Detected}
	for _, tt := range []struct {
		previous, state watchlist.State
		final           bool
		states          []watchlist.State
		want            bool
	}{
		{watchlist.Pending, watchlist.Detected, false, only, true},
		{watchlist.Detected, watchlist.Detected, false, only, false},
		{watchlist.Detected, watchlist.Detected, true, only, true},
		{watchlist.Detected, watchlist.Suspected, false, only, true},
		{watchlist.Pending, watchlist.Suspected, false, only, false},
		{watchlist.Pending, watchlist.Negative, true, only, false},
		{watchlist.Pending, watchlist.Negative, true, []watchlist.State{AnyState}, true},
		{watchlist.Pending, "RESISTANT", true, []watchlist.State{"RESISTANT"}, true},
	} {
		require.Equal(t, tt.want, wants(tt.states, &watchlist.Alert{State: tt.state, Previous: tt.previous, Final: tt.final}), "%+v", tt)
	}
}

package ops

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const secret = "0123456789abcdef"

func given(t *testing.T, text string) Token {
	t.Helper()
	token, err := parseToken(text, "test")
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestReadToken(t *testing.T) {
	const variable = "PORESTREAM_TEST_TOKEN"
	for _, c := range []struct {
		name      string
		file, env string // contents; "-" for no file
		want      string // the token
		err       string
	}{
		{"none", "-", "", "", ""},
		{"file", secret + "\n", "", secret, ""},
		{"file before variable", secret, "another token of 26 bytes!", secret, ""},
		{"variable", "-", " " + secret + " ", secret, ""},
		{"short", "short", "", "", "the token has 5 bytes"},
		{"empty file", "\n", "", "", "the token has 0 bytes"},
		{"long", strings.Repeat("x", 1025), "", "", "the token has 1025 bytes"},
		{"blank inside", "01234567 89abcdef", "", "", "printable ASCII"},
		{"two lines", secret + "\n" + secret, "", "", "printable ASCII"},
		{"not ASCII", "0123456789abcdéf", "", "", "printable ASCII"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(variable, c.env)
			file := ""
			if c.file != "-" {
				file = filepath.Join(t.TempDir(), "token")
				if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			token, err := ReadToken(file, variable)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "01234567") {
					t.Fatalf("error %v, want ...%s... without the token", err, c.err)
				}
				return
			}
			if err != nil || token.Secret() != c.want || token.IsZero() != (c.want == "") {
				t.Errorf("%q %v, want %q", token.Secret(), err, c.want)
			}
		})
	}
	if _, err := ReadToken(filepath.Join(t.TempDir(), "missing"), variable); err == nil || !strings.Contains(err.Error(), "reading a token") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestTokenEqual(t *testing.T) {
	token := given(t, secret)
	for given, want := range map[string]bool{secret: true, "": false, secret + "0": false, secret[1:]: false} {
		if token.Equal(given) != want {
			t.Errorf("%q: %v", given, !want)
		}
	}
	if (Token{}).Equal("") {
		t.Error("nothing opens what has no token")
	}
	if a, b := NewToken(), NewToken(); a.Secret() == b.Secret() || len(a.Secret()) < leastToken {
		t.Errorf("generated %q and %q", a.Secret(), b.Secret())
	}
}

// TestTokenIsNotShown: whatever way a token gets into a message, its secret doesn't.
func TestTokenIsNotShown(t *testing.T) {
	token := given(t, secret)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "token", token)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "token", token, "in", struct{ Token Token }{token})
	asJSON, err := json.Marshal(map[string]any{"token": token})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s %q", token, token, token, token, token), fmt.Sprintf("%+v", struct{ T Token }{token}), string(asJSON), log.String()} {
		if strings.Contains(text, secret) {
			t.Errorf("the token is in %q", text)
		}
	}
}

func TestTokenGuardsHandlers(t *testing.T) {
	token := given(t, secret)
	name, cookie := token.cookie()
	inside := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("inside")) })
	form := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("form")) })
	bearer := func(s string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", s) }
	}
	for _, c := range []struct {
		name           string
		method, target string
		set            func(*http.Request)
		program, human int
	}{
		{"nothing", "GET", "/a", nil, 401, 401},
		{"bearer", "GET", "/a", bearer("Bearer " + secret), 200, 200},
		{"bearer, small letters", "GET", "/a", bearer("bearer " + secret), 200, 200},
		{"wrong bearer", "GET", "/a", bearer("Bearer " + secret + "x"), 401, 401},
		{"empty bearer", "GET", "/a", bearer("Bearer "), 401, 401},
		{"no scheme", "GET", "/a", bearer(secret), 401, 401},
		{"another scheme", "GET", "/a", bearer("Digest " + secret), 401, 401},
		{"password", "GET", "/a", func(r *http.Request) { r.SetBasicAuth("anybody", secret) }, 200, 200},
		{"wrong password", "GET", "/a", func(r *http.Request) { r.SetBasicAuth(secret, "wrong") }, 401, 401},
		{"query", "GET", "/a?token=" + secret, nil, 401, 303},
		{"wrong query", "GET", "/a?token=wrong", nil, 401, 401},
		{"query to write", "POST", "/a?token=" + secret, nil, 401, 401},
		{"cookie", "GET", "/a", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: name, Value: cookie}) }, 401, 200},
		{"token as cookie", "GET", "/a", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: name, Value: secret}) }, 401, 401},
		{"cookie of a service beside", "GET", "/a", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "porestream_other", Value: cookie}) }, 401, 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, g := range []struct {
				guard http.Handler
				want  int
			}{{token.Guard(inside), c.program}, {token.GuardBrowser(inside, form), c.human}} {
				r := httptest.NewRequestWithContext(t.Context(), c.method, c.target, http.NoBody)
				if c.set != nil {
					c.set(r)
				}
				w := httptest.NewRecorder()
				g.guard.ServeHTTP(w, r)
				if w.Code != g.want || (w.Body.String() == "inside") != (g.want == 200) {
					t.Errorf("%d %q, want %d", w.Code, w.Body, g.want)
				}
				if w.Code != 200 && (w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Referrer-Policy") != "no-referrer") {
					t.Errorf("headers %v", w.Header())
				}
				if w.Code == 401 && w.Header().Get("WWW-Authenticate") == "" {
					t.Error("no challenge")
				}
				if strings.Contains(fmt.Sprint(w.Header(), w.Body), secret) {
					t.Errorf("the token is in the answer: %v %s", w.Header(), w.Body)
				}
			}
		})
	}
	for _, guard := range []http.Handler{Token{}.Guard(inside), Token{}.GuardBrowser(inside, nil)} {
		for _, target := range []string{"/a", "/a?token="} {
			w := httptest.NewRecorder()
			guard.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody))
			if w.Code != 401 {
				t.Errorf("without a token %s gives %d", target, w.Code)
			}
		}
	}
}

// TestBrowserIsLetIn: the printed address, opened once, lets a browser in, and the token is
// gone from the address.
func TestBrowserIsLetIn(t *testing.T) {
	token := given(t, secret)
	var seen string
	server := httptest.NewServer(token.GuardBrowser(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.URL.String() }), nil))
	defer server.Close()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	visit := func(target string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+target, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if got := visit("/?a=1"); got != 401 {
		t.Errorf("before: %d", got)
	}
	if got := visit("/?a=1&token=" + secret); got != 200 || seen != "/?a=1" {
		t.Errorf("the address with the token: %d, %s", got, seen)
	}
	if got := visit("/api/events"); got != 200 {
		t.Errorf("after: %d", got)
	}
	// The answer to such an address must stay on this host.
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?token="+secret, http.NoBody)
	r.URL.Path = "//elsewhere.example/x"
	token.GuardBrowser(http.NotFoundHandler(), nil).ServeHTTP(w, r)
	if to := w.Header().Get("Location"); to != "/elsewhere.example/x" {
		t.Errorf("sent to %q", to)
	}
}

package ops

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/porestream/porestream/testenv"
)

// profiled starts a server that shows profiles, and returns the address that it logs.
func profiled(t *testing.T, listen string, token Token) (base, profiles string) {
	t.Helper()
	log := new(testenv.Log)
	logger := slog.New(slog.NewTextHandler(log, nil))
	s, err := Listen(listen, prometheus.NewRegistry(), nil, logger)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Profile(token, logger); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); !token.IsZero() && strings.Contains(text, token.Secret()) {
		t.Errorf("the log tells the token: %s", text)
	}
	_, rest, _ := strings.Cut(log.String(), "address=")
	address, _, _ := strings.Cut(rest, " ")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	port := func(addr string) string {
		_, p, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatalf("%q: %v", addr, err)
		}
		return "http://127.0.0.1:" + p
	}
	return port(s.Addr()), port(strings.Trim(address, `"`))
}

func ask(t *testing.T, url, host, bearer string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestProfiles(t *testing.T) {
	token := given(t, secret)
	for _, c := range []struct {
		name, listen string
		token        Token
		apart        bool // on a port of their own
	}{
		{"with a token", "127.0.0.1:0", token, false},
		{"with a token, for all", "0.0.0.0:0", token, false},
		{"on this machine", "127.0.0.1:0", Token{}, false},
		{"on this machine, beside what is for all", "0.0.0.0:0", Token{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			base, profiles := profiled(t, c.listen, c.token)
			if (base != profiles) != c.apart {
				t.Fatalf("profiles at %s, metrics at %s", profiles, base)
			}
			if c.apart {
				if status, _ := ask(t, base+profilePath, "", secret); status != 404 {
					t.Errorf("beside metrics: status %d", status)
				}
				if status, _ := ask(t, profiles+"/metrics", "", ""); status != 404 {
					t.Errorf("metrics beside profiles: status %d", status)
				}
			}
			for _, page := range []struct{ path, want string }{
				{"", "goroutine"}, {"goroutine?debug=1", "TestProfiles"}, {"heap?debug=1", "heap profile"}, {"profile?seconds=1", "\x1f\x8b"},
			} {
				status, body := ask(t, profiles+profilePath+page.path, "", c.token.Secret())
				if status != 200 || !strings.Contains(body, page.want) {
					t.Errorf("%s: %d, %d bytes without %q", page.path, status, len(body), page.want)
				}
			}
			if status, _ := ask(t, profiles+profilePath+"cmdline", "", c.token.Secret()); status != 404 {
				t.Errorf("the command line: status %d", status)
			}
			if c.token.IsZero() {
				if status, _ := ask(t, profiles+profilePath, "evil.example:1", ""); status != 403 {
					t.Errorf("under another name: status %d", status)
				}
				return
			}
			for _, wrong := range []string{"", "wrong", secret + "x"} {
				if status, body := ask(t, profiles+profilePath+"goroutine?debug=1", "", wrong); status != 401 || strings.Contains(body, "TestProfiles") {
					t.Errorf("with the token %q: status %d", wrong, status)
				}
			}
			if status, _ := ask(t, profiles+profilePath+"?token="+secret, "", ""); status != 401 {
				t.Errorf("with the token in the address: status %d", status)
			}
		})
	}
}

func TestProfileFlags(t *testing.T) {
	for _, c := range []struct {
		args, env string
		shown     int // status of the index for who has no token
		err       string
	}{
		{"", "", 404, ""},
		{"", secret, 404, ""},
		{"--profile", "", 200, ""},
		{"--profile", secret, 401, ""},
		{"--profile", "short", 0, "the token has 5 bytes"},
		{"--profile --profile-token-file /nowhere", "", 0, "--profile-token-file: reading a token"},
	} {
		t.Setenv(profileVariable, c.env)
		var f ProfileFlags
		set := pflag.NewFlagSet("test", pflag.ContinueOnError)
		f.Register(set)
		if err := set.Parse(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		s, err := Listen("127.0.0.1:0", prometheus.NewRegistry(), nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer s.listener.Close()
		err = f.Serve(s, slog.New(slog.DiscardHandler))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", c.args, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, profilePath, http.NoBody)
		r.Host = "localhost:1"
		s.mux.ServeHTTP(w, r)
		if w.Code != c.shown {
			t.Errorf("%q with %q: status %d, want %d", c.args, c.env, w.Code, c.shown)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1:9102": true, "127.0.0.1": true, "localhost:1": true, "LOCALHOST": true, "[::1]:80": true, "[::1]": true, "127.9.9.9:1": true,
		"0.0.0.0:1": false, "[::]:1": false, "": false, "localhost.evil.example:1": false, "10.0.0.1": false, "127.0.0.1.evil.example": false,
	} {
		if isLoopback(host) != want {
			t.Errorf("%q: %v", host, !want)
		}
	}
}

// TestLongRequests: a profile may take longer than the server has for a request.
func TestLongRequests(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewUnstartedServer(unhurried(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
			w.WriteHeader(http.StatusTeapot)
		case <-release:
		}
	})))
	server.Config.ReadTimeout = 20 * time.Millisecond
	server.Start()
	defer server.Close()
	time.AfterFunc(200*time.Millisecond, func() { close(release) })
	if status, _ := ask(t, server.URL, "", ""); status != 200 {
		t.Errorf("status %d: the request ended with the server's time for it", status)
	}
}

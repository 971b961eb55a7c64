package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

const (
	profilePath = "/debug/pprof/"
	// ProfileTokenFlag is the name of the flag that names the file with the token.
	ProfileTokenFlag = "profile-token-file"
	profileVariable  = "PORESTREAM_PROFILE_TOKEN"
)

// ProfileFlags say whether a service shows profiles of itself, and to whom.
type ProfileFlags struct {
	on   bool
	file string
}

// Register adds the flags.
func (f *ProfileFlags) Register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.on, "profile", false, "show profiles of this process under "+profilePath+": on --listen to who has the token, without a token on a loopback address alone")
	flags.StringVar(&f.file, ProfileTokenFlag, "", "file with the token for profiles; else the environment variable "+profileVariable)
}

// Serve has a server show profiles, if the flags ask for it.
func (f *ProfileFlags) Serve(s *Server, log *slog.Logger) error {
	if !f.on {
		return nil
	}
	token, err := ReadToken(f.file, profileVariable)
	if err != nil {
		return fmt.Errorf("--%s: %w", ProfileTokenFlag, err)
	}
	return s.Profile(token, log)
}

// Profile shows the runtime's profiles, as go tool pprof reads them: to who has the
// token or, with the zero Token, to this machine alone. A server that listens on other
// addresses too then opens a loopback port for them. It is called before Run.
func (s *Server) Profile(token Token, log *slog.Logger) error {
	profiles := unhurried(profiles())
	switch {
	case !token.IsZero():
		s.Handle("GET "+profilePath, token.Guard(profiles))
		log.Info("profiles are shown to who has the token", "address", s.Addr(), "path", profilePath, "token", token)
	case isLoopback(s.listener.Addr().String()):
		s.Handle("GET "+profilePath, onlyLocal(profiles))
		log.Info("profiles are shown on this machine", "address", s.Addr(), "path", profilePath)
	default:
		listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
		if err != nil {
			return fmt.Errorf("listening for profiles: %w", err)
		}
		mux := http.NewServeMux()
		mux.Handle("GET "+profilePath, onlyLocal(profiles))
		s.local, s.localListener = newHTTP(mux, log), listener
		log.Info("profiles are shown on this machine, for there is no token", "address", listener.Addr().String(), "path", profilePath)
	}
	return nil
}

// profiles are those of net/http/pprof, without the command line: it is no profile.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+profilePath, pprof.Index)
	mux.HandleFunc("GET "+profilePath+"profile", pprof.Profile)
	mux.HandleFunc("GET "+profilePath+"trace", pprof.Trace)
	mux.HandleFunc("GET "+profilePath+"symbol", pprof.Symbol)
	mux.HandleFunc("GET "+profilePath+"cmdline", http.NotFound)
	return mux
}

// unhurried lets a handler take longer than the server's time for a request, which
// would end its context. Package pprof handles the time for the answer.
func unhurried(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // not possible: it has the server's time
		next.ServeHTTP(w, r)
	})
}

// onlyLocal refuses requests that name another host: a page in somebody's browser can
// have a name of its own lead to this machine.
func onlyLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			http.Error(w, "profiles are shown under a loopback address only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLoopback reports whether a host, maybe with a port, is this machine's own.
func isLoopback(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// runLocal serves the loopback port, if there is one, until ctx ends.
func (s *Server) runLocal(ctx context.Context) error {
	if s.local == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { _ = s.local.Close() })
	defer stop()
	if err := s.local.Serve(s.localListener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving profiles: %w", err)
	}
	return nil
}

package ops

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
)

// Token is a secret: who presents it may see what a service shows. The zero value is
// no token: nothing equals it. It never shows up in logs or in text; only
// [Token.Secret] returns it.
type Token struct {
	secret string
	origin string
}

const (
	// leastToken is what a token given by hand must have, in bytes: the guard does not
	// count failed attempts, so guessing must be hopeless.
	leastToken = 16
	mostToken  = 1024
)

// NewToken returns a random token of 128 bits.
func NewToken() Token { return Token{secret: rand.Text(), origin: "generated"} }

// ReadToken returns the token in the file, or if file is empty that in the
// environment variable, or the zero Token if there is neither. White space around
// it does not count.
func ReadToken(file, variable string) (Token, error) {
	if file == "" {
		value := os.Getenv(variable)
		if value == "" {
			return Token{}, nil
		}
		return parseToken(value, "environment variable "+variable)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return Token{}, fmt.Errorf("reading a token: %w", err)
	}
	return parseToken(string(data), file)
}

// parseToken says nothing of the text in its errors.
func parseToken(text, origin string) (Token, error) {
	secret := strings.TrimSpace(text)
	if len(secret) < leastToken || len(secret) > mostToken {
		return Token{}, fmt.Errorf("%s: the token has %d bytes, want %d to %d: openssl rand -hex 16 makes one", origin, len(secret), leastToken, mostToken)
	}
	// What a header and a query can hold as it is.
	if strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Token{}, errors.New(origin + ": the token has other characters than printable ASCII")
	}
	return Token{secret: secret, origin: origin}, nil
}

// IsZero reports whether there is no token.
func (t Token) IsZero() bool { return t.secret == "" }

// Origin is where the token is from: a file's path, a variable, or "generated".
func (t Token) Origin() string { return t.origin }

// Secret is the token itself, for the one address that is shown to its user.
func (t Token) Secret() string { return t.secret }

// String hides the token.
func (t Token) String() string { return "token from " + t.origin }

// GoString hides the token.
func (t Token) GoString() string { return t.String() }

// LogValue hides the token.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// Equal reports whether given is the token, in a time that does not depend on either.
func (t Token) Equal(given string) bool {
	a, b := sha256.Sum256([]byte(t.secret)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && !t.IsZero()
}

// cookie is what a browser keeps instead of the token. A browser sends a host's
// cookies to all of its ports, so services of other tokens have other names.
func (t Token) cookie() (name, value string) {
	of := func(what string) string {
		sum := sha256.Sum256([]byte("porestream " + what + "\x00" + t.secret))
		return hex.EncodeToString(sum[:])
	}
	return "porestream_" + of("cookie name")[:8], of("cookie")
}

// Authorized reports whether a request's Authorization header has the token, as Bearer
// or as the password of Basic, with any user.
func (t Token) Authorized(r *http.Request) bool {
	if _, password, ok := r.BasicAuth(); ok {
		return t.Equal(password)
	}
	scheme, given, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return ok && strings.EqualFold(scheme, "Bearer") && t.Equal(given)
}

// remembered reports whether a browser was let in before.
func (t Token) remembered(r *http.Request) bool {
	name, want := t.cookie()
	for _, c := range r.CookiesNamed(name) {
		if subtle.ConstantTimeCompare([]byte(c.Value), []byte(want)) == 1 {
			return !t.IsZero()
		}
	}
	return false
}

// Guard lets requests through to next that have the token in their Authorization
// header, and answers others with 401. It is for programs.
func (t Token) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !t.Authorized(r) {
			w.Header().Add("WWW-Authenticate", "Bearer")
			w.Header().Add("WWW-Authenticate", `Basic realm="porestream", charset="UTF-8"`)
			refuse(w)
			http.Error(w, "a token is needed: Authorization: Bearer TOKEN, or the token as password of any user", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// GuardBrowser is [Token.Guard] for pages that people open. A GET or HEAD with the
// query parameter token is answered with a cookie, valid until the browser is closed,
// and sent to the same address without the parameter; the cookie lets through as the
// header does. refused answers everything else, with a status set already; nil means
// one line of text.
func (t Token) GuardBrowser(next, refused http.Handler) http.Handler {
	if refused == nil {
		refused = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintln(w, "a token is needed: ?token=TOKEN behind the address")
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		switch {
		case (r.Method == http.MethodGet || r.Method == http.MethodHead) && t.Equal(query.Get("token")):
			name, value := t.cookie()
			http.SetCookie(w, &http.Cookie{
				Name: name, Value: value, Path: "/",
				HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
			})
			query.Del("token")
			// A path of its own: one that begins with two slashes would name a host.
			to := "/" + strings.TrimLeft(r.URL.EscapedPath(), "/\\")
			if len(query) > 0 {
				to += "?" + query.Encode()
			}
			refuse(w)
			http.Redirect(w, r, to, http.StatusSeeOther)
		case t.Authorized(r) || t.remembered(r):
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w)
			w.WriteHeader(http.StatusUnauthorized)
			refused.ServeHTTP(w, r)
		}
	})
}

// refuse keeps an answer that depends on the token out of caches, and an address
// with a token out of other sites' logs.
func refuse(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
}

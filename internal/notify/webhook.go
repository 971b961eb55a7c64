package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/porestream/porestream/watchlist/alert"
)

// sender hands a message to a destination once. Its errors show nothing secret; one that is a [refusedError] says that
// trying again is of no use.
type sender interface {
	send(ctx context.Context, m *message) error
}

// refusedError is a destination's no to this message.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// laterError is a failure whose receiver has said when to come again.
type laterError struct {
	err   error
	after time.Duration
}

func (e *laterError) Error() string { return e.err.Error() }
func (e *laterError) Unwrap() error { return e.err }

// webhook sends alerts as HTTP requests: CloudEvents in binary mode.
type webhook struct {
	cfg    *Webhook
	body   *rendering // nil: the document
	client *http.Client
}

// maxAnswer bounds what is read of an answer, whose content is not used: enough for the connection to be used again.
const maxAnswer = 64 << 10

func newWebhook(cfg *Webhook) (*webhook, error) {
	body, err := compileTemplate("body", cfg.Body, strings.HasSuffix(cfg.ContentType, "json"))
	if err != nil {
		return nil, err
	}
	conf, err := cfg.TLS.config("")
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: conf, ForceAttemptHTTP2: true,
		MaxResponseHeaderBytes: maxAnswer, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 4,
	}
	return &webhook{cfg: cfg, body: body, client: &http.Client{
		Transport: transport,
		// The target of a redirect may be anybody, and must not get the secret.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func (w *webhook) send(ctx context.Context, m *message) error {
	req, err := w.request(ctx, m)
	if err != nil {
		return err
	}
	res, err := w.client.Do(req)
	if err != nil {
		if wrapped, is := errors.AsType[*url.Error](err); is {
			err = wrapped.Err // the rest of it is the address, which may be a secret
		}
		return fmt.Errorf("sending the request: %w", err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	return verdict(res)
}

func (w *webhook) request(ctx context.Context, m *message) (*http.Request, error) {
	body := m.document
	if w.body != nil {
		var err error
		if body, err = w.body.render(m.View); err != nil {
			return nil, &refusedError{err}
		}
	}
	u, err := w.cfg.address()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("making the request: the address can't be used")
	}
	for name, value := range w.cfg.Headers {
		req.Header.Set(name, value)
	}
	for name, path := range w.cfg.HeaderFiles {
		value, err := secret(path)
		if err != nil {
			return nil, err
		}
		req.Header.Set(name, value)
	}
	if path := w.cfg.BearerTokenFile; path != "" {
		token, err := secret(path)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Content-Type", w.cfg.ContentType)
	req.Header.Set("Idempotency-Key", strconv.Quote(m.ID)) // a string of structured headers
	for name, value := range map[string]string{
		"ce-specversion": "1.0", "ce-type": alert.Type, "ce-id": m.ID, "ce-source": m.source, "ce-subject": m.subject, "ce-partitionkey": m.key,
	} {
		req.Header.Set(name, attribute(value))
	}
	if path := w.cfg.SigningKeyFile; path != "" {
		key, err := signingKey(path)
		if err != nil {
			return nil, err
		}
		sign(req.Header, key, m.ID, time.Now(), body)
	}
	return req, nil
}

// attribute is the value of a CloudEvents attribute in an HTTP header: what is not printable ASCII, and spaces, quotes
// and per cent signs are percent-encoded (HTTP protocol binding, 3.1.3.2).
func attribute(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// signingKey reads a key: base64 behind whsec_, or the text itself.
func signingKey(path string) ([]byte, error) {
	text, err := secret(path)
	if err != nil {
		return nil, err
	}
	encoded, is := strings.CutPrefix(text, "whsec_")
	if !is {
		return []byte(text), nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("the signing key in %s is no base64 behind whsec_", path)
	}
	return key, nil
}

// sign adds the three headers of Standard Webhooks (https://www.standardwebhooks.com).
func sign(h http.Header, key []byte, id string, now time.Time, body []byte) {
	at := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, id+"."+at+".") // never fails
	_, _ = mac.Write(body)
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", at)
	h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// verdict is what an answer means. A receiver that finds the message itself wrong will find it wrong again; all else,
// a missing page and a wrong password too, is for somebody to mend while the alert waits.
func verdict(res *http.Response) error {
	code := res.StatusCode
	err := fmt.Errorf("the receiver answers %d %s", code, http.StatusText(code))
	switch {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return fmt.Errorf("%w: redirects are not followed, give the address that it leads to", err)
	case code == http.StatusBadRequest, code == http.StatusRequestEntityTooLarge, code == http.StatusUnprocessableEntity:
		return &refusedError{err}
	}
	if after, ok := retryAfter(res.Header.Get("Retry-After")); ok {
		return &laterError{err, after}
	}
	return err
}

func retryAfter(value string) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(at)), true
	}
	return 0, false
}

// config is the TLS configuration towards a server; nil files mean the system's authorities.
func (t *TLS) config(host string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cmp.Or(t.ServerName, host)}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls: reading ca_file: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls: ca_file %s holds no certificate in PEM", t.CAFile)
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, errors.New("tls: cert_file and key_file go together")
	}
	if t.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls: reading %s and %s: %w", t.CertFile, t.KeyFile, err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, nil
}

package minknow

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
)

// serverName is what MinKNOW's certificates are made out to, whatever the host is
// called.
const serverName = "localhost"

// maxSecret bounds the files that hold tokens, in bytes.
const maxSecret = 64 << 10

// transport makes the TLS side of connections: MinKNOW's CA and, if there is one,
// a client certificate, which is read again for each connection.
func transport(cfg *Config) (credentials.TransportCredentials, error) {
	pem, err := os.ReadFile(cfg.CA)
	if err != nil {
		return nil, &PermanentError{"certificate", fmt.Errorf("reading MinKNOW's CA certificate: %w", err)}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, &PermanentError{"certificate", fmt.Errorf("reading MinKNOW's CA certificate: %s holds no certificate in PEM", cfg.CA)}
	}
	t := &tls.Config{RootCAs: roots, ServerName: serverName, MinVersion: tls.VersionTLS12}
	if cfg.Cert != "" {
		// Read once now, so that a wrong file is reported at the start.
		if _, err := clientCertificate(cfg); err != nil {
			return nil, &PermanentError{"certificate", err}
		}
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return clientCertificate(cfg) }
	}
	return credentials.NewTLS(t), nil
}

// clientCertificate reads the certificate that this client shows.
func clientCertificate(cfg *Config) (*tls.Certificate, error) {
	c, err := tls.LoadX509KeyPair(cfg.Cert, cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate %s and its key %s: %w", cfg.Cert, cfg.Key, err)
	}
	if time.Now().After(c.Leaf.NotAfter) {
		return nil, fmt.Errorf("the client certificate %s has expired on %s", cfg.Cert, c.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return &c, nil
}

// token is where the token of a call comes from. It is read for each call, so one
// that is replaced takes effect.
type token struct {
	value string // from the environment
	file  string // of a developer token
	local string // of the host's local token, which MinKNOW replaces before it expires
}

var _ credentials.PerRPCCredentials = (*token)(nil)

// RequireTransportSecurity keeps the token off lines in the clear.
func (t *token) RequireTransportSecurity() bool { return true }

// GetRequestMetadata names the token as MinKNOW expects it: tokens of all kinds
// come as local-auth.
func (t *token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	value, err := t.read(time.Now())
	if err != nil {
		return nil, err
	}
	if value == "" {
		return nil, nil
	}
	return map[string]string{"local-auth": value}, nil
}

func (t *token) read(now time.Time) (string, error) {
	switch {
	case t.file != "":
		b, err := readSecret(t.file)
		if err != nil {
			return "", fmt.Errorf("reading the developer token: %w", err)
		}
		value, err := parseToken(b)
		if err != nil {
			return "", fmt.Errorf("the developer token in %s: %w", t.file, err)
		}
		return value, nil
	case t.value != "":
		return parseToken([]byte(t.value))
	case t.local != "":
		b, err := readSecret(t.local)
		if err != nil {
			return "", fmt.Errorf("reading MinKNOW's local token: %w; see that the user of ingest may read it, or give --token-file or a client certificate", err)
		}
		value, expires, err := parseLocalToken(b)
		if err == nil && now.After(expires) {
			err = fmt.Errorf("it has expired on %s, and MinKNOW has not replaced it", expires.UTC().Format(time.RFC3339))
		}
		if err != nil {
			return "", fmt.Errorf("MinKNOW's local token in %s: %w", t.local, err)
		}
		return value, nil
	}
	return "", nil
}

func readSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxSecret {
		return nil, fmt.Errorf("%s has %d bytes, which no token has", path, info.Size())
	}
	return os.ReadFile(path)
}

var errToken = errors.New("the token is empty, or not one line of printable ASCII")

// parseToken checks that a token can be sent in a header.
func parseToken(b []byte) (string, error) {
	s := strings.TrimSpace(string(b))
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		return "", errToken
	}
	return s, nil
}

// parseLocalToken reads the file in which MinKNOW leaves a token for the users of
// its host.
func parseLocalToken(b []byte) (value string, expires time.Time, err error) {
	var file struct {
		Token   string    `json:"token"`
		Expires time.Time `json:"expires"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		// The error of a decoder may quote what it reads, which is a secret.
		return "", time.Time{}, errors.New("the file is not MinKNOW's JSON with token and expires")
	}
	value, err = parseToken([]byte(file.Token))
	return value, file.Expires, err
}

// isLocal reports whether a host is this one, which may use its local token.
func isLocal(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	name, err := os.Hostname()
	return host == "localhost" || err == nil && strings.EqualFold(host, name)
}

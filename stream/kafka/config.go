package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

const (
	defaultClientID       = "porestream"
	defaultDialTimeout    = 3 * time.Second
	defaultRequestTimeout = 10 * time.Second
)

// Config says how to reach a cluster.
type Config struct {
	// Brokers are host:port addresses to start from; one that answers is
	// enough.
	Brokers []string
	// ClientID names this program in the brokers' logs and quotas. Empty means
	// "porestream".
	ClientID string
	// TLS encrypts the connections; nil means plain text.
	TLS *TLSConfig
	// SASL authenticates; nil means not at all.
	SASL *SASLConfig
	// DialTimeout bounds one connection attempt with all its handshakes. Zero
	// means 3 s.
	DialTimeout time.Duration
	// RequestTimeout bounds one request, on both sides. Zero means 10 s.
	RequestTimeout time.Duration
	// Logger receives what an operator should know; nil discards it.
	Logger *slog.Logger
	// Registerer takes the metrics of everything made from the client; nil
	// means none are exported.
	Registerer prometheus.Registerer
	// Dial opens connections; nil means TCP. Tests put a network in memory
	// here.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// TLSConfig names the files of an encrypted connection, all in PEM.
type TLSConfig struct {
	// CAFile holds the authorities to trust; empty means those of the system.
	CAFile string
	// CertFile and KeyFile identify this client to brokers that ask for it.
	CertFile, KeyFile string
	// ServerName is the name expected in the broker's certificate; empty means
	// the host that was dialled.
	ServerName string
	// SkipVerify accepts any certificate, so it encrypts without knowing to
	// whom. For trials only.
	SkipVerify bool
}

// SASL mechanisms that [SASLConfig] accepts.
const (
	MechanismPlain       = "PLAIN"
	MechanismScramSHA256 = "SCRAM-SHA-256"
	MechanismScramSHA512 = "SCRAM-SHA-512"
)

// SASLConfig authenticates by user and password.
type SASLConfig struct {
	// Mechanism is one of PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.
	Mechanism string
	User      string
	// Password, or PasswordFile, whose first line is the password.
	Password     string
	PasswordFile string
}

// LogValue hides the password.
func (s SASLConfig) LogValue() slog.Value {
	return slog.GroupValue(slog.String("mechanism", s.Mechanism), slog.String("user", s.User))
}

// String hides the password.
func (s SASLConfig) String() string {
	return fmt.Sprintf("SASL %s as %q", s.Mechanism, s.User)
}

// GoString hides the password.
func (s SASLConfig) GoString() string { return s.String() }

// Validate returns every fault of c at once, joined.
func (c Config) Validate() error {
	var errs []error
	if len(c.Brokers) == 0 {
		errs = append(errs, errors.New("no broker address"))
	}
	for _, b := range c.Brokers {
		host, port, err := net.SplitHostPort(b)
		if err != nil || host == "" || port == "" {
			errs = append(errs, fmt.Errorf("broker address %q: want host:port", b))
		} else if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			errs = append(errs, fmt.Errorf("broker address %q: port %q is no number from 1 to 65535", b, port))
		}
	}
	if c.DialTimeout < 0 {
		errs = append(errs, fmt.Errorf("dial timeout %v is negative", c.DialTimeout))
	}
	if c.RequestTimeout < 0 {
		errs = append(errs, fmt.Errorf("request timeout %v is negative", c.RequestTimeout))
	}
	if t := c.TLS; t != nil {
		if (t.CertFile == "") != (t.KeyFile == "") {
			errs = append(errs, errors.New("TLS: a client certificate and its key go together, one is missing"))
		}
		if t.SkipVerify && t.CAFile != "" {
			errs = append(errs, errors.New("TLS: a CA file has no effect when verification is skipped"))
		}
	}
	if s := c.SASL; s != nil {
		known := []string{MechanismPlain, MechanismScramSHA256, MechanismScramSHA512}
		if !slices.Contains(known, s.Mechanism) {
			errs = append(errs, fmt.Errorf("SASL: unknown mechanism %q, want one of %s", s.Mechanism, strings.Join(known, ", ")))
		}
		if s.User == "" {
			errs = append(errs, errors.New("SASL: no user"))
		}
		switch {
		case s.Password == "" && s.PasswordFile == "":
			errs = append(errs, errors.New("SASL: no password and no password file"))
		case s.Password != "" && s.PasswordFile != "":
			errs = append(errs, errors.New("SASL: both a password and a password file"))
		}
	}
	return errors.Join(errs...)
}

// CheckFiles reads the files that the settings name, as Connect does: certificates, keys and the password.
func (c Config) CheckFiles() error {
	_, _, err := c.security()
	return err
}

// security is how connections are encrypted and how brokers know us; nil is in clear, and without a name.
func (c Config) security() (*tls.Config, sasl.Mechanism, error) {
	secured, err := c.TLS.tlsConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("preparing TLS: %w", err)
	}
	mechanism, err := c.SASL.mechanism()
	if err != nil {
		return nil, nil, fmt.Errorf("preparing SASL: %w", err)
	}
	return secured, mechanism, nil
}

func (c Config) withDefaults() Config {
	if c.ClientID == "" {
		c.ClientID = defaultClientID
	}
	if c.DialTimeout == 0 {
		c.DialTimeout = defaultDialTimeout
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = defaultRequestTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: c.DialTimeout}).DialContext
	}
	return c
}

// tlsConfig loads the files of t; nil for a nil t.
func (t *TLSConfig) tlsConfig() (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	conf := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         t.ServerName,
		InsecureSkipVerify: t.SkipVerify,
	}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading CA file: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("reading CA file: %s holds no PEM certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading client certificate %s and key %s: %w", t.CertFile, t.KeyFile, err)
		}
		conf.Certificates = []tls.Certificate{cert}
	}
	return conf, nil
}

// mechanism builds the SASL mechanism of s; nil for a nil s.
func (s *SASLConfig) mechanism() (sasl.Mechanism, error) {
	if s == nil {
		return nil, nil
	}
	password := s.Password
	if s.PasswordFile != "" {
		b, err := os.ReadFile(s.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("reading password file: %w", err)
		}
		line, _, _ := strings.Cut(string(b), "\n")
		password = strings.TrimSuffix(line, "\r")
		if password == "" {
			return nil, fmt.Errorf("reading password file: the first line of %s is empty", s.PasswordFile)
		}
	}
	switch s.Mechanism {
	case MechanismPlain:
		return plain.Mechanism{Username: s.User, Password: password}, nil
	case MechanismScramSHA256:
		return scram.Mechanism(scram.SHA256, s.User, password)
	case MechanismScramSHA512:
		return scram.Mechanism(scram.SHA512, s.User, password)
	default:
		return nil, fmt.Errorf("unknown SASL mechanism %q", s.Mechanism)
	}
}

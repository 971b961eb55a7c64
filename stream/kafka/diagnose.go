package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// probe goes through the first steps of a connection one by one, until one
// broker has passed. Brokers mostly just hang up on what they don't expect, so
// the step that fails shows what is wrong. It also keeps the library from
// taking whatever listens there for a broker, and its first bytes for the
// number of elements to allocate.
func probe(ctx context.Context, cfg Config, tlsConf *tls.Config) error {
	var failed error
	for _, addr := range cfg.Brokers {
		err := probeBroker(ctx, cfg, tlsConf, addr)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil: // what the caller has broken off says nothing of the broker
			return fmt.Errorf("connecting to Kafka at %s: %w", addr, ctx.Err())
		}
		failed = errors.Join(failed, fmt.Errorf("connecting to Kafka at %s: %w", addr, err))
	}
	return oneLine(failed)
}

func probeBroker(whole context.Context, cfg Config, tlsConf *tls.Config, addr string) error {
	ctx, cancel := context.WithTimeout(whole, cfg.DialTimeout)
	defer cancel()
	conn, err := cfg.Dial(ctx, "tcp", addr)
	if err != nil {
		return because(dialReason(err, cfg), err)
	}
	defer func() { conn.Close() }()
	if tlsConf != nil {
		secure := tls.Client(conn, withServerName(tlsConf, addr))
		if err := secure.HandshakeContext(ctx); err != nil {
			return because(tlsReason(err, tlsConf), err)
		}
		conn = secure
	}
	if deadline, limited := ctx.Deadline(); limited {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })() // a connection that is closed waits for nothing
	if err := askVersions(conn, cfg.ClientID); err != nil {
		// With TLS 1.3 a broker checks our certificate after the handshake.
		alert, alerted := remoteAlert(err)
		switch {
		case alerted:
			return because(alertReason(alert, tlsConf), err)
		case tlsConf == nil && speaksTLS(whole, cfg, addr):
			return because("this port expects TLS; give --tls, or --tls-ca FILE", err)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return because(fmt.Sprintf("no answer within %v; is that a Kafka broker?", cfg.DialTimeout), err)
		default:
			return because("what listens there is not a Kafka broker; is the port right?", err)
		}
	}
	if cfg.SASL == nil {
		return nil
	}
	offered, err := askMechanism(conn, cfg.ClientID, cfg.SASL.Mechanism)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kafka.UnsupportedSASLMechanism) && len(offered) > 0:
		return because(fmt.Sprintf("the broker does not offer SASL mechanism %s; it offers %s", cfg.SASL.Mechanism, strings.Join(offered, ", ")), err)
	default:
		return because("the broker does not offer SASL on this port; connect without a user or use the SASL port", err)
	}
}

// explainGreeting says why a broker that has passed the probe sends us away.
func explainGreeting(cfg Config, err error) error {
	at := strings.Join(cfg.Brokers, ", ")
	hungUp := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	switch {
	case cfg.SASL != nil && (hungUp || errors.Is(err, kafka.SASLAuthenticationFailed) || classify(err) == fatal):
		err = because(fmt.Sprintf("the broker refuses user %q: wrong user, password or mechanism (%s)", cfg.SASL.User, cfg.SASL.Mechanism), err)
	case cfg.SASL == nil && hungUp:
		err = because("the broker hangs up on a client without user; it may expect a user and password on this port", err)
	}
	return fmt.Errorf("connecting to Kafka at %s: %w", at, err)
}

func because(reason string, err error) error { return fmt.Errorf("%s (%w)", reason, err) }

func dialReason(err error, cfg Config) string {
	var dnsErr *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nobody listens there; does the broker run, and is the port right?"
	case errors.As(err, &dnsErr):
		return "unknown host; mind the name and this machine's DNS"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Sprintf("no answer within %v", cfg.DialTimeout)
	default:
		return "it can't be reached"
	}
}

func tlsReason(err error, conf *tls.Config) string {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	alert, alerted := remoteAlert(err)
	switch {
	case errors.As(err, &authority):
		return "the broker's certificate is signed by an authority that is not trusted; name its CA file (--tls-ca)"
	case errors.As(err, &hostname):
		return "the broker's certificate is for another name; set the expected server name (--tls-server-name)"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the broker's certificate has expired or is not valid yet; renew it, or set this machine's clock"
	case errors.As(err, &invalid):
		return "the broker's certificate is not valid"
	case alerted:
		return alertReason(alert, conf)
	default:
		return "this port does not speak TLS; connect without TLS or use the TLS port"
	}
}

// TLS alerts (RFC 8446, section 6) by which brokers say what they think of a
// client's certificate. Java has no name for most of its reasons and answers
// with the two general ones.
const (
	alertHandshakeFailure    tls.AlertError = 40
	alertBadCertificate      tls.AlertError = 42
	alertCertificateExpired  tls.AlertError = 45
	alertCertificateUnknown  tls.AlertError = 46
	alertUnknownCA           tls.AlertError = 48
	alertProtocolVersion     tls.AlertError = 70
	alertCertificateRequired tls.AlertError = 116
)

func alertReason(alert tls.AlertError, conf *tls.Config) string {
	const give = "give one that is valid and signed by an authority that the broker trusts (--tls-cert, --tls-key)"
	for _, own := range conf.Certificates {
		if leaf := own.Leaf; leaf != nil && time.Now().After(leaf.NotAfter) {
			return fmt.Sprintf("the broker refuses the client certificate, which has expired on %s; renew it (--tls-cert, --tls-key)", leaf.NotAfter.Format(time.DateOnly))
		}
	}
	switch alert {
	case alertCertificateRequired:
		return "the broker wants a client certificate; " + give
	case alertCertificateExpired:
		return "the broker refuses the client certificate: it has expired; " + give
	case alertUnknownCA:
		return "the broker refuses the client certificate: it does not know the authority that signed it; " + give
	case alertBadCertificate, alertCertificateUnknown, alertHandshakeFailure:
		return "the broker refuses the client certificate, or wants one; " + give
	case alertProtocolVersion:
		return "the broker speaks no TLS 1.2 or 1.3; enable them (ssl.enabled.protocols)"
	default:
		return "the broker refuses the TLS handshake"
	}
}

// remoteAlert is the alert that the other side has sent. Package crypto/tls
// reports it in the error's text alone.
func remoteAlert(err error) (tls.AlertError, bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return 0, false
	}
	for n := range 256 {
		if alert := tls.AlertError(n); op.Err.Error() == alert.Error() {
			return alert, true
		}
	}
	return 0, false
}

// askVersions sends ApiVersions version 0, which every broker answers before
// it wants to know who asks.
func askVersions(rw io.ReadWriter, clientID string) error {
	body, err := exchangeVersions(rw, clientID)
	if err != nil {
		return err
	}
	d := decoder{b: body}
	if code := kafka.Error(d.int16()); code != 0 {
		return code
	}
	if d.count(6) == 0 && d.err == nil {
		return errors.New("it lists no requests")
	}
	return d.err
}

// exchangeVersions performs ApiVersions version 0:
//
//	error 2 | requests: key 2, oldest version 2, newest version 2
func exchangeVersions(rw io.ReadWriter, clientID string) ([]byte, error) {
	b := appendRequestHeader(nil, protocol.ApiVersions, 0, clientID)
	finishRequest(b, 0)
	if _, err := rw.Write(b); err != nil {
		return nil, err
	}
	return readFrame(rw)
}

// askMechanism sends SaslHandshake version 1 and returns the mechanisms that
// are offered.
func askMechanism(rw io.ReadWriter, clientID, mechanism string) ([]string, error) {
	b := appendRequestHeader(nil, protocol.SaslHandshake, 1, clientID)
	b = appendString(b, mechanism)
	finishRequest(b, 0)
	if _, err := rw.Write(b); err != nil {
		return nil, err
	}
	body, err := readFrame(rw)
	if err != nil {
		return nil, err
	}
	d := decoder{b: body}
	code := kafka.Error(d.int16())
	var offered []string
	for range d.count(2) {
		offered = append(offered, d.string())
	}
	if d.err == nil && code != 0 {
		return offered, code
	}
	return offered, d.err
}

// speaksTLS tries a handshake without caring with whom.
func speaksTLS(ctx context.Context, cfg Config, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, cfg.DialTimeout)
	defer cancel()
	conn, err := cfg.Dial(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	err = tls.Client(conn, withServerName(&tls.Config{InsecureSkipVerify: true}, addr)).HandshakeContext(ctx)
	_, alerted := remoteAlert(err)
	return err == nil || alerted
}

func withServerName(conf *tls.Config, addr string) *tls.Config {
	conf = conf.Clone()
	if host, _, err := net.SplitHostPort(addr); err == nil && conf.ServerName == "" {
		conf.ServerName = host
	}
	return conf
}

package notify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"
)

// post sends alerts by mail.
type post struct {
	cfg           *Mail
	host          string
	tls           *tls.Config
	from          *mail.Address
	to            []*mail.Address
	subject, body *rendering
	log           *slog.Logger
	dial          func(ctx context.Context, network, addr string) (net.Conn, error)
}

func newPost(cfg *Mail, log *slog.Logger) (*post, error) {
	host, _, err := net.SplitHostPort(cfg.Server)
	if err != nil {
		return nil, fmt.Errorf("mail: server: %w", err)
	}
	p := &post{cfg: cfg, host: host, log: log, dial: new(net.Dialer).DialContext}
	if p.tls, err = cfg.TLS.config(host); err != nil {
		return nil, err
	}
	if p.from, err = mail.ParseAddress(cfg.From); err != nil {
		return nil, fmt.Errorf("mail: from: %w", err)
	}
	for _, to := range cfg.To {
		a, err := mail.ParseAddress(to)
		if err != nil {
			return nil, fmt.Errorf("mail: to: %w", err)
		}
		p.to = append(p.to, a)
	}
	if p.subject, err = compileTemplate("subject", cfg.Subject, false); err != nil {
		return nil, err
	}
	p.body, err = compileTemplate("body", cfg.Body, false)
	return p, err
}

func (p *post) send(ctx context.Context, m *message) error {
	text, err := p.text(m)
	if err != nil {
		return &refusedError{err}
	}
	conn, err := p.dial(ctx, "tcp", p.cfg.Server)
	if err != nil {
		return fmt.Errorf("reaching the mail server: %w", err)
	}
	defer conn.Close()
	// The library knows no contexts: without its connection it stops waiting.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := p.deliver(conn, text); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("sending mail: %w", err)
	}
	return nil
}

func (p *post) deliver(conn net.Conn, text []byte) error {
	if p.cfg.Security == securityTLS {
		conn = tls.Client(conn, p.tls)
	}
	c, err := smtp.NewClient(conn, p.host)
	if err != nil {
		return fmt.Errorf("greeting the server: %w", err)
	}
	if p.cfg.Security == securityStartTLS {
		if err := c.StartTLS(p.tls); err != nil {
			return fmt.Errorf("securing the connection (STARTTLS): %w", err)
		}
	}
	if p.cfg.PasswordFile != "" {
		password, err := secret(p.cfg.PasswordFile)
		if err != nil {
			return err
		}
		if err := c.Auth(smtp.PlainAuth("", p.cfg.User, password, p.host)); err != nil {
			return fmt.Errorf("logging in as %s: %w", p.cfg.User, err)
		}
	}
	if err := c.Mail(p.from.Address); err != nil {
		return refusal("the server refuses the sender", err)
	}
	taken, refused := 0, error(nil)
	for _, to := range p.to {
		if err := c.Rcpt(to.Address); err != nil {
			err = refusal("the server refuses a recipient", err)
			if no := (*refusedError)(nil); !errors.As(err, &no) {
				return err // it may take all of them later
			}
			p.log.Warn("a recipient is refused by the mail server, the others get the mail", "to", to.Address, "err", err)
			refused = err
			continue
		}
		taken++
	}
	if taken == 0 {
		return refused
	}
	w, err := c.Data()
	if err != nil {
		return refusal("the server takes no message", err)
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("sending the message: %w", err)
	}
	if err := w.Close(); err != nil {
		return refusal("the server refuses the message", err)
	}
	_ = c.Quit() // it has the message
	return nil
}

// refusal distinguishes a server's final answer (5yz) from a temporary one.
func refusal(what string, err error) error {
	wrapped := fmt.Errorf("%s: %w", what, err)
	if said, is := errors.AsType[*textproto.Error](err); is && said.Code >= 500 {
		return &refusedError{wrapped}
	}
	return wrapped
}

// text is the whole mail. Its id and its date are the alert's, so that it is the same mail when it is sent again, which
// mail programs see by the id.
func (p *post) text(m *message) ([]byte, error) {
	subject, err := p.subject.render(m.View)
	if err != nil {
		return nil, err
	}
	body, err := p.body.render(m.View)
	if err != nil {
		return nil, err
	}
	_, domain, _ := strings.Cut(p.from.Address, "@")
	to := make([]string, len(p.to))
	for i, a := range p.to {
		to[i] = a.String()
	}
	var b bytes.Buffer
	for _, h := range [][2]string{
		{"From", p.from.String()}, {"To", strings.Join(to, ",\r\n ")}, {"Subject", header(string(subject))},
		{"Date", m.at.UTC().Format(time.RFC1123Z)}, {"Message-ID", "<" + mailID(m.ID) + "@" + domain + ">"},
		{"Auto-Submitted", "auto-generated"}, {"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"}, {"Content-Transfer-Encoding", "quoted-printable"},
	} {
		b.WriteString(h[0] + ": " + h[1] + "\r\n")
	}
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	if _, err := w.Write(body); err != nil {
		return nil, fmt.Errorf("encoding the message: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encoding the message: %w", err)
	}
	return b.Bytes(), nil
}

// maxSubject bounds a subject; the rest is in the body.
const maxSubject = 400

// header makes a text fit for a header: one line, encoded where it is not plain.
func header(s string) string {
	s = strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if isControl(r) {
			return ' '
		}
		return r
	}, s), "?")
	if r := []rune(s); len(r) > maxSubject {
		s = string(r[:maxSubject]) + "..."
	}
	encoded := mime.QEncoding.Encode("utf-8", strings.TrimSpace(s))
	return strings.ReplaceAll(encoded, "?= =?", "?=\r\n =?")
}

// mailID is an alert's id as the left side of a Message-ID (RFC 5322: dot-atom).
func mailID(id string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
	}
	if strings.IndexFunc(id, func(r rune) bool { return !plain(r) }) < 0 {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

package notify

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream/streamtest"
)

// mailServer is an SMTP server of one connection (RFC 5321, as much as it takes).
type mailServer struct {
	addr   string
	answer map[string]string // by the beginning of a command; else what goes well
	tls    *tls.Config

	received chan []string // the commands and the message, once the connection has ended
}

func startMail(t *testing.T, conf *tls.Config, answer map[string]string) *mailServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	s := &mailServer{addr: l.Addr().String(), answer: answer, tls: conf, received: make(chan []string, 1)}
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		s.received <- s.serve(conn)
	}()
	return s
}

func (s *mailServer) serve(conn net.Conn) (received []string) {
	text := textproto.NewConn(conn)
	_ = text.PrintfLine("220 test")
	for {
		line, err := text.ReadLine()
		if err != nil {
			return received
		}
		received = append(received, line)
		said := ""
		for begin, a := range s.answer {
			if strings.HasPrefix(line, begin) {
				said = a
			}
		}
		switch verb, _, _ := strings.Cut(line, " "); {
		case said != "":
			_ = text.PrintfLine("%s", said)
		case verb == "EHLO":
			_ = text.PrintfLine("250-test\r\n250-STARTTLS\r\n250 AUTH PLAIN")
		case verb == "STARTTLS":
			_ = text.PrintfLine("220 go")
			secured := tls.Server(conn, s.tls)
			text = textproto.NewConn(secured)
		case verb == "AUTH":
			_ = text.PrintfLine("235 yes")
		case verb == "DATA":
			_ = text.PrintfLine("354 go")
			body, err := io.ReadAll(text.DotReader())
			if err != nil {
				return received
			}
			received = append(received, string(body))
			_ = text.PrintfLine("250 taken")
		case verb == "QUIT":
			_ = text.PrintfLine("221 bye")
			return received
		default:
			_ = text.PrintfLine("250 yes")
		}
	}
}

func mailTo(t *testing.T, s *mailServer, ca []byte, change func(*Mail)) *post {
	t.Helper()
	cfg := &Mail{Server: s.addr, Security: securityStartTLS, From: "Porestream <pore@lab.example.org>", To: []string{"duty@example.org", "Dr. É <e@example.org>"},
		User: "pore", PasswordFile: write(t, "password", "pa55\n"), Subject: "{{.State}}: {{.Label}}\r\nBcc: all@example.org é", Body: defaultBody, TLS: TLS{CAFile: write(t, "ca.pem", string(ca))}}
	if change != nil {
		change(cfg)
	}
	p, err := newPost(cfg, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return p
}

func identity(t *testing.T) (*tls.Config, []byte) {
	t.Helper()
	id, err := streamtest.NewIdentity()
	require.NoError(t, err)
	conf, err := id.ServerConfig()
	require.NoError(t, err)
	return conf, id.CAPEM
}

func TestMail(t *testing.T) {
	conf, ca := identity(t)
	s := startMail(t, conf, nil)
	p := mailTo(t, s, ca, nil)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m := asMessage(t, detected(t, "Probe 7", 1), at)
	m.ID = "abc-DEF_1"
	require.NoError(t, p.send(t.Context(), m))
	received := <-s.received
	require.Contains(t, received, "STARTTLS")
	require.Contains(t, received, "AUTH PLAIN "+base64.StdEncoding.EncodeToString([]byte("\x00pore\x00pa55")))
	require.Contains(t, received, "MAIL FROM:<pore@lab.example.org>")
	require.Contains(t, received, "RCPT TO:<duty@example.org>")
	require.Contains(t, received, "RCPT TO:<e@example.org>")
	text := received[len(received)-2]
	got, err := mail.ReadMessage(bufio.NewReader(strings.NewReader(text)))
	require.NoError(t, err)
	require.Equal(t, "<abc-DEF_1@lab.example.org>", got.Header.Get("Message-Id"))
	require.Empty(t, got.Header.Get("Bcc"))
	subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
	require.NoError(t, err)
	require.Equal(t, "DETECTED: Test of pore notify: nothing was found  Bcc: all@example.org é", subject)
	date, err := got.Header.Date()
	require.NoError(t, err)
	require.True(t, date.Equal(at))
	to, err := got.Header.AddressList("To")
	require.NoError(t, err)
	require.Len(t, to, 2)
	body, err := io.ReadAll(quotedprintable.NewReader(got.Body))
	require.NoError(t, err)
	require.Contains(t, string(body), "sample    Probe 7\n")
	require.Contains(t, string(body), "allele    test:1 A>C\n")
	again, err := p.text(m)
	require.NoError(t, err)
	first, err := p.text(m)
	require.NoError(t, err)
	require.Equal(t, first, again)
	for _, line := range strings.Split(string(first), "\r\n") {
		require.LessOrEqual(t, len(line), 998) // RFC 5322
	}
}

func TestMailRefusals(t *testing.T) {
	conf, ca := identity(t)
	for name, tt := range map[string]struct {
		answer  map[string]string
		change  func(*Mail)
		refused bool
		want    string // of the error; empty: delivered
	}{
		"one of two recipients":   {answer: map[string]string{"RCPT TO:<e@": "550 who?"}},
		"all recipients":          {answer: map[string]string{"RCPT": "550 who?"}, refused: true, want: "refuses a recipient"},
		"a recipient for now":     {answer: map[string]string{"RCPT TO:<e@": "450 full"}, want: "refuses a recipient"},
		"the sender":              {answer: map[string]string{"MAIL": "553 no"}, refused: true, want: "refuses the sender"},
		"the login":               {answer: map[string]string{"AUTH": "535 wrong"}, want: "logging in as pore"},
		"no STARTTLS":             {answer: map[string]string{"STARTTLS": "454 not now"}, want: "STARTTLS"},
		"a login without secrecy": {change: func(m *Mail) { m.Security = securityNone }}, // loopback only: see TestParseRefuses
		"an unknown authority":    {change: func(m *Mail) { m.TLS.CAFile = "" }, want: "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startMail(t, conf, tt.answer)
			err := mailTo(t, s, ca, tt.change).send(t.Context(), asMessage(t, detected(t, "s", 1), time.Now()))
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "pa55")
			no := (*refusedError)(nil)
			require.Equal(t, tt.refused, errors.As(err, &no))
		})
	}
}

// A server that says nothing is left when the time is over.
func TestMailServerThatHangs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	p := mailTo(t, &mailServer{addr: l.Addr().String()}, nil, func(m *Mail) { m.TLS.CAFile, m.Security, m.User, m.PasswordFile = "", securityNone, "", "" })
	c := courierTo(p, time.Hour)
	c.timeout = 50 * time.Millisecond
	require.ErrorContains(t, c.try(t.Context(), asMessage(t, detected(t, "s", 1), time.Now())), "no answer within 50ms")
}

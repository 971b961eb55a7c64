package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streamtest"
)

const (
	secret      = "correct-horse"
	wrongSecret = "battery-staple"
)

// guarded are the addresses of brokers that the table of connection faults
// needs.
type guarded struct {
	plain, tls, sasl, saslTLS, closed, mute, foreign string
	ca, otherCA                                      string
}

func startGuarded(t *testing.T) guarded {
	t.Helper()
	id, err := streamtest.NewIdentity()
	require.NoError(t, err)
	other, err := streamtest.NewIdentity()
	require.NoError(t, err)
	serverTLS, err := id.ServerConfig()
	require.NoError(t, err)
	users := []kfake.Opt{kfake.EnableSASL()}
	for _, m := range []string{MechanismPlain, MechanismScramSHA256, MechanismScramSHA512} {
		users = append(users, kfake.Superuser(m, "pore", secret))
	}
	addr := func(opts ...kfake.Opt) string { return streamtest.Kfake(t, opts...).ListenAddrs()[0] }
	file := func(name string, data []byte) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	listen := func(serve func(net.Conn)) string {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { ln.Close() })
		if serve != nil {
			go func() {
				for {
					conn, err := ln.Accept()
					if err != nil {
						return
					}
					serve(conn)
				}
			}()
		}
		return ln.Addr().String()
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	return guarded{
		plain:   addr(),
		tls:     addr(kfake.TLS(serverTLS.Clone())),
		sasl:    addr(users...),
		saslTLS: addr(append(users, kfake.TLS(serverTLS.Clone()))...),
		closed:  closed.Addr().String(),
		mute:    listen(nil),
		foreign: listen(func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); c.Close() }),
		ca:      file("ca.pem", id.CAPEM),
		otherCA: file("other.pem", other.CAPEM),
	}
}

func TestConnect(t *testing.T) {
	g := startGuarded(t)
	trusting := &TLSConfig{CAFile: g.ca}
	user := func(mechanism, password string) *SASLConfig {
		return &SASLConfig{Mechanism: mechanism, User: "pore", Password: password}
	}
	passwordFile := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(passwordFile, []byte(secret+"\nsecond line\n"), 0o600))
	tests := map[string]struct {
		addr    string
		tls     *TLSConfig
		sasl    *SASLConfig
		wantErr string // empty: must work
	}{
		"plain":                          {addr: g.plain},
		"TLS":                            {addr: g.tls, tls: trusting},
		"TLS unverified":                 {addr: g.tls, tls: &TLSConfig{SkipVerify: true}},
		"PLAIN":                          {addr: g.sasl, sasl: user(MechanismPlain, secret)},
		"SCRAM-SHA-256":                  {addr: g.sasl, sasl: user(MechanismScramSHA256, secret)},
		"SCRAM-SHA-512":                  {addr: g.sasl, sasl: user(MechanismScramSHA512, secret)},
		"SCRAM-SHA-512 and TLS":          {addr: g.saslTLS, tls: trusting, sasl: user(MechanismScramSHA512, secret)},
		"password from a file":           {addr: g.sasl, sasl: &SASLConfig{Mechanism: MechanismPlain, User: "pore", PasswordFile: passwordFile}},
		"nobody listens":                 {addr: g.closed, wantErr: "nobody listens there"},
		"nobody answers":                 {addr: g.mute, wantErr: "no answer within"},
		"unknown host":                   {addr: "no-such-host.invalid:9092", wantErr: "unknown host"},
		"not Kafka":                      {addr: g.foreign, wantErr: "not a Kafka broker"},
		"wrong password, PLAIN":          {addr: g.sasl, sasl: user(MechanismPlain, wrongSecret), wantErr: `refuses user "pore": wrong user, password or mechanism (PLAIN)`},
		"wrong password, SCRAM-SHA-256":  {addr: g.sasl, sasl: user(MechanismScramSHA256, wrongSecret), wantErr: `refuses user "pore": wrong user, password or mechanism (SCRAM-SHA-256)`},
		"wrong password, SCRAM-SHA-512":  {addr: g.saslTLS, tls: trusting, sasl: user(MechanismScramSHA512, wrongSecret), wantErr: `refuses user "pore"`},
		"SASL expected":                  {addr: g.sasl, wantErr: "it may expect a user and password"},
		"TLS expected":                   {addr: g.tls, wantErr: "this port expects TLS"},
		"TLS not expected":               {addr: g.plain, tls: trusting, wantErr: "this port does not speak TLS"},
		"unknown authority":              {addr: g.tls, tls: &TLSConfig{CAFile: g.otherCA}, wantErr: "authority that is not trusted"},
		"certificate for another name":   {addr: g.tls, tls: &TLSConfig{CAFile: g.ca, ServerName: "kafka.example"}, wantErr: "certificate is for another name"},
		"no CA file":                     {addr: g.tls, tls: &TLSConfig{CAFile: "nowhere.pem"}, wantErr: "reading CA file: open nowhere.pem"},
		"CA file that is none":           {addr: g.tls, tls: &TLSConfig{CAFile: passwordFile}, wantErr: "holds no PEM certificate"},
		"no password file":               {addr: g.sasl, sasl: &SASLConfig{Mechanism: MechanismPlain, User: "pore", PasswordFile: "nowhere"}, wantErr: "reading password file: open nowhere"},
		"one broker of several answers":  {addr: g.closed + "," + g.plain},
		"no broker of several answers":   {addr: g.closed + "," + g.closed, wantErr: "nobody listens there"},
		"port is missing in the address": {addr: "localhost", wantErr: `broker address "localhost": want host:port`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			c, err := Connect(t.Context(), Config{
				Brokers: strings.Split(tc.addr, ","), TLS: tc.tls, SASL: tc.sasl, DialTimeout: defaultDialTimeout / 3,
				Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			})
			if c != nil {
				defer c.Close()
			}
			if tc.wantErr == "" {
				require.NoError(t, err)
				require.NoError(t, c.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: "t", Partitions: 1}}, 1))
				return
			}
			require.ErrorContains(t, err, tc.wantErr)
			t.Log(err)
			for _, s := range []string{"\n", secret, wrongSecret} {
				assert.NotContains(t, err.Error(), s)
				assert.NotContains(t, log.String(), "password="+s)
			}
		})
	}
}

// A broker that doesn't answer keeps nobody who has stopped waiting for it.
func TestConnectingIsBrokenOff(t *testing.T) {
	t.Parallel()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer mute.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		conn, err := mute.Accept()
		if err == nil {
			defer conn.Close()
			_, _ = conn.Read(make([]byte, 1)) // it has been asked
		}
		cancel()
		<-t.Context().Done()
	}()
	_, err = Connect(ctx, Config{Brokers: []string{mute.Addr().String()}, DialTimeout: time.Minute})
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, "connecting to Kafka at "+mute.Addr().String()+": context canceled")
}

// The group library has its own way to connect; it must get through as well.
func TestGroupThroughTLSAndSASL(t *testing.T) {
	t.Parallel()
	g := startGuarded(t)
	throughGuard(t, Config{Brokers: []string{g.saslTLS}, TLS: &TLSConfig{CAFile: g.ca},
		SASL: &SASLConfig{Mechanism: MechanismScramSHA512, User: "pore", Password: secret}})
}

func throughGuard(t *testing.T, cfg Config) {
	t.Helper()
	c, err := Connect(t.Context(), cfg)
	require.NoError(t, err)
	defer c.Close()
	in, out := newTopic(t, c, 1), newTopic(t, c, 1)
	p := newProducer(t, c, ProducerConfig{})
	put(t, p, in, 0, "a", "b", "c")
	j := newJournal()
	r := startMember(t, c, impatient(GroupConfig{Group: in, Topics: []string{in}, Producer: p,
		NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
			return &echo{journal: j, life: j.begin(topic, partition), out: out}, nil
		}}))
	streamtest.Eventually(t.Context(), t, "the commit", func() bool { return committed(t, c, in, in, 1)[0] == 3 })
	r.end(t)
	assert.Equal(t, []string{"a", "b", "c"}, contents(t, c, out)[0])
	require.NoError(t, p.Close(t.Context()))
}

func TestSASLNotExpected(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		_, err := Connect(t.Context(), Config{Brokers: []string{addr}, SASL: &SASLConfig{Mechanism: MechanismPlain, User: "pore", Password: secret}})
		// kfake takes part in the handshake and hangs up on what follows.
		require.ErrorContains(t, err, map[string]string{"kfake": "refuses user", "apache": "does not offer SASL on this port"}[filepath.Base(t.Name())])
	})
}

func TestConfigValidate(t *testing.T) {
	err := Config{
		Brokers: []string{"a", ":1"}, DialTimeout: -1, RequestTimeout: -1,
		TLS:  &TLSConfig{CertFile: "x", SkipVerify: true, CAFile: "y"},
		SASL: &SASLConfig{Mechanism: "KERBEROS", Password: secret, PasswordFile: "z"},
	}.Validate()
	for _, want := range []string{
		`"a": want host:port`, `":1": want host:port`, "dial timeout", "request timeout", "certificate and its key",
		"no effect when verification is skipped", `unknown mechanism "KERBEROS"`, "no user", "both a password",
	} {
		assert.ErrorContains(t, err, want)
	}
	require.ErrorContains(t, Config{}.Validate(), "no broker address")
	for _, port := range []string{"http", "0", "99999", "-1", "9092 "} {
		require.ErrorContains(t, Config{Brokers: []string{"a:" + port}}.Validate(), "is no number from 1 to 65535")
	}
	require.NoError(t, Config{Brokers: []string{"a:1"}, TLS: &TLSConfig{}}.Validate())

	s := SASLConfig{Mechanism: MechanismPlain, User: "pore", Password: secret}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("config", slog.Any("sasl", s))
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%+v %#v", s, s), log.String()} {
		assert.NotContains(t, text, secret)
	}
	_, err = (&TLSConfig{CertFile: "nowhere", KeyFile: "nowhere"}).tlsConfig()
	require.ErrorContains(t, err, "reading client certificate")
	conf, err := (&TLSConfig{SkipVerify: true}).tlsConfig()
	require.NoError(t, err)
	assert.EqualValues(t, tls.VersionTLS12, conf.MinVersion)
}

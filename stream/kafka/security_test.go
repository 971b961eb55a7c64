package kafka

import (
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

// credentials are the files and the broker of the matrix of secured
// connections.
type credentials struct {
	broker *streamtest.Apache
	dir    string
	ca     string
}

const adminUser = "pore"

// patience is for machines that have other things to do: a broker that has just
// started takes its time for the first handshakes.
const patience = 30 * time.Second

func startSecured(t *testing.T) *credentials {
	t.Helper()
	lib := os.Getenv(streamtest.LibVariable)
	if lib == "" {
		t.Skipf("%s is not set: see stream/streamtest/kafka/fetch.sh", streamtest.LibVariable)
	}
	c := &credentials{dir: t.TempDir()}
	authority, err := streamtest.NewAuthority()
	require.NoError(t, err)
	stranger, err := streamtest.NewAuthority()
	require.NoError(t, err)
	identity := func(a *streamtest.Authority, name string, valid time.Duration) *streamtest.Identity {
		id, err := a.Issue(name, valid)
		require.NoError(t, err)
		return id
	}
	server := identity(authority, "broker", time.Hour)
	c.ca = c.file(t, "ca.pem", server.CAPEM)
	for name, id := range map[string]*streamtest.Identity{
		"admin":    identity(authority, adminUser, time.Hour),
		"nobody":   identity(authority, "nobody", time.Hour),
		"expired":  identity(authority, adminUser, -time.Hour),
		"stranger": identity(stranger, adminUser, time.Hour),
	} {
		c.file(t, name+".crt", id.CertPEM)
		c.file(t, name+".key", id.KeyPEM)
		c.file(t, name+".ca", id.CAPEM)
	}
	dir := t.TempDir()
	c.broker, err = streamtest.StartApache(t.Context(), streamtest.ApacheConfig{
		Lib: lib, Dir: dir, Identity: server,
		Users: map[string]string{adminUser: secret, "other": secret}, Admin: adminUser,
		Listeners: []streamtest.Listener{
			{Name: "PLAIN"}, {Name: "TLS", TLS: true}, {Name: "MUTUAL", TLS: true, ClientCertificate: true},
			{Name: "SASL", SASL: true}, {Name: "SASLTLS", SASL: true, TLS: true},
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.broker.Stop()) })
	return c
}

func (c *credentials) file(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(c.dir, name)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

// with names a client certificate.
func (c *credentials) with(name string) *TLSConfig {
	return &TLSConfig{CAFile: c.ca, CertFile: filepath.Join(c.dir, name+".crt"), KeyFile: filepath.Join(c.dir, name+".key")}
}

// Every way to secure a connection to a real broker, with the right
// credentials and with wrong ones.
func TestSecuredApache(t *testing.T) {
	t.Parallel()
	c := startSecured(t)
	trusting := &TLSConfig{CAFile: c.ca}
	user := func(mechanism, name, password string) *SASLConfig {
		return &SASLConfig{Mechanism: mechanism, User: name, Password: password}
	}
	type attempt struct {
		listener string
		tls      *TLSConfig
		sasl     *SASLConfig
		wantErr  string // empty: must work, as the administrator
	}
	tests := map[string]attempt{
		"plain":                            {listener: "PLAIN"},
		"mutual TLS":                       {listener: "MUTUAL", tls: c.with("admin")},
		"mutual TLS as nobody":             {listener: "MUTUAL", tls: c.with("nobody"), wantErr: "Authorization Failed"},
		"TLS without a name":               {listener: "TLS", tls: trusting},
		"TLS, system's authorities":        {listener: "TLS", tls: &TLSConfig{}, wantErr: "authority that is not trusted; name its CA file (--tls-ca)"},
		"TLS, wrong authority":             {listener: "TLS", tls: &TLSConfig{CAFile: filepath.Join(c.dir, "stranger.ca")}, wantErr: "authority that is not trusted; name its CA file (--tls-ca)"},
		"TLS, wrong name":                  {listener: "TLS", tls: &TLSConfig{CAFile: c.ca, ServerName: "kafka.example"}, wantErr: "for another name; set the expected server name (--tls-server-name)"},
		"plain text to a TLS port":         {listener: "TLS", wantErr: "this port expects TLS"},
		"TLS to a plain port":              {listener: "PLAIN", tls: trusting, wantErr: "this port does not speak TLS"},
		"no client certificate":            {listener: "MUTUAL", tls: trusting, wantErr: "wants one; give one that is valid"},
		"expired client certificate":       {listener: "MUTUAL", tls: c.with("expired"), wantErr: "the broker refuses the client certificate, which has expired on"},
		"client certificate of a stranger": {listener: "MUTUAL", tls: c.with("stranger"), wantErr: "the broker refuses the client certificate"},
		"plain text to a mutual TLS port":  {listener: "MUTUAL", wantErr: "this port expects TLS"},
		"a user on a port without SASL":    {listener: "TLS", tls: trusting, sasl: user(MechanismPlain, adminUser, secret), wantErr: "does not offer SASL on this port"},
		"no user on a SASL port":           {listener: "SASLTLS", tls: trusting, wantErr: "it may expect a user and password"},
		"SASL port without TLS":            {listener: "SASLTLS", sasl: user(MechanismPlain, adminUser, secret), wantErr: "this port expects TLS"},
	}
	for _, m := range []string{MechanismPlain, MechanismScramSHA256, MechanismScramSHA512} {
		refused := "wrong user, password or mechanism (" + m + ")"
		tests[m] = attempt{listener: "SASL", sasl: user(m, adminUser, secret)}
		tests[m+" over TLS"] = attempt{listener: "SASLTLS", tls: trusting, sasl: user(m, adminUser, secret)}
		tests[m+" over TLS, wrong password"] = attempt{listener: "SASLTLS", tls: trusting, sasl: user(m, adminUser, wrongSecret), wantErr: refused}
		tests[m+" over TLS, unknown user"] = attempt{listener: "SASLTLS", tls: trusting, sasl: user(m, "ghost", secret), wantErr: refused}
		tests[m+" over TLS, user without rights"] = attempt{listener: "SASLTLS", tls: trusting, sasl: user(m, "other", secret), wantErr: "Authorization Failed"}
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Brokers: []string{c.broker.Listener(tc.listener)}, DialTimeout: patience, TLS: tc.tls, SASL: tc.sasl}
			err := makeTopic(t, cfg)
			if tc.wantErr == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.wantErr)
			for _, s := range []string{"\n", secret, wrongSecret} {
				assert.NotContains(t, err.Error(), s)
			}
			t.Log(err)
		})
	}
	t.Run("group over mutual TLS", func(t *testing.T) {
		t.Parallel()
		throughGuard(t, Config{Brokers: []string{c.broker.Listener("MUTUAL")}, DialTimeout: patience, TLS: c.with("admin")})
	})
	t.Run("group over SCRAM and TLS", func(t *testing.T) {
		t.Parallel()
		throughGuard(t, Config{Brokers: []string{c.broker.Listener("SASLTLS")}, DialTimeout: patience, TLS: trusting, SASL: user(MechanismScramSHA512, adminUser, secret)})
	})
}

// makeTopic connects and makes a topic, which needs a right.
func makeTopic(t *testing.T, cfg Config) error {
	t.Helper()
	client, err := Connect(t.Context(), cfg)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: topicName(t.Name()), Partitions: 1}}, 1)
}

func TestExpiredBroker(t *testing.T) {
	authority, err := streamtest.NewAuthority()
	require.NoError(t, err)
	id, err := authority.Issue("broker", -time.Minute)
	require.NoError(t, err)
	conf, err := id.ServerConfig()
	require.NoError(t, err)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, id.CAPEM, 0o600))
	_, err = Connect(t.Context(), Config{Brokers: streamtest.Kfake(t, kfake.TLS(conf)).ListenAddrs(), TLS: &TLSConfig{CAFile: ca}})
	require.ErrorContains(t, err, "the broker's certificate has expired or is not valid yet")
}

// topicName makes a topic's name of a test's.
func topicName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name)
}

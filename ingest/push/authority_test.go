package push

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	client "github.com/porestream/porestream/push"
	"github.com/porestream/porestream/push/pushpb"
	"github.com/porestream/porestream/testenv"
)

// certificates are an authority's for a test.
type certificates struct {
	ca        string // path
	root      *x509.Certificate
	key       *ecdsa.PrivateKey
	cert, pem string // the server's, paths
}

func newCertificates(t *testing.T) *certificates {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &certificates{key: key, root: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}}
	der, err := x509.CreateCertificate(rand.Reader, c.root, c.root, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c.root, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c.ca, c.cert, c.pem = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")
	writeFile(t, c.ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	c.serverFiles(t)
	return c
}

// serverFiles makes a certificate of the server.
func (c *certificates) serverFiles(t *testing.T) {
	t.Helper()
	pair := c.sign(t, "server", x509.ExtKeyUsageServerAuth, time.Hour)
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, c.pem, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	writeFile(t, c.cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})))
}

func (c *certificates) sign(t *testing.T, name string, usage x509.ExtKeyUsage, valid time.Duration) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid),
		ExtKeyUsage: []x509.ExtKeyUsage{usage}, KeyUsage: x509.KeyUsageDigitalSignature, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, c.root, key.Public(), c.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// server is the server's side, with or without certificates of devices.
func (c *certificates) server(t *testing.T, mutual bool) *tls.Config {
	t.Helper()
	pair, err := NewKeyPair(c.cert, c.pem)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.Certificate}
	if mutual {
		cfg.ClientAuth = tls.RequireAnyClientCert
	}
	return cfg
}

// device is a device's side.
func (c *certificates) device(t *testing.T, own ...tls.Certificate) *tls.Config {
	t.Helper()
	roots, err := LoadCAs(c.ca)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: "localhost", Certificates: own}
}

// TestCredentials: who may push, by token, by certificate, and by both, over TLS.
func TestCredentials(t *testing.T) {
	certs, strangers := newCertificates(t), newCertificates(t)
	valid, validHash := NewToken()
	expired, expiredHash := NewToken()
	path := filepath.Join(t.TempDir(), "devices.yaml")
	writeFile(t, path, fmt.Sprintf(`devices:
- name: bench-1
  tokens:
  - {sha256: %s, expires: 2100-01-01T00:00:00Z}
  - {sha256: %s, expires: 2020-01-01T00:00:00Z}
- name: bench-2
`, validHash, expiredHash))
	usage := x509.ExtKeyUsageClientAuth
	certificate := func(name string) *tls.Certificate {
		c := certs.sign(t, name, usage, time.Hour)
		return &c
	}
	late := certs.sign(t, "bench-1", usage, -time.Minute)
	foreign := strangers.sign(t, "bench-1", usage, time.Hour)
	stolen := certificate("bench-2")
	revoked, err := x509.ParseCertificate(stolen.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	lists := filepath.Join(t.TempDir(), "devices.crl")
	writeFile(t, lists, string(certs.revoke(t, time.Hour, revoked.SerialNumber)))
	wrongUse := certs.sign(t, "bench-2", x509.ExtKeyUsageServerAuth, time.Hour)

	const wrongToken, expiredToken = pushpb.Reason_REASON_WRONG_TOKEN, pushpb.Reason_REASON_EXPIRED_TOKEN
	const wrongCert, expiredCert = pushpb.Reason_REASON_WRONG_CERTIFICATE, pushpb.Reason_REASON_EXPIRED_CERTIFICATE
	for _, tt := range []struct {
		name    string
		devices bool
		mutual  bool
		token   string
		cert    *tls.Certificate
		reason  pushpb.Reason
		says    string
	}{
		{"a token", true, false, valid, nil, 0, ""},
		{"no token", true, false, "", nil, wrongToken, "no token: send metadata authorization: Bearer TOKEN"},
		{"another token", true, false, "pspush_other", nil, wrongToken, "the token is not that of any device"},
		{"an expired token", true, false, expired, nil, expiredToken, `the token of "bench-1" expired on 2020-01-01T00:00:00Z`},
		{"a certificate", true, true, "", certificate("bench-2"), 0, ""},
		{"a certificate, and no file", false, true, "", certificate("anyone"), 0, ""},
		{"a certificate and a token", true, true, valid, certificate("bench-1"), 0, ""},
		{"a certificate without its token", true, true, "", certificate("bench-1"), wrongToken, "no token"},
		{"a certificate of no device", true, true, "", certificate("bench-3"), wrongCert, `that of "bench-3", which is none of the devices`},
		{"a certificate without a name", false, true, "", certificate(""), wrongCert, "no common name"},
		{"an expired certificate", true, true, valid, &late, expiredCert, `the certificate of "bench-1" expired on`},
		{"a certificate of another authority", true, true, valid, &foreign, wrongCert, "unknown authority"},
		{"a certificate that was revoked", true, true, "", stolen, wrongCert, `the certificate of "bench-2" was revoked`},
		{"a server's certificate", true, true, "", &wrongUse, wrongCert, "incompatible key usage"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			metrics := NewMetrics(prometheus.NewRegistry())
			cfg := AuthorityConfig{Defaults: testLimits, Metrics: metrics}
			if tt.devices {
				cfg.DevicesPath = path
			}
			var err error
			if tt.mutual {
				if cfg.ClientCAs, err = LoadCAs(certs.ca); err != nil {
					t.Fatal(err)
				}
				if cfg.Revocations, err = LoadRevocations(lists, certs.ca); err != nil {
					t.Fatal(err)
				}
			}
			b := &bench{t: t, kafka: newFakeKafka(), options: []grpc.ServerOption{grpc.Creds(credentials.NewTLS(certs.server(t, tt.mutual)))}}
			b.edit = func(c *Config) {
				c.Metrics = metrics
				if c.Authority, err = NewAuthority(cfg); err != nil {
					t.Fatal(err)
				}
			}
			b.start()
			defer b.close()
			c := b.client(func(cfg *client.Config) {
				cfg.Token, cfg.TLS = tt.token, certs.device(t)
				if tt.cert != nil {
					cfg.TLS.Certificates = []tls.Certificate{*tt.cert}
				}
			})
			defer c.Close()
			run, err := c.Open(t.Context(), client.RunInfo{ID: "run", SampleRate: 4000})
			if tt.reason == 0 {
				if err != nil {
					t.Fatal(err)
				}
				run.Close()
				return
			}
			if err == nil || client.Reason(err) != tt.reason || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v (%v), want %v: %s", err, client.Reason(err), tt.reason, tt.says)
			}
			if n := testutil.ToFloat64(metrics.refusals.WithLabelValues(label(tt.reason))); n != 1 {
				t.Errorf("counted %v times", n)
			}
		})
	}
}

// TestTokensChange: a token that expires or is taken out ends the streams of its
// device, a new one lets it go on, a broken file changes nothing, a run is its
// device's, and no token gets into the log.
func TestTokensChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, firstHash := NewToken()
		second, secondHash := NewToken()
		other, otherHash := NewToken()
		path := filepath.Join(t.TempDir(), "devices.yaml")
		line := func(name, hash string, valid time.Duration) string {
			return fmt.Sprintf("- name: %s\n  tokens:\n  - {sha256: %s, expires: %s}\n", name, hash, time.Now().Add(valid).Format(time.RFC3339))
		}
		writeFile(t, path, "devices:\n"+line("bench-1", firstHash, time.Minute)+line("bench-2", otherHash, 24*time.Hour))
		log := new(testenv.Log)
		b := newBench(t, func(cfg *Config) {
			logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			cfg.Ingest.Logger = logger
			var err error
			if cfg.Authority, err = NewAuthority(AuthorityConfig{DevicesPath: path, Defaults: testLimits, Logger: logger}); err != nil {
				t.Fatal(err)
			}
		})
		defer b.close()
		api, done := b.api()
		defer done()
		open := func(token string) (pushpb.Push_PushClient, error) {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
			if _, err := api.Register(ctx, &pushpb.RegisterRequest{Run: testRun}); err != nil {
				return nil, err
			}
			s, err := api.Push(ctx)
			if err == nil {
				err = s.Send(&pushpb.PushRequest{Body: &pushpb.PushRequest_Open{Open: &pushpb.Open{Run: "run"}}})
			}
			if err == nil {
				_, err = s.Recv()
			}
			return s, err
		}
		ends := func(s pushpb.Push_PushClient, want pushpb.Reason, after time.Duration) {
			t.Helper()
			began := time.Now()
			_, err := s.Recv()
			if client.Reason(err) != want {
				t.Errorf("%v, want %v", err, want)
			}
			if took := time.Since(began); took < after-2*time.Second || took > after+3*time.Second {
				t.Errorf("after %v, want %v", took, after)
			}
		}
		s, err := open(first)
		if err != nil {
			t.Fatal(err)
		}
		ends(s, pushpb.Reason_REASON_EXPIRED_TOKEN, time.Minute)
		if _, err := open(other); client.Reason(err) != pushpb.Reason_REASON_OTHER_DEVICE {
			t.Error(err)
		}
		writeFile(t, path, "devices:\n"+line("bench-1", secondHash, time.Hour))
		time.Sleep(3 * time.Second)
		if s, err = open(second); err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, "devices: [")
		time.Sleep(time.Minute)
		if n := strings.Count(log.String(), "the file of devices can't be used"); n != 1 {
			t.Errorf("said %d times", n)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		writeFile(t, path, "devices:\n"+line("bench-2", otherHash, time.Hour))
		ends(s, pushpb.Reason_REASON_WRONG_TOKEN, 0)
		for _, secret := range []string{first, second, other, firstHash, secondHash} {
			if strings.Contains(log.String(), secret) {
				t.Error("a token is in the log")
			}
		}
		if !strings.Contains(log.String(), "device=bench-1") {
			t.Error("the log names no device")
		}
	})
}

// TestKeyPair: a certificate that was replaced is used, and one that is broken is
// not.
func TestKeyPair(t *testing.T) {
	certs := newCertificates(t)
	pair, err := NewKeyPair(certs.cert, certs.pem)
	if err != nil {
		t.Fatal(err)
	}
	serial := func() string {
		pair.checked = time.Time{}
		c, err := pair.Certificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.SerialNumber.String()
	}
	before := serial()
	later := time.Now().Add(time.Minute)
	writeFile(t, certs.cert, "broken")
	if err := os.Chtimes(certs.cert, later, later); err != nil {
		t.Fatal(err)
	}
	if serial() != before {
		t.Error("a broken certificate is used")
	}
	certs.serverFiles(t)
	if serial() == before {
		t.Error("a new certificate is not used")
	}
	if _, err := NewKeyPair(certs.cert, certs.ca); err == nil {
		t.Error("a certificate is its own key")
	}
}

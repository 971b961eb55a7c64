package push

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/porestream/porestream/push/pushpb"
)

// reloadInterval is how often the file of devices is checked.
const reloadInterval = 2 * time.Second

// AuthorityConfig says who may push.
type AuthorityConfig struct {
	// DevicesPath is a file of devices; see [ParseDevices]. Without one, every caller
	// with a certificate is a device, and without ClientCAs every caller is.
	DevicesPath string
	// ClientCAs sign the certificates of devices; nil: they need none. The common
	// name of a certificate is the name of its device.
	ClientCAs *x509.CertPool
	// Revocations are the certificates that are not trusted any more; nil: none.
	Revocations *Revocations
	// Defaults are the limits of a device of which the file gives no others.
	Defaults Limits
	Metrics  *Metrics     // nil: none
	Logger   *slog.Logger // nil: none
}

// Authority knows devices by their tokens and certificates.
type Authority struct {
	cfg     AuthorityConfig
	content [sha256.Size]byte // of the file that was read last
	devices atomic.Pointer[Devices]
}

// NewAuthority reads the file of devices.
func NewAuthority(cfg AuthorityConfig) (*Authority, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Authority{cfg: cfg}
	if cfg.DevicesPath == "" {
		return a, nil
	}
	if _, err := a.reload(); err != nil {
		return nil, err
	}
	return a, nil
}

// watch follows the files of devices and of revocations until ctx ends. What it
// can't read leaves things as they were.
func (a *Authority) watch(ctx context.Context) {
	tick := time.NewTicker(reloadInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if a.cfg.DevicesPath != "" {
			a.follow()
		}
		if a.cfg.Revocations == nil {
			continue
		}
		switch changed, err := a.cfg.Revocations.reload(); {
		case err != nil && changed:
			a.cfg.Logger.Error("the revocation lists can't be used; those before them stay", "err", err)
		case changed:
			a.cfg.Logger.Info("revocation lists read again", "file", a.cfg.Revocations.path)
		}
	}
}

// follow reads the file of devices again if it has changed.
func (a *Authority) follow() {
	changed, err := a.reload()
	switch {
	case err != nil && changed:
		a.cfg.Metrics.reload(err)
		a.cfg.Logger.Error("the file of devices can't be used; the devices stay as they were", "err", err)
	case changed:
		a.cfg.Metrics.reload(nil)
		a.cfg.Logger.Info("devices read again", "file", a.cfg.DevicesPath, "devices", len(a.devices.Load().byName))
	}
}

// reload reads the file, and reports whether it has another content than before.
func (a *Authority) reload() (changed bool, err error) {
	b, err := os.ReadFile(a.cfg.DevicesPath)
	if err != nil {
		b = []byte(err.Error()) // so that the same error is reported once
	}
	content := sha256.Sum256(b)
	if changed = content != a.content; !changed {
		return false, nil
	}
	a.content = content
	if err != nil {
		return true, fmt.Errorf("reading the devices: %w", err)
	}
	devices, err := ParseDevices(b, a.cfg.Defaults)
	if err != nil {
		return true, fmt.Errorf("reading the devices: %s: %w", a.cfg.DevicesPath, err)
	}
	a.devices.Store(devices)
	return true, nil
}

// device is the one whose call ctx is of, if it may push now.
func (a *Authority) device(ctx context.Context) (*device, *refusal) {
	now := time.Now()
	name, r := a.certified(ctx, now)
	if r != nil {
		return nil, r
	}
	devices := a.devices.Load()
	if devices == nil {
		if name == "" {
			name = "anonymous"
		}
		return &device{name: name, limits: a.cfg.Defaults}, nil
	}
	if name != "" {
		dev := devices.byName[name]
		if dev == nil {
			return nil, refuse(pushpb.Reason_REASON_WRONG_CERTIFICATE, "the certificate is that of %q, which is none of the devices", name)
		}
		if dev.tokens == 0 {
			return dev, nil
		}
	}
	return devices.authorized(ctx, name, now)
}

// authorized is the device of a call's token; name, if not empty, is what its
// certificate says.
func (d *Devices) authorized(ctx context.Context, name string, now time.Time) (*device, *refusal) {
	md, _ := metadata.FromIncomingContext(ctx)
	secret, err := bearer(md.Get("authorization"))
	if errors.Is(err, errNoToken) {
		return nil, refuse(pushpb.Reason_REASON_WRONG_TOKEN, "no token: send metadata authorization: Bearer TOKEN")
	}
	if err != nil {
		return nil, refuse(pushpb.Reason_REASON_WRONG_TOKEN, "%v", err)
	}
	t := d.byToken[sha256.Sum256([]byte(secret))]
	switch {
	case t == nil:
		return nil, refuse(pushpb.Reason_REASON_WRONG_TOKEN, "the token is not that of any device")
	case name != "" && t.device.name != name:
		return nil, refuse(pushpb.Reason_REASON_WRONG_TOKEN, "the token is that of %q, and the certificate that of %q", t.device.name, name)
	case !now.Before(t.expires):
		return nil, refuse(pushpb.Reason_REASON_EXPIRED_TOKEN, "the token of %q expired on %s: give the device a new one", t.device.name, t.expires.UTC().Format(time.RFC3339))
	}
	return t.device, nil
}

// certified is the name in the call's certificate; empty if none is asked for. The
// TLS layer has seen that the device has the certificate's key; whether it may be
// trusted is decided here, so that the device gets an answer that says what is wrong.
func (a *Authority) certified(ctx context.Context, now time.Time) (string, *refusal) {
	if a.cfg.ClientCAs == nil {
		return "", nil
	}
	p, _ := peer.FromContext(ctx)
	var chain []*x509.Certificate
	if p != nil {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			chain = info.State.PeerCertificates
		}
	}
	if len(chain) == 0 {
		return "", refuse(pushpb.Reason_REASON_WRONG_CERTIFICATE, "no client certificate: the server asks for one")
	}
	leaf := chain[0]
	name := leaf.Subject.CommonName
	if now.After(leaf.NotAfter) {
		return "", refuse(pushpb.Reason_REASON_EXPIRED_CERTIFICATE, "the certificate of %q expired on %s: give the device a new one", name, leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	opts := x509.VerifyOptions{
		Roots: a.cfg.ClientCAs, Intermediates: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range chain[1:] {
		opts.Intermediates.AddCert(c)
	}
	if _, err := leaf.Verify(opts); err != nil {
		var invalid x509.CertificateInvalidError
		if errors.As(err, &invalid) && invalid.Reason == x509.Expired && now.After(leaf.NotBefore) {
			return "", refuse(pushpb.Reason_REASON_EXPIRED_CERTIFICATE, "a certificate that signs that of %q has expired", name)
		}
		return "", refuse(pushpb.Reason_REASON_WRONG_CERTIFICATE, "the certificate of %q: %v", name, err)
	}
	if refused := a.cfg.Revocations.check(chain, now); refused != nil {
		return "", refused
	}
	if name == "" {
		return "", refuse(pushpb.Reason_REASON_WRONG_CERTIFICATE, "the certificate has no common name, which is the device's")
	}
	return name, nil
}

// LoadCAs reads the certificates of a PEM file.
func LoadCAs(path string) (*x509.CertPool, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the devices' authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("reading the devices' authority: %s has no certificate in PEM", path)
	}
	return pool, nil
}

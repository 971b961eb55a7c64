package push

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// KeyPair is the server's certificate, which is read again when its file changes:
// certificates are replaced more often than servers are started.
type KeyPair struct {
	cert, key string

	mu      sync.Mutex
	loaded  *tls.Certificate
	stamp   time.Time // of the file that is loaded
	checked time.Time
}

// NewKeyPair reads a certificate and its key, both in PEM.
func NewKeyPair(cert, key string) (*KeyPair, error) {
	k := &KeyPair{cert: cert, key: key}
	if err := k.load(); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *KeyPair) load() error {
	info, err := os.Stat(k.cert)
	if err != nil {
		return fmt.Errorf("reading the server's certificate: %w", err)
	}
	if k.loaded != nil && info.ModTime().Equal(k.stamp) {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(k.cert, k.key)
	if err != nil {
		return fmt.Errorf("reading the server's certificate: %w", err)
	}
	k.loaded, k.stamp = &pair, info.ModTime()
	return nil
}

// Certificate is for [tls.Config.GetCertificate]. A new file that can't be read,
// such as one that is still being written, leaves the certificate as it was.
func (k *KeyPair) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); now.Sub(k.checked) >= reloadInterval {
		k.checked = now
		_ = k.load()
	}
	return k.loaded, nil
}

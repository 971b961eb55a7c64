package push

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/push/pushpb"
)

// revoke makes a list in DER.
func (c *certificates) revoke(t testing.TB, valid time.Duration, serials ...*big.Int) []byte {
	t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(valid)}
	for _, s := range serials {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: s, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, c.root, c.key)
	require.NoError(t, err)
	return der
}

func asPEM(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}) }

// TestListsAreReadToTheLastByte: a list in DER is binary. One in about forty ends
// with a byte that is white space in a text, which is no reason to cut it off.
func TestListsAreReadToTheLastByte(t *testing.T) {
	certs := newCertificates(t)
	ends := 0
	for n := 0; n < 200 || ends < 3; n++ {
		serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 159))
		require.NoError(t, err)
		der := certs.revoke(t, time.Hour, serial.Add(serial, big.NewInt(1)))
		if len(bytes.TrimSpace(der)) < len(der) {
			ends++
		}
		lists, err := parseRevocations(der)
		require.NoError(t, err, "%x", der)
		require.Len(t, lists, 1)
		require.Zero(t, lists[0].RevokedCertificateEntries[0].SerialNumber.Cmp(serial))
		lists, err = parseRevocations(append([]byte("0 revoked certificates of the lab\r\n"), append(asPEM(der), asPEM(der)...)...))
		require.NoError(t, err)
		require.Len(t, lists, 2)
	}
}

func TestRevocations(t *testing.T) {
	certs, strangers := newCertificates(t), newCertificates(t)
	leaf := func(name string) *x509.Certificate {
		pair := certs.sign(t, name, x509.ExtKeyUsageClientAuth, time.Hour)
		c, err := x509.ParseCertificate(pair.Certificate[0])
		require.NoError(t, err)
		return c
	}
	good, stolen := leaf("good"), leaf("stolen")
	path := filepath.Join(t.TempDir(), "devices.crl")
	write := func(b []byte) { writeFile(t, path, string(b)) }

	write(certs.revoke(t, time.Hour, big.NewInt(77), stolen.SerialNumber))
	r, err := LoadRevocations(path, certs.ca)
	require.NoError(t, err)
	refused := r.check([]*x509.Certificate{stolen}, time.Now())
	require.NotNil(t, refused)
	require.Equal(t, pushpb.Reason_REASON_WRONG_CERTIFICATE, refused.reason)
	require.Equal(t, `the certificate of "stolen" was revoked: give the device a new one`, refused.message)
	require.Nil(t, r.check([]*x509.Certificate{good}, time.Now()))
	require.Contains(t, r.check([]*x509.Certificate{good}, time.Now().Add(2*time.Hour)).message, "out of date")
	require.Nil(t, (*Revocations)(nil).check([]*x509.Certificate{stolen}, time.Now()))

	// A file that can't be used leaves the lists as they were, and is reported once.
	for name, b := range map[string][]byte{
		"neither PEM nor a list in DER":            []byte("garbage"),
		"there is no X509 CRL in the PEM":          pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certs.root.Raw}),
		"list 1":                                   asPEM([]byte("garbage")),
		"signed by none of the devices' authority": strangers.revoke(t, time.Hour),
	} {
		write(b)
		changed, err := r.reload()
		require.True(t, changed)
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), "\n")
		changed, err = r.reload()
		require.False(t, changed)
		require.NoError(t, err)
		require.NotNil(t, r.check([]*x509.Certificate{stolen}, time.Now()))
	}
	_, err = LoadRevocations(path+".not", certs.ca)
	require.ErrorContains(t, err, "no such file")

	write(asPEM(certs.revoke(t, time.Hour, good.SerialNumber)))
	changed, err := r.reload()
	require.True(t, changed)
	require.NoError(t, err)
	require.Nil(t, r.check([]*x509.Certificate{stolen}, time.Now()))
	require.NotNil(t, r.check([]*x509.Certificate{good}, time.Now()))
}

func FuzzParseRevocations(f *testing.F) {
	f.Add([]byte("-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n"))
	f.Add([]byte{0x30, 0x00})
	f.Fuzz(func(t *testing.T, b []byte) {
		lists, err := parseRevocations(b)
		if err == nil && len(lists) == 0 {
			t.Error("no lists, and no error")
		}
	})
}

package push

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/porestream/porestream/push/pushpb"
)

// maxRevocations bounds a file of revocation lists, in bytes.
const maxRevocations = 32 << 20

// Revocations are the lists of certificates that may not be trusted any more (RFC
// 5280, section 5), as a file has them that is read again when it changes.
type Revocations struct {
	path      string
	authority []*x509.Certificate
	content   [sha256.Size]byte // that was read last
	lists     atomic.Pointer[[]revocationList]
}

type revocationList struct {
	issuer  *x509.Certificate
	expires time.Time       // zero: doesn't
	serials map[string]bool // of what was revoked, as big-endian bytes
}

// LoadRevocations reads a file of revocation lists, each signed by one of the
// authority's certificates in another file.
func LoadRevocations(path, authorityPath string) (*Revocations, error) {
	b, err := os.ReadFile(authorityPath)
	if err != nil {
		return nil, fmt.Errorf("reading the devices' authority: %w", err)
	}
	r := &Revocations{path: path}
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("reading the devices' authority: %s: %w", authorityPath, err)
		}
		r.authority = append(r.authority, c)
	}
	if _, err := r.reload(); err != nil {
		return nil, err
	}
	return r, nil
}

// reload reads the file, and reports whether it has another content than before. A
// file that can't be used leaves the lists as they were.
func (r *Revocations) reload() (changed bool, err error) {
	b, err := os.ReadFile(r.path)
	if err != nil {
		b = []byte(err.Error()) // so that the same error is reported once
	}
	content := sha256.Sum256(b)
	if changed = content != r.content; !changed {
		return false, nil
	}
	r.content = content
	var lists []revocationList
	if err == nil {
		lists, err = r.parse(b)
	}
	if err != nil {
		return true, fmt.Errorf("reading the revocation lists: %s: %w", r.path, err)
	}
	r.lists.Store(&lists)
	return true, nil
}

func (r *Revocations) parse(b []byte) (lists []revocationList, err error) {
	parsed, err := parseRevocations(b)
	if err != nil {
		return nil, err
	}
	for i, p := range parsed {
		list := revocationList{expires: p.NextUpdate, serials: make(map[string]bool, len(p.RevokedCertificateEntries))}
		for _, c := range r.authority {
			if p.CheckSignatureFrom(c) == nil {
				list.issuer = c
			}
		}
		if list.issuer == nil {
			return nil, fmt.Errorf("list %d is of %q, and signed by none of the devices' authority", i+1, p.Issuer)
		}
		for _, e := range p.RevokedCertificateEntries {
			list.serials[string(e.SerialNumber.Bytes())] = true
		}
		lists = append(lists, list)
	}
	return lists, nil
}

// parseRevocations reads one list in DER, or several in PEM. DER is binary, and its
// last byte may well be one that is a space or a newline in a text, so nothing is
// cut off before it is known to be a text.
func parseRevocations(b []byte) (lists []*x509.RevocationList, err error) {
	if len(b) > maxRevocations {
		return nil, fmt.Errorf("%d bytes, the limit is %d", len(b), maxRevocations)
	}
	list, notDER := x509.ParseRevocationList(b)
	if notDER == nil {
		return []*x509.RevocationList{list}, nil
	}
	if !bytes.Contains(b, []byte("-----BEGIN ")) {
		return nil, fmt.Errorf("neither PEM nor a list in DER: %s", strings.TrimPrefix(notDER.Error(), "x509: "))
	}
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "X509 CRL" {
			continue
		}
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("list %d: %w", len(lists)+1, err)
		}
		lists = append(lists, list)
	}
	if len(lists) == 0 {
		return nil, errors.New("there is no X509 CRL in the PEM")
	}
	return lists, nil
}

// check refuses a chain of certificates, the device's first, if one of them was
// revoked or a list is out of date that would say so. A nil Revocations refuses
// none.
func (r *Revocations) check(chain []*x509.Certificate, now time.Time) *refusal {
	if r == nil {
		return nil
	}
	for _, c := range chain {
		for _, list := range *r.lists.Load() {
			if !bytes.Equal(c.RawIssuer, list.issuer.RawSubject) || c.CheckSignatureFrom(list.issuer) != nil {
				continue
			}
			switch {
			case list.serials[string(c.SerialNumber.Bytes())]:
				return refuse(pushpb.Reason_REASON_WRONG_CERTIFICATE, "the certificate of %q was revoked: give the device a new one", c.Subject.CommonName)
			case !list.expires.IsZero() && now.After(list.expires):
				return refuse(pushpb.Reason_REASON_WRONG_CERTIFICATE, "whether the certificate of %q was revoked is not known: the revocation list is out of date since %s; give the server a new one", c.Subject.CommonName, list.expires.UTC().Format(time.RFC3339))
			}
		}
	}
	return nil
}

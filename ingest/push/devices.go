package push

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Limits bound what a device may send. Zero of any but ChunkSamples means none.
type Limits struct {
	// ChunkSamples is the number of samples that a chunk may have.
	ChunkSamples uint64
	// BytesPerSecond bounds the requests of all of a device's runs together. A
	// device that is faster is made to wait.
	BytesPerSecond int64
	// Channels and OpenReads bound one run; Runs how many are under way.
	Channels, OpenReads, Runs int64
}

// Devices are those that may push, as a file lists them.
type Devices struct {
	byName  map[string]*device
	byToken map[[sha256.Size]byte]*token
}

// device is one that may push.
type device struct {
	name   string
	limits Limits
	tokens int
}

type token struct {
	device  *device
	expires time.Time
}

// The file: docs/attach/push.md describes it.
type devicesFile struct {
	Devices []deviceEntry `yaml:"devices"`
}

type deviceEntry struct {
	Name   string       `yaml:"name"`
	Tokens []tokenEntry `yaml:"tokens"`
	Limits limitsEntry  `yaml:"limits"`
}

type tokenEntry struct {
	SHA256  string `yaml:"sha256"`
	Expires string `yaml:"expires"`
}

type limitsEntry struct {
	BytesPerSecond *int64 `yaml:"bytes_per_second"`
	Channels       *int64 `yaml:"channels"`
	OpenReads      *int64 `yaml:"open_reads"`
	Runs           *int64 `yaml:"runs"`
}

// Bounds of a file of devices.
const (
	maxDevicesFile = 4 << 20
	maxDevices     = 10_000
	maxTokens      = 16 // of a device
	maxDeviceName  = 128
	maxLimit       = 1 << 40
)

// ParseDevices reads a file of devices. Limits that it doesn't give are those of
// defaults.
func ParseDevices(b []byte, defaults Limits) (*Devices, error) {
	if len(b) > maxDevicesFile {
		return nil, fmt.Errorf("%d bytes, the limit is %d", len(b), maxDevicesFile)
	}
	var f devicesFile
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New(strings.Join(strings.Fields(err.Error()), " ")) // in one line
	}
	if len(f.Devices) == 0 {
		return nil, errors.New("it lists no devices")
	}
	if len(f.Devices) > maxDevices {
		return nil, fmt.Errorf("%d devices, the limit is %d", len(f.Devices), maxDevices)
	}
	d := &Devices{byName: make(map[string]*device), byToken: make(map[[sha256.Size]byte]*token)}
	for i, e := range f.Devices {
		if err := d.add(e, defaults); err != nil {
			return nil, fmt.Errorf("device %d (%q): %w", i+1, e.Name, err)
		}
	}
	return d, nil
}

func (d *Devices) add(e deviceEntry, defaults Limits) error {
	switch {
	case e.Name == "" || len(e.Name) > maxDeviceName || strings.ContainsFunc(e.Name, unicode.IsControl):
		return fmt.Errorf("a name has 1 to %d bytes and no control characters", maxDeviceName)
	case d.byName[e.Name] != nil:
		return errors.New("it is listed twice: give it several tokens instead")
	case len(e.Tokens) > maxTokens:
		return fmt.Errorf("%d tokens, the limit is %d", len(e.Tokens), maxTokens)
	}
	dev := &device{name: e.Name, limits: defaults, tokens: len(e.Tokens)}
	if err := e.Limits.apply(&dev.limits); err != nil {
		return err
	}
	for i, t := range e.Tokens {
		var hash [sha256.Size]byte
		n, err := hex.Decode(hash[:], []byte(t.SHA256[:min(len(t.SHA256), 2*sha256.Size)]))
		expires, timeErr := time.Parse(time.RFC3339, t.Expires)
		switch {
		case err != nil || n != sha256.Size || len(t.SHA256) != 2*sha256.Size:
			return fmt.Errorf("token %d: sha256 is not 64 hexadecimal digits (ingest token makes a token and its line)", i+1)
		case timeErr != nil:
			return fmt.Errorf("token %d: expires is %q, and should be as 2027-03-01T00:00:00Z", i+1, t.Expires)
		case d.byToken[hash] != nil:
			return fmt.Errorf("token %d: device %q has it as well", i+1, d.byToken[hash].device.name)
		}
		d.byToken[hash] = &token{device: dev, expires: expires}
	}
	d.byName[e.Name] = dev
	return nil
}

// apply puts what the entry gives in the place of defaults.
func (e limitsEntry) apply(l *Limits) error {
	for _, f := range []struct {
		name  string
		given *int64
		limit *int64
	}{
		{"bytes_per_second", e.BytesPerSecond, &l.BytesPerSecond}, {"channels", e.Channels, &l.Channels},
		{"open_reads", e.OpenReads, &l.OpenReads}, {"runs", e.Runs, &l.Runs},
	} {
		if f.given == nil {
			continue
		}
		if *f.given < 0 || *f.given > maxLimit {
			return fmt.Errorf("limits: %s is %d, and goes from 0 (none) to %d", f.name, *f.given, int64(maxLimit))
		}
		*f.limit = *f.given
	}
	return nil
}

// tokenPrefix distinguishes a token from other secrets, for people and for scanners.
const tokenPrefix = "pspush_"

// NewToken draws a token of 256 random bits, and returns it with the SHA-256 by
// which a file of devices knows it.
func NewToken() (token, hash string) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	return token, hashOf(token)
}

func hashOf(token string) string {
	h := sha256.Sum256([]byte(token))
	return hex.EncodeToString(h[:])
}

var errNoToken = errors.New("no token")

// maxToken bounds a token in bytes; longer ones are not even hashed.
const maxToken = 512

// bearer takes the token out of the values of the authorization header.
func bearer(values []string) (string, error) {
	if len(values) == 0 {
		return "", errNoToken
	}
	scheme, token, found := strings.Cut(values[0], " ")
	if len(values) > 1 || !found || !strings.EqualFold(scheme, "bearer") || token == "" || len(token) > maxToken {
		return "", errors.New("authorization is not one bearer token")
	}
	return token, nil
}

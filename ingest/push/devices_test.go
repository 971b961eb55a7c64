package push

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const someHash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func TestParseDevices(t *testing.T) {
	defaults := Limits{ChunkSamples: 5, Channels: 7, Runs: 2}
	d, err := ParseDevices([]byte(`
devices:
- name: bench 1
  tokens:
  - sha256: `+someHash+`
    expires: 2027-03-01T00:00:00Z
  limits: {bytes_per_second: 20000000, channels: 0, open_reads: 512}
- name: bench 2
`), defaults)
	if err != nil {
		t.Fatal(err)
	}
	want := Limits{ChunkSamples: 5, BytesPerSecond: 20_000_000, Channels: 0, OpenReads: 512, Runs: 2}
	if got := d.byName["bench 1"].limits; got != want {
		t.Errorf("limits %+v, want %+v", got, want)
	}
	if d.byName["bench 2"].limits != defaults || len(d.byToken) != 1 {
		t.Errorf("%+v", d)
	}
	for _, token := range d.byToken {
		if !token.expires.Equal(time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("expires %v", token.expires)
		}
	}
}

func TestParseDevicesErrors(t *testing.T) {
	token := func(sha, expires string) string {
		return fmt.Sprintf("devices:\n- name: a\n  tokens:\n  - {sha256: %q, expires: %s}\n", sha, expires)
	}
	for _, tt := range []struct{ file, want string }{
		{"", "it lists no devices"},
		{"devices: []", "it lists no devices"},
		{"devices:\n- name: a\n- name: a\n", `device 2 ("a"): it is listed twice`},
		{"devices:\n- label: a\n", "field label not found"},
		{"devices:\n- tokens: []\n", "a name has 1 to 128 bytes"},
		{"devices:\n- name: \"a\\nb\"\n", "no control characters"},
		{token("abc", "2027-03-01T00:00:00Z"), "token 1: sha256 is not 64 hexadecimal digits"},
		{token(strings.Repeat("z", 64), "2027-03-01T00:00:00Z"), "not 64 hexadecimal digits"},
		{token(someHash+"00", "2027-03-01T00:00:00Z"), "not 64 hexadecimal digits"},
		{strings.Replace(token(someHash, "x"), ", expires: x", "", 1), `token 1: expires is ""`},
		{token(someHash, "soon"), `token 1: expires is "soon"`},
		{token(someHash, "2027-03-01T00:00:00Z") + "- name: b\n  tokens:\n  - {sha256: " + someHash + ", expires: 2027-03-01T00:00:00Z}\n", `device "a" has it as well`},
		{"devices:\n- name: a\n  limits: {runs: -1}\n", "limits: runs is -1"},
		{strings.Repeat("#", maxDevicesFile+1), "the limit is"},
	} {
		_, err := ParseDevices([]byte(tt.file), testLimits)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %v, want %q in one line", tt.file, err, tt.want)
		}
	}
}

func TestNewToken(t *testing.T) {
	token, hash := NewToken()
	other, _ := NewToken()
	if token == other || !strings.HasPrefix(token, "pspush_") || len(token) != 7+43 || len(hash) != 64 || strings.Contains(hash, token) {
		t.Errorf("%q, %q, %q", token, other, hash)
	}
	if got, err := bearer([]string{"bearer " + token}); err != nil || got != token {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzParseDevices(f *testing.F) {
	f.Add([]byte("devices:\n- name: a\n  tokens:\n  - {sha256: " + someHash + ", expires: 2027-03-01T00:00:00Z}\n  limits: {runs: 1}\n"))
	f.Add([]byte("devices:\n- &a {name: b}\n- *a\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ParseDevices(b, testLimits)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q is more than a line", err)
			}
			return
		}
		for _, token := range d.byToken {
			if d.byName[token.device.name] != token.device {
				t.Fatalf("a token of %q, which is no device", token.device.name)
			}
		}
		for _, dev := range d.byName {
			if l := dev.limits; l.BytesPerSecond < 0 || l.Channels < 0 || l.OpenReads < 0 || l.Runs < 0 || l.ChunkSamples == 0 {
				t.Fatalf("%+v", l)
			}
		}
	})
}

func FuzzBearer(f *testing.F) {
	f.Add("Bearer abc")
	f.Add("Basic abc")
	f.Fuzz(func(t *testing.T, header string) {
		if token, err := bearer([]string{header}); err == nil && (token == "" || len(token) > maxToken) {
			t.Fatalf("%q", token)
		}
	})
}

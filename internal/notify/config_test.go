package notify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// inFolder parses a text beside files with secrets.
func inFolder(t *testing.T, text string) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"token": "s3cret-token\n", "empty": "\n", "two": "a\nb", "hook": "https://hooks.example.org/T0/very-s3cret", "plain-hook": "http://hooks.example.org/x", "key": "whsec_!!"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return Parse(filepath.Join(dir, "notify.yaml"), []byte(text))
}

func TestParse(t *testing.T) {
	cfg, err := inFolder(t, `destinations:
  - name: lims
    webhook: {url: "https://lims.example.org/alerts", bearer_token_file: token}
  - name: chat
    states: [DETECTED, RESISTANT]
    when: severity == "high"
    timeout: 3s
    give_up: 2h
    webhook:
      url_file: hook
      body: '{"text": {{json .Text}}}'
  - name: on-call
    mail: {server: "smtp.example.org:587", from: "Porestream <pore@example.org>", to: [duty@example.org], user: pore, password_file: token}
`)
	require.NoError(t, err)
	require.Len(t, cfg.Destinations, 3)
	require.Equal(t, defaultTimeout, cfg.Destinations[0].Timeout)
	require.Equal(t, defaultGiveUp, cfg.Destinations[0].GiveUp)
	require.Equal(t, 2*time.Hour, cfg.Destinations[1].GiveUp)
	require.Equal(t, securityStartTLS, cfg.Destinations[2].Mail.Security)
}

func TestParseRefuses(t *testing.T) {
	hook := "destinations:\n  - name: a\n    webhook: {url: https://example.org/x}\n"
	post := "destinations:\n  - name: a\n    mail: {server: 'smtp.example.org:587', from: a@example.org, to: [b@example.org]}\n"
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":              {"", "names no destinations"},
		"a key misspelt":       {strings.Replace(hook, "url:", "urll:", 1), `notify.yaml:3: there is no key "urll" here; did you mean "url"?`},
		"a key of elsewhere":   {hook + "    subject: x\n", `notify.yaml:4: there is no key "subject" here; it takes name, webhook`},
		"a word for a time":    {hook + "    timeout: soon\n", "notify.yaml:4:"},
		"two of a name":        {hook + "  - name: a\n    webhook: {url: https://example.org/y}\n", `notify.yaml:4: destination "a" is there twice`},
		"a name that is none":  {strings.Replace(hook, "name: a", "name: A b", 1), "want lower-case letters"},
		"neither":              {"destinations: [{name: a}]\n", "want either webhook: or mail:"},
		"both":                 {post + "    webhook: {url: https://example.org/x}\n", "want either webhook: or mail:"},
		"too long a timeout":   {hook + "    timeout: 2m\n", "timeout 2m0s: want more than 0s and 1m0s at most"},
		"no time to give up":   {hook + "    give_up: 1ms\n", "give_up 1ms"},
		"a state misspelt":     {hook + "    states: [DETECTD]\n", "did you mean DETECTED?"},
		"no states":            {hook + "    states: []\n", "leave it out for DETECTED"},
		"an expression":        {hook + "    when: severity ==\n", "when: "},
		"no address":           {strings.Replace(hook, "https://example.org/x", "example.org", 1), "begins with https://"},
		"another protocol":     {strings.Replace(hook, "https", "file", 1), "begins with https://"},
		"a password":           {strings.Replace(hook, "https://", "https://me:s3cret@", 1), "put the address into a file"},
		"a header in the open": {strings.Replace(hook, "https://example.org/x", "http://example.org/x, headers: {X-Api-Key: abc}", 1), "readable on their way"},
		"a secret in the open": {strings.Replace(hook, "https://example.org/x", "http://example.org/x, bearer_token_file: token", 1), "readable on their way"},
		"a secret address":     {strings.Replace(hook, "url: https://example.org/x", "url_file: plain-hook", 1), "readable on their way"},
		"no file":              {strings.Replace(hook, "/x}", "/x, bearer_token_file: gone}", 1), "no such file"},
		"an empty file":        {strings.Replace(hook, "/x}", "/x, bearer_token_file: empty}", 1), "is empty"},
		"two lines":            {strings.Replace(hook, "/x}", "/x, bearer_token_file: two}", 1), "more than one line"},
		"no key":               {strings.Replace(hook, "/x}", "/x, signing_key_file: key}", 1), "no base64"},
		"a header of ours":     {strings.Replace(hook, "/x}", "/x, headers: {Ce-Id: 1}}", 1), "set already"},
		"a header of two":      {strings.Replace(hook, "/x}", "/x, headers: {\"X\": \"a\\nb\"}}", 1), "can't have"},
		"a template":           {strings.Replace(hook, "/x}", "/x, body: '{{.Sampel}}'}", 1), "can't evaluate field Sampel"},
		"an optional member":   {strings.Replace(hook, "/x}", "/x, body: '{{.Allele.Pos}}'}", 1), "optional need {{with}}"},
		"no JSON":              {strings.Replace(hook, "/x}", "/x, body: '{\"text\": \"{{json .Reason}}\"}'}", 1), "no JSON"},
		"an endless template":  {strings.Replace(hook, "/x}", "/x, body: '{{define \"a\"}}xxxxxxxx{{template \"a\" .}}{{end}}{{template \"a\" .}}'}", 1), "template"},
		"authorities":          {strings.Replace(hook, "/x}", "/x, tls: {ca_file: token}}", 1), "no certificate in PEM"},
		"half a certificate":   {strings.Replace(hook, "/x}", "/x, tls: {cert_file: token}}", 1), "go together"},
		"a server":             {strings.Replace(post, ":587", "", 1), "want host:port"},
		"half a login":         {strings.Replace(post, "from:", "user: me, from:", 1), "user and password_file go together"},
		"an open password":     {strings.Replace(post, "from:", "user: me, password_file: token, security: none, from:", 1), "not sent without TLS"},
		"security":             {strings.Replace(post, "from:", "security: ssl, from:", 1), `security "ssl"`},
		"a sender":             {strings.Replace(post, "from: a@example.org", "from: me", 1), `from "me"`},
		"a recipient":          {strings.Replace(post, "b@example.org", "b", 1), `to "b"`},
		"no recipients":        {strings.Replace(post, "[b@example.org]", "[]", 1), "names nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := inFolder(t, tt.text)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "s3cret")
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("destinations:\n  - name: a\n    webhook: {url: https://example.org/x, body: '{{.Sample}}'}\n    when: severity == 'x'\n")
	f.Add("destinations: [{name: a, mail: {server: 'a:1', from: a@b, to: [c@d], subject: '{{.State}}'}}]")
	f.Add("destinations: {a: b}\n")
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := Parse("notify.yaml", []byte(text))
		if (cfg == nil) == (err == nil) {
			t.Fatalf("%v, %v", cfg, err)
		}
	})
}

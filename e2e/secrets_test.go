package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streamtest"
)

const (
	markedPassword = "marked-password-8f31c2"
	wrongPassword  = "marked-mistake-77ab90"
	markedHeader   = "marked-header-51d09e"
	markedToken    = "marked-token-c60b17"
)

// leaks says which secret a text holds, in which form.
func leaks(text []byte, secrets ...string) string {
	for _, s := range secrets {
		for form, v := range map[string]string{
			"as it is": s, "in base64": base64.StdEncoding.EncodeToString([]byte(s)), "in hex": hex.EncodeToString([]byte(s)),
			// What SASL PLAIN sends.
			"in PLAIN": base64.StdEncoding.EncodeToString([]byte("\x00pore\x00" + s)),
		} {
			if bytes.Contains(text, []byte(strings.TrimRight(v, "="))) {
				return fmt.Sprintf("%q %s", s, form)
			}
		}
	}
	return ""
}

// The programs show their secrets nowhere: not in what they print, at any
// level, not in what they answer over HTTP, and not in their command lines.
func TestSecretsAreShownNowhere(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the services")
	}
	t.Parallel()
	id, err := streamtest.NewIdentity()
	require.NoError(t, err)
	conf, err := id.ServerConfig()
	require.NoError(t, err)
	opts := []kfake.Opt{kfake.TLS(conf), kfake.EnableSASL()}
	for _, m := range []string{kafka.MechanismPlain, kafka.MechanismScramSHA256, kafka.MechanismScramSHA512} {
		opts = append(opts, kfake.Superuser(m, "pore", markedPassword))
	}
	addr := streamtest.Kfake(t, opts...).ListenAddrs()[0]
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	key := strings.Split(strings.TrimSpace(string(id.KeyPEM)), "\n")[1]
	secrets := []string{markedPassword, wrongPassword, markedHeader, markedToken, key}
	require.NotEmpty(t, leaks([]byte("sent "+base64.StdEncoding.EncodeToString([]byte("\x00pore\x00"+markedPassword))), secrets...))
	common := []string{
		"--brokers", addr, "--tls-ca", file("ca.pem", id.CAPEM), "--tls-cert", file("client.crt", id.CertPEM),
		"--tls-key", file("client.key", id.KeyPEM), "--sasl-user", "pore", "--log-level", "DEBUG",
	}
	// A receiver of traces that says what it was sent.
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, fmt.Sprint(r.Header), http.StatusBadRequest)
	}))
	defer receiver.Close()
	watched := []string{
		"--trace-endpoint", receiver.URL, "--trace-protocol", "http/protobuf", "--trace-sample", "1",
		"--trace-headers-file", file("headers", []byte("authorization: Bearer "+markedHeader+"\n")), "--profile", "--profile-token-file", file("token", []byte(markedToken)),
	}
	right, wrong := file("password", []byte(markedPassword+"\n")), file("wrong", []byte(wrongPassword+"\n"))
	services := map[string][]string{
		"ingest":    append(slices.Clone(watched), "--pace", "0.01", lambda("reads.pod5")),
		"processor": append(slices.Clone(watched), "--ref", lambda("reference.fa"), "--stages", "variant"),
	}
	for name, args := range services {
		for _, mechanism := range []string{kafka.MechanismPlain, kafka.MechanismScramSHA512} {
			t.Run(name+" "+mechanism, func(t *testing.T) {
				listen := freeAddress(t)
				all := append([]string{"--listen", listen, "--sasl-mechanism", mechanism}, common...)
				var environment []string
				if mechanism == kafka.MechanismPlain {
					all = append(all, "--sasl-password-file", right)
				} else {
					environment = []string{"PORESTREAM_SASL_PASSWORD=" + markedPassword}
				}
				if name == "ingest" {
					all = append(all, "--spool", filepath.Join(t.TempDir(), "spool"))
				}
				s := exec.CommandContext(t.Context(), filepath.Join(bin, name), append(all, args...)...)
				s.Env = append(os.Environ(), environment...)
				var printed bytes.Buffer
				s.Stdout, s.Stderr = &printed, &printed
				require.NoError(t, s.Start())
				streamtest.Eventually(t.Context(), t, "the service", func() bool {
					res, err := http.Get("http://" + listen + "/readyz")
					if err != nil {
						return false
					}
					res.Body.Close()
					return res.StatusCode == http.StatusOK
				})
				for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/debug/vars", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2"} {
					res, err := http.Get("http://" + listen + path)
					require.NoError(t, err)
					body, err := io.ReadAll(res.Body)
					require.NoError(t, err)
					res.Body.Close()
					require.Empty(t, leaks(body, secrets...), "answer to %s", path)
				}
				commandLine, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.Process.Pid))
				if !os.IsNotExist(err) { // not on every system
					require.NoError(t, err)
					require.Empty(t, leaks(commandLine, secrets...), "command line")
				}
				require.NoError(t, s.Process.Signal(os.Interrupt))
				_ = s.Wait() // what it prints counts
				require.NotEmpty(t, printed.String())
				require.Empty(t, leaks(printed.Bytes(), secrets...), "output: %s", printed.String())
			})
		}
	}
	for name, command := range map[string][]string{
		"consume": {"pore", "consume", "--until-end"}, "topics": {"pore", "topics", "check"}, "dlq": {"pore", "dlq", "ls"},
		"wrong": {"pore", "consume"}, "ingest wrong": {"ingest", "--spool", filepath.Join(dir, "spool"), lambda("")},
	} {
		t.Run("pore "+name, func(t *testing.T) {
			password := right
			if strings.Contains(name, "wrong") {
				password = wrong
			}
			args := append(command[1:], common...)
			c := exec.CommandContext(t.Context(), filepath.Join(bin, command[0]), append(args, "--sasl-mechanism", kafka.MechanismPlain, "--sasl-password-file", password)...)
			out, err := c.CombinedOutput()
			if strings.Contains(name, "wrong") {
				require.Error(t, err)
				require.Contains(t, string(out), "wrong user, password or mechanism")
			}
			require.Empty(t, leaks(out, secrets...), "output: %s", out)
		})
	}
}

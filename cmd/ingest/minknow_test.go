package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/ingest/minknow"
)

func TestMinKNOWFlags(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no host", nil, "--host is needed"},
		{"no such port", []string{"--host", "h", "--port", "0"}, "--port is 0"},
		{"a certificate without a key", []string{"--host", "h", "--minknow-ca", ca, "--minknow-cert", "c"}, "--minknow-cert and --minknow-key go together"},
		{"a length of chunks", []string{"--host", "h", "--minknow-ca", ca, "--chunk", "2s"}, "--chunk: MinKNOW cuts the signal"},
		{"no runs", []string{"--host", "h", "--minknow-ca", ca, "--max-runs", "0"}, "--max-runs must be positive"},
		{"no classes", []string{"--host", "h", "--minknow-ca", ca, "--classes", ""}, "--classes must name one"},
		{"a dry run of nothing", []string{"--host", "h", "--minknow-ca", ca, "--adaptive-dry-run"}, "--adaptive-dry-run does nothing without --adaptive"},
		{"no actions", []string{"--host", "h", "--minknow-ca", ca, "--adaptive", "--adaptive-rate", "0"}, "--adaptive-rate and --unblock-duration must be positive"},
		{"a long reversal", []string{"--host", "h", "--minknow-ca", ca, "--adaptive", "--unblock-duration", "2m"}, "a reversal of 2m0s"},
		{"a file", []string{"--host", "h", "reads.pod5"}, `unknown command "reads.pod5"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range []string{caVariable, certVariable, keyVariable, tokenVariable} {
				t.Setenv(name, "")
			}
			cmd := command()
			cmd.SetArgs(append([]string{"minknow", "--brokers", "127.0.0.1:1"}, tt.args...))
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			require.ErrorContains(t, cmd.Execute(), tt.want)
		})
	}
}

// TestMinKNOWEnvironment: ingest reads the settings that MinKNOW's own clients
// take from the environment; flags come first.
func TestMinKNOWEnvironment(t *testing.T) {
	t.Setenv(caVariable, "ca")
	t.Setenv(certVariable, "cert")
	t.Setenv(keyVariable, "key")
	t.Setenv(tokenVariable, "secret")
	t.Setenv(localTokenVariable, "no")
	c := minknow.Config{Host: "h", Port: 9501, Classes: minknow.DefaultClasses()}
	require.NoError(t, completeMinKNOW(&c))
	require.Equal(t, []string{"ca", "cert", "key", "secret"}, []string{c.CA, c.Cert, c.Key, c.Token})
	require.False(t, *c.UseLocalToken)

	c = minknow.Config{Host: "h", Port: 9501, Classes: minknow.DefaultClasses(), CA: "a", Cert: "b", Key: "c", TokenFile: "d"}
	require.NoError(t, completeMinKNOW(&c))
	require.Equal(t, []string{"a", "b", "c", "", "d"}, []string{c.CA, c.Cert, c.Key, c.Token, c.TokenFile})
}

package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/ingest/minknow/minknowsim"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream/streamtest"
	"github.com/porestream/porestream/testenv"
)

// minknowPython is an interpreter that the simulated MinKNOW runs in.
func minknowPython(t testing.TB) string {
	t.Helper()
	return testenv.Python(t, "PORESTREAM_MINKNOW_PYTHON", "minknow-api", "minknow_api", "grpc", "numpy")
}

// minknowToken is what the simulated MinKNOW wants to be shown.
const minknowToken = "marked-token-51c0de"

// simulated is a simulated MinKNOW, with the folder of its certificates and of its
// clients' token.
type simulated struct {
	*minknowsim.Sim
	certs string
	log   *testenv.Log
}

// startMinKNOW starts one that plays a recording.
func startMinKNOW(t testing.TB, reads string, args ...string) *simulated {
	t.Helper()
	return startMinKNOWWith(t, reads, time.Hour, args...)
}

// startMinKNOWWith starts one whose certificate holds for a time.
func startMinKNOWWith(t testing.TB, reads string, valid time.Duration, args ...string) *simulated {
	t.Helper()
	python := minknowPython(t)
	dir := t.TempDir()
	index, err := signal.NewIndex(t.Context(), []string{reads})
	require.NoError(t, err)
	defer index.Close()
	lines, err := os.Create(filepath.Join(dir, "reads.jsonl"))
	require.NoError(t, err)
	defer lines.Close()
	require.NoError(t, minknowsim.WriteReads(lines, index, 0))
	authority, err := streamtest.NewAuthority()
	require.NoError(t, err)
	id, err := authority.Issue("localhost", valid)
	require.NoError(t, err)
	s := &simulated{certs: filepath.Join(dir, "certs"), log: new(testenv.Log)}
	require.NoError(t, minknowsim.WriteCerts(s.certs, id.CAPEM, id.CertPEM, id.KeyPEM))
	require.NoError(t, os.WriteFile(s.token(), []byte(minknowToken+"\n"), 0o600))
	s.Sim, err = minknowsim.Start(minknowsim.Config{
		Python: python, Reads: lines.Name(), Certs: s.certs, Dir: filepath.Join(dir, "sim"), Log: s.log,
		Args: append([]string{"--token", minknowToken}, args...),
	})
	require.NoError(t, err, s.log)
	t.Cleanup(s.Kill)
	return s
}

func (s *simulated) token() string { return filepath.Join(s.certs, "token") }

// follow are the arguments of an ingest that follows it.
func (s *simulated) follow(args ...string) []string {
	return append([]string{"minknow", "--host", "127.0.0.1", "--port", strconv.Itoa(s.Port), "--minknow-ca", filepath.Join(s.certs, "ca.crt"),
		"--token-file", s.token()}, args...)
}

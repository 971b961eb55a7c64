package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/porestream/porestream/stream/streamtest"
)

// TestInterrupt stops a demo in the middle: it ends in order and leaves neither
// a file nor a process.
func TestInterrupt(t *testing.T) {
	tmp := t.TempDir()
	cmd := exec.Command(filepath.Join(bin, "pore"), "demo", "--data", lambda(""))
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	// A process group of its own, to see whether anything is left of it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	lines := bufio.NewReader(stdout)
	for _, want := range []string{"live page: http://", "Playing 243 reads"} {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, line, want)
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Error(t, cmd.Wait())
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	require.Equal(t, "pore demo: interrupted\n", stderr.String())
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
	require.ErrorIs(t, syscall.Kill(-cmd.Process.Pid, 0), syscall.ESRCH, "processes are left")
}

// TestNothingIsLeftBehind basecalls a read with every folder for private files made
// empty: neither Porestream nor what it is linked with writes there (ONNX Runtime
// keeps an identifier and a cache for its telemetry when that is on).
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	cmd := exec.Command(filepath.Join(bin, "pore"), "basecall", "--reads", someReads(t, 1), lambda("reads.pod5"))
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "XDG_") && !strings.HasPrefix(name, "ORT_DISABLE") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "HOME="+home, "TMPDIR="+home)
	cmd.Dir = home
	called, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, 4, strings.Count(string(called), "\n"))
	left, err := os.ReadDir(home)
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestPasswords speaks to a broker that asks for one.
func TestPasswords(t *testing.T) {
	t.Parallel()
	addr := streamtest.Kfake(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "lab", "right")).ListenAddrs()[0]
	dir := t.TempDir()
	file := func(name, password string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(password+"\n"), 0o600))
		return path
	}
	args := func(password string) []string {
		return []string{"run", "--brokers", addr, "--ref", lambda("reference.fa"), "--out", filepath.Join(dir, "out"),
			"--sasl-mechanism", "SCRAM-SHA-256", "--sasl-user", "lab", "--sasl-password-file", password, lambdaReads(t)}
	}
	res := pore(t, args(file("wrong", "s3cret-wrong"))...)
	require.Equal(t, 1, res.code)
	require.Equal(t, 1, strings.Count(res.stderr, "\n"), res.stderr)
	require.Contains(t, res.stderr, "password")
	require.NotContains(t, res.stderr, "s3cret")

	res = pore(t, "consume", "--brokers", addr)
	require.Equal(t, 1, res.code)
	require.Equal(t, 1, strings.Count(res.stderr, "\n"), res.stderr)
	require.Contains(t, res.stderr, "user and password")

	if !testing.Short() {
		res = pore(t, append(args(file("right", "right")), "--variant-model", "none", "--device", recordedNetwork(t, "1ms:32"))...)
		require.Zero(t, res.code, res.stderr)
	}
}

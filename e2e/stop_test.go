package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

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

// TestStoppedWhileItStarts stops commands as soon as they have sent Kafka so many requests. What runs until it is stopped has done what it was
// asked for, wherever it was; what has an end of its own has not reached it.
func TestStoppedWhileItStarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	sources := func(addr string) string {
		return file(addr+".yaml", "kafka: {brokers: [\""+addr+"\"]}\nlisten: 127.0.0.1:0\nsources:\n- {kind: folder, name: nas, folders: [.], journal: journal}\n")
	}
	notify := file("notify.yaml", "destinations:\n- {name: lims, states: [ANY], webhook: {url: 'http://127.0.0.1:1/'}}\n")
	authority, err := streamtest.NewAuthority()
	require.NoError(t, err)
	id, err := authority.Issue("localhost", time.Hour)
	require.NoError(t, err)
	ref := lambda("reference.fa")
	// A MinKNOW that says nothing: a command that is stopped while it waits has met no fault.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	_, port, err := net.SplitHostPort(silent.Addr().String())
	require.NoError(t, err)
	early, later := []int32{1, 3}, []int32{1, 3, 6, 9}
	for _, tt := range []struct {
		command string // with Kafka's address for ADDR
		ends    bool   // by itself
		at      []int32
	}{
		{"processor --brokers ADDR --listen 127.0.0.1:0 --stages annotate --ref " + ref, false, later},
		{"processor --brokers ADDR --listen 127.0.0.1:0 --stages variant,annotate --ref " + ref, false, later},
		{"ingest folder --brokers ADDR --listen 127.0.0.1:0 --journal folder " + dir, false, later},
		{"ingest reads --brokers ADDR --listen 127.0.0.1:0 --journal reads " + dir, false, later},
		{"ingest serve --brokers ADDR --listen 127.0.0.1:0 --push-listen 127.0.0.1:0", false, later},
		{"ingest minknow --brokers ADDR --listen 127.0.0.1:0 --host 127.0.0.1 --port " + port + " --token-file " + file("token", "0123\n") + " --minknow-ca " + file("ca.crt", string(id.CAPEM)), false, early},
		{"ingest run SOURCES", false, later},
		{"pore notify --brokers ADDR --config " + notify, false, later},
		{"pore consume --brokers ADDR", false, later},
		{"pore consume --brokers ADDR --alerts", false, later},
		{"ingest play --brokers ADDR --listen 127.0.0.1:0 --pace 1 " + lambda("reads.pod5"), true, early},
		{"pore consume --brokers ADDR --until-end", true, early},
		{"pore consume --brokers ADDR --format vcf --ref " + ref, true, early},
	} {
		for _, at := range tt.at {
			name, _, _ := strings.Cut(tt.command, " --brokers")
			t.Run(fmt.Sprint(name, " ", at), func(t *testing.T) {
				t.Parallel()
				cluster := streamtest.Kfake(t)
				addr := cluster.ListenAddrs()[0]
				created := pore(t, "topics", "create", "--brokers", addr, "--partitions", "2", "--panels")
				require.Zero(t, created.code, created.stderr)
				args := strings.Fields(strings.NewReplacer("ADDR", addr, "SOURCES", sources(addr)).Replace(tt.command))
				cmd := exec.Command(filepath.Join(bin, args[0]), args[1:]...)
				cmd.Dir = dir
				var stderr strings.Builder
				cmd.Stderr = &stderr
				requests, started, exited := int32(0), make(chan struct{}), make(chan struct{})
				cluster.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
					cluster.KeepControl()
					if requests++; requests == at {
						<-started
						assert.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
						if tt.ends || at == 1 { // it doesn't wait for an answer, and isn't at its end with one
							<-exited
						}
					}
					return nil, nil, false
				})
				require.NoError(t, cmd.Start())
				close(started)
				err := cmd.Wait()
				close(exited)
				if !tt.ends {
					require.NoError(t, err, &stderr)
					require.NotContains(t, stderr.String(), "interrupted")
					return
				}
				require.Equal(t, 1, cmd.ProcessState.ExitCode(), &stderr)
				require.Contains(t, stderr.String(), ": interrupted\n")
			})
		}
	}
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

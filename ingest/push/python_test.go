package push

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/testenv"
)

// python is an interpreter that has grpcio and grpcio-tools.
func python(t *testing.T) string {
	t.Helper()
	return testenv.Python(t, "PORESTREAM_PUSH_PYTHON", "grpcio grpcio-tools", "grpc", "grpc_tools")
}

// TestPythonDevice: the example in the documentation, which knows nothing but the
// contract, pushes a run over TLS with a token, to a server that it finds dead at
// first.
func TestPythonDevice(t *testing.T) {
	interpreter := python(t)
	stubs := t.TempDir()
	generate := exec.CommandContext(t.Context(), interpreter, "-m", "grpc_tools.protoc",
		"-I", filepath.Join("..", "..", "push", "pushpb"), "--python_out", stubs, "--grpc_python_out", stubs, "push.proto")
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	certs := newCertificates(t)
	token, hash := NewToken()
	devices := filepath.Join(t.TempDir(), "devices.yaml")
	writeFile(t, devices, "devices:\n- name: bench-1\n  tokens:\n  - {sha256: "+hash+", expires: 2100-01-01T00:00:00Z}\n")

	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	device := func(token string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, interpreter, filepath.Join("..", "..", "docs", "attach", "push.py"), address, token, certs.ca)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+stubs, "PYTHONDONTWRITEBYTECODE=1")
		return cmd
	}
	good := device(token)
	var stdout, stderr strings.Builder
	good.Stdout, good.Stderr = &stdout, &stderr
	if err := good.Start(); err != nil {
		t.Fatal(err)
	}
	kafka := newFakeKafka()
	authority, err := NewAuthority(AuthorityConfig{Defaults: testLimits, DevicesPath: devices})
	if err != nil {
		t.Fatal(err)
	}
	p := &process{fakeKafka: kafka}
	server, err := NewServer(Config{
		Ingest: ingest.ServiceConfig{
			Config:             ingest.Config{Topics: stream.NewTopics(""), Partitions: 1},
			TransactionTimeout: time.Minute, MaxBuffered: 64 << 20, Cluster: p,
		},
		Catalogue: p, Authority: authority, Runs: 4, Idle: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	if listener, err = new(net.ListenConfig).Listen(ctx, "tcp", address); err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		served <- server.Run(serving, listener, grpc.Creds(credentials.NewTLS(certs.server(t, false))))
	}()
	if err := good.Wait(); err != nil || stdout.String() != "the run is in Kafka: 5 chunks\n" {
		t.Fatalf("%v, %s%s", err, stdout.String(), stderr.String())
	}
	out, err := device("pspush_wrong").CombinedOutput()
	if err == nil || string(out) != "UNAUTHENTICATED: the token is not that of any device\n" {
		t.Errorf("%v, %s", err, out)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	got := kafka.chunks("example-run")
	if len(got) != 5 || !got[4].GetEndOfRead() {
		t.Fatalf("%d chunks", len(got))
	}
	var samples []int16
	for _, c := range got {
		if samples, err = vbz.Decode(samples, c.GetVbz(), int(c.GetSampleCount())); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range samples {
		if want := int16(400 + i*37%200); s != want {
			t.Fatalf("sample %d is %d, want %d", i, s, want)
		}
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

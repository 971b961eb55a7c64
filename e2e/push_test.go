package e2e

import (
	"context"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/push"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streamtest"
)

// attachedServer is an `ingest serve` that can be killed and started again, with a
// network that can be cut before it.
type attachedServer struct {
	address string
	args    []string
	cmd     *exec.Cmd

	mu    sync.Mutex
	conns []net.Conn
}

func startServe(t *testing.T, broker, prefix string, args ...string) *attachedServer {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &attachedServer{address: listener.Addr().String()}
	require.NoError(t, listener.Close())
	s.args = append([]string{
		"serve", "--brokers", broker, "--topic-prefix", prefix, "--partitions", "3", "--listen", "127.0.0.1:0", "--push-listen", s.address,
	}, args...)
	s.start(t)
	t.Cleanup(func() { s.kill() })
	return s
}

func (s *attachedServer) start(t *testing.T) {
	t.Helper()
	s.cmd = exec.Command(filepath.Join(bin, "ingest"), s.args...)
	require.NoError(t, s.cmd.Start())
}

func (s *attachedServer) kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

func (s *attachedServer) dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, c)
	return c, nil
}

// cut cuts the connections, and returns how many there were.
func (s *attachedServer) cut() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.conns {
		if c.Close() == nil {
			n++
		}
	}
	s.conns = nil
	return n
}

// pushRecording pushes a recording as `ingest` would play it, with disconnections
// and kills of the server at random moments.
func pushRecording(ctx context.Context, t *testing.T, server *attachedServer, reads string, disconnects, kills int) {
	t.Helper()
	rec, err := signal.NewIndex(ctx, []string{reads})
	require.NoError(t, err)
	defer rec.Close()
	client, err := push.Dial(push.Config{
		Target: "passthrough:///" + server.address, MaxUnacked: 2 << 20, DialOptions: []grpc.DialOption{grpc.WithContextDialer(server.dial)},
	})
	require.NoError(t, err)
	defer client.Close()
	d := ingest.Describe(rec.Runs()[0], "")
	run, err := client.Open(ctx, push.RunInfo{
		ID: d.GetId(), Sample: d.GetSample(), SampleRate: d.GetSampleRate(), Experiment: d.GetExperiment(), FlowCell: d.GetFlowCell(),
		FlowCellProduct: d.GetFlowCellProduct(), Kit: d.GetKit(), Position: d.GetPosition(), Device: d.GetDevice(), PoreType: d.GetPoreType(),
		StartTime: time.UnixMilli(d.GetStartTimeMs()),
	})
	require.NoError(t, err)

	plans := schedule(rec, d.GetSampleRate())
	rng := rand.New(rand.NewPCG(7, 7))
	cut, kill := make(map[int]bool), make(map[int]bool)
	for len(cut) < disconnects {
		cut[1+rng.IntN(len(plans)-1)] = true
	}
	for len(kill) < kills {
		kill[1+rng.IntN(len(plans)-1)] = true
	}
	were, acked := 0, uint64(0)
	for i, plan := range plans {
		e := rec.Entry(plan.Read)
		samples, err := rec.Samples(plan.Read, nil)
		require.NoError(t, err)
		chunk := push.Chunk{
			Channel: e.Channel, ReadID: e.ID, ReadStart: e.StartSample, ReadNumber: e.Number, Well: uint32(e.Well), Number: uint32(plan.Number),
			FirstSample: uint64(plan.First), Samples: samples[plan.First : plan.First+plan.Count],
			Offset: e.Calibration.Offset, Scale: e.Calibration.Scale, EndOfRead: plan.Last,
		}
		if plan.Last {
			chunk.EndReason = e.EndReason.String()
		}
		require.NoError(t, run.Send(ctx, chunk))
		require.GreaterOrEqual(t, run.Acknowledged(), acked)
		acked = run.Acknowledged()
		if kill[i] {
			server.kill()
			server.start(t)
		}
		if cut[i] {
			// There has to be something to cut.
			streamtest.Eventually(ctx, t, "a connection", func() bool { return server.cut() > 0 })
			were++
		}
	}
	require.Equal(t, disconnects, were)
	require.NoError(t, run.End(ctx, false))
	require.EqualValues(t, len(plans), run.Acknowledged())
}

// schedule is the order in which `ingest` plays a recording's only run.
func schedule(rec *signal.Index, rate uint32) []ingest.ChunkPlan {
	var reads []ingest.PlannedRead
	for i := range rec.Len() {
		e := rec.Entry(i)
		reads = append(reads, ingest.PlannedRead{Channel: e.Channel, Start: e.StartSample, Samples: e.NumSamples})
	}
	s := ingest.NewSchedule(reads, []int{int(rate)}, time.Second)
	var plans []ingest.ChunkPlan
	for {
		plan, ok := s.Next()
		if !ok {
			return plans
		}
		plans = append(plans, plan)
	}
}

// TestPushedSignal: over 20 disconnections and five kills of the server the signal
// topic becomes that of the recorded file, byte by byte.
func TestPushedSignal(t *testing.T) {
	t.Parallel()
	streamtest.Each(t, func(t *testing.T, broker string) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		client := connect(ctx, t, broker)
		res := command(t, "ingest", "--brokers", broker, "--topic-prefix", "played-", "--partitions", "3", "--listen", "127.0.0.1:0", lambda("reads.pod5"))
		require.Zero(t, res.code, res.stderr)
		server := startServe(t, broker, "pushed-", "--spool", filepath.Join(t.TempDir(), "spool"))
		pushRecording(ctx, t, server, lambda("reads.pod5"), 20, 5)
		want := committedSignal(t, client, stream.NewTopics("played-").Signal)
		got := committedSignal(t, client, stream.NewTopics("pushed-").Signal)
		for i := range want {
			require.NotEmpty(t, want[i])
			require.Len(t, got[i], len(want[i]), "partition %d", i)
			require.True(t, strings.Join(got[i], "") == strings.Join(want[i], ""), "partition %d has other records", i)
		}
	})
}

// TestServeErrors: wrong flags of `ingest serve` are reported in one line.
func TestServeErrors(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--push-listen", ":9102"}, "others can reach :9102: give --push-cert and --push-key"},
		{[]string{"--push-cert", "x"}, "--push-cert and --push-key go together"},
		{[]string{"--push-client-ca", "x"}, "--push-client-ca needs --push-cert"},
		{[]string{"--push-listen", "nonsense"}, "--push-listen"},
		{[]string{"--push-listen", "0.0.0.0:9102", "--push-cert", "x", "--push-key", "y"}, "give --devices or --push-client-ca"},
		{[]string{"--max-chunk-samples", "0"}, "goes from 1 to 300000"},
	} {
		res := command(t, "ingest", append([]string{"serve", "--brokers", "127.0.0.1:1"}, tt.args...)...)
		require.Equal(t, 2, res.code, res.stderr)
		require.Contains(t, res.stderr, tt.want)
	}
	res := command(t, "ingest", "token", "bench-1")
	require.Zero(t, res.code, res.stderr)
	lines := strings.Split(res.stdout, "\n")
	require.True(t, strings.HasPrefix(lines[0], "pspush_"))
	require.Contains(t, res.stdout, `- name: "bench-1"`)
	require.NotContains(t, strings.Join(lines[1:], "\n"), lines[0])
}

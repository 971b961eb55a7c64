package e2e

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/porestream/porestream/push/pushpb"
	"github.com/porestream/porestream/stream/streamtest"
)

// Tokens of the devices "bench" and "other".
const (
	deviceToken = "pspush_marked-device-08c7d1"
	otherToken  = "pspush_marked-other-77e2b5"
)

// pushServer is an `ingest serve` that serves one fault.
type pushServer struct {
	*fault
	address string
	devices string // the file
	dial    []grpc.DialOption
}

// deviceFile is a file of devices, with the limits of "bench".
func deviceFile(expires time.Time, limits string) []byte {
	return fmt.Appendf(nil, "devices:\n- name: bench\n  tokens:\n  - {sha256: %x, expires: %s}\n  limits: {%s}\n- name: other\n  tokens:\n  - {sha256: %x, expires: 2099-01-01T00:00:00Z}\n",
		sha256.Sum256([]byte(deviceToken)), expires.UTC().Format(time.RFC3339), limits, sha256.Sum256([]byte(otherToken)))
}

var never = time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)

// serves starts a server whose device "bench" has limits.
func (f *fault) serves(limits string, args ...string) *pushServer {
	f.Helper()
	return f.servesWith(deviceFile(never, limits), args...)
}

func (f *fault) servesWith(devices []byte, args ...string) *pushServer {
	f.Helper()
	s := &pushServer{fault: f, address: freeAddress(f), devices: f.write("devices.yaml", devices)}
	s.dial = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	f.runs(append([]string{"serve", "--push-listen", s.address, "--devices", s.devices}, args...)...)
	f.ready()
	return s
}

// servesCertified starts a server that asks for certificates of an authority, and
// gives one that holds for a time, of that authority or of another.
func (f *fault) servesCertified(valid time.Duration, name string, stranger bool) *pushServer {
	f.Helper()
	authority, err := streamtest.NewAuthority()
	require.NoError(f, err)
	server, err := authority.Issue("server", time.Hour)
	require.NoError(f, err)
	signs := authority
	if stranger {
		signs, err = streamtest.NewAuthority()
		require.NoError(f, err)
	}
	id, err := signs.Issue(name, valid)
	require.NoError(f, err)
	s := f.servesWith([]byte("devices:\n- name: bench\n"), "--push-cert", f.write("server.crt", server.CertPEM), "--push-key", f.write("server.key", server.KeyPEM),
		"--push-client-ca", f.write("ca.crt", server.CAPEM))
	cert, err := tls.X509KeyPair(id.CertPEM, id.KeyPEM)
	require.NoError(f, err)
	roots := x509.NewCertPool()
	require.True(f, roots.AppendCertsFromPEM(server.CAPEM))
	s.dial = []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: roots}))}
	return s
}

// device is one that knows nothing but the contract.
type device struct {
	*pushServer
	ctx    context.Context // carries its token
	api    pushpb.PushClient
	stream pushpb.Push_PushClient
}

// device connects one with a token; empty: none.
func (s *pushServer) device(token string) *device {
	s.Helper()
	conn, err := grpc.NewClient(s.address, s.dial...)
	require.NoError(s, err)
	s.Cleanup(func() { conn.Close() })
	ctx := s.fault.ctx
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	return &device{pushServer: s, ctx: ctx, api: pushpb.NewPushClient(conn)}
}

func pushedRun(id string) *pushpb.Run { return &pushpb.Run{Id: id, SampleRate: 4000} }

func (d *device) register(run *pushpb.Run) error {
	_, err := d.api.Register(d.ctx, &pushpb.RegisterRequest{Run: run})
	return err
}

// opens registers a run and opens its stream.
func (d *device) opens(run, session string) *device {
	d.Helper()
	require.NoError(d, d.register(pushedRun(run)))
	require.NoError(d, d.begin(run, session))
	return d
}

func (d *device) begin(run, session string) (err error) {
	if d.stream, err = d.api.Push(d.ctx); err != nil {
		return err
	}
	d.send(&pushpb.PushRequest{Body: &pushpb.PushRequest_Open{Open: &pushpb.Open{Run: run, Session: []byte(session)}}})
	_, err = d.stream.Recv()
	return err
}

// send sends; that the stream has ended is for Recv to say.
func (d *device) send(requests ...*pushpb.PushRequest) {
	for _, r := range requests {
		if d.stream.Send(r) != nil {
			return
		}
	}
}

// piece is a chunk of a read of 10 samples.
func piece(sequence uint64, channel uint32, read string, start, first uint64, edit ...func(*pushpb.Chunk)) *pushpb.PushRequest {
	c := &pushpb.Chunk{
		Sequence: sequence, Channel: channel, ReadId: read, ReadStart: start, FirstSample: first, Number: uint32(first / 10), SampleCount: 10,
		Samples: &pushpb.Chunk_Int16{Int16: make([]byte, 20)}, CalibrationScale: 1,
	}
	for _, e := range edit {
		e(c)
	}
	return &pushpb.PushRequest{Body: &pushpb.PushRequest_Chunk{Chunk: c}}
}

// long makes a chunk of so many samples, whose noise can't be packed.
func long(samples int) func(*pushpb.Chunk) {
	return func(c *pushpb.Chunk) {
		b := make([]byte, 2*samples)
		x := uint32(1)
		for i := range b {
			x = x*1664525 + 1013904223
			b[i] = byte(x >> 24)
		}
		c.SampleCount, c.Samples, c.EndOfRead = uint32(samples), &pushpb.Chunk_Int16{Int16: b}, true
	}
}

// ended waits until the stream has ended.
func (d *device) ended() error {
	for {
		if _, err := d.stream.Recv(); err != nil {
			return err
		}
	}
}

// notified waits for a notice.
func (d *device) notified() string {
	d.Helper()
	for {
		m, err := d.stream.Recv()
		require.NoError(d, err, "%s", &d.said)
		if n := m.GetNotice(); n != nil {
			return n.GetMessage()
		}
	}
}

// refused records the answer to a device.
func (f *fault) refused(err error) {
	f.Helper()
	require.Error(f, err)
	f.answers = append(f.answers, status.Convert(err).Message())
}

// pushes is a fault of a device that pushes chunks it should not.
func pushes(limits string, chunks ...*pushpb.PushRequest) func(*fault) {
	return func(f *fault) {
		d := f.serves(limits).device(deviceToken).opens("run", "")
		d.send(chunks...)
		f.refused(d.ended())
	}
}

var pushFaults = map[string]func(*fault){
	"a device has no token": func(f *fault) { f.refused(f.serves("").device("").register(pushedRun("run"))) },
	"a device's token is wrong": func(f *fault) {
		f.refused(f.serves("").device(wrongToken).register(pushedRun("run")))
	},
	"a device's token has expired": func(f *fault) {
		f.refused(f.servesWith(deviceFile(time.Now().Add(-time.Hour), "")).device(deviceToken).register(pushedRun("run")))
	},
	"a device's token expires while it pushes": func(f *fault) {
		s := f.servesWith(deviceFile(time.Now().Add(5*time.Second), ""))
		d := s.device(deviceToken)
		if err := d.register(pushedRun("run")); err != nil { // this machine is slow
			f.refused(err)
			return
		}
		if err := d.begin("run", ""); err != nil {
			f.refused(err)
			return
		}
		f.refused(d.ended())
	},
	"a device is taken out while it pushes": func(f *fault) {
		s := f.serves("")
		d := s.device(deviceToken).opens("run", "")
		devices, _, _ := strings.Cut(string(readFile(f, s.devices)), "- name: other")
		_, others, _ := strings.Cut(string(readFile(f, s.devices)), devices)
		require.NoError(f, os.WriteFile(s.devices, []byte("devices:\n"+others), 0o600))
		f.refused(d.ended())
	},
	"a device's certificate is of another authority": func(f *fault) {
		f.refused(f.servesCertified(time.Hour, "bench", true).device("").register(pushedRun("run")))
	},
	"a device's certificate has expired": func(f *fault) {
		f.refused(f.servesCertified(-time.Hour, "bench", false).device("").register(pushedRun("run")))
	},
	"a device's certificate is of none of the devices": func(f *fault) {
		f.refused(f.servesCertified(time.Hour, "stranger", false).device("").register(pushedRun("run")))
	},
	"the file of devices is damaged": func(f *fault) {
		s := f.serves("")
		require.NoError(f, os.WriteFile(s.devices, []byte("devices: ["), 0o600))
	},
	"the file of devices is damaged at the start": func(f *fault) {
		f.fails("serve", "--push-listen", "127.0.0.1:0", "--devices", f.write("devices.yaml", []byte("devices:\n- name: bench\n  tokens: [{sha256: "+deviceToken+"}]\n")))
	},
	"the push API's certificate can't be read": func(f *fault) {
		none := filepath.Join(f.TempDir(), "none.pem")
		f.fails("serve", "--push-listen", "127.0.0.1:0", "--push-cert", none, "--push-key", none)
	},
	"--push-listen is taken":                      func(f *fault) { f.fails("serve", "--push-listen", f.taken()) },
	"others could reach the push API without TLS": func(f *fault) { f.fails("serve", "--push-listen", ":9102") },

	"a device is over its bytes per second": func(f *fault) {
		d := f.serves("bytes_per_second: 1000").device(deviceToken).opens("run", "")
		d.send(piece(0, 1, "a", 0, 0, long(4000)), piece(1, 1, "b", 4000, 0, long(4000)), piece(2, 1, "c", 8000, 0, long(4000)), piece(3, 1, "d", 12000, 0, long(4000)))
		f.answers = append(f.answers, d.notified())
	},
	"a device is over its channels":   pushes("channels: 1", piece(0, 1, "a", 0, 0), piece(1, 2, "b", 0, 0)),
	"a device is over its open reads": pushes("open_reads: 1", piece(0, 1, "a", 0, 0), piece(1, 2, "b", 0, 0)),
	"a device is over its runs": func(f *fault) {
		d := f.serves("runs: 1").device(deviceToken).opens("run", "")
		f.refused(d.register(pushedRun("another")))
	},
	"too many runs are under way": func(f *fault) {
		d := f.serves("", "--max-runs", "1").device(deviceToken).opens("run", "")
		f.refused(d.register(pushedRun("another")))
	},
	"a device's chunk is too long": func(f *fault) {
		d := f.serves("", "--max-chunk-samples", "100").device(deviceToken).opens("run", "")
		d.send(piece(0, 1, "a", 0, 0, long(101)))
		f.refused(d.ended())
	},
	"a device's request is too big": pushes("", piece(0, 1, strings.Repeat("a", 1<<20), 0, 0)),
	"a run is not registered": func(f *fault) {
		f.refused(f.serves("").device(deviceToken).begin("run", ""))
	},
	"a run is registered with another description": func(f *fault) {
		d := f.serves("").device(deviceToken).opens("run", "")
		f.refused(d.register(&pushpb.Run{Id: "run", SampleRate: 5000}))
	},
	"a run's description can't be": func(f *fault) {
		f.refused(f.serves("").device(deviceToken).register(&pushpb.Run{Id: "run"}))
	},
	"a run is another device's": func(f *fault) {
		s := f.serves("")
		s.device(deviceToken).opens("run", "")
		f.refused(s.device(otherToken).register(pushedRun("run")))
	},
	"a run has two senders": func(f *fault) {
		s := f.serves("")
		first := s.device(deviceToken).opens("run", "one")
		s.device(deviceToken).opens("run", "two")
		f.refused(first.ended())
	},
	"a run has two servers": func(f *fault) {
		s := f.serves("")
		d := s.device(deviceToken).opens("run", "")
		d.send(piece(0, 1, "a", 0, 0))
		f.signalComesOf(1)
		address := freeAddress(f)
		second := f.command([]string{"serve", "--push-listen", address, "--devices", s.devices})
		require.NoError(f, second.Start())
		f.Cleanup(func() { second.Process.Kill(); second.Wait() })
		other := (&pushServer{fault: f, address: address, dial: append(slices.Clone(s.dial), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))}).device(deviceToken)
		require.NoError(f, other.register(pushedRun("run")))
		require.NoError(f, other.begin("run", ""))
		d.send(piece(1, 1, "a", 0, 10))
		f.refused(d.ended())
	},
	"a device's clock goes back":                  pushes("", piece(0, 1, "a", 100, 0, long(10)), piece(1, 1, "b", 109, 0)),
	"a device leaves out samples":                 pushes("", piece(0, 1, "a", 0, 0), piece(1, 1, "a", 0, 30)),
	"a device leaves out the end of a read":       pushes("", piece(0, 1, "a", 0, 0), piece(1, 1, "b", 10, 0)),
	"a device leaves out a chunk's number":        pushes("", piece(0, 1, "a", 0, 0), piece(2, 1, "a", 0, 10)),
	"a device's samples are damaged":              pushes("", piece(0, 1, "a", 0, 0, func(c *pushpb.Chunk) { c.Samples = &pushpb.Chunk_Vbz{Vbz: []byte("nonsense")} })),
	"a device says what has no place in a stream": pushes("", &pushpb.PushRequest{Body: &pushpb.PushRequest_Open{Open: &pushpb.Open{Run: "run"}}}),
	"a device pushes while Kafka is away": func(f *fault) {
		broker := f.kafka()
		d := f.serves("", "--max-buffered", "4MiB").device(deviceToken).opens("run", "")
		broker.Close()
		f.answers = append(f.answers, d.flooded())
	},
	"a device pushes while Kafka is away and the spool is full": func(f *fault) {
		broker := f.kafka()
		d := f.serves("", "--max-buffered", "4MiB", "--spool", filepath.Join(f.TempDir(), "spool"), "--spool-max", "2MiB").device(deviceToken).opens("run", "")
		broker.Close()
		f.answers = append(f.answers, d.flooded())
	},
	"a run begins while Kafka is away": func(f *fault) {
		broker := f.kafka()
		d := f.serves("").device(deviceToken)
		broker.Close()
		f.refused(d.register(pushedRun("run")))
	},
}

// flooded sends until the device gets a notice, which it returns.
func (d *device) flooded() string {
	go func() {
		for i := range uint64(1000) {
			if d.stream.Send(piece(i, 1, fmt.Sprint("read-", i), i*20_000, 0, long(20_000))) != nil {
				return
			}
		}
	}()
	return d.notified()
}

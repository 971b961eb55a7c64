package deploytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/modelfile/folder"
	"github.com/porestream/porestream/models"
	"github.com/porestream/porestream/push"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/embedded"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streamtest"
	"github.com/porestream/porestream/testenv"
)

// lab is a laboratory in small: a device that pushes signal in real time, ingest, two
// processors, a broker behind a network that can be blocked, and a Prometheus with the
// shipped rules in scaled time.
type lab struct {
	testing.TB
	ctx       context.Context
	began     time.Time
	root, dir string
	addrs     map[string]string

	broker  *kfake.Cluster
	network *network

	ingest, processor, watcher *program
	device                     *device
	prometheus                 promServer
}

// Context bounds all that the lab does.
func (l *lab) Context() context.Context { return l.ctx }

func newLab(ctx context.Context, t *testing.T) *lab {
	l := &lab{TB: t, ctx: ctx, began: time.Now(), root: testenv.Root(t), dir: t.TempDir(), addrs: make(map[string]string), network: new(network)}
	for _, name := range []string{"ingest", "push", "processor", "watcher", "prometheus"} {
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer ln.Close() // no name gets the address of another
		l.addrs[name] = ln.Addr().String()
	}
	l.broker = streamtest.Kfake(t, kfake.ListenFn(embedded.Patient(l.network.listen)), kfake.GroupMinSessionTimeout(time.Second))
	t.Cleanup(l.network.unblock)
	topics := stream.NewTopics("")
	client, err := kafka.Connect(ctx, kafka.Config{Brokers: []string{l.network.addr()}})
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.EnsureTopics(ctx, append(topics.Settings(2), topics.WatchSettings(1)...), 1))
	return l
}

// begin starts everything.
func (l *lab) begin() {
	l.writeSources("")
	l.ingest = l.program("ingest", "ingest", "run", filepath.Join(l.dir, "sources.yaml"))
	l.processor = l.program("processor", "processor", l.processing("processor", "basecall,variant,annotate", l.panel(1))...)
	l.watcher = l.program("watcher", "processor", l.watching("watcher", l.panel(1))...)
	for _, p := range []*program{l.ingest, l.processor, l.watcher} {
		p.start()
	}
	l.startPrometheus()
	l.device = newDevice(l)
}

// panel writes a version of a panel whose rule covers all variants.
func (l *lab) panel(version int) string {
	return l.write(fmt.Sprintf("panel%d.yaml", version), fmt.Sprintf(`panel: lab
version: %d
rules:
- {id: anything, match: {region: J02459.1}}
`, version))
}

func (l *lab) processing(name, stages, panel string) []string {
	lambda := filepath.Join(l.root, "testdata/lambda")
	return []string{
		"--brokers", l.network.addr(), "--listen", l.addrs[name], "--stages", stages, "--panel", panel, "--device", "cpu",
		"--ref", filepath.Join(lambda, "reference.fa"), "--gff", filepath.Join(lambda, "genes.gff3"),
		"--session-timeout", "10s", "--drain-timeout", "3s", "--snapshot-interval", "1s",
	}
}

func (l *lab) watching(name, panel string) []string { return l.processing(name, "watch", panel) }

// strangeModel is a folder of the shipped variant model as if it were for other reads than those
// that processors call by default.
func (l *lab) strangeModel() string {
	shipped, dir := filepath.Join(l.root, "models", models.DefaultVariant), filepath.Join(l.dir, "strange")
	require.NoError(l, os.MkdirAll(dir, 0o700))
	for _, name := range []string{folder.Manifest, "model.onnx"} {
		content, err := os.ReadFile(filepath.Join(shipped, name))
		require.NoError(l, err)
		if name == folder.Manifest {
			known := `models = ["` + models.Default + `"]`
			require.Contains(l, string(content), known)
			content = []byte(strings.Replace(string(content), known, `models = ["of-others"]`, 1))
		}
		require.NoError(l, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	return dir
}

func (l *lab) write(name, content string) string {
	path := filepath.Join(l.dir, name)
	// By a rename, as the program that watches the file reads it at any time.
	require.NoError(l, os.WriteFile(path+".new", []byte(content), 0o600))
	require.NoError(l, os.Rename(path+".new", path))
	return path
}

func (l *lab) startPrometheus() {
	shipped, err := os.ReadFile(filepath.Join(l.root, "deploy/prometheus/rules.yml"))
	require.NoError(l, err)
	scaled, err := scaleRules(shipped, rulesFactor)
	require.NoError(l, err)
	config := l.write("prometheus.yml", fmt.Sprintf(`global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 500ms}
rule_files: ["%s"]
scrape_configs:
- {job_name: ingest, static_configs: [{targets: ["%s"]}]}
- {job_name: processor, static_configs: [{targets: ["%s", "%s"]}]}
`, l.write("rules.yml", string(scaled)), l.addrs["ingest"], l.addrs["processor"], l.addrs["watcher"]))
	cmd := exec.CommandContext(l.ctx, "prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(l.dir, "tsdb"),
		"--web.listen-address="+l.addrs["prometheus"], "--log.level=warn")
	log, err := os.Create(filepath.Join(l.dir, "prometheus.log"))
	require.NoError(l, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(l, cmd.Start(), "Debian: apt-get install prometheus")
	l.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		log.Close()
	})
	l.prometheus = promServer{"http://" + l.addrs["prometheus"]}
	l.await("Prometheus", func() bool {
		req, err := http.NewRequestWithContext(l.ctx, http.MethodGet, l.prometheus.url+"/-/ready", nil)
		require.NoError(l, err)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// patience is how long anything is waited for. An alert takes seconds; a machine that
// others use as well takes its time.
const patience = 3 * time.Minute

func (l *lab) await(what string, ok func() bool) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.ctx, patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			for _, p := range []*program{l.ingest, l.processor, l.watcher} {
				if p != nil {
					l.Logf("%s says:\n%s", p.name, p.said())
				}
			}
			require.Fail(l, "waiting for "+what, "%v", ctx.Err())
		}
	}
}

// firing are the alerts that fire now.
func (l *lab) firing() map[string]bool {
	var data struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	l.prometheus.ask(l, "/api/v1/alerts", url.Values{}, &data)
	now := make(map[string]bool)
	for _, a := range data.Alerts {
		if a.State == "firing" {
			now[a.Labels["alertname"]] = true
		}
	}
	return now
}

// awaitFiring waits until each of the alerts has fired.
func (l *lab) awaitFiring(names ...string) {
	l.Helper()
	for _, name := range names {
		l.await(name+" to fire", func() bool { return l.firing()[name] })
		l.Logf("%5.1fs   %s fires", time.Since(l.began).Seconds(), name)
	}
}

// awaitQuiet waits until none of the alerts fires.
func (l *lab) awaitQuiet(names ...string) {
	l.Helper()
	for _, name := range names {
		l.await(name+" to be resolved", func() bool { return !l.firing()[name] })
	}
}

// awaitLatency waits until reads become annotated variants.
func (l *lab) awaitLatency() {
	l.Helper()
	l.await("annotated variants", func() bool {
		var data struct{ Result []any }
		l.prometheus.ask(l, "/api/v1/query", url.Values{"query": {`sum(rate(porestream_end_to_end_latency_seconds_count[5s])) > 0`}}, &data)
		return len(data.Result) > 0
	})
}

// awaitSaved waits until all partitions' states are saved in the usual time.
func (l *lab) awaitSaved() {
	l.Helper()
	l.await("snapshots", func() bool {
		var data struct{ Result []any }
		l.prometheus.ask(l, "/api/v1/query", url.Values{"query": {`time() - (porestream_stream_unsaved_timestamp_seconds > 0) > 5`}}, &data)
		return len(data.Result) == 0
	})
}

// produce writes a record as somebody else would.
func (l *lab) produce(topic string, value []byte) {
	client, err := kgo.NewClient(kgo.SeedBrokers(l.network.addr()))
	require.NoError(l, err)
	defer client.Close()
	require.NoError(l, client.ProduceSync(l.ctx, &kgo.Record{Topic: topic, Value: value}).FirstErr())
}

// resize gives a topic more partitions, as an administrator would.
func (l *lab) resize(topic string, partitions int32) {
	client, err := kgo.NewClient(kgo.SeedBrokers(l.network.addr()))
	require.NoError(l, err)
	defer client.Close()
	req, more := kmsg.NewPtrCreatePartitionsRequest(), kmsg.NewCreatePartitionsRequestTopic()
	more.Topic, more.Count = topic, partitions
	req.Topics = append(req.Topics, more)
	res, err := req.RequestWith(l.ctx, client)
	require.NoError(l, err)
	require.Len(l, res.Topics, 1)
	require.NoError(l, kerr.ErrorForCode(res.Topics[0].ErrorCode))
}

// network is what lies before the broker. While it is blocked, connections can be
// made and nothing comes through them.
type network struct {
	mu       sync.Mutex
	blocked  chan struct{} // closed when it no longer is; nil: it isn't
	listener net.Listener
}

func (n *network) listen(net_, address string) (net.Listener, error) {
	ln, err := net.Listen(net_, address) //nolint:noctx // returns at once
	if err != nil {
		return nil, err
	}
	n.listener = ln
	return gated{ln, n}, nil
}

func (n *network) addr() string { return n.listener.Addr().String() }

func (n *network) block() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.blocked == nil {
		n.blocked = make(chan struct{})
	}
}

func (n *network) unblock() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.blocked != nil {
		close(n.blocked)
		n.blocked = nil
	}
}

// pass waits until nothing is blocked.
func (n *network) pass() {
	for {
		n.mu.Lock()
		blocked := n.blocked
		n.mu.Unlock()
		if blocked == nil {
			return
		}
		<-blocked
	}
}

type gated struct {
	net.Listener
	network *network
}

func (g gated) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return gatedConn{conn, g.network}, nil
}

type gatedConn struct {
	net.Conn
	network *network
}

func (c gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.network.pass()
	return n, err
}

func (c gatedConn) Write(b []byte) (int, error) {
	c.network.pass()
	return c.Conn.Write(b)
}

// program is one of ours, which is started again when it ends by itself.
type program struct {
	l    *lab
	name string
	args []string
	log  string

	mu      sync.Mutex
	wanted  bool
	running *exec.Cmd
	ended   chan struct{} // closed when it is not run any more
}

func (l *lab) program(name, binary string, args ...string) *program {
	p := &program{l: l, name: name, args: append([]string{filepath.Join(l.root, "bin", binary)}, args...), log: filepath.Join(l.dir, name+".log")}
	l.Cleanup(func() { p.end(syscall.SIGKILL) })
	return p
}

func (p *program) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted, p.ended = true, make(chan struct{})
	first := make(chan error, 1)
	go p.keepRunning(first, p.ended)
	require.NoError(p.l, <-first, "make build")
}

func (p *program) keepRunning(first chan<- error, ended chan<- struct{}) {
	defer close(ended)
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		first <- err
		return
	}
	defer log.Close()
	for again := false; ; again = true {
		cmd := exec.Command(p.args[0], p.args[1:]...)
		cmd.Stdout, cmd.Stderr = log, log
		// Not the caller: that holds mu until the first start is done.
		if again {
			p.mu.Lock()
			if !p.wanted {
				p.mu.Unlock()
				return
			}
		}
		err := cmd.Start()
		p.running = cmd
		if again {
			p.mu.Unlock()
		} else {
			first <- err
		}
		if err != nil {
			return
		}
		err = cmd.Wait()
		p.mu.Lock()
		wanted := p.wanted
		p.running = nil
		p.mu.Unlock()
		if !wanted {
			return
		}
		fmt.Fprintf(log, "=== %s has ended (%v) and is started again\n", p.name, err)
		time.Sleep(300 * time.Millisecond)
	}
}

func (p *program) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		if err := p.running.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
			p.l.Errorf("sending %v to %s: %v", s, p.name, err)
		}
	}
}

// end ends the program by a signal, and waits until it has ended.
func (p *program) end(s syscall.Signal) {
	p.mu.Lock()
	p.wanted = false
	ended := p.ended
	p.mu.Unlock()
	if ended == nil {
		return
	}
	p.signal(syscall.SIGCONT)
	p.signal(s)
	<-ended
}

// throttle lets the program run for a share of the time, until stop is called.
func (p *program) throttle(share float64) (stop func()) {
	const period = 100 * time.Millisecond
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer p.signal(syscall.SIGCONT)
		runs := time.Duration(share * float64(period))
		for {
			p.signal(syscall.SIGCONT)
			time.Sleep(runs)
			p.signal(syscall.SIGSTOP)
			select {
			case <-over:
				return
			case <-time.After(period - runs):
			}
		}
	}()
	return func() { close(over); <-done }
}

// said is the end of the program's log.
func (p *program) said() string {
	b, _ := os.ReadFile(p.log)
	return string(b[max(0, len(b)-4000):])
}

// device pushes reads of a recording over a few channels in real time. It repeats each a
// number of times under new names, so that there are soon as many as it takes to call
// variants, and goes on to the next, so that there are always new ones.
type device struct {
	l      *lab
	client *push.Client
	info   push.RunInfo
	reads  []recordedRead
	runs   atomic.Int32

	drops  atomic.Bool  // chunks within reads
	pauses atomic.Bool  // between reads
	speed  atomic.Int32 // by the clock
}

type recordedRead struct {
	samples       []int16
	offset, scale float32
}

const (
	deviceChannels = 5
	chunkSamples   = 4000 // a second
	repeats        = 15
	// readChunks bounds the length of a read, so that there is soon an end of one.
	readChunks = 4
)

func newDevice(l *lab) *device {
	rec, err := signal.NewIndex(l.ctx, []string{filepath.Join(l.root, "testdata/lambda/reads.pod5")})
	require.NoError(l, err)
	defer rec.Close()
	d := &device{l: l}
	d.speed.Store(1)
	for i := range rec.Len() {
		e := rec.Entry(i)
		if e.NumSamples < 2*readChunks*chunkSamples {
			continue
		}
		samples, err := rec.Samples(i, nil)
		require.NoError(l, err)
		// From within the read, behind its adapter.
		d.reads = append(d.reads, recordedRead{samples[chunkSamples : (1+readChunks)*chunkSamples], e.Calibration.Offset, e.Calibration.Scale})
	}
	require.NotEmpty(l, d.reads)
	run := ingest.Describe(rec.Runs()[0], "")
	d.info = push.RunInfo{
		Sample: run.GetSample(), SampleRate: run.GetSampleRate(), FlowCell: run.GetFlowCell(),
		FlowCellProduct: run.GetFlowCellProduct(), Kit: run.GetKit(), Position: run.GetPosition(), Device: run.GetDevice(),
	}
	d.client, err = push.Dial(push.Config{Target: "passthrough:///" + l.addrs["push"]})
	require.NoError(l, err)
	l.Cleanup(func() { d.client.Close() })
	ctx, cancel := context.WithCancel(l.ctx)
	sequencing := d.open(ctx, d.info.SampleRate)
	var channels sync.WaitGroup
	for channel := range uint32(deviceChannels) {
		channels.Go(func() { d.sequence(ctx, sequencing, channel) })
	}
	l.Cleanup(func() { cancel(); sequencing.Close(); channels.Wait() })
	return d
}

// open begins a run of its own.
func (d *device) open(ctx context.Context, rate uint32) *push.Run {
	info := d.info
	info.ID, info.SampleRate = fmt.Sprintf("lab-%d", d.runs.Add(1)), rate
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	run, err := d.client.Open(ctx, info)
	require.NoError(d.l, err)
	return run
}

func newReadID() string {
	b := make([]byte, 16)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// sequence sends the reads of one channel, a chunk each second.
func (d *device) sequence(ctx context.Context, run *push.Run, channel uint32) {
	tick := func() bool {
		select {
		case <-time.After(time.Second / time.Duration(d.speed.Load())):
			return true
		case <-ctx.Done():
			return false
		}
	}
	at := uint64(0)
	for number := uint32(0); ; number++ {
		for d.pauses.Load() {
			if !tick() {
				return
			}
		}
		read, id, skipped := d.reads[d.turn(channel, number)], newReadID(), uint64(0)
		n := uint32(0)
		for i := range readChunks {
			if !tick() {
				return
			}
			if i == 1 && d.drops.Load() {
				skipped = chunkSamples
				continue
			}
			err := run.Send(ctx, push.Chunk{
				Channel: channel + 1, ReadID: id, ReadStart: at, ReadNumber: number, Well: 1, Number: n, FirstSample: uint64(i) * chunkSamples,
				Samples: read.samples[i*chunkSamples : (i+1)*chunkSamples], Offset: read.offset, Scale: read.scale,
				EndOfRead: i == readChunks-1, Skipped: skipped,
			})
			if err != nil {
				if ctx.Err() == nil {
					d.l.Errorf("the device can't send: %v", err)
				}
				return
			}
			skipped, n = 0, n+1
		}
		at += (readChunks + 1) * chunkSamples
	}
}

// turn is which read a channel repeats at a number. Channels change at different times,
// so that at any time there are variants that are new.
func (d *device) turn(channel, number uint32) int {
	return int((number+channel*repeats/deviceChannels)/repeats*deviceChannels+channel) % len(d.reads)
}

// other sends noise as reads of one chunk in a run at a sample rate that no model is
// for: it costs the processors next to nothing. It goes on until stop is called.
func (d *device) other(perSecond, samples int) (stop func()) {
	ctx, cancel := context.WithCancel(d.l.ctx)
	run := d.open(ctx, d.info.SampleRate-1000)
	var sending sync.WaitGroup
	sending.Go(func() {
		clock := time.NewTicker(time.Second / time.Duration(perSecond))
		defer clock.Stop()
		noise := make([]int16, samples)
		for number := uint32(0); ; number++ {
			select {
			case <-clock.C:
			case <-ctx.Done():
				return
			}
			for i := range noise {
				noise[i] = int16(rand.Uint32())
			}
			err := run.Send(ctx, push.Chunk{
				Channel: 100, ReadID: newReadID(), ReadStart: uint64(number) * uint64(samples), ReadNumber: number, Well: 1,
				Samples: noise, Scale: 1, EndOfRead: true,
			})
			if err != nil && ctx.Err() == nil {
				d.l.Errorf("the device can't send noise: %v", err)
			}
			if err != nil {
				return
			}
		}
	})
	return func() { cancel(); run.Close(); sending.Wait() }
}

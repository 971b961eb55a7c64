package minknow

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/ingest/minknow/minknowsim"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/streamtest"
	"github.com/porestream/porestream/testenv"
)

// python is an interpreter that has the package minknow-api.
func python(t *testing.T) string {
	t.Helper()
	return testenv.Python(t, "PORESTREAM_MINKNOW_PYTHON", "minknow-api", "minknow_api", "grpc", "numpy")
}

// sim is a simulated MinKNOW in a process of its own.
type sim struct {
	*minknowsim.Sim
	t   *testing.T
	dir string // with certificates
	log *testenv.Log
}

// certificates writes those of a MinKNOW, whose server's holds for a time.
func certificates(t *testing.T, server time.Duration) string {
	t.Helper()
	dir := t.TempDir()
	a, err := streamtest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	for name, valid := range map[string]time.Duration{"server": server, "client": time.Hour, "expired": -time.Hour} {
		id, err := a.Issue(name, valid)
		if err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string][]byte{"ca.crt": id.CAPEM, name + ".crt": id.CertPEM, name + ".key": id.KeyPEM} {
			if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// recorded is a read of the recording that the simulator plays.
type recorded struct {
	signal.Calibration
	End    string // why it ended
	levels []int16
}

// recording reads phage lambda, or the first reads of it, and writes it down for
// the simulator.
func recording(t *testing.T, limit int) (map[string]recorded, string) {
	t.Helper()
	index, err := signal.NewIndex(t.Context(), []string{"../../testdata/lambda/reads.pod5"})
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	var file bytes.Buffer
	if err := minknowsim.WriteReads(&file, index, limit); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "reads.json")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	reads := make(map[string]recorded)
	for i := range min(index.Len(), limit) {
		e := index.Entry(i)
		levels, err := index.Samples(i, nil)
		if err != nil {
			t.Fatal(err)
		}
		reads[e.ID] = recorded{e.Calibration, e.EndReason.String(), levels}
	}
	return reads, path
}

// startSim starts a simulator that plays the reads in a file.
func startSim(t *testing.T, certs, reads string, args ...string) *sim {
	t.Helper()
	s := &sim{t: t, dir: certs, log: new(testenv.Log)}
	var err error
	s.Sim, err = minknowsim.Start(minknowsim.Config{
		Python: python(t), Reads: reads, Certs: certs, Dir: t.TempDir(), Log: s.log, Args: args,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, s.log)
	}
	t.Cleanup(s.Kill)
	return s
}

func (s *sim) command(line string) {
	s.t.Helper()
	if err := s.Command(line); err != nil {
		s.t.Fatalf("%v\n%s", err, s.log)
	}
}

// report is what a simulator of one position has sent and dropped.
func (s *sim) report() minknowsim.Report {
	s.t.Helper()
	r, err := s.Report()
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.log)
	}
	return r
}

// actions are those that clients have asked a simulator of one position for.
func (s *sim) actions() []minknowsim.Action {
	s.t.Helper()
	all, err := s.Actions()
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.log)
	}
	return all
}

// config is that of a client of the simulator that has a token of no worth.
func (s *sim) config(runs Runs) Config {
	no := false
	return Config{
		Host: "127.0.0.1", Port: s.Port, CA: filepath.Join(s.dir, "ca.crt"), UseLocalToken: &no,
		Position: AllPositions, Classes: DefaultClasses(), Runs: runs,
		Metrics: NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler),
	}
}

// keptRuns keeps what is written.
type keptRuns struct {
	mu   sync.Mutex
	runs map[string]*keptRun
	// announced is what an earlier process has begun.
	announced map[string]*streampb.Run
	// news has a token when something has come.
	news chan struct{}
}

type keptRun struct {
	*streampb.Run
	chunks []*streampb.SignalChunk
	levels [][]int16
	times  []time.Time
	ended  bool
	begun  int
}

func keepRuns() *keptRuns {
	return &keptRuns{runs: make(map[string]*keptRun), news: make(chan struct{}, 1)}
}

func (k *keptRuns) Run(ctx context.Context, run *streampb.Run, feed func(context.Context, Live) error) error {
	k.mu.Lock()
	r := k.runs[run.GetId()]
	if r == nil {
		r = &keptRun{Run: run}
		k.runs[run.GetId()] = r
	}
	r.begun++
	ended := r.ended
	k.mu.Unlock()
	if ended {
		return fmt.Errorf("run %s: %w", run.GetId(), &ingest.EndedError{})
	}
	err := feed(ctx, &keeper{k, r, vbz.NewCodec()})
	k.mu.Lock()
	defer k.mu.Unlock()
	r.ended = err == nil
	k.notify()
	return err
}

func (k *keptRuns) Announced(_ context.Context, run string) (*streampb.Run, error) {
	return k.announced[run], nil
}

func (k *keptRuns) notify() {
	select {
	case k.news <- struct{}{}:
	default:
	}
}

// wait waits until something is so.
func (k *keptRuns) wait(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		k.mu.Lock()
		done := so()
		k.mu.Unlock()
		if done {
			return
		}
		select {
		case <-k.news:
		case <-deadline:
			t.Fatalf("waited too long until %s", what)
		}
	}
}

func (k *keptRuns) only(t *testing.T) *keptRun {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.runs) != 1 {
		t.Fatalf("%d runs, want 1", len(k.runs))
	}
	for _, r := range k.runs {
		return r
	}
	return nil
}

type keeper struct {
	k     *keptRuns
	run   *keptRun
	codec *vbz.Codec
}

func (k *keeper) Chunk(c *streampb.SignalChunk) (bool, error) {
	levels, err := k.codec.Decode(nil, c.GetVbz(), int(c.GetSampleCount()))
	if err != nil {
		return false, err
	}
	k.k.mu.Lock()
	defer k.k.mu.Unlock()
	c = proto.CloneOf(c)
	k.run.chunks, k.run.levels, k.run.times = append(k.run.chunks, c), append(k.run.levels, levels), append(k.run.times, time.Now())
	k.k.notify()
	return true, nil
}

// read is what has come of a read.
type read struct {
	channel          uint32
	start, total     uint64
	have             map[uint64]int16 // level by sample
	ended            bool
	reason           string
	offset, scale    float32
	repeated, behind int
}

// reads puts together what was written, by the ids of the recording.
func (r *keptRun) reads() map[string]*read {
	out := make(map[string]*read)
	for i, c := range r.chunks {
		id, _, _ := strings.Cut(c.GetReadId(), "_")
		x := out[id]
		if x == nil {
			x = &read{channel: c.GetChannel(), start: c.GetReadStart(), have: make(map[uint64]int16), offset: c.GetCalibrationOffset(), scale: c.GetCalibrationScale()}
			out[id] = x
		}
		if x.ended && id == c.GetReadId() {
			x.behind++
		}
		first := c.GetReadStart() - x.start + c.GetFirstSample()
		for k, level := range r.levels[i] {
			if _, exists := x.have[first+uint64(k)]; exists {
				x.repeated++
			}
			x.have[first+uint64(k)] = level
		}
		x.total = max(x.total, first+uint64(c.GetSampleCount()))
		x.ended, x.reason = c.GetEndOfRead(), c.GetEndReason()
	}
	return out
}

// checkSignal compares what has come with the recording.
func checkSignal(t *testing.T, got map[string]*read, want map[string]recorded) {
	t.Helper()
	for id, x := range got {
		w, known := want[id]
		if !known {
			t.Errorf("read %s is not of the recording", id)
			continue
		}
		if x.repeated > 0 || x.behind > 0 {
			t.Errorf("read %s has %d samples twice and %d chunks behind its end", id, x.repeated, x.behind)
		}
		for at, level := range x.have {
			if at >= uint64(len(w.levels)) {
				t.Errorf("read %s has a sample %d, and the recording has %d", id, at, len(w.levels))
				break
			}
			is := (float64(level) + float64(x.offset)) * float64(x.scale)
			was := (float64(w.levels[at]) + float64(w.Offset)) * float64(w.Scale)
			if math.Abs(is-was) > float64(w.Scale) {
				t.Errorf("read %s: sample %d is %.2f pA, recorded were %.2f", id, at, is, was)
				break
			}
		}
	}
}

// number makes an argument.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

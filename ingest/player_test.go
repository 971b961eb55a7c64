package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

type fakeRecording struct {
	runs  []*signal.Run
	reads []signal.Read
	short bool // holds fewer samples than it announces
	err   error
}

func (f *fakeRecording) Runs() []*signal.Run     { return f.runs }
func (f *fakeRecording) Len() int                { return len(f.reads) }
func (f *fakeRecording) Entry(i int) signal.Read { return f.reads[i] }

func (f *fakeRecording) Samples(i int, buf []int16) ([]int16, error) {
	if f.err != nil {
		return nil, f.err
	}
	n := f.reads[i].NumSamples
	if f.short {
		n--
	}
	for j := range n {
		buf = append(buf, sampleOf(i, j))
	}
	return buf, nil
}

func sampleOf(read, i int) int16 { return int16((read*7919 + i) & 0x3ff) }

// recording has two runs at 1 kHz, of which the second has no reads.
func recording() *fakeRecording {
	a := &signal.Run{ID: "run-a", SampleID: "lambda", SampleRate: 1000, StartTime: time.UnixMilli(1_700_000_000_123), FlowCellID: "FC1", Kit: "kit"}
	b := &signal.Run{ID: "run-b", SampleRate: 1000}
	read := func(id string, channel uint32, start uint64, n int) signal.Read {
		return signal.Read{
			ID: id, Run: a, Channel: channel, StartSample: start, NumSamples: n,
		}
	}
	return &fakeRecording{runs: []*signal.Run{a, b}, reads: []signal.Read{
		read("r0", 1, 0, 2500), read("r1", 2, 500, 1000), read("r2", 1, 4000, 0), read("r3", 1, 4000, 700),
	}}
}

// sent is one record with the moment at which it was sent.
type sent struct {
	at time.Duration
	stream.Out
}

type fakeSender struct {
	begun    time.Time
	outs     []sent
	failAt   int // the number of the Send that fails; 0: none
	sends    int
	flushed  bool
	flushErr error
}

var errSender = errors.New("broker is gone")

func (f *fakeSender) Send(ctx context.Context, outs []stream.Out, onDurable func(error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.sends++; f.sends == f.failAt {
		return errSender
	}
	for _, o := range outs {
		f.outs = append(f.outs, sent{time.Since(f.begun), o})
	}
	if onDurable != nil {
		onDurable(nil)
	}
	return nil
}

func (f *fakeSender) Flush(context.Context) error {
	f.flushed = true
	return f.flushErr
}

// lines describes what was sent.
func (f *fakeSender) lines(t *testing.T) []string {
	t.Helper()
	var lines []string
	for _, o := range f.outs {
		line := fmt.Sprint(o.at, " ")
		if o.Topic == "runs" {
			run, err := stream.DecodeRun(o.Value)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, line+"run "+run.GetId()+" "+run.GetSample())
			continue
		}
		m, err := stream.DecodeSignal(o.Value)
		if err != nil {
			t.Fatal(err)
		}
		switch body := m.Body.(type) {
		case *streampb.SignalRecord_RunStart:
			line += fmt.Sprintf("start %s to %d", body.RunStart.GetRun().GetId(), o.Partition)
		case *streampb.SignalRecord_RunEnd:
			line += fmt.Sprintf("end %s to %d", body.RunEnd.GetRun().GetId(), o.Partition)
		default:
			c := m.GetChunk()
			line += fmt.Sprintf("%s/%d [%d,%d)", c.GetReadId(), c.GetNumber(), c.GetFirstSample(), c.GetFirstSample()+uint64(c.GetSampleCount()))
			if c.GetEndOfRead() {
				line += " " + c.GetEndReason()
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func config() Config {
	return Config{Topics: stream.NewTopics(""), Partitions: 2}
}

func play(t *testing.T, ctx context.Context, rec Recording, sender *fakeSender, cfg Config) (Totals, error) {
	t.Helper()
	p, err := NewPlayer(rec, sender, cfg)
	if err != nil {
		t.Fatal(err)
	}
	sender.begun = time.Now()
	return p.Play(ctx)
}

func TestPlayAtPace(t *testing.T) {
	// At pace 1; every time is divided by the pace. A read without samples is one
	// empty chunk, and starts when its channel is free.
	want := []string{
		"0s run run-a lambda", "0s start run-a to 0", "0s start run-a to 1",
		"0s run run-b run-b", "0s start run-b to 0", "0s start run-b to 1",
		"0s end run-b to 0", "0s end run-b to 1",
		"1s r0/0 [0,1000)", "1.5s r1/0 [0,1000) unknown", "2s r0/1 [1000,2000)", "2.5s r0/2 [2000,2500) unknown",
		"4s r2/0 [0,0) unknown", "4.7s r3/0 [0,700) unknown",
		"4.7s end run-a to 0", "4.7s end run-a to 1",
	}
	for _, pace := range []float64{1, 10, 0} {
		synctest.Test(t, func(t *testing.T) {
			reg := prometheus.NewRegistry()
			sender := new(fakeSender)
			cfg := config()
			cfg.Pace, cfg.Metrics = pace, NewMetrics(reg)
			totals, err := play(t, t.Context(), recording(), sender, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if totals != (Totals{Runs: 2, Reads: 4, Chunks: 6, Samples: 4200}) || !sender.flushed {
				t.Errorf("pace %g: totals %+v, flushed %v", pace, totals, sender.flushed)
			}
			var scaled []string
			for _, line := range want {
				at, rest, _ := strings.Cut(line, " ")
				d, err := time.ParseDuration(at)
				if err != nil {
					t.Fatal(err)
				}
				if pace == 0 {
					d = 0
				} else {
					d = time.Duration(float64(d) / pace)
				}
				scaled = append(scaled, d.String()+" "+rest)
			}
			if got := sender.lines(t); !slices.Equal(got, scaled) {
				t.Errorf("pace %g: sent\n%q\nwant\n%q", pace, got, scaled)
			}
			codec := vbz.NewCodec() // the shared ones belong to another bubble
			for _, o := range sender.outs {
				m, err := stream.DecodeSignal(o.Value)
				if err != nil || m.GetChunk() == nil {
					continue
				}
				c := m.GetChunk()
				if string(o.Key) != fmt.Sprint("run-a/", c.GetChannel()) || o.Partition != stream.AnyPartition {
					t.Errorf("chunk goes to key %q, partition %d", o.Key, o.Partition)
				}
				samples, err := codec.Decode(nil, c.GetVbz(), int(c.GetSampleCount()))
				if err != nil {
					t.Fatal(err)
				}
				for i, s := range samples {
					if s != sampleOf(int(c.GetReadId()[1]-'0'), int(c.GetFirstSample())+i) {
						t.Fatalf("sample %d of %s is %d", int(c.GetFirstSample())+i, c.GetReadId(), s)
					}
				}
			}
			for name, want := range map[string]float64{
				"porestream_ingest_runs_total": 2, "porestream_ingest_reads_total": 4,
				"porestream_ingest_chunks_total": 6, "porestream_ingest_samples_total": 4200,
			} {
				if got := counter(t, reg, name); got != want {
					t.Errorf("%s is %v, want %v", name, got, want)
				}
			}
			if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
				t.Errorf("metrics: %v %v", problems, err)
			}
		})
	}
}

func counter(t *testing.T, reg prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Errorf("no metric %s", name)
	return 0
}

// TestLateness: a topic that blocks makes the player late, and it doesn't wait
// until it has caught up.
func TestLateness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowSender{delay: 1500 * time.Millisecond}
		cfg := config()
		cfg.Pace, cfg.Metrics = 1, NewMetrics(prometheus.NewRegistry())
		p, err := NewPlayer(recording(), slow, cfg)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if _, err := p.Play(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Ten sends, one right after the other.
		if got, want := time.Since(begun), 10*slow.delay; got != want {
			t.Errorf("playing took %v, want %v", got, want)
		}
		if late := testutil.ToFloat64(cfg.Metrics.lateness); late <= 0 {
			t.Errorf("lateness %v s", late)
		}
	})
}

type slowSender struct{ delay time.Duration }

func (s *slowSender) Send(context.Context, []stream.Out, func(error)) error {
	time.Sleep(s.delay)
	return nil
}
func (*slowSender) Flush(context.Context) error { return nil }

func TestCancel(t *testing.T) {
	for _, pace := range []float64{1, 0} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2200*time.Millisecond)
			defer cancel()
			if pace == 0 {
				cancel()
			}
			cfg := config()
			cfg.Pace = pace
			sender := new(fakeSender)
			totals, err := play(t, ctx, recording(), sender, cfg)
			if !errors.Is(err, ctx.Err()) || err == nil {
				t.Errorf("pace %g: %v, want %v", pace, err, ctx.Err())
			}
			if want := int64(3); pace == 1 && totals.Chunks != want {
				t.Errorf("pace %g: %d chunks were sent in time, want %d", pace, totals.Chunks, want)
			}
			for _, line := range sender.lines(t) {
				if strings.Contains(line, "end run-a") {
					t.Error("a run that was broken off has ended")
				}
			}
		})
	}
}

func TestFailures(t *testing.T) {
	whole := new(fakeSender)
	if _, err := play(t, t.Context(), recording(), whole, config()); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= whole.sends; n++ {
		sender := &fakeSender{failAt: n}
		if _, err := play(t, t.Context(), recording(), sender, config()); !errors.Is(err, errSender) {
			t.Errorf("with send %d failing: %v", n, err)
		}
		if sender.sends != n {
			t.Errorf("%d more sends after send %d failed", sender.sends-n, n)
		}
	}
	if _, err := play(t, t.Context(), recording(), &fakeSender{flushErr: errSender}, config()); !errors.Is(err, errSender) {
		t.Errorf("with the flush failing: %v", err)
	}
	broken := recording()
	broken.err = errors.New("file is truncated")
	if _, err := play(t, t.Context(), broken, new(fakeSender), config()); !errors.Is(err, broken.err) {
		t.Errorf("with an unreadable file: %v", err)
	}
	short := recording()
	short.short = true
	if _, err := play(t, t.Context(), short, new(fakeSender), config()); err == nil || !strings.Contains(err.Error(), "999 samples where 1000 are announced") {
		t.Errorf("with too few samples: %v", err)
	}
}

func TestNewPlayerRefuses(t *testing.T) {
	edit := func(f func(*fakeRecording, *Config)) (*fakeRecording, Config) {
		rec, cfg := recording(), config()
		f(rec, &cfg)
		return rec, cfg
	}
	for want, f := range map[string]func(*fakeRecording, *Config){
		"pace -1":             func(_ *fakeRecording, c *Config) { c.Pace = -1 },
		"0 partitions":        func(_ *fakeRecording, c *Config) { c.Partitions = 0 },
		"chunks of -1s":       func(_ *fakeRecording, c *Config) { c.Chunk = -time.Second },
		"holds no reads":      func(r *fakeRecording, _ *Config) { r.reads = nil },
		"the limit is 300000": func(_ *fakeRecording, c *Config) { c.Chunk = 10 * time.Minute },
		"sample rate of 0 Hz": func(r *fakeRecording, _ *Config) { r.runs[0].SampleRate = 0 },
		"run is empty":        func(r *fakeRecording, c *Config) { r.runs[1].ID, c.Sample = "", "s" },
		"control character":   func(_ *fakeRecording, c *Config) { c.Sample = "a\nb" },
	} {
		rec, cfg := edit(f)
		if _, err := NewPlayer(rec, new(fakeSender), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want ...%s...", err, want)
		}
	}
}

func TestDescribe(t *testing.T) {
	run := recording().runs[0]
	if got := Describe(run, ""); got.GetSample() != "lambda" || got.GetStartTimeMs() != 1_700_000_000_123 || got.GetFlowCell() != "FC1" {
		t.Errorf("described as %v", got)
	}
	if got := Describe(run, "other").GetSample(); got != "other" {
		t.Errorf("sample %q, want the one that was asked for", got)
	}
	bare := Describe(recording().runs[1], "")
	if bare.GetSample() != "run-b" || bare.GetStartTimeMs() != 0 {
		t.Errorf("a run without sample and start: %v", bare)
	}
}

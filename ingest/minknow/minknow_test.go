package minknow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/porestream/porestream/ingest/minknow/minknowsim"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/testenv"
)

// TestLambda plays phage lambda over 64 channels. Without losses everything that
// was recorded arrives; with a twentieth of the chunks dropped, what is missing
// is counted as exactly what was dropped.
func TestLambda(t *testing.T) {
	for _, drop := range []float64{0, 0.05} {
		t.Run(fmt.Sprint("drop ", drop), func(t *testing.T) {
			t.Parallel()
			want, file := recording(t, 1000)
			s := startSim(t, certificates(t, time.Hour), file, "--channels", "64", "--pace", "40", "--drop", number(drop), "--sample", "lambda")
			runs := keepRuns()
			cfg := s.config(runs)
			cfg.Once = true
			var counted *reads
			cfg.onTaker = func(tk *taker) { counted = tk.reads }
			if err := Follow(t.Context(), cfg); err != nil {
				t.Fatalf("%v\n%s", err, s.log)
			}
			run := runs.only(t)
			if !run.ended || run.GetSample() != "lambda" || run.GetExperiment() != "simulation" || run.GetFlowCell() != "FAA00001" || run.GetFlowCellProduct() != "FLO-MIN106" ||
				run.GetKit() != "SQK-RAD004" || run.GetPosition() != "MN00001" || run.GetDevice() != "MN00001" || run.GetSampleRate() != 4000 {
				t.Errorf("run: %v, ended: %v", run.Run, run.ended)
			}
			got := run.reads()
			checkSignal(t, got, want)
			lost := s.report().Dropped
			checkLosses(t, counted, lost)
			inReads := make(map[string]uint64)
			for _, d := range lost {
				if d.Strand {
					inReads[d.Read] += d.End - d.Start
				}
			}
			whole := 0
			for id, w := range want {
				x := got[id]
				if n := uint64(len(w.levels)); inReads[id] == n {
					whole++
					if x != nil {
						t.Errorf("read %s was dropped, and has come", id)
					}
				} else if x == nil || !x.ended || uint64(len(x.have)) != n-inReads[id] || drop == 0 && (x.total != n || x.reason != w.End) {
					t.Errorf("read %s: %d of %d samples were dropped, and this has come: %+v", id, inReads[id], n, summaryOf(x))
				}
			}
			if (drop == 0) != (len(lost) == 0) || whole > len(want)/10 {
				t.Errorf("%d chunks and %d whole reads were dropped", len(lost), whole)
			}
		})
	}
}

func summaryOf(x *read) string {
	if x == nil {
		return "nothing"
	}
	return fmt.Sprintf("%d of %d samples, ended: %v, %s", len(x.have), x.total, x.ended, x.reason)
}

// checkLosses compares what was counted with what was dropped: channel by channel
// the same samples, in as many stretches.
func checkLosses(t *testing.T, counted *reads, lost []minknowsim.Dropped) {
	t.Helper()
	slices.SortFunc(lost, func(a, b minknowsim.Dropped) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Start, b.Start))
	})
	samples, gaps := make(map[uint32]uint64), make(map[uint32]uint64)
	for i, d := range lost {
		samples[d.Channel] += d.End - d.Start
		if i == 0 || lost[i-1].Channel != d.Channel || lost[i-1].End != d.Start {
			gaps[d.Channel]++
		}
	}
	for i := range counted.losses {
		l, c := counted.losses[i], uint32(i)
		if got := l.Samples[skipped] + l.OtherSamples[skipped]; got != samples[c] || l.Gaps+l.OtherGaps != gaps[c] {
			t.Errorf("channel %d: %d samples were dropped in %d stretches, and %+v were counted", c, samples[c], gaps[c], l)
		}
		if l.Samples[disconnected]+l.Samples[overrun] > 0 {
			t.Errorf("channel %d: %+v", c, l)
		}
	}
}

// TestFiltered: MinKNOW sends reads of the classes that are taken only; their
// ends are detected by silence.
func TestFiltered(t *testing.T) {
	t.Parallel()
	want, file := recording(t, 40)
	s := startSim(t, certificates(t, time.Hour), file, "--channels", "16", "--pace", "10")
	runs := keepRuns()
	cfg := s.config(runs)
	cfg.Once, cfg.Filter, cfg.Classes = true, true, []string{"strand"}
	if err := Follow(t.Context(), cfg); err != nil {
		t.Fatalf("%v\n%s", err, s.log)
	}
	got := runs.only(t).reads()
	checkSignal(t, got, want)
	for id, w := range want {
		if x := got[id]; x == nil || !x.ended || len(x.have) != len(w.levels) {
			t.Errorf("read %s: %s", id, summaryOf(x))
		}
	}
}

// TestDisconnects: the connection breaks off again and again, and the position
// comes back on another port. The run is one run; what was missed is counted.
func TestDisconnects(t *testing.T) {
	t.Parallel()
	want, file := recording(t, 40)
	s := startSim(t, certificates(t, time.Hour), file, "--channels", "16", "--pace", "8")
	runs := keepRuns()
	cfg := s.config(runs)
	cfg.Once = true
	var counted *reads
	cfg.onTaker = func(tk *taker) { counted = tk.reads }
	done := make(chan error, 1)
	go func() { done <- Follow(t.Context(), cfg) }()
	for i, what := range []string{"cut", "restart", "cut", "cut"} {
		runs.wait(t, "signal comes", func() bool { return len(runs.runs) == 1 && runs.first().samples() > 100_000*(i+1) })
		s.command(what)
	}
	if err := <-done; err != nil {
		t.Fatalf("%v\n%s", err, s.log)
	}
	run := runs.only(t)
	if !run.ended || run.begun != 1 {
		t.Errorf("ended: %v, begun %d times", run.ended, run.begun)
	}
	got := run.reads()
	checkSignal(t, got, want)
	var missing, lacking uint64
	for i := range counted.losses {
		missing += counted.losses[i].Samples[disconnected]
		if counted.losses[i].Samples[skipped] > 0 {
			t.Errorf("channel %d: %+v", i, counted.losses[i])
		}
	}
	for id, w := range want {
		x := got[id]
		if x == nil {
			continue // all of it was missed: counted as between reads, perhaps
		}
		if !x.ended {
			t.Errorf("read %s has no end", id)
		}
		lacking += uint64(len(w.levels) - len(x.have))
	}
	if missing < lacking || lacking == 0 {
		t.Errorf("%d samples of the reads that have come are missing, and %d were counted", lacking, missing)
	}
	if n := testutil.ToFloat64(cfg.Metrics.reconnects.WithLabelValues("MN00001")); n < 4 {
		t.Errorf("%v reconnects", n)
	}
}

func (k *keptRuns) first() *keptRun {
	for _, r := range k.runs {
		return r
	}
	return nil
}

func (r *keptRun) samples() (n int) {
	for _, l := range r.levels {
		n += len(l)
	}
	return n
}

// TestRunsFollowEachOther: two positions, paused, scanned and ended by hand, with
// a run after the first.
func TestRunsFollowEachOther(t *testing.T) {
	t.Parallel()
	_, file := recording(t, 30)
	s := startSim(t, certificates(t, time.Hour), file, "--channels", "8", "--pace", "4", "--positions", "X1,X2")
	runs := keepRuns()
	var log testenv.Log
	cfg := s.config(runs)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Follow(ctx, cfg) }()
	under := func(n int) func() bool {
		return func() bool {
			with := 0
			for _, r := range runs.runs {
				if len(r.chunks) > 10 {
					with++
				}
			}
			return with == n
		}
	}
	runs.wait(t, "both positions give signal", under(2))
	for _, step := range [][2]string{{"muxscan", "phase=mux_scan"}, {"pause", "phase=paused"}, {"resume", "phase=sequencing"}} {
		seen := strings.Count(log.String(), step[1])
		s.command(step[0])
		waitFor(t, "the log has "+step[1], func() bool { return strings.Count(log.String(), step[1]) == seen+2 })
	}
	s.command("end")
	runs.wait(t, "both runs have ended", func() bool {
		for _, r := range runs.runs {
			if !r.ended {
				return false
			}
		}
		return true
	})
	s.command("run")
	runs.wait(t, "other runs give signal", under(4))
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	positions := make(map[string]int)
	ended := 0
	for _, r := range runs.runs {
		positions[r.GetPosition()]++
		if r.ended {
			ended++
		}
	}
	if positions["X1"] != 2 || positions["X2"] != 2 || ended != 2 {
		t.Errorf("runs by position: %v; %d have ended", positions, ended)
	}
	for _, want := range []string{"MinKNOW has ended the run", "reason=stopped_protocol_ended"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s", want)
		}
	}
}

// TestTokenExpires: MinKNOW does not let the client in any more, until there is
// another token in the file. No token gets into log or errors.
func TestTokenExpires(t *testing.T) {
	t.Parallel()
	_, file := recording(t, 60)
	dir := certificates(t, time.Hour)
	s := startSim(t, dir, file, "--channels", "16", "--pace", "10", "--token", "first-secret")
	tokens := filepath.Join(dir, "token")
	if err := os.WriteFile(tokens, []byte("first-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runs := keepRuns()
	var log testenv.Log
	cfg := s.config(runs)
	cfg.Once, cfg.TokenFile, cfg.Logger = true, tokens, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	done := make(chan error, 1)
	go func() { done <- Follow(t.Context(), cfg) }()
	runs.wait(t, "signal comes", func() bool { return len(runs.runs) == 1 && len(runs.first().chunks) > 20 })
	s.command("token second-secret")
	s.command("cut")
	waitFor(t, "the log tells of the token", func() bool { return strings.Contains(log.String(), "does not let this client in") })
	if err := os.WriteFile(tokens, []byte("second-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if run := runs.only(t); !run.ended || run.begun != 1 {
		t.Errorf("ended: %v, begun %d times", run.ended, run.begun)
	}
	if strings.Contains(log.String(), "secret") {
		t.Error("the log has a token")
	}
	if n := testutil.ToFloat64(cfg.Metrics.faults.WithLabelValues("token")); n == 0 {
		t.Error("not counted")
	}
}

// TestStopsWithoutAnEnd: MinKNOW dies. Its run stays open until it is certain
// that it is over: MinKNOW is back with another one.
func TestStopsWithoutAnEnd(t *testing.T) {
	t.Parallel()
	_, file := recording(t, 60)
	dir := certificates(t, time.Hour)
	args := []string{"--channels", "8", "--pace", "4"}
	s := startSim(t, dir, file, args...)
	runs := keepRuns()
	cfg := s.config(runs)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Follow(ctx, cfg) }()
	runs.wait(t, "signal comes", func() bool { return len(runs.runs) == 1 && len(runs.first().chunks) > 20 })
	s.Kill()
	waitFor(t, "MinKNOW is found to be away", func() bool {
		return testutil.ToFloat64(cfg.Metrics.faults.WithLabelValues("unreachable")) > 0
	})
	first := runs.only(t)
	runs.mu.Lock()
	if first.ended {
		t.Error("the run was ended while MinKNOW was away")
	}
	runs.mu.Unlock()
	startSim(t, dir, file, append(args, "--seed", "2", "--port", fmt.Sprint(s.Port))...)
	runs.wait(t, "the next run gives signal", func() bool {
		for _, r := range runs.runs {
			if r != first && len(r.chunks) > 0 {
				return true
			}
		}
		return false
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if !first.ended {
		t.Error("the run that is over has not been ended")
	}
	for id, x := range first.reads() {
		if !x.ended {
			t.Errorf("read %s has no end", id)
		}
	}
}

// TestConflict: what MinKNOW says of a run changes while it is under way.
func TestConflict(t *testing.T) {
	t.Parallel()
	_, file := recording(t, 60)
	s := startSim(t, certificates(t, time.Hour), file, "--channels", "8", "--pace", "4", "--sample", "one")
	runs := keepRuns()
	var log testenv.Log
	cfg := s.config(runs)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Follow(ctx, cfg) }()
	runs.wait(t, "signal comes", func() bool { return len(runs.runs) == 1 && len(runs.first().chunks) > 20 })
	s.command("sample two")
	s.command("cut")
	waitFor(t, "the conflict is counted", func() bool {
		return testutil.ToFloat64(cfg.Metrics.faults.WithLabelValues("metadata")) > 0
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if runs.only(t).ended {
		t.Error("the run has been ended")
	}
	if !strings.Contains(log.String(), `was begun with sample \"one\", and now MinKNOW says \"two\"`) {
		t.Errorf("log: %s", log.String())
	}
}

// TestBegunOtherwise: a run that is in Kafka already was announced as something
// else.
func TestBegunOtherwise(t *testing.T) {
	t.Parallel()
	_, file := recording(t, 3)
	s := startSim(t, certificates(t, time.Hour), file, "--channels", "4", "--sample", "one")
	report := s.report()
	runs := keepRuns()
	runs.announced = map[string]*streampb.Run{report.Run: {Id: report.Run, Position: "MN00001", Sample: "two", SampleRate: 4000, FlowCell: "FAA00001", Kit: "SQK-RAD004"}}
	var log testenv.Log
	cfg := s.config(runs)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Follow(ctx, cfg) }()
	waitFor(t, "the log tells of it", func() bool {
		return strings.Contains(log.String(), `was begun with sample \"two\", and now MinKNOW says \"one\"`)
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if len(runs.runs) != 0 {
		t.Error("the run has been taken")
	}
}

// TestLocalToken: on MinKNOW's own host, the token is where MinKNOW says.
func TestLocalToken(t *testing.T) {
	t.Parallel()
	_, file := recording(t, 3)
	dir := certificates(t, time.Hour)
	path := filepath.Join(dir, "local.json")
	s := startSim(t, dir, file, "--channels", "4", "--pace", "50", "--token", "guest", "--local-token", path)
	write := func(expires time.Time) {
		t.Helper()
		if err := os.WriteFile(path, fmt.Appendf(nil, `{"token": "guest", "expires": %q}`, expires.Format(time.RFC3339)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg := s.config(keepRuns())
	cfg.Once, cfg.UseLocalToken = true, nil
	write(time.Now().Add(-time.Hour))
	if err := Follow(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "has expired on") {
		t.Errorf("an expired token: %v", err)
	}
	write(time.Now().Add(time.Hour))
	if err := Follow(t.Context(), cfg); err != nil {
		t.Errorf("%v\n%s", err, s.log)
	}
}

// TestErrorsAtTheStartSayWhatToDo: what is wrong at the start is one line that says what to do.
func TestErrorsAtTheStartSayWhatToDo(t *testing.T) {
	t.Parallel()
	_, file := recording(t, 3)
	dir, expired, stranger := certificates(t, time.Hour), certificates(t, -time.Hour), certificates(t, time.Hour)
	args := []string{"--channels", "4", "--pace", "50", "--positions", "X1,X2"}
	open := startSim(t, dir, file, args...)
	guarded := startSim(t, dir, file, append(args, "--token", "right")...)
	old := startSim(t, expired, file, args...)
	mutual := startSim(t, dir, file, append(args, "--client-certificates")...)
	for _, tt := range []struct {
		name   string
		sim    *sim
		change func(*Config)
		want   string // empty: works
		reason string
	}{
		{"no token", guarded, func(*Config) {}, "does not let this client in: the token is not valid; give a token that is valid (--token-file)", "token"},
		{"wrong token", guarded, func(c *Config) { c.Token = "wrong" }, "does not let this client in: the token is not valid", "token"},
		{"a token of two lines", guarded, func(c *Config) { c.Token = "right\nwrong" }, "not one line of printable ASCII", "token"},
		{"no file of the token", guarded, func(c *Config) { c.TokenFile = filepath.Join(dir, "none") }, "reading the developer token: ", "token"},
		{"right token", guarded, func(c *Config) { c.Token = "right" }, "", ""},
		{"expired certificate of MinKNOW", old, func(*Config) {}, "certificate has expired", "certificate"},
		{"another CA", open, func(c *Config) { c.CA = filepath.Join(stranger, "ca.crt") }, "certificate signed by unknown authority", "certificate"},
		{"no CA", open, func(c *Config) { c.CA = filepath.Join(dir, "none") }, "reading MinKNOW's CA certificate: ", "certificate"},
		{"a CA that is none", open, func(c *Config) { c.CA = file }, "holds no certificate in PEM", "certificate"},
		// What the client hears of it depends on whether it still writes: see TestExplain.
		{"no client certificate", mutual, func(*Config) {}, "--minknow-cert", ""},
		{"expired client certificate", mutual, func(c *Config) {
			c.Cert, c.Key = filepath.Join(dir, "expired.crt"), filepath.Join(dir, "expired.key")
		}, "expired.crt has expired on ", "certificate"},
		{"client certificate", mutual, func(c *Config) {
			c.Cert, c.Key = filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")
		}, "", ""},
		{"unknown position", open, func(c *Config) { c.Position = "X3" }, `has no position "X3"; it has X1, X2`, "position"},
		{"nobody listens", open, func(c *Config) { c.Port = 1 }, "MinKNOW at 127.0.0.1:1 can't be reached: dial tcp 127.0.0.1:1: connect: connection refused; see", "unreachable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runs := keepRuns()
			cfg := tt.sim.config(runs)
			cfg.Once, cfg.Position = true, "X1"
			tt.change(&cfg)
			err := Follow(t.Context(), cfg)
			if tt.want == "" {
				if err != nil {
					t.Errorf("%v\n%s", err, tt.sim.log)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "wrong") {
				t.Errorf("error %v, want %s", err, tt.want)
			}
			if n := testutil.ToFloat64(cfg.Metrics.faults.WithLabelValues(tt.reason)); tt.reason != "" && n != 1 {
				t.Errorf("counted %v times", n)
			}
		})
	}
}

// TestRunsLeftByAnEarlierProcessAreEnded: a run that an earlier process has not ended is ended, unless it goes
// on.
func TestRunsLeftByAnEarlierProcessAreEnded(t *testing.T) {
	t.Parallel()
	_, file := recording(t, 3)
	s := startSim(t, certificates(t, time.Hour), file, "--channels", "4", "--pace", "50")
	runs := keepRuns()
	cfg := s.config(runs)
	cfg.Once = true
	cfg.Left = []*streampb.Run{{Id: "old", Position: "MN00001"}, {Id: "elsewhere", Position: "X9"}}
	if err := Follow(t.Context(), cfg); err != nil {
		t.Fatalf("%v\n%s", err, s.log)
	}
	if len(runs.runs) != 2 || !runs.runs["old"].ended || runs.runs["elsewhere"] != nil {
		t.Errorf("%v", runs.runs)
	}
}

package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// fakeKafka is a cluster in memory with transactions: what is committed, in
// order, by topic and partition.
type fakeKafka struct {
	mu     sync.Mutex
	logs   map[string][]string
	cursor map[string]*streampb.Cursor
	epochs map[string]int
	// hidden, if set, is what unsettled readers see of the cursors: another run's
	// transaction is open.
	hidden map[string]*streampb.Cursor
	// fault, if set, is asked before every operation; see verdicts.
	fault func(op string) verdict
	// committing, if set, is called while a commit is on its way; its error is the commit's.
	committing func(context.Context) error
}

// verdict is what becomes of an operation.
type verdict int

const (
	works   verdict = iota
	fails           // nothing happens
	unknown         // it happens, and an error is answered
	dies            // nothing happens, and the process is over
)

var errAway = errors.New("broker is away")

func newFakeKafka() *fakeKafka {
	return &fakeKafka{logs: make(map[string][]string), cursor: make(map[string]*streampb.Cursor), epochs: make(map[string]int)}
}

// process is a cluster as one process sees it.
type process struct {
	*fakeKafka
	kill context.CancelFunc
	dead bool
}

// do performs an operation unless it is to fail. mu is held while it does.
func (p *process) do(op string, f func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errAway
	}
	v := works
	if p.fault != nil {
		v = p.fault(op)
	}
	switch v {
	case fails:
		return errAway
	case dies:
		p.dead = true
		p.kill()
		return errAway
	}
	if err := f(); err != nil {
		return err
	}
	if v == unknown {
		return errAway
	}
	return nil
}

func (p *process) Open(_ context.Context, run string) (Writer, error) {
	w := &fakeWriter{process: p, run: run}
	err := p.do("open", func() error {
		p.epochs[run]++
		w.epoch = p.epochs[run]
		return nil
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (p *process) Cursor(_ context.Context, run string, settled bool) (c *streampb.Cursor, err error) {
	err = p.do("cursor", func() error {
		if c = p.cursor[run]; !settled && p.hidden != nil {
			c = p.hidden[run]
		}
		return nil
	})
	return c, err
}

type fakeWriter struct {
	*process
	run   string
	epoch int
	open  []stream.Out
}

func (w *fakeWriter) Send(_ context.Context, outs []stream.Out) error {
	return w.do("send", func() error {
		if w.epoch != w.epochs[w.run] {
			return ErrFenced
		}
		w.open = append(w.open, outs...)
		return nil
	})
}

func (w *fakeWriter) Commit(ctx context.Context) error {
	if w.committing != nil {
		if err := w.committing(ctx); err != nil {
			return err
		}
	}
	return w.do("commit", func() error {
		if w.epoch != w.epochs[w.run] {
			return ErrFenced
		}
		for _, o := range w.open {
			if o.Topic == "cursors" {
				c, err := stream.DecodeCursor(o.Value)
				if err != nil {
					return &PermanentError{err}
				}
				w.cursor[w.run] = c
				continue
			}
			n := o.Partition
			if n == stream.AnyPartition {
				n = stream.PartitionFor(o.Key, 3)
			}
			// Several runs share a partition, in an order that says nothing.
			place := fmt.Sprint(o.Topic, "/", n, " ", w.run)
			w.logs[place] = append(w.logs[place], fmt.Sprintf("%q=%x", o.Key, o.Value))
		}
		w.open = nil
		return nil
	})
}

func (w *fakeWriter) Close(context.Context) {}

// manyReads has three runs of many reads on few channels.
func manyReads(seed uint64) *fakeRecording {
	rng := rand.New(rand.NewPCG(seed, 99))
	rec := &fakeRecording{}
	for r := range 3 {
		rec.runs = append(rec.runs, &signal.Run{ID: fmt.Sprint("run-", r), SampleID: "s", SampleRate: 1000})
	}
	for i := range 40 {
		run := rec.runs[rng.IntN(2)] // the third has none
		rec.reads = append(rec.reads, signal.Read{
			ID: fmt.Sprint("r", i), Run: run, Channel: uint32(1 + rng.IntN(5)), StartSample: uint64(i * 300), NumSamples: rng.IntN(3000),
		})
	}
	return rec
}

func serviceConfig(kafka *fakeKafka) ServiceConfig {
	return ServiceConfig{
		Config:             Config{Topics: stream.NewTopics(""), Partitions: 3},
		TransactionTimeout: time.Minute, MaxBuffered: 64 << 20, SpoolMax: 1 << 30,
		Cluster: &process{fakeKafka: kafka},
	}
}

// live runs a service once, as a process of its own.
func live(ctx context.Context, kafka *fakeKafka, rec Recording, cfg ServiceConfig) (Totals, error) {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	cfg.Cluster = &process{fakeKafka: kafka, kill: kill}
	return Run(ctx, rec, cfg)
}

func (f *fakeKafka) same(t *testing.T, want *fakeKafka, what string) {
	t.Helper()
	if len(f.logs) != len(want.logs) {
		t.Fatalf("%s: %d partitions have records, want %d", what, len(f.logs), len(want.logs))
	}
	for place, recs := range want.logs {
		got := f.logs[place]
		for i := range max(len(recs), len(got)) {
			switch {
			case i >= len(got):
				t.Fatalf("%s: %s: %d records, want %d", what, place, len(got), len(recs))
			case i >= len(recs):
				t.Fatalf("%s: %s: %d records too many", what, place, len(got)-len(recs))
			case got[i] != recs[i]:
				t.Fatalf("%s: %s: record %d is another", what, place, i)
			}
		}
	}
}

// uninterrupted is what is committed if nothing happens.
func uninterrupted(t *testing.T, rec Recording) *fakeKafka {
	t.Helper()
	kafka := newFakeKafka()
	if _, err := live(t.Context(), kafka, rec, serviceConfig(kafka)); err != nil {
		t.Fatal(err)
	}
	return kafka
}

// TestMatchesDirectPlay: what a service commits is what a player without cursors
// sends.
func TestMatchesDirectPlay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := manyReads(1)
		sender := new(fakeSender)
		cfg := config()
		cfg.Partitions = 3
		if _, err := play(t, t.Context(), rec, sender, cfg); err != nil {
			t.Fatal(err)
		}
		kafka, want := uninterrupted(t, rec), newFakeKafka()
		w := &fakeWriter{process: &process{fakeKafka: want}}
		for _, o := range sender.outs {
			w.run = strings.SplitN(strings.TrimPrefix(string(o.Key), "run\x00"), "/", 2)[0]
			w.open = []stream.Out{o.Out}
			if err := w.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		kafka.same(t, want, "direct play")
		if !kafka.cursor["run-0"].GetEnded() || !kafka.cursor["run-2"].GetEnded() {
			t.Error("a cursor does not say that its run has ended")
		}
	})
}

// TestResumeAtEveryOperation ends the process at every single operation, in
// each way, and starts another.
func TestResumeAtEveryOperation(t *testing.T) {
	rec := manyReads(2)
	for _, pace := range []float64{0, 3} {
		for _, v := range []verdict{dies, fails, unknown} {
			t.Run(fmt.Sprint("pace ", pace, " verdict ", v), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					want := uninterrupted(t, rec)
					for at := 1; ; at++ {
						kafka := newFakeKafka()
						ops := 0
						kafka.fault = func(string) verdict {
							if ops++; ops == at {
								return v
							}
							return works
						}
						cfg := serviceConfig(kafka)
						cfg.Pace = pace
						_, err := live(t.Context(), kafka, rec, cfg)
						if ops < at {
							break // it was over before
						}
						for tries := 0; err != nil; tries++ {
							if tries > 3 {
								t.Fatalf("at operation %d: %v", at, err)
							}
							_, err = live(t.Context(), kafka, rec, cfg)
						}
						kafka.same(t, want, fmt.Sprint("operation ", at))
						if ops > 60 { // beyond the start and some transactions
							at += ops / 60
						}
					}
				})
			})
		}
	}
}

// TestStopDuringACommit: a commit that is on its way when the process is asked to stop is finished, and what follows is for the next process. One that
// gets no answer holds the process up no longer than closeTimeout.
func TestStopDuringACommit(t *testing.T) {
	for at := range int32(12) { // claims of runs are commits, too
		for _, silent := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				rec := manyReads(2)
				want, kafka := uninterrupted(t, rec), newFakeKafka()
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var commits, brokenOff atomic.Int32
				kafka.committing = func(ctx context.Context) error {
					if commits.Add(1) == at+1 {
						stop()
						if silent {
							time.Sleep(closeTimeout)
						}
						synctest.Wait()
					}
					if ctx.Err() != nil {
						brokenOff.Add(1)
					}
					return ctx.Err()
				}
				cfg := serviceConfig(kafka)
				cfg.Pace = 3
				_, err := live(ctx, kafka, rec, cfg)
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("commit %d, silent %v: %v", at, silent, err)
				}
				if broken := brokenOff.Load() > 0; broken != silent {
					t.Errorf("commit %d, silent %v: broken off %v", at, silent, broken)
				}
				kafka.committing = nil
				if _, err := live(t.Context(), kafka, rec, cfg); err != nil {
					t.Fatal(err)
				}
				kafka.same(t, want, fmt.Sprint("stopped in commit ", at))
			})
		}
	}
}

// TestResumeProperty: whatever happens to the broker, the process and the disk,
// in the end Kafka has what it has without.
func TestResumeProperty(t *testing.T) {
	var restarts, spooled int
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			rec := manyReads(seed)
			want, kafka := uninterrupted(t, rec), newFakeKafka()
			var awayUntil time.Time
			dir := filepath.Join(t.TempDir(), "spool")
			kafka.fault = func(op string) verdict {
				if time.Now().Before(awayUntil) {
					return fails
				}
				switch n := rng.IntN(200); {
				case n == 0:
					return dies
				case n == 1:
					return fails
				case n == 2:
					awayUntil = time.Now().Add(time.Duration(rng.IntN(20_000)) * time.Millisecond)
					return fails
				case n < 6 && op == "commit":
					return unknown
				}
				return works
			}
			for tries := 0; ; tries++ {
				cfg := serviceConfig(kafka)
				cfg.Pace = []float64{0, 1, 20}[rng.IntN(3)]
				cfg.MaxBuffered = minBuffered
				if rng.IntN(3) > 0 {
					cfg.SpoolDir = dir
					if rng.IntN(2) > 0 {
						cfg.SpoolMax = int64(1000 + rng.IntN(40_000))
					}
					space, syncErr := 1<<30, error(nil)
					switch rng.IntN(3) {
					case 0:
						space = rng.IntN(40_000)
					case 1:
						syncErr = syscall.EIO
					}
					before := space
					cfg.openSpoolFile = smallDisk(&space, &syncErr)
					defer func() { spooled += before - space }()
				}
				_, err := live(t.Context(), kafka, rec, cfg)
				if err == nil {
					break
				}
				if !errors.Is(err, context.Canceled) && !errors.Is(err, errAway) || tries > 200 {
					t.Fatalf("seed %d, try %d: %v", seed, tries, err)
				}
				restarts++
				time.Sleep(time.Second) // as the supervisor that starts it again does
			}
			kafka.same(t, want, fmt.Sprint("seed ", seed))
		})
	}
	t.Logf("%d restarts, %d bytes went to the spool", restarts, spooled)
	if restarts < 10 || spooled < 10_000 {
		t.Error("the faults are too few to show anything")
	}
}

// TestHiddenCursor: while a transaction of another run hides this one's cursors, a
// fault that passes is not taken for a takeover.
func TestHiddenCursor(t *testing.T) {
	rec := manyReads(4)
	for _, resumed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			want, kafka := uninterrupted(t, rec), newFakeKafka()
			commits, stop := 0, 7
			kafka.fault = func(op string) verdict {
				if op != "commit" {
					return works
				}
				switch commits++; commits {
				case stop:
					return dies
				case stop + 6:
					return fails
				}
				return works
			}
			cfg := serviceConfig(kafka)
			cfg.Pace = 3
			if resumed {
				if _, err := live(t.Context(), kafka, rec, cfg); err == nil {
					t.Fatal("it is not dead")
				}
			} else {
				stop = 0
			}
			kafka.hidden = maps.Clone(kafka.cursor)
			if _, err := live(t.Context(), kafka, rec, cfg); err != nil {
				t.Error(err)
			}
			kafka.same(t, want, fmt.Sprint("resumed ", resumed))
		})
	}
}

// TestDamagedSpool: what a crash has left unreadable in the spool comes from the
// recording again.
func TestDamagedSpool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := manyReads(5)
		want, kafka := uninterrupted(t, rec), newFakeKafka()
		cfg := serviceConfig(kafka)
		cfg.Pace, cfg.SpoolDir = 1, filepath.Join(t.TempDir(), "spool")
		sends := 0
		kafka.fault = func(op string) verdict {
			if op == "send" {
				sends++
			}
			if sends > 10 {
				return fails
			}
			return works
		}
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		if _, err := live(ctx, kafka, rec, cfg); err == nil {
			t.Fatal("it has not been stopped")
		}
		stop()
		kafka.fault = nil
		segments, err := filepath.Glob(filepath.Join(cfg.SpoolDir, "*", "*.spool"))
		if err != nil || len(segments) == 0 {
			t.Fatalf("%d segments, %v", len(segments), err)
		}
		b, err := os.ReadFile(segments[0])
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(segments[0], b, 0o600); err != nil {
			t.Fatal(err)
		}
		// Damage in the last segment is taken for a torn tail: it is cut, and the
		// recording has what was there.
		if _, err := live(t.Context(), kafka, rec, cfg); err != nil {
			t.Fatal(err)
		}
		kafka.same(t, want, "damaged spool")
	})
}

// TestOtherFilter: a run that was begun with a part of a recording goes on with the
// same part only, also if another part begins with the same reads.
func TestOtherFilter(t *testing.T) {
	for _, c := range []struct{ was, is, want string }{
		{"", "", ""},
		{"channels 1-9", "channels 1-9", ""},
		{"channels 1-9", "to 1h0m0s", "it was begun with the reads chosen by channels 1-9, and now it has the reads chosen by to 1h0m0s: give the same --reads"},
		{"channels 1-9", "", "chosen by channels 1-9, and now it has all reads"},
		{"", "from 1s", "begun with all reads, and now it has the reads chosen by from 1s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			kafka, rec := newFakeKafka(), manyReads(2)
			cfg := serviceConfig(kafka)
			cfg.Pace, cfg.Filter = 1, c.was
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := live(ctx, kafka, rec, cfg); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			if begun := kafka.cursor["run-0"]; begun.GetNext() == 0 || begun.GetEnded() || begun.GetFilter() != c.was {
				t.Fatalf("the cursor is %v", begun)
			}
			cfg.Pace, cfg.Filter = 0, c.is
			_, err := live(t.Context(), kafka, rec, cfg)
			if c.want == "" {
				if err != nil || kafka.cursor["run-0"].GetFilter() != c.is {
					t.Errorf("%+v: %v, cursor %v", c, err, kafka.cursor["run-0"])
				}
				kafka.same(t, uninterrupted(t, rec), "with a filter")
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--restart") {
				t.Fatalf("%+v: %v", c, err)
			}
			cfg.Restart = true
			if _, err := live(t.Context(), kafka, rec, cfg); err != nil || kafka.cursor["run-0"].GetFilter() != c.is {
				t.Errorf("%+v: with Restart %v, cursor %v", c, err, kafka.cursor["run-0"])
			}
		})
	}
}

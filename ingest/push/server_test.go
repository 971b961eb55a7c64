package push

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	client "github.com/porestream/porestream/push"
	"github.com/porestream/porestream/push/pushpb"
)

// rawDevice is a sender that knows nothing but the contract.
type rawDevice struct {
	t      *testing.T
	api    pushpb.PushClient
	stream pushpb.Push_PushClient
	opened *pushpb.Opened
}

func (d *rawDevice) register(run *pushpb.Run) error {
	_, err := d.api.Register(d.t.Context(), &pushpb.RegisterRequest{Run: run})
	return err
}

// open registers a run and opens a stream of it.
func (d *rawDevice) open(run *pushpb.Run, session string) error {
	if err := d.register(run); err != nil {
		return err
	}
	return d.begin(run.GetId(), session)
}

func (d *rawDevice) begin(run, session string) error {
	var err error
	if d.stream, err = d.api.Push(d.t.Context()); err != nil {
		return err
	}
	if err := d.stream.Send(&pushpb.PushRequest{Body: &pushpb.PushRequest_Open{Open: &pushpb.Open{Run: run, Session: []byte(session)}}}); err != nil {
		return err
	}
	res, err := d.stream.Recv()
	d.opened = res.GetOpened()
	return err
}

func (d *rawDevice) send(chunks ...*pushpb.Chunk) {
	for _, c := range chunks {
		if err := d.stream.Send(&pushpb.PushRequest{Body: &pushpb.PushRequest_Chunk{Chunk: c}}); err != nil {
			return // Recv returns why
		}
	}
}

func (d *rawDevice) end(chunks uint64) {
	if err := d.stream.Send(&pushpb.PushRequest{Body: &pushpb.PushRequest_End{End: &pushpb.End{Chunks: chunks}}}); err != nil {
		d.t.Log(err)
	}
}

// status is how the stream ends.
func (d *rawDevice) status() error {
	for {
		if _, err := d.stream.Recv(); err != nil {
			return err
		}
	}
}

// piece is a chunk of a read on a channel, of 10 samples.
func piece(sequence uint64, channel uint32, read string, start, first uint64, edit ...func(*pushpb.Chunk)) *pushpb.Chunk {
	c := &pushpb.Chunk{
		Sequence: sequence, Channel: channel, ReadId: read, ReadStart: start, FirstSample: first, Number: uint32(first / 10), SampleCount: 10,
		Samples: &pushpb.Chunk_Int16{Int16: make([]byte, 20)}, CalibrationScale: 1,
	}
	for _, e := range edit {
		e(c)
	}
	return c
}

func ends(c *pushpb.Chunk) { c.EndOfRead = true }

var testRun = &pushpb.Run{Id: "run", SampleRate: 4000}

// TestRefusals: each thing that a device can do wrong is one line with the code and
// the reason of the contract, is counted, and leaves what came before as it was.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits Limits
		do     func(*rawDevice) error
		reason pushpb.Reason
		code   codes.Code
		says   string
		chunks int // that are in Kafka afterwards
	}{
		{"no sample rate", testLimits, func(d *rawDevice) error { return d.register(&pushpb.Run{Id: "run"}) },
			pushpb.Reason_REASON_BAD_RUN, codes.InvalidArgument, "sample rate of 0 Hz", 0},
		{"no run", testLimits, func(d *rawDevice) error { return d.register(nil) },
			pushpb.Reason_REASON_BAD_RUN, codes.InvalidArgument, "run is empty", 0},
		{"unknown run", testLimits, func(d *rawDevice) error { return d.begin("run", "") },
			pushpb.Reason_REASON_UNKNOWN_RUN, codes.NotFound, `run "run" is not registered here`, 0},
		{"conflicting run", testLimits, func(d *rawDevice) error {
			return errors.Join(d.open(testRun, ""), d.register(&pushpb.Run{Id: "run", SampleRate: 5000}))
		}, pushpb.Reason_REASON_CONFLICTING_RUN, codes.AlreadyExists, `run run was registered with another sample_rate ("4000", and now "5000")`, 0},
		{"too many runs", Limits{ChunkSamples: 100, Runs: 1}, func(d *rawDevice) error {
			return errors.Join(d.register(testRun), d.register(&pushpb.Run{Id: "other", SampleRate: 5000}))
		}, pushpb.Reason_REASON_OVER_QUOTA, codes.ResourceExhausted, `1 runs of "anonymous" are under way`, 0},
		{"no open", testLimits, func(d *rawDevice) error {
			var err error
			if d.stream, err = d.api.Push(d.t.Context()); err != nil {
				return err
			}
			d.end(0)
			return d.status()
		}, pushpb.Reason_REASON_BAD_REQUEST, codes.InvalidArgument, "a stream begins with open", 0},
		{"open twice", testLimits, func(d *rawDevice) error {
			err := d.open(testRun, "")
			return errors.Join(err, d.stream.Send(&pushpb.PushRequest{Body: &pushpb.PushRequest_Open{Open: &pushpb.Open{Run: "run"}}}), d.status())
		}, pushpb.Reason_REASON_BAD_REQUEST, codes.InvalidArgument, "behind open come chunks", 0},
		{"a number left out", testLimits, pushes(piece(0, 1, "a", 0, 0), piece(2, 1, "a", 0, 10)),
			pushpb.Reason_REASON_OUT_OF_SEQUENCE, codes.FailedPrecondition, "chunk 2 where 1 is next", 1},
		{"clock goes back in a read", testLimits, pushes(piece(0, 1, "a", 0, 0), piece(1, 1, "a", 0, 5)),
			pushpb.Reason_REASON_CLOCK_BACKWARDS, codes.InvalidArgument, `a chunk of read "a" begins at its sample 5, and 10 have come`, 1},
		{"clock goes back between reads", testLimits, pushes(piece(0, 1, "a", 100, 0, ends), piece(1, 1, "b", 109, 0)),
			pushpb.Reason_REASON_CLOCK_BACKWARDS, codes.InvalidArgument, `read "b" begins at sample 109 of its clock, and 110 have passed`, 1},
		{"gap", testLimits, pushes(piece(0, 1, "a", 0, 0), piece(1, 1, "a", 0, 30)),
			pushpb.Reason_REASON_GAP, codes.InvalidArgument, "set skipped if 20 samples are lost", 1},
		{"lost end", testLimits, pushes(piece(0, 1, "a", 0, 0), piece(1, 1, "b", 10, 0)),
			pushpb.Reason_REASON_GAP, codes.InvalidArgument, `read "a" has no end`, 1},
		{"a read that begins late", testLimits, pushes(piece(0, 1, "a", 0, 10)),
			pushpb.Reason_REASON_GAP, codes.InvalidArgument, "begins with its sample 10", 0},
		{"more of a read that has ended", testLimits, pushes(piece(0, 1, "a", 0, 0, ends), piece(1, 1, "a", 0, 10)),
			pushpb.Reason_REASON_BAD_CHUNK, codes.InvalidArgument, `read "a" has ended`, 1},
		{"a read on two channels", testLimits, pushes(piece(0, 1, "a", 0, 0), piece(1, 2, "a", 0, 0)),
			pushpb.Reason_REASON_BAD_CHUNK, codes.InvalidArgument, "is open on channel 1", 1},
		{"another calibration", testLimits, pushes(piece(0, 1, "a", 0, 0), piece(1, 1, "a", 0, 10, func(c *pushpb.Chunk) { c.CalibrationScale = 2 })),
			pushpb.Reason_REASON_BAD_CHUNK, codes.InvalidArgument, "another start, number, well or calibration", 1},
		{"samples cut off", testLimits, pushes(piece(0, 1, "a", 0, 0, func(c *pushpb.Chunk) { c.SampleCount = 11 })),
			pushpb.Reason_REASON_BAD_CHUNK, codes.InvalidArgument, "20 bytes for 11 samples", 0},
		{"bad VBZ", testLimits, pushes(piece(0, 1, "a", 0, 0, func(c *pushpb.Chunk) { c.Samples = &pushpb.Chunk_Vbz{Vbz: []byte("nonsense")} })),
			pushpb.Reason_REASON_BAD_CHUNK, codes.InvalidArgument, "can't be unpacked", 0},
		{"a name with a control character", testLimits, pushes(piece(0, 1, "a\n", 0, 0)),
			pushpb.Reason_REASON_BAD_CHUNK, codes.InvalidArgument, "control character", 0},
		{"too many samples", Limits{ChunkSamples: 9}, pushes(piece(0, 1, "a", 0, 0)),
			pushpb.Reason_REASON_TOO_BIG, codes.ResourceExhausted, "has 10 samples, the limit is 9", 0},
		{"too many bytes", testLimits, pushes(piece(0, 1, strings.Repeat("a", maxMessage), 0, 0)),
			pushpb.Reason_REASON_TOO_BIG, codes.ResourceExhausted, "the limit is 1048576", 0},
		{"too many channels", Limits{ChunkSamples: 100, Channels: 1}, pushes(piece(0, 1, "a", 0, 0), piece(1, 2, "b", 0, 0)),
			pushpb.Reason_REASON_OVER_QUOTA, codes.ResourceExhausted, "channel 2 would be one more than the 1", 1},
		{"too many open reads", Limits{ChunkSamples: 100, OpenReads: 1}, pushes(piece(0, 1, "a", 0, 0), piece(1, 2, "b", 0, 0)),
			pushpb.Reason_REASON_OVER_QUOTA, codes.ResourceExhausted, `read "b" would be one more than the 1`, 1},
		{"an end with chunks missing", testLimits, func(d *rawDevice) error {
			err := d.open(testRun, "")
			d.end(3)
			return errors.Join(err, d.status())
		}, pushpb.Reason_REASON_OUT_OF_SEQUENCE, codes.FailedPrecondition, "ends behind 3 chunks, and 0 have come", 0},
		{"an end with open reads", testLimits, func(d *rawDevice) error {
			err := d.open(testRun, "")
			d.send(piece(0, 1, "a", 0, 0))
			d.end(1)
			return errors.Join(err, d.status())
		}, pushpb.Reason_REASON_GAP, codes.InvalidArgument, "1 reads have no end", 1},
		{"a chunk behind the end", testLimits, func(d *rawDevice) error {
			err := d.open(testRun, "")
			d.end(0)
			d.send(piece(0, 1, "a", 0, 0))
			err = errors.Join(err, d.status())
			if err == nil || errors.Is(err, io.EOF) { // the run was whole before the chunk came
				return refuse(pushpb.Reason_REASON_ENDED_RUN, "run run has ended behind chunk 0")
			}
			return err
		}, pushpb.Reason_REASON_ENDED_RUN, codes.FailedPrecondition, "has ended behind chunk 0", 0},
		{"another sender", testLimits, func(d *rawDevice) error {
			other := &rawDevice{t: d.t, api: d.api}
			return errors.Join(d.open(testRun, "one"), other.open(testRun, "two"), d.status())
		}, pushpb.Reason_REASON_TAKEN_OVER, codes.Aborted, "another sender has taken over", 0},
		{"a sender that the run was taken from", testLimits, func(d *rawDevice) error {
			other := &rawDevice{t: d.t, api: d.api}
			if err := errors.Join(d.open(testRun, "one"), other.open(testRun, "two")); err != nil {
				return err
			}
			return d.begin("run", "one")
		}, pushpb.Reason_REASON_TAKEN_OVER, codes.Aborted, "another sender has taken over", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				metrics := NewMetrics(prometheus.NewRegistry())
				b := newBench(t, func(cfg *Config) {
					cfg.Metrics = metrics
					cfg.Authority.cfg.Defaults = tt.limits
				})
				defer b.close()
				api, done := b.api()
				defer done()
				err := tt.do(&rawDevice{t: t, api: api})
				var joined interface{ Unwrap() []error }
				if errors.As(err, &joined) {
					err = joined.Unwrap()[0]
				}
				if status.Code(err) != tt.code || client.Reason(err) != tt.reason || !strings.Contains(status.Convert(err).Message(), tt.says) {
					t.Fatalf("%v (%v), want %v, %v: %s", err, client.Reason(err), tt.code, tt.reason, tt.says)
				}
				if strings.Contains(status.Convert(err).Message(), "\n") {
					t.Errorf("%q is more than a line", err)
				}
				time.Sleep(time.Second)
				if n := testutil.ToFloat64(metrics.refusals.WithLabelValues(label(tt.reason))); n < 1 && tt.name != "a chunk behind the end" {
					t.Errorf("counted %v times", n)
				}
				if got := len(b.kafka.chunks("run")); got != tt.chunks {
					t.Errorf("%d chunks in Kafka, want %d", got, tt.chunks)
				}
			})
		})
	}
}

// TestFarTooBig: gRPC answers before the server can, without a reason; it is
// counted all the same.
func TestFarTooBig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := NewMetrics(prometheus.NewRegistry())
		b := newBench(t, func(cfg *Config) { cfg.Metrics = metrics })
		defer b.close()
		api, done := b.api()
		defer done()
		err := pushes(piece(0, 1, strings.Repeat("a", hardMessage), 0, 0))(&rawDevice{t: t, api: api})
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(status.Convert(err).Message(), "larger than max") {
			t.Error(err)
		}
		synctest.Wait()
		if n := testutil.ToFloat64(metrics.refusals.WithLabelValues("too_big")); n != 1 {
			t.Errorf("counted %v times", n)
		}
	})
}

// pushes opens a run, sends chunks and returns how the stream ends.
func pushes(chunks ...*pushpb.Chunk) func(*rawDevice) error {
	return func(d *rawDevice) error {
		if err := d.open(testRun, ""); err != nil {
			return err
		}
		d.send(chunks...)
		return d.status()
	}
}

// TestGapsThatDevicesReportAreCounted: what a device says that it has lost is taken and counted, before the
// server was killed and after.
func TestGapsThatDevicesReportAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := NewMetrics(prometheus.NewRegistry())
		b := newBench(t, func(cfg *Config) { cfg.Metrics = metrics })
		defer func() { b.close() }()
		api, done := b.api()
		defer done()
		d := &rawDevice{t: t, api: api}
		if err := d.open(testRun, "s"); err != nil {
			t.Fatal(err)
		}
		lost := func(n uint64) func(*pushpb.Chunk) { return func(c *pushpb.Chunk) { c.Skipped = n } }
		previous := func(c *pushpb.Chunk) { c.PreviousLost = true }
		d.send(piece(0, 1, "a", 0, 0), piece(1, 1, "a", 0, 40, lost(30)), piece(2, 1, "b", 100, 20, lost(20), previous))
		time.Sleep(time.Second)
		b.kill()
		b.start()
		synctest.Wait()
		if err := d.open(testRun, "s"); err != nil || d.opened.GetNext() != 3 {
			t.Fatalf("goes on with chunk %d: %v", d.opened.GetNext(), err)
		}
		// The new server knows of the open read.
		d.send(piece(3, 1, "b", 100, 30), piece(4, 1, "b", 100, 40, ends), piece(5, 2, "c", 100, 0))
		if err := d.stream.Send(&pushpb.PushRequest{Body: &pushpb.PushRequest_End{End: &pushpb.End{Chunks: 6, Unfinished: true}}}); err != nil {
			t.Fatal(err)
		}
		if err := d.status(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if s, e := testutil.ToFloat64(metrics.gapSamples), testutil.ToFloat64(metrics.lostEnds); s != 50 || e != 2 {
			t.Errorf("%v samples and %v ends lost, want 50 and 2", s, e)
		}
		if got := len(b.kafka.chunks("run")); got != 6 || !b.kafka.ended("run") {
			t.Errorf("%d chunks", got)
		}
		// A device that asks again gets the answer that all is well, also from a
		// server that was not there.
		for range 2 {
			err := d.open(testRun, "s")
			if err != nil || d.opened.GetNext() != 6 || !d.opened.GetAck().GetEnded() {
				t.Errorf("opened again: %v, %v", d.opened, err)
			}
			if err := d.status(); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			b.kill()
			b.start()
			synctest.Wait()
		}
		// The description is known from Kafka alone.
		if err := d.register(&pushpb.Run{Id: "run", SampleRate: 4000, Kit: "other"}); client.Reason(err) != pushpb.Reason_REASON_CONFLICTING_RUN {
			t.Error(err)
		}
	})
}

// TestWaiting: while Kafka and the spool take nothing the device waits, is notified
// why, and loses nothing; a device that is too fast is made to wait as well.
func TestWaiting(t *testing.T) {
	const memory = 4 << 20
	for _, tt := range []struct {
		name   string
		spool  int64
		rate   int64
		reason pushpb.Reason
	}{
		{"Kafka is away", 0, 0, pushpb.Reason_REASON_KAFKA_AWAY},
		{"and the spool is full", 8 << 20, 0, pushpb.Reason_REASON_DISK_FULL},
		{"over the bytes per second", 0, 1 << 20, pushpb.Reason_REASON_OVER_QUOTA},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				metrics := NewMetrics(prometheus.NewRegistry())
				b := newBench(t, func(cfg *Config) {
					cfg.Metrics, cfg.Runs, cfg.Ingest.MaxBuffered = metrics, 1, memory
					cfg.Authority.cfg.Defaults.BytesPerSecond = tt.rate
					if tt.spool > 0 {
						cfg.Ingest.SpoolDir, cfg.Ingest.SpoolMax = filepath.Join(t.TempDir(), "spool"), tt.spool
					}
				})
				defer b.close()
				c := b.client(func(cfg *client.Config) { cfg.MaxUnacked = 1 << 20 })
				defer c.Close()
				run, err := c.Open(t.Context(), client.RunInfo{ID: "run", SampleRate: 4000})
				if err != nil {
					t.Fatal(err)
				}
				b.kafka.setAway(tt.rate == 0)
				back := time.AfterFunc(5*time.Minute, func() { b.kafka.setAway(false) })
				defer back.Stop()
				noise := rand.New(rand.NewPCG(1, 2))
				began, longest := time.Now(), time.Duration(0)
				const chunks = 1500
				for i := range chunks {
					samples := make([]int16, 5000)
					for k := range samples {
						samples[k] = int16(noise.Uint32())
					}
					sending := time.Now()
					if err := run.Send(t.Context(), client.Chunk{
						Channel: 1, ReadID: "read", Number: uint32(i), FirstSample: uint64(i * 5000), Samples: samples, EndOfRead: i == chunks-1,
					}); err != nil {
						t.Fatal(err)
					}
					longest = max(longest, time.Since(sending))
				}
				if err := run.End(t.Context(), false); err != nil {
					t.Fatal(err)
				}
				if got := len(b.kafka.chunks("run")); got != chunks {
					t.Errorf("%d chunks in Kafka", got)
				}
				if tt.rate == 0 && longest < 3*time.Minute {
					t.Errorf("the device waited for %v at most", longest)
				}
				if bytes := testutil.ToFloat64(metrics.received); tt.rate > 0 && time.Since(began).Seconds() < bytes/float64(tt.rate)-3 {
					t.Errorf("%v bytes in %v", bytes, time.Since(began))
				}
				if n := testutil.ToFloat64(metrics.notices.WithLabelValues(label(tt.reason))); n < 1 {
					t.Errorf("told %v times", n)
				}
			})
		})
	}
}

// TestLeftAlone: a run whose device has gone is let go of, unended, and gone on
// with later; what a killed server left in the spool gets to Kafka without the
// device.
func TestLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "spool")
		metrics := NewMetrics(prometheus.NewRegistry())
		b := newBench(t, func(cfg *Config) {
			cfg.Metrics, cfg.Idle, cfg.Runs = metrics, time.Minute, 1
			cfg.Ingest.SpoolDir, cfg.Ingest.SpoolMax = dir, 1<<30
		})
		defer func() { b.close() }()
		api, done := b.api()
		defer done()
		d := &rawDevice{t: t, api: api}
		for i := range uint64(3) {
			if err := d.open(testRun, "s"); err != nil || d.opened.GetNext() != i {
				t.Fatalf("%v, %v", d.opened, err)
			}
			b.kafka.setAway(i == 1)
			d.send(piece(i, 1, "a", 0, 10*i))
			time.Sleep(10 * time.Second)
			res, err := d.stream.Recv()
			if ack := res.GetAck(); err != nil || ack.GetDurable() != i+1 || ack.GetCommitted() != i+1 && i != 1 {
				t.Fatalf("chunk %d: %v, %v", i, res, err)
			}
			if i == 1 { // durable in the spool, and the server ends
				b.close()
				b.stopped = nil
				b.kafka.setAway(false)
				b.start()
			} else {
				b.cut()
			}
			time.Sleep(2 * time.Minute)
			if got := len(b.kafka.chunks("run")); uint64(got) != i+1 {
				t.Errorf("%d chunks in Kafka", got)
			}
			if n := testutil.ToFloat64(metrics.runs); n != 0 || b.kafka.ended("run") {
				t.Errorf("%v runs are held though nobody pushes, ended: %v", n, b.kafka.ended("run"))
			}
		}
	})
}

// TestStoppedServerHasSentWhatItTook: a server that is asked to stop says so, and what it has taken is in Kafka.
func TestStoppedServerHasSentWhatItTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		api, done := b.api()
		defer done()
		d := &rawDevice{t: t, api: api}
		if err := d.open(testRun, "s"); err != nil {
			t.Fatal(err)
		}
		for i := range uint64(100) {
			d.send(piece(i, 1, "a", 0, 10*i))
		}
		synctest.Wait()
		b.close()
		if err := d.status(); client.Reason(err) != pushpb.Reason_REASON_STOPPING || status.Code(err) != codes.Unavailable {
			t.Error(err)
		}
		if got := len(b.kafka.chunks("run")); got != 100 {
			t.Errorf("%d chunks in Kafka", got)
		}
	})
}

// TestRunOfAnotherServerIsGivenUp: a run that another server has taken is given up.
func TestRunOfAnotherServerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		defer b.close()
		api, done := b.api()
		defer done()
		d := &rawDevice{t: t, api: api}
		if err := d.open(testRun, "s"); err != nil {
			t.Fatal(err)
		}
		b.kafka.mu.Lock()
		b.kafka.epochs["run"]++
		b.kafka.mu.Unlock()
		d.send(piece(0, 1, "a", 0, 0))
		if err := d.status(); client.Reason(err) != pushpb.Reason_REASON_TAKEN_OVER {
			t.Error(err)
		}
	})
}

// TestSamples: what arrives is what was sent, packed by the server or the device.
func TestSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		defer b.close()
		api, done := b.api()
		defer done()
		d := &rawDevice{t: t, api: api}
		if err := d.open(testRun, ""); err != nil {
			t.Fatal(err)
		}
		var plain []byte
		for i := range 10 {
			plain = binary.LittleEndian.AppendUint16(plain, uint16(i*1000-5000))
		}
		d.send(piece(0, 1, "a", 7, 0, ends, func(c *pushpb.Chunk) {
			c.Samples, c.EndReason, c.ReadNumber, c.Well = &pushpb.Chunk_Int16{Int16: plain}, "signal_positive", 5, 2
		}))
		time.Sleep(time.Second)
		packed := b.kafka.chunks("run")[0].GetVbz()
		d.send(piece(1, 2, "b", 7, 0, ends, func(c *pushpb.Chunk) { c.Samples = &pushpb.Chunk_Vbz{Vbz: packed} }))
		d.end(2)
		if err := d.status(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		got := b.kafka.chunks("run")
		if string(got[1].GetVbz()) != string(packed) || got[0].GetEndReason() != "signal_positive" || got[0].GetReadNumber() != 5 ||
			got[0].GetWell() != 2 || got[0].GetReadStart() != 7 || !got[0].GetEndOfRead() || got[0].GetCalibrationScale() != 1 {
			t.Errorf("%v", got)
		}
		if fmt.Sprint(b.kafka.runs["run"].GetSample()) != "run" {
			t.Error("a run without a sample is a sample of its own")
		}
	})
}

// TestDeviceClosesItsSide: a device may leave in order without ending its run.
func TestDeviceClosesItsSide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		defer b.close()
		api, done := b.api()
		defer done()
		d := &rawDevice{t: t, api: api}
		if err := d.open(testRun, ""); err != nil {
			t.Fatal(err)
		}
		d.send(piece(0, 1, "a", 0, 0))
		if err := d.stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if err := d.status(); !errors.Is(err, io.EOF) || len(b.kafka.chunks("run")) != 1 || b.kafka.ended("run") {
			t.Error(err)
		}
	})
}

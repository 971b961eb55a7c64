package stage

import (
	"bytes"
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

var update = flag.Bool("update", false, "write golden states that don't exist yet")

// stateBytes is a whole state, so that states can be compared.
func stateBytes(t testing.TB, s stream.State) string {
	t.Helper()
	var b strings.Builder
	for name, content := range sectionsOf(t, s) {
		fmt.Fprintf(&b, "%s %x\n", name, content)
	}
	lines := strings.Split(b.String(), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func sectionsOf(t testing.TB, s stream.State) map[string][]byte {
	t.Helper()
	sections := make(map[string][]byte)
	for _, sec := range s.Sections() {
		b, err := s.AppendSection(nil, sec.Name)
		if err != nil {
			t.Fatal(err)
		}
		sections[sec.Name] = b
	}
	return sections
}

// snapshot is a state as it is kept: the sections after a number of records.
type snapshot struct {
	at       int
	sections map[string][]byte
}

func restored(t testing.TB, cfg Config, s snapshot) stream.Handler {
	t.Helper()
	h := newHandler(t, cfg)
	for name, b := range s.sections {
		if err := h.State().RestoreSection(name, b); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// disorderlyLog is a partition with two runs, whose chunks are interleaved, lost,
// doubled, late, and in conflict; one run is sent again and ends twice.
func disorderlyLog(t testing.TB, rng *rand.Rand) []stream.Record {
	p := &partition{t: t}
	var queues [][]*streampb.SignalChunk
	for run := range 2 {
		for ch := range uint32(3) {
			var q []*streampb.SignalChunk
			for r := range 4 {
				from := run*9000 + int(ch)*3000 + r*700
				for _, c := range chunksOf(ch, fmt.Sprintf("%d-%d-%d", run, ch, r), from, from+20+30*rng.IntN(14)) {
					c.Run = fmt.Sprint("run-", run)
					if c.GetEndOfRead() && rng.IntN(4) == 0 {
						continue
					}
					switch rng.IntN(14) {
					case 0: // lost
						continue
					case 1: // twice
						q = append(q, c)
					case 2: // late
						q = slices.Insert(q, max(0, len(q)-1), c)
						continue
					case 3: // in conflict
						c.CalibrationScale = 7
					}
					q = append(q, c)
				}
			}
			queues = append(queues, q)
		}
	}
	p.start("run-0").start("run-1")
	for len(queues) > 0 {
		i := rng.IntN(len(queues))
		if len(queues[i]) == 0 {
			queues = slices.Delete(queues, i, i+1)
			continue
		}
		p.chunk(queues[i][0])
		queues[i] = queues[i][1:]
	}
	p.end("run-1").start("run-1")
	for _, c := range chunksOf(1, "again", 15_000, 15_100) {
		c.Run = "run-1"
		p.chunk(c)
	}
	return p.end("run-0").end("run-1").recs
}

func crashConfig(caller Caller) Config {
	cfg := testConfig()
	cfg.MaxReadSamples = 3 * testChunk
	cfg.Caller = caller
	return cfg
}

// TestRestoredGoesOn: after any record a handler can be replaced by one that was
// given its state, one that has replayed everything, or one that was given an
// earlier state and has replayed the rest: none can be distinguished from it.
func TestRestoredGoesOn(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 21))
		recs := disorderlyLog(t, rng)
		cfg := crashConfig(fakeCaller{})
		whole, replayed := newHandler(t, cfg), newHandler(t, cfg)
		var earlier snapshot
		versions := make(map[string]string)
		for i, rec := range recs {
			if err := whole.Handle(t.Context(), rec, new(fakeEmitter)); err != nil {
				t.Fatal(err)
			}
			if err := replayed.Replay(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
			want := stateBytes(t, whole.State())
			if got := stateBytes(t, replayed.State()); got != want {
				t.Fatalf("seed %d, record %d: replaying leaves another state", seed, i)
			}
			for _, sec := range whole.State().Sections() {
				b, err := whole.State().AppendSection(nil, sec.Name)
				if err != nil {
					t.Fatal(err)
				}
				key := fmt.Sprint(sec.Name, sec.Version)
				if old, ok := versions[key]; ok && old != string(b) {
					t.Fatalf("seed %d, record %d: version %d of section %s stands for two contents", seed, i, sec.Version, sec.Name)
				}
				versions[key] = string(b)
			}
			switch rng.IntN(10) {
			case 0:
				earlier = snapshot{i + 1, sectionsOf(t, whole.State())}
			case 1:
				h := restored(t, cfg, earlier)
				for _, rec := range recs[earlier.at : i+1] {
					if err := h.Replay(t.Context(), rec); err != nil {
						t.Fatal(err)
					}
				}
				if got := stateBytes(t, h.State()); got != want {
					t.Fatalf("seed %d: a state after %d records and the rest up to %d leave another state", seed, earlier.at, i)
				}
				replayed = h
			}
		}
		if err := whole.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// ledger is a partition's owner as far as a handler can see, and what is
// downstream for good: emissions count when they are committed, all of one or
// nothing, together with what they resolve.
type ledger struct {
	mu        sync.Mutex
	pending   []emission
	committed []stream.Out
	resolved  map[int64]bool
	failed    error
}

type emission struct {
	outs     []stream.Out
	resolved []int64
}

func (l *ledger) Emit(ctx context.Context, outs []stream.Out, resolved []int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, emission{outs, slices.Clone(resolved)})
	return nil
}

func (l *ledger) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
}

// commit makes what was emitted count: all of it, or what is before a point that
// choose chooses.
func (l *ledger) commit(choose func(n int) int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.pending)
	if choose != nil {
		n = choose(n)
	}
	for _, e := range l.pending[:n] {
		l.committed = append(l.committed, e.outs...)
		for _, o := range e.resolved {
			l.resolved[o] = true
		}
	}
	l.pending = l.pending[n:]
}

// contents lists what is downstream, sorted: the same twice is there twice.
func contents(outs []stream.Out) []string {
	list := make([]string, len(outs))
	for i, o := range outs {
		list[i] = fmt.Sprintf("%s %d %q %x", o.Topic, o.Partition, o.Key, o.Value)
	}
	slices.Sort(list)
	return list
}

// TestCrashes kills the handler at any moment, with reads in the works that are
// done in any order, and goes on as a new owner does: from a state that is not
// newer than the first open record, muted for what is dealt with, live for the
// rest. What is downstream in the end is what an owner that lived has there,
// each once.
func TestCrashes(t *testing.T) {
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(seed, 9))
		recs := disorderlyLog(t, rng)
		synctest.Test(t, func(t *testing.T) { crashes(t, seed, rng, recs, func(*Config) {}) })
	}
}

func crashes(t *testing.T, seed uint64, rng *rand.Rand, recs []stream.Record, configure func(*Config)) {
	var mu sync.Mutex
	delays := rand.New(rand.NewPCG(seed, 10)) // which reads in the works draw from
	delay := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(delays.IntN(1000)) * time.Millisecond
	}
	cfg := crashConfig(fakeCaller{before: func(ctx context.Context, _ basecall.Read) error {
		select {
		case <-time.After(delay()):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}})
	configure(&cfg)

	calm, began := new(fakeEmitter), time.Now()
	uninterrupted := newHandler(t, cfg)
	handleAll(t, uninterrupted, recs, calm)
	if err := uninterrupted.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	takes := time.Since(began)

	l := &ledger{resolved: make(map[int64]bool)}
	snapshots := []snapshot{{}}
	var h stream.Handler
	for crashes := 5; ; crashes-- {
		first := 0 // the first open record: everything before is dealt with
		for first < len(recs) && l.resolved[recs[first].Offset] {
			first++
		}
		usable := slices.DeleteFunc(slices.Clone(snapshots), func(s snapshot) bool { return s.at > first })
		from := usable[len(usable)-1]
		h = restored(t, cfg, from)
		ctx, cancel := context.WithCancel(t.Context())
		if crashes > 0 {
			ctx, cancel = context.WithTimeout(t.Context(), time.Duration(rng.Int64N(int64(takes))))
		}
		for i := from.at; i < len(recs) && ctx.Err() == nil; i++ {
			rec := recs[i]
			if l.resolved[rec.Offset] {
				if err := h.Replay(t.Context(), rec); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := h.Handle(ctx, rec, l); err != nil {
				if ctx.Err() == nil {
					t.Fatal(err)
				}
				break
			}
			if rng.IntN(20) == 0 {
				snapshots = append(snapshots, snapshot{i + 1, sectionsOf(t, h.State())})
			}
			if rng.IntN(6) == 0 {
				l.commit(nil)
			}
			if rng.IntN(3) == 0 {
				time.Sleep(delay() / 10)
			}
		}
		cancel()
		if crashes <= 0 {
			break
		}
		l.commit(func(n int) int { return rng.IntN(n + 1) })
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		l.mu.Lock()
		l.pending = nil
		l.mu.Unlock()
	}
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.commit(nil)
	if l.failed != nil {
		t.Fatal(l.failed)
	}
	for _, rec := range recs {
		if !l.resolved[rec.Offset] {
			t.Fatalf("seed %d: record %d is open in the end", seed, rec.Offset)
		}
	}
	got, want := contents(lasting(l.committed)), contents(lasting(calm.outs))
	if !slices.Equal(got, want) {
		t.Fatalf("seed %d: %d records downstream, want %d", seed, len(got), len(want))
	}
	if stateBytes(t, h.State()) != stateBytes(t, uninterrupted.State()) {
		t.Fatalf("seed %d: another state in the end", seed)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := uninterrupted.Close(); err != nil {
		t.Fatal(err)
	}
}

// goldenHandler is one whose state has everything in it that a state can have.
func goldenHandler(t testing.TB) stream.Handler {
	t.Helper()
	p := &partition{t: t}
	p.start("run-1").start("run-2").read(1, "finished", 100, 250).read(3, "short", 500, 510)
	for _, c := range chunksOf(1, "cut", 1000, 1190)[:4] {
		p.chunk(c)
	}
	gap := chunksOf(2, "gap", 2000, 2190)
	p.chunk(gap[0]).chunk(gap[3]).chunk(gap[1])
	p.chunk(chunksOf(2, "earlier", 1500, 1690)[1])
	p.end("run-2")
	cfg := testConfig()
	cfg.MaxReadSamples = 3 * testChunk
	cfg.Model = "fast sha256:0123"
	h := newHandler(t, cfg)
	for _, rec := range p.recs {
		if err := h.Replay(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func TestGoldenState(t *testing.T) {
	s := goldenHandler(t).State()
	path := filepath.Join("testdata", "state.v1.txt")
	encoded := goldenText(t, s)
	golden, err := os.ReadFile(path)
	if os.IsNotExist(err) && *update {
		golden = []byte(encoded)
		if err = os.MkdirAll("testdata", 0o755); err == nil {
			err = os.WriteFile(path, golden, 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if encoded != string(golden) {
		t.Errorf("the state is written as\n%s\nwant\n%s", encoded, golden)
	}
	cfg := testConfig()
	cfg.MaxReadSamples, cfg.Model = 3*testChunk, "fast sha256:0123"
	h := restored(t, cfg, parseGolden(t, string(golden)))
	if got := goldenText(t, h.State()); got != string(golden) {
		t.Errorf("restored the golden state is written as\n%s", got)
	}
	f := h.(*handler).fold
	if f.assembler.openReads() != 3 || f.assembler.channels != 3 || !f.runs.Ended("run-2") || f.runs.Active("run-2") || !f.runs.Active("run-1") {
		t.Error("the golden state means something else")
	}
}

// goldenText is a state as lines of hexadecimal digits, behind the names of the
// sections.
func goldenText(t testing.TB, s stream.State) string {
	t.Helper()
	format := s.Format()
	text := fmt.Sprintf("# %s version %d, %s\n", format.Stage, format.Version, format.Fingerprint)
	for _, sec := range s.Sections() {
		b, err := s.AppendSection(nil, sec.Name)
		if err != nil {
			t.Fatal(err)
		}
		text += sec.Name + "\n"
		for line := range slices.Chunk(b, 48) {
			text += "  " + hex.EncodeToString(line) + "\n"
		}
	}
	return text
}

func parseGolden(t testing.TB, text string) snapshot {
	t.Helper()
	s := snapshot{sections: make(map[string][]byte)}
	name := ""
	for line := range strings.Lines(text) {
		line, content := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "  ")
		switch {
		case strings.HasPrefix(line, "#"):
		case content:
			b, err := hex.DecodeString(line)
			if err != nil {
				t.Fatal(err)
			}
			s.sections[name] = append(s.sections[name], b...)
		default:
			name = line
		}
	}
	return s
}

// TestFingerprint: states differ by what they depend on besides the records.
func TestFingerprint(t *testing.T) {
	seen := make(map[string]string)
	for name, edit := range map[string]func(cfg *Config){
		"nothing":    func(*Config) {},
		"model":      func(cfg *Config) { cfg.Model = "sup" },
		"read limit": func(cfg *Config) { cfg.MaxReadSamples = 1000 },
		"memory":     func(cfg *Config) { cfg.MaxSignalMemory = 1 << 28 },
	} {
		cfg := testConfig()
		edit(&cfg)
		print := newHandler(t, cfg).State().Format().Fingerprint
		if other, exists := seen[print]; exists {
			t.Errorf("%s and %s have the fingerprint %s", name, other, print)
		}
		seen[print] = name
	}
}

func TestDamagedState(t *testing.T) {
	sections := sectionsOf(t, goldenHandler(t).State())
	for name, whole := range sections {
		for n := range whole {
			if err := newHandler(t, testConfig()).State().RestoreSection(name, whole[:n]); err == nil {
				t.Fatalf("the first %d of %d bytes of section %s are taken for all", n, len(whole), name)
			}
		}
	}
	for _, name := range []string{"", "channels/64", "channels/1", "channels/-1", "channels/01x", "other"} {
		if err := newHandler(t, testConfig()).State().RestoreSection(name, nil); err == nil {
			t.Errorf("section %q is taken", name)
		}
		if _, err := newHandler(t, testConfig()).State().AppendSection(nil, name); err == nil && name != "channels/01" {
			t.Errorf("section %q is written", name)
		}
	}
	h := newHandler(t, testConfig())
	for name, whole := range sections {
		if !strings.HasPrefix(name, "channels/") {
			continue
		}
		if err := h.State().RestoreSection(name, whole); err != nil {
			t.Fatal(err)
		}
		if err := h.State().RestoreSection(name, whole); err == nil {
			t.Errorf("section %s is taken twice", name)
		}
	}
}

func FuzzState(f *testing.F) {
	for name, b := range sectionsOf(f, goldenHandler(f).State()) {
		f.Add(name, b)
	}
	f.Add("channels/00", []byte{1, 0})
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		first := newFold(1<<20, 1<<30, nil)
		if (&state{fold: first}).RestoreSection(name, b) != nil {
			return
		}
		again, err := (&state{fold: first}).AppendSection(nil, name)
		if err != nil {
			t.Fatal(err)
		}
		second := newFold(1<<20, 1<<30, nil)
		if err := (&state{fold: second}).RestoreSection(name, again); err != nil {
			t.Fatalf("what was restored from %x is not read: %v", b, err)
		}
		if third, err := (&state{fold: second}).AppendSection(nil, name); err != nil || !bytes.Equal(third, again) {
			t.Fatalf("restored it is written as %x, want %x: %v", third, again, err)
		}
		checkHeld(t, first.assembler)
		first.assembler.finishRun("run-1")
	})
}

// benchmarkRecords are the records of benchmarkChunks, without the reads' ends.
func benchmarkRecords(b *testing.B) []stream.Record {
	p := &partition{t: b}
	p.start("run-1")
	for _, c := range benchmarkChunks() {
		c.EndOfRead = false
		p.chunk(c)
	}
	return p.recs
}

// BenchmarkReplay measures a partition that is restored from its log.
func BenchmarkReplay(b *testing.B) {
	recs := benchmarkRecords(b)
	n := 0
	for b.Loop() {
		h := newHandler(b, testConfig())
		for _, rec := range recs {
			if err := h.Replay(b.Context(), rec); err != nil {
				b.Fatal(err)
			}
			n += 4000
		}
	}
	b.ReportMetric(float64(n)/1e6/b.Elapsed().Seconds(), "Msamples/s")
}

// BenchmarkState measures a state that is written to and read from sections.
func BenchmarkState(b *testing.B) {
	h := newHandler(b, testConfig())
	recs := benchmarkRecords(b)
	for _, rec := range recs {
		if err := h.Replay(b.Context(), rec); err != nil {
			b.Fatal(err)
		}
	}
	samples := float64(4000 * len(recs))
	sections := sectionsOf(b, h.State())
	size := 0
	for _, s := range sections {
		size += len(s)
	}
	b.Run("write", func(b *testing.B) {
		var buf []byte
		for b.Loop() {
			for _, sec := range h.State().Sections() {
				var err error
				if buf, err = h.State().AppendSection(buf[:0], sec.Name); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(samples*float64(b.N)/1e6/b.Elapsed().Seconds(), "Msamples/s")
		b.ReportMetric(float64(size)/samples, "bytes/sample")
	})
	b.Run("restore", func(b *testing.B) {
		for b.Loop() {
			restored(b, testConfig(), snapshot{sections: sections})
		}
		b.ReportMetric(samples*float64(b.N)/1e6/b.Elapsed().Seconds(), "Msamples/s")
	})
}

package folder

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream/streampb"
)

const (
	testChunk      = 10
	testPartitions = 3
	endMarker      = "5WOLB"
)

// frames are the header and the records of a BLOW5 file without compression.
func frames(tb testing.TB) (header []byte, records [][]byte) {
	tb.Helper()
	b, err := os.ReadFile("../../signal/testdata/three_none_none.blow5")
	if err != nil {
		tb.Fatal(err)
	}
	at := 68 + int(binary.LittleEndian.Uint32(b[64:]))
	header = b[:at]
	for string(b[at:]) != endMarker {
		end := at + 8 + int(binary.LittleEndian.Uint64(b[at:]))
		records = append(records, b[at:end])
		at = end
	}
	return header, records
}

// renamed is a record under another id, with its first samples only.
func renamed(record []byte, id string, samples int) []byte {
	p := record[8:]
	n := int(binary.LittleEndian.Uint16(p))
	fixed := p[2+n : 2+n+36]
	total := int(binary.LittleEndian.Uint64(p[2+n+36:]))
	data := p[2+n+44:]
	out := binary.LittleEndian.AppendUint16(make([]byte, 8), uint16(len(id)))
	out = append(out, id...)
	out = append(out, fixed...)
	out = binary.LittleEndian.AppendUint64(out, uint64(samples))
	out = append(out, data[:2*samples]...)
	out = append(out, data[2*total:]...)
	binary.LittleEndian.PutUint64(out, uint64(len(out)-8))
	return out
}

// kafka is what was sent of runs, and how much of it is committed.
type kafka struct {
	mu        sync.Mutex
	runs      map[string]*sent
	countdown int // events until the process is killed; negative: never
}

type sent struct {
	desc   *streampb.Run
	events []event
}

// event is a chunk of a read, or a run's end.
type event struct {
	read   string
	number int
	last   bool
	end    bool
}

func (s *sent) position() (p ingest.Position, err error) {
	if err := p.Begin(s.desc, testChunk, testPartitions); err != nil {
		return p, err
	}
	for _, e := range s.events {
		if e.end {
			p.End()
			continue
		}
		p.Chunk(e.read, e.number)
	}
	return p, nil
}

var errKilled = errors.New("killed")

// feed is a run as one process sends it.
type fakeFeed struct {
	k *kafka
	s *sent
}

func (k *kafka) sink(ctx context.Context, desc *streampb.Run, fn func(context.Context, Feed) error) error {
	k.mu.Lock()
	s := k.runs[desc.GetId()]
	if s == nil {
		s = &sent{desc: desc}
		k.runs[desc.GetId()] = s
	}
	k.mu.Unlock()
	return fn(ctx, &fakeFeed{k, s})
}

func (f *fakeFeed) Position() ingest.Position {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	p, err := f.s.position()
	if err != nil {
		panic(err)
	}
	return p
}

func (*fakeFeed) ChunkSamples() int { return testChunk }
func (*fakeFeed) Partitions() int32 { return testPartitions }

func (f *fakeFeed) put(e event) error {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	if f.k.countdown == 0 {
		return errKilled
	}
	f.k.countdown--
	f.s.events = append(f.s.events, e)
	return nil
}

func (f *fakeFeed) Put(_ context.Context, rd *signal.Read, samples []int16, from int) error {
	chunks := ingest.Chunks(len(samples), testChunk)
	for n := from; n < chunks; n++ {
		if err := f.put(event{read: rd.ID, number: n, last: n == chunks-1}); err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeFeed) PutCalled(_ context.Context, r *ingest.Called) error {
	return f.put(event{read: r.ID(), last: true})
}

func (*fakeFeed) Flush(context.Context) error { return nil }

func (f *fakeFeed) End(context.Context) error { return f.put(event{end: true}) }

// check says what is wrong with what was sent: every read must be there once, its
// chunks in order.
func (k *kafka) check(t *testing.T, want map[string][]string) {
	t.Helper()
	for run, ids := range want {
		s := k.runs[run]
		if s == nil {
			t.Fatalf("run %s was not sent", run)
		}
		next := make(map[string]int)
		var whole []string
		for i, e := range s.events {
			if e.end {
				if i != len(s.events)-1 {
					t.Fatalf("run %s goes on behind its end", run)
				}
				continue
			}
			if e.number != next[e.read] {
				t.Fatalf("read %s: chunk %d where %d is next", e.read, e.number, next[e.read])
			}
			if next[e.read]++; e.last {
				whole = append(whole, e.read)
				next[e.read] = -1
			}
		}
		slices.Sort(whole)
		if ids = slices.Sorted(slices.Values(ids)); !slices.Equal(whole, ids) {
			t.Fatalf("run %s: reads %v were sent, want %v", run, whole, ids)
		}
		if n := len(s.events); n == 0 || !s.events[n-1].end {
			t.Fatalf("run %s has not ended", run)
		}
	}
}

// world is folders, those who write in them, and a watch that is killed now and
// then.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	dir     string
	journal string
	header  []byte
	sources [][]byte
	files   []*writing
	called  bool                // files are FASTQ
	made    int                 // reads
	names   int                 // of files
	want    map[string][]string // reads by run
	k       *kafka
	now     time.Time
	cfg     Config
	w       *watcher
	group   *errgroup.Group
	ctx     context.Context
	cancel  context.CancelFunc
	kills   int
}

// writing is a file with what is still to be written of it.
type writing struct {
	path string
	rest []byte
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	v := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(), journal: t.TempDir(), want: make(map[string][]string),
		k: &kafka{runs: make(map[string]*sent), countdown: -1}, now: time.Unix(1e9, 0),
	}
	v.header, v.sources = frames(t)
	v.cfg = Config{Dirs: []string{v.dir}, Journal: v.journal, Topic: "signal", Poll: time.Second, Once: true, Sink: v.k.sink, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if seed%3 == 0 {
		v.cfg.Settle = 2 * time.Second
	}
	return v
}

// runIDs are the runs of the header's two read groups.
var runIDs = [2]string{"f7c95112c35c42bc2983752717adc93133266cdf", "second-run"}

func (v *world) write(path string, b []byte) {
	v.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		v.t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		v.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		v.t.Fatal(err)
	}
}

// beginCalled begins a file of some called reads.
func (v *world) beginCalled() {
	var b bytes.Buffer
	for range v.rng.IntN(8) {
		id, run := fmt.Sprintf("read-%04d", v.made), runIDs[v.rng.IntN(2)]
		v.made++
		n := 1 + v.rng.IntN(900)
		bases := make([]byte, n)
		for i := range bases {
			bases[i] = "ACGT"[v.rng.IntN(4)]
		}
		fmt.Fprintf(&b, "@%s runid=%s\n%s\n+\n%s\n", id, run, bases, strings.Repeat("5", n))
		v.want[run] = append(v.want[run], id)
	}
	v.names++
	name := fmt.Sprintf("f%03d.fastq", v.names)
	if v.rng.IntN(2) == 0 {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, err := w.Write(b.Bytes())
		if err = errors.Join(err, w.Close()); err != nil {
			v.t.Fatal(err)
		}
		b, name = z, name+".gz"
	}
	name += []string{"", ".tmp", ".part"}[v.rng.IntN(3)]
	v.files = append(v.files, &writing{filepath.Join(v.dir, []string{"", "fastq_pass", "b/c"}[v.rng.IntN(3)], name), b.Bytes()})
}

// begin begins a file of some reads.
func (v *world) begin() {
	if v.called {
		v.beginCalled()
		return
	}
	b := slices.Clone(v.header)
	for range v.rng.IntN(8) {
		source := v.rng.IntN(len(v.sources))
		id := fmt.Sprintf("read-%04d", v.made)
		v.made++
		b = append(b, renamed(v.sources[source], id, v.rng.IntN(9))...)
		run := runIDs[source%2]
		v.want[run] = append(v.want[run], id)
	}
	b = append(b, endMarker...)
	v.names++
	name := fmt.Sprintf("f%03d.blow5%s", v.names, []string{"", ".tmp", ".part"}[v.rng.IntN(3)])
	v.files = append(v.files, &writing{filepath.Join(v.dir, []string{"", "a", "b/c"}[v.rng.IntN(3)], name), b})
}

// step lets something happen in the folders.
func (v *world) step() {
	if len(v.files) == 0 || v.rng.IntN(6) == 0 {
		v.begin()
	}
	f := v.files[v.rng.IntN(len(v.files))]
	switch v.rng.IntN(5) {
	case 0, 1, 2:
		n := min(len(f.rest), v.rng.IntN(2000))
		v.write(f.path, f.rest[:n])
		f.rest = f.rest[n:]
	case 3: // renamed or moved
		to := filepath.Join(v.dir, []string{"", "moved"}[v.rng.IntN(2)], fmt.Sprintf("r%d-%s", v.rng.IntN(100), filepath.Base(f.path)))
		if _, err := os.Stat(to); err == nil {
			return
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			v.t.Fatal(err)
		}
		if os.Rename(f.path, to) == nil {
			f.path = to
		}
	case 4: // copied, as it is now or whole
		if b, err := os.ReadFile(f.path); err == nil {
			v.names++
			v.write(fmt.Sprintf("%s.copy%d%s", f.path, v.names, map[bool]string{false: ".blow5", true: ".fastq"}[v.called]), b)
		}
	}
}

// start starts a watch.
func (v *world) start() error {
	ctx, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)
	v.group, v.ctx, v.cancel = group, ctx, cancel
	if v.called {
		v.cfg.Files = &ReadFiles{Roots: []string{v.dir}}
	}
	v.w = newWatcher(v.cfg, group.Go, v.now)
	return v.w.resume(ctx, v.now)
}

// stop is the end of the process, whatever it was doing.
func (v *world) stop() {
	v.cancel()
	for _, r := range v.w.runs {
		if r.journal != nil {
			r.journal.f.Close()
		}
	}
	_ = v.group.Wait()
	_ = v.w.cfg.Files.Close()
	v.w = nil
}

// kill kills the process: what was sent and not committed may be gone, and the
// journal may end in the middle of a write.
func (v *world) kill(committed map[string]int) {
	v.kills++
	runs := v.w.runs
	v.stop()
	v.k.countdown = -1
	for id, s := range v.k.runs {
		n := committed[id]
		s.events = s.events[:n+v.rng.IntN(len(s.events)-n+1)]
		if r := runs[id]; r != nil && v.rng.IntN(2) == 0 {
			torn, err := appendRecord(nil, &record{kind: kindRead, id: "torn", count: 1, total: 1})
			if err != nil {
				v.t.Fatal(err)
			}
			v.write(filepath.Join(r.dir, journalFile), torn[:v.rng.IntN(len(torn))])
		}
	}
}

// poll lists the folders and reads what is new.
func (v *world) poll() error {
	v.now = v.now.Add(time.Second)
	l, err := list(v.cfg.Dirs, v.w.cfg.Files)
	if err != nil {
		v.t.Fatal(err)
	}
	v.w.take(l, v.now)
	for {
		more, err := v.w.poll(v.ctx, v.now)
		if err != nil || !more {
			return err
		}
	}
}

func (v *world) committed() map[string]int {
	n := make(map[string]int)
	for id, s := range v.k.runs {
		n[id] = len(s.events)
	}
	return n
}

// play lets things happen in any order, then everything is written and read.
func (v *world) play(steps int) {
	v.t.Helper()
	v.cfg.IdleEnd = 1000 * time.Hour // no run ends while its files are being written
	if err := v.start(); err != nil {
		v.t.Fatal(err)
	}
	for range steps {
		for range v.rng.IntN(4) {
			v.step()
		}
		before := v.committed()
		if v.rng.IntN(4) == 0 {
			v.k.countdown = v.rng.IntN(30)
		}
		err := v.poll()
		if err != nil && !errors.Is(err, errKilled) {
			v.t.Fatal(err)
		}
		if err != nil || v.rng.IntN(10) == 0 {
			v.kill(before)
			if err := v.start(); err != nil {
				v.t.Fatal(err)
			}
		}
		v.k.countdown = -1
	}
	for _, f := range v.files {
		v.write(f.path, f.rest)
	}
	v.stop()
	v.cfg.IdleEnd = 0
	if err := v.start(); err != nil {
		v.t.Fatal(err)
	}
	for range 20 {
		if err := v.poll(); err != nil {
			v.t.Fatal(err)
		}
	}
	done, err := v.w.done(v.now)
	// Copies of files that were not whole never are.
	if !done || err != nil && !strings.Contains(err.Error(), "0 files are broken") && len(v.want) > 0 {
		v.t.Fatalf("done %v, %v", done, err)
	}
	v.stop()
}

// TestEachReadOnce lets files grow, be renamed, moved and copied in any order,
// kills the watch at any event, and starts it again: each read is sent exactly
// once.
func TestEachReadOnce(t *testing.T) {
	kills := 0
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			v := newWorld(t, seed)
			v.play(25)
			v.k.check(t, v.want)
			kills += v.kills
		})
	}
	if kills == 0 {
		t.Error("the watch was never killed")
	}
}

// TestEachCalledReadOnce does the same with called reads, plain and compressed.
func TestEachCalledReadOnce(t *testing.T) {
	kills := 0
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			v := newWorld(t, seed)
			v.called = true
			v.play(25)
			v.k.check(t, v.want)
			kills += v.kills
		})
	}
	if kills == 0 {
		t.Error("the watch was never killed")
	}
}

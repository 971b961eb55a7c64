package folder

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// bench is a world whose folder a test fills, with what the watch says.
func bench(t *testing.T, change func(*Config)) (*world, *bytes.Buffer, *prometheus.Registry) {
	t.Helper()
	v := newWorld(t, 1)
	var log bytes.Buffer
	reg := prometheus.NewRegistry()
	v.cfg.Once, v.cfg.Logger, v.cfg.Metrics = false, slog.New(slog.NewTextHandler(&log, nil)), NewMetrics(reg)
	if change != nil {
		change(&v.cfg)
	}
	require.NoError(t, v.start())
	t.Cleanup(func() {
		if v.w != nil {
			v.stop()
		}
	})
	return v, &log, reg
}

// file is a finished BLOW5 file with reads of the first run.
func (v *world) file(ids ...string) []byte {
	b := slices.Clone(v.header)
	for _, id := range ids {
		b = append(b, renamed(v.sources[0], id, 5)...)
	}
	return append(b, endMarker...)
}

func (v *world) put(name string, b []byte) string {
	v.t.Helper()
	path := filepath.Join(v.dir, name)
	require.NoError(v.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(v.t, os.WriteFile(path, b, 0o600))
	return path
}

func (v *world) polls(n int) {
	v.t.Helper()
	for range n {
		require.NoError(v.t, v.poll())
	}
}

// sentReads are the reads of a run that were sent, in order, and its end.
func (v *world) sentReads(run string) (ids []string) {
	s := v.k.runs[run]
	if s == nil {
		return nil
	}
	for _, e := range s.events {
		switch {
		case e.end:
			ids = append(ids, "end")
		case e.number == 0:
			ids = append(ids, e.read)
		}
	}
	return ids
}

func metric(t *testing.T, reg *prometheus.Registry, name, value string) {
	t.Helper()
	base, _, _ := strings.Cut(name, "{")
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != base {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels = fmt.Sprintf("{%s=%q}", l.GetName(), l.GetValue())
			}
			if base+labels == name {
				require.Equal(t, value, fmt.Sprint(m.GetCounter().GetValue()+m.GetGauge().GetValue()), name)
				return
			}
		}
	}
	t.Errorf("no metric %s", name)
}

// TestGrowingPOD5IsSentOnce plays what ONT's library leaves on disk at each read it is given, then
// the finished file under another name.
func TestGrowingPOD5IsSentOnce(t *testing.T) {
	v, _, reg := bench(t, nil)
	const fixtures = "../../signal/testdata/unfinished/"
	parts := make(map[string][]byte)
	for to, from := range map[string]string{
		"x.pod5.tmp": "signal.part", ".ad29d727-46a3-4517-bfc0-41679919a131.tmp-reads": "reads.part", ".ad29d727-46a3-4517-bfc0-41679919a131.tmp-run-info": "runs.part",
	} {
		b, err := os.ReadFile(fixtures + from)
		require.NoError(t, err)
		parts[to] = b
	}
	stages, err := os.ReadFile(fixtures + "stages.tsv")
	require.NoError(t, err)
	seen := make(map[int]int)
	for _, line := range strings.Split(strings.TrimSpace(string(stages)), "\n")[1:] {
		var n, signal, reads, runs int
		_, err := fmt.Sscan(line, &n, &signal, &reads, &runs)
		require.NoError(t, err)
		for name, size := range map[string]int{
			"x.pod5.tmp": signal, ".ad29d727-46a3-4517-bfc0-41679919a131.tmp-reads": reads, ".ad29d727-46a3-4517-bfc0-41679919a131.tmp-run-info": runs,
		} {
			v.put(name, parts[name][:size])
		}
		v.polls(1)
		seen[n] = len(v.sentReads("run-0")) + len(v.sentReads("run-1"))
		if n == 12 { // the watch is killed, the writer goes on
			v.kill(v.committed())
			require.NoError(t, v.start())
		}
	}
	require.Equal(t, []int{0, 5, 9, 15, 19, 20}, []int{seen[4], seen[5], seen[10], seen[15], seen[20], seen[23]})
	whole, err := os.ReadFile(fixtures + "finished.pod5")
	require.NoError(t, err)
	for name := range parts {
		require.NoError(t, os.Remove(filepath.Join(v.dir, name)))
	}
	v.put("x.pod5", whole)
	v.polls(2)
	all := append(v.sentReads("run-0"), v.sentReads("run-1")...)
	require.Len(t, all, 23)
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(all))), 23)
	metric(t, reg, `porestream_ingest_watch_files{state="finished"}`, "1")
}

// TestIdleEnd ends a run of which there is nothing new, and says which file was
// not finished and how far it was read.
func TestIdleEnd(t *testing.T) {
	v, log, reg := bench(t, func(cfg *Config) { cfg.IdleEnd = 10 * time.Second })
	whole := v.file("a", "b", "c")
	path := v.put("x.blow5", whole[:len(whole)-100])
	v.polls(10)
	require.Equal(t, []string{"a", "b"}, v.sentReads(runIDs[0]))
	v.polls(3)
	require.Equal(t, []string{"a", "b", "end"}, v.sentReads(runIDs[0]))
	require.Contains(t, log.String(), `msg="a file was never finished" file=`+path+" reads=2 bytes="+fmt.Sprint(len(whole)-100)+" bytes_read=")
	metric(t, reg, "porestream_ingest_watch_unfinished_files_total", "1")

	// What comes late is counted, and what was sent is known.
	v.put("x.blow5", whole)
	v.polls(3)
	require.Equal(t, []string{"a", "b", "end"}, v.sentReads(runIDs[0]))
	require.Contains(t, log.String(), "the run has ended in Kafka, and there are more reads of it")
	metric(t, reg, "porestream_ingest_watch_late_reads_total", "1")
	// After a restart, too.
	v.stop()
	log.Reset()
	require.NoError(t, v.start())
	v.polls(3)
	require.Equal(t, []string{"a", "b", "end"}, v.sentReads(runIDs[0]))
	require.Contains(t, log.String(), "there are more reads of it")
}

// TestFinalSummary ends a run when MinKNOW says that all of it is written.
func TestFinalSummary(t *testing.T) {
	v, _, _ := bench(t, nil)
	v.put("pod5/x.blow5", v.file("a"))
	v.polls(60)
	require.Equal(t, []string{"a"}, v.sentReads(runIDs[0]), "a run stays open")
	v.put("final_summary_F_p_r.txt", []byte("instrument=MN1\nacquisition_run_id="+runIDs[0]+"\n"))
	v.polls(3)
	require.Equal(t, []string{"a", "end"}, v.sentReads(runIDs[0]))
}

// TestFinalSummaryUnfinished doesn't wait for ever for a file whose writer died.
func TestFinalSummaryUnfinished(t *testing.T) {
	v, log, _ := bench(t, nil)
	whole := v.file("a", "b")
	v.put("x.blow5", whole[:len(whole)-3])
	v.put("final_summary_F_p_r.txt", []byte("acquisition_run_id="+runIDs[0]+"\n"))
	v.polls(20)
	require.Equal(t, []string{"a", "b"}, v.sentReads(runIDs[0]))
	v.polls(20)
	require.Equal(t, []string{"a", "b", "end"}, v.sentReads(runIDs[0]))
	require.Contains(t, log.String(), "never finished")
}

// TestGoneFile: a watch that is to end fails if a file was removed before it was read to its end, unless it was put back.
func TestGoneFile(t *testing.T) {
	for _, back := range []bool{false, true} {
		v, log, _ := bench(t, func(cfg *Config) { cfg.Once = true })
		whole := v.file("a", "b")
		path := v.put("x.blow5", whole[:len(whole)-100])
		v.polls(2)
		require.NoError(t, os.Remove(path))
		v.polls(2)
		require.Contains(t, log.String(), "a file is gone that was not read to its end")
		if back {
			v.put("x.blow5", whole)
		}
		v.polls(20)
		done, err := v.w.done(v.now)
		require.True(t, done)
		if back {
			require.NoError(t, err, log.String())
			require.Equal(t, []string{"a", "b", "end"}, v.sentReads(runIDs[0]))
		} else {
			require.EqualError(t, err, "0 files are broken, 0 were never finished, 1 are gone that were not read to their end, and 0 reads came after their run's end: see the log")
		}
	}
}

// TestBrokenFile reads the others, says once what is wrong, and reads the file when
// it is mended.
func TestBrokenFile(t *testing.T) {
	v, log, reg := bench(t, func(cfg *Config) { cfg.Once = true })
	good := v.file("a", "b")
	bad := slices.Clone(good)
	at := len(v.header) + len(renamed(v.sources[0], "a", 5))
	bad[at+7] = 0xff // the length of the second record
	path := v.put("bad.blow5", bad)
	v.put("good.blow5", v.file("c"))
	v.put("text.pod5", []byte("not signal, though it is called so"))
	v.polls(6)
	require.ElementsMatch(t, []string{"a", "c", "end"}, v.sentReads(runIDs[0]))
	require.Equal(t, 1, strings.Count(log.String(), path+": byte "+fmt.Sprint(at)+": a record of "), log)
	require.Contains(t, log.String(), "text.pod5: byte 0: not POD5, BLOW5 or FAST5")
	metric(t, reg, `porestream_ingest_watch_faults_total{what="file"}`, "2")
	metric(t, reg, `porestream_ingest_watch_files{state="broken"}`, "2")
	done, err := v.w.done(v.now)
	require.True(t, done)
	require.EqualError(t, err, "2 files are broken, 0 were never finished, 0 are gone that were not read to their end, and 0 reads came after their run's end: see the log")
}

// TestCopiedFAST5IsSentOnceItIsWhole copies files in: nothing of one is sent before it is whole, then each of
// its reads once, whatever happens to the process and whatever files it is in.
func TestCopiedFAST5IsSentOnceItIsWhole(t *testing.T) {
	const run = "f7c95112c35c42bc2983752717adc93133266cdf"
	v, log, reg := bench(t, func(cfg *Config) { cfg.Once = true })
	three, err := os.ReadFile("../../signal/testdata/three_vbz.fast5")
	require.NoError(t, err)
	more, err := os.ReadFile("../../signal/fast5/testdata/multi_dense.fast5")
	require.NoError(t, err)
	v.put("a.fast5.part", three[:len(three)/3])
	v.polls(1)
	v.put("a.fast5.part", three[:len(three)-1])
	v.polls(1)
	require.Empty(t, v.sentReads(run))
	v.put("a.fast5", three)
	require.NoError(t, os.Remove(filepath.Join(v.dir, "a.fast5.part")))
	v.polls(1)
	require.Len(t, v.sentReads(run), 3)
	v.kill(v.committed())
	require.NoError(t, v.start())
	v.put("pass/b.fast5", more)
	v.put("copy of a.fast5", three)
	bad := slices.Clone(more)
	bad[len(bad)/2] ^= 0xff // within what a checksum covers
	v.put("bad.fast5", bad)
	bulk, err := os.ReadFile("../../signal/fast5/testdata/bulk.fast5")
	require.NoError(t, err)
	v.put("bulk.fast5", bulk)
	v.polls(6)
	sent := v.sentReads(run)
	require.Len(t, sent, 3+12+1)
	require.Equal(t, "end", sent[15])
	slices.Sort(sent)
	require.Len(t, slices.Compact(sent), 16)
	require.Contains(t, log.String(), "bulk.fast5: is a bulk FAST5 file")
	require.Contains(t, log.String(), "bad.fast5: ")
	metric(t, reg, `porestream_ingest_watch_files{state="broken"}`, "2")
}

func TestMendedFile(t *testing.T) {
	v, _, _ := bench(t, nil)
	v.put("x.blow5", []byte("half a copy of something"))
	v.polls(4)
	v.put("x.blow5", v.file("a"))
	v.polls(2)
	require.Equal(t, []string{"a"}, v.sentReads(runIDs[0]))
}

// TestFolderAway keeps what is known of a folder that can't be listed for a while.
func TestFolderAway(t *testing.T) {
	v, log, reg := bench(t, nil)
	whole := v.file("a", "b")
	v.put("x.blow5", whole[:len(whole)-3])
	v.polls(1)
	away := v.dir + ".away"
	require.NoError(t, os.Rename(v.dir, away))
	v.polls(3)
	require.Equal(t, 1, strings.Count(log.String(), "a folder can't be listed"), log)
	require.NotContains(t, log.String(), "a file is gone")
	metric(t, reg, `porestream_ingest_watch_faults_total{what="folder"}`, "1")
	require.NoError(t, os.Rename(away, v.dir))
	v.put("x.blow5", whole)
	v.polls(1)
	require.Contains(t, log.String(), "a folder can be listed again")
	require.Equal(t, []string{"a", "b"}, v.sentReads(runIDs[0]))
	metric(t, reg, `porestream_ingest_watch_files{state="finished"}`, "1")
}

// TestOtherRate refuses a file whose run has another sample rate than before.
func TestOtherRate(t *testing.T) {
	v, log, _ := bench(t, nil)
	v.put("a.blow5", v.file("a"))
	v.polls(1)
	v.w.runs[runIDs[0]].desc.SampleRate = 5000
	v.put("b.blow5", v.file("b"))
	v.polls(2)
	require.Contains(t, log.String(), "run "+runIDs[0]+" has 4000 samples a second here, and had 5000 before")
	require.Equal(t, []string{"a"}, v.sentReads(runIDs[0]))
}

// TestJournalGone refuses to go on with a run of which nobody knows what was sent.
func TestJournalGone(t *testing.T) {
	v, _, _ := bench(t, nil)
	v.put("x.blow5", v.file("a", "b"))
	v.polls(1)
	v.stop()
	require.NoError(t, os.RemoveAll(v.journal))
	require.NoError(t, os.MkdirAll(v.journal, 0o755))
	require.NoError(t, v.start())
	err := v.poll()
	require.ErrorContains(t, err, "run "+runIDs[0]+": 3 events of it are in Kafka, and there is no journal in ")
	require.ErrorContains(t, err, "give the --journal that the run was begun with, or --restart")
	v.cancel()
	_ = v.group.Wait()
	v.w = nil
}

// TestJournalFullFor waits while the journal's disk is full, sending nothing.
func TestJournalFullFor(t *testing.T) {
	v, log, reg := bench(t, nil)
	v.put("x.blow5", v.file("a"))
	v.polls(1)
	r := v.w.runs[runIDs[0]]
	disk := &full{file: r.journal.f}
	r.journal.f = disk
	ctx, cancel := context.WithTimeout(v.ctx, 50*time.Millisecond)
	defer cancel()
	v.put("y.blow5", v.file("b"))
	v.now = v.now.Add(time.Second)
	l, err := list(v.cfg.Dirs, v.w.cfg.Files)
	require.NoError(t, err)
	v.w.take(l, v.now)
	_, err = v.w.poll(ctx, v.now)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, []string{"a"}, v.sentReads(runIDs[0]))
	require.Contains(t, log.String(), "the journal takes nothing: no reads are sent until it does; make space on its disk")
	require.GreaterOrEqual(t, testutil.ToFloat64(v.cfg.Metrics.journal), 1.0)
	_ = reg
	disk.hasSpace = true
	v.w.catalog.files[filepath.Join(v.dir, "y.blow5")].wasRead = false
	v.polls(1)
	require.Equal(t, []string{"a", "b"}, v.sentReads(runIDs[0]))
}

// TestKnownFiles doesn't read files again after a restart that were read to their
// end, under any name.
func TestKnownFiles(t *testing.T) {
	v, _, reg := bench(t, nil)
	path := v.put("x.blow5", v.file("a", "b"))
	v.polls(1)
	v.stop()
	require.NoError(t, os.Rename(path, filepath.Join(v.dir, "y.blow5")))
	require.NoError(t, v.start())
	v.polls(1)
	metric(t, reg, "porestream_ingest_watch_known_reads_total", "0")
	metric(t, reg, `porestream_ingest_watch_files{state="finished"}`, "1")
	require.Equal(t, []string{"a", "b"}, v.sentReads(runIDs[0]))
}

// TestWatchFolder lets a file grow under a running watch.
func TestWatchFolder(t *testing.T) {
	v := newWorld(t, 1)
	v.cfg.Poll, v.cfg.Settle = 10*time.Millisecond, 0
	whole := v.file("a", "b", "c")
	ready := make(chan struct{}, 100)
	done := make(chan error, 1)
	path := v.put("sub/x.blow5.tmp", whole[:len(whole)-200])
	v.cfg.IdleEnd = time.Second
	go func() { done <- Watch(t.Context(), v.cfg, func() { ready <- struct{}{} }) }()
	<-ready
	v.write(path, whole[len(whole)-200:])
	require.NoError(t, os.Rename(path, filepath.Join(v.dir, "x.blow5")))
	require.NoError(t, <-done)
	require.Equal(t, []string{"a", "b", "c", "end"}, v.sentReads(runIDs[0]))
}

func TestWatchRefuses(t *testing.T) {
	v := newWorld(t, 1)
	file := v.put("x.blow5", v.file("a"))
	for dir, want := range map[string]string{
		file:                            file + ": is a file: name the folder that it is in",
		filepath.Join(v.dir, "nowhere"): filepath.Join(v.dir, "nowhere") + ": no such file or directory",
	} {
		v.cfg.Dirs = []string{dir}
		require.EqualError(t, Watch(t.Context(), v.cfg, func() {}), want)
	}
	if os.Geteuid() != 0 {
		locked := filepath.Join(v.dir, "locked")
		require.NoError(t, os.Mkdir(locked, 0))
		v.cfg.Dirs = []string{locked}
		require.EqualError(t, Watch(t.Context(), v.cfg, func() {}), locked+": permission denied: the user of ingest must be allowed to list the folder")
	}
}

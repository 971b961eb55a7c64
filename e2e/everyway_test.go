package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/blow5"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/streamtest"
	"github.com/porestream/porestream/testenv"
)

// asBLOW5 is a recording of one run in the format that grows read by read.
func asBLOW5(t *testing.T, path string) []byte {
	t.Helper()
	in, err := signal.Open(path)
	require.NoError(t, err)
	defer in.Close()
	var fields []blow5.Field
	for _, f := range [][2]string{
		{"channel_number", "char*"}, {"start_mux", "uint8_t"}, {"read_number", "uint32_t"}, {"start_time", "uint64_t"}, {"end_reason", "enum{unknown,signal_positive}"},
	} {
		field, err := blow5.NewField(f[0], f[1])
		require.NoError(t, err)
		fields = append(fields, field)
	}
	var out bytes.Buffer
	var w *blow5.Writer
	for {
		rd, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if w == nil {
			w, err = blow5.NewWriter(&out, []map[string]string{{"run_id": rd.Run.ID, "sample_id": rd.Run.SampleID}}, fields)
			require.NoError(t, err)
		}
		aux := make([]blow5.Value, len(fields))
		aux[0], err = fields[0].Text(fmt.Sprint(rd.Channel))
		require.NoError(t, err)
		for i, u := range []uint64{uint64(rd.Well), uint64(rd.Number), rd.StartSample} {
			aux[i+1], err = fields[i+1].Uint(u)
			require.NoError(t, err)
		}
		aux[4], err = fields[4].Text(rd.EndReason.String())
		require.NoError(t, err)
		require.NoError(t, w.Add(&blow5.Record{
			ReadID: rd.ID, Digitisation: 4096, Offset: float64(rd.Calibration.Offset), Range: 4096 * float64(rd.Calibration.Scale),
			SamplingRate: float64(rd.Run.SampleRate),
		}, aux, rd.Samples))
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// wholeVariable asks TestEveryWayIn to take the whole recording beside the
// checkout instead of a part of it.
const wholeVariable = "PORESTREAM_WHOLE"

// recorded is a recording of one run, and what the pipeline makes of it.
type recorded struct {
	reads, ref string
	run        string // its id
	sample     string
	lengths    map[string]uint64 // samples by read
	device     string            // gives back what the network has made of its signal
	vcf        string            // of a plain run
}

// newRecorded runs the pipeline over a recording, once with the network; all that
// follow take its recorded scores, so that each way in costs little.
func newRecorded(t *testing.T) *recorded {
	t.Helper()
	r := &recorded{reads: lambdaReads(t), ref: lambda("reference.fa"), lengths: make(map[string]uint64)}
	if os.Getenv(wholeVariable) == "" {
		r.device, r.vcf = recordedNetwork(t, "1ms:32"), string(undisturbed(t))
	} else {
		r.reads, r.ref = testenv.Recordings(t, "lambda-r9/reads.pod5"), testenv.Recordings(t, "lambda-r9/J02459.1.fa")
		scores := filepath.Join(t.TempDir(), "scores.pssc")
		recordScores(t, scores, r.reads)
		r.device = "sim:1ms:32:" + scores
		r.vcf = string(readFile(t, run(t, r.ref, lambda("genes.gff3"), r.reads), "variants.vcf"))
	}
	index, err := signal.NewIndex(t.Context(), []string{r.reads})
	require.NoError(t, err)
	defer index.Close()
	require.Len(t, index.Runs(), 1)
	r.run, r.sample = index.Runs()[0].ID, index.Runs()[0].SampleID
	for i := range index.Len() {
		r.lengths[index.Entry(i).ID] = uint64(index.Entry(i).NumSamples)
	}
	return r
}

// wayIn is a way for a recording's signal to get to Kafka.
type wayIn struct {
	t      *testing.T
	rec    *recorded
	client *kafka.Client
	addr   string
	prefix string          // of the topics that are its own
	ctx    context.Context // ends with the test or when a service fails
	cancel context.CancelCauseFunc
}

func (w *wayIn) topics() stream.Topics { return stream.NewTopics(w.prefix) }

// ingest starts an ingest that may be killed.
func (w *wayIn) ingest(args ...string) *service {
	w.t.Helper()
	return start(w.t, w.cancel, "ingest", append(args, "--brokers", w.addr, "--topic-prefix", w.prefix, "--partitions", "3", "--listen", "127.0.0.1:0")...)
}

// await waits until there are so many records of signal.
func (w *wayIn) await(n int64) {
	w.t.Helper()
	streamtest.Eventually(w.ctx, w.t, fmt.Sprintf("%d records of signal", n), func() bool { return w.committed() >= n })
}

// committed is how many records of signal there are.
func (w *wayIn) committed() (n int64) {
	offsets, err := w.client.Offsets(w.ctx, w.topics().Signal)
	require.NoError(w.t, err)
	for _, o := range offsets {
		n += o.Stable
	}
	return n
}

// kill kills a process as the system would that is out of memory.
func kill(t *testing.T, s *service) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Kill())
	<-s.exited
}

// TestEveryWayIn: whichever way the reads of a recording come in, and whatever is
// killed meanwhile, each is on the topics once, and the variants are the same
// bytes.
func TestEveryWayIn(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the services")
	}
	t.Parallel()
	rec := newRecorded(t)
	onBroker(t, func(t *testing.T, addr string) {
		client, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{addr}})
		require.NoError(t, err)
		t.Cleanup(client.Close)
		through := func(t *testing.T, name string, feed func(*wayIn) (run string)) (signal []string, segments []string) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			w := &wayIn{t: t, rec: rec, client: client, addr: addr, prefix: name + "-", ctx: ctx, cancel: cancel}
			require.NoError(t, client.EnsureTopics(ctx, w.topics().Settings(3), 1))
			processor := start(t, cancel, "processor", "--brokers", addr, "--topic-prefix", w.prefix, "--ref", rec.ref, "--gff", lambda("genes.gff3"),
				"--device", rec.device, "--listen", "127.0.0.1:0")
			followRun(ctx, t, client, w.topics(), feed(w), nil)
			processor.stop(t)
			res := pore(t, "consume", "--brokers", addr, "--topic-prefix", w.prefix, "--format", "vcf", "--ref", rec.ref)
			require.Zero(t, res.code, res.stderr)
			require.Equal(t, rec.vcf, res.stdout)
			return w.chunks(), w.segments()
		}
		wantChunks, wantSegments := through(t, "played", (*wayIn).play)
		for name, way := range map[string]struct {
			feed func(*wayIn) string
			// ownChunks says that the signal is cut otherwise than ingest cuts it.
			ownChunks bool
		}{
			"growing-blow5": {feed: (*wayIn).growBLOW5},
			"growing-pod5":  {feed: (*wayIn).growPOD5},
			"pushed":        {feed: (*wayIn).push},
			"minknow":       {feed: (*wayIn).sequence, ownChunks: true},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				chunks, segments := through(t, name, way.feed)
				if !way.ownChunks {
					require.Len(t, chunks, len(wantChunks))
					require.True(t, slices.Equal(wantChunks, chunks), "other chunks than of the recorded file")
				}
				require.Len(t, segments, len(wantSegments))
				require.True(t, slices.Equal(wantSegments, segments), "other alignments than of the recorded file")
			})
		}
	})
}

// signalChunks are the chunks on a topic of signal, by partition and in order.
func signalChunks(t *testing.T, client *kafka.Client, topic string) (out [3][]*streampb.SignalChunk) {
	t.Helper()
	for partition, records := range committedSignal(t, client, topic) {
		for _, r := range records {
			_, value, _ := bytes.Cut([]byte(r), []byte("="))
			m, err := stream.DecodeSignal(value)
			if err == nil && m.GetChunk() != nil {
				out[partition] = append(out[partition], m.GetChunk())
			}
		}
	}
	return out
}

// chunks lists the chunks on a topic of signal, each with where it is.
func chunks(t *testing.T, client *kafka.Client, topic string) (list []string) {
	t.Helper()
	for partition, chunks := range signalChunks(t, client, topic) {
		for _, c := range chunks {
			list = append(list, fmt.Sprintf("%d %s", partition, c))
		}
	}
	slices.Sort(list)
	return list
}

// chunks lists the chunks that are committed, and checks that they are the samples
// of the recording, each once.
func (w *wayIn) chunks() []string {
	w.t.Helper()
	next := make(map[string]uint64)
	for _, chunks := range signalChunks(w.t, w.client, w.topics().Signal) {
		for _, c := range chunks {
			require.Equal(w.t, next[c.GetReadId()], c.GetFirstSample(), "read %s", c.GetReadId())
			next[c.GetReadId()] += uint64(c.GetSampleCount())
		}
	}
	require.Equal(w.t, w.rec.lengths, next)
	return chunks(w.t, w.client, w.topics().Signal)
}

// segments lists what is committed of aligned reads, and checks that nothing is
// there twice.
func (w *wayIn) segments() (list []string) {
	w.t.Helper()
	committed(w.t, w.client, w.topics().Reads)
	seen := make(map[string]bool)
	err := w.client.Consume(w.t.Context(), w.topics().Reads, kafka.ConsumeOptions{From: kafka.FromStart, UntilEnd: true}, func(rec stream.Record) error {
		m, err := stream.DecodeReads(rec.Value)
		if err != nil || m.GetSegment() == nil {
			return err
		}
		s := m.GetSegment()
		id := fmt.Sprintf("%s/%d/%d/%s/%d", s.GetReadId(), s.GetPart(), s.GetAlignment(), s.GetContig(), s.GetRegion())
		require.False(w.t, seen[id], "segment %s is there twice", id)
		seen[id] = true
		// What depends on the way in, and on when.
		s.Run, s.LastChunkMs = "", 0
		list = append(list, s.String())
		return nil
	})
	require.NoError(w.t, err)
	require.NotEmpty(w.t, list)
	slices.Sort(list)
	return list
}

// play plays the recorded file.
func (w *wayIn) play() string {
	w.ingest(w.rec.reads).ended(w.t)
	return w.rec.run
}

// watch starts an ingest that follows a folder.
func (w *wayIn) watch(dir, journal string, flags ...string) *service {
	w.t.Helper()
	return w.ingest(append([]string{"folder", "--journal", journal, "--poll", "100ms", "--settle", "100ms", dir}, flags...)...)
}

// endRun says, as MinKNOW does, that all files of the run are written.
func (w *wayIn) endRun(dir string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(filepath.Join(dir, "final_summary_x.txt"), []byte("acquisition_run_id="+w.rec.run+"\n"), 0o600))
}

// growBLOW5 writes a file 100 kB at a time. The watch is killed twice, and so is the
// writer, in the middle of a record; started again, it begins the file anew. At the
// end the file gets another name, and the reads are in another one, too.
func (w *wayIn) growBLOW5() string {
	file := asBLOW5(w.t, w.rec.reads)
	chunks := int64(len(w.rec.lengths))
	dir, journal := w.t.TempDir(), w.t.TempDir()
	path := filepath.Join(dir, "reads.blow5.tmp")
	written := 0
	writeUpTo := func(n int) {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(w.t, err)
		defer f.Close()
		for written < n {
			until := min(n, written+100_000)
			_, err := f.Write(file[written:until])
			require.NoError(w.t, err)
			written = until
		}
	}
	watch := w.watch(dir, journal)
	writeUpTo(len(file) / 3)
	w.await(chunks / 6)
	kill(w.t, watch)
	writeUpTo(len(file) / 2)
	watch = w.watch(dir, journal)
	w.await(chunks / 3)
	// The writer dies, and begins anew.
	require.NoError(w.t, os.Truncate(path, 0))
	written = 0
	writeUpTo(len(file) * 3 / 4)
	w.await(chunks / 2)
	kill(w.t, watch)
	watch = w.watch(dir, journal)
	writeUpTo(len(file))
	require.NoError(w.t, os.Rename(path, filepath.Join(dir, "reads.blow5")))
	again, err := os.ReadFile(w.rec.reads)
	require.NoError(w.t, err)
	require.NoError(w.t, os.WriteFile(filepath.Join(dir, "again.pod5"), again, 0o600))
	w.endRun(dir)
	w.untilEnded()
	kill(w.t, watch)
	w.watch(dir, journal, "--once").ended(w.t)
	return w.rec.run
}

// untilEnded waits until the run's end is on the topic of signal.
func (w *wayIn) untilEnded() {
	w.t.Helper()
	followRun(w.ctx, w.t, w.client, w.topics(), w.rec.run, nil)
}

// growPOD5 has ONT's library write the file, read by read. The watch is killed
// twice, and so is the writer; started again, it writes another file from the
// first read on.
func (w *wayIn) growPOD5() string {
	python := testenv.Python(w.t, "PORESTREAM_SIGNAL_PYTHON", "pod5", "pod5", "lib_pod5")
	dir, journal := w.t.TempDir(), w.t.TempDir()
	reads := len(w.rec.lengths)
	chunks := int64(reads)
	first := newPOD5Writer(w.t, python, w.rec.reads, filepath.Join(dir, "first.pod5"))
	watch := w.watch(dir, journal)
	first.write(reads / 3)
	w.await(chunks / 6)
	kill(w.t, watch)
	first.write(reads / 6)
	first.kill()
	watch = w.watch(dir, journal)
	w.await(chunks / 3)
	// What is left of the dead writer's file goes, as it would be written anew.
	left, err := os.ReadDir(dir)
	require.NoError(w.t, err)
	require.Len(w.t, left, 3)
	for _, file := range left {
		require.NoError(w.t, os.Remove(filepath.Join(dir, file.Name())))
	}
	second := newPOD5Writer(w.t, python, w.rec.reads, filepath.Join(dir, "second.pod5"))
	second.write(reads * 3 / 4)
	w.await(chunks / 2)
	kill(w.t, watch)
	w.watch(dir, journal)
	second.finish()
	w.endRun(dir)
	return w.rec.run
}

// pod5Writer is a process that writes a POD5 file with ONT's library.
type pod5Writer struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
	log   *bytes.Buffer
}

func newPOD5Writer(t *testing.T, python, from, to string) *pod5Writer {
	t.Helper()
	p := &pod5Writer{t: t, cmd: exec.Command(python, filepath.Join("testdata", "write_pod5.py"), from, to), log: new(bytes.Buffer)}
	p.cmd.Stderr = p.log
	var err error
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.lines = bufio.NewReader(out)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.kill)
	return p
}

// write has it write some reads more.
func (p *pod5Writer) write(reads int) {
	p.t.Helper()
	_, err := fmt.Fprintln(p.stdin, reads)
	require.NoError(p.t, err)
	_, err = p.lines.ReadString('\n')
	require.NoError(p.t, err, p.log)
}

func (p *pod5Writer) finish() {
	p.t.Helper()
	require.NoError(p.t, p.stdin.Close())
	require.NoError(p.t, p.cmd.Wait(), p.log)
}

func (p *pod5Writer) kill() {
	if p.cmd.ProcessState == nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	}
}

// push pushes the recording with 20 disconnections and two kills of the server.
func (w *wayIn) push() string {
	server := startServe(w.t, w.addr, w.prefix, "--spool", filepath.Join(w.t.TempDir(), "spool"))
	pushRecording(w.ctx, w.t, server, w.rec.reads, 20, 2)
	return w.rec.run
}

// sequence has a simulated MinKNOW sequence the reads, over other channels than they
// were recorded on, and loses nothing.
func (w *wayIn) sequence() string {
	sim := startMinKNOW(w.t, w.rec.reads, "--channels", "64", "--pace", "20", "--sample", w.rec.sample)
	w.ingest(sim.follow("--once")...).ended(w.t)
	report, err := sim.Report()
	require.NoError(w.t, err)
	require.Empty(w.t, report.Dropped)
	return report.Run
}
